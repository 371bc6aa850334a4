"""Rejections that the clocks of hosts may explain: they are undecided, not false alarms.

Where several recorders wrote a run, a model is followed in the order of their clocks, corrected by ETags.
Two hosts whose clocks differ by more than the time between two requests can make a right run look wrong. So
a rejected run of several clocks is judged again with one clock moved against the others, by every amount
within the bound at which the order of two events changes (or a sample of these). If the model accepts one
of the orders, the run is undecided, and the reason names the clock and the amount. A clock that moves
within a run is not tried.

Recorders on one machine have one clock: each begins its files with a note of it (`clock=`). Where the notes
name several, the bound is `SKEW_NS` unless the user gives another (`--skew`).
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.sim.replay.judging import ACCEPTED, REJECTED, UNDECIDED, Judge
from fencepost.sim.replay.parts import SEVERAL_COUNTERS
from fencepost.sim.trace.columns import events
from fencepost.sim.trace.ordering import ordered

SKEW_NS = 10**9
"""By how much clocks of several hosts may differ, if nothing else is known."""
RUNS_MAX = 100
"""Rejected runs of a part that are judged again; the first ones are listed."""
SHIFTS_MAX = 40


def reconsidered(
    table: pa.Table,
    verdicts: pa.Table,
    judge: Judge,
    skew_ns: int | None,
    clocks: Mapping[str, str],
) -> pa.Table:
    """The verdicts of a part in order, with rejections undecided that another order of clocks explains.

    `clocks` are those of processes, as their recorders name them.
    """
    if SEVERAL_COUNTERS not in table.column_names or skew_ns == 0:
        return verdicts
    rejected = verdicts.filter(pc.equal(verdicts["verdict"], REJECTED))["run"].to_pylist()
    open_: dict[str, str] = {}
    for run in rejected[:RUNS_MAX]:
        mine = table.filter(pc.equal(table["run"].cast(pa.string()), run))
        why = _explained(mine.drop_columns([SEVERAL_COUNTERS]), judge, skew_ns, clocks)
        if why:
            open_[run] = why
    return _marked(verdicts, open_) if open_ else verdicts


def _explained(run: pa.Table, judge: Judge, skew_ns: int | None, known_clocks: Mapping[str, str]) -> str:
    """The clock that explains a run if it is moved, in words; empty if none does."""
    present = run["process"].unique().to_pylist()
    clocks = {name: clock for name in present if (clock := known_clocks.get(name))}
    known = len(set(clocks.values())) > 1
    bound = skew_ns if skew_ns is not None else SKEW_NS if known else 0
    if skew_ns is not None and not known:
        # The user names a bound; where no host is known, each process may have its own.
        clocks = {name: name for name in present}
    names = sorted(set(clocks.values()))
    if not bound or len(names) < 2:
        return ""
    process = run["process"].cast(pa.string()).to_pylist()
    of = np.array([names.index(clocks.get(name, names[0])) for name in process])
    time = run["t_ns"].to_numpy()
    for number in range(len(names)):
        for shift in _shifts(time[of == number], time[of != number], bound):
            moved = pa.chunked_array([pa.array(time + np.where(of == number, shift, 0))])
            place = run.column_names.index("t_ns")
            again = ordered(run.set_column(place, "t_ns", moved)).table.select(run.column_names)
            if judge.verdicts(events(again))["verdict"].to_pylist() == [ACCEPTED]:
                some = next(name for name in process if clocks.get(name, names[0]) == names[number])
                amount = f"{abs(shift) / 1e9:g} s"
                return f"accepted if the clock of {some} is off by {amount}, within the bound of --skew"
    return ""


def _shifts(mine: np.ndarray, others: np.ndarray, bound: int) -> Iterator[int]:
    """The amounts within the bound at which an event of one clock passes one of another, small ones first."""
    gaps = np.unique(others[np.newaxis, :1000] - mine[:1000, np.newaxis])
    near = gaps[(gaps > -bound) & (gaps < bound)]
    near = np.unique(np.concatenate([near - 1, near + 1]))
    near = near[np.argsort(np.abs(near), kind="stable")]
    if len(near) > SHIFTS_MAX:
        near = near[np.linspace(0, len(near) - 1, SHIFTS_MAX).astype(np.int64)]
    yield from (int(shift) for shift in near)


def _marked(verdicts: pa.Table, open_: Mapping[str, str]) -> pa.Table:
    rows = verdicts.to_pylist()
    for row in rows:
        if row["run"] in open_:
            row["verdict"] = UNDECIDED
            row["reason"] = f"{open_[row['run']]}; as the clocks show, {row['reason']}"
    return pa.Table.from_pylist(rows, schema=verdicts.schema)
