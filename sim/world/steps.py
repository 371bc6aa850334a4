"""The steps: what happens when an actor is let go on.

A process runs until it asks for something, and that is one step: the request lands, its reply is delivered,
and the process runs on to what it asks for next. What else can become of it is the step's alternative (see
`budget`). Every step leaves in `r` and `w` what it read and wrote (see `objects`), in `before` which steps
came before it for certain, and in `told` which process learnt what.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from holdfast.impl.store import requests as ask
from holdfast.impl.store.errors import StoreError
from holdfast.impl.store.requests import Outcome
from holdfast.sim.world import budget as fault
from holdfast.sim.world.objects import CLOCK, EVERY_STEP, EVERYTHING
from holdfast.sim.world.operations import (
    ADVANCE,
    Finish,
    Note,
    Parallel,
    Pick,
    Post,
    ReadClock,
    Receive,
    Sleep,
    Wake,
    same,
)
from holdfast.sim.world.process import Flight, Group, Process
from holdfast.sim.world.run import CLOCK_ACTOR, Run
from holdfast.sim.world.view import FINALLY, Violation

OPERATIONS = 10_000
"""Operations an incarnation may issue before its numbers run into the next one's."""
VALID_MAX = 300_000
"""Requests that are not checked again, because what is remembered of processes holds them anyway."""
TICKETS = 100_000_000
"""Numbers set aside for the writes of one process."""


class Steps(Run):
    """What every step does."""

    def step(self, actor: int, alternative: str) -> None:
        """Let `actor` take its next step, with this alternative."""
        self.r = EVERY_STEP
        self.w = 0
        self.told = None
        self._here = 1 << len(self.trace)
        if alternative not in _FREE:
            part = fault.price(alternative)
            if part >= 0:
                self.left = fault.spend(self.left, part)
        if actor == CLOCK_ACTOR:
            self._advance(alternative)
        elif actor in self.flights:
            self._step_flight(self.flights[actor], alternative)
        else:
            self._step_process(actor, alternative)
        if self.followers:
            self._follow()
        if self.w:
            self._wake_spinners()
            if self.w & self._watched and self.judging:
                self._judge()

    def _step_process(self, actor: int, alternative: str) -> None:
        process = self.processes[actor - 1] if actor else self._setup
        assert process is not None
        self.before = process.last
        op = process.pending
        if alternative == "crash":
            self._crash(process, op)
            return
        handler = self._handlers.get(type(op))
        if handler is None:
            self._request(process, op, alternative)
        else:
            handler(self, process, op, alternative)

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
        except StoreError as wrong:
            reply = wrong
        if idle:
            # Deleting nothing is `done`, and changes nothing.
            self.r, self.w = self.objects.reading("key", request.key)
        else:
            self.r, self.w = self.objects.masks(request, reply)
        return reply

    def _answer_badly(self, process: Process, request: Any, number: int, alternative: str) -> Any:
        """The reply when something went wrong; None when the SDK asks again."""
        if alternative in ("lost", "retry"):
            reply = self._answer(process, request, number)
            if isinstance(reply, StoreError) and not getattr(reply, "travels", False):
                # Found to be senseless before it was sent.
                return reply
            self.untold[len(self.trace)] = reply
            return request.ends(Outcome.UNKNOWN, "the reply was lost") if alternative == "lost" else None
        if alternative == "late":
            self._loose(process, request, number)
        if alternative in ("dropped", "late"):
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

    def _note(self, process: Process, note: Note, alternative: str) -> None:
        self.noted.setdefault(note.topic, []).append((process.name, note.value))
        self.r, self.w = self.objects.writing("note", note.topic)
        process.effective = True
        self._log(process.index, alternative, process, process.ops, note, None)
        self._go_on(process, None)

    def _read_clock(self, process: Process, op: ReadClock, alternative: str) -> None:
        wall = op.subject == "wall"
        if wall and not process.skew:
            process.skew = True
            process.skew_ns = _SKEWS.get(alternative, 0) * self.skew_ns
        self.r |= CLOCK
        process.effective = False
        reading = self.clock_ns + (process.skew_ns if wall else 0)
        self._log(process.index, alternative, process, process.ops, op, reading)
        self._go_on(process, reading)

    def _sleep(self, process: Process, op: Sleep, alternative: str) -> None:
        self.time_mattered = True
        self.r |= CLOCK
        until = self.clock_ns + op.nanoseconds
        process.effective = False
        self._log(process.index, alternative, process, process.ops, op, until)
        process.last = self._here
        process.ops += 1
        process.pending = Wake(until)
        self.told = (process.index, until)

    def _wake(self, process: Process, op: Wake, alternative: str) -> None:
        self.r |= CLOCK
        process.effective = False
        self._log(process.index, alternative, process, process.ops, op, None)
        self._go_on(process, None)

    def _pick(self, process: Process, op: Pick, alternative: str) -> None:
        chosen = 0 if alternative == "ok" else int(alternative.removeprefix("pick"))
        process.effective = False
        self._log(process.index, alternative, process, process.ops, op, chosen)
        self._go_on(process, chosen)

    def _post(self, process: Process, op: Post, alternative: str) -> None:
        if alternative == "delay":
            self._loose(process, op, process.ops)
        else:
            self._deliver(op)
        process.effective = True
        self._log(process.index, alternative, process, process.ops, op, None)
        self._go_on(process, None)

    def _deliver(self, post: Post) -> None:
        self.channels[post.subject] = (*self.channels.get(post.subject, ()), post.message)
        self.r, self.w = self.objects.writing("channel", post.subject)

    def _receive(self, process: Process, op: Receive, alternative: str) -> None:
        waiting = self.channels.get(op.subject, ())
        message = waiting[0] if waiting else None
        self.r, self.w = self.objects.reading("channel", op.subject)
        if waiting:
            self.r, self.w = self.objects.writing("channel", op.subject)
            self.channels[op.subject] = waiting[1:]
        process.effective = bool(waiting)
        self._log(process.index, alternative, process, process.ops, op, message)
        self._go_on(process, message)

    def _finish(self, process: Process, op: Finish, alternative: str) -> None:
        self._log(process.index, alternative, process, process.ops, op, op.result)
        self.w = self.objects.bit("end", process.name)
        process.release()
        process.pending = None
        process.last = self._here
        process.result = op.result
        process.error = op.error
        process.state = "done" if op.error is None else "failed"
        self.told = (process.index, op.result)
        if op.error is not None and not isinstance(op.error, process.may_raise):
            kind = type(op.error).__name__
            self.violation = Violation(f"{process.name} ends well", f"it raised {kind}: {op.error}")

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
        if process.restart and self.left[fault.RESTARTS]:
            self.left = fault.spend(self.left, fault.RESTARTS)
            self.running = process
            op = process.start()
            self.running = None
            self._proceed(process, op)
        else:
            process.state = "down"
            self.w |= self.objects.bit("end", process.name)

    def _advance(self, alternative: str) -> None:
        self.before = self._ticks
        self._ticks |= self._here
        if alternative == "pause":
            self.clock_ns += self.pause_ns
        else:
            self.clock_ns = min(
                process.pending.until_ns
                for process in self.processes
                if type(process.pending) is Wake and process.pending.until_ns > self.clock_ns
            )
        self.w = EVERYTHING if alternative == "advance" else CLOCK
        self._log(CLOCK_ACTOR, alternative, None, 0, ADVANCE, self.clock_ns)

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

    _handlers: ClassVar[dict[type, Callable[..., None]]] = {
        Note: _note,
        ReadClock: _read_clock,
        Sleep: _sleep,
        Wake: _wake,
        Pick: _pick,
        Post: _post,
        Receive: _receive,
        Finish: _finish,
    }


_FREE = frozenset({"ok", "land", "never", "advance"})
_SKEWS = {"skew+": 1, "skew-": -1}
_OUTCOMES = {"conflict": Outcome.CONFLICT, "throttled": Outcome.THROTTLED}
