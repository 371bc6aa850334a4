"""What was covered, and what was not: the gaps are the part worth reading."""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.reports.page.elements import Content, Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import amount, anchor, folded, table, verdict


def section(found: Findings) -> Markup | None:
    """Of each model and each audit."""
    parts = [
        *(_model(result) for result in found.of("check")),
        *(_program(result) for result in found.of("audit")),
    ]
    return join(*parts) if parts else None


def _model(result: Result) -> Markup:
    fired = result.data.get("coverage", {})
    never = [name for name, count in fired.items() if not count]
    return tag(
        "article",
        tag("h3", result.title, id=anchor(result)),
        _gaps("Actions that never fired", never, stopped=bool(result.data.get("stopped_by"))),
        [tag("p", verdict("undecided", doubt)) for doubt in result.data.get("vacuity_warnings", ())],
        folded(
            "How often each action fired",
            table("Actions", ("action", "fired"), [(n, amount(c)) for n, c in fired.items()], numbers=".n"),
        ),
    )


def _gaps(what: str, names: list[str], *, stopped: bool = False) -> Content:
    if not names:
        return tag("p", verdict("holds", f"{what}: none"))
    return tag("p", verdict("undecided" if stopped else "violated", f"{what}: {', '.join(names)}"))


def _program(result: Result) -> Markup:
    covered = result.data.get("coverage", {})
    never = [name for name, met in covered.get("sometimes", {}).items() if not met]
    return tag(
        "article",
        tag("h3", result.title, id=anchor(result)),
        tag(
            "p",
            f"{amount(result.data['schedules'])} schedules, {amount(covered.get('conflicts', 0))} pairs of "
            "steps whose order mattered.",
        ),
        [tag("p", verdict("undecided", finding)) for finding in result.data.get("findings", ())],
        _gaps("Situations that were asked for and never came about", never)
        if covered.get("sometimes")
        else None,
        list(_model_share(result.data)),
        folded("Answers and faults that were met", *_counts(covered)),
    )


def _counts(covered: Mapping[str, Any]) -> Iterator[Markup]:
    for what, key in (("answer", "outcomes"), ("fault", "faults"), ("process", "steps")):
        counts = covered.get(key) or {}
        if counts:
            yield table(
                f"By {what}", (what, "times"), [(n, amount(c)) for n, c in counts.items()], numbers=".n"
            )


def _model_share(data: Mapping[str, Any]) -> Iterator[Content]:
    """The share of the model's transitions that the code was driven through, and those that it was not."""
    share = data.get("model")
    if not isinstance(share, Mapping):
        return
    yield tag(
        "p",
        f"Of the model's {amount(share.get('transitions', 0))} transitions, "
        f"{amount(share.get('driven', 0))} were driven ({share.get('share', 0):.1%}).",
    )
    if share.get("runs_beyond_the_bound"):
        yield tag("p", f"{amount(share['runs_beyond_the_bound'])} runs left that bound.")
    gaps = share.get("gaps", ())
    if gaps:
        rows = [(gap.get("label", ""), " → ".join(gap.get("path", ()))) for gap in gaps]
        yield folded(
            f"{len(gaps)} gaps, with the model's way to each",
            table("Never driven", ("step", "the model's way there"), rows),
        )
