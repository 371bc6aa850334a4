"""The change log: every change of an object, in the order of the changes, for programs that follow it.

    .log/2026-11-19/08-05.01kb3...-4711      the events that one process wrote within one minute

A line is the CRC-32 of the rest in hexadecimal, a space, and the event in JSON: its time, and the object at
the key before and after, each with its attributes, or null for none. The version is empty for the current
one; for the beginning or end of a multipart upload it is `upload/` and its name.

    {"ts_ns": 1795000000000000000, "bucket": "b", "key": "k", "version": "", "old": null, "new": {...}}

Events come from the outbox of the index (see `index`), where each has a time of its own that rises in the
order of the changes of all processes. They leave it once their file is durable, so a crash in between
repeats an event and loses none; the reader drops repetitions. Within the files of one
process times rise; the events that a dead process left are written by another under the dead one's name.

Each event names the one before it, of whatever process. So a reader notices that events are missing, however
they were lost: days or files that somebody removed, a line that rotted.

`.log/begins` has the time in nanoseconds before which changes are missing, because days were removed or
objects were there before the log. Without it the log has everything. `.log/keeps` has the age in nanoseconds
at which days are removed, and `.log/readers/NAME` the day up to which a reader needs none: they are not
removed for it before that, unless somebody insists.

    log = ChangeLog(root, env)
    for event in log.events(index, after_ns=position):
        position = event.ts_ns
"""

import contextlib
import heapq
import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.environment import Environment
from fencepost.impl.objects.index import Index
from fencepost.impl.store.errors import Misuse

FOLDER = ".log"
_BEGINS, _KEEPS, _READERS, _DRAFT = "begins", "keeps", "readers", "draft-"
_PIECE_BYTES = 1 << 14
"""Read at a time of the file of each node."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_FILE = re.compile(r"(\d\d-\d\d)\.(.+)")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Event:
    ts_ns: int
    """Its position: no other event of the directory has it."""
    bucket: str
    key: str
    version: str
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    after_ns: int | None = None
    """The position of the event before it in the log; None in a log that does not say so."""
    offset: int = 0
    """Where its line begins in its file."""


class Hole(Exception):
    """Events are missing that the log must have; `until_ns` is the position of the last of them."""

    def __init__(self, until_ns: int) -> None:
        super().__init__(f"the change log has lost events up to {until_ns}")
        self.until_ns = until_ns


@dataclass(frozen=True, slots=True)
class Pruned:
    days: int
    begins: str
    """The first day that is left to the log."""
    held_by: str = ""
    """The reader for which more days were kept."""


class ChangeLog:
    """The log files below one root directory; any number of processes may write and read them."""

    def __init__(self, root: str, env: Environment) -> None:
        self._folder = Path(root, FOLDER)
        self._env = env

    # Writing.

    def flush(self, index: Index) -> int:
        """Write the events of this process, and those that dead ones left, from the outbox to the log."""
        written = 0
        for node in (index.node, *index.ended_nodes()):
            with index.exclusively(f"log-{node}"):
                events = index.outbox(node)
                if events:
                    self._append(node, events)
                    index.settle([ts_ns for ts_ns, _ in events])
            if node != index.node:
                index.forget_lock(f"log-{node}")
                index.free(node)
            written += len(events)
        return written

    def _append(self, node: str, events: list[tuple[int, str]]) -> None:
        minute = datetime.fromtimestamp(max(self._env.now_ns(), events[-1][0]) // 10**9, UTC)
        folder = self._folder / f"{minute:%Y-%m-%d}"
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            for parent in (self._folder.parent, self._folder):
                _flush_folder(parent)
        path = folder / f"{minute:%H-%M}.{node}"
        is_new = not path.exists()
        fd = os.open(path, _FLAGS, 0o600)
        try:
            # A line that a crash has cut short ends here.
            lines = b"\n" * _is_cut_short(path) + b"".join(_line(ts_ns, text) for ts_ns, text in events)
            while lines:
                lines = lines[os.write(fd, lines) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        if is_new:
            _flush_folder(folder)

    def remove_before(self, day: str) -> int:
        """Remove the files of the days before `day` (2026-11-19); returns how many days."""
        start_ns = _start_of(day)
        days = [found for found in self.days() if found < day]
        if days:  # first: a log that is removed in part is not whole
            self.begin(start_ns)
        for found in days:
            for path in _within(self._folder / found):
                path.unlink(missing_ok=True)  # another process removes them too
            with contextlib.suppress(FileNotFoundError):
                (self._folder / found).rmdir()
        return len(days)

    def prune(self, day: str, *, force: bool = False) -> Pruned:
        """Remove the days before `day`, but none that a reader has not passed, unless forced."""
        if _start_of(day) > self._env.now_ns():
            raise Misuse(f"{day} is in the future; the log would lose what has not happened yet")
        readers = {} if force else self.readers()
        slowest = min(readers, key=lambda name: readers[name], default="")
        held = _day_of(readers[slowest]) if slowest else day
        if held >= day:
            held, slowest = day, ""
        return Pruned(self.remove_before(held), held, slowest)

    # How long it is kept, and by whom.

    @property
    def keeps_ns(self) -> int | None:
        """The age at which the server removes days; None where it removes none."""
        text = _read_text(self._folder / _KEEPS)
        return int(text) if text else None

    def keep(self, ns: int | None) -> None:
        """Have readers know the age at which days are removed, from now on."""
        if ns != self.keeps_ns:
            self._write(_KEEPS, b"" if ns is None else b"%d" % ns)

    def prune_old(self) -> Pruned | None:
        """Remove the days that are older than the age at which they are removed."""
        keeps_ns = self.keeps_ns
        if keeps_ns is None:
            return None
        day = _day_of(self._env.now_ns() - keeps_ns)
        days = self.days()
        return self.prune(day) if days and days[0] < day else None

    def hold(self, reader: str, after_ns: int | None) -> None:
        """Keep the events after a position for this reader; None to keep nothing for it any more.

        A position is kept to the day, as the log is removed by days.
        """
        name = f"{_READERS}/{quote(reader, safe='')}"
        day = None if after_ns is None else _day_of(after_ns)
        if day is None:
            (self._folder / name).unlink(missing_ok=True)
        elif _read_text(self._folder / name) != day:
            self._write(name, day.encode())

    def readers(self) -> dict[str, int]:
        """The position up to which each reader needs no event any more, in nanoseconds."""
        found = {}
        for path in _within(self._folder / _READERS):
            day = _read_text(path)
            if _DAY.fullmatch(day):
                found[unquote(path.name)] = _start_of(day)
        return found

    # Reading.

    def events(self, index: Index, after_ns: int = 0) -> Iterator[Event]:
        """The events after a position, in the order of the changes, up to where none can be missing yet.

        Raises `Hole` in front of the first event behind a gap: each names the one before it. From a position
        before the beginning of the log, events are read from that beginning on.
        """
        after_ns = max(after_ns, self.begins_ns() - 1)
        # Before the files are listed: what is settled by then is in them.
        until_ns, newest_ns = index.settled()
        nodes: dict[str, list[Path]] = {}
        for path in self._files(after_ns):
            nodes.setdefault(path.name.partition(".")[2], []).append(path)
        merged = heapq.merge(
            *(_of_one_node(paths) for paths in nodes.values()), key=lambda event: event.ts_ns
        )
        last = after_ns
        for event in merged:
            if event.ts_ns <= last:
                continue
            if event.after_ns is not None and last < event.after_ns <= until_ns:
                raise Hole(event.after_ns)
            if event.ts_ns > until_ns:
                break
            yield event
            last = event.ts_ns
        if newest_ns > last:
            raise Hole(newest_ns)

    def begins_ns(self) -> int:
        """The log has every change since then; 0 if it has all that ever happened."""
        return int(_read_text(self._folder / _BEGINS) or 0)

    def begin(self, ts_ns: int) -> None:
        """From now on the log has no change before this time, durably."""
        if ts_ns > self.begins_ns():
            self._write(_BEGINS, b"%d" % ts_ns)

    def _write(self, name: str, text: bytes) -> None:
        """Replace a small file, durably."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f"{_DRAFT}{self._env.new_id()}"
        fd = os.open(draft, _FLAGS, 0o600)
        try:
            os.write(fd, text)
            os.fsync(fd)
        finally:
            os.close(fd)
        draft.replace(path)
        for folder in {path.parent, self._folder, self._folder.parent}:
            _flush_folder(folder)

    def newest_ns(self) -> int:
        """The time of the newest event in the log; 0 for none. For an index that begins anew."""
        newest = 0
        for day in reversed(self.days()):
            for path in sorted(_within(self._folder / day), reverse=True):
                if f"{day}/{path.name}" < f"{datetime.fromtimestamp(newest // 10**9, UTC):%Y-%m-%d/%H-%M}":
                    return newest  # an event is in the file of its minute or later
                newest = max([newest, *(event.ts_ns for event in _read(path))])
        return newest

    def days(self) -> list[str]:
        """The days of which it has files."""
        return sorted(path.name for path in _within(self._folder) if _DAY.fullmatch(path.name))

    def _files(self, after_ns: int) -> Iterator[Path]:
        """Those that may hold later events, in order: an event is in the file of its minute or later."""
        start = f"{datetime.fromtimestamp(after_ns // 10**9, UTC):%Y-%m-%d/%H-%M}"
        for day in self.days():
            if day < start[:10]:
                continue
            for path in sorted(_within(self._folder / day)):
                found = _FILE.fullmatch(path.name)
                if found and f"{day}/{found[1]}" >= start:
                    yield path


def _start_of(day: str) -> int:
    try:
        return round(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()) * 10**9
    except ValueError:
        raise Misuse(f"{day!r} is no day; write it as 2026-11-19") from None


def _day_of(ns: int) -> str:
    return f"{datetime.fromtimestamp(max(ns, 0) // 10**9, UTC):%Y-%m-%d}"


def _within(folder: Path) -> list[Path]:
    """Return the entries of a folder; none if it is gone."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _of_one_node(paths: list[Path]) -> Iterator[Event]:
    """Its times rise, but for events that were written again."""
    last = 0
    for path in paths:
        for event in _read(path):
            if event.ts_ns > last:
                yield event
                last = event.ts_ns


def _read(path: Path) -> Iterator[Event]:
    """The file is open only while a piece of it is read: a log may have any number of nodes.

    One that is gone has no events; the next event of the log shows whether one is missing.
    """
    offset = 0
    while lines := _piece(path, offset):
        for line in lines:
            event = parse(line, offset)
            offset += len(line)
            if event is not None:
                yield event


def _piece(path: Path, offset: int) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.readlines(_PIECE_BYTES)
    except FileNotFoundError:
        return []


def _line(ts_ns: int, text: str) -> bytes:
    content = f'{{"ts_ns": {ts_ns}, {text[1:]}'.encode()
    return b"%08x %s\n" % (zlib.crc32(content), content)


def parse(line: bytes, offset: int) -> Event | None:
    """The event of a line; None for a line that a crash has cut short: its event follows again."""
    crc, _, content = line.rstrip(b"\n").partition(b" ")
    if crc != b"%08x" % zlib.crc32(content):
        return None
    return Event(**json.loads(content), offset=offset)


def _is_cut_short(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return False
        file.seek(size - 1)
        return file.read(1) != b"\n"


def _flush_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
