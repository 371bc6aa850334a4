"""Steps that are requests: how they land, and what becomes of the reply.

Only a landing touches the bucket. So a lost reply and a delivered reply leave the same footprint, and a lost
request leaves none. A late request lands, if ever, in a step of its own, as a flight that no process waits
for (a zombie: its sender may be dead by then); delayed messages arrive in the same way. A request that
changed nothing counts as a part of a round of a waiting loop, see `loops`. When no other actor could step,
the round also comes after all their steps, since only their end made it possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import StoreError
from fencepost.sim.faults import ALTERNATIVES
from fencepost.sim.world.effects import EFFECTS
from fencepost.sim.world.monitor import Monitor
from fencepost.sim.world.operations import Post
from fencepost.sim.world.process import Flight, Process
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.run import RunState

if TYPE_CHECKING:
    from fencepost.sim.world.executor import Executor

VALID_MAX = 300_000
"""Requests that are not validated again, because the recall of processes keeps them anyway."""
TICKETS = 100_000_000
"""Numbers set aside for the writes of one process."""
_FLYING = frozenset(name for name, found in ALTERNATIVES.items() if found.flies)


class RequestSteps:
    """Lands requests in the bucket of a run."""

    def __init__(self, run: RunState, executor: Executor, monitor: Monitor) -> None:
        self.run = run
        self._executor = executor
        self._monitor = monitor

    def take(self, record: StepRecord, process: Process, request: Any, alternative: str) -> None:
        """Take the pending request of a process."""
        run = self.run
        if alternative == "ok":
            reply = self.land(record, process, request, process.ops)
            if record.written:
                process.change_something(True)
            else:
                self.change_nothing(record, process, request, reply)
        else:
            reply = EFFECTS[alternative](self, record, process, request, process.ops)
            process.change_something(alternative in _FLYING)
            if reply is None:
                run.log(process.index, alternative, process, process.ops, request, None)
                process.retry(record.place)
                record.teach((process.index, "retried"))
                return
        run.log(process.index, alternative, process, process.ops, request, reply)
        self._executor.go_on(record, process, reply)

    def change_nothing(
        self, record: StepRecord, process: Process, op: Any, answer: Any, effective: bool = False
    ) -> None:
        """Count a step that changed nothing as a possible round of a waiting loop."""
        process.change_nothing(op, answer, record.read, effective=effective)
        if self.run.alone:
            # Only the end of the others made this request possible: their steps come before it.
            record.follow_all()

    def land(self, record: StepRecord, process: Process, request: Any, number: int) -> Any:
        """Land the request."""
        run = self.run
        bucket, footprints = run.bucket, run.footprints
        bucket.take_ticket(process.index * TICKETS + 2 * number + process.retried)
        idle = type(request) is req.Delete and not bucket.versioned and bucket.body(request.key) is None
        now_ns = run.start_ns + run.clock_ns if run.stamped else run.start_ns
        valid = footprints.valid
        try:
            repeats = not self._monitor.judging and not footprints.refuses
            if repeats or (process.node is not None and id(request) in valid):
                # Found valid before, in this run or in the one whose beginning it repeats.
                reply = bucket.answer_again(request, now_ns)
            else:
                reply = bucket.answer(request, now_ns)
                if process.node is not None and len(valid) < VALID_MAX:
                    valid[id(request)] = request
        except StoreError as error:
            footprints.note_refusal()
            reply = error
        if idle:
            # Deleting nothing is `done`, and changes nothing.
            record.set_footprint(footprints.reading("key", request.key))
        else:
            record.read, record.written = footprints.footprint(request, reply)  # no call: at every request
            if footprints.stamp and record.written and not run.observed:
                run.observe_time()
        return reply

    def send_late(self, record: StepRecord, process: Process, request: Any, number: int) -> None:
        """Let a request go on without its sender."""
        run = self.run
        actor = run.footprints.actor((process.index, number, "late"))
        run.launch(Flight(actor, process, request, number, -1, record.place, zombie=True))

    def take_flight(self, record: StepRecord, flight: Flight, alternative: str) -> None:
        """Take a request of a parallel step, or one whose sender gave up."""
        if flight.zombie:
            self._land_late(record, flight, alternative)
            return
        run = self.run
        process, request, group = flight.process, flight.request, flight.process.group
        assert group is not None
        if alternative == "crash":
            record.come_after(group.steps)
            self._executor.crash(record, process, request)
            record.add(0, run.footprints.bit("group", process.name))
            return
        if alternative == "ok":
            reply = self.land(record, process, request, flight.number)
            process.set_effective(process.effective or record.written != 0)
        else:
            reply = EFFECTS[alternative](self, record, process, request, flight.number)
            process.set_effective(process.effective or alternative in _FLYING or record.written != 0)
        record.add_read(run.footprints.bit("group", process.name))
        run.log(flight.actor, alternative, process, flight.number, request, reply)
        if reply is None:
            flight.retry(record.place)
            return
        run.land(flight)
        if group.answer(flight.slot, reply, record.place):
            process.join()
            self._executor.go_on(record, process, group.replies, group.steps)

    def _land_late(self, record: StepRecord, flight: Flight, alternative: str) -> None:
        """Land a request whose sender gave up, or lose it for good."""
        run = self.run
        process, request = flight.process, flight.request
        run.land(flight)
        reply = None
        if alternative == "land":
            if type(request) is Post:
                self.deliver(record, request)
            else:
                reply = self.land(record, process, request, flight.number)
        run.log(flight.actor, alternative, process, flight.number, request, reply, flight.incarnation)

    def deliver(self, record: StepRecord, post: Post) -> None:
        """Let a message arrive."""
        self.run.deliver(post)
        record.set_footprint(self.run.footprints.writing("channel", post.subject))
