"""Takes the steps of a run: what happens when an actor goes on.

A process runs until it issues an operation, and that is one step: the request lands, its reply is delivered,
and the process runs on to its next operation. The step's alternative (see `sim.faults`) says how it goes
otherwise. In a process with threads, the delivery is a step of its own. Requests, files and threads have
modules of their own (`request_steps`, `file_steps`, `thread_steps`). Every step returns a record (see
`record`): its footprint, the steps that certainly came before it, and the process that learnt something.

Going on. The next operation of a process is `pending` until its step is taken. A parallel step has no step of
its own: its requests become flights, each with a step, and the process goes on when the last of them is
answered. The program that sets the world up is a process too. When it returns, the processes run to their
first operations, in which no other actor has a part, and the properties are judged for the first time.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from fencepost.sim.faults import ALTERNATIVES, PAUSE, SKEWS, kind_of, pause_ns, skew_ns
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
from fencepost.sim.world.loops import BETWEEN, IN_VAIN, IN_VAIN_MAX
from fencepost.sim.world.monitor import Monitor
from fencepost.sim.world.operations import (
    ADVANCE,
    Call,
    Delivery,
    Finish,
    NextLine,
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
from fencepost.sim.world.process import Flight, Group, Process, Stuck
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.request_steps import RequestSteps
from fencepost.sim.world.run import RunState
from fencepost.sim.world.scheduler import Scheduler
from fencepost.sim.world.stamps import CLOCKED
from fencepost.sim.world.thread_steps import ThreadSteps

_FREE = frozenset(name for name, found in ALTERNATIVES.items() if not found.kind)
_LATE = frozenset(name for name, found in ALTERNATIVES.items() if found.late)
TIME = EVERY_STEP | CLOCK


class Executor:
    """Changes a run, one step at a time."""

    def __init__(self, run: RunState, scheduler: Scheduler, monitor: Monitor) -> None:
        self._run = run
        self._scheduler = scheduler
        self._monitor = monitor
        self.requests = RequestSteps(run, self, monitor)
        self.files = FileSteps(run, self)
        self.threads = ThreadSteps(run, self)
        self._ticks = 0
        """Steps of the clock, as a bit set."""
        self._rush_read = 0
        """Mask of the objects that the loop reads which runs through its rounds now."""
        self._rush_sleeps = False
        self._rush_since = 0
        """Number of such steps in the run before this loop began."""
        self.waited_ns = 0
        """Time by which a loop that never sleeps moved the clock last."""
        self._setup_answers: tuple[Any, ...] = ()
        """Answers to the picks of the program while it set the world up."""

    def start(self, program: Callable[..., Any], *args: Any) -> None:
        """Set the world up and run every process to its first step."""
        run = self._run
        setup = Process(0, "setup", program, args, {}, restart=False, may_raise=())
        run.set_up(setup)
        self._proceed(setup, run.begin(setup))

    def step(self, actor: int, alternative: str) -> StepRecord:
        """Let `actor` take its next step, with this alternative, and judge it."""
        run = self._run
        monitor = self._monitor
        if monitor.has_step_properties:
            monitor.look()
        if alternative not in _FREE:
            part = fault.price(alternative)
            if part >= 0:
                run.spend(part)
        if actor < CLOCK_ACTOR or actor in run.threads:
            # Most steps are a process's: no call for them.
            process = run.processes[actor - 1] if 0 < actor < CLOCK_ACTOR else run.strand_or_setup(actor)
            record = run.begin_step(process.last)
            op = process.pending
            if alternative == IN_VAIN:
                alternative = "ok"
                self._begin_rush(process)
            rushes = run.rushing is process
            moved = self._let_time_pass(op) if rushes else False
            handler = self._handlers.get(type(op))
            if alternative == "crash":
                self.crash(record, process, op)
            elif handler is not None:
                handler(self, record, process, op, alternative)
            else:
                self.requests.take(record, process, op, alternative)
            if rushes:
                self._go_on_rushing(record, process, moved)
            if run.loops is not None and run.loops.has_starving and alternative != "crash":
                self._count_rounds(record, process, op)
        elif actor == CLOCK_ACTOR:
            record = run.begin_step(self._ticks)
            self._advance(record, alternative)
        elif actor == POWER_ACTOR:
            record = run.begin_step(self.files.powered)
            self.files.power(record, alternative)
        else:
            flight = run.flights[actor]
            record = run.begin_step(flight.born)
            self.requests.take_flight(record, flight, alternative)
        if monitor.followers or monitor.folds or monitor.promises:
            monitor.follow(record)
        if monitor.bounds:
            monitor.check_bounds()
        written = record.written
        if written:
            self._wake_spinners(written)
            if written & monitor.watched and monitor.judging:
                monitor.judge(record)
        if monitor.suspicious:
            monitor.judge_again()
        if run.has_daemons:
            self._count_daemons(record, actor)
        if run.threads:
            self.threads.share_memory(record)
        return record

    def _count_daemons(self, record: StepRecord, actor: int) -> None:
        """Order steps of daemons and the ends of the others: those end the run, and what daemons could do."""
        run = self._run
        process = run.trace[-1][2]
        others = run.footprints.bit("end", "")
        if process is None or process.daemon:
            record.add_read(others)
            if (
                process is not None
                and type(run.trace[-1][5]) not in (Delivery, NextLine)
                and run.trace[-1][1] not in _LATE
                and process.count_step() > run.settings.daemon_steps
            ):
                # Only the end of the others made this possible: their steps come before it.
                record.follow_all()
        elif process.pending is None or actor >= FLIGHTS_FROM:
            record.add(0, others)

    def _count_rounds(self, record: StepRecord, process: Process, op: Any) -> None:
        """Count the rounds of a loop that never ends and has effects."""
        run = self._run
        if process.daemon or run.loops is None or not run.loops.begins_round(process, op):
            return
        if process.count_step() > run.settings.wait_rounds:
            # Only because no other actor could step: their steps come before it.
            record.follow_all()

    # A process that takes all rounds of its loop that are left, see `loops`.

    def _begin_rush(self, process: Process) -> None:
        self._run.begin_rush(process)
        self._rush_read = process.rounds.read
        self._rush_sleeps = process.rounds.sleeps
        self._rush_since = self._run.rushed
        self.waited_ns = 0

    def _let_time_pass(self, op: Any) -> bool:
        """Move the clock as far as the next step of the loop needs; return True if it moved."""
        run = self._run
        until_ns = getattr(op, "until_ns", -1)
        if until_ns > run.clock_ns and (type(op) is Wake or not op.ready()):
            run.advance_to(until_ns)
            return True
        long = run.rushed - self._rush_since > IN_VAIN_MAX // 4
        if type(op) is ReadClock and (long or not self._rush_sleeps):
            self.waited_ns = 2 * self.waited_ns or run.settings.tick_ns
            run.advance_to(run.clock_ns + self.waited_ns)
            return True
        return False

    def _go_on_rushing(self, record: StepRecord, process: Process, moved: bool) -> None:
        """Complete the record of a step of the loop, and find out if the loop goes on."""
        run = self._run
        # One record for all rounds: each is only possible as long as nothing changes that the loop reads.
        record.add_read(self._rush_read)
        if moved or self._rush_sleeps:
            record.add(CLOCK, CLOCK)
        rounds, op = process.rounds, process.pending
        count = run.count_rush() - self._rush_since
        if type(op) not in BETWEEN and not (rounds.repeated and rounds.goes_on_with(op)):
            run.end_rush()
        elif count >= IN_VAIN_MAX:
            if run.loops is not None:
                run.loops.learn(rounds.key)
            run.end_rush(overran=True)

    def past(self, actor: int) -> int:
        """Return the steps that certainly come before the actor's next one, as far as they are known."""
        run = self._run
        if actor == CLOCK_ACTOR:
            return self._ticks
        if actor == POWER_ACTOR:
            return self.files.powered
        flight = run.flights.get(actor)
        if flight is not None:
            return flight.born
        owner = actor if actor <= len(run.processes) else run.footprints.owner(actor)
        if not owner:
            return 0
        process = run.threads.get(actor) or run.processes[owner - 1]
        return process.last | (process.group.steps if process.group is not None else 0)

    def _wake_spinners(self, written: int) -> None:
        """Let processes that wait for a change of these objects issue their requests again."""
        run = self._run
        changed = 0 if written == EVERYTHING else written & ~TIME
        for process in run.strands:
            if changed & process.nap_reads:
                process.end_naps()
            waits = (process.spins or process.blocked) and not run.alone
            if waits and written & (process.rounds.read | process.blocked):
                process.end_spins()
        if run.alone:
            run.end_repeating()

    def close(self) -> None:
        """Unwind every process that has not ended."""
        run = self._run
        for process in run.strands:
            run.kill(process)
        if run.setup is not None:
            run.kill(run.setup)
        del self.requests, self.files, self.threads  # they lead back here, see `Process.let_go`

    # Steps of a process that are no requests.

    def _note(self, record: StepRecord, process: Process, note: Note, alternative: str) -> None:
        run = self._run
        process.end_naps()
        process.go_round(note, None, 0)
        run.note(process.name, note.topic, note.value)
        record.set_footprint(run.footprints.writing("note", note.topic))
        process.set_effective(True)
        run.log(process.index, alternative, process, process.ops, note, None)
        self.go_on(record, process, None)

    def _read_clock(self, record: StepRecord, process: Process, op: ReadClock, alternative: str) -> None:
        run = self._run
        wall, machine = op.subject == "wall", process.machine
        record.add_read(CLOCK)
        if wall and machine.threads is not None and run.settings.budget.skew:
            # The thread that reads first decides the error for all of them.
            error = run.footprints.bit("clock-error", machine.name)
            record.add(error, 0 if machine.skew else error)
        if wall and not machine.skew:
            size_ns = skew_ns(alternative) or run.settings.skew_ns
            machine.decide_skew(SKEWS.get(kind_of(alternative), 0) * size_ns)
        run.observe_time()
        run.show_time()
        process.set_effective(False)
        process.go_round(op, None, 0)
        reading = run.clock_ns + (machine.skew_ns if wall else 0)
        run.log(process.index, alternative, process, process.ops, op, reading)
        self.go_on(record, process, reading)

    def _sleep(self, record: StepRecord, process: Process, op: Sleep, alternative: str) -> None:
        run = self._run
        run.depend_on_time(CLOCKED)
        record.add_read(CLOCK)
        until = run.clock_ns + op.nanoseconds
        process.set_effective(False)
        process.nap()
        process.go_round(op, None, 0)
        run.log(process.index, alternative, process, process.ops, op, until)
        process.sleep(until, run.clock_ns, record.place)
        record.teach((process.index, until))

    def _wake(self, record: StepRecord, process: Process, op: Wake, alternative: str) -> None:
        run = self._run
        record.add_read(CLOCK)
        # A crash here is not the crash before it slept: time has passed.
        process.set_effective(run.clock_ns > op.since_ns)
        run.log(process.index, alternative, process, process.ops, op, None)
        self.go_on(record, process, None)

    def _pick(self, record: StepRecord, process: Process, op: Pick, alternative: str) -> None:
        chosen = 0 if alternative == "ok" else int(alternative.removeprefix("pick"))
        process.set_effective(False)
        self._run.log(process.index, alternative, process, process.ops, op, chosen)
        self.go_on(record, process, chosen)

    def _post(self, record: StepRecord, process: Process, op: Post, alternative: str) -> None:
        if alternative == "notification_delayed":
            self.requests.send_late(record, process, op, process.ops)
        else:
            self.requests.deliver(record, op)
        process.set_effective(True)
        self._run.log(process.index, alternative, process, process.ops, op, None)
        self.go_on(record, process, None)

    def _receive(self, record: StepRecord, process: Process, op: Receive, alternative: str) -> None:
        run = self._run
        arrived, message = run.receive(op.subject)
        footprints = run.footprints
        touch = footprints.writing if arrived else footprints.reading
        record.set_footprint(touch("channel", op.subject))
        process.set_effective(arrived)
        if not arrived:
            process.go_round(op, None, record.read)
        run.log(process.index, alternative, process, process.ops, op, message)
        self.go_on(record, process, message)

    def _finish(self, record: StepRecord, process: Process, op: Finish, alternative: str) -> None:
        run = self._run
        run.log(process.index, alternative, process, process.ops, op, op.result)
        record.add(0, run.footprints.bit("end", process.name))
        self.threads.end(record, process)
        if run.files is not None and process.machine is process:
            record.add(*run.files.end(process.index))
        process.finish(op, record.place)
        self._touch_ended(process)
        record.teach((process.index, op.result))
        if op.error is not None and not isinstance(op.error, process.may_raise):
            kind = type(op.error).__name__
            if mistake := mistake_of(op.error):
                text = f"{process.name} raised {kind}: {op.error}; {mistake}"
                raise AuditError(text, users_lines_of(op.error))
            run.report_violation(f"{process.name} ends well", f"it raised {kind}: {op.error}")
        self._begin_after_crash(record)

    def _begin_after_crash(self, record: StepRecord) -> None:
        """When all others have ended and one of them by a crash, start the processes that wait for that.

        Every step of every process comes before theirs, so they race with none.
        """
        processes = self._run.processes
        waiting = [process for process in processes if process.after_crash and process.state == "new"]
        if (
            not waiting
            or self.files.powered
            or any(process.pending is not None or process.group is not None for process in processes)
            or all(process.state != "down" for process in processes)
        ):
            return
        record.become_barrier()
        last = 0
        for process in processes:
            last |= process.last
        for process in waiting:
            process.set_last(last)
            self.begin(process)

    def _touch_ended(self, process: Process) -> None:
        """Order the end of a thread and the steps that wait for it."""
        if process.machine is not process:
            self._run.record.touch(self._run.footprints.bit("sync", process.name))

    def _advance(self, record: StepRecord, alternative: str) -> None:
        run = self._run
        self._ticks |= record.place
        record.pass_time()
        if alternative.startswith(PAUSE):
            run.advance_to(run.clock_ns + (pause_ns(alternative) or run.settings.pause_ns))
        elif alternative == "tick":
            run.tick()
        else:
            until_ns, forced = self._scheduler.next_wake()
            run.advance_to(until_ns)
            if forced:
                # Only the end of the others made this possible: their steps come before it.
                record.follow_all()
        run.log(CLOCK_ACTOR, alternative, None, 0, ADVANCE, run.clock_ns)

    # Going on.

    def go_on(self, record: StepRecord, process: Process, answer: Any, last: int = 0) -> None:
        """Deliver the answer, and run the process to its next operation.

        Where other threads of the process may step before that, the delivery is a step of its own.
        """
        record.learnt = (process.index, answer)  # no call: this runs at every step
        if process.machine.threads is not None and self.threads.defer(record, process, answer, last):
            return
        if not process.index:
            self._setup_answers = (*self._setup_answers, answer)
        if process.machine.threads is not None:
            self.deliver(record, process, answer, last)
            return
        run = self._run
        op = run.resume(process, answer, last or record.place)
        kind = type(op)
        if kind is Parallel or kind is Finish or run.located is not None:
            self._proceed(process, op)

    def deliver(self, record: StepRecord, process: Process, answer: Any, last: int = 0) -> None:
        """Run the process to its next operation with this answer."""
        run = self._run
        if process.machine.threads is None:
            op = run.resume(process, answer, last or record.place)
        else:
            op = self.threads.resume(process, answer, last or record.place)
        kind = type(op)
        if kind is Parallel or kind is Finish or run.located is not None:
            self._proceed(process, op)

    def _proceed(self, process: Process, op: Any) -> None:
        """Prepare for an operation that a process, freshly started or resumed, waits for."""
        run = self._run
        kind = type(op)
        if run.located is not None:
            for number in range(len(op.requests) if kind is Parallel else 1):
                run.locate(process.index, process.ops + number, process.at)
        if kind is Parallel:
            group = Group(op, process.ops)
            process.fork(group)
            for slot, request in enumerate(op.requests):
                number = group.first + slot
                actor = run.footprints.actor((process.index, number, f"parallel {group.first}"))
                run.launch(Flight(actor, process, request, number, slot, process.last, zombie=False))
        elif kind is Finish:
            if type(op.error) is Stuck:
                raise op.error
            if process is run.setup:
                self._open(process, op)
            elif process.machine is not process and op.error is None:
                # Nothing of its code comes after its last operation.
                self._touch_ended(process)
                process.end()

    def _open(self, setup: Process, op: Finish) -> None:
        """Start the processes of a program that is set up, and judge the properties for the first time."""
        run = self._run
        setup.end_set_up()
        run.open()
        if op.error is not None:
            raise op.error
        if run.files is not None:
            run.files.settle()
        for process in run.processes:
            process.set_last(setup.last)
            if run.recall is not None and run.settings.shares_nothing:
                process.remember(run.recall, run.recall.root(self._setup_answers, process.name))
            if not (process.after_power_loss or process.after_crash):
                self.begin(process)
        self._monitor.open(run.record)

    def hand(self, process: Process, arrived: Any) -> None:
        """Let a process go on outside of a step, with an answer from outside of the world."""
        self._proceed(process, self._run.resume(process, arrived, process.last))

    def begin(self, process: Process) -> None:
        """Run a process or thread to its first operation."""
        thread = process.machine is not process
        self._proceed(process, self.threads.begin(process) if thread else self._run.begin(process))

    def crash(self, record: StepRecord, process: Process, op: Any) -> None:
        """Take the memory of a process and its threads away; start it again while the budget lasts."""
        run = self._run
        run.log(process.index, "crash", process, process.ops, op, None)
        process = process.machine
        run.drop_flights(process)
        self.kill_machine(record, process)
        if run.files is not None:
            record.add(*run.files.end(process.index))
        process.forget(record.place)
        record.teach((process.index, ("crash", process.incarnation, process.ended)))
        budget = run.settings.budget
        if process.restart and 0 < budget.restart < budget.crash:
            # The order of the crashes decides which process starts again.
            restarts = run.footprints.bit("restarts", "")
            record.add(restarts, restarts)
        if process.restart and run.budget_left[fault.RESTART]:
            run.spend(fault.RESTART)
            self.begin(process)
        else:
            process.stop("down")
            record.add(0, run.footprints.bit("end", process.name))
            self._begin_after_crash(record)

    def kill_machine(self, record: StepRecord, process: Process) -> None:
        """Crash a process, with all its threads."""
        self._run.kill(process, crash=True)
        self.threads.end(record, process)

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
        Delivery: lambda self, *step: self.threads.deliver(*step),
        NextLine: lambda self, *step: self.threads.line(*step),
    }
