"""Costs of operations: requests, bytes, and serial hops.

Theory. A life of a process, from its start to its end, is an operation, and so is what runs inside
`world.operation(name)`. The count includes every request that the code sends, as in
`impl.store.layers.metered`: also one whose reply was lost, and its repetition. It leaves out repetitions by
an SDK below the code (`duplicated`), and requests that land after their sender gave up. Blocking code waits
for every answer, so its requests are a chain; those of one parallel step follow the same answers, and are one
*serial hop*.

The faults of an operation are those that its run had had when its last request was answered. An operation
that a crash cuts short is left out: the same run without that crash costs no less, and is tried as well.

Exploration leaves out runs that only swap steps which no process can distinguish, and the rest of runs that
reach a known state. Neither hides a cost: what an operation costs is a function of the answers that its
process got, and of no order among others. Faults are counted in the order that was run; if some order charges
an operation with a fault that it never noticed, there is also a run without that fault. So "at most so much,
with at most so many faults" is exact where everything was explored.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fencepost.impl.store import requests as req
from fencepost.impl.store.layers.metered import Tally
from fencepost.impl.store.requests import Request
from fencepost.sim.faults import ALTERNATIVES
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.operations import Finish
from fencepost.sim.world.process import Process, Span, Step
from fencepost.sim.world.run import RunState

COUNTED = frozenset(name for name, found in ALTERNATIVES.items() if found.kind and not found.passes_time)
"""A landing that never comes was paid for when it was late; passing time is no fault."""
_NOT_SENT = frozenset(name for name, found in ALTERNATIVES.items() if not found.sent)
"""A request that an SDK repeats is one request, which counts when it is answered."""


class Spent(NamedTuple):
    """The cost of one operation that ended."""

    name: str
    faults: int
    requests: int
    hops: int
    bytes: int
    """Bodies only, both ways."""


class AtMost(NamedTuple):
    """Bound on the costs of operations of this name, in runs with at most so many faults (None: any)."""

    name: str
    requests: int | None
    hops: int | None
    faults: int | None
    why: str = ""
    """The origin of the bound, for the end of the sentence."""

    @property
    def property(self) -> str:
        """The name of the property that it is."""
        return f"cost of {self.name}"

    def broken_by(self, spent: Spent) -> str:
        """Return the reason why this cost breaks the bound; empty when it does not."""
        if spent.name != self.name or (self.faults is not None and spent.faults > self.faults):
            return ""
        dear = (self.requests is not None and spent.requests > self.requests) or (
            self.hops is not None and spent.hops > self.hops
        )
        if not dear:
            return ""
        allowed = [
            _amount(most, word)
            for most, word in ((self.requests, "request"), (self.hops, "serial hop"))
            if most is not None
        ]
        where = "" if self.faults is None else f" {with_faults(self.faults)}"
        return (
            f"it took {_amount(spent.requests, 'request')} and {_amount(spent.hops, 'serial hop')} "
            f"{with_faults(spent.faults)}, and may take {' and '.join(allowed)}{where}{self.why}"
        )


_BODILESS = frozenset(
    {req.Get, req.Head, req.List, req.Delete, req.PutReply, req.HeadReply, req.ListReply, req.DeleteReply}
)
"""The commonest requests and replies without a body: looking for what is not there costs most."""


class _Tally(Tally):
    """The requests so far."""

    __slots__ = ("bytes", "faults", "group")

    def __init__(self, faults: int = 0) -> None:
        super().__init__()
        self.bytes = 0
        self.faults = faults
        """Those of the run when its last request was answered."""
        self.group: Any = None
        """The parallel step that its last request was part of."""

    def count(self, run: RunState, step: Step, faults: int) -> None:
        actor, _, _, _, _, op, answer, _ = step
        self.faults = faults
        if type(op) not in _BODILESS:
            self.bytes += len(getattr(op, "body", b""))
        if type(answer) not in _BODILESS:
            self.bytes += len(getattr(answer, "body", b""))
        # As `step` counts, without a call: this runs for every request of every explored run.
        self.requests += 1
        group = None
        if actor >= FLIGHTS_FROM and actor not in run.threads:
            group = run.footprints.group(actor)
            # The requests of one parallel step lie side by side: their process waits for all of them.
            if group == self.group:
                return
        self.hops += 1
        self.group = group

    def spent(self, name: str) -> Spent:
        return Spent(name, self.faults, self.requests, self.hops, self.bytes)


def with_faults(count: int) -> str:
    """`without faults`, `with 1 fault`, `with 2 faults`."""
    return f"with {_amount(count, 'fault')}" if count else "without faults"


def spent(run: RunState) -> Iterator[Spent]:
    """Yield every operation of the run that has come to its end."""
    yield from _lives(run.trace, run)
    for process in run.strands:
        for span in process.spans:
            if span.end >= 0:
                yield _of_span(run, process, span)


def _lives(trace: Sequence[Step], run: RunState) -> Iterator[Spent]:
    """Processes that ended. Called for every explored run, so one pass."""
    tallies: dict[Any, _Tally] = {}
    faults = 0
    for step in trace:
        _, alternative, process, incarnation, _, op, _, _ = step
        if alternative != "ok":
            faults += alternative in COUNTED
            if alternative in _NOT_SENT:
                continue
        if process is None or not process.index:
            continue
        if isinstance(op, Request):
            # Requests of its threads count for a process, one after another.
            tally = tallies.get((process.machine, incarnation))
            if tally is None:
                tally = tallies[process.machine, incarnation] = _Tally()
            tally.count(run, step, faults)
        elif type(op) is Finish and process.machine is process:
            yield tallies.get((process, incarnation), _Tally(faults)).spent(process.name)


def _of_span(run: RunState, process: Process, span: Span) -> Spent:
    faults = sum(step[1] in COUNTED for step in run.trace[: span.begin])
    tally = _Tally(faults)
    for step in run.trace[span.begin : span.end]:
        faults += step[1] in COUNTED
        if step[2] is process and step[1] not in _NOT_SENT and isinstance(step[5], Request):
            tally.count(run, step, faults)
    return tally.spent(span.name)


def ended_since(run: RunState, place: int) -> bool:
    """Return True if any operation came to its end at this step of the run or later."""
    return any(type(step[5]) is Finish and step[1] == "ok" for step in run.trace[place:]) or any(
        span.end > place for process in run.strands for span in process.spans
    )


def dearest(run: RunState, bounds: Sequence[AtMost]) -> tuple[str, str] | None:
    """Return the bound that the last step broke, if it ended an operation, and the reason."""
    if not ended_since(run, len(run.trace) - 1):
        return None
    for one in spent(run):
        for bound in bounds:
            error = bound.broken_by(one)
            if error:
                return bound.property, error
    return None


def _amount(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
