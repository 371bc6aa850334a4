"""The local state of one node: flagged rows, which resume reaps, and records that are not uploaded yet.

`SqliteState` is a database with a write-ahead log, flushed at every commit. `MemoryState` is the same without
a disk: for tests, and for nodes whose disk does not outlive them.
"""

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.impl.private_files import make_file_private, make_private
from fencepost.impl.store.errors import Unusable


@dataclass(frozen=True, slots=True)
class Record:
    """One append that was accepted locally."""

    start: int
    body: bytes
    producer: str = ""
    epoch: int = 0
    seq: int = 0
    stream_seq: str | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.body)


class State(ABC):
    @abstractmethod
    def flag(self, name: str, incarnation: str) -> None:
        """The stream is DELETED here: it is reaped, whatever happens in between."""

    @abstractmethod
    def flagged(self) -> dict[str, str]:
        """Name to incarnation."""

    @abstractmethod
    def is_flagged(self, name: str, incarnation: str) -> bool: ...

    @abstractmethod
    def drop(self, name: str, incarnation: str) -> None:
        """Forget a flagged row and the records of that incarnation."""

    @abstractmethod
    def add(self, name: str, incarnation: str, owner: int, records: Sequence[Record]) -> None:
        """Commit records; forget those of the name that another incarnation or owner accepted."""

    @abstractmethod
    def records(self, name: str, incarnation: str) -> tuple[int, list[Record]]:
        """The epoch's owner number, and the records in order."""

    @abstractmethod
    def trim(self, name: str, incarnation: str, position: int) -> None:
        """Forget the records before this position: a manifest lists them."""

    @abstractmethod
    def waiting(self) -> list[str]:
        """The streams that have records."""

    def close(self) -> None:  # noqa: B027 - nothing to close is a valid answer
        """Give back the handle."""


class MemoryState(State):
    def __init__(self) -> None:
        self._flagged: dict[str, str] = {}
        self._records: dict[tuple[str, str], tuple[int, list[Record]]] = {}

    def flag(self, name: str, incarnation: str) -> None:
        self._flagged[name] = incarnation

    def flagged(self) -> dict[str, str]:
        return dict(self._flagged)

    def is_flagged(self, name: str, incarnation: str) -> bool:
        return self._flagged.get(name) == incarnation

    def drop(self, name: str, incarnation: str) -> None:
        if self._flagged.get(name) == incarnation:
            del self._flagged[name]
        self._records.pop((name, incarnation), None)

    def add(self, name: str, incarnation: str, owner: int, records: Sequence[Record]) -> None:
        number, before = self._records.get((name, incarnation), (owner, []))
        for other in [one for one in self._records if one[0] == name]:
            del self._records[other]
        self._records[name, incarnation] = (owner, [*(before if number == owner else ()), *records])

    def records(self, name: str, incarnation: str) -> tuple[int, list[Record]]:
        owner, records = self._records.get((name, incarnation), (0, []))
        return owner, list(records)

    def trim(self, name: str, incarnation: str, position: int) -> None:
        owner, records = self.records(name, incarnation)
        left = [record for record in records if record.end > position]
        self._records.pop((name, incarnation), None)
        if left:
            self._records[name, incarnation] = (owner, left)

    def waiting(self) -> list[str]:
        return sorted({name for name, _ in self._records})


_SCHEMA = """
create table if not exists flagged(name text primary key, incarnation text not null) without rowid;
create table if not exists records(
    name text not null, incarnation text not null, start integer not null, owner integer not null,
    body blob not null, producer text not null, epoch integer not null, seq integer not null, stream_seq text,
    primary key (name, incarnation, start)
) without rowid;
"""


class SqliteState(State):
    """In the directory `path`, for one process."""

    def __init__(self, path: str | Path) -> None:
        folder = Path(path)
        make_private(folder)
        file = folder / "streams-1.sqlite"
        for name in (file, *(one for one in folder.glob(f"{file.name}-*"))):
            make_file_private(name)  # SQLite gives new files beside it the same mode
        self._lock = threading.Lock()
        self._base = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        for pragma in ("journal_mode=wal", "synchronous=full", "busy_timeout=5000"):
            self._base.execute(f"pragma {pragma}")
        self._base.executescript(_SCHEMA)

    def flag(self, name: str, incarnation: str) -> None:
        self._do("insert or replace into flagged values(?, ?)", name, incarnation)

    def flagged(self) -> dict[str, str]:
        return dict(self._all("select name, incarnation from flagged"))

    def is_flagged(self, name: str, incarnation: str) -> bool:
        rows = self._all("select 1 from flagged where name = ? and incarnation = ?", name, incarnation)
        return bool(rows)

    def drop(self, name: str, incarnation: str) -> None:
        with self._transaction() as base:
            for table in ("flagged", "records"):
                sql = f"delete from {table} where name = ? and incarnation = ?"  # noqa: S608  our own names
                base.execute(sql, (name, incarnation))

    def add(self, name: str, incarnation: str, owner: int, records: Sequence[Record]) -> None:
        rows = [
            (name, incarnation, one.start, owner, one.body, one.producer, one.epoch, one.seq, one.stream_seq)
            for one in records
        ]
        with self._transaction() as base:
            sql = "delete from records where name = ? and (incarnation <> ? or owner <> ?)"
            base.execute(sql, (name, incarnation, owner))
            base.executemany("insert or replace into records values(?,?,?,?,?,?,?,?,?)", rows)

    def records(self, name: str, incarnation: str) -> tuple[int, list[Record]]:
        rows = self._all(
            "select owner, start, body, producer, epoch, seq, stream_seq from records "
            "where name = ? and incarnation = ? order by start",
            name,
            incarnation,
        )
        return (rows[-1][0] if rows else 0), [Record(*row[1:]) for row in rows]

    def trim(self, name: str, incarnation: str, position: int) -> None:
        sql = "delete from records where name = ? and incarnation = ? and start + length(body) <= ?"
        self._do(sql, name, incarnation, position)

    def waiting(self) -> list[str]:
        return [row[0] for row in self._all("select distinct name from records order by name")]

    def close(self) -> None:
        self._base.close()

    def _do(self, sql: str, *values: object) -> None:
        with self._transaction() as base:
            base.execute(sql, values)

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._transaction("begin") as base:
            return base.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self, begin: str = "begin immediate") -> Iterator[sqlite3.Connection]:
        """Commit the block, or nothing of it; raises `Unusable` when the disk is full or fails."""
        with self._lock:
            try:
                self._base.execute(begin)
                yield self._base
                self._base.execute("commit")
            except sqlite3.Error as error:
                text = f"the local state of this node cannot be used ({error}); check its disk"
                raise Unusable(text) from error
            finally:
                if self._base.in_transaction:
                    self._base.execute("rollback")
