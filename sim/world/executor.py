"""Takes the steps of a run: what happens when an actor goes on.

A process runs until it issues an operation, and that is one step: the request lands, its reply is delivered,
and the process runs on to its next operation. The step's alternative (see `sim.faults`) says how it goes
otherwise. Every step leaves in `r` and `w` of the world what it read and wrote (see `footprints`), in
`before` which steps certainly came before it, and in `learnt` which process learnt what.

Requests. Only a landing touches the bucket. So a lost reply and a delivered reply leave the same footprint,
and a lost request leaves none. A late request lands, if ever, in a step of its own, as a flight that no
process waits for (a zombie: its sender may be dead by then); delayed messages arrive in the same way. A
request that changed nothing and gets the same reply as before counts as a round of a waiting loop (`spins`).
When no other actor could step, the round also comes after all their steps, since only their end made it
possible.

Going on. The next operation of a process is `pending` until its step is taken. A parallel step has no step of
its own: its requests become flights, each with a step, and the process goes on when the last of them is
answered. The program that sets the world up is a process too. When it returns, the processes run to their
first operations, in which no other actor has a part, and the properties are judged for the first time.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Outcome
from fencepost.sim.faults import PAUSE, pause_ns
from fencepost.sim.world import budget as fault
from fencepost.sim.world.footprints import CLOCK, EVERY_STEP, EVERYTHING, FLIGHTS_FROM
from fencepost.sim.world.located import AuditError, mistake_of, users_lines, users_lines_of
from fencepost.sim.world.monitor import Monitor
from fencepost.sim.world.operations import (
    ADVANCE,
    BLOCKED,
    CONVERTING,
    POWER_LOSS,
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
    Survival,
    Sync,
    Wake,
    same,
)
from fencepost.sim.world.process import Flight, Group, Process, Stuck
from fencepost.sim.world.stamps import CLOCKED, STAMPED, WATCHED

CLOCK_ACTOR = 900
POWER_ACTOR = 901
SPINS = 5
"""Rounds in which a process may repeat a request and get the same reply while others could go on."""
DEADLOCK = "no process waits for ever"
VALID_MAX = 300_000
"""Requests that are not validated again, because the recall of processes keeps them anyway."""
TICKETS = 100_000_000
"""Numbers set aside for the writes of one process."""
OPERATIONS = 10_000
"""Operations an incarnation may issue before its numbers run into the next one's."""
_OUTCOMES = {"conflict": Outcome.CONFLICT, "throttled": Outcome.THROTTLED}
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
        self._changed = True
        """Whether the thread that stepped changed memory that others share."""
        self._ticks = 0
        """The steps of the clock, as a bit set."""
        self._powered = 0
        """The steps in which power was lost, as a bit set."""
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
        self._changed = world.sharing is None
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
            self._power(alternative)
        elif actor in world.flights:
            self._step_flight(world.flights[actor], alternative)
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
            self._share_memory(actor)

    def _share_memory(self, actor: int) -> None:
        """Threads of one process share its memory: what they do between two steps may depend on it."""
        world = self._world
        process = world.trace[-1][2]
        if process is None or not process.index or process.machine.threads is None:
            return
        if world.trace[-1][1] in ("land", "never"):
            return
        machine = process.machine
        memory = world.footprints.bit("memory", machine.name)
        world.r |= memory | world.touched
        world.w |= world.touched
        if self._changed:
            world.w |= memory
        if world.sharing is not None:
            world.learnt = None
        elif world.learnt is not None:
            index, answer = world.learnt
            answer = tuple(answer) if type(answer) is list else answer
            world.learnt = (machine.index, ("thread", index, answer))
        machine.effective = process.effective
        if (self._changed or world.touched) and not process.naps and not process.spins:
            for other in (machine, *machine.threads):
                if other is not process:
                    # It may have waited for a variable.
                    other.naps = other.nap_reads = other.spins = 0

    def find_deadlock(self) -> None:
        """No actor can step any more: report the threads that still wait."""
        world = self._world
        waiting = [one for one in world.strands if type(one.pending) is Sync and not one.daemon]
        if waiting:
            world.report_violation(DEADLOCK, "; ".join(map(_waits, waiting)))

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
            return self._powered
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
            self._kill(process)
        if self._world.setup is not None:
            self._kill(self._world.setup)

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
            self._crash(process, op)
            return
        handler = self._handlers.get(type(op))
        if handler is None:
            self._request(process, op, alternative)
        else:
            handler(self, process, op, alternative)

    def _note(self, process: Process, note: Note, alternative: str) -> None:
        world = self._world
        process.naps = process.nap_reads = 0
        world.noted.setdefault(note.topic, []).append((process.name, note.value))
        world.r, world.w = world.footprints.writing("note", note.topic)
        process.effective = True
        self._log(process.index, alternative, process, process.ops, note, None)
        self._go_on(process, None)

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
        self._log(process.index, alternative, process, process.ops, op, reading)
        self._go_on(process, reading)

    def _sleep(self, process: Process, op: Sleep, alternative: str) -> None:
        world = self._world
        world.time_mattered = max(world.time_mattered, CLOCKED)
        world.r |= CLOCK
        until = world.clock_ns + op.nanoseconds
        process.effective = False
        process.naps += 1
        self._log(process.index, alternative, process, process.ops, op, until)
        process.last = self.here
        process.ops += 1
        process.pending = Wake(until, world.clock_ns)
        world.learnt = (process.index, until)

    def _wake(self, process: Process, op: Wake, alternative: str) -> None:
        world = self._world
        world.r |= CLOCK
        # A crash here is not the crash before it slept: time has passed.
        process.effective = world.clock_ns > op.since_ns
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
        world = self._world
        waiting = world.channels.get(op.subject, ())
        message = waiting[0] if waiting else None
        world.r, world.w = world.footprints.reading("channel", op.subject)
        if waiting:
            world.r, world.w = world.footprints.writing("channel", op.subject)
            world.channels[op.subject] = waiting[1:]
        process.effective = bool(waiting)
        self._log(process.index, alternative, process, process.ops, op, message)
        self._go_on(process, message)

    def _finish(self, process: Process, op: Finish, alternative: str) -> None:
        world = self._world
        self._log(process.index, alternative, process, process.ops, op, op.result)
        world.w = world.footprints.bit("end", process.name)
        self._end_threads(process)
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
            or self._powered
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
            self._begin(process)

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
        self._log(CLOCK_ACTOR, alternative, None, 0, ADVANCE, world.clock_ns)

    # Files, and power.

    def _call(self, process: Process, call: Call, alternative: str) -> None:
        world = self._world
        files = world.files
        answer = files.perform(process.index, process.ops, call)
        world.r, world.w = files.r, files.w
        if world.w and world.footprints.stamp:
            world.observed = True
        process.effective = files.outlives
        if answer == BLOCKED and call.kind == "flock":
            self._log(process.index, alternative, process, process.ops, call, answer)
            if world.alone:
                holder = world.processes[files.holder(call.args[1]) - 1].name
                held = (
                    f"{holder} holds"
                    if holder != process.name
                    else "it holds itself, through another descriptor"
                )
                world.report_violation(
                    DEADLOCK, f"{process.name} waits for the lock of {call.subject}, which {held}"
                )
            # It waits until somebody changes what it read.
            process.last_idle = (call, answer, world.r)
            process.spins = SPINS
            process.last = self.here
            return
        if world.w:
            process.spins = process.naps = process.nap_reads = 0
            process.last_idle = None
        else:
            process.nap_reads |= world.r
            self._count_spins(process, call, answer)
        self._log(process.index, alternative, process, process.ops, call, answer)
        if answer == CONVERTING and call.kind == "flock":
            process.last = self.here
        else:
            self._go_on(process, answer)

    def _power(self, alternative: str) -> None:
        """Power is lost, and all processes stop; or, in a step of its own, what is left of the disk is
        picked, and processes start again; or it is decided that power stays on.
        """
        world = self._world
        world.before = self._powered
        if world.survivors is not None:
            self._come_back(0 if alternative == "ok" else int(alternative.removeprefix("pick")))
            return
        if alternative == "ok":
            world.stays_on = True
            self._log(POWER_ACTOR, alternative, None, 0, POWER_LOSS, None)
            return
        world.is_barrier = True
        world.r = world.w = EVERYTHING
        self._powered |= self.here
        self._log(POWER_ACTOR, alternative, None, 0, POWER_LOSS, None)
        world.learnt = []
        for flight in [flight for flight in world.flights.values() if not flight.zombie]:
            del world.flights[flight.actor]
        for process in world.processes:
            if process.pending is None and process.group is None:
                continue
            self._kill_machine(process)
            self._forget(process)
            process.state = "off"
            world.learnt.append((process.index, ("crash", process.incarnation)))
        world.survivors = world.files.outcomes()

    def _come_back(self, picked: int) -> None:
        world = self._world
        world.is_barrier = True
        world.r = world.w = EVERYTHING
        survivors, world.survivors = world.survivors, None
        outcome = survivors[picked]
        world.files.survive(outcome)
        self._powered |= self.here
        alternative = f"pick{picked}" if picked else "ok"
        self._log(POWER_ACTOR, alternative, None, 0, Survival(len(survivors)), outcome.text)
        for process in world.processes:
            if process.state == "off" and process.restart and world.left[fault.RESTART]:
                world.left = fault.spend(world.left, fault.RESTART)
                self._begin(process)
            elif process.after_power_loss and process.state == "new":
                process.last = self.here
                self._begin(process)
            elif process.state == "off":
                process.state = "down"

    # Requests.

    def _request(self, process: Process, request: Any, alternative: str) -> None:
        world = self._world
        if alternative == "ok":
            reply = self._answer(process, request, process.ops)
            process.effective = world.w != 0
            if world.w:
                process.spins = process.naps = process.nap_reads = 0
                process.last_idle = None
            else:
                process.nap_reads |= world.r
                self._count_spins(process, request, reply)
        else:
            reply = self._answer_badly(process, request, process.ops, alternative)
            process.effective = alternative == "late"
            process.spins = process.naps = process.nap_reads = 0
            process.last_idle = None
            if reply is None:
                self._log(process.index, alternative, process, process.ops, request, None)
                process.retried = True
                process.last = self.here
                world.learnt = (process.index, "retried")
                return
        self._log(process.index, alternative, process, process.ops, request, reply)
        self._go_on(process, reply)

    def _count_spins(self, process: Process, request: Any, reply: Any) -> None:
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
            if repeats or id(request) in valid:
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
            self._loose(process, request, number)
        if alternative in ("request_lost", "late"):
            return request.ends(Outcome.UNKNOWN, "the reply was lost")
        return request.ends(_OUTCOMES[alternative], "by the adversary")

    def _loose(self, process: Process, request: Any, number: int) -> None:
        """A request goes on without its sender."""
        world = self._world
        actor = world.footprints.actor((process.index, number, "late"))
        world.flights[actor] = Flight(actor, process, request, number, -1, self.here, zombie=True)

    def _step_flight(self, flight: Flight, alternative: str) -> None:
        world = self._world
        process, request = flight.process, flight.request
        world.before = flight.born
        if flight.zombie:
            del world.flights[flight.actor]
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
            world.before |= group.steps
            self._crash(process, request)
            world.w |= world.footprints.bit("group", process.name)
            return
        if alternative == "ok":
            reply = self._answer(process, request, flight.number)
            process.effective = process.effective or world.w != 0
        else:
            reply = self._answer_badly(process, request, flight.number, alternative)
            process.effective = process.effective or alternative == "late" or world.w != 0
        world.r |= world.footprints.bit("group", process.name)
        self._log(flight.actor, alternative, process, flight.number, request, reply)
        if reply is None:
            flight.retried = True
            flight.born |= self.here
            return
        del world.flights[flight.actor]
        group.replies[flight.slot] = reply
        group.open -= 1
        group.steps |= self.here
        if not group.open:
            process.group = None
            process.ops += len(group.replies)
            self._go_on(process, group.replies, group.steps)

    def _deliver(self, post: Post) -> None:
        world = self._world
        world.channels[post.subject] = (*world.channels.get(post.subject, ()), post.message)
        world.r, world.w = world.footprints.writing("channel", post.subject)

    # Going on.

    def _go_on(self, process: Process, answer: Any, last: int = 0) -> None:
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
            op = self._watched(process, lambda: process.resume(answer), answer)
        world.running = None
        process.ops += 1
        process.retried = False
        self._proceed(process, op)

    def _watched(self, process: Process, act: Callable[[], Any], answer: Any) -> Any:
        """Let a thread go on, and find out whether it changes memory that others share."""
        world = self._world
        sharing, machine = world.sharing, process.machine
        if sharing is None:
            return act()
        site = (process.name, process.pending.kind, process.pending.subject)
        answer = tuple(answer) if type(answer) is list else answer
        history = process.history = sharing.number((process.history, machine.version, answer))
        if site in sharing.writers:
            self._changed = True
            op = act()
        elif history in sharing.known:
            self._changed = sharing.known[history]
            op = act()
        else:
            before = sharing.take(process)
            op = act()
            self._changed = sharing.known[history] = sharing.changed(before)
            if self._changed:
                sharing.found.add(site)
        if self._changed or world.touched:
            machine.version = sharing.number(("changed", history))
        return op

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
                self._begin(process)
        self._monitor.open()

    def _start(self, process: Process, op: Start, alternative: str) -> None:
        """A thread begins."""
        process.effective = False
        if op.ready is not None:
            self._world.r |= self._waits()
        self._log(process.index, alternative, process, process.ops, op, None)
        process.last = self.here
        process.ops += 1
        self._world.learnt = (process.index, None)
        self._begin(process)

    def _waits(self) -> int:
        footprints = self._world.footprints
        footprints.waits = footprints.bit("waits", "")
        return int(footprints.waits)

    def _sync(self, process: Process, op: Sync, alternative: str) -> None:
        world = self._world
        ready = op.ready is None or op.ready()
        answer = ready
        world.touched |= world.footprints.bit("sync", f"{process.machine.name}/{op.subject}")
        if op.ready is not None:
            world.r |= self._waits()
        if ready and op.take is not None:
            world.running = process
            taken = op.take()
            world.running = None
            if op.ready is None:
                answer = taken
        if op.until_ns >= 0:
            # Another order of time and of what it waits for may end otherwise.
            world.r |= CLOCK
        if ready:
            process.naps = process.nap_reads = 0
        else:
            process.naps += 1
        process.effective = False
        self._log(process.index, alternative, process, process.ops, op, answer)
        self._go_on(process, answer)

    def _begin(self, process: Process) -> None:
        world = self._world
        world.running = process
        thread = process.machine is not process
        op = self._watched(process, process.start, None) if thread else process.start()
        world.running = None
        self._proceed(process, op)

    def _crash(self, process: Process, op: Any) -> None:
        world = self._world
        self._log(process.index, "crash", process, process.ops, op, None)
        process = process.machine
        for flight in list(world.flights.values()):
            if flight.process.machine is process and not flight.zombie:
                del world.flights[flight.actor]
        self._kill_machine(process)
        if world.files is not None:
            read, written = world.files.end(process.index)
            world.r, world.w = world.r | read, world.w | written
        self._forget(process)
        world.learnt = (process.index, ("crash", process.incarnation, process.ended))
        if process.restart and world.restarts_run_out:
            # Who starts again is decided by the order of the crashes.
            restarts = world.footprints.bit("restarts", "")
            world.r |= restarts
            world.w |= restarts
        if process.restart and world.left[fault.RESTART]:
            world.left = fault.spend(world.left, fault.RESTART)
            self._begin(process)
        else:
            process.state = "down"
            world.w |= world.footprints.bit("end", process.name)
            self._begin_after_crash()

    def _kill_machine(self, process: Process) -> None:
        """A process crashes, with all its threads."""
        self._kill(process, crash=True)
        self._end_threads(process)

    def _end_threads(self, process: Process) -> None:
        """A process ends, and what it has of threads with it."""
        world = self._world
        if process.threads is None:
            return
        memory = world.footprints.bit("memory", process.name)
        world.r |= memory
        world.w |= memory
        histories = tuple(one.history for one in (process, *process.threads))
        process.ended = (*process.ended, (process.version, *sorted(histories)))
        for thread in process.threads:
            self._kill(thread, crash=True)
            del world.threads[thread.index]
            if world.files is not None:
                read, written = world.files.end(thread.index)
                world.r, world.w = world.r | read, world.w | written
            thread.pending = thread.group = None
        process.threads = None
        world.strands = [*world.processes, *world.threads.values()] if world.threads else world.processes

    def _forget(self, process: Process) -> None:
        """It lost its memory."""
        process.begin()
        process.last = self.here
        process.retried = False
        process.incarnation += 1
        # Numbers are a function of what a process remembers, so that states can be compared.
        process.ops = process.incarnation * OPERATIONS
        process.pending = None

    def _kill(self, process: Process, *, crash: bool = False) -> None:
        world = self._world
        world.running = process
        if not (process.crash() if crash else process.kill()):
            world.findings.append(
                f"process {process.name!r} does not let itself be crashed: it swallows the exception that "
                "unwinds it (look for a bare `except:` or `except BaseException:`)"
            )
        world.running = None

    def _log(
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
        Call: _call,
        Finish: _finish,
        Start: _start,
        Sync: _sync,
    }


def _waits(process: Process) -> str:
    """What a process waits for, where, and who has it."""
    op = process.pending
    frame = process.worker.gr_frame if process.worker is not None else None
    at = users_lines(frame) if frame is not None else ()
    holder = op.held_by() if type(op) is Sync and op.held_by is not None else None
    holds = "" if holder is None else f", which {'it' if holder is process else holder.name} holds"
    return f"{process.name} waits for {op.subject}{f' at {at[-1]}' if at else ''}{holds}"
