"""Buckets: directories below one root, each with a document of its own configuration.

    <root>/<bucket>/...              objects, a `FileStore`
    <root>/.index/                   what listings come from; see `index`
    <root>/.log/                     what changed; see `change_log`
    <root>/.objects/buckets/<bucket> the document: when it was created, its tags, its lifecycle configuration

A bucket exists while its document does. Documents are objects of a `FileStore` and change by
compare-and-swap, so any number of processes may serve one root. Removing a bucket must not overtake a write
that has found it there: every request holds a shared lock of the bucket (`flock`) while it works in it, and
removing one holds it exclusively.
"""

import contextlib
import fcntl
import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.objects.calls import Calls
from fencepost.impl.objects.change_log import ChangeLog
from fencepost.impl.objects.credentials import ROOT
from fencepost.impl.objects.index import Index, NewTables
from fencepost.impl.objects.recorded import RecordedStore
from fencepost.impl.objects.safeguards import STANDARD, Safeguards
from fencepost.impl.objects.wire.conditions import require_done
from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.store.errors import BrokenPromise
from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.files.disk import WouldWait, open_cached
from fencepost.impl.store.files.store import LINGER_MS, TEMP_AGE_S
from fencepost.impl.store.files.versions import Keep
from fencepost.impl.store.requests import ABSENT, ANYTHING, AbortUpload, List, Matches, Outcome

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_INTERNAL = ".objects"
_DOCUMENTS = "buckets/"
_TRIES = 20
_TICKS_NS = 10**9
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_ALONE_TRIES, _ALONE_PAUSE_S = 100, 0.02
_TAKEN = frozenset({ROOT, "healthz", "livez", "metrics", "readyz"})
"""The token of a bucket of the first name would be the secret key of root; the others are addresses."""


@dataclass(frozen=True)
class Document:
    """The settings of a bucket."""

    created_ns: int
    tags: dict[str, str] = field(default_factory=dict)
    access: str = ""
    """`public` where objects are public unless they have an access of their own."""
    closings: int = 0
    """The number of times that the bucket was closed: what was opened before the last one is closed."""
    policy: str = ""
    """The bucket policy that the client sent, once it was checked."""
    block: list[str] = field(default_factory=list)
    """The settings of the public access block that are on."""
    has_block: bool = False
    """True if there is a public access block, perhaps with nothing on."""
    acl: str = ""
    """The canned ACL of the bucket itself; empty for `private`."""
    ownership: str = ""
    """Who owns objects, one of `bucket_rules.OWNERSHIPS`; with the first of them ACLs have no effect."""
    cors: str = ""
    """The rules for requests of pages of other origins, as JSON."""
    encryption: str = ""
    """What new objects tell of their encryption: `AES256`."""
    lifecycle: str = ""
    """The configuration that the client sent, as JSON."""
    location: str = ""
    """A region; empty for us-east-1, as S3 has it."""
    versioning: str = ""
    """`Enabled` or `Suspended`; empty while it was never enabled."""
    lock: dict[str, Any] | None = None
    """The default retention of new versions (`Mode`, and `Days` or `Years`); empty if there is none, and None
    where versions cannot be locked."""

    @property
    def keep(self) -> Keep:
        return Keep(self.versioning)


class Buckets:
    """The buckets of one directory.

    `linger_ms` and `temp_age_s` are those of every store (see `FileStore`). `url` is the address that clients
    know the directory by, for responses that name a place; without it they name the path.
    """

    def __init__(
        self,
        root: str,
        env: Environment | None = None,
        disk: Disk | None = None,
        safeguards: Safeguards = STANDARD,
        new_tables: NewTables | None = None,
        *,
        linger_ms: float = LINGER_MS,
        temp_age_s: float = TEMP_AGE_S,
        url: str = "",
    ) -> None:
        self.root = str(Path(root).absolute())
        self._linger_ms, self._temp_age_s, self._url = linger_ms, temp_age_s, url.rstrip("/")
        self.env = env or SystemEnvironment()
        self.safeguards = safeguards
        self._disk = disk
        self.calls: Calls | None = None
        """Records the calls of the stores that are opened from now on."""
        self._documents = FileStore(f"{self.root}/{_INTERNAL}", env=self.env, disk=disk)
        self.log = ChangeLog(self.root, self.env)
        self.index = Index(self.root, self.env, new_tables, self.log.newest_ns)
        self._stores: dict[str, RecordedStore] = {}
        self._read_before: dict[str, tuple[tuple[int, int, int], tuple[Document, str]]] = {}
        """Documents, each with the file that it was read from."""
        self._lock = threading.Lock()

    def verify(self) -> None:
        """Raise unless objects can be kept here."""
        self._documents.verify()

    def close(self) -> None:
        for store in (*self._stores.values(), self._documents):
            store.close()
        self.index.close()

    def location(self, bucket: str, key: str) -> str:
        """Return the address of an object, which is its path where the server knows no address."""
        return f"{self._url}/{bucket}/{quote(key)}"

    # Buckets.

    def create(self, name: str, **settings: Any) -> None:
        check_name(name)
        if self._documents.head(_DOCUMENTS + name).outcome is Outcome.DONE:
            refuse("BucketAlreadyOwnedByYou", bucket_name=name)
        with self._locked(name, fcntl.LOCK_EX):
            self._abort_uploads(self.store(name))
            text = json.dumps(asdict(Document(self.env.now_ns(), **settings))).encode()
            reply = self._documents.put(_DOCUMENTS + name, text, when=ABSENT)
            if reply.outcome is Outcome.EXISTS:
                refuse("BucketAlreadyOwnedByYou", bucket_name=name)
            require_done(reply.outcome)

    def delete(self, name: str) -> None:
        self.document(name)
        store = self.store(name)
        if store.send(List("", limit=1)).objects:  # spares the lock, and the look at a large directory
            refuse("BucketNotEmpty", bucket_name=name)
        with self._locked(name, fcntl.LOCK_EX):
            self.document(name)
            if not store.is_empty():
                refuse("BucketNotEmpty", bucket_name=name)
            require_done(self._documents.delete(_DOCUMENTS + name, when=ANYTHING).outcome)
            self._abort_uploads(store)

    def _abort_uploads(self, store: RecordedStore) -> None:
        """Drop what a bucket that is gone has left; a process that is killed here leaves it to `create`."""
        for upload in store.uploads(""):
            store.send(AbortUpload(upload.key, upload.upload))

    def all(self) -> Iterator[tuple[str, Document]]:
        """In the order of their names."""
        token = ""
        while True:
            page = self._documents.send(List(_DOCUMENTS, token=token))
            require_done(page.outcome)
            for info in page.objects:
                name = info.key.removeprefix(_DOCUMENTS)
                with contextlib.suppress(S3Error):  # removed meanwhile
                    yield name, self.document(name)
            token = page.next
            if not token:
                return

    def names(self) -> list[str]:
        """The names of all buckets, in order, also of those whose documents cannot be read."""
        try:
            found = [path.name for path in Path(self.root, _INTERNAL, _DOCUMENTS).iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in found if _is_name(name))

    def documents_changed_ns(self) -> int:
        """When a document was written or removed last; 0 before the first."""
        try:
            return Path(self.root, _INTERNAL, _DOCUMENTS).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def document(self, name: str, *, wait: bool = True) -> Document:
        return self._read(name, wait)[0]

    def change_alone(self, name: str, how: Callable[[Document], Document]) -> None:
        """Replace the document while no request uses the bucket: each sees the old one or the new one."""
        with self._locked(name, fcntl.LOCK_EX):
            self.change(name, how)

    def change(self, name: str, how: Callable[[Document], Document]) -> None:
        """Replace the document by the result of `how`, without losing a concurrent change."""
        for _ in range(_TRIES):
            found, etag = self._read(name)
            text = json.dumps(asdict(how(found))).encode()
            outcome = self._documents.put(_DOCUMENTS + name, text, when=Matches(etag)).outcome
            if outcome is not Outcome.CHANGED:
                require_done(outcome)
                return
        refuse("SlowDown")

    def _read(self, name: str, wait: bool = True) -> tuple[Document, str]:
        found = self._stat(name) if _is_name(name) else None
        if found is None:
            refuse("NoSuchBucket", bucket_name=name)
        file = found.st_ino, found.st_ctime_ns, found.st_mtime_ns
        known = self._read_before.get(name)
        if known is not None and known[0] == file:
            return known[1]
        if not wait:
            raise WouldWait
        reply = self._documents.get(_DOCUMENTS + name)
        if reply.outcome is Outcome.MISSING:
            refuse("NoSuchBucket", bucket_name=name)
        require_done(reply.outcome)
        assert reply.info is not None, "a get that is done has its info"
        try:
            result = Document(**json.loads(reply.body)), reply.info.etag
        except (ValueError, TypeError) as error:
            raise BrokenPromise(
                f"the settings of bucket {name} in {self.root} cannot be read ({error}); restore "
                f"{_INTERNAL}/{_DOCUMENTS}{name} from a copy"
            ) from None
        # A replaced file has another inode or another time of change, unless both changes happened within one
        # tick of the file system's clock. Then the document may be newer than `file`, so it is not kept.
        if self.env.now_ns() - found.st_ctime_ns > _TICKS_NS:
            self._read_before[name] = file, result
        return result

    def _stat(self, name: str) -> os.stat_result | None:
        """The file of a document. The name of a bucket is spelled as it is on every file system."""
        try:
            found = os.lstat(f"{self.root}/{_INTERNAL}/{_DOCUMENTS}{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found if stat.S_ISREG(found.st_mode) else self._documents.stat(_DOCUMENTS + name)

    # Objects.

    @contextlib.contextmanager
    def using(self, name: str) -> Iterator[RecordedStore]:
        """The objects of a bucket that exists, and does until the end of this block."""
        with self.entered(name) as (store, _):
            yield store

    @contextlib.contextmanager
    def entered(self, name: str, *, wait: bool = True) -> Iterator[tuple[RecordedStore, Document]]:
        """The same with the document, whose versioning stays as it is until the end of this block. Without
        `wait`, `WouldWait` is raised where the disk or a lock would have to be waited for."""
        with self._locked(name, fcntl.LOCK_SH if wait else fcntl.LOCK_SH | fcntl.LOCK_NB):
            document = self.document(name, wait=wait)
            yield self._stores.get(name) or self.store(name), document

    def store(self, name: str) -> RecordedStore:
        with self._lock:
            if name not in self._stores:
                self._stores[name] = RecordedStore(
                    *(f"{self.root}/{name}", name, self.index, self.env, self._disk, self.safeguards),
                    calls=self.calls,
                    linger_ms=self._linger_ms,
                    temp_age_s=self._temp_age_s,
                )
            return self._stores[name]

    @contextlib.contextmanager
    def _locked(self, name: str, how: int) -> Iterator[None]:
        if not _is_name(name):
            refuse("NoSuchBucket", bucket_name=name)
        path = f"{self.root}/{_INTERNAL}/locks/{name}"
        try:
            if how & fcntl.LOCK_NB:
                fd = open_cached(path, _LOCK_FLAGS & ~os.O_CREAT)
            else:
                fd = os.open(path, _LOCK_FLAGS, 0o600)
        except FileNotFoundError:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, _LOCK_FLAGS, 0o600)
        try:
            self._lock_file(fd, how)
            yield
        finally:
            os.close(fd)

    def _lock_file(self, fd: int, how: int) -> None:
        """Lock the bucket's file, with a bounded wait for the exclusive lock.

        An exclusive lock is held for a moment, a shared one while a body arrives, which may take hours. A
        thread that waited for all of them could serve no request meanwhile.
        """
        if how & fcntl.LOCK_SH:
            try:
                fcntl.flock(fd, how)
            except BlockingIOError:
                raise WouldWait from None
            return
        for left in reversed(range(_ALONE_TRIES)):
            try:
                fcntl.flock(fd, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if not left:
                    refuse("OperationAborted")
                self.env.sleep(_ALONE_PAUSE_S)
            else:
                return


def check_name(name: str) -> None:
    if name in _TAKEN:
        what = "the access key of the owner" if name == ROOT else "an address of this server"
        refuse("InvalidBucketName", f"{name} is {what}; choose another name", bucket_name=name)
    # A label of a host neither begins nor ends with a dash.
    if not _is_name(name) or ".-" in name or "-." in name:
        refuse("InvalidBucketName", bucket_name=name)


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and ".." not in name and not _ADDRESS.fullmatch(name)
