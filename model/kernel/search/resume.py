"""A search that another process continues: each finished level in a directory.

    search.jsonl    first what was searched, then a line for each level: its size, its digest, and all that
                    the search knew before it judged the level
    levels.bin      the packed states of all levels, one after the other

A level is written and flushed before its line is, and a line that is cut short is no line, so whatever a kill
or a power failure leaves is a shorter search. Only whole levels are recorded: a level that a bound has cut is
not the states at that depth. The visited keys are not recorded, because the levels have them.

Levels of one second are recorded together, since thin searches have many thousands of them.

Every line ends with a digest of itself and of the digest before it, and so of all that came before, states
included. It shows damage and editing by hand, not forgery: a record is trusted as the model's code is, and
the verdict of a search that continues one says so.

To continue with another model would prove nothing. A search is therefore named by its parameters and by the
text of the kernel and of every module that the machine imports, except the standard library's and those of
installed packages.
"""

import ast
import fcntl
import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import closing
from inspect import getmro
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np

from fencepost.model.kernel.language.errors import BadSettings, NoRoom
from fencepost.model.kernel.language.layout import U64
from fencepost.model.kernel.language.model import Model

if TYPE_CHECKING:
    from fencepost.model.kernel.search.explore import Found, Search

_TOGETHER_S = 1.0
_FORMAT = 2


class Saved:
    """The record of one search, in a directory that no other process uses meanwhile."""

    def __init__(self, directory: Path, model: Model, **how: object) -> None:
        self.directory = directory
        self._model = model
        self._search = _search_of(model, how)
        self._pending: list[tuple[bytes, bytes]] = []
        self._digest = ""
        """Of the last line."""
        self._written = perf_counter()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lines = (directory / "search.jsonl").open("a+b")
            self._levels = (directory / "levels.bin").open("a+b")
        except OSError as error:
            raise self._no_room(error) from None
        try:
            fcntl.flock(self._lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lines.close()
            self._levels.close()
            raise BadSettings(f"{directory} is used by another search; give another directory") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._lines), closing(self._levels):
            self.flush()

    def levels(self, search: "Search") -> Iterator[U64]:
        """The recorded levels, one at a time; what was known with the last of them goes into `search`.

        Everything behind the last whole level is removed.
        """
        self._lines.seek(0)
        self._levels.seek(0)
        whole = nbytes = 0
        last = None
        for line in self._lines:
            if not line.endswith(b"\n"):
                break
            row = self._row(line)
            if not whole:
                self._compare(row)
            self._follow(row)
            if whole:
                level = self._level(row)
                nbytes += level.nbytes
                yield level
                last = row
            whole += len(line)
        self._lines.truncate(whole)
        self._levels.truncate(nbytes)
        if not whole:
            self._append(self._lines, self._line(self._search))
            _flush_directory(self.directory)
        if last is not None:
            search.generated, search.fired = last["generated"], last["fired"]
            search.found = {name: self._found(found) for name, found in last["found"].items()}
            search.deadlock = self._found(last["deadlock"]) if last["deadlock"] is not None else None

    def add(self, level: U64, search: "Search") -> None:
        """Record a level before it is judged. The level is a whole one."""
        data = np.ascontiguousarray(level).tobytes()
        row = {
            "states": level.shape[1],
            "sha256": hashlib.sha256(data).hexdigest(),
            "generated": search.generated,
            "fired": search.fired,
            "found": {name: _written(found) for name, found in search.found.items()},
            "deadlock": None if search.deadlock is None else _written(search.deadlock),
        }
        self._pending.append((data, self._line(row)))
        if perf_counter() - self._written >= _TOGETHER_S:
            self.flush()

    def flush(self) -> None:
        """Make what was added durable."""
        pending, self._pending = self._pending, []
        if pending:
            self._append(self._levels, b"".join(data for data, _ in pending))
            self._append(self._lines, b"".join(line for _, line in pending))
        self._written = perf_counter()

    def _line(self, row: Mapping[str, Any]) -> bytes:
        """A line that carries the digest of all up to itself."""
        self._digest = _digest_of(self._digest, row)
        return json.dumps({**row, "digest": self._digest}).encode() + b"\n"

    def _follow(self, row: dict[str, Any]) -> None:
        """Check the digest of a line, the next one."""
        given = row.pop("digest", None)
        self._digest = _digest_of(self._digest, row)
        if given != self._digest:
            raise self._damaged()

    def _append(self, file: Any, data: bytes) -> None:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise self._no_room(error) from None

    def _row(self, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise self._damaged() from None
        if not isinstance(row, dict):
            raise self._damaged()
        return row

    def _level(self, row: dict[str, Any]) -> U64:
        words = self._model.words
        try:
            data = self._levels.read(8 * words * row["states"])
            if len(data) != 8 * words * row["states"] or hashlib.sha256(data).hexdigest() != row["sha256"]:
                raise self._damaged()
        except (KeyError, TypeError, ValueError):
            raise self._damaged() from None
        return np.frombuffer(data, np.uint64).reshape(words, -1)

    def _compare(self, row: dict[str, Any]) -> None:
        differs = [name for name, value in self._search.items() if row.get(name) != value]
        if differs:
            raise self.differs(differs[0])

    def differs(self, what: str) -> BadSettings:
        return BadSettings(
            f"{self.directory} has the record of another search, which differs in: {what}; "
            "give an empty directory"
        )

    def _damaged(self) -> BadSettings:
        return BadSettings(
            f"the record in {self.directory} is damaged or was edited: its digest does not fit; remove it, "
            "or give another directory"
        )

    def _no_room(self, error: OSError) -> NoRoom:
        return NoRoom(
            f"cannot record the search in {self.directory}: {os.strerror(error.errno or 0)}; "
            "give a directory that can be written and has room"
        )

    def _found(self, row: list[Any]) -> "Found":
        from fencepost.model.kernel.search.explore import Found  # it imports this module

        depth, state, label, after = row
        return Found(
            depth,
            tuple(state),
            None if label is None else self._model.labels[label],
            None if after is None else tuple(after),
        )


def _digest_of(before: str, row: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{before}{json.dumps({**row}, sort_keys=True)}".encode()).hexdigest()


def _written(found: "Found") -> list[Any]:
    label = None if found.label is None else found.label.number
    after = None if found.after is None else [int(word) for word in found.after]
    return [found.depth, [int(word) for word in found.state], label, after]


def _search_of(model: Model, how: dict[str, object]) -> dict[str, object]:
    """All that decides which states are found: by name, so that an error can say what differs."""
    digest = hashlib.sha256()
    for name, text in sorted([*_sources(model.machine), *_captured(model.machine)]):
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return {
        "format": _FORMAT,
        "machine": model.name,
        "text of the machine": digest.hexdigest(),
        "kind of states": type(model).__name__,
        "labels": crc32("\n".join(map(str, model.labels)).encode()),
        "words": model.words,
        "sizes": dict(model.sizes),
        "switches": sorted(model.without),
        "Python": sys.version.split()[0],
        "NumPy": np.__version__,
        **how,
    }


def _sources(machine: type) -> Iterator[tuple[str, bytes]]:
    """The files and modules whose text decides what the machine does, with their texts."""
    kernel = __name__.removesuffix(".search.resume")
    folder = Path(__file__).parents[1]
    for path in folder.rglob("*.py"):
        yield str(path.relative_to(folder)), path.read_bytes()
    open_modules = [name for cls in getmro(machine) if (name := cls.__module__) != "builtins"]
    for name in open_modules:
        if getattr(sys.modules.get(name), "__file__", None) is None:
            raise BadSettings(
                f"{machine.__name__} has no file whose text could be compared when its search is continued; "
                "write the machine into a file, or leave resume out"
            )
    seen = set[str]()
    while open_modules:
        name = open_modules.pop()
        module = sys.modules.get(name)
        if name in seen or module is None or name.startswith(kernel):
            continue
        seen.add(name)
        file = getattr(module, "__file__", None)
        if file is None or not file.endswith(".py") or _is_installed(name, file):
            continue
        text = Path(file).read_bytes()
        yield name, text
        open_modules += _imports(ast.parse(text), module)


def _captured(machine: type) -> Iterator[tuple[str, bytes]]:
    """The values that parts of a machine take from the function that made it: no text shows them."""
    for cls in getmro(machine):
        for name, part in vars(cls).items():
            for cell in getattr(getattr(part, "function", part), "__closure__", None) or ():
                if isinstance(value := cell.cell_contents, int | float | str | tuple | frozenset):
                    yield f"{cls.__qualname__}.{name}", repr(value).encode()


def _imports(tree: ast.Module, module: ModuleType) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = (module.__package__ or "").split(".")
            parts = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_installed(name: str, file: str) -> bool:
    """True if a module comes with Python or with a package, other than this one."""
    if name.partition(".")[0] == __name__.partition(".")[0]:
        return False
    path = Path(file)
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or any(
        path.is_relative_to(sysconfig.get_path(place)) for place in ("stdlib", "platstdlib")
    )


def _flush_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
