"""Steps that are requests: how they land, and what becomes of the reply.

Only a landing touches the bucket. So a lost reply and a delivered reply leave the same footprint, and a lost
request leaves none. A late request lands, if ever, in a step of its own, as a flight that no process waits
for (a zombie: its sender may be dead by then); delayed messages arrive in the same way. A request that
changed nothing and gets the same reply as before counts as a round of a waiting loop (`spins`). When no other
actor could step, the round also comes after all their steps, since only their end made it possible.
"""

from typing import Any

from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Outcome
from fencepost.sim.world.footprints import EVERYTHING
from fencepost.sim.world.monitor import Monitor
from fencepost.sim.world.operations import Post, same
from fencepost.sim.world.process import Flight, Process

SPINS = 5
"""Rounds in which a process may repeat a request and get the same reply while others could go on."""
VALID_MAX = 300_000
"""Requests that are not validated again, because the recall of processes keeps them anyway."""
TICKETS = 100_000_000
"""Numbers set aside for the writes of one process."""
_OUTCOMES = {"conflict": Outcome.CONFLICT, "throttled": Outcome.THROTTLED}


class RequestSteps:
    """What happens to the bucket of `world` when the executor takes a step."""

    def __init__(self, world: Any, executor: Any, monitor: Monitor) -> None:
        self._world = world
        self._executor = executor
        self._monitor = monitor

    def take(self, process: Process, request: Any, alternative: str) -> None:
        """The pending request of a process."""
        world = self._world
        if alternative == "ok":
            reply = self._answer(process, request, process.ops)
            process.effective = world.w != 0
            if world.w:
                process.spins = process.naps = process.nap_reads = 0
                process.last_idle = None
            else:
                process.nap_reads |= world.r
                self.count_spins(process, request, reply)
        else:
            reply = self._answer_badly(process, request, process.ops, alternative)
            process.effective = alternative == "late"
            process.spins = process.naps = process.nap_reads = 0
            process.last_idle = None
            if reply is None:
                self._executor.log(process.index, alternative, process, process.ops, request, None)
                process.retried = True
                process.last = self._executor.here
                world.learnt = (process.index, "retried")
                return
        self._executor.log(process.index, alternative, process, process.ops, request, reply)
        self._executor.go_on(process, reply)

    def count_spins(self, process: Process, request: Any, reply: Any) -> None:
        """It changed nothing: whether it was a round of a waiting loop."""
        world = self._world
        before = process.last_idle
        if before is not None and before[1] == reply and same(before[0], request):
            process.spins += 1
        else:
            process.spins = 0
        process.last_idle = (request, reply, world.r)
        if world.alone:
            # Only the end of the others made this request possible: their steps come before it.
            world.w = EVERYTHING

    def _answer(self, process: Process, request: Any, number: int) -> Any:
        """The request lands."""
        world = self._world
        bucket = world.bucket
        bucket.ticket = process.index * TICKETS + 2 * number + process.retried
        idle = type(request) is req.Delete and not bucket.versioned and bucket.body(request.key) is None
        now_ns = world.start_ns + world.stamp_ns
        valid = world.footprints.valid
        try:
            repeats = not self._monitor.judging and not world.footprints.refuses
            if repeats or (process.node is not None and id(request) in valid):
                # Found valid before, in this run or in the one whose beginning it repeats.
                reply = bucket.answer_again(request, now_ns)
            else:
                reply = bucket.answer(request, now_ns)
                if process.node is not None and len(valid) < VALID_MAX:
                    valid[id(request)] = request
        except StoreError as error:
            world.footprints.refuses = True
            reply = error
        if idle:
            # Deleting nothing is `done`, and changes nothing.
            world.r, world.w = world.footprints.reading("key", request.key)
        else:
            world.r, world.w = world.footprints.footprint(request, reply)
            if world.w and world.footprints.stamp:
                world.observed = True
        return reply

    def _answer_badly(self, process: Process, request: Any, number: int, alternative: str) -> Any:
        """The reply under a fault; None when the SDK sends the request again."""
        if alternative in ("reply_lost", "duplicated"):
            reply = self._answer(process, request, number)
            if isinstance(reply, StoreError) and not getattr(reply, "travels", False):
                # The client refuses the request before it is sent.
                return reply
            self._world.unreceived[len(self._world.trace)] = reply
            return (
                request.ends(Outcome.UNKNOWN, "the reply was lost") if alternative == "reply_lost" else None
            )
        if alternative == "late":
            self.send_late(process, request, number)
        if alternative in ("request_lost", "late"):
            return request.ends(Outcome.UNKNOWN, "the reply was lost")
        return request.ends(_OUTCOMES[alternative], "by the adversary")

    def send_late(self, process: Process, request: Any, number: int) -> None:
        """A request goes on without its sender."""
        world = self._world
        actor = world.footprints.actor((process.index, number, "late"))
        world.flights[actor] = Flight(actor, process, request, number, -1, self._executor.here, zombie=True)

    def take_flight(self, flight: Flight, alternative: str) -> None:
        """A request of a parallel step, or one whose sender gave up."""
        world = self._world
        process, request = flight.process, flight.request
        world.before = flight.born
        if flight.zombie:
            del world.flights[flight.actor]
            reply = None
            if alternative == "land":
                if type(request) is Post:
                    self.deliver(request)
                else:
                    reply = self._answer(process, request, flight.number)
            self._executor.log(
                flight.actor, alternative, process, flight.number, request, reply, flight.incarnation
            )
            return
        group = process.group
        assert group is not None
        if alternative == "crash":
            world.before |= group.steps
            self._executor.crash(process, request)
            world.w |= world.footprints.bit("group", process.name)
            return
        if alternative == "ok":
            reply = self._answer(process, request, flight.number)
            process.effective = process.effective or world.w != 0
        else:
            reply = self._answer_badly(process, request, flight.number, alternative)
            process.effective = process.effective or alternative == "late" or world.w != 0
        world.r |= world.footprints.bit("group", process.name)
        self._executor.log(flight.actor, alternative, process, flight.number, request, reply)
        if reply is None:
            flight.retried = True
            flight.born |= self._executor.here
            return
        del world.flights[flight.actor]
        group.replies[flight.slot] = reply
        group.open -= 1
        group.steps |= self._executor.here
        if not group.open:
            process.group = None
            process.ops += len(group.replies)
            self._executor.go_on(process, group.replies, group.steps)

    def deliver(self, post: Post) -> None:
        """A message arrives."""
        world = self._world
        world.channels[post.subject] = (*world.channels.get(post.subject, ()), post.message)
        world.r, world.w = world.footprints.writing("channel", post.subject)
