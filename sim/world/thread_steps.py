"""Steps of processes that have threads: what they share, how a thread begins, waits and ends.

Theory: see `sim.threads`. The `Executor` takes every step. Here is what comes in addition where a process has
threads: a step reads the memory of its process and, when it changed what another thread can reach, writes it;
and it reads and writes the locks, queues and futures that it used (`World.touched`).

What a thread knows is numbered, because a state is compared by it: `history` by what it learnt and by the
`version` of the memory in which it went on, `version` by who changed memory last.
"""

from collections.abc import Callable
from typing import Any

from fencepost.sim.world.footprints import CLOCK
from fencepost.sim.world.located import users_lines
from fencepost.sim.world.operations import Start, Sync
from fencepost.sim.world.process import OPERATIONS, Process

DEADLOCK = "no process waits for ever"


class ThreadSteps:
    """What happens to the threads of `world` when the executor takes a step."""

    def __init__(self, world: Any, executor: Any) -> None:
        self._world = world
        self._executor = executor
        self._changed = world.sharing is None
        """Whether the thread that steps changed memory that others share."""

    def spawn(self, name: str, fn: Callable[[], Any], *, daemon: bool, start: Start) -> Process:
        """A thread of the running process; it begins when the scheduler takes its step `start`."""
        world = self._world
        assert world.running is not None, "threads are started by processes"
        machine: Process = world.running.machine
        if machine.threads is None:
            machine.threads = []
            machine.memory = world.footprints.bit("memory", machine.name)
            if world.sharing is not None:
                machine.history = world.sharing.number(
                    ("process", machine.index, machine.ended, self._history(machine))
                )
        taken = {thread.name for thread in machine.threads}
        base = full = f"{machine.name}/{name}"
        number = 1
        while full in taken:
            number += 1
            full = f"{base}-{number}"
        actor = world.footprints.actor((machine.index, machine.incarnation, full, "thread"))
        thread = type(machine)(
            actor, full, fn, (), {}, restart=False, may_raise=machine.may_raise, trace=world.trace
        )
        if world.sharing is not None:
            thread.history = world.sharing.number(("thread", full, machine.history, machine.version))
        thread.machine, thread.incarnation = machine, machine.incarnation
        thread.ops = machine.incarnation * OPERATIONS
        thread.daemon = daemon or machine.daemon
        thread.state, thread.pending = "running", start
        thread.last = self._executor.here
        if world.located is not None:
            thread.begun_at = users_lines() or world.running.begun_at
            world.located[thread.index, thread.ops] = thread.begun_at
        machine.threads.append(thread)
        world.threads[actor] = thread
        world.strands = [*world.processes, *world.threads.values()]
        world.has_daemons = world.has_daemons or thread.daemon
        return thread

    def _history(self, machine: Process) -> tuple[Any, ...]:
        """All that a process learnt so far, and what the program picked that set it up."""
        return tuple(
            [
                (alternative, tuple(answer) if type(answer) is list else answer)
                for _, alternative, process, _, _, _, answer, _ in self._world.trace
                if process is machine or (process is not None and not process.index)
            ]
        )

    def start(self, process: Process, op: Start, alternative: str) -> None:
        """The step in which a thread begins."""
        process.effective = False
        if op.ready is not None:
            self._world.r |= self._waits()
        self._executor.log(process.index, alternative, process, process.ops, op, None)
        process.last = self._executor.here
        process.ops += 1
        self._world.learnt = (process.index, None)
        self._executor.begin(process)

    def sync(self, process: Process, op: Sync, alternative: str) -> None:
        """A step on a lock, an event, a queue or a future."""
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
        self._executor.log(process.index, alternative, process, process.ops, op, answer)
        self._executor.go_on(process, answer)

    def _waits(self) -> int:
        footprints = self._world.footprints
        footprints.waits = footprints.bit("waits", "")
        return int(footprints.waits)

    def watched(self, process: Process, act: Callable[..., Any], *answers: Any) -> Any:
        """Let a thread go on, and find out whether it changes memory that others share."""
        world = self._world
        sharing, machine = world.sharing, process.machine
        if sharing is None:
            return act(*answers)
        site = (process.name, process.pending.kind, process.pending.subject)
        answer = answers[0] if answers else None
        answer = tuple(answer) if type(answer) is list else answer
        history = process.history = sharing.number((process.history, machine.version, answer))
        if site in sharing.writers:
            self._changed = True
            op = act(*answers)
        elif history in sharing.known:
            self._changed = sharing.known[history]
            op = act(*answers)
        else:
            before = sharing.take(process)
            op = act(*answers)
            self._changed = sharing.known[history] = sharing.changed(before)
            if self._changed:
                sharing.found.add(site)
        if self._changed or world.touched:
            machine.version = sharing.number(("changed", history))
        return op

    def share_memory(self) -> None:
        """After a step: what threads of one process do between two steps may depend on it."""
        world = self._world
        changed, self._changed = self._changed, world.sharing is None
        process = world.trace[-1][2]
        if process is None or not process.index or process.machine.threads is None:
            return
        if world.trace[-1][1] in ("land", "never"):
            return
        machine = process.machine
        world.r |= machine.memory | world.touched
        world.w |= world.touched
        if changed:
            world.w |= machine.memory
        if world.sharing is not None:
            world.learnt = None
        elif world.learnt is not None:
            index, answer = world.learnt
            answer = tuple(answer) if type(answer) is list else answer
            world.learnt = (machine.index, ("thread", index, answer))
        machine.effective = process.effective
        if (changed or world.touched) and not process.naps and not process.spins:
            for other in (machine, *machine.threads):
                if other is not process:
                    # It may have waited for a variable.
                    other.naps = other.nap_reads = other.spins = 0

    def end(self, process: Process) -> None:
        """A process ends, and what it has of threads with it."""
        world = self._world
        if process.threads is None:
            return
        world.r |= process.memory
        world.w |= process.memory
        histories = tuple(one.history for one in (process, *process.threads))
        process.ended = (*process.ended, (process.version, *sorted(histories)))
        for thread in process.threads:
            self._executor.kill(thread, crash=True)
            del world.threads[thread.index]
            if world.files is not None:
                read, written = world.files.end(thread.index)
                world.r, world.w = world.r | read, world.w | written
            thread.pending = thread.group = None
        process.threads = None
        world.strands = [*world.processes, *world.threads.values()] if world.threads else world.processes

    def find_deadlock(self) -> None:
        """No actor can step any more: report the threads that still wait."""
        world = self._world
        waiting = [one for one in world.strands if type(one.pending) is Sync and not one.daemon]
        if waiting:
            world.report_violation(DEADLOCK, "; ".join(map(_describe_wait, waiting)))

    def state(self, crashes: int) -> tuple[Any, ...]:
        """What the future depends on besides the state of the processes; see `World.state`."""
        return tuple(
            sorted(
                (
                    one.index,
                    one.pending is None,
                    crashes and one.effective,
                    one.retried,
                    one.spins,
                    one.naps and (one.naps, one.nap_reads),
                    None if one.group is None else tuple(one.group.replies),
                    one.taken,
                    getattr(one.pending, "until_ns", 0),
                    one.history,
                    one.version,
                )
                for one in self._world.strands
                if one.machine.threads is not None
            )
        )


def _describe_wait(process: Process) -> str:
    """What a process waits for, where, and who has it."""
    op = process.pending
    frame = process.worker.gr_frame if process.worker is not None else None
    at = users_lines(frame) if frame is not None else ()
    holder = op.held_by() if type(op) is Sync and op.held_by is not None else None
    holds = "" if holder is None else f", which {'it' if holder is process else holder.name} holds"
    return f"{process.name} waits for {op.subject}{f' at {at[-1]}' if at else ''}{holds}"
