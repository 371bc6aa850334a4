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

`.log/begins` has the time in nanoseconds before which changes are missing, because days were removed or
objects were there before the log. Without it the log has everything.

    log = ChangeLog(root, env)
    for event in log.events(index, after_ns=position):
        position = event.ts_ns
"""

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

from fencepost.impl.environment import Environment
from fencepost.impl.objects.index import Index
from fencepost.impl.store.errors import Misuse

FOLDER = ".log"
_BEGINS = "begins"
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
    offset: int = 0
    """Where its line begins in its file."""


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
        if not _DAY.fullmatch(day):
            raise Misuse(f"{day!r} is no day; write it as 2026-11-19")
        days = [found for found in self._days() if found < day]
        if days:  # first: a log that is removed in part is not whole
            self.begin(_start_of(day))
        for found in days:
            for path in (self._folder / found).iterdir():
                path.unlink()
            (self._folder / found).rmdir()
        return len(days)

    # Reading.

    def events(self, index: Index, after_ns: int = 0) -> Iterator[Event]:
        """The events after a position, in the order of the changes, up to where none can be missing yet."""
        until_ns = index.settled_ns()
        nodes: dict[str, list[Path]] = {}
        for path in self._files(after_ns):
            nodes.setdefault(path.name.partition(".")[2], []).append(path)
        merged = heapq.merge(
            *(_of_one_node(paths) for paths in nodes.values()), key=lambda event: event.ts_ns
        )
        last = after_ns
        for event in merged:
            if event.ts_ns > until_ns:
                return
            if event.ts_ns > last:
                yield event
                last = event.ts_ns

    def begins_ns(self) -> int:
        """The log has every change since then; 0 if it has all that ever happened."""
        try:
            return int((self._folder / _BEGINS).read_text())
        except FileNotFoundError:
            return 0

    def begin(self, ts_ns: int) -> None:
        """From now on the log has no change before this time, durably."""
        if ts_ns <= self.begins_ns():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f"{_BEGINS}-{self._env.new_id()}"
        fd = os.open(draft, _FLAGS, 0o600)
        try:
            os.write(fd, b"%d" % ts_ns)
            os.fsync(fd)
        finally:
            os.close(fd)
        draft.replace(self._folder / _BEGINS)
        for folder in (self._folder, self._folder.parent):
            _flush_folder(folder)

    def newest_ns(self) -> int:
        """The time of the newest event in the log; 0 for none. For an index that begins anew."""
        newest = 0
        for day in reversed(self._days()):
            for path in sorted((self._folder / day).iterdir(), reverse=True):
                if f"{day}/{path.name}" < f"{datetime.fromtimestamp(newest // 10**9, UTC):%Y-%m-%d/%H-%M}":
                    return newest  # an event is in the file of its minute or later
                newest = max([newest, *(event.ts_ns for event in _read(path))])
        return newest

    def _days(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if _DAY.fullmatch(path.name))

    def _files(self, after_ns: int) -> Iterator[Path]:
        """Those that may hold later events, in order: an event is in the file of its minute or later."""
        start = f"{datetime.fromtimestamp(after_ns // 10**9, UTC):%Y-%m-%d/%H-%M}"
        for day in self._days():
            if day < start[:10]:
                continue
            for path in sorted((self._folder / day).iterdir()):
                found = _FILE.fullmatch(path.name)
                if found and f"{day}/{found[1]}" >= start:
                    yield path


def _start_of(day: str) -> int:
    return round(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()) * 10**9


def _of_one_node(paths: list[Path]) -> Iterator[Event]:
    """Its times rise, but for events that were written again."""
    last = 0
    for path in paths:
        for event in _read(path):
            if event.ts_ns > last:
                yield event
                last = event.ts_ns


def _read(path: Path) -> Iterator[Event]:
    offset = 0
    with path.open("rb") as file:
        for line in file:
            event = parse(line, offset)
            offset += len(line)
            if event is not None:
                yield event


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
