"""The files of a recorder: JSON lines, rotated, with a queue that neither blocks nor loses what was accepted.

    traces/ann-0-000001.jsonl           a full file of the process `ann`, its first life
    traces/ann-0-000002.jsonl.open      the present one
    traces/.ann.queue                   what is not in it yet

An event is a line. The caller copies it into a queue of fixed size and goes on; a thread moves the queue to
the file. The queue is a mapped file, whose pages belong to the kernel. After kill -9 they hold every event
that was accepted. The next life of the process, or a reader, takes the missing end of the open file from
there. Only a machine that loses power can lose events. Copying into memory waits for no disk: a disk that
hangs fills the queue.

An event that finds the queue full is dropped. The key of each dropped request is kept, and the trace gets a
note of the kind `gap` with that key and the number of requests, as soon as there is room. A gap without a
key is one about which nothing more is known. Replay judges nothing that a gap may explain. A response that
is dropped leaves a request without an answer, which is no gap: its outcome is unknown.

Positions count bytes since this life began. `file_start` is the position of the first byte of the open
file, so its size says how far the file goes, and what is missing is the queue from there to `head`. The
order of writes makes that true at every instruction: a line is copied before `head` moves; a file is
complete before its successor is named in the header.

The name of a process belongs to one living process (a lock on the queue); another one with this name adds its
process id. Each life has a number, its incarnation. In each file the events of a run begin with a note
numbered 0, so that the events of two files are never mistaken for those of one counter.
"""

import atexit
import fcntl
import hashlib
import itertools
import json
import mmap
import os
import re
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from typing import NamedTuple, Self

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.events import Event

ROTATE_BYTES = 64 << 20
KEPT_BYTES = 1 << 30
"""Bytes of closed files that one process keeps in the folder."""
QUEUE_BYTES = 1 << 20
GAP, BEGIN = "gap", "recorder"
"""Kinds of notes: events that are missing, and the beginning of a run in a file."""
OPEN, CLOSED = ".jsonl.open", ".jsonl"
Columns = Mapping[str, str | int]
_MAGIC = b"FPQUEUE1"
_HEADER = struct.Struct("<8s6Q")
_POSITION = struct.Struct("<Q")
_START = 64
"""Bytes in front of the ring."""
_HEAD_AT, _DROPPED_AT = 16, 24
_KEYS_MAX = 10_000
"""Keys of dropped requests that are remembered; the rest become one gap without a key."""
_PAUSE_S = 1.0
"""Seconds between two writes to the file, unless the queue is half full; a kill loses nothing by it."""
_HEADS_MAX = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Sizes(NamedTuple):
    """Bytes of a file before it is closed, of all closed files, and of the queue."""

    rotate_bytes: int = ROTATE_BYTES
    kept_bytes: int = KEPT_BYTES
    queue_bytes: int = QUEUE_BYTES


SIZES = Sizes()
NO_COLUMNS: Columns = {}


class _Run:
    """A run in the files of one life."""

    __slots__ = ("has_begun", "head", "seq")

    def __init__(self, name: str) -> None:
        self.head = f'{{"run":{_quoted(name)},"seq":'
        self.seq = 0
        """The number of its last event."""
        self.has_begun = False
        """In the present file."""


class _Late(NamedTuple):
    """An event that is written with the next."""

    phase: str
    kind: str
    key: str
    op: int
    columns: Columns
    run: str


class Recorder:
    """Writes the events of one process, numbered in one order.

    Thread-safe; a forked child gets a name of its own.
    """

    _process: str
    _incarnation: int
    _queue: mmap.mmap
    _thread: threading.Thread
    _lock_fd: int
    _file: int
    """The open file."""
    _number: int
    _head: int
    """Position behind the last accepted byte."""
    _tail: int
    """Position behind the last byte that is in a file."""
    _closed: bool

    def __init__(
        self,
        folder: str | Path,
        process: str = "",
        sizes: Sizes = SIZES,
        env: Environment | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._name = process or _host_and_pid()
        if not _NAME.fullmatch(self._name):
            raise ValueError(
                f"the process {process!r}: use letters, digits, '.', '_', '-'; it becomes a file name"
            )
        self._rotate_bytes, self._kept_bytes, self._ring_bytes = sizes
        self._now = (env or SystemEnvironment()).now_ns
        self.endpoints: dict[str, str] = {}
        """By bucket the endpoint at which it was recorded first."""
        self._begin()
        _ALIVE.add(self)

    # Events.

    def next_op(self) -> int:
        """A number that ties the phases of one request together."""
        return next(self._ops)

    def emit(
        self,
        phase: str,
        kind: str,
        key: str,
        op: int = -1,
        columns: Columns = NO_COLUMNS,
        *,
        run: str = "",
        process: str = "",
    ) -> bool:
        """Accept an event; false if it was dropped. `process` is another one than this, for whom we
        record.
        """
        with self._lock:
            if self._closed:
                return False
            while self._late:
                self._append(*self._late.popleft())
            accepted = (not self._dropped or self._note_gaps()) and self._append(
                phase, kind, key, op, columns, run, process
            )
            if not accepted and phase != "response":
                self._drop(run, key)
            is_filling = self._head - self._tail > self._ring_bytes // 2
        if not self._wake.is_set():
            self._wake.set()
        if is_filling:
            self._pause.set()
        return accepted

    def emit_later(self, phase: str, kind: str, key: str, op: int, columns: Columns, *, run: str) -> None:
        """Accept an event from a finalizer, which may run in the middle of `emit`: it is written with the
        next.
        """
        self._late.append(_Late(phase, kind, key, op, columns, run))

    def note(self, text: str, key: str = "", run: str = "", kind: str = "note") -> None:
        """Remark something that no request shows, such as `accepted`."""
        self.emit("note", kind, key, columns={"note": text}, run=run)

    def write(self, event: Event) -> None:
        """Accept an event of a store layer (`Traced`): it gets the number, the time and the life of this
        recorder.
        """
        columns = {name: getattr(event, name) for name in _COPIED if getattr(event, name) not in ("", -1)}
        self.emit(event.phase, event.kind, event.key, event.op, columns, run=event.run, process=event.process)

    @property
    def process(self) -> str:
        return self._process

    @property
    def is_first(self) -> bool:
        """True if no other living process had the name."""
        return self._process == self._name

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def dropped(self) -> int:
        """Requests that were dropped in this life."""
        return self._all_dropped

    def flush(self) -> None:
        """Move the queue to the file now; waits for the disk."""
        self._drain()

    def close(self) -> None:
        """Write everything and close the file; nothing is recorded afterwards.

        Raises nothing, because a recorder must not break what it records: on a full disk the queue keeps the
        rest, and the next life or a reader takes it.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            while self._late:
                self._append(*self._late.popleft())
        for event in (self._ending, self._wake, self._pause):
            event.set()
        self._thread.join()
        try:
            while not self._note_gaps():
                self._drain()
            self._drain()
            os.close(self._file)
            _close_file(self._path(self._number))
            os.ftruncate(self._lock_fd, _HEADER.size)  # the number of this life remains
        except OSError:
            return
        finally:
            self._queue.close()
            os.close(self._lock_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The queue.

    def _append(
        self, phase: str, kind: str, key: str, op: int, columns: Columns, run: str, process: str = ""
    ) -> bool:
        """Copy a line into the queue, if there is room."""
        state = self._runs.get(run) or self._runs.setdefault(run, _Run(run))
        if not state.has_begun:
            begin = f'"phase":"note","kind":"{BEGIN}","key":"","op":-1,"trace_fields":"clock={_CLOCK}"'
            if not self._copy(state, 0, self._who(process), begin):
                return False
            state.has_begun = True
        # Several times as quick as `json.dumps`, which makes an encoder for each event.
        rest = "".join(
            [
                f',"{name}":{_quoted(value) if isinstance(value, str) else value}'
                for name, value in columns.items()
                if value != "" and value != -1
            ]
        )
        text = f'"phase":"{phase}","kind":"{kind}","key":{_quoted(key)},"op":{op}{rest}'
        if not self._copy(state, state.seq + 1, self._who(process), text):
            return False
        state.seq += 1
        return True

    def _who(self, process: str) -> str:
        """The columns of a process, whose text is kept."""
        found = self._heads.get(process)
        if found is None:
            name = _quoted(process or self._process)
            found = f'"process":{name},"incarnation":{self._incarnation},'
            if len(self._heads) < _HEADS_MAX:
                self._heads[process] = found
        return found

    def _copy(self, state: _Run, seq: int, who: str, text: str) -> bool:
        line = f'{state.head}{seq},"t_ns":{self._now()},{who}{text}}}\n'.encode()
        size = len(line)
        start = self._head
        if size > self._ring_bytes - (start - self._tail):
            return False
        at = start % self._ring_bytes
        first = min(size, self._ring_bytes - at)
        self._queue[_START + at : _START + at + first] = line[:first]
        if first < size:
            self._queue[_START : _START + size - first] = line[first:]
        self._head = start + size
        _POSITION.pack_into(self._queue, _HEAD_AT, self._head)
        return True

    def _drop(self, run: str, key: str) -> None:
        self._all_dropped += 1
        _POSITION.pack_into(self._queue, _DROPPED_AT, self._all_dropped)
        place = (run, key) if len(self._dropped) < _KEYS_MAX or (run, key) in self._dropped else (run, "")
        self._dropped[place] = self._dropped.get(place, 0) + 1

    def _note_gaps(self) -> bool:
        """Write the gaps; true if there was room for all."""
        while self._dropped:
            (run, key), count = next(iter(self._dropped.items()))
            if not self._append("note", GAP, key, -1, {"size": count, "note": "the queue was full"}, run):
                return False
            del self._dropped[run, key]
            self._noted += count
            _POSITION.pack_into(self._queue, _DROPPED_AT + 8, self._noted)
        return True

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait()
            pause = self._pause
            try:
                self._drain()
            except OSError:  # the disk is full, or is gone: the queue fills, and later events are dropped
                pause = self._ending  # a full queue is no reason to try again at once
            self._wake.clear()
            if self._head != self._tail:
                self._wake.set()
            pause.wait(_PAUSE_S)
            self._pause.clear()

    def _drain(self) -> None:
        """Move the queue to the file. Only this moves `tail`."""
        with self._draining:
            while self._tail < self._head:
                at = self._tail % self._ring_bytes
                size = min(self._head - self._tail, self._ring_bytes - at)
                written = os.write(self._file, self._queue[_START + at : _START + at + size])
                self._tail += written
                self._written += written
            if self._written >= self._rotate_bytes:
                self._rotate()

    # Files.

    def _begin(self) -> None:
        self._lock, self._draining = threading.Lock(), threading.Lock()
        self._wake, self._pause, self._ending = (threading.Event() for _ in range(3))
        self._late: deque[_Late] = deque()
        self._dropped: dict[tuple[str, str], int] = {}
        self._all_dropped = self._noted = 0
        self._closed = False
        self._head = self._tail = self._written = 0
        self._ops, self._number = itertools.count(), 0
        self._runs: dict[str, _Run] = {}
        self._heads: dict[str, str] = {}
        """By name of a process, its columns."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._process, self._lock_fd = self._claim()
            self._incarnation = _finish_last_life(self._folder, self._process, self._lock_fd)
            os.ftruncate(self._lock_fd, 0)
            _fill(self._lock_fd, _START + self._ring_bytes)
            self._queue = mmap.mmap(self._lock_fd, _START + self._ring_bytes)
            # Touch every page now, so that no event waits for a page.
            for page in range(0, len(self._queue), mmap.PAGESIZE):
                self._queue[page] = 0
            self._open()
        except OSError as error:
            raise Unusable(
                f"cannot record to {self._folder}: {error.strerror}; give another folder"
            ) from error
        self._thread = threading.Thread(target=self._run, name="fencepost-recorder", daemon=True)
        self._thread.start()

    def _claim(self) -> tuple[str, int]:
        """The name of this process, and its queue, locked."""
        for name in (self._name, f"{self._name}-{os.getpid()}"):
            fd = os.open(self._folder / f".{name}.queue", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            return name, fd
        raise Unusable(
            f"cannot record to {self._folder}: {self._name} is recorded already by another process"
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._process}-{self._incarnation}-{number:06d}{OPEN}"

    def _open(self) -> None:
        """Begin the next file, and name it in the header."""
        number = self._number + 1
        file = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        with self._lock:  # no event may move `head` while the header is written
            for state in self._runs.values():
                state.has_begun = False
            header = (self._incarnation, self._head, self._all_dropped, self._noted, self._tail, number)
            self._queue[: _HEADER.size] = _HEADER.pack(_MAGIC, *header)
        self._file, self._number, self._written = file, number, 0

    def _rotate(self) -> None:
        old, path = self._file, self._path(self._number)
        self._open()
        os.close(old)
        _close_file(path)
        self._remove_oldest()

    def _remove_oldest(self) -> None:
        """Keep within the limit; what is removed is a gap, of which nothing more is known."""
        files = sorted(_files(self._folder, self._process), key=lambda found: found[1:])
        kept = sum(path.stat().st_size for path, *_ in files)
        for path, *_ in files:
            if kept <= self._kept_bytes:
                return
            kept -= path.stat().st_size
            path.unlink()
            self.note("older files were removed: the limit of their size is reached", kind=GAP)

    def _in_child(self) -> None:
        """Continue in a forked child under another name; the queue and the file are its parent's."""
        if self._closed:
            return
        for fd in (self._lock_fd, self._file):
            os.close(fd)
        self._name = f"{self._name}-{os.getpid()}"
        try:
            self._begin()
        except Unusable:
            self._closed = True  # the child is not recorded


_COPIED = ("condition", "etag", "version", "upload", "size", "hash", "outcome", "note", "trace_fields")
_ALIVE: "weakref.WeakSet[Recorder]" = weakref.WeakSet()


def _at_fork() -> None:
    for recorder in list(_ALIVE):
        recorder._in_child()  # noqa: SLF001  of this module


def _at_exit() -> None:
    for recorder in list(_ALIVE):
        recorder.close()


os.register_at_fork(after_in_child=_at_fork)
atexit.register(_at_exit)


def rest_of(path: Path, size: int) -> bytes:
    """The end of an open file that its process has accepted and not written, where the file has `size`
    bytes.
    """
    found = re.fullmatch(r"(.+)-(\d+)-(\d{6})" + re.escape(OPEN), path.name)
    if found is None:
        return b""
    try:
        raw = (path.parent / f".{found[1]}.queue").read_bytes()
    except OSError:
        return b""
    return _rest(raw, int(found[2]), int(found[3]), size)


def _rest(raw: bytes, incarnation: int, number: int, size: int) -> bytes:
    if len(raw) <= _START or raw[:8] != _MAGIC:
        return b""
    _, life, head, dropped, noted, start, present = _HEADER.unpack_from(raw)
    ring = len(raw) - _START
    if (life, present) != (incarnation, number) or not 0 <= head - (start + size) <= ring:
        return b""
    at = (start + size) % ring
    twice = raw[_START:] + raw[_START:]
    rest = twice[at : at + head - (start + size)]
    if dropped > noted:
        gap = {"run": "", "seq": 0, "process": "", "op": -1, "phase": "note", "kind": GAP, "key": ""}
        gap |= {"size": dropped - noted, "note": "the queue was full when the process ended"}
        rest += (json.dumps(gap) + "\n").encode()
    return rest


def _finish_last_life(folder: Path, process: str, fd: int) -> int:
    """Complete and close the file that the last life of a process left open; returns the number of the next
    life.
    """
    raw = os.pread(fd, os.fstat(fd).st_size, 0)
    last = _HEADER.unpack_from(raw)[1] if raw[:8] == _MAGIC and len(raw) >= _HEADER.size else -1
    for path, life, number in list(_files(folder, process, OPEN)):
        rest = _rest(raw, life, number, path.stat().st_size)
        if rest:
            with path.open("ab") as file:
                file.write(rest)
        _close_file(path)
    lives = [life for suffix in (OPEN, CLOSED) for _, life, _ in _files(folder, process, suffix)]
    return max([int(last), *lives]) + 1


def _files(folder: Path, process: str, suffix: str = CLOSED) -> Iterator[tuple[Path, int, int]]:
    pattern = re.compile(re.escape(process) + r"-(\d+)-(\d{6})" + re.escape(suffix))
    for path in folder.iterdir():
        found = pattern.fullmatch(path.name)
        if found:
            yield path, int(found[1]), int(found[2])


def _fill(fd: int, size: int) -> None:
    """Give a file all its blocks: a write to a mapped hole of a full disk ends the process by a signal."""
    at = 0
    while at < size:
        at += os.pwrite(fd, bytes(min(size - at, 1 << 20)), at)


def _close_file(path: Path) -> None:
    """Give a file that is complete its name."""
    if path.exists():
        path.rename(path.with_suffix(""))


def _clock() -> str:
    """The same for all processes of a machine, whose clock is one."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        name = socket.gethostname()
    return hashlib.sha256(name.encode()).hexdigest()[:12]


_CLOCK = _clock()


def _host_and_pid() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).strip("-.") or "host"
    return f"{host}-{os.getpid()}"
