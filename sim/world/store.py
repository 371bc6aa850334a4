"""The store and the environment that code in the world is given: every wait becomes a step.

Both serve all processes of a world: which one is asking follows from which one is running. Called from
outside any process (while the program is being set up, or in a check) a request is answered at once and
is no step.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from greenlet import getcurrent

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Reply, Request
from fencepost.sim.world.budget import PAUSE
from fencepost.sim.world.operations import MONOTONIC, WALL, Crash, Parallel, ReadClock, Sleep
from fencepost.sim.world.process import REFUSALS_MAX

R = TypeVar("R", bound=Reply)

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class WorldStore(Store):
    """Answers a request when the scheduler lets it land."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.env = world.env
        self.url = "world://"

    def send(self, request: Request[R]) -> R:
        world = self._world
        process = world.running
        if process is None:
            answered: R = world.answer_directly(request)
            return answered
        if process.crashing:
            refuse(process)
        reply = process.worker.parent.switch(request)
        if isinstance(reply, StoreError):
            raise reply
        landed: R = reply
        return landed

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        world = self._world
        process = world.running
        if process is None or len(requests) < 2:
            return super().send_all(requests)
        if process.crashing:
            refuse(process)
        replies: list[Any] = process.worker.parent.switch(Parallel(tuple(requests)))
        for reply in replies:
            if isinstance(reply, StoreError):
                raise reply
        return replies

    def versioned(self) -> bool:
        return bool(self._world.bucket.versioned)


class WorldEnvironment(Environment):
    """Virtual time, a stream for each process, and identifiers that no order can change."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def now_ns(self) -> int:
        return int(self._world.start_ns) + self._read(WALL)

    def monotonic_ns(self) -> int:
        return self._read(MONOTONIC)

    def sleep(self, seconds: float) -> None:
        world = self._world
        process = world.running
        if process is None:
            return
        if process.crashing:
            refuse(process)
        process.worker.parent.switch(Sleep(max(0, round(seconds * 1e9))))

    def stream(self, actor: str) -> Any:
        process = self._world.running
        streams = self._world.streams if process is None else process.streams
        found = streams.get(actor)
        if found is None:
            found = streams[actor] = SeededEnvironment(self._seed(process)).stream(actor)
        return found

    def new_id(self) -> str:
        """Sorts by creation within a process. The clock is left out of it: reading it would be a step."""
        world = self._world
        process = world.running
        streams = world.streams if process is None else process.streams
        count = streams["", "ids"] = streams.get(("", "ids"), 0) + 1
        return identifier(world.seed, self._seed(process), world.start_ns // 1_000_000 + count)

    def _seed(self, process: Any) -> Any:
        who = "setup" if process is None else f"{process.name}/{process.incarnation}"
        return f"{self._world.seed}/{who}"

    def _read(self, clock: ReadClock) -> int:
        world = self._world
        process = world.running
        if process is None:
            return int(world.clock_ns)
        if process.crashing:
            refuse(process)
        if not world.timed:
            world.time_mattered = world.time_mattered or world.left[PAUSE] > 0
            return int(world.clock_ns)
        reading: int = process.worker.parent.switch(clock)
        return reading


_identifiers: dict[tuple[Any, str, int], str] = {}


def identifier(seed: Any, who: str, count: int) -> str:
    """A ULID of this moment and owner; kept, because runs are repeated from the start."""
    known = _identifiers.get((seed, who, count))
    if known is None:
        if len(_identifiers) > 100_000:
            _identifiers.clear()
        bits = SeededEnvironment(0).stream(f"{seed}/{who}/{count}").getrandbits(80)
        value = (count & (1 << 48) - 1) << 80 | bits
        known = "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))
        _identifiers[seed, who, count] = known
    return known


def refuse(process: Any) -> None:
    """A dying process asks for something: it gets the crash again, and is given up when it insists."""
    process.refusals += 1
    if process.refusals > REFUSALS_MAX:
        process.clean = False
        getcurrent().parent.switch(None)
    raise Crash
