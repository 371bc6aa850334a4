"""Sections about models and programs: safeguards, counterexamples, state graphs, coverage and costs."""

import copy
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fencepost.reports.command_lines import PRINTING, SEARCHING, drop_options, with_token
from fencepost.reports.folder import Entry, Findings
from fencepost.reports.lcov import NUMBERS
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
from fencepost.reports.page.graph import error_path, picture
from fencepost.reports.page.mermaid import mermaid, mermaid_states
from fencepost.reports.page.sequence import diagram, moments, shortened_end
from fencepost.reports.places import place
from fencepost.reports.text import plural
from fencepost.results import (
    AuditCoverage,
    AuditResult,
    CheckResult,
    CounterexampleStep,
    NearestPass,
    PropertyResult,
    Row,
    Share,
    StateGraph,
    TraceStep,
    Violation,
)

KINDS = {"model": "everything on", "broken": "mistake"}
LINES_MAX = 150
"""Of one counterexample: keeps the page small however long a run was."""
BODY_LENGTH = 80
"""Of a body, or of what differs between two."""
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
    """Show the consequence of a switch, and mark an unexpected one."""
    text = f"breaks {row.property}" if row.found else "nothing breaks"
    if row.verdict == "undecided":
        return verdict("undecided", "a limit was hit first")
    if row.unexpected:
        return verdict("violated", f"{text}: unexpected")
    return verdict("holds", text if row.found or row.kind == "assumption" else "holds")


# Counterexamples, drawn and listed, beside the nearest run that passes.


def counterexamples(found: Findings) -> Markup | None:
    """Each violated property of each model and each program, where nothing was switched off."""
    return _violated(found, expected=False)


def expected_violations(found: Findings) -> Markup | None:
    """The same, where a safeguard was switched off on purpose. Folded: nothing is to be done about them."""
    return _violated(found, expected=True)


def _violated(found: Findings, *, expected: bool) -> Markup | None:
    of_models = (
        _violated_model(entry, row, f"{anchor(entry)}-{at}")
        for entry in found.of(CheckResult)
        for at, row in enumerate(entry.data.properties)
        if row.verdict == "violated" and entry.expected == expected
    )
    of_programs = (
        _violated_program(entry, violation, f"{anchor(entry)}-{at}")
        for entry in found.of(AuditResult)
        for at, violation in enumerate(entry.data.violations)
        if entry.expected == expected
    )
    return join(*of_models, *of_programs) or None


def _counterexample(entry: Entry, name: str, number: str, reason: str, *content: Content) -> Markup:
    """One counterexample: a heading that folds it, what was violated, and how."""
    kind = "holds" if entry.expected else "violated"
    text = f"{reason} (expected without {', '.join(entry.switched_off)})" if entry.expected else reason
    where = place(entry.data, entry.data.violations) if isinstance(entry.data, AuditResult) else None
    return tag(
        "article",
        tag(
            "details",
            tag("summary", tag("h3", f"{entry.title}: {name}")),
            tag("p", verdict(kind, text)),
            tag("p", "At ", tag("code", f"{where[0]}:{where[1]}")) if where else None,
            *content,
            open=not entry.expected,
        ),
        id=number,
    )


def _violated_model(entry: Entry, row: PropertyResult, number: str) -> Markup:
    more = len(row.trace) - LINES_MAX
    shown = row.trace[:LINES_MAX]
    return _counterexample(
        entry,
        row.name,
        number,
        row.reason or "violated",
        tag("p", row.doc),
        tag(
            "ol",
            [
                _step(step, state, f"{number}-state")
                for step, state in zip(shown, states_of(shown), strict=True)
            ],
            class_="counterexample",
            start=0,
        ),
        tag("p", f"and {more} more steps, in the result itself") if more > 0 else None,
        _mermaid(mermaid_states(row.trace)) if row.trace else None,
    )


def states_of(trace: Sequence[TraceStep]) -> Iterator[dict[str, Any]]:
    """The whole state after each step, each a value of its own."""
    state: dict[str, Any] = {}
    for step in trace:
        if step.state is not None:
            state = dict(step.state)
        state = copy.deepcopy(state)
        for name, (_, new) in (step.changes or {}).items():
            _set(state, name, new)
        yield state


def _set(state: dict[str, Any], name: str, value: Any) -> None:
    """Set `name`, or one element of it as in `manager[1]` and `at[0][2]`."""
    field, *indices = re.findall(r"[^\[\]]+", name)
    holder: Any = state
    keys: list[Any] = [field, *(int(i) if i.isdigit() else i for i in indices)]
    try:
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value
    except (KeyError, IndexError, TypeError):
        state[name] = value  # of a shape that is not known here: shown under its own name


def _step(step: TraceStep, state: Mapping[str, Any], group: str) -> Markup:
    """One step of a model: the action and what it changed; opened, the whole state with the changes marked.

    The steps of a counterexample are one group: opening the next one closes the last, without any script.
    """
    changed = step.changes or {}
    parameters = ", ".join(f"{name}={value}" for name, value in step.parameters.items())
    changes = [
        tag("span", tag("i", name), f" {_value(old)} → {_value(new)}", class_="change")
        for name, (old, new) in changed.items()
    ]
    title = "at the start" if step.action is None else f"{step.action}({parameters})"
    tree = tag("ul", [_branch(name, value, changed) for name, value in state.items()], class_="tree")
    return tag(
        "li",
        tag("details", tag("summary", tag("b", title), " ", join(*changes)), tree, name=group),
    )


def _branch(name: str, value: object, changed: Mapping[str, Any], path: str = "") -> Markup:
    """A field of a state, with a branch for each element when one of them changed or is not plain."""
    path = path or name
    mark = "changed" if path in changed else None
    inner: Sequence[tuple[str, object]] = ()
    if isinstance(value, Mapping):
        inner = [(f"{path}[{key}]", one) for key, one in value.items()]
    elif isinstance(value, list) and (
        any(isinstance(one, list | Mapping) for one in value)
        or any(c.startswith(f"{path}[") for c in changed)
    ):
        inner = [(f"{path}[{at}]", one) for at, one in enumerate(value)]
    if inner:
        return tag(
            "li", name, tag("ul", [_branch(key[len(path) :], one, changed, key) for key, one in inner])
        )
    text = join(f"{name} = ", tag("mark", _value(value)) if mark else _value(value))
    old = changed[path][0] if mark else None
    return tag("li", text, f" (was {_value(old)})" if mark else None, class_=mark)


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _violated_program(entry: Entry, violation: Violation, number: str) -> Markup:
    name = f"{entry.title}: {violation.property}"
    drawn = _drawn(violation.events, f"How it came to it: {name}", f"Sequence diagram of {name}", number)
    return _counterexample(
        entry,
        violation.property,
        number,
        violation.reason,
        [tag("p", "Raised at ", tag("code", line)) for line in violation.raised_at],
        tag("div", _moments(violation.events, number), drawn, class_="stepping", data_counterexample=number)
        if drawn
        else None,
        folded(
            "The same as a list of steps",
            _code_steps(violation.steps, f"The steps of {name}")
            if violation.steps
            else _lines(violation.counterexample, f"The steps of {name}"),
            open_=True,  # on a phone the picture is wider than the screen, and the list is not
        ),
        _mermaid(mermaid(violation.events)) if violation.events else None,
        _nearest(violation.nearest_pass, name, number) if violation.nearest_pass else None,
        tag("p", "To reproduce: ", tag("code", replay_command(entry, violation))),
    )


def _moments(events: Sequence[Mapping[str, Any]], number: str) -> Markup:
    """Step controls that need no script: the moment that a link points at is the last in full."""
    links = [
        tag("a", at, href=f"#{number}-m{at}", aria_label=f"Moment {at}")
        for at in range(1, moments(events) + 1)
    ]
    return tag("p", "Up to moment ", join(*links), tag("a", "all", href=f"#{number}"), class_="moments")


def _drawn(events: Sequence[Mapping[str, Any]], title: str, label: str, number: str) -> Markup | None:
    return scrolling(diagram(events, title, number=number), label) if events else None


def _mermaid(text: str) -> Markup:
    return folded("The same as Mermaid text", tag("pre", text))


def _code_steps(steps: Sequence[CounterexampleStep], caption: str) -> Markup:
    """Show each step with its line of code, and the difference that a write made to the body."""
    rows = [
        (
            str(step.number),
            step.process,
            " ".join(filter(None, (step.kind, step.subject, step.condition))),
            tag("span", f"{step.fault}: {step.outcome}", class_="verdict bad")
            if step.fault
            else step.outcome,
            tag("code", f"{step.file}:{step.line}") if step.file else "",
            _body_difference(step),
        )
        for step in steps[:LINES_MAX]
    ]
    return table(caption, ("step", "process", "request", "outcome", "at", "body"), rows)


def _body_difference(step: CounterexampleStep) -> Content:
    """Show the previous body struck out, then the new one, without the common ends of long bodies."""
    if step.body is None:
        return ""
    if step.previous is None or step.previous == step.body:
        return shortened_end(step.body, BODY_LENGTH)
    fields = list(_field_differences(step.previous, step.body))
    if fields:
        return join(*fields)
    ahead = _same(step.previous, step.body)
    back = _same(step.previous[ahead:][::-1], step.body[ahead:][::-1])
    old, new = (
        shortened_end(text[ahead : len(text) - back], BODY_LENGTH) for text in (step.previous, step.body)
    )
    return join(
        "…" if ahead else "",
        tag("del", old) if old else None,
        tag("ins", new) if new else None,
        "…" if back else "",
    )


def _field_differences(before: str, after: str) -> Iterator[Markup]:
    """Yield the fields that differ between two JSON objects; nothing if they are none, or share no field."""
    try:
        old, new = json.loads(before), json.loads(after)
    except ValueError:
        return
    if not isinstance(old, dict) or not isinstance(new, dict) or not old.keys() & new.keys():
        return
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new or old[name] != new[name]:
            yield tag(
                "div",
                f"{name}: ",
                tag("del", shortened_end(json.dumps(old[name]), BODY_LENGTH)) if name in old else None,
                " ",
                tag("ins", shortened_end(json.dumps(new[name]), BODY_LENGTH)) if name in new else None,
            )


def _same(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _nearest(near: NearestPass, name: str, number: str) -> Markup:
    steps = plural(near.same_steps, "step")
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
    made = entry.provenance
    words = shlex.split(made.command) if made else ["fencepost", "audit", entry.data.system]
    return with_token(drop_options(words, SEARCHING, PRINTING), violation.token)


# State graphs of small models.


def states(found: Findings) -> Markup | None:
    """Each model that is small enough to be drawn."""
    drawn = [_states(entry, entry.data.graph) for entry in found.of(CheckResult) if entry.data.graph]
    return join(*drawn) or None


def _states(entry: Entry, graph: StateGraph) -> Markup:
    texts = [state.text for state in graph.states]
    initial = [at for at, state in enumerate(graph.states) if state.initial]
    steps = [(int(source), int(target), str(label)) for source, target, label in graph.steps]
    name = f"All states of {entry.data.model}"
    rows = [
        (str(at), text, "; ".join(f"{label} → {target}" for source, target, label in steps if source == at))
        for at, text in enumerate(texts)
    ]
    violated = next((row for row in entry.data.properties if row.verdict == "violated"), None)
    path = error_path(graph, violated.trace) if violated else []
    drawing = picture(texts, initial, steps, title=name, number=f"{anchor(entry)}-graph", path=path)
    way = (
        f"Thick: the way to the violation of {violated.name}, at state {path[-1][1]}."
        if violated and path
        else ""
    )
    listed = table(f"{name}, as a list", ("state", "holds", "leads to"), rows)
    return tag(
        "article",
        tag("h3", name),
        tag("p", way) if way else None,
        scrolling(drawing, name),
        folded("What each state holds, and where it leads", listed),
    )


# Coverage: the gaps are the part worth reading.


def model_coverage(entry: Entry) -> Markup:
    fired = entry.data.coverage
    never = [name for name, count in fired.items() if not count and name not in entry.data.left_out]
    rows = [(name, amount(count)) for name, count in fired.items()]
    return article(
        entry,
        _gaps("Actions that never fired", never),
        [tag("p", verdict("undecided", warning)) for warning in entry.data.vacuity_warnings],
        folded("How often each action fired", table("Actions", ("action", "fired"), rows, numbers=".n")),
    )


def _gaps(what: str, names: list[str]) -> Markup:
    if not names:
        return tag("p", verdict("holds", f"{what}: none"))
    return tag("p", verdict("undecided", f"{what}: {', '.join(names)}"))


def program_coverage(entry: Entry) -> Markup:
    data: AuditResult = entry.data
    covered = data.coverage
    never = [name for name, happened in covered.sometimes.items() if not happened]
    pairs = f"{plural(covered.conflicts, 'pair')} of steps in conflict"
    counts = f"{plural(data.schedules, 'schedule')}, {pairs}."
    return article(
        entry,
        tag("p", counts),
        [tag("p", verdict("undecided", finding)) for finding in data.findings],
        _gaps("Situations that never happened", never) if covered.sometimes else None,
        list(_share(data.model)) if data.model else None,
        list(_outcomes(entry)),
        folded("Replies and faults that occurred", *_counts(covered)),
    )


def _outcomes(entry: Entry) -> Iterator[Markup]:
    """The outcomes of each request line, and the lines that no schedule executed."""
    covered: AuditCoverage = entry.data.coverage
    columns = [name for name in NUMBERS if any(name in row.outcomes for row in covered.requests)]
    rows: list[list[Content]] = []
    for row in covered.requests:
        request = " ".join(filter(None, (row.kind, row.condition)))
        cells = [_met(row.outcomes.get(name)) for name in columns]
        rows.append([tag("code", f"{row.file}:{row.line}"), request, *cells])
    if rows:
        possible = [count for row in covered.requests for count in row.outcomes.values()]
        met = sum(1 for count in possible if count)
        counts = f"{met} of {plural(len(possible), 'outcome')} met"
        title = f"Outcomes by request line of {entry.title}: {counts}"
        yield table(title, ("line", "request", *columns), rows, numbers=".." + "n" * len(columns))
    missed = [
        f"{file}:{line}"
        for file, counts in covered.executed.items()
        for line, count in counts.items()
        if not count
    ]
    if covered.executed:
        yield _gaps("Lines that no schedule executed", missed)


def _met(count: int | None) -> Content:
    if count is None:
        return ""
    return amount(count) if count else tag("span", "never", class_="verdict open")


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
        yield tag("p", f"{plural(share.runs_beyond_the_bound, 'run')} left that bound.")
    if share.gaps:
        rows = [(gap.label, " → ".join(gap.path)) for gap in share.gaps]
        gaps = table("Never driven", ("step", "the model's way there"), rows)
        yield folded(f"{plural(len(share.gaps), 'gap')}, with the model's way to each", gaps)


# The cost contract: what each operation took at most, over every schedule that was run.


def costs(found: Findings) -> Markup | None:
    """A table for each audit that counted and found no violation: else the maximum may be higher."""
    counted = [entry for entry in found.of(AuditResult) if entry.data.cost and not entry.data.violations]
    return join(*map(_costs, counted)) or None


def _costs(entry: Entry) -> Markup:
    whole = entry.data.verdict == "holds" if entry.data.complete is None else entry.data.complete
    exact = all(row.get("exact", True) for row in entry.data.cost.values())
    where = "At most, in any schedule" if whole and exact else "At most, in the schedules that were run"
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
    """Show a count beside its declared bound, if it has one."""
    most, bound = row.get(column), row.get(f"{column}_max")
    if most is None:
        return ""
    if bound is None:
        return amount(most)
    return verdict("holds" if most <= bound else "violated", f"{amount(most)} of {amount(bound)}")
