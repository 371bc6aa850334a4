"""Takes the steps of a run: what happens when an actor goes on.

A process runs until it issues an operation, and that is one step: the request lands, its reply is delivered,
and the process runs on to its next operation. The step's alternative (see `sim.faults`) says how it goes
otherwise. Requests, files and threads have modules of their own (`request_steps`, `file_steps`,
`thread_steps`). Every step leaves in `r` and `w` of the world what it read and wrote (see `footprints`), in
`before` which steps certainly came before it, and in `learnt` which process learnt what.

Going on. The next operation of a process is `pending` until its step is taken. A parallel step has no step of
its own: its requests become flights, each with a step, and the process goes on when the last of them is
answered. The program that sets the world up is a process too. When it returns, the processes run to their
first operations, in which no other actor has a part, and the properties are judged for the first time.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from fencepost.sim.faults import PAUSE, pause_ns
from fencepost.sim.world import budget as fault
from fencepost.sim.world.file_steps import FileSteps
from fencepost.sim.world.footprints import (
    CLOCK,
    CLOCK_ACTOR,
    EVERY_STEP,
    EVERYTHING,
    FLIGHTS_FROM,
    POWER_ACTOR,
)
from fencepost.sim.world.located import AuditError, mistake_of, users_lines_of
from fencepost.sim.world.monitor import Monitor
from fencepost.sim.world.operations import (
    ADVANCE,
    Call,
    Finish,
    Note,
    Parallel,
    Pick,
    Post,
    ReadClock,
    Receive,
    Sleep,
    Start,
    Sync,
    Wake,
)
from fencepost.sim.world.process import OPERATIONS, Flight, Group, Process, Stuck
from fencepost.sim.world.request_steps import RequestSteps
from fencepost.sim.world.stamps import CLOCKED, STAMPED, WATCHED
from fencepost.sim.world.thread_steps import ThreadSteps

_FREE = frozenset({"ok", "land", "never", "advance", "tick"})
TIME = EVERY_STEP | CLOCK
_SKEWS = {"skew+": 1, "skew-": -1}


class Executor:
    """Changes the run of `world`, one step at a time."""

    def __init__(self, world: Any, monitor: Monitor) -> None:
        self._world = world
        self._monitor = monitor
        self.here = 0
        """The place of the step that is being taken, as a bit."""
        self.requests = RequestSteps(world, self, monitor)
        self.files = FileSteps(world, self)
        self.threads = ThreadSteps(world, self)
        self._ticks = 0
        """The steps of the clock, as a bit set."""
        self._setup_answers: tuple[Any, ...] = ()
        """What the program picked while it set the world up."""

    def start(self, program: Callable[[Any], Any]) -> None:
        """Set the world up and run every process to its first step."""
        world = self._world
        world.setup = Process(0, "setup", program, (world,), {}, restart=False, may_raise=())
        self._proceed(world.setup, world.setup.start())

    def step(self, actor: int, alternative: str) -> None:
        """Let `actor` take its next step, with this alternative, and judge it."""
        world = self._world
        world.r = EVERY_STEP
        world.w = 0
        world.learnt = None
        world.is_barrier = False
        world.touched = 0
        self.here = 1 << len(world.trace)
        monitor = self._monitor
        if world.has_step_properties:
            monitor.look()
        if alternative not in _FREE:
            part = fault.price(alternative)
            if part >= 0:
                world.left = fault.spend(world.left, part)
        if actor == CLOCK_ACTOR:
            self._advance(alternative)
        elif actor == POWER_ACTOR:
            self.files.power(alternative)
        elif actor in world.flights:
            self.requests.take_flight(world.flights[actor], alternative)
        else:
            self._step_process(actor, alternative)
        if monitor.followers or monitor.folds:
            monitor.follow()
        if world.bounds:
            monitor.check_bounds()
        if world.w:
            self._wake_spinners()
            if world.w & monitor.watched and monitor.judging:
                monitor.judge()
        if monitor.suspicious:
            monitor.judge_again()
        if world.has_daemons:
            self._count_daemons(actor)
        if world.threads:
            self.threads.share_memory()

    def _count_daemons(self, actor: int) -> None:
        """The end of the others ends the run, and with it what daemons and time could still do."""
        world = self._world
        process = world.trace[-1][2]
        others = world.footprints.bit("end", "")
        if process is None or process.daemon:
            world.r |= others
            if process is not None and world.trace[-1][1] not in ("land", "never"):
                process.taken += 1
                if process.taken > world.daemon_steps:
                    # Only the end of the others made this possible: their steps come before it.
                    world.w = EVERYTHING
        elif process.pending is None or actor >= FLIGHTS_FROM:
            world.w |= others

    def past(self, actor: int) -> int:
        """The steps that certainly come before the actor's next one, as far as they are known."""
        world = self._world
        if actor == CLOCK_ACTOR:
            return self._ticks
        if actor == POWER_ACTOR:
            return self.files.powered
        flight = world.flights.get(actor)
        if flight is not None:
            born: int = flight.born
            return born
        owner = actor if actor <= len(world.processes) else world.footprints.owner(actor)
        if not owner:
            return 0
        process: Process = world.threads.get(actor) or world.processes[owner - 1]
        return process.last | (process.group.steps if process.group is not None else 0)

    def _wake_spinners(self) -> None:
        """Something changed: a process that waits for it may issue its request again."""
        world = self._world
        changed = 0 if world.w == EVERYTHING else world.w & ~TIME
        for process in world.strands:
            if changed & process.nap_reads:
                process.naps = process.nap_reads = 0
            if process.spins and world.w & process.last_idle[2] and not world.alone:
                process.spins = 0
        world.alone = False

    def close(self) -> None:
        """Unwind every process that has not ended."""
        for process in self._world.strands:
            self.kill(process)
        if self._world.setup is not None:
            self.kill(self._world.setup)

    # Steps of a process that are no requests.

    def _step_process(self, actor: int, alternative: str) -> None:
        world = self._world
        process = (
            (world.processes[actor - 1] if actor < FLIGHTS_FROM else world.threads[actor])
            if actor
            else world.setup
        )
        world.before = process.last
        op = process.pending
        if alternative == "crash":
            self.crash(process, op)
            return
        handler = self._handlers.get(type(op))
        if handler is not None:
            handler(self, process, op, alternative)
        else:
            self.requests.take(process, op, alternative)

    def _note(self, process: Process, note: Note, alternative: str) -> None:
        world = self._world
        process.naps = process.nap_reads = 0
        world.noted.setdefault(note.topic, []).append((process.name, note.value))
        world.r, world.w = world.footprints.writing("note", note.topic)
        process.effective = True
        self.log(process.index, alternative, process, process.ops, note, None)
        self.go_on(process, None)

    def _read_clock(self, process: Process, op: ReadClock, alternative: str) -> None:
        world = self._world
        wall = op.subject == "wall"
        if wall and not process.skew:
            process.skew = True
            process.skew_ns = _SKEWS.get(alternative, 0) * world.skew_ns
        world.r |= CLOCK
        world.observed = True
        process.effective = False
        reading = world.clock_ns + (process.skew_ns if wall else 0)
        self.log(process.index, alternative, process, process.ops, op, reading)
        self.go_on(process, reading)

    def _sleep(self, process: Process, op: Sleep, alternative: str) -> None:
        world = self._world
        world.time_mattered = max(world.time_mattered, CLOCKED)
        world.r |= CLOCK
        until = world.clock_ns + op.nanoseconds
        process.effective = False
        process.naps += 1
        self.log(process.index, alternative, process, process.ops, op, until)
        process.last = self.here
        process.ops += 1
        process.pending = Wake(until, world.clock_ns)
        world.learnt = (process.index, until)

    def _wake(self, process: Process, op: Wake, alternative: str) -> None:
        world = self._world
        world.r |= CLOCK
        # A crash here is not the crash before it slept: time has passed.
        process.effective = world.clock_ns > op.since_ns
        self.log(process.index, alternative, process, process.ops, op, None)
        self.go_on(process, None)

    def _pick(self, process: Process, op: Pick, alternative: str) -> None:
        chosen = 0 if alternative == "ok" else int(alternative.removeprefix("pick"))
        process.effective = False
        self.log(process.index, alternative, process, process.ops, op, chosen)
        self.go_on(process, chosen)

    def _post(self, process: Process, op: Post, alternative: str) -> None:
        if alternative == "notification_delayed":
            self.requests.send_late(process, op, process.ops)
        else:
            self.requests.deliver(op)
        process.effective = True
        self.log(process.index, alternative, process, process.ops, op, None)
        self.go_on(process, None)

    def _receive(self, process: Process, op: Receive, alternative: str) -> None:
        world = self._world
        waiting = world.channels.get(op.subject, ())
        message = waiting[0] if waiting else None
        world.r, world.w = world.footprints.reading("channel", op.subject)
        if waiting:
            world.r, world.w = world.footprints.writing("channel", op.subject)
            world.channels[op.subject] = waiting[1:]
        process.effective = bool(waiting)
        self.log(process.index, alternative, process, process.ops, op, message)
        self.go_on(process, message)

    def _finish(self, process: Process, op: Finish, alternative: str) -> None:
        world = self._world
        self.log(process.index, alternative, process, process.ops, op, op.result)
        world.w = world.footprints.bit("end", process.name)
        self.threads.end(process)
        if world.files is not None and process.machine is process:
            read, written = world.files.end(process.index)
            world.r, world.w = world.r | read, world.w | written
        process.last = self.here
        process.result = op.result
        process.error = op.error
        self._ended(process)
        world.learnt = (process.index, op.result)
        if op.error is not None and not isinstance(op.error, process.may_raise):
            kind = type(op.error).__name__
            if mistake := mistake_of(op.error):
                text = f"{process.name} raised {kind}: {op.error}; {mistake}"
                raise AuditError(text, users_lines_of(op.error))
            world.report_violation(f"{process.name} ends well", f"it raised {kind}: {op.error}")
        self._begin_after_crash()

    def _begin_after_crash(self) -> None:
        """When all others have ended and one of them by a crash, start the processes that wait for that.

        Every step of every process comes before theirs, so they race with none.
        """
        world = self._world
        waiting = [process for process in world.processes if process.after_crash and process.state == "new"]
        if (
            not waiting
            or self.files.powered
            or any(process.pending is not None or process.group is not None for process in world.processes)
            or all(process.state != "down" for process in world.processes)
        ):
            return
        world.is_barrier = True
        last = 0
        for process in world.processes:
            last |= process.last
        for process in waiting:
            process.last = last
            self.begin(process)

    def _ended(self, process: Process) -> None:
        if process.machine is not process:
            self._world.touched |= self._world.footprints.bit("sync", process.name)
        process.release()
        process.pending = None
        process.state = "done" if process.error is None else "failed"

    def _advance(self, alternative: str) -> None:
        world = self._world
        world.before = self._ticks
        self._ticks |= self.here
        world.w = CLOCK
        if alternative.startswith(PAUSE):
            world.clock_ns += pause_ns(alternative) or world.pause_ns
        elif alternative == "tick":
            world.clock_ns += world.tick_ns
            world.ticks -= 1
        else:
            world.clock_ns, forced = world.next_wake()
            if forced:
                # Only the end of the others made this possible: their steps come before it.
                world.w = EVERYTHING
        world.observed = world.timed == WATCHED
        self.log(CLOCK_ACTOR, alternative, None, 0, ADVANCE, world.clock_ns)

    # Going on.

    def go_on(self, process: Process, answer: Any, last: int = 0) -> None:
        """Deliver the answer, and run the process to its next operation."""
        world = self._world
        process.last = last or self.here
        world.learnt = (process.index, answer)
        if not process.index:
            self._setup_answers = (*self._setup_answers, answer)
        world.running = process if process.index else None
        if process.machine.threads is None:
            op = process.resume(answer)
        else:
            op = self.threads.watched(process, process.resume, answer)
        world.running = None
        process.ops += 1
        process.retried = False
        self._proceed(process, op)

    def _proceed(self, process: Process, op: Any) -> None:
        """A process, freshly started or resumed, waits for `op`."""
        world = self._world
        process.pending = op
        kind = type(op)
        if world.located is not None:
            for number in range(len(op.requests) if kind is Parallel else 1):
                world.located[process.index, process.ops + number] = process.at
        if kind is Parallel:
            group = process.group = Group(op, process.ops)
            for slot, request in enumerate(op.requests):
                number = group.first + slot
                actor = world.footprints.actor((process.index, number, f"parallel {group.first}"))
                world.flights[actor] = Flight(
                    actor, process, request, number, slot, process.last, zombie=False
                )
        elif kind is Finish:
            if type(op.error) is Stuck:
                raise op.error
            if process is world.setup:
                self._open(process, op)
            elif process.machine is not process and op.error is None:
                # Nothing of its code comes after what it did last.
                self._ended(process)

    def _open(self, setup: Process, op: Finish) -> None:
        """The program is set up: the processes start, and the properties are judged for the first time."""
        world = self._world
        setup.release()
        setup.pending = None
        world.setup = None
        if op.error is not None:
            raise op.error
        world.footprints.stamp = CLOCK if world.stamped and world.timed >= STAMPED else 0
        world.observed = world.timed == WATCHED or bool(
            world.readings or (world.footprints.stamp and (world.files or world.bucket.contents()))
        )
        if world.files is not None:
            world.files.settle()
        for process in world.processes:
            process.last = setup.last
            if world.recall is not None and world.shares_nothing:
                process.remember(world.recall, world.recall.root(self._setup_answers, process.name))
            if not (process.after_power_loss or process.after_crash):
                self.begin(process)
        self._monitor.open()

    def hand(self, process: Process, arrived: Any) -> None:
        """Let a process go on outside of a step: what it waited for came from outside of the world."""
        world = self._world
        world.running = process
        op = process.resume(arrived)
        world.running = None
        process.ops += 1
        self._proceed(process, op)

    def begin(self, process: Process) -> None:
        """Run a process or thread to its first operation."""
        world = self._world
        world.running = process
        thread = process.machine is not process
        op = self.threads.watched(process, process.start) if thread else process.start()
        world.running = None
        self._proceed(process, op)

    def crash(self, process: Process, op: Any) -> None:
        world = self._world
        self.log(process.index, "crash", process, process.ops, op, None)
        process = process.machine
        for flight in list(world.flights.values()):
            if flight.process.machine is process and not flight.zombie:
                del world.flights[flight.actor]
        self.kill_machine(process)
        if world.files is not None:
            read, written = world.files.end(process.index)
            world.r, world.w = world.r | read, world.w | written
        self.forget(process)
        world.learnt = (process.index, ("crash", process.incarnation, process.ended))
        if process.restart and world.restarts_run_out:
            # Who starts again is decided by the order of the crashes.
            restarts = world.footprints.bit("restarts", "")
            world.r |= restarts
            world.w |= restarts
        if process.restart and world.left[fault.RESTART]:
            world.left = fault.spend(world.left, fault.RESTART)
            self.begin(process)
        else:
            process.state = "down"
            world.w |= world.footprints.bit("end", process.name)
            self._begin_after_crash()

    def kill_machine(self, process: Process) -> None:
        """A process crashes, with all its threads."""
        self.kill(process, crash=True)
        self.threads.end(process)

    def forget(self, process: Process) -> None:
        """It lost its memory."""
        process.begin()
        process.last = self.here
        process.retried = False
        process.incarnation += 1
        # Numbers are a function of what a process remembers, so that states can be compared.
        process.ops = process.incarnation * OPERATIONS
        process.pending = None

    def kill(self, process: Process, *, crash: bool = False) -> None:
        world = self._world
        world.running = process
        if not (process.crash() if crash else process.kill()):
            world.findings.append(
                f"process {process.name!r} does not let itself be crashed: it swallows the exception that "
                "unwinds it (look for a bare `except:` or `except BaseException:`)"
            )
        world.running = None

    def log(
        self,
        actor: int,
        alternative: str,
        process: Process | None,
        number: int,
        op: Any,
        answer: Any,
        incarnation: int = -1,
    ) -> None:
        if incarnation < 0 and process is not None:
            incarnation = process.incarnation
        world = self._world
        world.trace.append(
            (actor, alternative, process, max(incarnation, 0), number, op, answer, world.clock_ns)
        )

    _handlers: ClassVar[dict[type, Callable[..., None]]] = {
        Note: _note,
        ReadClock: _read_clock,
        Sleep: _sleep,
        Wake: _wake,
        Pick: _pick,
        Post: _post,
        Receive: _receive,
        Finish: _finish,
        Call: lambda self, *step: self.files.call(*step),
        Start: lambda self, *step: self.threads.start(*step),
        Sync: lambda self, *step: self.threads.sync(*step),
    }
