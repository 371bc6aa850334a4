"""The order of events from several hosts, each with a clock of its own.

Within a process the order is known: its tracer numbers events. Between processes there is time, which is off
by the skew of the clocks, and there are the store's responses, which are exact. A request that names an ETag,
and a response that returns one, come after the request that made it. Each such pair bounds how far one
process's clock can be ahead of another's. Relaxation finds the smallest corrections that satisfy all pairs
of a run, for all runs at once, one round for each hop between processes; then events are sorted by corrected
time, within a process by number.

An ETag that two requests made at one key of a run proves nothing (a fingerprint of content, not of a write)
and is not used. Where even corrected clocks contradict the responses (a clock that jumped within the run),
the run keeps the order of its clocks and is reported, so that its order is not mistaken for known.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from fencepost.sim.trace.columns import numbered, text
from fencepost.sim.trace.schema import completed

_ROUNDS = 16
"""Hops between processes that corrections travel: more processes than that in one run and chain is rare."""


@dataclass(frozen=True)
class Order:
    """The events in order, numbered anew; how many runs had clocks to correct, and the runs of uncertain
    order.
    """

    table: pa.Table
    corrected: int
    uncertain: tuple[str, ...]
    difference_ns: int = 0
    """The largest correction of a clock."""


def ordered(table: pa.Table) -> Order:
    """Events by run, in the order in which they must have happened. Runs with one clock are kept as
    numbered."""
    table = completed(table)
    runs = text(table["run"])
    run = runs.codes
    clock, _ = numbered(run, text(table["process"]).codes)
    t = table["t_ns"].to_numpy().copy()
    seq = table["seq"].to_numpy()
    shift, moved, uncertain = _corrections(table, run, clock, t)
    alone = numbered_by_one(run, seq, t, text(table["phase"]).is_in(("landed",)))
    t = _rising(t + shift[clock], clock, seq, table["incarnation"].to_numpy())
    t[alone[run]] = 0
    order = np.lexsort((seq, t, run))
    table = table.take(pa.array(order))
    run = run[order]
    starts = np.flatnonzero(np.append(True, run[1:] != run[:-1])) if len(run) else np.empty(0, np.int64)
    lengths = np.diff(np.append(starts, len(run)))
    anew = np.arange(len(run)) - np.repeat(starts, lengths)
    table = table.set_column(table.column_names.index("seq"), "seq", pa.array(anew))
    names = tuple(runs.values.array[code].as_py() for code in uncertain if not alone[code])
    return Order(table, len(moved), names, int(shift.max(initial=0)))


def numbered_by_one(run: np.ndarray, seq: np.ndarray, t: np.ndarray, landed: np.ndarray) -> np.ndarray:
    """Return for each run if its events have the numbers of one counter.

    Then no number is there twice, and no time falls along the numbers: a part of a trace, such as the events
    about one key, may lack the numbers that are there twice. Only a harness records landings, and it has one
    counter, whatever the clocks of its processes show.
    """
    count = int(run.max()) + 1 if len(run) else 0
    alone = np.ones(count, np.bool_)
    order = np.lexsort((seq, run))
    runs, seqs, times = run[order], seq[order], t[order]
    within = runs[1:] == runs[:-1]
    alone[runs[1:][within & (times[1:] < times[:-1])]] = False
    alone[run[landed]] = True
    alone[runs[1:][within & (seqs[1:] == seqs[:-1])]] = False
    return alone


def _corrections(
    table: pa.Table, run: np.ndarray, clock: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the correction of each clock, the runs that need one, and the runs that none fits."""
    clocks = int(clock.max()) + 1 if len(clock) else 0
    shift = np.zeros(clocks, np.int64)
    before, after, lead = _known(table, run, clock, t)
    run_of = np.zeros(clocks, np.int64)
    run_of[clock] = run
    late = np.empty(0, np.int64)
    for _ in range(_ROUNDS):
        wanted = shift[before] + lead
        late = np.flatnonzero(wanted > shift[after])
        if not len(late):
            break
        np.maximum.at(shift, after[late], wanted[late])
    uncertain = np.unique(run_of[after[late]]) if len(late) else np.empty(0, np.int64)
    shift[np.isin(run_of, uncertain)] = 0
    return shift, np.unique(run_of[shift > 0]), [int(code) for code in uncertain]


def _known(
    table: pa.Table, run: np.ndarray, clock: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of clocks (before, after) and by how much the second must at least be moved ahead.

    The request that made an ETag is known from its response: the same operation of the same process.
    """
    etag, phase, kind, outcome = (text(table[name]) for name in ("etag", "phase", "kind", "outcome"))
    has = etag.codes != etag.number("")
    writes = kind.is_in(("put", "complete-upload"))
    response = phase.codes == phase.number("response")
    request = phase.codes == phase.number("request")
    made = np.flatnonzero(has & response & writes & (outcome.codes == outcome.number("done")))
    operation = table["op"].to_numpy()
    op = numbered(clock, operation - operation.min(initial=0))[0]
    issued = np.full(int(op.max()) + 1 if len(op) else 0, -1, np.int64)
    issued[op[request]] = np.flatnonzero(request)
    origin = issued[op[made]]
    made, origin = made[origin >= 0], origin[origin >= 0]
    mark = numbered(run, text(table["key"]).codes, etag.codes)[0]
    value, first, count = np.unique(mark[made], return_index=True, return_counts=True)
    value, origin = value[count == 1], origin[first][count == 1]
    if not len(value):
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing
    users = np.flatnonzero(has & (request | response))
    place = np.searchsorted(value, mark[users]).clip(0, len(value) - 1)
    users, place = users[value[place] == mark[users]], place[value[place] == mark[users]]
    other = clock[users] != clock[origin[place]]
    users, source = users[other], origin[place][other]
    return clock[source], clock[users], t[source] - t[users] + 1


def _rising(t: np.ndarray, clock: np.ndarray, seq: np.ndarray, incarnation: np.ndarray) -> np.ndarray:
    """Times that never fall within a process, whose own order is known better than its clock."""
    order = np.lexsort((seq, incarnation, clock))
    ticks, of = t[order], clock[order]
    if not len(t):
        return t
    # One running maximum over all processes: each process's times are lifted above those of the one before.
    span = int(ticks.max()) - int(ticks.min()) + 1
    base = of - of.min()
    if max(int(base.max()), 1) * span < 1 << 62:
        low = int(ticks.min())
        lifted = np.maximum.accumulate(ticks - low + base * span) - base * span + low
    else:
        lifted = _rising_by_process(ticks, of)
    risen = np.empty_like(t)
    risen[order] = lifted
    return risen


def _rising_by_process(ticks: np.ndarray, of: np.ndarray) -> np.ndarray:
    cuts = np.append(np.append(0, np.flatnonzero(of[1:] != of[:-1]) + 1), len(of))
    return np.concatenate([np.maximum.accumulate(ticks[start:stop]) for start, stop in pairwise(cuts)])
