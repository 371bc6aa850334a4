"""The steps: what happens when an actor is let go on.

A process runs until it asks for something, and that is one step: the request lands, its reply is delivered,
and the process runs on to what it asks for next. What else can become of it is the step's alternative (see
`budget`). Every step leaves in `r` and `w` what it read and wrote (see `objects`), in `before` which steps
came before it for certain, and in `told` which process learnt what.

Requests are in `sending`, and what comes after the answer is in `resuming`; here is what all steps have in
common, and the small ones: notes, clocks, choices, messages, ends.
"""

from collections.abc import Callable
from typing import ClassVar

from fencepost.sim.world import budget as fault
from fencepost.sim.world.objects import CLOCK, EVERY_STEP, EVERYTHING
from fencepost.sim.world.operations import ADVANCE, Finish, Note, Pick, Post, ReadClock, Receive, Sleep, Wake
from fencepost.sim.world.process import Process
from fencepost.sim.world.run import CLOCK_ACTOR
from fencepost.sim.world.sending import Sending
from fencepost.sim.world.view import Violation


class Steps(Sending):
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
        if self.bounds:
            self._hold_to_bounds()
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
        if alternative == "notification_delayed":
            self._loose(process, op, process.ops)
        else:
            self._deliver(op)
        process.effective = True
        self._log(process.index, alternative, process, process.ops, op, None)
        self._go_on(process, None)

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

    def _advance(self, alternative: str) -> None:
        self.before = self._ticks
        self._ticks |= self._here
        if alternative == "pause+":
            self.clock_ns += self.pause_ns
        else:
            self.clock_ns = min(
                process.pending.until_ns
                for process in self.processes
                if type(process.pending) is Wake and process.pending.until_ns > self.clock_ns
            )
        self.w = EVERYTHING if alternative == "advance" else CLOCK
        self._log(CLOCK_ACTOR, alternative, None, 0, ADVANCE, self.clock_ns)

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
