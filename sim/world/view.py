"""Read-only views of a world, which record what a check reads.

`View` shows the present state of a run to the checks of properties. `Past` keeps a state from before a step,
for checks that compare two neighbouring states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.impl.store.errors import Misuse
from fencepost.sim.world import stamps
from fencepost.sim.world.footprints import CLOCK, EVERY_STEP
from fencepost.sim.world.operations import own

if TYPE_CHECKING:
    from fencepost.sim.filesystem.files import Files


class Masks(Protocol):
    """Masks of the objects that a check may read, see `footprints`."""

    def bit(self, family: str, name: str) -> int: ...

    def listing(self, family: str, prefix: str) -> int: ...


class Objects(Protocol):
    """A bucket as a check reads it."""

    def body(self, key: str) -> bytes | None: ...

    def bodies(self, prefix: str) -> dict[str, bytes]: ...


class Ending(Protocol):
    """A process as a check reads it."""

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def result(self) -> Any: ...

    @property
    def error(self) -> BaseException | None: ...


class Viewed(Protocol):
    """A state of a world as a view reads it."""

    @property
    def footprints(self) -> Masks: ...

    @property
    def bucket(self) -> Objects: ...

    @property
    def noted(self) -> Mapping[str, Sequence[tuple[str, Any]]]: ...

    @property
    def processes(self) -> Sequence[Ending]: ...

    @property
    def files(self) -> Files | None: ...

    @property
    def start_ns(self) -> int: ...

    @property
    def clock_ns(self) -> int: ...


class View:
    """The world read-only. A property depends on what its check reads here."""

    __slots__ = ("_seen", "mask")

    def __init__(self, seen: Viewed) -> None:
        self._seen = seen
        self.mask = EVERY_STEP
        """Mask of the objects that were read."""

    def begin(self) -> None:
        """Forget what was read."""
        self.mask = EVERY_STEP

    def get(self, key: str) -> bytes | None:
        """Return the current body at `key`; None when there is no object."""
        self.mask |= self._seen.footprints.bit("key", key)
        return self._seen.bucket.body(key)

    def contents(self, prefix: str = "") -> Mapping[str, bytes]:
        """Return all current objects below `prefix`, in key order."""
        self.mask |= self._seen.footprints.listing("key", prefix)
        return self._seen.bucket.bodies(prefix)

    def file(self, path: str | PathLike[str]) -> bytes | None:
        """Return the content of a file of the world; None when there is none."""
        body, read = self._files().body(self._in_world(path))
        self.mask |= read
        return body

    def files(self, path: str | PathLike[str] = "") -> Mapping[str, bytes]:
        """Return all files of the world below a directory, by their paths from the mount."""
        bodies, read = self._files().bodies(self._in_world(path))
        self.mask |= read
        return bodies

    def _in_world(self, path: str | PathLike[str]) -> str:
        """Return a path, absolute or from the mount, in the form that the file system uses."""
        return fspath(path).removeprefix(self._files().mount).strip("/")

    def _files(self) -> Files:
        files = self._seen.files
        if files is None and isinstance(self._seen, Past):
            raise Misuse("a step property sees no files; note what it needs with world.note")
        if files is None:
            raise Misuse("the view shows files of the program's world.filesystem(); it mounted none")
        return files

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys below `prefix`, in order."""
        return list(self.contents(prefix))

    def notes(self, topic: str) -> list[Any]:
        """Return the values noted under `topic` so far, in the order in which they were noted."""
        return [value for _, value in self.signed_notes(topic)]

    def signed_notes(self, topic: str) -> list[tuple[str, Any]]:
        """Return the notes under `topic` with the process that made each."""
        self.mask |= self._seen.footprints.bit("note", topic)
        return [(name, own(value)) for name, value in self._seen.noted.get(topic, ())]

    def result(self, name: str) -> Any:
        """Return the result of a process; None as long as it has not returned."""
        return self._process(name).result

    def results(self) -> dict[str, Any]:
        """Return the results of all processes that have returned, by name.

        A process that failed or is down is missing.
        """
        return {process.name: process.result for process in self._processes() if process.state == "done"}

    def state(self, name: str) -> str:
        """Return `running`, `done`, `failed` (by an exception), or `down` (crashed, and not restarted)."""
        return self._process(name).state

    def states(self) -> dict[str, str]:
        return {process.name: process.state for process in self._processes()}

    def error(self, name: str) -> BaseException | None:
        """Return the exception that ended the process."""
        return self._process(name).error

    def now_ns(self) -> int:
        """Return the true time, in nanoseconds since 1970."""
        self.mask |= CLOCK
        stamps.pass_time()
        return self._seen.start_ns + self._seen.clock_ns

    def _processes(self) -> Iterator[Ending]:
        for process in self._seen.processes:
            self.mask |= self._seen.footprints.bit("end", process.name)
            yield process

    def _process(self, name: str) -> Ending:
        for process in self._seen.processes:
            if process.name == name:
                self.mask |= self._seen.footprints.bit("end", name)
                return process
        known = ", ".join(process.name for process in self._seen.processes)
        raise LookupError(f"no process is called {name!r}; there are: {known}")


class Past:
    """A state of a run, kept while the next step is taken."""

    files: Files | None = None

    def __init__(self, seen: Viewed) -> None:
        self.footprints = seen.footprints
        self.start_ns = seen.start_ns
        self.clock_ns = seen.clock_ns
        self.bucket: Objects = _PastObjects(seen.bucket.bodies(""))
        self.noted = {topic: tuple(notes) for topic, notes in seen.noted.items()}
        self.processes: Sequence[Ending] = [
            _Ended(one.name, one.state, one.result, one.error) for one in seen.processes
        ]


class _PastObjects:
    def __init__(self, bodies: dict[str, bytes]) -> None:
        self._bodies = bodies

    def body(self, key: str) -> bytes | None:
        return self._bodies.get(key)

    def bodies(self, prefix: str) -> dict[str, bytes]:
        return {key: body for key, body in self._bodies.items() if key.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class _Ended:
    name: str
    state: str
    result: Any
    error: BaseException | None
