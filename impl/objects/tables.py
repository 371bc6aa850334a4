"""The tables of the listing index: what a transaction reads and writes, and SQLite, which keeps them.

`Rows` is one moment of the tables, `Tables` makes moments and transactions of them; `index` decides what is
read and written, when and in which order. So an audit replaces SQLite, whose calls the file system of a world
cannot answer, and nothing else (docs/decisions/0019).

Keys are stored as UTF-8 bytes, whose order is the order of a listing. A page seeks to its first key, and
behind each common prefix to the first key after it; its cost depends on what it returns, not on how much
there is.
"""

import contextlib
import errno
import functools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import versions
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.requests import List, ListReply, ObjectInfo, Outcome, UploadInfo

Place = tuple[str, str, str]
"""Bucket, key and version. An unfinished upload has one too: its version is `upload/` and its name."""
UPLOAD = "upload/"
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
_ENTRY = "etag, size, modified_ns, attributes, file"


@dataclass(frozen=True, slots=True)
class Entry:
    """The index's row of one version of an object."""

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
        return _decoded(self.attributes)

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


@functools.lru_cache(maxsize=256)
def _decoded(attributes: str) -> Attributes:
    return Attributes.decode(attributes.encode(), "the index")


def entry_of(found: os.stat_result, known: Attributes) -> Entry:
    return Entry(known.etag, found.st_size, found.st_mtime_ns, known.encode().decode(), file_of(found))


def entry_of_upload(found: UploadInfo) -> Entry:
    return Entry("", 0, found.started_ns, Attributes("", found.upload).encode().decode())


def file_of(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_ctime_ns:x}"


class Rows(Protocol):
    """One moment of the tables. Only those of a transaction may be changed."""

    def entry(self, place: Place) -> Entry | None: ...
    def put(self, place: Place, entry: Entry) -> None: ...
    def remove(self, place: Place) -> None: ...
    def buckets(self) -> list[str]: ...
    def page(self, bucket: str, request: List) -> ListReply: ...

    def between(self, bucket: str, start: bytes, stop: bytes, limit: int) -> list[tuple[str, Entry]]:
        """Entries of current versions with keys from `start` to before `stop`, in order."""

    def versions(self, bucket: str, after: tuple[str, str], limit: int) -> list[tuple[str, str]]:
        """Keys and versions behind `after` of entries of versions that are not current, in order."""

    def files(self, bucket: str, keys: Iterable[str]) -> dict[str, str]:
        """Of these keys those that have an entry, and its `file`."""

    def add_event(self, ts_ns: int, node: str, text: str) -> None: ...
    def events(self, node: str) -> list[tuple[int, str]]: ...
    def remove_events(self, times: Iterable[int]) -> None: ...
    def nodes(self) -> list[str]: ...
    def first_event_ns(self) -> int | None: ...
    def meta(self, name: str) -> Any: ...
    def set_meta(self, name: str, value: Any) -> None: ...


class Tables(Protocol):
    """A transaction survives a kill; of those that ended, a power loss may take the last ones."""

    def writing(self) -> AbstractContextManager[Rows]:
        """A transaction; one at a time. Raises `Unusable`, or what its block raises, and has then changed
        nothing."""

    def reading(self) -> AbstractContextManager[Rows]: ...
    def close(self) -> None: ...


class Database:
    """The tables in SQLite, with a write-ahead log; transactions do not wait for the disk."""

    def __init__(self, folder: Path, exclusively: Callable[[str], AbstractContextManager[None]]) -> None:
        self._folder = folder
        self._exclusively = exclusively
        self._opening = threading.Lock()
        self.writer: sqlite3.Connection | None = None
        self._readers = threading.local()
        self._open_readers: list[sqlite3.Connection] = []

    @contextlib.contextmanager
    def writing(self) -> "Iterator[DatabaseRows]":
        try:
            if self.writer is None:
                self.writer = self._connect()
            self.writer.execute("begin immediate")
            try:
                yield DatabaseRows(self.writer)
                self.writer.execute("commit")
            except BaseException:
                if self.writer.in_transaction:
                    self.writer.execute("rollback")
                raise
        except sqlite3.Error as error:
            raise Unusable(f"the listing index cannot be written: {error}") from _cause(error)

    @contextlib.contextmanager
    def reading(self) -> "Iterator[DatabaseRows]":
        connection: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        try:
            if connection is None:
                connection = self._readers.connection = self._connect()
                self._open_readers.append(connection)
            connection.execute("begin")
            try:
                yield DatabaseRows(connection)
            finally:
                connection.execute("commit")
        except sqlite3.Error as error:
            raise Unusable(f"the listing index cannot be read: {error}") from _cause(error)

    def _connect(self) -> sqlite3.Connection:
        path = self._folder / _DATABASE
        with self._opening, self._exclusively("opening"):
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

    def close(self) -> None:
        for connection in (*self._open_readers, *([self.writer] if self.writer else [])):
            connection.close()


@dataclass(frozen=True, slots=True)
class DatabaseRows:
    connection: sqlite3.Connection

    def entry(self, place: Place) -> Entry | None:
        found = self.connection.execute(
            f"select {_ENTRY} from {_TABLE[place[2] != '']} where {_PLACE}",  # noqa: S608  constants
            _stored(place),
        ).fetchone()
        return None if found is None else Entry(*found)

    def put(self, place: Place, entry: Entry) -> None:
        self.connection.execute(
            f"insert or replace into {_TABLE[place[2] != '']} values (?,?,?,?,?,?,?,?)",  # noqa: S608  a constant
            (*_stored(place), entry.etag, entry.size, entry.modified_ns, entry.file, entry.attributes),
        )

    def remove(self, place: Place) -> None:
        self.connection.execute(f"delete from {_TABLE[place[2] != '']} where {_PLACE}", _stored(place))  # noqa: S608  constants

    def versions(self, bucket: str, after: tuple[str, str], limit: int) -> list[tuple[str, str]]:
        rows = self.connection.execute(
            "select key, version from noncurrent where bucket=? and (key, version)>(?,?)"
            " order by key, version limit ?",
            (bucket, after[0].encode(), after[1], limit),
        )
        return [(key.decode(), version) for key, version in rows]

    def buckets(self) -> list[str]:
        rows = self.connection.execute("select bucket from objects union select bucket from noncurrent")
        return [name for (name,) in rows]

    def between(self, bucket: str, start: bytes, stop: bytes, limit: int) -> list[tuple[str, Entry]]:
        rows = self.connection.execute(
            f"select key, {_ENTRY} from objects"  # noqa: S608  a constant
            " where bucket=? and key>=? and key<? and version='' order by key limit ?",
            (bucket, start, stop, limit),
        )
        return [(row[0].decode(), Entry(*row[1:])) for row in rows]

    def files(self, bucket: str, keys: Iterable[str]) -> dict[str, str]:
        stored = [key.encode() for key in keys]
        marks = ",".join("?" * len(stored))
        rows = self.connection.execute(
            f"select key, file from objects where bucket=? and version='' and key in ({marks})",  # noqa: S608  question marks only
            (bucket, *stored),
        )
        return {key.decode(): file for key, file in rows}

    def page(self, bucket: str, request: List) -> ListReply:
        prefix, delimiter = request.prefix.encode(), request.delimiter.encode()
        after, token = max(request.after, request.token).encode(), request.token.encode()
        # One bound: of two, SQLite would seek to either, and scan to the other.
        start, stop = max(prefix, next_key(after)), behind(prefix)
        if not delimiter:
            return _plain_page(
                self.connection.execute(f"{_LISTED} limit ?", (bucket, start, stop, request.limit + 1)),
                request.limit,
            )
        if token.endswith(delimiter):  # the group that ended the page before
            start = max(start, behind(token))
        objects: list[ObjectInfo] = []
        groups: list[str] = []
        last = ""
        while True:
            for key, *about in self.connection.execute(_LISTED, (bucket, start, stop)):
                if len(objects) + len(groups) == request.limit:
                    return ListReply(Outcome.DONE, "", tuple(objects), tuple(groups), last)
                at = key.find(delimiter, len(prefix))
                if at >= 0:
                    group = key[: at + len(delimiter)]
                    start = behind(group)
                    last = group.decode()
                    groups.append(last)
                    break  # seek behind the group
                last = key.decode()
                objects.append(ObjectInfo(last, *about))
            else:
                return ListReply(Outcome.DONE, "", tuple(objects), tuple(groups), "")

    def add_event(self, ts_ns: int, node: str, text: str) -> None:
        self.connection.execute("insert into outbox values (?,?,?)", (ts_ns, node, text))

    def events(self, node: str) -> list[tuple[int, str]]:
        return self.connection.execute(
            "select ts_ns, event from outbox where node=? order by ts_ns", (node,)
        ).fetchall()

    def remove_events(self, times: Iterable[int]) -> None:
        self.connection.executemany("delete from outbox where ts_ns=?", [(ts_ns,) for ts_ns in times])

    def nodes(self) -> list[str]:
        return [name for (name,) in self.connection.execute("select distinct node from outbox")]

    def first_event_ns(self) -> int | None:
        found: int | None = self.connection.execute("select min(ts_ns) from outbox").fetchone()[0]
        return found

    def meta(self, name: str) -> Any:
        found = self.connection.execute("select value from meta where name=?", (name,)).fetchone()
        return None if found is None else found[0]

    def set_meta(self, name: str, value: Any) -> None:
        self.connection.execute("insert or replace into meta values (?,?)", (name, value))


_LISTED = (
    "select key, etag, size, modified_ns from objects"
    " where bucket=? and key>=? and key<? and version='' order by key"
)


def _plain_page(found: Iterable[Any], limit: int) -> ListReply:
    """Without groups, of `limit` rows and one that shows whether there are more."""
    objects = [ObjectInfo(key.decode(), *about) for key, *about in found]
    last = objects[limit - 1].key if 0 < limit < len(objects) else ""
    return ListReply(Outcome.DONE, "", tuple(objects[:limit]), (), last)


def _stored(place: Place) -> tuple[str, bytes, str]:
    bucket, key, version = place
    return bucket, key.encode(), version


def next_key(key: bytes) -> bytes:
    """The first bytes behind this key; no key holds a NUL."""
    return key + b"\0" if key else b""


def behind(prefix: bytes) -> bytes:
    """The first bytes behind all keys with this prefix: no key holds 0xFF."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\xff"


def _cause(failure: Exception) -> Exception:
    """A full disk is one, also when SQLite noticed it."""
    if getattr(failure, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return failure
