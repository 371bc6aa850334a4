"""What people see of an audit, made from its JSON result and nothing else.

The same lines serve the terminal (coloured) and a test report (plain).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fencepost.reports.driven_text import cost_lines, model_lines
from fencepost.reports.quantities import amount

COLOURS = {"holds": "green", "violated": "bold red", "undecided": "yellow"}
WIDTH = 104


def audit_text(result: Mapping[str, Any], *, quiet: bool = False, gaps: bool = False) -> RenderableType:
    """The whole page but for the last word: size, coverage, findings, counterexamples."""
    page = [*size_lines(result), *coverage_lines(result["coverage"]), *cost_lines(result)]
    return Group(
        *map(Text, [] if quiet else [*page, *model_lines(result, gaps=gaps)]),
        *(Text(line, "yellow") for line in finding_lines(result)),
        *(Text(line, _colour(line)) for line in counterexample_lines(result)),
    )


def last_words(result: Mapping[str, Any], again: str) -> RenderableType:
    """The verdict with its bound; after a failure the command that replays it stands alone on the last
    line, so that it can be copied."""
    verdict = result["verdict"]
    said = Text.assemble((verdict, COLOURS[verdict]), f": {result['bound']}")
    said = Text.assemble("\n", said) if result["violations"] else said
    if not again:
        return said
    why = "to see it again" if verdict == "violated" else "to go on from here"
    return Group(said, Text(f"{why}:"), Text(again))


def replay_text(result: Mapping[str, Any]) -> RenderableType:
    """One run that was repeated from a token: its steps, and what they led to."""
    lines = counterexample_lines(result) or [f"  {line}" for line in result["counterexample"]]
    return Group(
        *(Text(line, _colour(line)) for line in lines),
        *(Text(line, "yellow") for line in finding_lines(result)),
    )


def failure_text(result: Mapping[str, Any], why: str, again: str) -> str:
    """For a test report: what is wrong in the first line, then the counterexample, and the replay command
    last."""
    lines = [why, ""]
    if result["violations"]:
        lines += [*(line.rstrip() for line in _steps(result["violations"][0])), ""]
    lines += [f"{result['verdict']}: {result['bound']}"]
    if result["strategy"] != "replay":
        lines += size_lines(result)
    lines += finding_lines(result)
    if not result["violations"] and result["strategy"] != "replay":
        lines += coverage_lines(result["coverage"])
    if again:
        lines += ["to see it again:", again]
    return "\n".join(lines)


def size_lines(result: Mapping[str, Any]) -> list[str]:
    """What was run: the system, how much of it, in what time."""
    parameters = "".join(f" {name}={value}" for name, value in result["parameters"].items())
    seconds = result["seconds"]
    runs = result["schedules"] + result["pruned"]
    rate = f", {amount(round(runs / seconds))} a second" if seconds > 0.05 else ""
    return [
        f"{result['system']}{parameters} ({result['strategy']}): {amount(result['schedules'])} interleavings "
        f"to their end, {amount(result['pruned'])} given up early as repetitions, {seconds:.2f} s{rate}"
    ]


def met_lines(coverage: Mapping[str, Any]) -> list[str]:
    """The steps of every process and every answer the store gave."""
    return [
        *_wrapped("steps", _counts(coverage["steps"])),
        *_wrapped("answers", _counts(coverage["outcomes"])),
    ]


def coverage_lines(coverage: Mapping[str, Any]) -> list[str]:
    """What the runs met: the steps of every process, every answer the store gave, every fault."""
    lines = met_lines(coverage)
    lines += _wrapped("faults", _counts(coverage["faults"]) or ["none landed"])
    lines.append(f"  conflicts   {amount(coverage['conflicts'])} pairs of steps whose order mattered")
    for name, happened in coverage.get("sometimes", {}).items():
        lines.append(f"  sometimes   {name}: {'it happened' if happened else 'it NEVER happened'}")
    return lines


def finding_lines(result: Mapping[str, Any]) -> list[str]:
    return [f"finding: {finding}" for finding in result["findings"]]


def counterexample_lines(result: Mapping[str, Any]) -> list[str]:
    """Every violation: the property, and the numbered steps that break it."""
    lines: list[str] = []
    for violation in result["violations"]:
        lines += [f"{violation['property']} is violated: {violation['reason']}", ""]
        lines += _steps(violation)
    return lines


def _steps(violation: Mapping[str, Any]) -> list[str]:
    raised = violation.get("raised_at", ())
    return [*(f"  {line}" for line in violation["counterexample"]), *(f"     at {line}" for line in raised)]


def _colour(line: str) -> str:
    """Steps in which something went wrong are marked with `!` after their number."""
    if line.lstrip().startswith("=>"):
        return "bold red"
    words = line.split(maxsplit=2)
    return "red" if len(words) > 1 and words[0].isdecimal() and words[1] == "!" else ""


def _counts(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} {amount(count)}" for name, count in counts.items()]


def _wrapped(label: str, parts: Sequence[str]) -> list[str]:
    return list(_lines(label, parts))


def _lines(label: str, parts: Sequence[str]) -> Iterator[str]:
    """The parts after their label, broken between parts and never inside one."""
    start = f"  {label:<10}  "
    line = start
    for part in parts:
        if len(line) > len(start) and len(line) + len(part) + 2 > WIDTH:
            yield line.rstrip()
            line = " " * len(start)
        line += ("" if line.endswith("  ") else ", ") + part
    yield line.rstrip()
