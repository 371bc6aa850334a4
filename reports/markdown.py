"""The results as a comment on a pull request: the verdicts, and the counterexamples of what is violated,
folded."""

from collections.abc import Iterator

from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.verdicts import summary, within

SIGNS = {"holds": "✅", "safe": "✅", "violated": "❌", "unsafe": "❌"}
LINES_MAX = 60
"""Of one counterexample: a comment has a limit, and a reader too."""


def markdown(found: Findings) -> str:
    """The text, with a table and a folded counterexample for each violation."""
    lines = [f"### Fencepost: {summary(found)}", "", "| what | verdict | within |", "|---|---|---|"]
    for result in found.results:
        sign = SIGNS.get(result.verdict, "❔")
        lines.append(f"| {_cell(result.title)} | {sign} {result.verdict} | {_cell(within(result))} |")
    lines += [f"\n**{name} could not be read:** {_cell(why)}" for name, why in found.unread.items()]
    for result in found.results:
        for name, counterexample in counterexamples(result):
            shown = (
                counterexample if len(counterexample) <= LINES_MAX else [*counterexample[:LINES_MAX], "..."]
            )
            lines += ["", f"<details><summary>{_text(f'{result.title}: {name}')}</summary>", ""]
            lines += ["    " + line for line in shown]
            lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def counterexamples(result: Result) -> Iterator[tuple[str, list[str]]]:
    """The name and the steps of each violated property of a result."""
    if result.command == "audit":
        for violation in result.data["violations"]:
            yield violation["property"], list(violation["counterexample"])
    if result.command == "check":
        for prop in result.data["properties"]:
            if prop["verdict"] == "violated":
                yield prop["name"], [_step(step) for step in prop["trace"]]


def _step(step: dict[str, object]) -> str:
    parameters = step.get("parameters") or {}
    assert isinstance(parameters, dict)
    said = ", ".join(f"{name}={value}" for name, value in parameters.items())
    return f"{step['step']:>3} {step['action']}({said})" if step.get("action") else "  0 at the start"


def _cell(text: str) -> str:
    return _text(" ".join(text.split())).replace("|", "\\|")


def _text(text: str) -> str:
    """Nothing in a result becomes markup of a comment."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "`*_[]@#" else c for c in escaped)
