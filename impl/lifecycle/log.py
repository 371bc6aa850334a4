"""The log that a lifecycle reads: changes in shards, each with its events in the order of their positions.

The events of a shard become visible in their order, and `settled_ns` is the time up to which none can be
missing any more. A log that lost its beginning shows where it begins; a cursor before that is a loss.

    for event in log.events(shard, after=cursor.position, until_ns=now_ns - delay_ns):
        work(event.change)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl

from fencepost.impl.lifecycle.cursors import before, position
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.objects.change_log import ChangeLog, Hole
from fencepost.impl.objects.change_log import Event as Line
from fencepost.impl.objects.index import Index
from fencepost.impl.objects.tables import UPLOAD


@dataclass(frozen=True, slots=True)
class Event:
    ts_ns: int
    offset: int
    change: Change

    @property
    def position(self) -> str:
        return position(self.ts_ns, self.offset)

    @property
    def age_from_ns(self) -> int:
        """From when its age counts: the object's own time may be later than the log's."""
        new = self.change.new
        return self.ts_ns if new is None else max(self.ts_ns, new.mtime_ns)


class Log(Protocol):
    has_uploads: bool
    """True if the log has events of multipart uploads that begin."""

    @property
    def retention_ns(self) -> int | None:
        """For how long it keeps events; None without end."""

    def shards(self) -> Sequence[str]: ...

    def begins_ns(self, shard: str) -> int:
        """The log has every event since then; 0 if it never lost one."""

    def ends(self, shard: str) -> str | None:
        """The position of the last event of a shard that gets no more; None while it may get one."""

    def settled_ns(self, shard: str) -> int:
        """Every event up to this time is visible, and no later one will precede it."""

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        """Those strictly after a position, up to a time that is settled.

        In front of a gap they end, and from then on the log begins behind it.
        """

    def hold(self, needed: Mapping[str, int]) -> None:
        """Have each shard keep the events after the time that its slowest cursor has; of a shard that is not
        named none is needed. A log that cannot keep events does nothing."""


READER = "lifecycle"
"""The name of a lifecycle among the readers of its directory's log."""


class MemoryLog:
    """For tests: the events of a shard become visible when it is flushed."""

    has_uploads = True

    def __init__(self, shards: Sequence[str] = ("0",), retention_ns: int | None = None) -> None:
        self.retention_ns = retention_ns
        self._closed: set[str] = set()
        self._events: dict[str, list[Event]] = {shard: [] for shard in shards}
        self._begins = dict.fromkeys(shards, 0)
        self._visible = dict.fromkeys(shards, 0)

    def add(self, shard: str, ts_ns: int, change: Change) -> Event:
        known = self._events[shard]
        offset = known[-1].offset + 1 if known else 0
        if known and ts_ns < known[-1].ts_ns:
            raise ValueError("the events of a shard are added in the order of their times")
        known.append(Event(ts_ns, offset, change))
        return known[-1]

    def flush(self, shard: str, until_ns: int) -> None:
        """No event up to this time is added any more."""
        self._visible[shard] = max(until_ns, self._visible[shard])

    def hold(self, needed: Mapping[str, int]) -> None: ...

    def open(self, shard: str) -> None:
        """A writer joins, or returns."""
        self._events[shard], self._begins[shard], self._visible[shard] = [], 0, 0
        self._closed.discard(shard)

    def close(self, shard: str) -> None:
        """Its writer departs: it gets no more events."""
        self._closed.add(shard)

    def writers(self) -> list[str]:
        """The shards that get events."""
        return [shard for shard in self._events if shard not in self._closed]

    def vanish(self, shard: str) -> None:
        """Nothing is left of it."""
        for known in (self._events, self._begins, self._visible):
            known.pop(shard)

    def ends(self, shard: str) -> str | None:
        if shard not in self._closed:
            return None
        known = self._events[shard]
        return known[-1].position if known else before(self._begins[shard])

    def lose_before(self, shard: str, ts_ns: int) -> None:
        self._begins[shard] = max(ts_ns, self._begins[shard])
        self._events[shard] = [event for event in self._events[shard] if event.ts_ns >= ts_ns]

    def shards(self) -> Sequence[str]:
        return list(self._events)

    def begins_ns(self, shard: str) -> int:
        return self._begins[shard]

    def settled_ns(self, shard: str) -> int:
        return self._visible[shard]

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        limit = before(min(until_ns, self._visible[shard]) + 1)
        return iter([event for event in self._events[shard] if after < event.position < limit])


class NoLog:
    """Of a store that shows none: everything is left to scans."""

    has_uploads = False
    retention_ns: int | None = 0

    def shards(self) -> Sequence[str]:
        return ()

    def begins_ns(self, shard: str) -> int:
        raise KeyError(shard)

    def ends(self, shard: str) -> str | None:
        raise KeyError(shard)

    def hold(self, needed: Mapping[str, int]) -> None: ...

    def settled_ns(self, shard: str) -> int:
        raise KeyError(shard)

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        raise KeyError(shard)


class ChangeLogReader:
    """The change log of a server of objects: one shard, whose events have unique times."""

    has_uploads = True
    SHARD = "changes"

    def __init__(self, log: ChangeLog, index: Index, retention_ns: int | None = None) -> None:
        self._log = log
        self._index = index
        self._retention_ns = retention_ns

    @property
    def retention_ns(self) -> int | None:
        return self._log.keeps_ns if self._retention_ns is None else self._retention_ns

    @retention_ns.setter
    def retention_ns(self, ns: int | None) -> None:
        self._retention_ns = ns

    def hold(self, needed: Mapping[str, int]) -> None:
        self._log.hold(READER, min(needed.values(), default=None))

    def shards(self) -> Sequence[str]:
        return [self.SHARD]

    def begins_ns(self, shard: str) -> int:
        return self._log.begins_ns()

    def ends(self, shard: str) -> str | None:
        return None

    def settled_ns(self, shard: str) -> int:
        # Unflushed changes, of this process and of processes that died, would hold it up.
        self._log.flush(self._index)
        return self._index.settled_ns()

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        # `before(ts)` is a position without an offset: the events of that time follow it.
        time, _, offset = after.partition("-")
        after_ns = int(time or 0) - (0 if offset else 1)
        try:
            for line in self._log.events(self._index, max(after_ns, 0)):
                if line.ts_ns > until_ns:
                    return
                yield Event(line.ts_ns, 0, change_of(line))
        except Hole as hole:
            # From now on the log begins behind it, for every reader.
            self._log.begin(hole.until_ns + 1)


def change_of(line: Line) -> Change:
    is_upload = line.version.startswith(UPLOAD)
    return Change(line.bucket, line.key, _seen(line.old), _seen(line.new), is_upload=is_upload)


def _seen(entry: dict[str, Any] | None) -> Seen | None:
    if entry is None:
        return None
    tags = parse_qsl(entry["extra"].get("Tags", ""), keep_blank_values=True)
    # The mark tells two writes of the same bytes in the same moment apart.
    content = f"{entry['etag']} {entry['mark']}"
    return Seen(entry["modified_ns"], entry["size"], content, tuple(sorted(tags)))
