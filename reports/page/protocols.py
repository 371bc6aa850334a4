"""Sections about models and programs: safeguards, counterexamples, state graphs, coverage and costs."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fencepost.reports.folder import Entry, Findings
from fencepost.reports.page.elements import (
    Content,
    Markup,
    amount,
    anchor,
    article,
    folded,
    join,
    scrolling,
    table,
    tag,
    verdict,
)
from fencepost.reports.page.graph import picture
from fencepost.reports.page.sequence import diagram, mermaid
from fencepost.results import (
    PRINTING,
    SEARCHING,
    AuditCoverage,
    AuditResult,
    CheckResult,
    Graph,
    NearestPass,
    PropertyResult,
    Row,
    Share,
    Step,
    Violation,
    drop_options,
    with_token,
)

KINDS = {"model": "everything on", "broken": "mistake"}
LINES_MAX = 150
"""Of one counterexample: keeps the page small however long a run was."""
COLUMNS = ("requests", "hops", "bytes")


# Safeguards: each protective step off, and what breaks then, in the model and in the code.


def zoo(entry: Entry) -> Markup:
    head = ("protocol", "switched off", "is a", "consequence", "steps", "seconds")
    rows = [
        (
            str(row.model),
            row.safeguard or "nothing",
            KINDS.get(row.kind, row.kind),
            consequence(row),
            row.length or "",
            f"{row.seconds:.2f}",
        )
        for row in entry.data.rows
    ]
    caption = f"What breaks without each safeguard ({entry.file})"
    return tag("div", table(caption, head, rows, numbers="....nn"), id=anchor(entry))


def mutants(entry: Entry) -> Markup:
    """The safeguards broken in the code, beside the model's shortest counterexample without the same."""
    head = ("safeguard broken in the code", "consequence", "steps", "of the model", "schedules", "seconds")
    rows = [
        (
            row.safeguard or "nothing",
            consequence(row),
            row.moves,
            row.model["length"] if isinstance(row.model, Mapping) else "",
            amount(row.schedules),
            f"{row.seconds:.2f}",
        )
        for row in entry.data.rows
    ]
    caption = f"The code of {entry.data.system} without each safeguard ({entry.file})"
    return tag("div", table(caption, head, rows, numbers="..nnnn"), id=anchor(entry))


def consequence(row: Row) -> Markup:
    """What followed, and whether that was expected."""
    text = f"breaks {row.property}" if row.found else "nothing breaks"
    if row.verdict == "undecided":
        return verdict("undecided", "a limit was hit first")
    if row.unexpected:
        return verdict("violated", f"{text}: unexpected")
    return verdict("holds", text if row.found or row.kind == "assumption" else "holds")


# Counterexamples, drawn and listed, beside the nearest run that passes.


def counterexamples(found: Findings) -> Markup | None:
    """Each violated property of each model and each program."""
    of_models = (
        _violated_model(entry, row)
        for entry in found.of(CheckResult)
        for row in entry.data.properties
        if row.verdict == "violated"
    )
    of_programs = (
        _violated_program(entry, violation, f"{anchor(entry)}-{at}")
        for entry in found.of(AuditResult)
        for at, violation in enumerate(entry.data.violations)
    )
    return join(*of_models, *of_programs) or None


def _violated_model(entry: Entry, row: PropertyResult) -> Markup:
    more = len(row.trace) - LINES_MAX
    return tag(
        "article",
        tag("h3", f"{entry.title}: {row.name}"),
        tag("p", row.doc, " ", verdict("violated", row.reason or "violated")),
        tag("ol", [_step(step) for step in row.trace[:LINES_MAX]], class_="counterexample", start=0),
        tag("p", f"and {more} more steps, in the result itself") if more > 0 else None,
        id=f"{anchor(entry)}-{row.name}",
    )


def _step(step: Step) -> Markup:
    """One step of a model: the action, and what it changed."""
    if step.action is None:
        state = ", ".join(f"{name}: {_value(value)}" for name, value in (step.state or {}).items())
        return tag("li", tag("b", "at the start"), f" {state}")
    parameters = ", ".join(f"{name}={value}" for name, value in step.parameters.items())
    changes = [
        tag("span", tag("i", name), f" {_value(old)} → {_value(new)}", class_="change")
        for name, (old, new) in (step.changes or {}).items()
    ]
    return tag("li", tag("b", f"{step.action}({parameters})"), " ", join(*changes))


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _violated_program(entry: Entry, violation: Violation, number: str) -> Markup:
    name = f"{entry.title}: {violation.property}"
    drawn = _drawn(violation.events, f"How it came to it: {name}", f"Sequence diagram of {name}", number)
    return tag(
        "article",
        tag("h3", name),
        tag("p", verdict("violated", violation.reason)),
        tag("div", drawn, class_="stepping", data_counterexample=number) if drawn else None,
        folded(
            "The same as a list of steps",
            _lines(violation.counterexample, f"The steps of {name}"),
            open_=not violation.events,
        ),
        _mermaid(violation.events),
        _nearest(violation.nearest_pass, name, number) if violation.nearest_pass else None,
        tag("p", "To reproduce: ", tag("code", replay_command(entry, violation))),
        id=number,
    )


def _drawn(events: Sequence[Mapping[str, Any]], title: str, label: str, number: str) -> Markup | None:
    return scrolling(diagram(events, title, number=number), label) if events else None


def _mermaid(events: Sequence[Mapping[str, Any]]) -> Markup | None:
    return folded("The same as Mermaid text", tag("pre", mermaid(events))) if events else None


def _nearest(near: NearestPass, name: str, number: str) -> Markup:
    steps = "1 step" if near.same_steps == 1 else f"{near.same_steps} steps"
    title = f"The nearest run that passes: the same for {steps}, then it goes another way"
    label = f"Sequence diagram of a run that passes, next to {name}"
    return folded(
        title,
        _drawn(near.events, title, label, f"{number}-near"),
        _lines(near.counterexample, f"The steps of a run that passes, next to {name}"),
        open_=True,
    )


def _lines(steps: Sequence[str], label: str) -> Markup:
    if len(steps) > LINES_MAX:
        gap = f"... {len(steps) - LINES_MAX} steps are left out here ..."
        steps = [*steps[: LINES_MAX // 2], gap, *steps[-LINES_MAX // 2 :]]
    return scrolling(tag("pre", "\n".join(steps)), label)


def replay_command(entry: Entry, violation: Violation) -> str:
    """The command of the result with the token, without the options of output and search."""
    made = entry.data.provenance
    words = shlex.split(made.command if made else f"fencepost audit {entry.data.system}")
    return with_token(drop_options(words, SEARCHING, PRINTING), violation.token)


# State graphs of small models.


def states(found: Findings) -> Markup | None:
    """Each model that is small enough to be drawn."""
    drawn = [_states(entry, entry.data.graph) for entry in found.of(CheckResult) if entry.data.graph]
    return join(*drawn) or None


def _states(entry: Entry, graph: Graph) -> Markup:
    texts = [state.text for state in graph.states]
    initial = [at for at, state in enumerate(graph.states) if state.initial]
    steps = [(int(source), int(target), str(label)) for source, target, label in graph.steps]
    name = f"All states of {entry.data.model}"
    rows = [
        (str(at), text, "; ".join(f"{label} → {target}" for source, target, label in steps if source == at))
        for at, text in enumerate(texts)
    ]
    drawing = picture(texts, initial, steps, title=name, number=f"{anchor(entry)}-graph")
    listed = table(f"{name}, as a list", ("state", "holds", "leads to"), rows)
    return tag(
        "article",
        tag("h3", name),
        scrolling(drawing, name),
        folded("What each state holds, and where it leads", listed),
    )


# Coverage: the gaps are the part worth reading.


def model_coverage(entry: Entry) -> Markup:
    fired = entry.data.coverage
    never = [name for name, count in fired.items() if not count]
    rows = [(name, amount(count)) for name, count in fired.items()]
    return article(
        entry,
        _gaps("Actions that never fired", never, stopped=bool(entry.data.stopped_by)),
        [tag("p", verdict("undecided", warning)) for warning in entry.data.vacuity_warnings],
        folded("How often each action fired", table("Actions", ("action", "fired"), rows, numbers=".n")),
    )


def _gaps(what: str, names: list[str], *, stopped: bool = False) -> Markup:
    if not names:
        return tag("p", verdict("holds", f"{what}: none"))
    return tag("p", verdict("undecided" if stopped else "violated", f"{what}: {', '.join(names)}"))


def program_coverage(entry: Entry) -> Markup:
    data: AuditResult = entry.data
    covered = data.coverage
    never = [name for name, happened in covered.sometimes.items() if not happened]
    counts = f"{amount(data.schedules)} schedules, {amount(covered.conflicts)} pairs of steps in conflict."
    return article(
        entry,
        tag("p", counts),
        [tag("p", verdict("undecided", finding)) for finding in data.findings],
        _gaps("Situations that never happened", never) if covered.sometimes else None,
        list(_share(data.model)) if data.model else None,
        folded("Replies and faults that occurred", *_counts(covered)),
    )


def _counts(covered: AuditCoverage) -> Iterator[Markup]:
    for what, counts in (("reply", covered.outcomes), ("fault", covered.faults), ("process", covered.steps)):
        if counts:
            rows = [(name, amount(count)) for name, count in counts.items()]
            yield table(f"By {what}", (what, "times"), rows, numbers=".n")


def _share(share: Share) -> Iterator[Markup]:
    """The share of the model's transitions that the code was driven through, and the gaps."""
    driven = f"{amount(share.driven)} were driven ({share.share:.1%})."
    yield tag("p", f"Of the model's {amount(share.transitions)} transitions, {driven}")
    if share.runs_beyond_the_bound:
        yield tag("p", f"{amount(share.runs_beyond_the_bound)} runs left that bound.")
    if share.gaps:
        rows = [(gap.label, " → ".join(gap.path)) for gap in share.gaps]
        gaps = table("Never driven", ("step", "the model's way there"), rows)
        yield folded(f"{len(share.gaps)} gaps, with the model's way to each", gaps)


# The cost contract: what each operation took at most, over every schedule that was run.


def costs(found: Findings) -> Markup | None:
    """A table for each audit that counted and found no violation: else the maximum may be higher."""
    counted = [entry for entry in found.of(AuditResult) if entry.data.cost and not entry.data.violations]
    return join(*map(_costs, counted)) or None


def _costs(entry: Entry) -> Markup:
    whole = entry.data.verdict == "holds" if entry.data.complete is None else entry.data.complete
    where = "At most, in any schedule" if whole else "At most, in the schedules that were run"
    rows = [row for verb, cost in entry.data.cost.items() for row in _cost_rows(verb, cost)]
    head = ("operation", "in runs", "requests", "median", "serial hops", "median", "bytes")
    return table(f"{where}: {entry.title}", head, rows, numbers="..nnnnn")


def _cost_rows(verb: str, cost: Mapping[str, Any]) -> Iterator[tuple[Content, ...]]:
    """One row over all runs, or one for each number of faults."""
    levels = cost.get("faults")
    if levels is None:
        most = {column: _against_bound(cost, column) for column in COLUMNS}
        yield (verb, "all", most["requests"], "", most["hops"], "", most["bytes"])
        return
    for level in levels:
        yield (
            verb,
            _faults(level["faults"]),
            _against_bound(level, "requests"),
            amount(level["requests_median"]),
            _against_bound(level, "hops"),
            amount(level["hops_median"]),
            amount(cost["bytes"]) if level is levels[-1] else "",
        )


def _faults(count: int) -> str:
    return "without faults" if not count else f"with at most {count} fault{'' if count == 1 else 's'}"


def _against_bound(row: Mapping[str, Any], column: str) -> Content:
    """What was counted, beside the declared bound, where there is one."""
    most, bound = row.get(column), row.get(f"{column}_max")
    if most is None:
        return ""
    if bound is None:
        return amount(most)
    return verdict("holds" if most <= bound else "violated", f"{amount(most)} of {amount(bound)}")
