"""Waits of threads in the world, and the state of each process's locks, events and queues.

A lock may be made when a module is loaded, and then serves every process of every run. So its state is kept
with the process that uses it, which starts with none and loses it in a crash.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from fencepost.sim.world.operations import Start, Sync
from fencepost.sim.world.present import here
from fencepost.sim.world.process import Process, refuse
from fencepost.sim.world.run import RunState
from fencepost.sim.world.stamps import CLOCKED
from fencepost.sim.world.store import issue
from fencepost.sim.world.thread_steps import spawn

S = TypeVar("S")


class Caller:
    """The thread that runs now: its world and its process."""

    __slots__ = ("process", "run")

    def __init__(self, run: RunState, process: Process) -> None:
        self.run = run
        self.process = process

    def let_go(self) -> None:
        """Drop what leads back to the run that is over, see `Process.let_go`."""
        del self.run, self.process

    def alone(self) -> bool:
        """Return True if its process never had another thread that could notice its actions."""
        return self.process.machine.threads is None

    def state(self, key: Any, make: Callable[[], S]) -> S:
        """Return the state of the object `key` in this process."""
        sync = self.process.machine.synced()
        found: S | None = sync.get(key)
        if found is None:
            found = sync[key] = make()
        return found

    def look(self, name: str) -> None:
        """The step looks at something of this name, and leaves it as it is."""
        process, run = self.process, self.run
        if process.machine.threads is not None:
            run.record.add_read(run.footprints.bit("sync", f"{process.machine.name}/{name}"))

    def touch(self, name: str) -> None:
        """The step uses a lock, a queue or a future of this name: steps that do conflict."""
        process, run = self.process, self.run
        if process.machine.threads is not None:
            run.record.touch(run.footprints.bit("sync", f"{process.machine.name}/{name}"))

    def number(self, kind: str) -> str:
        """Return a name for a new object of this kind, the same in every run of this thread."""
        counts = self.state(("made", self.process), dict[str, int])
        counts[kind] = counts.get(kind, 0) + 1
        maker = self.process.name.partition("/")[2]
        return f"{maker}/{kind}-{counts[kind]}" if maker else f"{kind}-{counts[kind]}"

    def wait(
        self,
        kind: str,
        subject: str,
        ready: Callable[[], bool],
        *,
        timeout: float | None = None,
        take: Callable[[], Any] | None = None,
        held_by: Callable[[], Any] | None = None,
        atomic: bool = False,
    ) -> bool:
        """Wait until `ready`, then `take`, in one step. False when the time-out came first.

        `atomic`: the code after it belongs to the same step, see `Sync`.
        """
        if self.process.crashing:
            refuse(self.process)
        in_sdk = not self.alone() and _within_sdk()
        if ready() and (self.alone() or in_sdk):
            self.touch(subject)
            if take is not None:
                take()
            return True
        until = -1
        if timeout is not None:
            until = self.run.clock_ns + max(0, round(timeout * 1e9))
            self.run.depend_on_time(CLOCKED)
        op = Sync(kind, subject, ready, take, until, held_by, atomic or in_sdk)
        return bool(issue(self.run, self.process, op))

    def attempt(self, kind: str, subject: str, take: Callable[[], bool]) -> bool:
        """Do without waiting what may fail."""
        if self.process.crashing:
            refuse(self.process)
        if self.alone() or _within_sdk():
            self.touch(subject)
            return take()
        return bool(issue(self.run, self.process, Sync(kind, subject, None, take)))

    def gave(self, kind: str, subject: str) -> None:
        """Something was done that lets others go on: they may do so before the caller does."""
        self.touch(subject)
        process = self.process
        if not process.crashing and not process.ending and not self.alone() and not _within_sdk():
            issue(self.run, self.process, Sync(kind, subject))

    def start(
        self,
        name: str,
        fn: Callable[[], Any],
        ready: Callable[[], bool] | None = None,
        *,
        daemon: bool = False,
    ) -> Any:
        """Start a thread."""
        machine = self.process.machine
        machine.wait_at_end(lambda: wait_for_all(machine))
        return spawn(self.run, name, fn, daemon=daemon, start=Start("", ready))


def caller() -> Caller | None:
    """Return the thread of a world that runs now; None when code runs that no world controls."""
    run = here()
    process = None if run is None else run.running
    if run is None or process is None:
        return None
    found: Caller | None = process.caller
    if found is None:
        found = Caller(run, process)
        process.be_called_by(found)
    return found


def wait_for_all(machine: Process) -> None:
    """The interpreter ends when all threads but daemons have ended."""
    now = caller()
    threads = machine.threads
    if now is None or threads is None or machine.crashing:
        return

    for thread in threads:
        now.touch(thread.name.partition("/")[2])

    def ended() -> bool:
        return all(one.pending is None or one.daemon for one in threads)

    if not ended():
        now.wait("join", "all threads", ended, atomic=True)


def _within_sdk() -> bool:
    """Return True if the SDK uses the lock, event or queue: what it does between two requests is one step.

    Its own threads do not compete for what they release. Those that share a blocking pool of urllib3 do: see
    `sim.world.connections`.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("fencepost.sim.threads") and name.partition(".")[0] not in _WITHIN:
            return name.partition(".")[0] in _SDK
        frame = frame.f_back
    return False


_SDK = frozenset("s3transfer botocore boto3 urllib3".split())
_WITHIN = frozenset("threading queue concurrent _threading_local contextlib".split())


def outer_frame(depth: int = 2) -> FrameType:
    """Return the frame outside of the standard library's own use of threads."""
    frame = sys._getframe(depth)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _WITHIN:
        frame = frame.f_back
    return frame
