"""A store in a local directory.

    store = FileStore("/var/lib/ledger")
    store.put("data/x.parquet", body, when=ABSENT)      # is /var/lib/ledger/data/x.parquet on disk

Every request means what `bucket` says, without versions, for all threads and processes that share the
directory. Each module describes its part:

    names       keys and names on disk            folders     folders, while others make and remove them
    writing     one object, atomically            flush       one fsync of a folder, shared
    reading     one object, consistently          attributes  ETags and metadata, one with the content
    listing     keys in order                     internals   locks, drafts, other files in .fencepost
    uploads     multipart                         disk        system calls whose order matters
    versions    earlier versions of objects

Do not use it on network file systems whose `link`, `rename` or `flock` are not atomic between hosts, nor in
directories in which others rename folders or change files in place while it runs.
"""

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import Bucket
from fencepost.impl.store.errors import Misuse, Unsupported, Unusable
from fencepost.impl.store.files.attributes import AttributeFiles, Attributes
from fencepost.impl.store.files.disk import Disk, WouldWait, unusable
from fencepost.impl.store.files.flush import Flush
from fencepost.impl.store.files.folders import Folders
from fencepost.impl.store.files.internals import Internals
from fencepost.impl.store.files.listing import Lister
from fencepost.impl.store.files.names import Names
from fencepost.impl.store.files.reading import Opened, Reader
from fencepost.impl.store.files.uploads import Content as UploadContent
from fencepost.impl.store.files.uploads import IncomingPart, PartInfo, Uploads
from fencepost.impl.store.files.uploads import Result as UploadResult
from fencepost.impl.store.files.versions import Held, Keep, Versions
from fencepost.impl.store.files.versions import Page as VersionsPage
from fencepost.impl.store.files.writing import NOTHING_THERE, Incoming, Writer
from fencepost.impl.store.interface import Pool, Store
from fencepost.impl.store.requests import R, Reply, Request
from fencepost.impl.store.validity import check

LINGER_MS = 5.0
TEMP_AGE_S = 3600.0
_ROOT_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FileStore(Store):
    """Objects in the directory `path`, which the first write makes.

    linger_ms           the time a flush may wait for other writers to share it; 0 for no wait
    temp_age_s          the age at which a dead writer's temporary file is removed; longer than any write
    parallel            the number of requests of a `send_all` that run at once
    verify_reads        compare whole reads with their MD5
    remembers_uploads   let `upload_result` answer for uploads that were completed
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        linger_ms: float = LINGER_MS,
        env: Environment | None = None,
        temp_age_s: float = TEMP_AGE_S,
        parallel: int = 16,
        verify_reads: bool = True,
        disk: Disk | None = None,
        remembers_uploads: bool = False,
        private: bool = False,
    ) -> None:
        text = os.fspath(path)
        if not text or "\0" in text:
            raise Misuse(f"directory {text!r} cannot be: name an existing or a new directory")
        for name, value in (("linger_ms", linger_ms), ("temp_age_s", temp_age_s), ("parallel", parallel - 1)):
            if not 0 <= value < float("inf"):
                raise Misuse(f"{name} of {text!r} is out of range; give a number of at least 0 (parallel: 1)")
        self.path = str(Path(text).absolute())
        self.env = env or SystemEnvironment()
        self.url = f"file://{quote(os.fsencode(self.path))}" + (
            "" if linger_ms == LINGER_MS else f"?linger_ms={linger_ms:g}"
        )
        self._options = _Options(
            linger_ms / 1000, temp_age_s, verify_reads, disk or Disk(), remembers_uploads, private
        )
        self._parallel = parallel
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._session: _Session | None = None
        self._pool = Pool(self._parallel, "fencepost-files")

    def send(self, request: Request[R]) -> R:
        check(request)
        if isinstance(request, ask.ListVersions) or getattr(request, "version", None):
            raise Unsupported(
                "a directory keeps no versions; use memory://?versioned=true or a versioned bucket"
            )
        if os.getpid() != self._pid:
            self._start()  # a forked child has our locks as they were, and none of our threads
        try:
            try:
                return self._answer(request)
            except FileNotFoundError:  # the directory or its .fencepost was removed: begin again, once
                self._session = None
                return self._answer(request)
        except OSError as error:
            raise unusable(error, self.path, f"{request.kind} {request.subject!r}") from error

    def _answer(self, request: Request[R]) -> R:
        session = self._session
        if session is None or not session.settled:
            session = self._opened(writes=type(request) in _MAKES_ROOT)
        if session is not None and session.keeps_versions and type(request) in _REPLACES:
            raise Unsupported(
                f"{self.path} keeps versions, and a plain {request.kind} loses one; write through its server"
            )
        if session is None:  # the directory is empty, so an empty bucket gives the answer
            return Bucket(part_bytes_min=0).answer(request, self.env.now_ns())
        return cast(R, session.answers[type(request)](request))

    def _opened(self, *, writes: bool) -> "_Session | None":
        with self._lock:
            if self._session is None or not self._session.settled:
                self._session = self._open(writes=writes)
            return self._session

    def _open(self, *, writes: bool) -> "_Session | None":
        if writes:
            _make_root(self.path, self._options.disk)
        try:
            root_fd = os.open(self.path, _ROOT_FLAGS)
        except FileNotFoundError:
            return None
        return _Session(self.path, root_fd, self._options, self.env, writes=writes)

    # For servers: bodies in pieces, attributes beside the user's metadata, and versions.

    @contextlib.contextmanager
    def opened(self, key: str, version: str = "", *, wait: bool = True) -> Iterator[Opened | None]:
        """The object at `key` as an open file, or None: one version, whatever is written meanwhile.

        With `version`, this one, which may be a delete marker. Without `wait` it is an object whose file is
        in memory, or `WouldWait` is raised."""
        if not wait:
            session = self._session
            if version or session is None or not session.settled or os.getpid() != self._pid:
                raise WouldWait
            check(ask.Head(key))
            held = session.reader.hold_cached(key)
            try:
                yield held
            finally:
                os.close(held.fd)
            return
        with self._failures(f"read {key!r}"):
            check(ask.Head(key))
            session = self._opened(writes=False)
            if session is None:
                yield None
            elif version:
                with session.versions.opened(key, version) as found:
                    yield found
            else:
                with session.reader.current(key) as found:
                    yield found

    @contextlib.contextmanager
    def incoming(self, key: str, when: ask.Condition, keep: Keep = Keep.NOTHING) -> Iterator[Incoming]:
        """An object that arrives in pieces: write them, then `publish`. Nothing stays of one that is not."""
        with self._failures(f"put {key!r}"):
            check(ask.Put(key, b"", when))
            session = self._writing()
            with session.writer.incoming(key, when, session.versions.history(keep)) as draft:
                yield draft

    def complete(
        self, request: ask.CompleteUpload, keep: Keep, content: UploadContent | None = None
    ) -> ask.PutReply:
        """`CompleteUpload` that keeps the version which it replaces."""
        with self._failures(f"complete-upload {request.key!r}"):
            check(request)
            session = self._writing()
            return session.uploads.complete(request, session.versions.history(keep), content)

    def delete_keeping(
        self,
        key: str,
        when: ask.Matches | ask.Anything,
        keep: Keep,
        guard: Callable[[], None] = lambda: None,
    ) -> ask.DeleteReply:
        """Hide `key` behind a delete marker; without versions, remove it. Not if `guard` raises, which is
        called while no other changes the key."""
        with self._failures(f"delete {key!r}"):
            request = ask.Delete(key, when)
            check(request)
            if keep is Keep.NOTHING:
                session = self._opened(writes=False)
                return (
                    request.ends(NOTHING_THERE[type(when)])
                    if session is None
                    else session.writer.delete(request, guard)
                )
            return self._writing().versions.delete(key, when, keep, guard)

    def remove_version(self, key: str, version: str, guard: Callable[[Opened], None]) -> ask.DeleteReply:
        """Remove one version for good, unless `guard` raises."""
        with self._failures(f"delete {key!r}"):
            check(ask.Delete(key, ask.ANYTHING, version))
            return self._writing().versions.remove(key, version, guard)

    def change(self, key: str, version: str, how: Callable[[Opened], Attributes]) -> ask.Outcome:
        """Replace the attributes of an object, or of one version of it."""
        with self._failures(f"change {key!r}"):
            check(ask.Head(key))
            session = self._opened(writes=False)
            return ask.Outcome.MISSING if session is None else session.versions.change(key, version, how)

    def latest_marker(self, key: str) -> str:
        """The version of the delete marker that hides `key`; empty when none does."""
        with self._failures(f"read {key!r}"):
            session = self._opened(writes=False)
            return "" if session is None else session.versions.latest_marker(key)

    def versions(self, prefix: str, delimiter: str, after: tuple[str, str], limit: int) -> VersionsPage:
        """Versions by key, the newest first, behind `after`: a key and perhaps one of its versions."""
        with self._failures(f"list-versions {prefix!r}"):
            check(ask.List(prefix))
            session = self._opened(writes=False)
            if session is None:
                return VersionsPage([], [], False)
            return session.versions.page(prefix, delimiter, after, limit)

    def keys(self, after: str, limit: int, prefix: str = "") -> list[str]:
        """Keys behind `after` that have a version, in order, also those whose files cannot be read."""
        with self._failures("list keys"):
            session = self._opened(writes=False)
            return [] if session is None else session.versions.keys(after, limit, prefix)

    def held(self, key: str) -> list[Held]:
        """Every version and delete marker of `key`, the newest first."""
        with self._failures(f"read {key!r}"):
            check(ask.Head(key))
            session = self._opened(writes=False)
            return [] if session is None else session.versions.held(key)

    def _writing(self) -> "_Session":
        session = self._opened(writes=True)
        assert session is not None, "a session that writes is there or raises"
        return session

    @contextlib.contextmanager
    def incoming_part(self, key: str, upload: str, number: int) -> Iterator[IncomingPart | None]:
        """A part that arrives in pieces; None when there is no such upload."""
        with self._failures(f"upload-part {key!r}"):
            check(ask.UploadPart(key, upload, number, b""))
            session = self._opened(writes=False)
            if session is None:
                yield None
            else:
                with session.uploads.incoming(key, upload, number) as part:
                    yield part

    def begin_upload(self, request: ask.CreateUpload, extra: ask.Metadata) -> ask.UploadReply:
        """`CreateUpload` with what a server keeps beside the user's metadata."""
        with self._failures(f"create-upload {request.key!r}"):
            check(request)
            return self._writing().uploads.create(request, extra)

    def upload_result(self, key: str, upload: str) -> UploadResult | None:
        """Return the answer to the completion of an upload that is gone; None for any other upload."""
        with self._failures(f"read the result of an upload of {key!r}"):
            session = self._opened(writes=False)
            return None if session is None else session.uploads.result(key, upload)

    def uploads(self, prefix: str) -> tuple[ask.UploadInfo, ...]:
        """Every upload of keys with a prefix, in the order of listings, of one moment."""
        with self._failures(f"list-uploads {prefix!r}"):
            session = self._opened(writes=False)
            return () if session is None else session.uploads.all(prefix)

    def upload(self, key: str, upload: str) -> ask.UploadInfo | None:
        """This upload; None when it ended, or never was."""
        with self._failures(f"read the upload of {key!r}"):
            session = self._opened(writes=False)
            return None if session is None else session.uploads.find(key, upload)

    def parts(self, key: str, upload: str) -> list[PartInfo] | None:
        """The parts of an upload, by number; None when there is no such upload."""
        with self._failures(f"list-parts {key!r}"):
            session = self._opened(writes=False)
            return None if session is None else session.uploads.parts(key, upload)

    def collect_garbage(self, upload_age_s: float) -> int:
        """Remove old temporary files of dead writers, and uploads that were not touched for `upload_age_s`.

        Return the number of uploads removed.
        """
        with self._failures("collect garbage"):
            session = self._opened(writes=False)
            if session is None:
                return 0
            session.sweep()
            return session.uploads.sweep(self.env.now_ns() - round(upload_age_s * 1e9))

    def walk(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every key that has an object during the whole walk, in no order, with what the system says of its
        file; a key may come twice."""
        with self._failures("list all keys"):
            session = self._opened(writes=False)
            if session is not None:
                yield from session.lister.walk()

    @contextlib.contextmanager
    def noncurrent(self, key: str, version: str) -> Iterator[Opened | None]:
        """One version of a key, if it is there and not the current one."""
        with self._failures(f"read {key!r}"):
            session = self._opened(writes=False)
            if session is None:
                yield None
            else:
                with session.versions.noncurrent(key, version) as found:
                    yield found

    def walk_versions(self) -> Iterator[tuple[str, str, os.stat_result]]:
        """Like `walk`, of the versions that are not current."""
        with self._failures("list all versions"):
            session = self._opened(writes=False)
            if session is not None:
                yield from session.versions.walk()

    def stat(self, key: str) -> os.stat_result | None:
        """Return the `stat` result for the file at `key`, or None."""
        with self._failures(f"look for {key!r}"):
            session = self._opened(writes=False)
            found = None if session is None else session.reader.file(key)
            return None if found is None or stat.S_ISDIR(found.st_mode) else found

    def is_place(self, key: str, name: str, folder_fd: int) -> bool:
        """Return True if `key` has its file under this name in this folder."""
        session = self._session
        return session is not None and session.writer.is_place(key, name, folder_fd)

    def is_lock(self, key: str, fd: int) -> bool:
        """Return True if this descriptor is of the lock of `key`."""
        session = self._session
        return session is not None and session.writer.is_lock(key, fd)

    def flush(self, key: str) -> None:
        """Make the present state of `key` durable: its object, or that it has none."""
        with self._failures(f"flush the folder of {key!r}"):
            session = self._opened(writes=False)
            if session is not None:
                session.versions.flush(key)
                session.writer.flush(key)

    def upload_extra(self, key: str, upload: str) -> dict[str, str] | None:
        """Return the `extra` that `begin_upload` was called with; None if there is no such upload."""
        with self._failures(f"read the upload of {key!r}"):
            session = self._opened(writes=False)
            return None if session is None else session.uploads.begun(key, upload)

    @contextlib.contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        if os.getpid() != self._pid:
            self._start()
        try:
            yield
        except OSError as error:
            raise unusable(error, self.path, what) from error

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        if os.getpid() != self._pid:
            self._start()
        return self._pool.settle(self.send, requests)

    def verify(self) -> None:
        """Raise `Unusable` unless objects can be written here. Makes the directory's `.fencepost`, if the
        directory is there; a missing directory is left missing."""
        try:
            if os.path.lexists(self.path):
                session = self._opened(writes=True)
                assert session is not None, "a directory that is there can be opened or raises"
                session.try_out()
            else:
                _check_ancestor(self.path)
        except OSError as error:
            raise unusable(error, self.path, "keep objects") from error

    def close(self) -> None:
        with self._lock:
            self._session = None
        self._pool.close()


class _Options(NamedTuple):
    linger_s: float
    temp_age_s: float
    verify_reads: bool
    disk: Disk
    remembers: bool
    private: bool
    """True if the files of objects are for the user of this process alone."""


class _Session:
    """One root directory, open, with everything that works in it."""

    def __init__(self, path: str, root_fd: int, options: _Options, env: Environment, *, writes: bool) -> None:
        disk = options.disk
        self._disk = disk
        self._internals = internals = Internals(
            root_fd, path, disk, env, options.temp_age_s, private=options.private
        )
        self.root_fd = root_fd

        def new_flush(fd: int) -> Flush:
            return Flush(disk.fsync_folder, fd, options.linger_s, disk.waiting)

        try:
            names = internals.names()
            if names is None and writes:
                internals.settle_names()
                names = internals.names()
        except BaseException:
            os.close(root_fd)
            raise
        self.settled = names is not None
        """True if the directory records the spelling of its keys, so that this session can be kept."""
        names = names or Names()
        folders = Folders(path, names, internals, new_flush, root_fd)
        attributes = AttributeFiles(disk, internals)
        self.reader = reader = Reader(path, names, folders, attributes, verify_reads=options.verify_reads)
        self.writer = writer = Writer(names, folders, internals, attributes, reader, disk, env)
        self.lister = lister = Lister(names, folders, internals, reader)
        self.uploads = uploads = Uploads(
            internals, reader, writer, attributes, disk, env, remembers=options.remembers
        )
        lister = Lister(names, folders, internals, reader)
        self.versions = versions = Versions(
            path, names, internals, attributes, reader, writer, folders, lister, disk, new_flush, env
        )
        self.keeps_versions = self.settled and versions.any
        if self.settled:
            attributes.sweep(versions.files)
        self.answers: dict[type, Callable[[Any], Reply]] = {
            ask.Put: writer.put,
            ask.Get: reader.get,
            ask.Head: reader.head,
            ask.Delete: writer.delete,
            ask.List: lister.page,
            ask.CreateUpload: uploads.create,
            ask.UploadPart: uploads.part,
            ask.CompleteUpload: uploads.complete,
            ask.AbortUpload: uploads.abort,
            ask.ListUploads: uploads.list,
        }

    def sweep(self) -> None:
        self._internals.sweep()

    def try_out(self) -> None:
        """Raise `OSError` unless files can be written, linked and locked here."""
        folder = self._internals.folder("tmp")
        with self._internals.key_locked(""), self._internals.draft() as (fd, name):
            self._disk.write(fd, b"fencepost")
            self._disk.fsync(fd)
            self._disk.link(name, folder, name + "-linked", folder)
            self._disk.unlink(name + "-linked", folder)


_REPLACES = frozenset({ask.Put, ask.Delete, ask.CompleteUpload})
_MAKES_ROOT = frozenset({ask.Put, ask.CreateUpload})
"""Requests that need the directory; all others have an answer without it."""


def _make_root(path: str, disk: Disk) -> None:
    """The directory with its parents, made where they are missing, and durable even when somebody else made
    them and has not come to flush them yet."""
    parent = str(Path(path).parent)
    if parent == path:
        return
    _make_root(parent, disk)
    if not os.path.lexists(path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
    with contextlib.suppress(PermissionError):  # then it was there before us, and is not ours to flush
        fd = os.open(parent, _ROOT_FLAGS)
        try:
            disk.fsync_folder(fd)
        finally:
            os.close(fd)


def _check_ancestor(path: str) -> None:
    """Raise `Unusable` unless a missing directory could be made."""
    ancestor = next(parent for parent in Path(path).parents if os.path.lexists(parent))
    if not ancestor.is_dir():
        raise Unusable(f"{path} cannot be made: {ancestor} is a file; choose another directory")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise Unusable(f"{path} cannot be made: {ancestor} is not writable; choose another directory")
