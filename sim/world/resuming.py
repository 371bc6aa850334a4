"""Going on: a process is told an answer, and runs to what it asks for next; or it crashes, and starts again.

What it asks for is `pending` until its step is taken. A parallel step has no step of its own: its requests
become flights, each with a step, and the process goes on when the last of them is answered.

The program that sets the world up is a process too, and goes on in the same way. When it returns, the
processes run to their first steps, in which nobody else has a part, and the properties look for the first
time.
"""

from typing import Any

from fencepost.sim.world import budget as fault
from fencepost.sim.world.objects import CLOCK
from fencepost.sim.world.operations import Finish, Parallel
from fencepost.sim.world.process import Flight, Group, Process
from fencepost.sim.world.run import Run
from fencepost.sim.world.view import FINALLY

OPERATIONS = 10_000
"""Operations an incarnation may issue before its numbers run into the next one's."""


class Resuming(Run):
    """How processes go on."""

    def _go_on(self, process: Process, answer: Any, last: int = 0) -> None:
        """Deliver, and run the process to what it asks for next."""
        process.last = last or self._here
        self.told = (process.index, answer)
        if not process.index:
            self._setup_told = (*self._setup_told, answer)
        self.running = process if process.index else None
        op = process.resume(answer)
        self.running = None
        process.ops += 1
        process.retried = False
        self._proceed(process, op)

    def _proceed(self, process: Process, op: Any) -> None:
        """A process, freshly started or resumed, waits for `op`."""
        process.pending = op
        kind = type(op)
        if kind is Parallel:
            group = process.group = Group(op, process.ops)
            for slot, request in enumerate(op.requests):
                number = group.first + slot
                actor = self.objects.actor((process.index, number, f"parallel {group.first}"))
                self.flights[actor] = Flight(
                    actor, process, request, number, slot, process.last, zombie=False
                )
        elif kind is Finish and process is self._setup:
            self._open(process, op)

    def _open(self, setup: Process, op: Finish) -> None:
        """The program is set up: the processes start, the properties look for the first time."""
        setup.release()
        setup.pending = None
        self._setup = None
        if op.error is not None:
            raise op.error
        self.objects.stamp = CLOCK if self._stamped and self.timed else 0
        for process in self.processes:
            process.last = setup.last
            if self._recall is not None and self._shares_nothing:
                process.remember(self._recall, self._recall.root(self._setup_told, process.name))
            self.running = process
            first = process.start()
            self.running = None
            self._proceed(process, first)
        for promise in self.properties:
            promise.bit = self.objects.bit("property", promise.name)
            if promise.kind != FINALLY and self.judging:
                self._look(promise)
        self._watch()

    def _crash(self, process: Process, op: Any) -> None:
        self._log(process.index, "crash", process, process.ops, op, None)
        for flight in list(self.flights.values()):
            if flight.process is process and not flight.zombie:
                del self.flights[flight.actor]
        self._kill(process, crash=True)
        process.begin()
        process.last = self._here
        process.retried = False
        process.incarnation += 1
        # Numbers are a function of what a process remembers, so that states can be compared.
        process.ops = process.incarnation * OPERATIONS
        process.pending = None
        self.told = (process.index, ("crash", process.incarnation))
        if process.restart and self.left[fault.RESTART]:
            self.left = fault.spend(self.left, fault.RESTART)
            self.running = process
            op = process.start()
            self.running = None
            self._proceed(process, op)
        else:
            process.state = "down"
            self.w |= self.objects.bit("end", process.name)
