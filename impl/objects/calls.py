"""The calls of each write as notes of a recorder: what `objects serve --record` adds to the access log.

    staged BUCKET/KEY       a write begins: its kind
    locked                  the key's lock is held; creates need none
    linked                  `link` gave the key its file; `taken` if a file was there
    renamed                 `rename` or `unlink` changed what the name of the key leads to
    flushed                 an fsync of the folder, begun after that, has ended
    indexed                 the transaction of the listing index has ended
    unchanged               a delete found nothing
    answered                the operation has ended: `done` or `refused`

`fencepost replay --model objects` judges their order, each write by itself: its notes come from one thread,
so they need no clock and no counter that processes share. A write that is killed leaves the beginning of its
notes. If the queue of the recorder is full, the rest of a write is left out, so no note is ever missing
between two others.

Left out, and named in the trace by `unjudged`: buckets that keep versions, and removals of a version.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from fencepost.impl.objects.safeguards import Look, Write
from fencepost.impl.objects.tables import Entry
from fencepost.impl.recording.files import Recorder
from fencepost.impl.store.files import Disk, together
from fencepost.impl.store.requests import Outcome, Reply

P = TypeVar("P", bound=Reply)
TOPICS = ("staged", "locked", "linked", "renamed", "unchanged", "flushed", "indexed", "answered")
FIELD = "server-write"
"""The trace field that names the write."""
_ENDS = {Outcome.DONE: "done"} | dict.fromkeys((Outcome.EXISTS, Outcome.CHANGED, Outcome.MISSING), "refused")


class Key(NamedTuple):
    """A key, and the means to recognise its file and its lock."""

    bucket: str
    key: str
    is_place: Callable[[str, int], bool]
    """From a name and the descriptor of its folder: true if this is where the key has its file."""
    is_lock: Callable[[int], bool]
    """From a descriptor: true if it is of the key's lock."""


class Calls:
    """Records the calls of all writes of a process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers = itertools.count()
        self._times = itertools.count()
        self._mine = threading.local()
        self._published: dict[int, _Notes] = {}
        """Writes that wait for the flush of their folder, by their numbers."""

    @contextmanager
    def writing(self, key: Key, kind: str) -> Iterator["_Notes"]:
        """The notes of a write that this thread makes."""
        number = next(self._numbers)
        notes = _Notes(self, number, key, kind)
        notes.add("staged", f"kind={kind}")
        self._mine.notes = notes
        try:
            yield notes
        finally:
            self._mine.notes = None
            self._published.pop(number, None)

    @property
    def present(self) -> "_Notes | None":
        """The notes of this thread's write."""
        found: _Notes | None = getattr(self._mine, "notes", None)
        return found

    def unjudged(self, bucket: str, key: str) -> None:
        """Note that a write is left out."""
        self._recorder.emit("note", "note", f"unjudged {bucket}/{key}", run=bucket)

    def emit(self, topic: str, key: Key, number: int, fields: str) -> bool:
        name = f"{self._recorder.process}.{self._recorder.incarnation}.{number}"
        columns = {"trace_fields": f"{fields} {FIELD}={name}".lstrip()}
        text = f"{topic} {key.bucket}/{key.key}"
        return self._recorder.emit("note", "note", text, columns=columns, run=key.bucket)

    # Flushes.

    def published(self, notes: "_Notes", folder_fd: int) -> None:
        found = os.fstat(folder_fd)
        notes.folder, notes.time = (found.st_dev, found.st_ino), next(self._times)
        self._published[notes.number] = notes

    def flushing(self) -> int:
        """The time at which an fsync begins."""
        return next(self._times)

    def flushed(self, fd: int, began: int) -> None:
        """An fsync of a folder has ended: it holds for the names that were there when it began."""
        found = os.fstat(fd)
        for notes in list(self._published.values()):
            if notes.folder == (found.st_dev, found.st_ino) and notes.time < began:
                notes.is_durable = True


class _Notes:
    """The notes of one write."""

    def __init__(self, calls: Calls, number: int, key: Key, kind: str) -> None:
        self._calls = calls
        self.number, self.key, self.kind = number, key, kind
        self.folder = (0, 0)
        self.time = -1
        """When the key got its file; -1 before."""
        self.is_durable = False
        self._has_ended = False

    def add(self, topic: str, fields: str = "") -> None:
        if not self._has_ended:
            self._has_ended = not self._calls.emit(topic, self.key, self.number, fields)

    def stop(self) -> None:
        """Leave the rest out: it is not known what the calls did."""
        self._has_ended = True


class RecordedDisk(Disk):
    """The calls of `disk`, with notes of those that change what a key has."""

    def __init__(self, disk: Disk, calls: Calls) -> None:
        self._disk, self._calls = disk, calls
        self.one_call, self.waiting, self.creates = disk.one_call, disk.waiting, disk.creates

    def create(
        self,
        drafts_fd: int,
        folder_fd: int,
        name: str,
        flush_fd: int,
        value: bytes,
        etag_at: int,
        body: bytes,
    ) -> tuple[int, int, int, str]:
        """The steps of a create-only put in one call, which does and returns what each of them would."""
        ended = self._disk.create(drafts_fd, folder_fd, name, flush_fd, value, etag_at, body)
        failed, error, *_ = ended
        notes = self._calls.present
        if notes is not None and notes.key.is_place(name, folder_fd):
            if not error:
                self._publish(notes, "linked", folder_fd)
                notes.is_durable = flush_fd != together.CALLER_FLUSHES
            elif failed == together.FLUSH:
                notes.stop()
        return ended

    def fsync_folder(self, fd: int) -> None:
        began = self._calls.flushing()
        self._disk.fsync_folder(fd)
        self._calls.flushed(fd, began)

    def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._creating(self._disk.link, source, source_fd, name, folder_fd)

    def move(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._creating(self._disk.move, source, source_fd, name, folder_fd)

    def _creating(
        self, give: Callable[[str, int, str, int], None], source: str, source_fd: int, name: str, folder: int
    ) -> None:
        notes = self._calls.present
        try:
            give(source, source_fd, name, folder)
        except FileExistsError:
            if notes is not None and notes.key.is_place(name, folder):
                notes.add("linked", "ended=taken")
            raise
        if notes is not None and notes.key.is_place(name, folder):
            self._publish(notes, "linked", folder)

    def replace(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._disk.replace(source, source_fd, name, folder_fd)
        self._renamed(name, folder_fd)

    def unlink(self, name: str, folder_fd: int) -> None:
        self._disk.unlink(name, folder_fd)
        self._renamed(name, folder_fd)

    def _renamed(self, name: str, folder_fd: int) -> None:
        notes = self._calls.present
        if notes is not None and notes.key.is_place(name, folder_fd):
            self._publish(notes, "renamed", folder_fd)

    def _publish(self, notes: _Notes, topic: str, folder_fd: int) -> None:
        notes.add(topic, "ended=done" if topic == "linked" else "")
        self._calls.published(notes, folder_fd)

    def lock(self, fd: int) -> None:
        self._disk.lock(fd)
        notes = self._calls.present
        if notes is not None and notes.kind != "create" and notes.time < 0 and notes.key.is_lock(fd):
            notes.add("locked")

    def write(self, fd: int, body: bytes) -> None:
        self._disk.write(fd, body)

    def write_through(self, fd: int, body: bytes) -> None:
        self._disk.write_through(fd, body)

    def fsync(self, fd: int) -> None:
        self._disk.fsync(fd)

    def set_attribute(self, fd: int, value: bytes) -> None:
        self._disk.set_attribute(fd, value)

    def get_attribute(self, fd: int) -> bytes | None:
        return self._disk.get_attribute(fd)


class RecordedWrite(Write[P]):
    """A write whose steps are noted in the order in which the safeguards take them."""

    def __init__(self, inner: Write[P], notes: _Notes) -> None:
        self._inner, self._notes = inner, notes

    def land(self) -> P:
        reply = self._inner.land()
        notes = self._notes
        if reply.outcome is Outcome.DONE and notes.time < 0 and notes.kind == "delete":
            notes.add("unchanged")
            notes.stop()
        elif reply.outcome not in _ENDS:
            notes.stop()
        elif notes.is_durable:
            notes.add("flushed")
        return reply

    def is_applied(self, reply: P) -> bool:
        return self._inner.is_applied(reply)

    def record(self, reply: P | None, look: Look) -> None:
        self._inner.record(reply, look)
        self._notes.add("indexed")

    def standing(self, version: str) -> Entry | None:
        return self._inner.standing(version)

    def drafted(self, version: str) -> Entry | None:
        return self._inner.drafted(version)

    def answered(self, reply: P) -> None:
        if reply.outcome in _ENDS:
            self._notes.add("answered", f"ended={_ENDS[reply.outcome]}")
