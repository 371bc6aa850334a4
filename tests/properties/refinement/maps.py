"""Maps for the small machines, and runs written down by hand."""

from typing import Any

from fencepost.impl.store.events import Event
from fencepost.model import Enum, Int, Label, Machine, Model, action
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.model.fenced_lease import FencedLease
from fencepost.model.swap_counter import SwapCounter
from fencepost.properties.refinement import (
    COUNTED,
    IMPOSSIBLE,
    OUT_OF_BOUNDS,
    STUTTER,
    Actions,
    Automaton,
    Keys,
    Observation,
    Refinement,
    Role,
    where,
)

APPLIED = ("done", "reply_lost")
UNSEEN = ("exists", "changed", "missing", "conflict", "request_lost", "late")
"""Answers of requests that change nothing now."""


class Seen(Refinement):
    """Requests that changed something are seen, nothing else is."""

    def hides(self, label: Label) -> bool:
        return super().hides(label) or dict(label.parameters).get("answer") in UNSEEN


class LockMap(Seen):
    """One object, created and deleted; the number of the take is a fact."""

    keys = (Keys("lock", "locks/[^/]+"),)
    roles = (Role("client", ("process",), most=1), Role("take", ("take",), COUNTED, most=2))
    hidden = ("look", "try_again", "crash", "trouble_ends")

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        c = seen.rank("process")
        if seen.kind == "delete":
            gone = (self.does("give_back", c=c, answer=APPLIED), self.does("lands"))
            return where("the lock is gone", lambda s: ~s.lock.is_there, *gone)
        taken = (self.does("acquire", c=c, answer=APPLIED), self.does("lands"))
        take = seen.rank("take")
        return where(f"take {take} is c={c}'s", lambda s: s.lock.holds(owner=c, take=take), *taken)


class CounterMap(Seen):
    """One object, replaced; the count is a fact."""

    keys = (Keys("counter", "counter"),)
    roles = (Role("client", ("process",), most=1),)
    trace_fields = ("count",)
    hidden = ("read", "find_itself", "crash", "trouble_ends")

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        count = int(seen.trace_field("count"))
        if count > 2:
            return OUT_OF_BOUNDS
        c = seen.rank("process")
        written = (self.does("write", c=c, answer=APPLIED), self.does("lands"))
        return where(f"the count is {count}", lambda s: s.counter.count == count, *written)


class LeaseMap(Seen):
    """Two objects; the epoch is counted from the first that is seen, the number of a write is a fact."""

    keys = (Keys("lease", "lease"), Keys("data", "data"))
    roles = (Role("client", ("process",), most=1), Role("epoch", ("epoch",), COUNTED, most=2, start=1))
    trace_fields = ("number",)
    hidden = ("time_passes", "look", "read", "read_a_later_epoch", "check_clock", "step_down", "crash")

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        c, epoch = seen.rank("process"), seen.rank("epoch")
        if seen.what == "lease":
            claimed = self.does("claim", c=c, answer=APPLIED)
            return where(f"the lease has epoch {epoch}", lambda s: s.lease.epoch == epoch, claimed)
        number = int(seen.trace_field("number"))
        written = (self.does("put_fence", c=c, answer=APPLIED), self.does("write", c=c, answer=APPLIED))
        return where(
            f"the data has epoch {epoch} and number {number}",
            lambda s: s.data.holds(epoch=epoch, number=number),
            *written,
            self.does("lands"),
        )


class Door(Machine):
    """Opens after two knocks, one of which nobody hears."""

    knocks = Int(0, 2)
    door = Enum("shut", "open")

    @action
    def knock(s) -> None:
        s.require(s.door == "shut")
        s.require(s.knocks < 2)
        s.knocks = s.knocks + 1

    @action
    def knock_unheard(s) -> None:
        s.require(s.knocks < 2)
        s.knocks = s.knocks + 1

    @action
    def swing(s) -> None:
        s.require(s.door == "shut")
        s.require(
            s.knocks == 2,
        )
        s.door = "open"


class DoorMap(Refinement):
    keys = (Keys("door", "door/(?P<act>.*)"),)
    trace_fields = ("act",)
    hidden = ("knock_unheard",)

    def actions(self, seen: Observation) -> Actions:
        return self.does(seen.trace_field("act")) if seen.trace_field("act") in self._labels else IMPOSSIBLE


def lock() -> Automaton:
    return Automaton(LockMap(Model(CreateOnlyLock)))


def counter(slots: int = 0) -> Automaton:
    return Automaton(CounterMap(Model(SwapCounter)), slots=slots)


def lease() -> Automaton:
    return Automaton(LeaseMap(Model(FencedLease)))


def door() -> Automaton:
    return Automaton(DoorMap(Model(Door)))


def landed(*lines: str, run: str = "r") -> list[Event]:
    """`ann put locks/a done take=7`: one landing a line."""
    return [_event(number, "landed", line, run) for number, line in enumerate(lines)]


def requested(*lines: str) -> list[Event]:
    """`> 1 ann put k take=7` is a request, `< 1 ann put k done` its response."""
    made = []
    for number, line in enumerate(lines):
        sign, op, rest = line.split(" ", 2)
        phase = "request" if sign == ">" else "response"
        if sign == ">":
            who, kind, key, *trace_fields = rest.split(" ")
            rest = " ".join((who, kind, key, "", *trace_fields))
        made.append(_event(number, phase, rest, "r", int(op)))
    return made


def _event(number: int, phase: str, line: str, run: str, op: int = 0) -> Event:
    who, kind, key, outcome, *trace_fields = line.split(" ")
    columns: dict[str, Any] = {"outcome": outcome, "trace_fields": " ".join(trace_fields)}
    return Event(run, number, 0, who, 0, op or number, phase, kind, key, **columns)
