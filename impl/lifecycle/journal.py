"""Logs made of notifications: what arrives of each source is appended to a journal, in the order of arrival.

    lifecycle/v1/events/SOURCE/begins.json          since when the journal has all that arrived
    lifecycle/v1/events/SOURCE/000000000042.json    an entry: its time, and the notifications in it

Notifications come at least once, late and in any order (`model/lifecycle_notified.py`). So a position is a
place in the journal: entries are created one after the other, each under the next number, which the store
does once only, with times that rise. Any number of receivers may append. A notification is acknowledged after
it is in an entry. What is done never depends on it, only on the object as it is then.

Each source is a shard: it joins with its first entry, is closed by an operator (`close`), and vanishes when
everything in it is resolved.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.context import Context
from fencepost.impl.lifecycle.cursors import before
from fencepost.impl.lifecycle.documents import FOLDER, Documents, damaged, named
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.log import Event
from fencepost.impl.lifecycle.policy import SECOND_NS
from fencepost.impl.notifications.messages import REMOVED, TAGGED, Closed, Row
from fencepost.impl.store.requests import List

EVENTS = f"{FOLDER}events/"
ROWS_MAX = 1_000
"""Notifications in an entry."""
_BEGINS = "begins"


class Journals:
    """The journals of all sources of one bucket: a log whose shards they are."""

    has_uploads = False
    retention_ns: int | None = None

    def __init__(self, context: Context, bucket: str) -> None:
        self._context = context
        self._documents = Documents(context)
        self._bucket = bucket
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, int]] = {}
        """By source, the number and the time of the last entry that was seen."""
        self._listed: tuple[int, list[str]] | None = None
        self._passed: set[str] = set()
        """Closed sources that every cursor had passed when events were last removed."""
        self._times: dict[tuple[str, int], int] = {}
        """The times of entries, which do not change."""

    # Writing.

    def join(self, source: str) -> None:
        """Begin the journal of a source, unless it has begun. Raises `Closed`."""
        self._documents.create(_key(source, _BEGINS), {"ts_ns": self._context.env.now_ns()})
        if self.ends(source) is not None:
            raise Closed(f"the source {source} was closed; give the new one another name")

    def append(self, source: str, rows: Sequence[Row]) -> None:
        """Append notifications; they are durable when it returns. Raises `Closed`."""
        for start in range(0, len(rows), ROWS_MAX):
            self._append(source, {"rows": list(rows[start : start + ROWS_MAX])})

    def close(self, source: str) -> None:
        """Have it get nothing more, durably."""
        if self.ends(source) is None:
            self._append(source, {"rows": [], "closed": True})

    def _append(self, source: str, fields: dict[str, Any]) -> None:
        while True:
            number, ts_ns = self._last(source)
            if self._is_closed(source, number):
                raise Closed(f"the source {source} was closed")
            now_ns = max(self._context.env.now_ns(), ts_ns + 1)
            if self._documents.create(_key(source, number + 1), {**fields, "ts_ns": now_ns}):
                return  # otherwise another receiver has made the entry of this number

    # Reading.

    def shards(self) -> Sequence[str]:
        """The sources that have a journal. Listed at most once a second."""
        now_ns = self._context.env.monotonic_ns()
        if self._listed is None or now_ns - self._listed[0] >= SECOND_NS:
            pages = self._context.pages(lambda token: List(EVENTS, delimiter="/", token=token))
            found = [prefix.removeprefix(EVENTS).rstrip("/") for page in pages for prefix in page.prefixes]
            self._listed = now_ns, sorted(unquote(name) for name in found)
        return self._listed[1]

    def begins_ns(self, shard: str) -> int:
        fields = self._documents.read(_key(shard, _BEGINS))
        # Without it everything may be missing.
        return self._context.env.now_ns() if fields is None else int(fields["ts_ns"])

    def ends(self, shard: str) -> str | None:
        number, ts_ns = self._last(shard)
        return before(ts_ns + 1) if self._is_closed(shard, number) else None

    def settled_ns(self, shard: str) -> int:
        """Every later entry has a later time than the last one that is there."""
        number, ts_ns = self._last(shard)
        if self._is_closed(shard, number):
            return max(ts_ns + 1, self._context.env.now_ns())
        return ts_ns

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        last, _ = self._last(shard)
        limit = before(until_ns + 1)
        for number in range(self._first_behind(shard, after, last), last + 1):
            fields = self._entry(shard, number)
            if fields is None:  # it was removed by now: the beginning of the log shows that
                continue
            for place, row in enumerate(fields["rows"]):
                event = Event(int(fields["ts_ns"]), place, self._change(row))
                if event.position >= limit:
                    return
                if event.position > after:
                    yield event

    def hold(self, needed: Mapping[str, int]) -> None:
        """Remove what every cursor has passed, but the last entry, whose number goes on.

        While no action follows a source its entries stay: the journal has to grow as old as an action needs.
        """
        for shard in self.shards():
            last, last_ns = self._last(shard)
            passed_ns = needed.get(shard, last_ns + 1 if self._is_closed(shard, last) else 0)
            number = first = self._first(shard)
            while number < min(last, first + ROWS_MAX) and self._time(shard, number) < passed_ns:
                number += 1
            if number > first:  # first: a log that is removed in part is not whole
                self._begin(shard, self._time(shard, number - 1) + 1)
            for gone in range(first, number):
                self._documents.remove(_key(shard, gone))
                self._times.pop((shard, gone), None)
            if self._is_closed(shard, last) and passed_ns > last_ns and number == last:
                self._vanish(shard, last)

    def _begin(self, shard: str, ts_ns: int) -> None:
        self._documents.change(_key(shard, _BEGINS), lambda _: {"ts_ns": ts_ns})

    def _vanish(self, shard: str, last: int) -> None:
        """Remove the rest of a closed source in the second round that finds it passed: each cursor gets a
        record, in between, that it was read to its end."""
        if shard in self._passed:
            for key in (_key(shard, last), _key(shard, _BEGINS)):
                self._documents.remove(key)
            self._known.pop(shard, None)
            self._listed = None
        self._passed ^= {shard}

    # Parts.

    def _change(self, row: Row) -> Change:
        key, kind, size, etag, tags = row
        seen = Seen(0, int(size), str(etag))
        if kind == REMOVED:
            return Change(self._bucket, key, seen, None)
        if kind == TAGGED:
            known = tuple(sorted((name, value) for name, value in tags or ()))
            return Change(self._bucket, key, seen, Seen(0, seen.size, seen.content, known))
        return Change(self._bucket, key, None, seen)

    def _first(self, shard: str) -> int:
        """The number of the first entry; 1 where there is none."""
        first = next(iter(self._documents.keys(_folder(shard))), "")
        name = first.rpartition("/")[2].removesuffix(".json")
        return int(name) if name.isdecimal() else 1

    def _last(self, shard: str) -> tuple[int, int]:
        """The number and the time of the last entry; 0 where there is none."""
        with self._lock:
            number, ts_ns = self._known.get(shard) or self._searched(shard)
            while (fields := self._entry(shard, number + 1)) is not None:
                number, ts_ns = number + 1, int(fields["ts_ns"])
            self._known[shard] = number, ts_ns
            return number, ts_ns

    def _searched(self, shard: str) -> tuple[int, int]:
        """An entry near the end: the numbers have no gap, so steps that double find it."""
        number = self._first(shard) - 1
        if self._entry(shard, number + 1) is None:
            return number, 0
        number, step = number + 1, 1
        while step:
            if self._entry(shard, number + step) is not None:
                number, step = number + step, step * 2
            else:
                step //= 2
        return number, self._time(shard, number)

    def _entry(self, shard: str, number: int) -> dict[str, Any] | None:
        key = _key(shard, number)
        fields = self._documents.read(key)
        if fields is not None:
            if not isinstance(fields.get("ts_ns"), int) or not isinstance(fields.get("rows"), list):
                raise damaged(key, "it is no entry of a journal")
            self._times[shard, number] = fields["ts_ns"]
        return fields

    def _time(self, shard: str, number: int) -> int:
        if (shard, number) not in self._times:
            self._entry(shard, number)
        return self._times.get((shard, number), 0)

    def _is_closed(self, shard: str, number: int) -> bool:
        fields = self._entry(shard, number) if number else None
        return fields is not None and bool(fields.get("closed"))

    def _first_behind(self, shard: str, after: str, last: int) -> int:
        """The first entry that may have an event behind a position: times rise with the numbers."""
        low, high = self._first(shard), last + 1
        after_ns = int(after[:20] or 0)
        while low < high:
            middle = (low + high) // 2
            if self._time(shard, middle) < after_ns:
                low = middle + 1
            else:
                high = middle
        return low


def _folder(shard: str) -> str:
    return f"{EVENTS}{quote(shard, safe='')}/"


def _key(shard: str, entry: int | str) -> str:
    return named("events", shard, entry if isinstance(entry, str) else f"{entry:012d}")
