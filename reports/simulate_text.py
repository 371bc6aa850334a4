"""The text report of `fencepost simulate`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fencepost.reports.text import Uncut, amount, plural, table, verdict_line
from fencepost.results import ObjectiveResult, OperationStats, SimulatedRun, SimulateResult, SimulationCheck

RUNS_MAX = 60
"""Runs in the table with `-v`; the JSON has all."""
ROWS_BRIEF = 8
"""Rows of the table without."""
COLUMNS: dict[str, Callable[[OperationStats], float]] = {
    "p50 ms": lambda stats: stats.p50,
    "p90 ms": lambda stats: stats.p90,
    "p99 ms": lambda stats: stats.p99,
    "requests": lambda stats: stats.requests,
    "hops": lambda stats: stats.serial_hops,
    "retries": lambda stats: stats.retries,
}
"""The columns of an operation, after its name and count."""
OF_A_RUN: dict[str, Callable[[SimulatedRun], float]] = {
    "per s": lambda run: run.throughput,
    "$/month": lambda run: run.dollars_month,
    "$/million": lambda run: run.dollars_million,
}
"""The columns of a run, shown with its first operation."""


def simulate_text(result: SimulateResult, *, verbose: bool = False) -> RenderableType:
    """Verdict, title, the first runs, failed checks and objectives; with `verbose` everything."""
    parts: list[RenderableType] = [verdict_line(result.verdict, _about(result)), Text(result.title, "bold")]
    parts += [Text(result.about)] if verbose else []
    parts += _runs(result, verbose=verbose)
    failed = [check for check in result.checks if not check.expected]
    if result.checks and (verbose or failed):
        parts += [Uncut(_checks(result.checks if verbose else failed)), *_errors(result.checks)]
    parts += _conflicts(result)
    complete = len(result.runs) == result.planned
    shown = (one for one in result.objectives if verbose or one.broken_runs or not complete)
    parts += [objective_text(one, complete=complete) for one in shown]
    parts += [Text(note) for note in result.notes]
    return Group(*parts)


def _conflicts(result: SimulateResult) -> Iterator[Text]:
    """Report the share of refused conditional writes of runs with contention."""
    counted = [(run.counters["conflicts"], run) for run in result.runs if "conflicts" in run.counters]
    if counted:
        most, run = max(counted, key=lambda pair: pair[0])
        where = ", ".join(f"{name} = {setting(value)}" for name, value in run.parameters.items())
        yield Text(f"Refused conditional writes: {amount(most)}{f', at {where}' if where else ''}.")


def _about(result: SimulateResult) -> str:
    runs = len(result.runs)
    of = plural(runs, "run") if runs == result.planned else f"{runs} of {result.planned} runs, then stopped"
    within = sum(check.ok for check in result.checks)
    missed = sum(not check.ok and bool(check.misses) for check in result.checks)
    checks = f", {within} of {plural(len(result.checks), 'check')} within tolerance" if result.checks else ""
    checks += f", {missed} outside for a stated reason" if missed else ""
    return f"{result.scenario}, {of}, seed {result.seed}{checks}"


def _runs(result: SimulateResult, *, verbose: bool) -> Iterator[RenderableType]:
    names = list(dict.fromkeys(name for run in result.runs for name in run.parameters))
    names = [name for name in names if name not in result.case_keys]  # a case's name replaces what it sets
    heads = ("operation", "count", *COLUMNS, *OF_A_RUN)
    made = table([*(_short(name, names) for name in names), *heads], numbers=True)
    for at in range(len(names) + 1):
        made.columns[at].justify = "left"
    rows = [[*_rows(run, names)] for run in result.runs]
    if verbose or sum(map(len, rows)) <= ROWS_BRIEF:
        kept = [row for of_run in rows[:RUNS_MAX] for row in of_run]
    else:
        kept = [of_run[0] for of_run in rows[:ROWS_BRIEF]]
    for row in kept:
        made.add_row(*row)
    yield Uncut(made)
    left = sum(map(len, rows)) - len(kept)
    if left:
        yield Text(
            f"... and {plural(left, 'row')} more; the JSON has all{'' if verbose else ', -v shows them'}"
        )


def _rows(run: SimulatedRun, names: Sequence[str]) -> Iterator[list[str]]:
    """Yield a row for each operation; the first one has the numbers of the run."""
    values = [setting(run.parameters.get(name, "")) for name in names]
    if not run.operations:
        yield [*values, "none succeeded", "0"]
    for at, (operation, stats) in enumerate(run.operations.items()):
        yield [*(values if not at else [""] * len(names)), *_numbers(operation, stats, run, of_run=not at)]


def _numbers(operation: str, stats: OperationStats, run: SimulatedRun, *, of_run: bool) -> list[str]:
    failed = sum(run.failed.values()) if of_run else 0
    own = [column(stats) for column in COLUMNS.values()]
    whole = [column(run) for column in OF_A_RUN.values()]
    count = f"{stats.count:,}" + (f" (+{failed} failed)" if failed else "")
    return [operation, count, *map(amount, own), *(amount(value) if of_run else "" for value in whole)]


def setting(value: Any) -> str:
    """A setting as people write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting(inner)}" for name, inner in value.items())
    return str(value)


def _short(name: str, names: Sequence[str]) -> str:
    """`writers` for `workload.writers`, unless another parameter has the same last part."""
    last = name.rpartition(".")[2]
    return name if sum(other.rpartition(".")[2] == last for other in names) > 1 else last


def _checks(checks: Sequence[SimulationCheck]) -> Table:
    made = table(("check", "measured", "simulated", "error", "tolerance", ""), numbers=True)
    made.columns[-1].justify = "left"
    for check in checks:
        made.add_row(
            check.name,
            _with_unit(check.reference, check.unit),
            _with_unit(check.simulated, check.unit),
            f"{100 * check.error:+.1f} %",
            f"{100 * check.tolerance:g} %",
            _state(check),
        )
    return made


def _state(check: SimulationCheck) -> Text:
    if check.ok and check.misses:
        return Text("within, although a reason to miss is stated", "bold red")
    if check.misses:
        return Text("misses", "yellow")
    return Text("ok", "green") if check.ok else Text("outside", "bold red")


def _with_unit(value: float, unit: str) -> str:
    if unit == "ms" and abs(value) >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{amount(value)} {unit}".rstrip()


def _errors(checks: Sequence[SimulationCheck]) -> Iterator[Text]:
    """The largest error, and the scenario's remarks on errors."""
    worst = max(checks, key=lambda check: abs(check.error))
    yield Text(f"The largest error is {100 * worst.error:+.1f} %, of {worst.name}.")
    for check in checks:
        for remark in filter(None, (check.says, check.misses)):
            yield Text(f"{check.name} ({100 * check.error:+.1f} %): {remark}.")


def objective_text(found: ObjectiveResult, *, complete: bool = True) -> RenderableType:
    """One objective: whether it holds, and the first run in which it does not."""
    if not found.broken_runs and not complete:
        return Text(
            f"Objective {found.objective}: not decided; {plural(found.runs, 'run')} finished.", "yellow"
        )
    if not found.broken_runs:
        where = f" in all {found.runs} runs" if found.runs > 1 else ""
        return Text(f"Objective {found.objective}: holds{where}.", "green")
    chosen = (
        {name: value for name, value in (found.first_broken or {}).items() if name == "case"}
        or found.first_broken
        or {}
    )
    where = ", ".join(f"{name} = {setting(value)}" for name, value in chosen.items())
    value = "no operation succeeded" if found.first_value is None else f"{amount(found.first_value)} there"
    return Text(
        f"Objective {found.objective}: first broken at {where or 'the one run'} ({value}); "
        f"in {found.broken_runs} of {plural(found.runs, 'run')}.",
        "red",
    )
