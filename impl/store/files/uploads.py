"""Multipart uploads: parts gathered in a folder of their own until they become one object.

    .fencepost/uploads/<upload>/about      key, attributes, what stood at the key at the beginning
    .fencepost/uploads/<upload>/00001      a part: its content, then its MD5 (16 bytes)

An upload appears by one rename and disappears by one. Completing it copies the parts into a draft, and
then, under the key's lock, decides, takes the upload away and publishes. A process that is killed between
those last two has lost the upload without making the object, as if it had aborted; the other order could
publish an upload twice, over what others wrote in between.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import check_parts, fingerprint, fingerprint_of_parts
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.disk import FOLDER_FLAGS, NO_XATTR, Disk
from fencepost.impl.store.files.internals import Internals, old_names, read_file, remove_folder
from fencepost.impl.store.files.reading import Reader
from fencepost.impl.store.files.writing import Draft, History, Writer
from fencepost.impl.store.requests import Outcome, Reply

_UPLOAD = re.compile(r"u[0-9a-f]{24,64}")
_DIGEST_BYTES = 16
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class _About:
    """What an upload was created with."""

    key: str
    started_ns: int
    content_type: str
    metadata: dict[str, str]
    standing: str
    """The mark of the write that stood at the key, or empty."""
    extra: dict[str, str] = dataclasses.field(default_factory=dict)


class Uploads:
    def __init__(
        self, internals: Internals, reader: Reader, writer: Writer, disk: Disk, env: Environment
    ) -> None:
        self._internals = internals
        self._reader = reader
        self._writer = writer
        self._disk = disk
        self._env = env

    def create(self, request: ask.CreateUpload, extra: ask.Metadata = ask.NO_METADATA) -> ask.UploadReply:
        started_ns = self._env.now_ns()
        # Sorts by the time of creation within a key.
        upload = f"u{started_ns:016x}{int(self._writer.new_mark(), 16):024x}"
        about = _About(
            request.key,
            started_ns,
            request.content_type,
            dict(request.metadata),
            self._standing(request.key),
            dict(extra),
        )
        folder = self._internals.folder("tmp")
        os.mkdir(upload, dir_fd=folder)
        fd = os.open(upload, FOLDER_FLAGS, dir_fd=folder)
        try:
            self._internals.write("about", fd, json.dumps(dataclasses.asdict(about)).encode())
            self._disk.fsync_folder(fd)
        finally:
            os.close(fd)
        uploads = self._internals.folder("uploads")
        os.rename(upload, upload, src_dir_fd=folder, dst_dir_fd=uploads)
        outcome = self._flushed(uploads)
        return ask.UploadReply(outcome, upload=upload if outcome is Outcome.DONE else "")

    def _standing(self, key: str) -> str:
        with self._reader.current(key) as opened:
            return "" if opened is None else opened.mark

    def _flushed(self, folder: int) -> Outcome:
        try:
            self._disk.fsync_folder(folder)
        except OSError:
            return Outcome.UNKNOWN
        return Outcome.DONE

    @contextlib.contextmanager
    def _opened(self, key: str, upload: str) -> Iterator[tuple[int, _About] | None]:
        """The folder of an upload and what it was created with; None when there is no such upload."""
        uploads = self._internals.existing("uploads") if _UPLOAD.fullmatch(upload) else None
        fd = None
        try:
            if uploads is not None:
                with contextlib.suppress(FileNotFoundError):
                    fd = os.open(upload, FOLDER_FLAGS, dir_fd=uploads)
                    fcntl.flock(fd, fcntl.LOCK_SH)  # `sweep` leaves it alone meanwhile
            about = None if fd is None else _about(fd)
            yield None if fd is None or about is None or about.key != key else (fd, about)
        finally:
            if fd is not None:
                os.close(fd)

    def part(self, request: ask.UploadPart) -> ask.PartReply:
        with self.incoming(request.key, request.upload, request.number) as part:
            if part is None:
                return request.ends(Outcome.GONE)
            part.write(request.body)
            return part.publish(fingerprint(request.body))

    @contextlib.contextmanager
    def incoming(self, key: str, upload: str, number: int) -> Iterator["IncomingPart | None"]:
        """A part that arrives in pieces; None when there is no such upload."""
        with self._opened(key, upload) as found:
            if found is None:
                yield None
                return
            with self._internals.draft() as (fd, draft):
                yield IncomingPart(self, fd, draft, found[0], number)

    def land(self, part: "IncomingPart", etag: str, note: str) -> ask.PartReply:
        if note:
            try:
                self._disk.set_attribute(part.fd, note.encode())
            except OSError as error:  # then a server has less to tell of the part
                if error.errno not in NO_XATTR:
                    raise
        self._disk.write(part.fd, bytes.fromhex(etag))
        self._disk.fsync(part.fd)
        try:
            self._disk.replace(part.draft, self._internals.folder("tmp"), f"{part.number:05d}", part.folder)
        except FileNotFoundError:  # completed or aborted meanwhile
            return ask.PartReply(Outcome.GONE)
        outcome = self._flushed(part.folder)
        return ask.PartReply(outcome, etag=etag if outcome is Outcome.DONE else "")

    def write(self, fd: int, piece: bytes) -> None:
        self._disk.write(fd, piece)

    def parts(self, key: str, upload: str) -> "list[PartInfo] | None":
        """Those uploaded so far, by number; None when there is no such upload."""
        with self._opened(key, upload) as found:
            if found is None:
                return None
            numbers = sorted(int(name) for name in os.listdir(found[0]) if name.isdecimal())
            with contextlib.ExitStack() as stack:
                found_parts = [part for number in numbers if (part := _part(found[0], number, stack))]
                return [replace(part, note=self._note(part.fd)) for part in found_parts]

    def _note(self, fd: int) -> str:
        return (self._disk.get_attribute(fd) or b"").decode()

    def begun(self, key: str, upload: str) -> dict[str, str] | None:
        """What the upload was created with beside the user's metadata; None when there is no such upload."""
        with self._opened(key, upload) as found:
            return None if found is None else found[1].extra

    def complete(
        self,
        request: ask.CompleteUpload,
        history: History | None = None,
        content: "Content | None" = None,
    ) -> ask.PutReply:
        with self._opened(request.key, request.upload) as found:
            if found is None:
                return request.ends(Outcome.GONE)
            folder, about = found
            with contextlib.ExitStack() as parts:
                files = _parts(folder, request, parts)
                refused = self._refusal(request, about)
                if refused is not None:
                    return request.ends(refused)
                return self._publish(request, about, files, history, content)

    def _refusal(self, request: ask.CompleteUpload, about: _About) -> Outcome | None:
        """A conditional completion loses to whatever happened at the key since the upload was created."""
        refused = self._reader.refusal(request.key, request.when)
        if refused is not None or isinstance(request.when, ask.Anything):
            return refused
        return None if self._standing(request.key) == about.standing else Outcome.CONFLICT

    def _publish(
        self,
        request: ask.CompleteUpload,
        about: _About,
        files: list[int],
        history: History | None,
        content: "Content | None",
    ) -> ask.PutReply:
        known = Attributes(
            fingerprint_of_parts([etag for _, etag in request.parts]),
            self._writer.new_mark(),
            about.content_type,
            ask.Metadata(about.metadata),
            extra=ask.Metadata(about.extra),
        )
        create = isinstance(request.when, ask.Absent) and history is None
        with self._writer.spot(request.key) as spot, self._writer.draft(known, create) as draft:
            self._copy(files, draft, content)
            if content is not None:
                extra = content.kept(about.extra)
                draft.attributes = draft.attributes._replace(extra=ask.Metadata(extra))
            self._writer.finish(draft, request.key, history)
            with self._internals.key_locked(request.key):
                outcome = self._refusal(request, about)
                if outcome is None:
                    with self._taken(request.upload) as taken:
                        if not taken:
                            return request.ends(Outcome.GONE)
                        if create:
                            outcome = self._writer.create(spot, draft)
                        else:
                            outcome = self._writer.place(spot, draft, request.key, history)
                        if not draft.landed:
                            self._give_back(request.upload)
            version = history.version(draft) if history else ""
            return self._writer.settle(spot, draft.attributes.etag, outcome, version)

    def _copy(self, files: list[int], draft: Draft, content: "Content | None") -> None:
        digest = hashlib.md5(usedforsecurity=False)
        for fd in files:
            at, end = 0, os.fstat(fd).st_size - _DIGEST_BYTES
            while chunk := os.pread(fd, min(_COPY_BYTES, end - at), at):
                digest.update(chunk)
                if content is not None:
                    content.update(chunk)
                self._disk.write(draft.fd, chunk)
                at += len(chunk)
        draft.attributes = draft.attributes._replace(digest=digest.hexdigest())

    @contextlib.contextmanager
    def _taken(self, upload: str) -> Iterator[bool]:
        """Take an upload away for good; it comes back when publishing raises."""
        try:
            self._move(upload, "uploads", "tmp")
        except FileNotFoundError:
            yield False
            return
        try:
            self._disk.fsync_folder(self._internals.folder("uploads"))
            yield True
        except BaseException:
            self._give_back(upload)
            raise
        with contextlib.suppress(OSError):  # given back, or left to the next sweep
            remove_folder(upload, self._internals.folder("tmp"))

    def _give_back(self, upload: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._move(upload, "tmp", "uploads")

    def _move(self, upload: str, source: str, target: str) -> None:
        folders = self._internals.folder(source), self._internals.folder(target)
        os.rename(upload, upload, src_dir_fd=folders[0], dst_dir_fd=folders[1])

    def abort(self, request: ask.AbortUpload) -> Reply:
        with self._opened(request.key, request.upload) as found:
            if found is None:
                return request.ends(Outcome.GONE)
        with self._internals.key_locked(request.key):
            try:
                self._move(request.upload, "uploads", "tmp")
            except FileNotFoundError:
                return request.ends(Outcome.GONE)
        outcome = self._flushed(self._internals.folder("uploads"))
        with contextlib.suppress(OSError):  # left to the next sweep
            remove_folder(request.upload, self._internals.folder("tmp"))
        return request.ends(outcome)

    def sweep(self, oldest_ns: int) -> int:
        """Remove uploads that nobody has touched since then and nobody works on; returns how many."""
        uploads, removed = self._internals.existing("uploads"), 0
        for upload in () if uploads is None else old_names(uploads, oldest_ns):
            fd = os.open(upload, FOLDER_FLAGS, dir_fd=uploads)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_mtime_ns < oldest_ns:  # a part may have come since the first look
                    self._move(upload, "uploads", "tmp")
                    remove_folder(upload, self._internals.folder("tmp"))
                    removed += 1
            except (BlockingIOError, FileNotFoundError):  # at work, or gone by now
                continue
            finally:
                os.close(fd)
        return removed

    def list(self, request: ask.ListUploads) -> ask.UploadsReply:
        found = sorted(
            (about.key, upload, about.started_ns)
            for upload, about in self._all()
            if about.key.startswith(request.prefix)
        )
        if request.token and not request.token.isdecimal():
            raise Misuse(
                f"token {request.token!r} is none that a page of uploads gave; pass `next` unchanged"
            )
        start = int(request.token or 0)
        stop = start + request.limit
        page = tuple(ask.UploadInfo(*row) for row in found[start:stop])
        return ask.UploadsReply(Outcome.DONE, "", page, str(stop) if stop < len(found) else "")

    def _all(self) -> Iterator[tuple[str, _About]]:
        uploads = self._internals.existing("uploads")
        if uploads is None:
            return
        for upload in os.listdir(uploads):
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(upload, FOLDER_FLAGS, dir_fd=uploads)
                try:
                    about = _about(fd)
                finally:
                    os.close(fd)
                if about is not None:
                    yield upload, about


class IncomingPart:
    """One part on its way; nothing of it is seen before `publish`."""

    def __init__(self, uploads: Uploads, fd: int, draft: str, folder: int, number: int) -> None:
        self._uploads = uploads
        self.fd, self.draft, self.folder, self.number = fd, draft, folder, number

    def write(self, piece: bytes) -> None:
        self._uploads.write(self.fd, piece)

    def publish(self, etag: str, note: str = "") -> ask.PartReply:
        """`etag` is the MD5 of what was written, `note` what a server adds where there is room for it."""
        return self._uploads.land(self, etag, note)


class Content(Protocol):
    """What a server computes over the parts as they are joined."""

    def update(self, piece: bytes) -> None: ...

    def kept(self, begun: Mapping[str, str]) -> dict[str, str]:
        """What to keep of the object, from what the upload was created with; raises to publish nothing."""


def _about(folder: int) -> _About | None:
    body = read_file("about", folder)
    return None if body is None else _About(**json.loads(body))


def _parts(folder: int, request: ask.CompleteUpload, stack: contextlib.ExitStack) -> list[int]:
    """The parts named, open for reading; `Misuse` when one was not uploaded."""
    files = {number: part for number, _ in request.parts if (part := _part(folder, number, stack))}
    known = {number: (part.etag, part.size) for number, part in files.items()}
    check_parts(request, known, part_bytes_min=0)
    return [files[number].fd for number, _ in request.parts]


@dataclasses.dataclass(frozen=True, slots=True)
class PartInfo:
    number: int
    etag: str
    size: int
    modified_ns: int
    fd: int
    """Valid only while the upload is open."""
    note: str = ""


def _part(folder: int, number: int, stack: contextlib.ExitStack) -> PartInfo | None:
    try:
        fd = os.open(f"{number:05d}", _FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    stack.callback(os.close, fd)
    found = os.fstat(fd)
    size = found.st_size - _DIGEST_BYTES
    return PartInfo(number, os.pread(fd, _DIGEST_BYTES, size).hex(), size, found.st_mtime_ns, fd)
