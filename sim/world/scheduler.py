"""Which actors may step, and which alternatives a step has.

Theory. A process runs until it issues an operation: a request, a sleep, a clock reading, a note, its own end.
That is one *step* of the schedule, and it is taken when the search decides so: the request lands, its reply
is delivered, and the process runs on to its next operation. Landing and delivery are one step, because
nothing that other processes could notice lies between them: a reply that is slow to arrive is a next step
that is slow to be taken. What does differ is an alternative of the step (see `sim.faults`).

An *actor* is a process (numbered from 1; 0 is the program that sets the world up), a request in flight that
has a life of its own, or the clock. The clock moves to the next wake-up time: free of charge when no other
actor can step (time passes when all wait), else, or further, at the price of one pause, because then a
process that could have gone on was slow. So the search follows a loop that sleeps and repeats its request
fairly: it spins only while the others wait too. A loop that does not even sleep is followed for `SPINS`
rounds in vain; then it waits until something it reads has changed, or until no other actor can step. So an
attempt counted beyond that, while others could go on, is not explored.

A run is a function of the choices (actor, alternative), and of nothing else.
"""

from typing import Any

from fencepost.impl.store import requests as req
from fencepost.sim.world import budget as fault
from fencepost.sim.world.executor import CLOCK_ACTOR
from fencepost.sim.world.operations import ADVANCE, Pick, Post, ReadClock, Wake, same
from fencepost.sim.world.process import Flight

SPINS = 5
"""Rounds in which a process may repeat a request and get the same reply while others could go on."""


class Scheduler:
    """Offers the possible steps of a run."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def enabled(self) -> list[int]:
        """The actors that may step; empty when the run is complete."""
        world = self._world
        if world.setup is not None:
            return [0]
        ready = []
        asleep = False
        spinning = None
        for process in world.processes:
            op = process.pending
            if op is None or process.group is not None:
                continue
            if type(op) is Wake and op.until_ns > world.clock_ns:
                asleep = True
            elif process.spins >= SPINS and same(op, process.last_idle[0]):
                spinning = spinning or process
            else:
                ready.append(process.index)
        if world.flights:
            ready.extend(world.flights)
        if ready:
            world.held_back = world.held_back or spinning is not None
            if world.timed and world.left[fault.PAUSE]:
                ready.append(CLOCK_ACTOR)
        elif asleep:
            ready.append(CLOCK_ACTOR)
        elif spinning is not None:
            # No other actor can step: it may repeat its request, again and again, until the run is cut.
            world.alone = True
            ready.append(spinning.index)
        return ready

    def alternatives(self, actor: int) -> tuple[str, ...]:
        """The alternatives of the actor's next step, the harmless one first."""
        world = self._world
        if actor == CLOCK_ACTOR:
            return self._ways_to_pass_time()
        flight = world.flights.get(actor)
        if flight is None:
            process = world.processes[actor - 1] if actor else world.setup
            assert process is not None
            op, retried, crashable = process.pending, process.retried, process.effective
        elif flight.zombie:
            return ("land", "never")
        else:
            op, retried = flight.request, flight.retried
            crashable = flight.process.effective and self._is_first_open(flight)
        if type(op) is Pick:
            return _picks(op.count)
        category = fault.RETRIED if retried else _category(op)
        if category == fault.CLOCK and (op.subject != "wall" or process.skew):
            category = fault.LOCAL
        key = (category, crashable, world.left)
        found = _known.get(key)
        if found is None:
            found = _known[key] = fault.alternatives(*key)
        return found

    def pending(self, actor: int) -> Any:
        """The operation of the actor's next step."""
        world = self._world
        if actor == CLOCK_ACTOR:
            return ADVANCE
        flight = world.flights.get(actor)
        if flight is not None:
            return flight.request
        process = world.processes[actor - 1] if actor else world.setup
        return process.pending if process is not None else None

    def rivals(self, actor: int) -> list[int]:
        """The other requests of the same parallel step, if a crash of their sender may end them unlanded.

        Then it matters which of them have landed by then, although they do not conflict.
        """
        world = self._world
        flight = world.flights.get(actor)
        if flight is None or flight.zombie or not world.left[fault.CRASH]:
            return []
        return [
            other.actor
            for other in world.flights.values()
            if other.process is flight.process and not other.zombie and other is not flight
        ]

    def _is_first_open(self, flight: Flight) -> bool:
        group = flight.process.group
        return group is not None and all(reply is not None for reply in group.replies[: flight.slot])

    def _ways_to_pass_time(self) -> tuple[str, ...]:
        world = self._world
        asleep = False
        idle = not world.flights
        for process in world.processes:
            op = process.pending
            if type(op) is Wake and op.until_ns > world.clock_ns:
                asleep = True
            elif op is not None and not (process.spins >= SPINS and same(op, process.last_idle[0])):
                idle = False
        if idle:
            # The long pause is offered here too: whether another process has just ended must not matter.
            return ("advance", "pause+") if world.left[fault.PAUSE] else ("advance",)
        return ("pause", "pause+") if asleep else ("pause+",)


_known: dict[Any, tuple[str, ...]] = {}
_CATEGORIES: dict[type, int] = {
    req.Get: fault.READ,
    req.Head: fault.READ,
    req.List: fault.READ,
    req.ListVersions: fault.READ,
    req.ListUploads: fault.READ,
    req.CreateUpload: fault.WRITE,
    req.UploadPart: fault.WRITE,
    req.AbortUpload: fault.WRITE,
    ReadClock: fault.CLOCK,
    Post: fault.MESSAGE,
}


def _category(op: Any) -> int:
    found = _CATEGORIES.get(type(op))
    if found is not None:
        return found
    when = getattr(op, "when", None)
    if when is None:
        if isinstance(op, req.Request):
            return fault.READ if op.reads else fault.WRITE
        return fault.LOCAL
    return fault.WRITE if isinstance(when, req.Anything) else fault.CONDITIONAL


def _picks(count: int) -> tuple[str, ...]:
    return ("ok", *(f"pick{index}" for index in range(1, count)))
