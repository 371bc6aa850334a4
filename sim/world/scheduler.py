"""Who may step, and what may become of the step.

Theory. A process runs until it asks for something: a request, a sleep, a clock reading, a note, its own
end. That is one *step* of the schedule, and it is taken when the scheduler says so: the request lands,
its reply is delivered, and the process runs on to what it asks for next. Landing and delivery are one
step, because nothing that others could notice lies between them: a reply that is slow to arrive is a
next step that is slow to be taken. What does differ is an alternative of the step (see `budget`).

Who may step is an *actor*: a process (numbered from 1; 0 is the program that sets the world up), a
request in flight that has a life of its own, or the clock. The clock moves to the next time somebody
sleeps for: free of charge when nobody else can step (time passes when all wait), else, or further, at
the price of one stall, because then a process that could have gone on was slow. So a loop that sleeps
and asks again is followed fairly: it spins only while the others wait too. A loop that does not even
sleep is followed for `SPINS` rounds in vain; then it waits until something it reads has changed, or until
nobody else can do anything. So an attempt counted beyond that, while others could go on, is not explored.

A run is a function of the choices (actor, alternative), of nothing else. `r` and `w` say what the last
step read and wrote (see `objects`); `before` which steps came before it for certain, as a bit set.
"""

from collections.abc import Callable
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.sim.world import budget as fault
from fencepost.sim.world.operations import ADVANCE, Pick, Post, ReadClock, Wake, same
from fencepost.sim.world.process import Flight, Process
from fencepost.sim.world.run import CLOCK_ACTOR
from fencepost.sim.world.steps import Steps
from fencepost.sim.world.view import EVENTUALLY, FINALLY, SOMETIMES, Violation

SPINS = 5
"""Rounds in which a process may ask the same and be told the same while others could go on."""


class Scheduler(Steps):
    """What a scheduler is offered."""

    def start(self, program: Callable[[Any], Any]) -> None:
        """Set the world up and run every process to its first step."""
        self._setup = Process(0, "setup", program, (self,), {}, restart=False, may_raise=())
        self._proceed(self._setup, self._setup.start())

    def enabled(self) -> list[int]:
        """Who may step. Nobody: the run is complete."""
        if self._setup is not None:
            return [0]
        ready = []
        asleep = False
        spinning = None
        for process in self.processes:
            op = process.pending
            if op is None or process.group is not None:
                continue
            if type(op) is Wake and op.until_ns > self.clock_ns:
                asleep = True
            elif process.spins >= SPINS and same(op, process.asked[0]):
                spinning = spinning or process
            else:
                ready.append(process.index)
        if self.flights:
            ready.extend(self.flights)
        if ready:
            self.held_back = self.held_back or spinning is not None
            if self.timed and self.left[fault.PAUSE]:
                ready.append(CLOCK_ACTOR)
        elif asleep:
            ready.append(CLOCK_ACTOR)
        elif spinning is not None:
            # Nobody else can do anything: it may ask again, and again, until the run is cut.
            self._alone = True
            ready.append(spinning.index)
        return ready

    def alternatives(self, actor: int) -> tuple[str, ...]:
        """What can become of the actor's next step; the first is the harmless one."""
        if actor == CLOCK_ACTOR:
            return self._ways_to_pass_time()
        flight = self.flights.get(actor)
        if flight is None:
            process = self.processes[actor - 1] if actor else self._setup
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
        key = (category, crashable, self.left)
        found = _known.get(key)
        if found is None:
            found = _known[key] = fault.alternatives(*key)
        return found

    def pending(self, actor: int) -> Any:
        """What the actor will do when it steps."""
        if actor == CLOCK_ACTOR:
            return ADVANCE
        flight = self.flights.get(actor)
        if flight is not None:
            return flight.request
        process = self.processes[actor - 1] if actor else self._setup
        return process.pending if process is not None else None

    def rivals(self, actor: int) -> list[int]:
        """The other requests of the same parallel step, if a crash of their sender may end them unlanded.

        Then it matters which of them have landed by then, although they do not conflict.
        """
        flight = self.flights.get(actor)
        if flight is None or flight.zombie or not self.left[fault.CRASH]:
            return []
        return [
            other.actor
            for other in self.flights.values()
            if other.process is flight.process and not other.zombie and other is not flight
        ]

    def complete(self) -> None:
        """Nobody can step any more: judge what must hold in the end."""
        if self.violation is not None:
            return
        for promise in self.properties:
            if promise.kind in (FINALLY, SOMETIMES, EVENTUALLY):
                error = promise.judge(self._view)
                if error is not None:
                    self.violation = Violation(promise.name, error)
                elif promise.kind == EVENTUALLY and not promise.met:
                    self.violation = Violation(promise.name, "it never happened in this run")
                if self.violation is not None:
                    return

    def close(self) -> None:
        """Unwind every process that has not ended."""
        for process in self.processes:
            self._kill(process)
        if self._setup is not None:
            self._kill(self._setup)
        for close in self.closing:
            close()
        self.closing.clear()

    def _is_first_open(self, flight: Flight) -> bool:
        group = flight.process.group
        return group is not None and all(reply is not None for reply in group.replies[: flight.slot])

    def _ways_to_pass_time(self) -> tuple[str, ...]:
        asleep = False
        idle = not self.flights
        for process in self.processes:
            op = process.pending
            if type(op) is Wake and op.until_ns > self.clock_ns:
                asleep = True
            elif op is not None and not (process.spins >= SPINS and same(op, process.asked[0])):
                idle = False
        if idle:
            # The long pause is offered here too: whether somebody else has just ended must not matter.
            return ("advance", "pause+") if self.left[fault.PAUSE] else ("advance",)
        return ("pause", "pause+") if asleep else ("pause+",)


_known: dict[Any, tuple[str, ...]] = {}
_CATEGORIES: dict[type, int] = {
    ask.Get: fault.READ,
    ask.Head: fault.READ,
    ask.List: fault.READ,
    ask.ListVersions: fault.READ,
    ask.ListUploads: fault.READ,
    ask.CreateUpload: fault.WRITE,
    ask.UploadPart: fault.WRITE,
    ask.AbortUpload: fault.WRITE,
    ReadClock: fault.CLOCK,
    Post: fault.MESSAGE,
}


def _category(op: Any) -> int:
    found = _CATEGORIES.get(type(op))
    if found is not None:
        return found
    when = getattr(op, "when", None)
    if when is None:
        if isinstance(op, ask.Request):
            return fault.READ if op.reads else fault.WRITE
        return fault.LOCAL
    return fault.WRITE if isinstance(when, ask.Anything) else fault.CONDITIONAL


def _picks(count: int) -> tuple[str, ...]:
    return ("ok", *(f"pick{index}" for index in range(1, count)))
