"""The store and the environment that the programs of a world use: every wait becomes a step.

Store and environment serve all processes of a world; the caller is the process that is running. A request
from outside any process (while the program sets the world up, or in a check) is answered at once and is no
step.
"""

from _thread import get_ident
from collections.abc import Sequence
from typing import Any

from greenlet import getcurrent

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.store.errors import Misuse, StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import R, Request
from fencepost.sim.world import stamps, times
from fencepost.sim.world.escapes import elsewhere
from fencepost.sim.world.finalizers import left_behind
from fencepost.sim.world.located import users_lines
from fencepost.sim.world.operations import MONOTONIC, WALL, Parallel, ReadClock, Sleep
from fencepost.sim.world.process import Process, refuse
from fencepost.sim.world.run import RunState

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def issue(run: RunState, process: Process, op: Any) -> Any:
    """Hand an operation of the running process to the executor, and wait for the answer."""
    if process.crashing:
        refuse(process)
    worker = process.worker
    if worker is None or getcurrent() is not worker:
        raise elsewhere(run, op)
    if run.located is not None:
        process.locate(users_lines() or process.begun_at)
    if run.sites is not None:
        run.sites.note(op)
    if run.has_loops:
        from fencepost.sim.threads import loop

        return loop.outside(worker.parent.switch, op)
    return worker.parent.switch(op)


def answer_directly(run: RunState, request: Request[Any]) -> Any:
    """Answer a request from outside of any process, unless another thread or a finalizer sends it."""
    if get_ident() != run.os_thread:
        raise elsewhere(run, request)
    if run.collecting:
        raise Misuse(left_behind(run, f"{request.kind} {request.subject}"))
    return run.answer_directly(request)


class WorldStore(Store):
    """Answers a request when the scheduler lets it land."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self.env = run.env
        self.url = "world://"

    def send(self, request: Request[R]) -> R:
        run = self._run
        process = run.running
        if process is None:
            answered: R = answer_directly(run, request)
            return answered
        reply = issue(run, process, request)
        if isinstance(reply, StoreError):
            raise reply
        landed: R = reply
        return landed

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        run = self._run
        process = run.running
        if process is None or len(requests) < 2:
            return super().send_all(requests)
        replies: list[Any] = issue(run, process, Parallel(tuple(requests)))
        for reply in replies:
            if isinstance(reply, StoreError):
                raise reply
        return replies

    def versioned(self) -> bool:
        return self._run.bucket.versioned


class WorldEnvironment(Environment):
    """Virtual time, a stream for each process, and identifiers that no order can change."""

    def __init__(self, run: RunState) -> None:
        self._run = run

    def now_ns(self) -> int:
        reading: int = times.reading(self._run, self._run.start_ns + self._read(WALL), 1, wall=True)
        return reading

    def monotonic_ns(self) -> int:
        reading: int = times.reading(self._run, self._read(MONOTONIC), 1, wall=False)
        return reading

    def sleep(self, seconds: float) -> None:
        process = self._run.running
        if process is not None:
            issue(self._run, process, Sleep(max(0, round(seconds * 1e9))))

    def stream(self, actor: str) -> Any:
        process = self._run.running
        streams = self._run.streams if process is None else process.streams
        found = streams.get(actor)
        if found is None:
            found = streams[actor] = SeededEnvironment(self._seed(process)).stream(actor)
        return found

    def new_id(self) -> str:
        """Return a ULID that sorts by creation within a process.

        It leaves the clock out: reading it would be a step.
        """
        run = self._run
        process = run.running
        streams = run.streams if process is None else process.streams
        count = streams["", "ids"] = streams.get(("", "ids"), 0) + 1
        return identifier(run.settings.seed, self._seed(process), run.start_ns // 1_000_000 + count)

    def _seed(self, process: Process | None) -> str:
        who = "setup" if process is None else f"{process.name}/{process.incarnation}"
        return f"{self._run.settings.seed}/{who}"

    def _read(self, clock: ReadClock) -> int:
        run = self._run
        process = run.running
        if process is not None and process.crashing:
            refuse(process)
        if process is None or not run.settings.timed:
            if run.count_reading() > 1 and run.settings.timed < stamps.CLOCKED and process is not None:
                # Time may pass between two readings.
                run.depend_on_time(stamps.CLOCKED)
            return run.clock_ns
        reading: int = issue(run, process, clock)
        return reading


_identifiers: dict[tuple[Any, str, int], str] = {}


def identifier(seed: Any, who: str, count: int) -> str:
    """Return a ULID of this moment and owner; kept, because runs are repeated from the start."""
    known = _identifiers.get((seed, who, count))
    if known is None:
        if len(_identifiers) > 100_000:
            _identifiers.clear()
        bits = SeededEnvironment(0).stream(f"{seed}/{who}/{count}").getrandbits(80)
        value = (count & (1 << 48) - 1) << 80 | bits
        known = "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))
        _identifiers[seed, who, count] = known
    return known
