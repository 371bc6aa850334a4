"""The tables of the listing index in one plain file, for audits: SQLite's calls are none of a world's.

A line of the file is a transaction. It is written with one call, so a transaction is there as a whole or not
at all, for every process at once, as SQLite promises it. After a power loss the last transactions may be
missing (`synchronous=NORMAL`): the first process that opens the tables picks how many, see
docs/decisions/0019.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

from fencepost.impl.objects.tables import Entry, Place
from fencepost.impl.store.requests import List, ListReply, Outcome

NAME = "rows"
_ALL = 1 << 20


def _as_key(place: Place) -> Place:
    """Return a place as a key of a table; a journal read from JSON has a list."""
    return cast("Place", tuple(place))


class PlainRows:
    """One moment; a transaction collects what it changes in `changes`. Before `booted` bytes the system was
    started again.
    """

    def __init__(self, body: bytes, booted: int = 0) -> None:
        self.entries: dict[Place, Entry] = {}
        self.outbox: dict[int, tuple[str, str]] = {}
        self.known: dict[str, Any] = {}
        for part in (body[:booted], body[booted:]):
            self.known.pop("boot", None)
            for line in part.splitlines():
                for name, *args in json.loads(line):
                    getattr(self, name)(*args)
        self.changes: list[Any] = []

    # Changes of a transaction; the journal has these calls.

    def put(self, place: Place, entry: Any) -> None:
        found = Entry(*entry) if isinstance(entry, list) else entry
        self.entries[_as_key(place)] = found
        self._changed("put", place, astuple(found))

    def remove(self, place: Place) -> None:
        self.entries.pop(_as_key(place), None)
        self._changed("remove", place)

    def add_event(self, ts_ns: int, node: str, text: str) -> None:
        self.outbox[ts_ns] = (node, text)
        self._changed("add_event", ts_ns, node, text)

    def remove_events(self, times: Iterable[int]) -> None:
        gone = [*times]
        for ts_ns in gone:
            self.outbox.pop(ts_ns, None)
        self._changed("remove_events", gone)

    def set_meta(self, name: str, value: Any) -> None:
        self.known[name] = value
        self._changed("set_meta", name, value)

    def _changed(self, *call: Any) -> None:
        if hasattr(self, "changes"):
            self.changes.append(call)

    # Reads of a transaction.

    def entry(self, place: Place) -> Entry | None:
        return self.entries.get(place)

    def buckets(self) -> list[str]:
        return sorted({bucket for bucket, _, _ in self.entries})

    def page(self, bucket: str, request: List) -> ListReply:
        """The whole listing: audits have a few keys and no delimiter."""
        found = self.between(bucket, request.prefix.encode(), b"\xff", request.limit)
        return ListReply(Outcome.DONE, "", tuple(entry.info(key) for key, entry in found), (), "")

    def between(self, bucket: str, start: bytes, stop: bytes, limit: int) -> list[tuple[str, Entry]]:
        found = sorted(
            (key.encode(), entry)
            for (of, key, version), entry in self.entries.items()
            if of == bucket and not version and start <= key.encode() < stop
        )
        return [(key.decode(), entry) for key, entry in found[:limit]]

    def files(self, bucket: str, keys: Iterable[str]) -> dict[str, str]:
        return {key: self.entries[bucket, key, ""].file for key in keys if (bucket, key, "") in self.entries}

    def versions(self, bucket: str, after: tuple[str, str], limit: int) -> list[tuple[str, str]]:
        found = sorted((key, version) for of, key, version in self.entries if of == bucket and version)
        return [place for place in found if place > after][:limit]

    def events(self, node: str) -> list[tuple[int, str]]:
        return [(ts_ns, text) for ts_ns, (of, text) in sorted(self.outbox.items()) if of == node]

    def nodes(self) -> list[str]:
        return sorted({node for node, _ in self.outbox.values()})

    def first_event_ns(self) -> int | None:
        return min(self.outbox, default=None)

    def meta(self, name: str) -> Any:
        return self.known.get(name)


class PlainTables:
    """`lost` picks how many of so many transactions a power loss took, where one came before."""

    def __init__(self, folder: Path, lost: Callable[[int], int] | None = None) -> None:
        self._path = folder / NAME
        self._lost = lost
        self._fd = -1
        self._booted = 0

    @contextlib.contextmanager
    def writing(self) -> Iterator[PlainRows]:
        rows = PlainRows(self._read(), self._booted)
        yield rows
        os.write(self._fd, json.dumps(rows.changes).encode() + b"\n")  # also where nothing changed

    @contextlib.contextmanager
    def reading(self) -> Iterator[PlainRows]:
        yield PlainRows(self._read(), self._booted)

    def _read(self) -> bytes:
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_SYNC, 0o600)
            if self._lost is not None:
                lines = os.pread(self._fd, _ALL, 0).splitlines(keepends=True)
                kept = lines[: len(lines) - self._lost(len(lines))]
                self._booted = len(b"".join(kept))
                os.ftruncate(self._fd, self._booted)
        return os.pread(self._fd, _ALL, 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
