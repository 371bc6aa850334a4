"""Counterexamples: what happened, drawn and listed, beside the nearest run in which it did not."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fencepost.reports.page.elements import Content, Markup, join, tag
from fencepost.reports.page.found import Findings, Result
from fencepost.reports.page.sections.pieces import anchor, folded, scrolling, verdict
from fencepost.reports.page.sequence import diagram

SEARCHING = (
    *("--json", "--trace", "--strategy", "--budget", "--max-schedules", "--max-steps"),
    *("--depth", "--jobs", "--resume", "--replay"),
)
"""Options of a search, each with a value: they have no place beside --replay."""
LINES_MAX = 150
"""Of one counterexample: keeps the page small however long a run was."""


def section(found: Findings) -> Markup | None:
    """Each violated property of each model and each program."""
    counterexamples = [*_of_models(found), *_of_programs(found)]
    return join(*counterexamples) if counterexamples else None


def _of_models(found: Findings) -> Iterator[Markup]:
    for result in found.of("check"):
        for prop in result.data["properties"]:
            if prop["verdict"] == "violated":
                yield tag(
                    "article",
                    tag("h3", f"{result.title}: {prop['name']}"),
                    tag(
                        "p",
                        prop.get("doc", ""),
                        " ",
                        verdict("violated", prop.get("reason", "") or "violated"),
                    ),
                    tag(
                        "ol",
                        [_step(step) for step in prop["trace"][:LINES_MAX]],
                        class_="counterexample",
                        start=0,
                    ),
                    _more(len(prop["trace"]) - LINES_MAX),
                    id=f"{anchor(result)}-{prop['name']}",
                )


def _step(step: Mapping[str, Any]) -> Markup:
    """One step of a model: what was done, and what it changed."""
    if step.get("action") is None:
        state = ", ".join(f"{name}: {_value(value)}" for name, value in step.get("state", {}).items())
        return tag("li", tag("b", "at the start"), f" {state}")
    parameters = ", ".join(f"{name}={value}" for name, value in step.get("parameters", {}).items())
    changes = [
        tag("span", tag("i", name), f" {_value(old)} → {_value(new)}", class_="change")
        for name, (old, new) in step.get("changes", {}).items()
    ]
    return tag("li", tag("b", f"{step['action']}({parameters})"), " ", join(*changes))


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _of_programs(found: Findings) -> Iterator[Markup]:
    for result in found.of("audit"):
        for at, violation in enumerate(result.data["violations"]):
            yield _violation(result, violation, f"{anchor(result)}-{at}")


def _violation(result: Result, violation: Mapping[str, Any], number: str) -> Markup:
    name = f"{result.title}: {violation['property']}"
    return tag(
        "article",
        tag("h3", name),
        tag("p", verdict("violated", violation.get("reason", ""))),
        _run(violation, name, number),
        _nearest(violation.get("nearest_pass"), name, number),
        tag("p", "To see it again: ", tag("code", _again(result, violation))),
        id=number,
    )


def _run(run: Mapping[str, Any], name: str, number: str) -> Content:
    events = run.get("events", ())
    drawn = (
        scrolling(diagram(events, f"How it came to it: {name}", number=number), f"Sequence diagram of {name}")
        if events
        else None
    )
    return join(
        tag("div", drawn, class_="stepping", data_counterexample=number) if drawn else None,
        folded(
            "The same as a list of steps",
            _lines(run.get("counterexample", ()), f"The steps of {name}"),
            open_=not events,
        ),
    )


def _nearest(near: Mapping[str, Any] | None, name: str, number: str) -> Content:
    if not near:
        return None
    same = near["same_steps"]
    steps = "1 step" if same == 1 else f"{same} steps"
    told = f"The nearest run that passes: the same for {steps}, then it goes another way"
    drawing = scrolling(
        diagram(near["events"], told, number=f"{number}-near"),
        f"Sequence diagram of a run that passes, next to {name}",
    )
    return folded(
        told,
        drawing,
        _lines(near["counterexample"], f"The steps of a run that passes, next to {name}"),
        open_=True,
    )


def _lines(counterexample: Sequence[str], label: str) -> Markup:
    shown = (
        counterexample
        if len(counterexample) <= LINES_MAX
        else [
            *counterexample[: LINES_MAX // 2],
            f"... {len(counterexample) - LINES_MAX} steps are left out here ...",
            *counterexample[-LINES_MAX // 2 :],
        ]
    )
    return scrolling(tag("pre", "\n".join(shown)), label)


def _more(count: int) -> Content:
    return tag("p", f"and {count} more steps, in the result itself") if count > 0 else None


def _again(result: Result, violation: Mapping[str, Any]) -> str:
    """The command of the result with the token, without where it wrote and how it searched."""
    usual = f"fencepost audit {result.data['system']}"
    words = shlex.split(str(result.data.get("provenance", {}).get("command", usual)))
    kept: list[str] = []
    skipping = False
    for word in words:
        option, equals, _ = word.partition("=")
        if skipping:
            skipping = False
        elif option in SEARCHING:
            skipping = not equals
        elif option != "--quiet":
            kept.append(word)
    return shlex.join([*kept, "--replay", str(violation["token"])])
