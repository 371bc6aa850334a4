"""Rollups: every accepted batch is counted once, in chunks that are never changed.

The batches accepted in one hour form a chain of their own: `manifests/v1/<hour>/<number>.json`, numbers
rising by one, created only if absent. An entry names batches and the chunks in which they are counted, and
counts nothing that an earlier entry of its hour names. That create is the decision:

    1  list the hour's batches and its entries; what no entry names is fresh
    2  read the fresh batches' blobs, add them up, write the chunks (named by which batches are in them)
    3  create the entry behind the last; exists: somebody else did; begin again

So two owners do no harm, whether by mistake or because one of them was only slow: one of the two entries
stands, the other's chunks are named by nobody and count for nothing. There is one owner all the same, since
two only do the work twice. A batch that comes late is fresh, and makes a further entry and a further
chunk. Work is found along accepted-by-time from a durable cursor, and in hours that are marked in
rollup-queue/ because something came to light behind it.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.aggregates import Hours, Series, aggregate, merged, pack, unpack
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.documents import JSON, Manifest, parse, write
from fencepost.impl.ingest.errors import Damaged, FrameError, IdentityError
from fencepost.impl.ingest.frames import Limits, Point, read
from fencepost.impl.ingest.listing import Stop, bodies, everything, never, portions
from fencepost.impl.ingest.reconcile import by_time_cursor, time_of
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.retry import RetryPolicy
from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import GetReply, Outcome, Put

SCHEMA = "lightmetrics.rollup_manifest.v1"
WINDOW = "1h"
BATCHES_MAX = 500
"""In one entry: what is added up at a time."""
BYTES_AT_ONCE = 64 * 1024 * 1024
"""Of frames in memory at a time, if more than one."""
RACES_MAX = 20
"""How often another owner may be first, at one hour of one pass."""
ANY_SIZE = Limits(frame_bytes=2**40, unpacked_bytes=2**40, points=2**40)
"""What was accepted is read, whatever the limits are now."""


@dataclass
class RolledUp:
    """What one pass did."""

    hours: int = 0
    batches: int = 0
    chunks: int = 0
    missing: list[str] = field(default_factory=list)
    """Accepted batches that cannot be counted, and why; their hours stay marked."""
    races: int = 0
    """Entries that another owner was first to make."""


def roll_up(
    store: Store,
    env: Environment,
    settings: Settings = STANDARD_SETTINGS,
    *,
    safeguards: Safeguards = STANDARD,
    owner: str = "rollup",
) -> RolledUp:
    """One pass: the hours that are marked, then everything behind the cursor."""
    return Rollups(store, env, settings, safeguards=safeguards, owner=owner).once()


class _Stopped(Exception):
    """The pass ends here; never seen outside."""


class Rollups(IngestContext):
    """The one owner of a bucket's rollups."""

    def __init__(
        self,
        store: Store,
        env: Environment,
        settings: Settings = STANDARD_SETTINGS,
        *,
        safeguards: Safeguards = STANDARD,
        owner: str = "rollup",
    ) -> None:
        super().__init__(store, env, settings, safeguards)
        self.owner = owner
        self.cursor = rollup_cursor(store, env, settings, safeguards)
        self._stop: Stop = never

    def once(self, stop: Stop = never) -> RolledUp:
        """Everything there is, or until `stop`: what is entered then is counted, the next pass goes on."""
        result = RolledUp()
        self._stop = stop
        with contextlib.suppress(_Stopped):
            self._marked(result)
            self._new(result)
        self.cursor.save()
        return result

    def _marked(self, result: RolledUp) -> None:
        for mark in list(everything(self.store, self.env, self.retry, keys.QUEUE)):
            hour = mark.key.removeprefix(keys.QUEUE).removesuffix(".json") + "/"
            if self._roll_hour(hour, result):
                # Taken away only as it was listed: whoever marked the hour again meanwhile is heard.
                self.store.delete(mark.key, when=Matches(mark.etag))

    def _new(self, result: RolledUp) -> None:
        for hour, found in groupby(self._ahead(), key=hour_of):
            positions = list(found)
            now_ns = self.env.now_ns()
            tracked = [key for key in positions if time_of(key) <= now_ns]
            for key in tracked:
                self.cursor.take(key)
            if not self._roll_hour(hour, result):
                mark_hour(self.store, self.env, self.retry, hour)
            for key in tracked:
                self.cursor.done(key)
            if self._stop():
                raise _Stopped

    def _ahead(self) -> Iterator[str]:
        start = self.cursor.start()
        return (info.key for info in everything(self.store, self.env, self.retry, keys.BY_TIME, start))

    def _roll_hour(self, hour: str, result: RolledUp) -> bool:
        """Count what is fresh in an hour; whether all of it is counted now."""
        result.hours += 1
        listed = [i.key for i in everything(self.store, self.env, self.retry, f"{keys.BY_TIME}{hour}")]
        skipped: set[str] = set()
        for _ in range(RACES_MAX):
            last, counted = self._entries(hour)
            known = counted | skipped
            fresh = [key for key in listed if manifest_id_of(key) not in known]
            if self._enter_all(hour, last, fresh, skipped, result):
                return not skipped
            result.races += 1
        return False

    def _enter_all(self, hour: str, last: int, fresh: list[str], skipped: set[str], result: RolledUp) -> bool:
        """Count these batches, some at a time; False when another owner was first with an entry."""
        for some in portions(fresh, BATCHES_MAX):
            if result.batches and self._stop():  # a pass that is always stopped gets on all the same
                raise _Stopped
            entered = self._enter(hour, last + 1, some, skipped, result)
            if entered is None:
                return False
            last += entered
        return True

    def _entries(self, hour: str) -> tuple[int, set[str]]:
        """The number of the hour's last entry, and the batches that are counted."""
        last = 0
        counted: set[str] = set()
        for entry in entries(self.store, self.env, self.retry, hour):
            last = max(last, entry.number)
            counted |= entry.members
        return last, counted

    def _enter(
        self, hour: str, number: int, fresh: list[str], skipped: set[str], result: RolledUp
    ) -> int | None:
        """Make one entry of these batches, or none when none can be counted; how many were made.

        None when another owner's entry has the number.
        """
        hours: Hours = {}
        members = []
        for manifest, reply in self._blobs(self._manifests(fresh, skipped, result)):
            points = self._points(manifest, reply, skipped, result)
            if points is not None:
                aggregate(hours, points)
                members.append(manifest.id)
        if not members:
            return 0
        chunks = self._chunks(hour, hours, members)
        self.retry.ensure_all(self.store, self.env, chunks)
        body = write(
            {
                "schema": SCHEMA,
                "owner": self.owner,
                "attempt": self.env.new_id(),
                "members": sorted(members),
                "chunks": [chunk.key for chunk in chunks],
            }
        )
        put = Put(entry_key(hour, number), body, ABSENT, JSON)
        stands = self.retry.create_all(self.store, self.env, [put])[0]
        if stands.body is None:
            raise self.retry.unavailable(f"the store did not say whether {put.key} stands; ask again later")
        if not stands.created and stands.body != body:
            return None
        result.batches += len(members)
        result.chunks += len(chunks)
        return 1

    def _manifests(self, fresh: list[str], skipped: set[str], result: RolledUp) -> Iterator[Manifest]:
        for key, reply in bodies(self.store, self.env, self.retry, fresh):
            try:
                yield Manifest.read(reply.body, key)
            except (Damaged, IdentityError) as error:
                skipped.add(manifest_id_of(key))
                result.missing.append(str(error))

    def _blobs(self, found: Iterable[Manifest]) -> Iterator[tuple[Manifest, GetReply]]:
        """Each batch with the reply to reading its blob, as many at once as fit into memory."""
        some: list[Manifest] = []
        for manifest in found:
            if some and sum(one.frame_bytes for one in some) + manifest.frame_bytes > BYTES_AT_ONCE:
                yield from self._read(some)
                some = []
            some.append(manifest)
        yield from self._read(some)

    def _read(self, some: list[Manifest]) -> Iterator[tuple[Manifest, GetReply]]:
        wanted = bodies(self.store, self.env, self.retry, [one.raw_blob_key for one in some])
        yield from zip(some, (reply for _, reply in wanted), strict=True)

    def _points(
        self, manifest: Manifest, reply: GetReply, skipped: set[str], result: RolledUp
    ) -> Sequence[Point] | None:
        """The points of a batch; None when its blob is not there, or not what was accepted."""
        try:
            if reply.info is None:
                raise Damaged(f"{manifest.raw_blob_key} is not there, which {manifest.key} refers to")
            if hashlib.sha256(reply.body).hexdigest() != manifest.frame_sha256:
                raise Damaged(
                    f"{manifest.raw_blob_key} is not what {manifest.key} accepted: its hash differs"
                )
            return read(reply.body, ANY_SIZE).points
        except (Damaged, FrameError) as error:
            skipped.add(manifest.id)
            result.missing.append(str(error))
            return None

    def _chunks(self, hour: str, hours: Hours, members: list[str]) -> list[Put]:
        digest = hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()[:32]
        return [
            Put(chunk_key(metric, of, f"{_short(hour)}-{digest}"), pack(metric, of, series), ABSENT)
            for (metric, of), series in sorted(hours.items())
        ]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an hour's chain."""

    hour: str
    number: int
    members: frozenset[str]
    chunks: tuple[str, ...]


def entries(store: Store, env: Environment, retry: RetryPolicy, hour: str = "") -> Iterator[Entry]:
    """The entries of an hour of acceptance, or of all."""
    found = (info.key for info in everything(store, env, retry, f"{keys.ROLLED}{hour}"))
    for key, reply in bodies(store, env, retry, found):
        said = parse(reply.body, key)
        if said.get("schema") != SCHEMA:
            raise Damaged(f"{key} has schema {said.get('schema')!r}, expected {SCHEMA!r}")
        path, _, name = key.removeprefix(keys.ROLLED).rpartition("/")
        number = int(name.removesuffix(".json"))
        yield Entry(f"{path}/", number, frozenset(said["members"]), tuple(said["chunks"]))


def totals(
    store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS
) -> dict[tuple[str, str], Series]:
    """Everything that is rolled up, by metric and hour: what a query would add up from the chunks."""
    retry = settings.retry_policy
    named = {key for entry in entries(store, env, retry) for key in entry.chunks}
    found: dict[tuple[str, str], list[Series]] = {}
    for key, reply in bodies(store, env, retry, sorted(named)):
        folder = key.removeprefix(f"{keys.ROLLUP}window={WINDOW}/").rpartition("/")[0]
        hour, _, metric = folder.rpartition("/metric=")
        found.setdefault((unquote(metric), f"{hour}/"), []).append(unpack(reply.body, key))
    return {where: merged(all_series) for where, all_series in found.items()}


def mark_hour(store: Store, env: Environment, retry: RetryPolicy, hour: str) -> None:
    """Say that an hour holds something that is not rolled up; whoever says so goes on only when it stands."""
    put = Put(keys.queue_key(hour), write({"mark": env.new_id()}), ANYTHING, JSON)
    for attempt in range(retry.attempts):
        if store.send(put).outcome is Outcome.DONE:
            return
        retry.back_off(env, attempt)
    raise retry.unavailable(f"the store did not take {put.key}; try again when it does")


def mark_unrolled(store: Store, env: Environment, settings: Settings, safeguards: Safeguards) -> int:
    """Mark the hours with batches that the cursor has passed and no entry names; how many there are."""
    unrolled = Unrolled(store, env, settings, safeguards)
    if not unrolled.start:
        return 0  # nothing is behind the cursor
    for info in everything(store, env, unrolled.retry, keys.BY_TIME):
        unrolled.take(info.key)
    return unrolled.mark()


class Unrolled(IngestContext):
    """Hours with batches that the cursor has passed and no entry names, as they are come upon."""

    def __init__(self, store: Store, env: Environment, settings: Settings, safeguards: Safeguards) -> None:
        super().__init__(store, env, settings, safeguards)
        self.start = rollup_cursor(store, env, settings, safeguards).start()
        found = entries(store, env, self.retry) if self.start else iter(())
        self._counted = {member for entry in found for member in entry.members}
        self._hours: set[str] = set()

    def take(self, by_time_key: str) -> None:
        if by_time_key <= self.start and manifest_id_of(by_time_key) not in self._counted:
            self._hours.add(hour_of(by_time_key))

    def mark(self) -> int:
        """Have those hours rolled up again; how many there are."""
        for hour in sorted(self._hours):
            mark_hour(self.store, self.env, self.retry, hour)
        return len(self._hours)


def rollup_cursor(store: Store, env: Environment, settings: Settings, safeguards: Safeguards) -> Any:
    return by_time_cursor(store, env, settings, safeguards, "rollup")


def manifest_id_of(by_time_key: str) -> str:
    return by_time_key.rsplit("/", 1)[-1].removesuffix(".json")


def entry_key(hour: str, number: int) -> str:
    return f"{keys.ROLLED}{hour}{number:020d}.json"


def chunk_key(metric: str, hour: str, chunk: str) -> str:
    return f"{keys.ROLLUP}window={WINDOW}/{hour}metric={quote(metric, safe='')}/{chunk}.lmrollup.zst"


def hour_of(by_time_key: str) -> str:
    return by_time_key.removeprefix(keys.BY_TIME).rpartition("/")[0] + "/"


def _short(hour: str) -> str:
    return "".join(part.partition("=")[2] for part in hour.rstrip("/").split("/")).replace("-", "")
