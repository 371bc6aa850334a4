"""Rows of `fencepost zoo` and `fencepost audit --mutants`: a model or a program with one safeguard off."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.terminal import StatusLine
from fencepost.results import Verdict
from fencepost.sim.explore import AuditRequest, Diverged
from fencepost.sim.explore.reporting import run_audit
from fencepost.sim.explore.result import AuditVerdict, Violation


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model or program with one safeguard off, or with none off."""

    safeguard: str
    kind: str
    """`model`, `safeguard` or `assumption` of a model; `broken` or `fixed` of a program."""
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


def audited_row(mutant: str, request: AuditRequest) -> tuple[Row, Violation | None]:
    """A mutant, or the program without any mistake, and its first violation."""
    started = time.perf_counter()
    try:
        found = run_audit(replace(request, others=False))
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
    )
    return row, worst
