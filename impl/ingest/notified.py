"""The hot path: batches are repaired as the store notifies of their manifests.

    Receiver("sqs", batches, bucket, prefix).take([message])      # of a queue, or of a request of the store
    Followed("log", batches, log, prefix).once()                  # the change log of an object server

Notifications come at least once, late, in any order, or never (`model/ingest_notified.py`). Each is
acknowledged after its batch has all its index objects; that of a late batch, after its hour is marked too,
because the rollups may have gone by. So no journal is needed: what was not acknowledged comes again, and to
repair a batch twice changes nothing. Any number of processes may receive.

The promise: the batch of an acknowledged notification is in every index, and is counted or will be.
It is no promise that every batch is notified. The search of the maintenance finds the others: at the
latest an interval of the search after the acceptance, a settling time of a minute, and the search itself.

A log has an order, and a cursor along it (`impl/cursor`), which passes an event once its batch is repaired. A
log that lost its beginning shows that, and so does one with a hole: then a search is wanted at once.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from fencepost.impl.cursor import Cursor, CursorError, Pace
from fencepost.impl.http.periodic import Periodic
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import AT_ONCE, Findings, IngestContext, Stop, never, portions
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import IdentityError, IngestError
from fencepost.impl.ingest.indexes import derive, incomplete, without_data
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.maintenance import Search
from fencepost.impl.ingest.rollups import hour_of, mark_hour
from fencepost.impl.notifications.messages import WRITTEN, rows_of
from fencepost.impl.store.errors import StoreError


@dataclass
class Repaired(Findings):
    seen: int = 0
    """Accepted batches that were named."""
    marked: int = 0
    """Hours that it marked for the rollups."""
    gone: list[str] = field(default_factory=list)
    """Manifests that were named and do not exist: none may ever be deleted."""
    lost: bool = False
    """True if the log has lost events that were not read."""

    def add(self, other: Findings) -> None:
        super().add(other)
        if isinstance(other, Repaired):
            self.seen += other.seen
            self.marked += other.marked
            self.gone += [key for key in other.gone if key not in self.gone]
            self.lost = self.lost or other.lost


class Collected:
    """The findings of several threads, until they are taken."""

    def __init__(self) -> None:
        self._found = Repaired()
        self._lock = threading.Lock()

    def add(self, found: Repaired) -> None:
        with self._lock:
            self._found.add(found)

    def take(self) -> Repaired:
        """Return them, and begin anew."""
        with self._lock:
            found, self._found = self._found, Repaired()
        return found


@dataclass(eq=False)
class NotifiedBatches(IngestContext):
    """Repairs the batches that notifications name."""

    def repair(self, manifest_keys: Iterable[str]) -> Repaired:
        """Write missing index objects, durably, and mark the hours of late batches."""
        result = Repaired()
        named = self.safeguards.repair_before_acknowledge(list(dict.fromkeys(manifest_keys)))
        for some in portions(named, AT_ONCE):
            manifests = self.read_manifests(some, result.damaged, result.gone)
            found = self.safeguards.reconcile(list(manifests.values()))
            lacking = incomplete(self, found)
            result.seen += len(found)
            result.repaired += derive(self, lacking)
            result.missing += without_data(self, found, deep=False)
            self._mark(self.safeguards.mark_what_exists(found, lacking), result)
        return result

    def _mark(self, found: Sequence[Manifest], result: Repaired) -> None:
        now_ns = self.env.now_ns()  # the places in time exist by now
        late = {
            hour_of(one.by_time_key)
            for one in found
            if self.safeguards.mark_late(one.accepted_at_unix_ns, now_ns, self.settings.late_ns)
        }
        for hour in sorted(late):
            mark_hour(self, hour)
        result.marked += len(late)


def manifests_in(object_keys: Iterable[str], prefix: str = "") -> Iterator[str]:
    """The keys of accepted manifests among keys of the bucket, below the store's prefix in it."""
    for key in object_keys:
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and name.startswith(keys.ACCEPTED):
            try:
                if name == keys.accepted_key(Identity.of_key(name)):
                    yield name
            except IdentityError:
                continue


class Receiver:
    """Takes the notifications of one source: see `fencepost.impl.notifications.receiving`."""

    failures: tuple[type[Exception], ...] = (IngestError, StoreError)

    def __init__(self, source: str, batches: NotifiedBatches, bucket: str, prefix: str = "") -> None:
        self.source = source
        self.findings = Collected()
        self._batches = batches
        self._bucket = bucket
        self._prefix = prefix

    def take(self, bodies: Sequence[str | bytes]) -> None:
        """Repair the batches that these notifications name. Raises `NotANotification` and `failures`."""
        rows = (row for body in bodies for row in rows_of(self._bucket, body))
        found = manifests_in((row[0] for row in rows if row[1] == WRITTEN), self._prefix)
        self.findings.add(self._batches.repair(found))


class Log(Protocol):
    """A log of the bucket's changes, as `fencepost.impl.lifecycle.log` has it."""

    def shards(self) -> Sequence[str]: ...
    def begins_ns(self, shard: str) -> int: ...
    def settled_ns(self, shard: str) -> int: ...
    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Any]: ...
    def hold(self, needed: Mapping[str, int]) -> None: ...


class Followed:
    """Follows a log from a durable cursor. Two processes at once only do the same work twice."""

    failures: tuple[type[Exception], ...] = (IngestError, StoreError, CursorError)

    def __init__(self, source: str, batches: NotifiedBatches, log: Log, prefix: str = "") -> None:
        self.source = source
        self._batches = batches
        self._log = log
        self._prefix = prefix
        settings = batches.settings
        pace = Pace(settings.checkpoint_items, settings.checkpoint_s)
        (self._shard,) = log.shards()
        self.cursor = Cursor(batches, f"{keys.CURSORS}events-{quote(source, safe='')}.json", pace=pace)

    def once(self, stop: Stop = never) -> Repaired:
        """Repair what the log names, from the cursor to its end, or until `stop`."""
        result = Repaired()
        after = self.cursor.start()
        begins_ns = self._log.begins_ns(self._shard)
        if begins_ns > time_of_event(after):
            self._want_search(result)
            after = begin_of(begins_ns)
        settled_ns = self._log.settled_ns(self._shard)
        for some in portions(self._log.events(self._shard, after, settled_ns), AT_ONCE):
            for event in some:
                self.cursor.take(event.position)
            written = (event.change.key for event in some if event.change.new is not None)
            result.add(self._batches.repair(manifests_in(written, self._prefix)))
            for event in some:
                self.cursor.done(event.position)
            if stop():
                break
        else:
            if self._log.begins_ns(self._shard) > begins_ns:  # it lost more, or a hole ended the reading
                self._want_search(result)
            else:
                self._pass(f"{max(settled_ns + 1, begins_ns):020d}")
        self.cursor.save()
        if self.cursor.saved:
            self._log.hold({self._shard: time_of_event(self.cursor.saved)})
        return result

    def _pass(self, position: str) -> None:
        """Move the cursor to the end of the log, which then need not keep events of others."""
        if position > self.cursor.position:
            self.cursor.take(position)
            self.cursor.done(position)

    def _want_search(self, result: Repaired) -> None:
        """Have a search begin, before the cursor passes what the log has lost."""
        batches = self._batches
        Search(batches.store, batches.env, batches.settings, batches.safeguards).want()
        result.lost = True


class Following:
    """Follow a log in a thread, until `close`."""

    def __init__(self, followed: Followed, log: logging.Logger, every_s: float = 1.0) -> None:
        self._followed = followed
        self._log = log
        self._failed = ""
        self.findings = Collected()
        self._thread = Periodic(f"follow {followed.source}", self._run, every_s, first_s=0.0)

    def close(self) -> None:
        self._thread.close()

    def _run(self, stop: Stop) -> None:
        try:
            found = self._followed.once(stop)
        except Followed.failures as error:
            if str(error) != self._failed:
                self._log.error("%s: %s; it is tried again", self._followed.source, error)
            self._failed = str(error)
        else:
            self._failed = ""
            self.findings.add(found)


def time_of_event(position: str) -> int:
    """The time, in nanoseconds since 1970, of a position in a log."""
    return int(position[:20] or 0)


def begin_of(time_ns: int) -> str:
    """A position before all events from this time on."""
    return f"{time_ns:020d}"
