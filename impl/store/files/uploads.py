"""Multipart uploads: gather parts in a folder of their own until they become one object.

    .fencepost/uploads/<upload>/about      key, attributes, the write at the key when the upload began
    .fencepost/uploads/<upload>/00001      a part: its content, then its MD5 (16 bytes)
    .fencepost/uploads/<upload>/joined-*   the parts joined, on the way to the key
    .fencepost/uploads/<upload>/result     the answer to a completion, and the name of its joined file
    .fencepost/results/<upload>            the same for an upload that is gone

An upload appears by one rename and disappears by one. Completing it joins the parts in its folder, and then,
under the key's lock, decides, writes the result and moves the joined file to the key. That move is the
publication and its record in one call: an upload with a result whose joined file is gone was published,
even if the key was written since. So a completion that is repeated, or a process that is killed at any
moment, publishes nothing twice, and an upload that was not published keeps its parts (the model `uploads`).
A server also keeps results of uploads that are gone, for as long as an upload may rest, and repeats them.
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
from typing import NamedTuple, Protocol

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import check_parts, fingerprint, fingerprint_of_parts
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.files.attributes import AttributeFiles, Attributes
from fencepost.impl.store.files.disk import FOLDER_FLAGS, NO_XATTR, Disk, close_quietly
from fencepost.impl.store.files.internals import Internals, old_names, read_file, remove_folder
from fencepost.impl.store.files.reading import Reader
from fencepost.impl.store.files.writing import Draft, History, Spot, Writer
from fencepost.impl.store.requests import Outcome, Reply

_UPLOAD = re.compile(r"u[0-9a-f]{24,64}")
_DIGEST_BYTES = 16
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_JOINED = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class _About:
    """The parameters with which an upload was created."""

    key: str
    started_ns: int
    content_type: str
    metadata: dict[str, str]
    standing: str
    """The mark of the write that the key had when the upload began, or empty."""
    extra: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """Of a completion."""

    key: str
    joined: str
    etag: str
    mark: str
    extra: dict[str, str]
    version: str = ""


class Uploads:
    """`remembers`: whether the results of uploads that are gone are kept."""

    def __init__(
        self,
        internals: Internals,
        reader: Reader,
        writer: Writer,
        attributes: AttributeFiles,
        disk: Disk,
        env: Environment,
        *,
        remembers: bool,
    ) -> None:
        self._internals = internals
        self._reader = reader
        self._writer = writer
        self._attributes = attributes
        self._disk = disk
        self._env = env
        self._remembers = remembers
        self._listed: dict[str, ask.UploadInfo] = {}
        """By name, the uploads that the last listing found: what it was created with never changes."""

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
            opened = [self._part(found[0], number) for number in numbers]
            if not self._stands(upload, found[0]):  # its parts go after its name
                return None
            return [part for part in opened if part is not None]

    def _part(self, folder: int, number: int) -> "PartInfo | None":
        with _opened_part(folder, number) as part:
            return None if part is None else part[1]._replace(note=self._note(part[0]))

    def _note(self, fd: int) -> str:
        return (self._disk.get_attribute(fd) or b"").decode()

    def begun(self, key: str, upload: str) -> dict[str, str] | None:
        """Return the `extra` that the upload was created with; None if there is no such upload."""
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
            if self._published(folder) is None:
                try:
                    _check_parts(folder, request)
                    refused = self._refusal(request, about)
                    return (
                        request.ends(refused) if refused else self._publish(request, found, history, content)
                    )
                except (Misuse, FileNotFoundError):
                    if self._stands(request.upload, folder):
                        raise
                    return request.ends(Outcome.GONE)  # its parts go after its name
            with self._internals.key_locked(request.key):
                self._end_published(request, folder, history)
            return request.ends(Outcome.GONE)

    def _refusal(self, request: ask.CompleteUpload, about: _About) -> Outcome | None:
        """A conditional completion loses to whatever happened at the key since the upload was created."""
        refused = self._reader.refusal(request.key, request.when)
        if refused is not None or isinstance(request.when, ask.Anything):
            return refused
        return None if self._standing(request.key) == about.standing else Outcome.CONFLICT

    def _publish(
        self,
        request: ask.CompleteUpload,
        upload: tuple[int, _About],
        history: History | None,
        content: "Content | None",
    ) -> ask.PutReply:
        folder, about = upload
        known = Attributes(
            fingerprint_of_parts([etag for _, etag in request.parts]),
            self._writer.new_mark(),
            about.content_type,
            ask.Metadata(about.metadata),
            extra=ask.Metadata(about.extra),
        )
        with self._writer.spot(request.key) as spot, self._joining(folder, known) as draft:
            self._copy(folder, request, draft, content)
            if content is not None:
                extra = content.kept(about.extra)
                draft.attributes = draft.attributes._replace(extra=ask.Metadata(extra))
            self._writer.finish(draft, request.key, history)
            with self._internals.key_locked(request.key):
                if self._end_published(request, folder, history) or not self._stands(request.upload, folder):
                    return request.ends(Outcome.GONE)
                outcome = self._refusal(request, about) or self._place(request, spot, draft, folder, history)
                if outcome is Outcome.DONE:
                    outcome = spot.land()
                version = history.version(draft) if history else ""
                if outcome is Outcome.DONE:
                    self._remove(request.upload, folder, version)
            return self._writer.settle(spot, draft.attributes.etag, outcome, version)

    def _end_published(self, request: ask.CompleteUpload, folder: int, history: History | None) -> bool:
        """Take away an upload whose completion was killed after it had published; False where none was.

        Only while holding the key's lock."""
        result = self._published(folder)
        if result is not None and self._stands(request.upload, folder):
            self._writer.flush(request.key)
            self._remove(request.upload, folder, history.find(request.key, result.mark) if history else "")
        return result is not None

    def _place(
        self, request: ask.CompleteUpload, spot: Spot, draft: Draft, folder: int, history: History | None
    ) -> Outcome:
        """Write the result and move the joined file to the key."""
        known = draft.attributes
        result = Result(request.key, draft.source, known.etag, known.mark, dict(known.extra))
        self._internals.write("result", folder, json.dumps(dataclasses.asdict(result)).encode())
        self._disk.fsync_folder(folder)
        try:
            if isinstance(request.when, ask.Absent) and history is None:
                return self._writer.create(spot, draft)
            return self._writer.place(spot, draft, request.key, history)
        finally:
            if not draft.landed:  # before the joined file goes, or it would seem to have been published
                self._disk.unlink("result", folder)
                self._disk.fsync_folder(folder)

    @contextlib.contextmanager
    def _joining(self, folder: int, known: Attributes) -> Iterator[Draft]:
        """A file in the folder of an upload, gone afterwards unless it was moved."""
        name = f"joined-{known.mark}"
        fd = os.open(name, _JOINED, 0o666, dir_fd=folder)
        draft = Draft(fd, name, folder, known, self._attributes)
        draft.moves = True
        try:
            yield draft
        finally:
            draft.forget()
            close_quietly(fd)
            with contextlib.suppress(OSError):
                result = None if draft.landed else _result(folder)
                if not draft.landed and (result is None or result.joined != name):
                    os.unlink(name, dir_fd=folder)

    def _published(self, folder: int) -> Result | None:
        """The result of the completion that has published an upload."""
        result = _result(folder)
        if result is None:
            return None
        try:  # a second name: it has its key, and lost a process between two calls
            return result if os.stat(result.joined, dir_fd=folder).st_nlink > 1 else None
        except FileNotFoundError:
            return result

    def _stands(self, upload: str, folder: int) -> bool:
        """Return True if an upload was neither completed nor aborted.

        The answer stays valid while the caller holds the key's lock.
        """
        try:
            found = os.stat(upload, dir_fd=self._internals.folder("uploads"), follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(folder))

    def _remove(self, upload: str, folder: int, version: str = "") -> None:
        """Remove an upload for good and keep its result; it can no longer be published."""
        result = self._published(folder) if self._remembers else None
        if result is not None:
            body = json.dumps(dataclasses.asdict(replace(result, version=version))).encode()
            self._internals.write(upload, self._internals.folder("results"), body)
            self._disk.fsync_folder(self._internals.folder("results"))
        self._move(upload, "uploads", "tmp")
        self._disk.fsync_folder(self._internals.folder("uploads"))
        with contextlib.suppress(OSError):  # left to the next sweep
            remove_folder(upload, self._internals.folder("tmp"))

    def result(self, key: str, upload: str) -> Result | None:
        """Return the answer to the completion of an upload that is gone."""
        folder = self._internals.existing("results") if _UPLOAD.fullmatch(upload) else None
        found = None if folder is None else _result(folder, upload)
        return found if found is not None and found.key == key else None

    def _copy(
        self, folder: int, request: ask.CompleteUpload, draft: Draft, content: "Content | None"
    ) -> None:
        """Join the parts that the request names, as they are now; each is opened by itself."""
        digest = hashlib.md5(usedforsecurity=False)
        reads = content is None or content.reads
        for number, etag in request.parts:
            with _opened_part(folder, number) as part:
                known = {} if part is None else {number: (part[1].etag, part[1].size)}
                check_parts(replace(request, parts=((number, etag),)), known, part_bytes_min=0)
                assert part is not None, "checked just now"
                fd, info = part
                if not reads:
                    self._disk.copy(fd, draft.fd, info.size)
                    continue
                at = 0
                while chunk := os.pread(fd, min(_COPY_BYTES, info.size - at), at):
                    digest.update(chunk)
                    if content is not None:
                        content.update(chunk)
                    self._disk.write(draft.fd, chunk)
                    at += len(chunk)
        if reads:
            draft.attributes = draft.attributes._replace(digest=digest.hexdigest())

    def _move(self, upload: str, source: str, target: str) -> None:
        folders = self._internals.folder(source), self._internals.folder(target)
        os.rename(upload, upload, src_dir_fd=folders[0], dst_dir_fd=folders[1])

    def abort(self, request: ask.AbortUpload) -> Reply:
        with self._opened(request.key, request.upload) as found:
            if found is None:
                return request.ends(Outcome.GONE)
            with self._internals.key_locked(request.key):
                if not self._stands(request.upload, found[0]):
                    return request.ends(Outcome.GONE)
                published = self._published(found[0])
                try:
                    self._remove(request.upload, found[0])
                except OSError:
                    return request.ends(Outcome.UNKNOWN)
        return request.ends(Outcome.DONE if published is None else Outcome.GONE)

    def sweep(self, oldest_ns: int) -> int:
        """Remove idle uploads that were last touched before `oldest_ns`; return their number."""
        uploads, removed = self._internals.existing("uploads"), 0
        for upload in () if uploads is None else old_names(uploads, oldest_ns):
            try:
                fd = os.open(upload, FOLDER_FLAGS, dir_fd=uploads)
            except FileNotFoundError:  # completed, aborted or removed by now
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_mtime_ns < oldest_ns:  # a part may have come since the first look
                    self._remove(upload, fd)
                    removed += 1
            except (BlockingIOError, FileNotFoundError):  # at work, or gone by now
                continue
            finally:
                os.close(fd)
        results = self._internals.existing("results")
        for name in () if results is None else old_names(results, oldest_ns):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=results)
        return removed

    def list(self, request: ask.ListUploads) -> ask.UploadsReply:
        if request.token and not re.fullmatch("[0-9]{1,9}", request.token):
            raise Misuse(
                f"token {request.token!r} is none that a page of uploads gave; pass `next` unchanged"
            )
        found = self.all(request.prefix)
        start = int(request.token or 0)
        stop = start + request.limit
        return ask.UploadsReply(Outcome.DONE, "", found[start:stop], str(stop) if stop < len(found) else "")

    def all(self, prefix: str) -> tuple[ask.UploadInfo, ...]:
        """Those of keys with a prefix, in the order of listings. Each is read when it is seen first."""
        uploads = self._internals.existing("uploads")
        names = [] if uploads is None else os.listdir(uploads)
        known = self._listed
        self._listed = {
            name: info
            for name in names
            for info in [known.get(name) or self._info(name, uploads)]
            if info is not None
        }
        found = [info for info in self._listed.values() if info.key.startswith(prefix)]
        return tuple(sorted(found, key=lambda info: (info.key, info.upload)))

    def find(self, key: str, upload: str) -> ask.UploadInfo | None:
        """This upload, unless it was completed or aborted."""
        uploads = self._internals.existing("uploads") if _UPLOAD.fullmatch(upload) else None
        found = None if uploads is None else self._info(upload, uploads)
        return found if found is not None and found.key == key else None

    def _info(self, upload: str, uploads: int | None) -> ask.UploadInfo | None:
        try:
            fd = os.open(upload, FOLDER_FLAGS, dir_fd=uploads)
        except FileNotFoundError:
            return None
        try:
            about = _about(fd)
        finally:
            os.close(fd)
        return None if about is None else ask.UploadInfo(about.key, upload, about.started_ns)


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
    """A computation of the server over the parts as they are joined."""

    reads: bool
    """True if it needs their bytes. Otherwise the system joins them, and the object has no digest."""

    def update(self, piece: bytes) -> None: ...

    def kept(self, begun: Mapping[str, str]) -> dict[str, str]:
        """Return the values to keep with the object, given the upload's `extra`; raise to publish nothing."""


def _about(folder: int) -> _About | None:
    body = read_file("about", folder)
    return None if body is None else _About(**json.loads(body))


def _result(folder: int, name: str = "result") -> Result | None:
    body = read_file(name, folder)
    return None if body is None else Result(**json.loads(body))


def _check_parts(folder: int, request: ask.CompleteUpload) -> None:
    """`Misuse` when a part that is named was not uploaded."""
    known = {}
    for number, _ in request.parts:
        with _opened_part(folder, number) as part:
            if part is not None:
                known[number] = (part[1].etag, part[1].size)
    check_parts(request, known, part_bytes_min=0)


class PartInfo(NamedTuple):
    number: int
    etag: str
    size: int
    modified_ns: int
    note: str = ""


@contextlib.contextmanager
def _opened_part(folder: int, number: int) -> Iterator[tuple[int, PartInfo] | None]:
    """A part, open for reading, with what is known of it."""
    try:
        fd = os.open(f"{number:05d}", _FILE, dir_fd=folder)
    except FileNotFoundError:
        yield None
        return
    try:
        found = os.fstat(fd)
        size = found.st_size - _DIGEST_BYTES
        etag = os.pread(fd, _DIGEST_BYTES, size).hex()
        yield fd, PartInfo(number, etag, size, found.st_mtime_ns)
    finally:
        os.close(fd)
