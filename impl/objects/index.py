"""The listing index: one SQLite database in `.index/` that every process of a directory shares.

    objects       bucket, key -> what a listing shows, and what the change log says of the object
    noncurrent    bucket, key, version -> the same of versions and delete markers that are not current
    outbox        events that no log file holds yet (see `change_log`)
    meta          the time of the newest event; the boot of the system in which the index was last complete

The directory is the truth and the index is derived from it. A change is recorded after it was published and
before its request is answered, in a transaction that looks at the directory after it has begun: of two
writers of one key the last transaction therefore records the newer version, whichever process runs it. The
same transaction puts the event of the change into the outbox, so that index and change log cannot disagree.

Keys are stored as UTF-8 bytes, whose order is the order of a listing. A page seeks to its first key, and
behind each common prefix to the first key after it; its cost depends on what it returns, not on how much
there is.

Transactions do not wait for the disk (`synchronous=NORMAL`): a kill loses none of them, a power loss may.
So the index is trusted only if it was reconciled since the system booted; until then listings come from the
directory. Threads that record at the same time share one transaction.
"""

import contextlib
import errno
import fcntl
import json
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.store.errors import StoreError, Unusable
from fencepost.impl.store.files import versions
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.requests import List, ListReply, ObjectInfo, Outcome

FOLDER = ".index"
_DATABASE = "objects-1.sqlite"
"""The number is that of the tables: another release begins with an index of its own."""
_TABLES = """
create table if not exists objects (
    bucket text, key blob, version text,
    etag text not null, size integer not null, modified_ns integer not null,
    file text not null, attributes text not null,
    primary key (bucket, key, version)
) without rowid;
create table if not exists noncurrent (
    bucket text, key blob, version text,
    etag text not null, size integer not null, modified_ns integer not null,
    file text not null, attributes text not null,
    primary key (bucket, key, version)
) without rowid;
create table if not exists outbox (ts_ns integer primary key, node text not null, event text not null);
create table if not exists meta (name text primary key, value) without rowid;
"""
_TABLE, _PLACE = ("objects", "noncurrent"), "bucket=? and key=? and version=?"
_WAIT_S = 30.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_ROWS = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index keeps of one version of an object."""

    etag: str
    size: int
    modified_ns: int
    attributes: str
    """As the file has them: mark, content type, metadata, and what the server adds."""
    file: str = field(default="", compare=False)
    """Tells whether the file was touched since: its inode and the time of its last change."""

    def info(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, self.etag, self.size, self.modified_ns)

    def described(self) -> Attributes:
        return Attributes.decode(self.attributes.encode(), "the index")

    @property
    def version(self) -> str:
        """Its name where its bucket keeps versions; empty where it has none yet."""
        if '"Version"' not in self.attributes:
            return ""
        return versions.Entry(self.described().extra.get("Version", "")).version

    def to_json(self) -> dict[str, Any]:
        known = self.described()
        return {
            "etag": self.etag,
            "size": self.size,
            "modified_ns": self.modified_ns,
            "mark": known.mark,
            "content_type": known.content_type,
            "metadata": dict(known.metadata),
            "extra": dict(known.extra),
        }


def entry_of(found: os.stat_result, known: Attributes) -> Entry:
    return Entry(known.etag, found.st_size, found.st_mtime_ns, known.encode().decode(), file_of(found))


def file_of(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_ctime_ns:x}"


@dataclass(slots=True)
class Change:
    """A key whose object has changed, perhaps. `look` returns what stands there now, durably, or None: of a
    version that is not current, and of the object for an empty one."""

    bucket: str
    key: str
    look: Callable[[str], Entry | None]
    versions: frozenset[str] = frozenset()
    """Those that may have become current or noncurrent, besides the ones that the object has and had."""
    done: bool = False
    error: Exception | None = None


class Index:
    """`node` names this process in the outbox."""

    def __init__(self, root: str, env: Environment) -> None:
        self._folder = Path(root, FOLDER)
        self._env = env
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self.node = f"{self._env.new_id().lower()}-{os.getpid()}"
        self._lock = threading.Lock()
        """Held by the thread that records."""
        self._opening = threading.Lock()
        self._waiting: deque[Change] = deque()
        self._owed: dict[tuple[str, str], Change] = {}
        """Changes whose transaction failed; the next one includes them."""
        self._writer: sqlite3.Connection | None = None
        self._writers_lock = -1
        self._alive = -1
        self._readers = threading.local()
        self._open_readers: list[sqlite3.Connection] = []

    # Recording.

    def record(self, change: Change) -> None:
        """Bring the rows of one key in line with the directory; returns once every process sees it."""
        self._after_fork()
        self._waiting.append(change)
        with self._lock:
            if not change.done:
                batch = list(self._owed.values())
                while self._waiting:
                    batch.append(self._waiting.popleft())
                self._record_all(batch)
        if change.error is not None:
            raise Unusable(f"the listing index cannot record {change.key!r}: {change.error}") from (
                change.error.__cause__ or change.error
            )

    def retry_owed(self) -> None:
        """Record what an earlier transaction could not."""
        with self._lock:
            if self._owed:
                self._record_all(list(self._owed.values()))

    def _record_all(self, batch: list[Change]) -> None:
        for change in batch:
            change.error = None
        try:
            with self.writing() as connection:
                for change in batch:
                    try:
                        self._record_one(connection, change)
                    except (OSError, StoreError) as failure:  # of this object; the others are recorded
                        change.error = failure
        except Exception as failure:  # noqa: BLE001  whoever waits is not to believe that it was recorded
            for change in batch:
                change.error = failure
        for change in batch:
            change.done = True
            place = (change.bucket, change.key)
            owed = self._owed.get(place)
            if change.error is not None:
                if owed is not None:
                    change.versions |= owed.versions
                self._owed[place] = change
            elif owed is change:
                del self._owed[place]

    def _record_one(self, connection: sqlite3.Connection, change: Change) -> None:
        old, new = self._record_version(connection, change, "")
        changed = {entry.version for entry in (old, new) if entry is not None}
        for version in sorted((changed | change.versions) - {""}):
            self._record_version(connection, change, version)

    def _record_version(
        self, connection: sqlite3.Connection, change: Change, version: str
    ) -> tuple[Entry | None, Entry | None]:
        table, place = _TABLE[version != ""], (change.bucket, change.key.encode(), version)
        old, new = self._row(connection, table, place), change.look(version)
        if new is None:
            if old is not None:
                connection.execute(f"delete from {table} where {_PLACE}", place)  # noqa: S608  one of our two
        elif old is None or old != new or old.file != new.file:
            row = (*place, new.etag, new.size, new.modified_ns, new.file, new.attributes)
            connection.execute(f"insert or replace into {table} values (?,?,?,?,?,?,?,?)", row)  # noqa: S608  the same
        if old != new:
            event = {
                "bucket": change.bucket,
                "key": change.key,
                "version": version,
                "old": None if old is None else old.to_json(),
                "new": None if new is None else new.to_json(),
            }
            connection.execute(
                "insert into outbox values (?,?,?)", (self._next_ns(connection), self.node, json.dumps(event))
            )
        return old, new

    def _row(self, connection: sqlite3.Connection, table: str, place: tuple[str, bytes, str]) -> Entry | None:
        found = connection.execute(
            f"select etag, size, modified_ns, attributes, file from {table} where {_PLACE}",  # noqa: S608  the same
            place,
        ).fetchone()
        return None if found is None else Entry(*found)

    def _next_ns(self, connection: sqlite3.Connection) -> int:
        """A time of its own for each event, rising in the order of the transactions of all processes."""
        newest = self._meta(connection, "newest_ns") or 0
        ts_ns = max(self._env.now_ns(), newest + 1)
        self._set_meta(connection, "newest_ns", ts_ns)
        return ts_ns

    # Listings.

    def page(self, bucket: str, request: List) -> ListReply | None:
        """A page as a bucket answers it, of one moment; None while the index cannot be trusted."""
        with self._reading() as connection:
            if self._meta(connection, "boot") != boot():
                return None
            return _page(connection, bucket, request)

    def entries(self, bucket: str, prefix: str, after: str, limit: int) -> list[tuple[str, Entry]] | None:
        """Keys behind `after` with everything that is known of them; None as for `page`."""
        with self._reading() as connection:
            if self._meta(connection, "boot") != boot():
                return None
            rows = connection.execute(
                "select key, etag, size, modified_ns, attributes, file from objects"
                " where bucket=? and key>=? and key<? and version='' order by key limit ?",
                (bucket, max(prefix.encode(), _next(after.encode())), _behind(prefix.encode()), limit),
            ).fetchall()
        return [(row[0].decode(), Entry(*row[1:])) for row in rows]

    # Reconciling.

    def differing(self, bucket: str, files: Mapping[str, os.stat_result]) -> list[str]:
        """The keys whose rows were not taken from these files as they are now."""
        with self._reading() as connection:
            marks = ",".join("?" * len(files))
            rows = connection.execute(
                f"select key, file from objects where bucket=? and version='' and key in ({marks})",  # noqa: S608  question marks only
                (bucket, *(key.encode() for key in files)),
            )
            known = {key.decode(): file for key, file in rows}
        return [key for key, found in files.items() if known.get(key) != file_of(found)]

    def keys(self, bucket: str) -> Iterator[str]:
        """Every key that has a row, in order; other processes may write between two of them."""
        after = b""
        while True:
            with self._reading() as connection:
                rows = connection.execute(
                    "select key from objects where bucket=? and key>? and version='' order by key limit ?",
                    (bucket, after, _ROWS),
                ).fetchall()
            for (key,) in rows:
                yield key.decode()
            if len(rows) < _ROWS:
                return
            after = rows[-1][0]

    def differing_versions(
        self, bucket: str, files: Mapping[tuple[str, str], os.stat_result]
    ) -> list[tuple[str, str]]:
        """The same of versions that are not current."""
        with self._reading() as connection:
            rows = {
                (key, version): self._row(connection, "noncurrent", (bucket, key.encode(), version))
                for key, version in files
            }
        return [place for place, row in rows.items() if row is None or row.file != file_of(files[place])]

    def versions(self, bucket: str) -> Iterator[tuple[str, str]]:
        """Every key and version that has a row, as `keys`."""
        after = (b"", "")
        while True:
            with self._reading() as connection:
                rows = connection.execute(
                    "select key, version from noncurrent where bucket=? and (key, version)>(?,?)"
                    " order by key, version limit ?",
                    (bucket, *after, _ROWS),
                ).fetchall()
            for key, version in rows:
                yield key.decode(), version
            if len(rows) < _ROWS:
                return
            after = rows[-1]

    def buckets(self) -> list[str]:
        with self._reading() as connection:
            rows = connection.execute("select bucket from objects union select bucket from noncurrent")
            return [name for (name,) in rows]

    def trust(self, began_ns: int) -> None:
        """The index equals the directory, but for changes that a live process will record; it was compared
        since `began_ns`.
        """
        with self._lock, self.writing() as connection:
            self._set_meta(connection, "boot", boot())
            self._set_meta(connection, "reconciled_ns", began_ns)

    def reconciled_ns(self) -> int:
        """When the last comparison that has ended began; 0 where there was none since the system booted."""
        with self._reading() as connection:
            trusted = self._meta(connection, "boot") == boot()
            return self._meta(connection, "reconciled_ns") or 0 if trusted else 0

    @contextlib.contextmanager
    def exclusively(self, name: str) -> Iterator[None]:
        """One process at a time, of all that share the directory."""
        self._folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def forget_lock(self, name: str) -> None:
        """Remove the file of a lock that nobody will want again."""
        (self._folder / name).unlink(missing_ok=True)

    # The outbox.

    def outbox(self, node: str) -> list[tuple[int, str]]:
        with self._reading() as connection:
            return connection.execute(
                "select ts_ns, event from outbox where node=? order by ts_ns", (node,)
            ).fetchall()

    def settle(self, times: Iterable[int]) -> None:
        """These events are durable in the log."""
        with self._lock, self.writing() as connection:
            connection.executemany("delete from outbox where ts_ns=?", [(ts_ns,) for ts_ns in times])

    def ended_nodes(self) -> list[str]:
        """Processes that are gone, and may have left events behind."""
        with self._reading() as connection:
            nodes = {name for (name,) in connection.execute("select distinct node from outbox")}
        if (self._folder / "nodes").is_dir():
            nodes |= {path.name for path in (self._folder / "nodes").iterdir()}
        return [node for node in sorted(nodes - {self.node}) if not self._lives(node)]

    def settled_ns(self) -> int:
        """Every event up to this time is in the log, and no later one will precede it."""
        with self._reading() as connection:
            first = connection.execute("select min(ts_ns) from outbox").fetchone()[0]
            return first - 1 if first is not None else self._meta(connection, "newest_ns") or 0

    def advance(self, ts_ns: int) -> None:
        """No event gets a time before this one, which a log has."""
        with self._lock, self.writing() as connection:
            if ts_ns > (self._meta(connection, "newest_ns") or 0):
                self._set_meta(connection, "newest_ns", ts_ns)

    def _lives(self, node: str) -> bool:
        try:
            fd = os.open(self._folder / "nodes" / node, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            (self._folder / "nodes" / node).unlink()
            return False
        finally:
            os.close(fd)

    # Connections.

    def _after_fork(self) -> None:
        if os.getpid() != self._pid:
            self._start()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction; only while holding `_lock`. Processes take turns by a lock that wakes them, because
        SQLite itself would have them sleep and try again."""
        try:
            with self._writing() as connection:
                yield connection
        except sqlite3.Error as error:
            raise Unusable(f"the listing index cannot be written: {error}") from _with_cause(error).__cause__

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._after_fork()
        if self._writer is None:
            self._announce_node()
            self._writer = self._connect()
            self._writers_lock = os.open(
                self._folder / "writing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        connection = self._writer
        fcntl.flock(self._writers_lock, fcntl.LOCK_EX)
        try:
            connection.execute("begin immediate")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        finally:
            fcntl.flock(self._writers_lock, fcntl.LOCK_UN)

    def _announce_node(self) -> None:
        nodes = self._folder / "nodes"
        nodes.mkdir(parents=True, exist_ok=True)
        unlocked = self._folder / f"node-{self.node}"
        self._alive = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(nodes / self.node)  # those that are not locked belong to dead processes

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One moment of the index."""
        self._after_fork()
        connection: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        try:
            if connection is None:
                connection = self._readers.connection = self._connect()
                self._open_readers.append(connection)
            connection.execute("begin")
            try:
                yield connection
            finally:
                connection.execute("commit")
        except sqlite3.Error as error:
            raise Unusable(f"the listing index cannot be read: {error}") from _with_cause(error).__cause__

    def _connect(self) -> sqlite3.Connection:
        path = self._folder / _DATABASE
        with self._opening, self.exclusively("opening"):
            try:
                return self._connected(path)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:  # it is no database any more: begin anew, from the directory
                for tail in ("", "-wal", "-shm"):
                    path.with_name(path.name + tail).unlink(missing_ok=True)
                return self._connected(path)

    def _connected(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("pragma journal_mode=wal")
            connection.execute("pragma synchronous=normal")
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        return connection

    def _meta(self, connection: sqlite3.Connection, name: str) -> Any:
        found = connection.execute("select value from meta where name=?", (name,)).fetchone()
        return None if found is None else found[0]

    def _set_meta(self, connection: sqlite3.Connection, name: str, value: Any) -> None:
        connection.execute("insert or replace into meta values (?,?)", (name, value))

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            for connection in (*self._open_readers, *([self._writer] if self._writer else [])):
                connection.close()
            for fd in (self._writers_lock, self._alive):
                if fd >= 0:
                    os.close(fd)
            (self._folder / "nodes" / self.node).unlink(missing_ok=True)
            self.forget_lock(f"log-{self.node}")
        self._start()


def boot() -> str:
    """Names the time since the system was started; empty, and never equal to another, where unknown."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"process {os.getpid()}"


def _page(connection: sqlite3.Connection, bucket: str, request: List) -> ListReply:
    prefix, delimiter = request.prefix.encode(), request.delimiter.encode()
    after, token = max(request.after, request.token).encode(), request.token.encode()
    # One bound: of two, SQLite would seek to either, and scan to the other.
    start, stop = max(prefix, _next(after)), _behind(prefix)
    if delimiter and token.endswith(delimiter):  # the group that ended the page before
        start = max(start, _behind(token))
    objects: list[ObjectInfo] = []
    groups: list[str] = []
    last = ""
    while True:
        rows = connection.execute(
            "select key, etag, size, modified_ns from objects"
            " where bucket=? and key>=? and key<? and version='' order by key",
            (bucket, start, stop),
        )
        for key, *about in rows:
            if len(objects) + len(groups) == request.limit:
                return ListReply(Outcome.DONE, "", tuple(objects), tuple(groups), last)
            at = key.find(delimiter, len(prefix)) if delimiter else -1
            if at >= 0:
                group = key[: at + len(delimiter)]
                start = _behind(group)
                last = group.decode()
                groups.append(last)
                break  # seek behind the group
            last = key.decode()
            objects.append(ObjectInfo(last, *about))
        else:
            return ListReply(Outcome.DONE, "", tuple(objects), tuple(groups), "")


def _next(key: bytes) -> bytes:
    """The first bytes behind this key; no key holds a NUL."""
    return key + b"\0" if key else b""


def _behind(prefix: bytes) -> bytes:
    """The first bytes behind all keys with this prefix: no key holds 0xFF."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\xff"


def _with_cause(failure: Exception) -> Exception:
    """A full disk is one, also when SQLite noticed it."""
    if getattr(failure, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
        failure.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return failure
