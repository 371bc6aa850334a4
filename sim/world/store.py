"""The bucket of a world, and the store and the environment that its programs use: every wait becomes a step.

Store and environment serve all processes of a world; the caller is the process that is running. A request
from outside any process (while the program sets the world up, or in a check) is answered at once and is no
step.

`Bucket` numbers versions and uploads from one counter, so two writes to different keys would get other
version names in the other order and no longer commute. In `WorldBucket` the number comes from the request:
the process that issued it, and its number in that process. Numbers are only ever compared for equality, and
the order within a key is the order of landing, so nothing else changes.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from greenlet import getcurrent

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.store.bucket import Bucket, fingerprint
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import BINARY, R, Request
from fencepost.sim.world import deadlines, stamps
from fencepost.sim.world.escapes import elsewhere
from fencepost.sim.world.located import users_lines
from fencepost.sim.world.operations import MONOTONIC, WALL, Parallel, ReadClock, Sleep
from fencepost.sim.world.process import refuse

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


_fingerprint_of_small = lru_cache(4096)(fingerprint)


def fingerprint_again(body: bytes) -> str:
    """The ETag of a body; runs repeat the same small ones."""
    return _fingerprint_of_small(body) if len(body) <= 256 else fingerprint(body)


class WorldBucket(Bucket):
    """`ticket` is set before every request that lands."""

    ticket = 0
    object_info = stamps.WatchedObject
    version_info = stamps.WatchedVersion
    upload_info = stamps.WatchedUpload
    etag_of = staticmethod(fingerprint_again)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._shown: dict[str, Any] = {}
        """By key: what can be learnt of it; computed at the first use after a change."""

    def answer_again(self, request: Any, now_ns: int) -> Any:
        """Answer a request that was found valid before."""
        if type(self) is not WorldBucket:
            return self.answer(request, now_ns)  # a subclass does more
        return self._answers[type(request)](request, now_ns)

    def _next(self) -> int:
        return self.ticket

    def _append(self, key: str, write: Any) -> Any:
        self._shown.pop(key, None)
        return super()._append(key, write)

    def _forget(self, key: str) -> None:
        self._shown.pop(key, None)
        super()._forget(key)

    def _delete_version(self, request: Any) -> Any:
        self._shown.pop(request.key, None)
        return super()._delete_version(request)

    def state(self) -> tuple[Any, ...]:
        """Everything a request could ever learn from the bucket, hashable."""
        if self._uploads:
            uploads = tuple((name, *_pending(upload)) for name, upload in sorted(self._uploads.items()))
            objects = tuple((key, *map(_shown, self._writes[key])) for key in self._keys)
            numbers = tuple(write.number for key in self._keys for write in self._writes[key])
            return (objects, numbers, uploads)
        shown = self._shown
        found = []
        for key in self._keys:
            one = shown.get(key)
            if one is None:
                writes = self._writes[key]
                one = shown[key] = (
                    key,
                    *map(_shown, writes),
                    *(write.number for write in writes if self.versioned),
                )
            found.append(one)
        return tuple(found)

    def body(self, key: str) -> bytes | None:
        """The current body at `key`."""
        write = self._current(key)
        return None if write is None else write.body

    def etag(self, key: str) -> str:
        """The current ETag at `key`; empty when there is no object."""
        write = self._current(key)
        return "" if write is None or write.body is None else str(write.etag)

    def modified_ns(self, key: str) -> int:
        """When the object at `key` landed; 0 when there is none."""
        stamps.matter()
        write = self._current(key)
        return 0 if write is None else int(write.modified_ns)

    def backdate(self, key: str, by_ns: int) -> None:
        """Make the object at `key` older; before the run, and in scenarios without sleeps."""
        self._writes[key][-1].modified_ns -= by_ns
        self._shown.pop(key, None)

    def bodies(self, prefix: str) -> dict[str, bytes]:
        """The current bodies below `prefix`, in key order."""
        found = ((key, self._current(key)) for key in self._range(prefix, ""))
        return {key: write.body for key, write in found if write is not None}


def _shown(write: Any) -> tuple[Any, ...]:
    if write.content_type == BINARY and not write.metadata:
        return (write.etag, write.marker, write.modified_ns)
    return (write.etag, write.marker, write.modified_ns, write.content_type, write.metadata)


def _pending(upload: Any) -> tuple[Any, ...]:
    parts = tuple(sorted((number, etag) for number, (etag, _) in upload.parts.items()))
    return (
        upload.key,
        upload.started_ns,
        upload.standing,
        upload.content_type,
        upload.metadata,
        parts,
    )


def issue(world: Any, process: Any, op: Any) -> Any:
    """Hand an operation of the running process to the executor, and wait for the answer."""
    if process.crashing:
        refuse(process)
    worker = process.worker
    if getcurrent() is not worker:
        raise elsewhere(world, op)
    if world.located is not None:
        process.at = users_lines() or process.begun_at
    if world.has_loops:
        from fencepost.sim.threads import loop

        return loop.outside(worker.parent.switch, op)
    return worker.parent.switch(op)


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
        reply = issue(world, process, request)
        if isinstance(reply, StoreError):
            raise reply
        landed: R = reply
        return landed

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        world = self._world
        process = world.running
        if process is None or len(requests) < 2:
            return super().send_all(requests)
        replies: list[Any] = issue(world, process, Parallel(tuple(requests)))
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
        reading: int = deadlines.read(self._world, int(self._world.start_ns) + self._read(WALL), 1)
        return reading

    def monotonic_ns(self) -> int:
        reading: int = deadlines.read(self._world, self._read(MONOTONIC), 1)
        return reading

    def sleep(self, seconds: float) -> None:
        world = self._world
        process = world.running
        if process is not None:
            issue(world, process, Sleep(max(0, round(seconds * 1e9))))

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
        if process is not None and process.crashing:
            refuse(process)
        if process is None or not world.timed:
            world.readings += 1
            if world.readings > 1 and world.timed < stamps.CLOCKED and process is not None:
                # Time may pass between two readings.
                world.time_mattered = max(world.time_mattered, stamps.CLOCKED)
            return int(world.clock_ns)
        reading: int = issue(world, process, clock)
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
