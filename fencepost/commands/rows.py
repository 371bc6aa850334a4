"""Rows of `fencepost zoo` and `fencepost audit --mutants`: a model or a program with one safeguard off."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.terminal import StatusLine
from fencepost.results import Verdict
from fencepost.sim.explore import AuditRequest, Diverged
from fencepost.sim.explore.audit import declared_properties
from fencepost.sim.explore.reporting import run_audit
from fencepost.sim.explore.result import AuditVerdict, Violation


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model or program with one safeguard off, or with none off; or one property of a model."""

    safeguard: str
    """The switch that is off; of a property, the change of the model that breaks it."""
    kind: str
    """`model`, `safeguard`, `assumption` or `property` of a model; `broken` or `fixed` of a program."""
    verdict: AuditVerdict
    found: bool
    unexpected: bool = False
    property: str = ""
    length: int = 0
    seconds: float = 0.0
    model: Any = None
    """The model's name in a zoo; the model's counterexample in a table of mutants."""
    system: str = ""
    schedules: int = 0
    bound: str = ""
    findings: tuple[str, ...] = ()
    counterexample: tuple[str, ...] = ()
    token: str = ""
    moves: int = 0
    times: float | None = None
    long: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    """The file of the step that a mutant of the user's own code leaves out."""
    line: int = 0
    code: str = ""
    tried: bool = True
    """False for a mutant that was not audited, because no schedule executes what it changes; see `bound`."""
    broken: tuple[str, ...] = ()
    """Of a mutant, every property that was found broken: `property`, and others."""
    executed: Mapping[str, Mapping[str, int]] = field(default_factory=dict, metadata={"serialized": False})
    """By file and line: 1 if some schedule executed it; empty if that was not recorded."""
    declared: tuple[str, ...] = field(default=(), metadata={"serialized": False})
    """Of a program as it is, the properties that it declares."""


@dataclass(frozen=True, kw_only=True)
class ZooResult:
    """The result of `fencepost zoo`."""

    rows: tuple[Row, ...]
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class MutantsResult:
    """The result of `fencepost audit --mutants` and `--mutate`."""

    system: str
    rows: tuple[Row, ...]
    verdict: Verdict
    unbroken: tuple[str, ...] = ()
    """The properties that the program declares and no mutant breaks; empty if mutants are missing."""


def collect(found: Iterable[Row], describe: Callable[[Row], str]) -> tuple[tuple[Row, ...], bool]:
    """Return the rows, and False if Ctrl-C ended them early; the status line shows each row."""
    rows: list[Row] = []
    with StatusLine() as line:
        try:
            for row in found:
                rows.append(row)
                line.show_text(describe(row))
        except KeyboardInterrupt:
            return tuple(rows), False
    return tuple(rows), True


def verdict_of(rows: Iterable[Row], *, complete: bool = True) -> Verdict:
    """Return `holds` if every row is as expected and none is missing."""
    every = list(rows)
    if any(row.unexpected for row in every):
        return "violated"
    return "holds" if complete and all(row.verdict != "undecided" for row in every) else "undecided"


def model_row(name: str, without: str, kind: str, max_states: int | None = None) -> Row:
    """The model with one safeguard or assumption off, or with none."""
    # Most audits need no model, and loading NumPy and the kernel is half of the time that they take to start.
    from fencepost.commands.models import find_machine
    from fencepost.model import Model, ModelError, check

    machine = find_machine(name)
    try:
        model = Model(machine, machine.shown_at.get(without), without=(without,) if without else ())
        result = check(model, max_states=max_states)
    except ModelError as error:
        raise BadRequest(f"{name}: {error}") from error
    broken = [row for row in result.properties if row.verdict == "violated"]
    nearest = min(broken, key=lambda row: len(row.trace), default=None)
    verdict = result.verdict
    return Row(
        model=name,
        safeguard=without,
        property=nearest.name if nearest else "",
        length=max(0, len(nearest.trace) - 1) if nearest else 0,
        seconds=result.seconds,
        found=nearest is not None,
        kind=kind,
        verdict=verdict,
        # Undecided is no surprise of its own, and an assumption that is not needed does no harm.
        unexpected=verdict == ("holds" if kind == "safeguard" else "violated") and kind != "assumption",
    )


def property_rows(
    name: str,
    seconds: float | None = None,
    max_states: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> Iterator[Row]:
    """Yield a row for each property of a model, with the first change of the model that breaks it."""
    from fencepost.commands.models import find_machine
    from fencepost.model import ModelError
    from fencepost.model.kernel.breaking import what_breaks

    try:
        found = what_breaks(find_machine(name), seconds=seconds, max_states=max_states, progress=progress)
    except ModelError as error:
        raise BadRequest(f"{name}: {error}") from error
    for each in found.properties:
        change = each.change
        open_yet = change is None and found.left > 0
        yield Row(
            model=name,
            safeguard="" if change is None else str(change),
            kind="property",
            property=each.name,
            length=each.length,
            seconds=found.seconds / max(1, len(found.properties)),
            found=change is not None,
            verdict="undecided" if open_yet else "holds" if change is None else "violated",
            unexpected=change is None and not open_yet,
            code="" if change is None else change.code,
            line=0 if change is None else change.line,
            bound=found.sentence(),
        )


def unbroken(rows: Sequence[Row], *, complete: bool = True) -> tuple[str, ...]:
    """Return the properties that the program declares and no mutant breaks; none while a row is missing."""
    if not complete or any(row.verdict == "undecided" for row in rows):
        return ()
    broken = {name for row in rows for name in row.broken}
    return tuple(name for row in rows for name in row.declared if name not in broken)


def audited_row(mutant: str, request: AuditRequest, *, others: bool = False) -> tuple[Row, Violation | None]:
    """A mutant, or the program without any mistake, and its first violation.

    `others`: look for other broken properties too, and name those that the program declares.
    """
    started = time.perf_counter()
    try:
        found = run_audit(replace(request, others=others))
        declared = declared_properties(request.setting) if others and not mutant else ()
    except Diverged as diverged:
        what = f"{request.name} {mutant}".strip()
        raise BadRequest(f"{what} does not repeat itself: {diverged}") from diverged
    if found.interrupted:
        raise KeyboardInterrupt
    result = found.result()
    worst = result.violations[0] if result.violations else None
    row = Row(
        safeguard=mutant,
        kind="broken" if mutant else "fixed",
        verdict=result.verdict,
        found=worst is not None,
        unexpected=result.verdict == ("holds" if mutant else "violated"),
        property=worst.property if worst else "",
        length=len(worst.counterexample) - 1 if worst else 0,
        schedules=result.schedules,
        seconds=time.perf_counter() - started,
        bound=result.bound,
        findings=result.findings,
        counterexample=worst.counterexample if worst else (),
        token=worst.token if worst else "",
        moves=(worst.moves or 0) if worst else 0,
        broken=tuple(each.property for each in result.violations) if mutant else (),
        declared=declared,
        executed=result.coverage.executed,
    )
    return row, worst
