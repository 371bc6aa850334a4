"""What becomes of a request: it lands or not, now or later, and its sender is told the truth or not.

Only a landing touches the bucket. So an answer that was lost and an answer that was given leave the same
footprint, and a request that was dropped leaves none. A request that is late lands, if ever, in a step of
its own, as a flight that nobody waits for (a zombie: its sender may be dead by then); messages that are
delayed arrive in the same way.

A request that changed nothing and is answered as before counts as a round of a loop that waits (`spins`).
When nobody else could step, the round also comes after everything the others did, since only their coming
to an end made it possible.
"""

from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Outcome
from fencepost.sim.world.objects import EVERYTHING
from fencepost.sim.world.operations import Post, same
from fencepost.sim.world.process import Flight, Process
from fencepost.sim.world.resuming import Resuming

VALID_MAX = 300_000
"""Requests that are not checked again, because what is remembered of processes holds them anyway."""
TICKETS = 100_000_000
"""Numbers set aside for the writes of one process."""


class Sending(Resuming):
    """What becomes of what a process sends."""

    def _request(self, process: Process, request: Any, alternative: str) -> None:
        if alternative == "ok":
            reply = self._answer(process, request, process.ops)
            process.effective = self.w != 0
            if self.w:
                process.spins = 0
                process.asked = None
            else:
                self._count_spins(process, request, reply)
        else:
            reply = self._answer_badly(process, request, process.ops, alternative)
            process.effective = alternative == "late"
            process.spins = 0
            process.asked = None
            if reply is None:
                self._log(process.index, alternative, process, process.ops, request, None)
                process.retried = True
                process.last = self._here
                self.told = (process.index, "retried")
                return
        self._log(process.index, alternative, process, process.ops, request, reply)
        self._go_on(process, reply)

    def _count_spins(self, process: Process, request: Any, reply: Any) -> None:
        before = process.asked
        if before is not None and before[1] == reply and same(before[0], request):
            process.spins += 1
        else:
            process.spins = 0
        process.asked = (request, reply, self.r)
        if self._alone:
            # It could only ask because the others had come to an end: their steps come before it.
            self.w = EVERYTHING

    def _answer(self, process: Process, request: Any, number: int) -> Any:
        """The request lands."""
        bucket = self.bucket
        bucket.ticket = process.index * TICKETS + 2 * number + process.retried
        idle = type(request) is ask.Delete and not bucket.versioned and bucket.body(request.key) is None
        now_ns = self.start_ns + self.stamp_ns
        valid = self.objects.valid
        try:
            if id(request) in valid:
                reply = bucket.answer_again(request, now_ns)
            else:
                reply = bucket.answer(request, now_ns)
                if process.node is not None and len(valid) < VALID_MAX:
                    valid[id(request)] = request
        except StoreError as error:
            reply = error
        if idle:
            # Deleting nothing is `done`, and changes nothing.
            self.r, self.w = self.objects.reading("key", request.key)
        else:
            self.r, self.w = self.objects.masks(request, reply)
        return reply

    def _answer_badly(self, process: Process, request: Any, number: int, alternative: str) -> Any:
        """The reply when something went wrong; None when the SDK asks again."""
        if alternative in ("reply_lost", "duplicated"):
            reply = self._answer(process, request, number)
            if isinstance(reply, StoreError) and not getattr(reply, "travels", False):
                # Found to be senseless before it was sent.
                return reply
            self.untold[len(self.trace)] = reply
            return (
                request.ends(Outcome.UNKNOWN, "the reply was lost") if alternative == "reply_lost" else None
            )
        if alternative == "late":
            self._loose(process, request, number)
        if alternative in ("request_lost", "late"):
            return request.ends(Outcome.UNKNOWN, "the reply was lost")
        return request.ends(_OUTCOMES[alternative], "by the adversary")

    def _loose(self, process: Process, request: Any, number: int) -> None:
        """A request goes on without its sender."""
        actor = self.objects.actor((process.index, number, "late"))
        self.flights[actor] = Flight(actor, process, request, number, -1, self._here, zombie=True)

    def _step_flight(self, flight: Flight, alternative: str) -> None:
        process, request = flight.process, flight.request
        self.before = flight.born
        if flight.zombie:
            del self.flights[flight.actor]
            reply = None
            if alternative == "land":
                if type(request) is Post:
                    self._deliver(request)
                else:
                    reply = self._answer(process, request, flight.number)
            self._log(flight.actor, alternative, process, flight.number, request, reply, flight.incarnation)
            return
        group = process.group
        assert group is not None
        if alternative == "crash":
            self.before |= group.steps
            self._crash(process, request)
            self.w |= self.objects.bit("group", process.name)
            return
        if alternative == "ok":
            reply = self._answer(process, request, flight.number)
            process.effective = process.effective or self.w != 0
        else:
            reply = self._answer_badly(process, request, flight.number, alternative)
            process.effective = process.effective or alternative == "late" or self.w != 0
        self.r |= self.objects.bit("group", process.name)
        self._log(flight.actor, alternative, process, flight.number, request, reply)
        if reply is None:
            flight.retried = True
            flight.born |= self._here
            return
        del self.flights[flight.actor]
        group.replies[flight.slot] = reply
        group.open -= 1
        group.steps |= self._here
        if not group.open:
            process.group = None
            process.ops += len(group.replies)
            self._go_on(process, group.replies, group.steps)

    def _deliver(self, post: Post) -> None:
        self.channels[post.subject] = (*self.channels.get(post.subject, ()), post.message)
        self.r, self.w = self.objects.writing("channel", post.subject)


_OUTCOMES = {"conflict": Outcome.CONFLICT, "throttled": Outcome.THROTTLED}
