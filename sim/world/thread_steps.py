"""Steps of processes that have threads: what they share, how a thread begins, waits and ends.

Theory: see `sim.threads`. The `Executor` takes every step. In a process with threads, a step also
reads the memory of its process, and writes it if it changed objects that another thread can reach. It reads
and writes the locks, queues and futures that it used (`StepRecord.touched`).

*Delivery.* After a request has landed, or a lock is taken, another thread of the process may go on before the
next line of the thread's code. The thread whose request landed first may be the last to append its result to
a list. So the delivery of an answer is a step of its own. The first step has the effect
on the store, on the disk or on the lock, and touches no memory; the second one runs the code. Nothing outside
of the process can notice the second step, so it conflicts with steps of the same process alone. Both are one
step where no other thread of the process can step in between: all have ended, or wait for what only this
thread could give. Both are one step, too, where an operation takes nothing and its answer cannot change
(a sleep that ends, the end of a thread that was joined, and the step before which others may go on after
something was given).

The memory of a thread is numbered, because states are compared by it. Its `history` is a number for its
answers and for the `version` of the shared memory in which it went on; the `version` is a number for the
thread that changed memory last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.sim.faults import ALTERNATIVES
from fencepost.sim.world.footprints import CLOCK
from fencepost.sim.world.located import users_lines
from fencepost.sim.world.operations import Delivery, NextLine, Pick, Start, Sync, Wake
from fencepost.sim.world.process import Process
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.run import RunState

if TYPE_CHECKING:
    from fencepost.sim.world.executor import Executor

_LATE = frozenset(name for name, found in ALTERNATIVES.items() if found.late)
_AT_ONCE = frozenset({Wake, Pick, Start, Delivery, NextLine})
"""Operations after which code runs in the same step: they have no effect that another thread could notice."""
_DELIVERED = "delivered"
DEADLOCK = "no process waits for ever"


def spawn(run: RunState, name: str, fn: Callable[[], Any], *, daemon: bool, start: Start) -> Process:
    """Make a thread of the running process; it begins when the scheduler takes its step `start`."""
    assert run.running is not None, "threads are started by processes"
    machine = run.running.machine
    if machine.threads is None:
        history = 0
        if run.sharing is not None:
            learnt = ("process", machine.index, machine.ended, _history(run, machine))
            history = run.sharing.number(learnt)
        memory = run.footprints.bit("memory", machine.name)
        machine.have_threads(memory, run.footprints.bit("life", machine.name), history)
    siblings = machine.threads
    assert siblings is not None
    taken = {thread.name for thread in siblings}
    base = full = f"{machine.name}/{name}"
    number = 1
    while full in taken:
        number += 1
        full = f"{base}-{number}"
    actor = run.footprints.actor((machine.index, machine.incarnation, full, "thread"))
    thread = type(machine)(
        actor, full, fn, (), {}, restart=False, may_raise=machine.may_raise, trace=run.trace
    )
    if run.sharing is not None:
        thread.set_history(run.sharing.number(("thread", full, machine.history, machine.version)))
    thread.become_thread_of(machine, daemon=daemon, start=start, last=run.record.place)
    if run.located is not None:
        run.start_thread_at(thread, users_lines() or run.running.begun_at)
    siblings.append(thread)
    run.add_thread(thread)
    return thread


def _history(run: RunState, machine: Process) -> tuple[Any, ...]:
    """Return everything that a process learnt so far, and the picks of the program that set it up."""
    return tuple(
        [
            (alternative, tuple(answer) if type(answer) is list else answer)
            for _, alternative, process, _, _, _, answer, _ in run.trace
            if process is machine or (process is not None and not process.index)
        ]
    )


class ThreadSteps:
    """Takes the steps of threads."""

    def __init__(self, run: RunState, executor: Executor) -> None:
        self._run = run
        self._executor = executor
        self._changed = run.sharing is None
        """True if the thread that steps changed memory that others share."""
        self._landed = False
        """True if the step ran no code: the answer is delivered in a later one."""

    def start(self, record: StepRecord, process: Process, op: Start, alternative: str) -> None:
        """Take the step in which a thread begins."""
        process.set_effective(False)
        if op.ready is not None:
            record.add_read(self._run.footprints.waiting())
        self._run.log(process.index, alternative, process, process.ops, op, None)
        process.wait_to_begin(record.place)
        record.teach((process.index, None))
        self._executor.begin(process)

    def sync(self, record: StepRecord, process: Process, op: Sync, alternative: str) -> None:
        """Take a step on a lock, an event, a queue or a future."""
        run = self._run
        ready = op.ready is None or op.ready()
        answer = ready
        record.touch(run.footprints.bit("sync", f"{process.machine.name}/{op.subject}"))
        if op.ready is not None:
            record.add_read(run.footprints.waiting())
        if ready and op.take is not None:
            taken = run.act_for(process, op.take)
            if op.ready is None:
                answer = taken
        if op.until_ns >= 0:
            # Another order of time and of the object that it waits for may end otherwise.
            record.add_read(CLOCK)
        if ready:
            process.end_naps()
        else:
            process.nap()
        process.go_round(op, answer, 0)
        process.set_effective(False)
        run.log(process.index, alternative, process, process.ops, op, answer)
        self._executor.go_on(record, process, answer)

    def defer(self, record: StepRecord, process: Process, answer: Any, last: int) -> bool:
        """Have the answer delivered in a step of its own; return False if no other thread could notice."""
        run, op = self._run, process.pending
        kind = type(op)
        if kind in _AT_ONCE or (kind is Sync and _is_atomic(op)) or not has_rival(process):
            return False
        run.defer_answer()
        process.await_delivery(Delivery(op, answer, len(run.trace) - 1), last or record.place)
        self._landed = True
        if run.sharing is not None:
            machine = process.machine
            learnt = tuple(answer) if type(answer) is list else answer
            found = machine.version if kind is Sync else 0
            history = process.set_history(run.sharing.number((process.history, "landed", found, learnt)))
            if record.touched:
                machine.set_version(run.sharing.number(("changed", history)))
        return True

    def deliver(self, record: StepRecord, process: Process, delivery: Delivery, alternative: str) -> None:
        """Take the step in which a thread gets an answer and goes on."""
        process.set_effective(False)
        self._run.log(process.index, alternative, process, process.ops, delivery, None)
        self._executor.deliver(record, process, delivery.answer)

    def line(self, record: StepRecord, process: Process, op: NextLine, alternative: str) -> None:
        """Take the step in which a thread goes on with a line of its code."""
        process.set_effective(False)
        self._run.log(process.index, alternative, process, process.ops, op, None)
        self._executor.go_on(record, process, None)

    def resume(self, process: Process, answer: Any, last: int) -> Any:
        """Run a thread to its next operation, and find out if it changes memory that others share."""

        def act() -> Any:
            return self._run.resume(process, answer, last)

        return process.within(lambda: self._watched(process, answer, act))

    def begin(self, process: Process) -> Any:
        """Run a thread to its first operation, and find out if it changes memory that others share."""
        return process.within(lambda: self._watched(process, None, lambda: self._run.begin(process)))

    def _watched(self, process: Process, answer: Any, act: Callable[[], Any]) -> Any:
        run = self._run
        sharing, machine = run.sharing, process.machine
        if sharing is None:
            return act()
        op = process.pending
        if type(op) is Delivery:
            op, answer = op.op, _DELIVERED
        site = (process.name, op.kind, op.subject)
        answer = tuple(answer) if type(answer) is list else answer
        history = process.set_history(sharing.number((process.history, machine.version, answer)))
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
                sharing.learn_names(before, process)
        if self._changed or run.record.touched:
            machine.set_version(sharing.number(("changed", history)))
        return op

    def share_memory(self, record: StepRecord) -> None:
        """Add the memory of the process to the footprint: code between two steps may depend on it."""
        run = self._run
        changed, self._changed = self._changed, run.sharing is None
        landed, self._landed = self._landed, False
        process = run.trace[-1][2]
        if process is None or not process.index or process.machine.threads is None:
            return
        if run.trace[-1][1] in _LATE:
            return
        machine = process.machine
        changed = changed and not landed
        record.add((machine.life if landed else machine.memory) | record.touched, record.touched)
        if changed:
            record.add(0, machine.memory)
        learnt = record.learnt
        if run.sharing is not None:
            record.teach(None)
        elif isinstance(learnt, tuple):
            index, answer = learnt
            answer = tuple(answer) if type(answer) is list else answer
            record.teach((machine.index, ("thread", index, answer)))
        machine.set_effective(process.effective)
        if (changed or record.touched) and not process.naps and not process.spins:
            for other in (machine, *process.machine.threads):
                if other is not process:
                    other.end_waiting()

    def end(self, record: StepRecord, process: Process) -> None:
        """End the threads of a process that ends."""
        run = self._run
        threads = process.threads
        if threads is None:
            return
        ended = process.memory | process.life
        record.add(ended, ended)
        process.end_threads()
        for thread in threads:
            run.kill(thread, crash=True)
            if run.files is not None:
                record.add(*run.files.end(thread.index))
            thread.stop_thread()
        process.drop_threads()
        run.remove_threads(threads)

    def find_deadlock(self) -> None:
        """No actor can step any more: report the threads that still wait."""
        run = self._run
        waiting = [one for one in run.strands if type(one.pending) is Sync and not one.daemon]
        if waiting:
            run.report_violation(DEADLOCK, "; ".join(map(_describe_wait, waiting)))

    def state(self, crashes: int) -> tuple[Any, ...]:
        """Return what the future depends on besides the state of the processes; see `World.state`."""
        return tuple(
            sorted(
                (
                    one.index,
                    one.pending is None,
                    crashes and one.effective,
                    one.retried,
                    one.rounds.state(),
                    one.naps and (one.naps, one.nap_reads),
                    None if one.group is None else tuple(one.group.replies),
                    one.taken,
                    getattr(one.pending, "until_ns", 0),
                    one.history,
                    one.version,
                )
                for one in self._run.strands
                if one.machine.threads is not None
            )
        )


def has_rival(process: Process) -> bool:
    """Return True if another thread of the process may step before this one does."""
    machine = process.machine
    for other in (machine, *(machine.threads or ())):
        op = other.pending
        if other is process or op is None:
            continue
        kind = type(op)
        if (kind is not Sync and kind is not Start) or op.ready is None:
            return True
        if kind is Sync and op.external:
            continue
        if op.until_ns >= 0 or op.ready():
            return True
    return False


def _is_atomic(op: Sync) -> bool:
    """Return True if it takes nothing, and its answer cannot change."""
    return op.atomic or (op.ready is None and op.take is None)


def _describe_wait(process: Process) -> str:
    """Return the object that a process waits for, the line, and the holder."""
    op = process.pending
    frame = process.worker.gr_frame if process.worker is not None else None
    at = users_lines(frame) if frame is not None else ()
    holder = op.held_by() if type(op) is Sync and op.held_by is not None else None
    holds = "" if holder is None else f", which {'it' if holder is process else holder.name} holds"
    return f"{process.name} waits for {op.subject}{f' at {at[-1]}' if at else ''}{holds}"
