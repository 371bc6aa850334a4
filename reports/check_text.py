"""The text reports of `fencepost check` and `fencepost zoo`."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fencepost.reports.sizes import byte_size
from fencepost.reports.text import (
    COLOURS,
    SCREEN,
    Uncut,
    amount,
    first,
    plural,
    reproduce,
    settings,
    table,
    verdict_line,
    wrapped,
)
from fencepost.results import CheckResult, PropertyResult, Row, TraceStep, ZooResult

SENTENCE = 30
"""A sentence in a narrower column than this cannot be read."""


def check_text(result: CheckResult, again: str = "", *, verbose: bool = False) -> RenderableType:
    """Verdict, size, warnings and counterexamples; with `verbose` also every property and action."""
    violated = [row for row in result.properties if row.verdict == "violated"]
    warnings = [f"warning: {warning}" for warning in [*_never_fired(result), *result.vacuity_warnings]]
    return Group(
        verdict_line(result.verdict, _about(result, violated)),
        *map(Text, [_size(result), *_proofs(result), *(f"note: {note}" for note in result.notes)]),
        *([Uncut(_properties(result.properties), folded=True)] if verbose else []),
        *([_actions(result)] if verbose and result.coverage else []),
        *([_left_out(result)] if result.left_out else []),
        *first(warnings, verbose=verbose, style="yellow"),
        *(line for row in violated for line in _counterexample(row)),
        *(reproduce(again) if violated else []),
    )


def _about(result: CheckResult, violated: Sequence[PropertyResult]) -> str:
    without = "".join(f" without {name}" for name in result.without)
    name = f"{result.model}{settings(result.parameters.items())}{without}"
    if violated:
        return f"{name}: {', '.join(row.name for row in violated)}"
    if result.verdict == "undecided":
        left = sum(1 for row in result.properties if row.verdict == "undecided")
        bound = f" ({result.stopped_by})" if result.stopped_by else ""
        return f"{name}: {left} of {len(result.properties)} properties{bound}"
    within = f", within a bound that cut {amount(result.cut)} states" if result.cut else ""
    return f"{name}: {len(result.properties)} properties{within}"


def _size(result: CheckResult) -> str:
    share = f"{result.peak_bytes / max(1, result.distinct):.0f} bytes a state"
    odds = result.collision_odds
    hidden = f"; two states taken for one: probability {odds:.1e}, assuming a random function" if odds else ""
    return (
        f"  {amount(result.distinct)} distinct states, {amount(result.generated)} generated, depth "
        f"{result.depth}, {result.seconds:.2f} s, {byte_size(result.peak_bytes)} ({share}){hidden}"
    )


def _proofs(result: CheckResult) -> Iterator[str]:
    """A line for each refinement that was explored."""
    for row in result.properties:
        proof = row.proof
        if proof is not None:
            at = settings(proof.parameters.items()) if proof.parameters != result.parameters else ""
            other = f"{proof.refines}{settings(proof.other_parameters.items())}"
            yield (
                f"  {row.name}: refines {other}{at and f' at{at}'}: {amount(proof.distinct)} pairs of "
                f"states, {amount(proof.generated)} generated, depth {proof.depth}, {proof.seconds:.2f} s"
            )


def _properties(properties: Sequence[PropertyResult]) -> Table:
    made = table(("property", "kind", "verdict"))
    made.add_column("what it says", min_width=SENTENCE)
    for row in properties:
        reason = f" ({row.reason})" if row.reason else ""
        made.add_row(row.name, row.kind, Text(row.verdict, COLOURS[row.verdict]), Text(row.doc + reason))
    return made


def _actions(result: CheckResult) -> Text:
    counts = ", ".join(f"{action} {amount(count)}" for action, count in result.coverage.items())
    return Text(f"actions fired: {counts}")


def _never_fired(result: CheckResult) -> Iterator[str]:
    for action, count in result.coverage.items():
        if not result.stopped_by and not count and action not in result.left_out:
            yield f"{action} never fired: no reachable state enables it"


def _left_out(result: CheckResult) -> Text:
    """Names by what they need."""
    names = defaultdict(list)
    for name, needed in result.left_out.items():
        names[needed].append(name)
    return Text("note: left out here: " + "; ".join(f"{', '.join(of)} ({at})" for at, of in names.items()))


def _counterexample(row: PropertyResult) -> Iterator[Text]:
    yield Text(f"{row.name} is violated: {row.reason or row.doc}")
    for line in trace_lines(row.trace):
        yield Text(f"  {line}")


def trace_lines(trace: Sequence[TraceStep]) -> Iterator[str]:
    """A trace as numbered steps: the start with every field, then only what changed."""
    for step in trace:
        if step.action is None:
            yield "0. start  " + ", ".join(f"{name}: {shown(v)}" for name, v in (step.state or {}).items())
        else:
            parameters = ", ".join(f"{name}={shown(value)}" for name, value in step.parameters.items())
            changes = ", ".join(
                f"{name}: {shown(old)} -> {shown(new)}" for name, (old, new) in (step.changes or {}).items()
            )
            yield f"{step.step}. {step.action}({parameters})  {changes or 'nothing changes'}"
        if step.back_to is not None:
            yield f"   ... and again from step {step.back_to}"


def shown(value: object) -> str:
    """A value as a counterexample prints it."""
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name}: {shown(part)}" for name, part in value.items()) + ")"
    return "[" + ", ".join(map(shown, value)) + "]" if isinstance(value, list) else str(value)


def zoo_text(result: ZooResult, *, verbose: bool = False) -> RenderableType:
    """The verdict, then a line for each row, or for each model where the rows do not fit on a screen."""
    unexpected = sum(1 for row in result.rows if row.unexpected)
    undecided = sum(1 for row in result.rows if row.verdict == "undecided")
    parts = [plural(len(result.rows), "row"), f"{unexpected} of them unexpected"]
    parts += [f"{undecided} undecided"] if undecided else []
    shows_rows = verbose or len(result.rows) < SCREEN
    lines = [row_text(row) for row in result.rows] if shows_rows else list(_by_model(result.rows))
    return Group(verdict_line(result.verdict, ", ".join(parts)), *lines)


def _by_model(rows: Sequence[Row]) -> Iterator[Text]:
    """Yield a line for each model, or one list of all models if they do not fit on a screen."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[str(row.model)].append(row)
    if len(groups) >= SCREEN:
        counts = [f"{model} ({len(own)})" for model, own in groups.items()]
        yield from (Text(line) for line in wrapped("rows of", counts))
        groups.clear()
    for model, own in groups.items():
        fine = [row for row in own if not row.unexpected and row.verdict != "undecided"]
        properties = sum(1 for row in fine if row.kind == "property")
        needed = sum(1 for row in fine if row.kind in ("safeguard", "broken"))
        words = [plural(needed, "safeguard") + " needed"] if needed else []
        words += (
            [f"{properties} {'property' if properties == 1 else 'properties'} can be broken"]
            if properties
            else []
        )
        for kind, found in (("assumption", True), ("assumption", False)):
            names = [row.safeguard for row in fine if row.kind == kind and row.found is found]
            words += [f"{plural(len(names), kind)} {'needed' if found else 'not needed'}"] if names else []
        yield from (Text(line) for line in wrapped(model, words or ["holds"], width=24))
    yield from (row_text(row) for row in rows if row.unexpected or row.verdict == "undecided")


def row_text(row: Row) -> Text:
    """Describe the switch that is off, and the consequence."""
    name = {"model": row.model, "fixed": f"{row.model} fixed", "broken": f"{row.model} {row.safeguard}"}.get(
        row.kind, f"{row.model} without {row.safeguard}"
    )
    if row.kind == "property":
        return Text.assemble(f"  {f'{row.model} {row.property}':<48} ", _breaking(row))
    return Text.assemble(f"  {name:<48} ", _consequence(row), f"  {row.seconds:.2f} s")


def _breaking(row: Row) -> tuple[str, str]:
    """Describe the change that breaks a property."""
    if row.found:
        steps = f", in {plural(row.length, 'step')}" if row.length else ""
        return f"broken: {row.safeguard}{steps}", COLOURS["holds"]
    if row.verdict == "undecided":
        return f"not broken yet: the time was over ({row.bound})", COLOURS["undecided"]
    return (
        f"NOTHING BREAKS IT ({row.bound})\n"
        "    it may be true by its own text, or about what this model cannot do: make it stronger,\n"
        "    give the model that step, or remove it",
        COLOURS["violated"],
    )


def _consequence(row: Row) -> tuple[str, str]:
    if row.verdict == "undecided":
        return "undecided: a limit was hit first, or too little was covered", COLOURS["undecided"]
    if row.found:
        expected = row.kind in ("safeguard", "broken")
        text = f"breaks {row.property} in {plural(row.length, 'step')}"
        return text, COLOURS["violated"] if row.unexpected else COLOURS["holds"] if expected else ""
    return {
        "safeguard": ("NOTHING BREAKS: dead weight, or a hole in the properties", COLOURS["violated"]),
        "broken": ("NOT FOUND: every schedule holds", COLOURS["violated"]),
        "assumption": ("nothing breaks: the protocol does not need it within these sizes", ""),
    }.get(row.kind, ("holds", COLOURS["holds"]))
