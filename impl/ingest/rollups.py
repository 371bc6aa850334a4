"""Rollups: every accepted batch is counted once, in chunks that never change.

The batches accepted in one hour have a chain of entries of their own: `manifests/v1/<hour>/<number>.json`,
numbers rising by one, created only if absent. An entry names batches and the chunks in which they are
counted, and counts nothing that an earlier entry of its hour names. That create is the decision:

    1  list the hour's batches and its entries; a batch that no entry names is fresh
    2  read the blobs of the fresh batches, aggregate them, write the chunks (named by the batches in them)
    3  create the entry after the last; if it exists, another owner was first: start again

So two owners do no harm, whether by mistake or because one was only slow: one of the two entries is created,
and the other's chunks are named by no entry and count for nothing. There is one owner all the same, since two
do the work twice. A late batch is fresh, and makes a further entry and a further chunk. The owner finds work
along accepted-by-time from a durable cursor, and in hours that are marked in rollup-queue/ because a batch
appeared behind the cursor.

A chunk holds, of one metric and one hour, for every set of labels: count, sum, min and max. It is compressed
JSON (zstd).
Points that are not a number (NaN) are counted apart and touch nothing else.
"""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.cursor import Cursor
from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext, Stop, never, portions
from fencepost.impl.ingest.documents import JSON, Manifest, parse, write
from fencepost.impl.ingest.errors import Damaged, IdentityError, StoreUnavailable
from fencepost.impl.ingest.frames import Point
from fencepost.impl.ingest.reconcile import by_time_cursor, time_of
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import GetReply, Put

SCHEMA = "lightmetrics.rollup_manifest.v1"
CHUNK_SCHEMA = "lightmetrics.rollup_chunk.v1"
WINDOW = "1h"
BATCHES_MAX = 500
"""In one entry: what is aggregated at a time."""
BYTES_AT_ONCE = 64 * 1024 * 1024
"""Limit of the frames in memory at a time, if more than one, in bytes."""
RACES_MAX = 20
"""Largest number of times that another owner may be first, at one hour of one pass."""

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Aggregate:
    """Statistics of any number of points; the sum of two is that of all their points."""

    count: int = 0
    sum: float = 0.0
    min: float = math.inf
    max: float = -math.inf
    nan: int = 0

    def take(self, value: float) -> None:
        if math.isnan(value):
            self.nan += 1
            return
        self.count += 1
        self.sum += value
        self.min = min(self.min, value)
        self.max = max(self.max, value)

    def add(self, other: "Aggregate") -> None:
        self.count += other.count
        self.sum += other.sum
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)
        self.nan += other.nan


Series = dict[Labels, Aggregate]
Hours = dict[tuple[str, str], Series]
"""By metric and hour (`date=.../hour=.../`)."""


def aggregate(into: Hours, points: Iterable[Point]) -> None:
    for point in points:
        series = into.setdefault((point.name, keys.hour_path(point.unix_ns)), {})
        labels = tuple(sorted(point.labels.items()))
        series.setdefault(labels, Aggregate()).take(point.value)


def pack(metric: str, hour: str, series: Series) -> bytes:
    """The chunk of one metric and hour."""
    rows = [
        [list(map(list, labels)), one.count, *map(json_number, (one.sum, one.min, one.max)), one.nan]
        for labels, one in sorted(series.items())
    ]
    fields = {"schema": CHUNK_SCHEMA, "metric": metric, "hour": hour, "series": rows}
    return _compress(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


def unpack(body: bytes, key: str) -> Series:
    """The series of a chunk."""
    try:
        fields = json.loads(_decompress(body))
        return {
            tuple((name, value) for name, value in labels): Aggregate(
                count, float(total), float(least), float(most), nan
            )
            for labels, count, total, least, most, nan in fields["series"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{key} is not a rollup chunk: {error}") from None


def json_number(value: float) -> Any:
    """The number, or its text: JSON has no infinities and no NaN."""
    return value if math.isfinite(value) else repr(value)


def _compress(plain: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(plain)


def _decompress(body: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().stream_reader(body).read()
    except zstandard.ZstdError as error:
        raise ValueError(f"it is not whole zstd ({error})") from None


def merged(all_series: Iterable[Mapping[Labels, Aggregate]]) -> Series:
    total: Series = {}
    for series in all_series:
        for labels, one in series.items():
            total.setdefault(labels, Aggregate()).add(one)
    return total


@dataclass
class RolledUp:
    hours: int = 0
    batches: int = 0
    chunks: int = 0
    missing: list[str] = field(default_factory=list)
    """Accepted batches that cannot be counted, with the reason; their hours stay marked."""
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
    """One pass: the marked hours, then everything behind the cursor."""
    return Rollups(store, env, settings, safeguards, owner=owner).once()


class _Stopped(Exception):
    """Ends the pass; never leaves this module."""


@dataclass(eq=False)
class Rollups(IngestContext):
    """The one owner of a bucket's rollups."""

    owner: str = field(default="rollup", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cursor = rollup_cursor(self)
        self._stop: Stop = never

    def once(self, stop: Stop = never) -> RolledUp:
        """One pass, to its end or until `stop`; the next pass continues."""
        result = RolledUp()
        self._stop = stop
        with contextlib.suppress(_Stopped):
            for mark in list(self.list_objects(keys.QUEUE)):
                hour = mark.key.removeprefix(keys.QUEUE).removesuffix(".json") + "/"
                if self._roll_hour(hour, result):
                    # Conditional on the listed version: a mark that was made since must survive.
                    self.store.delete(mark.key, when=Matches(mark.etag))
            self._new(result)
        self.cursor.save()
        return result

    def _new(self, result: RolledUp) -> None:
        began_ns = self.env.now_ns()  # later batches do not move the cursor, see `reconcile`
        for hour, found in groupby(self.list_keys(keys.BY_TIME, self.cursor.start()), key=hour_of):
            tracked = [key for key in found if time_of(key) <= began_ns]
            for key in tracked:
                self.cursor.take(key)
            if not self._roll_hour(hour, result):
                mark_hour(self, hour)
            for key in tracked:
                self.cursor.done(key)
            if self._stop():
                raise _Stopped

    def _roll_hour(self, hour: str, result: RolledUp) -> bool:
        """Count the fresh batches of an hour; returns whether all of its batches are counted now."""
        result.hours += 1
        listed = list(self.list_keys(f"{keys.BY_TIME}{hour}"))
        skipped: set[str] = set()
        for _ in range(RACES_MAX):
            found = list(entries(self, hour))
            last = max((entry.number for entry in found), default=0)
            known = skipped.union(*(entry.members for entry in found))
            fresh = [key for key in listed if manifest_id_of(key) not in known]
            if self._enter_all(hour, last, fresh, skipped, result):
                return not skipped
            result.races += 1
        return False

    def _enter_all(self, hour: str, last: int, fresh: list[str], skipped: set[str], result: RolledUp) -> bool:
        """Count these batches in portions; False when another owner created an entry first."""
        for some in portions(fresh, BATCHES_MAX):
            if result.batches and self._stop():  # so that passes that are always stopped still make progress
                raise _Stopped
            entered = self._enter(hour, last + 1, some, skipped, result)
            if entered is None:
                return False
            last += entered
        return True

    def _enter(
        self, hour: str, number: int, fresh: list[str], skipped: set[str], result: RolledUp
    ) -> int | None:
        """Create one entry of these batches, or none when none can be counted; returns how many it created.

        Returns None when another owner's entry has the number.
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
        self.ensure_all(chunks)
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
        written = self.create_all([put])[0]
        if written.body is None:
            raise StoreUnavailable(f"it is unknown whether {put.key} was created; try again later")
        if not written.created and written.body != body:
            return None
        result.batches += len(members)
        result.chunks += len(chunks)
        return 1

    def _manifests(self, fresh: list[str], skipped: set[str], result: RolledUp) -> Iterator[Manifest]:
        for key, reply in self.read_objects(fresh):
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
        wanted = self.read_objects([one.raw_blob_key for one in some])
        yield from zip(some, (reply for _, reply in wanted), strict=True)

    def _points(
        self, manifest: Manifest, reply: GetReply, skipped: set[str], result: RolledUp
    ) -> Iterable[Point] | None:
        """The points of a batch; None when its blob is missing or has another hash."""
        try:
            return manifest.frame(reply.body if reply.info is not None else None).each_point()
        except Damaged as error:
            skipped.add(manifest.id)
            result.missing.append(str(error))
            return None

    def _chunks(self, hour: str, hours: Hours, members: list[str]) -> list[Put]:
        digest = hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()[:32]
        short = "".join(part.partition("=")[2] for part in hour.rstrip("/").split("/")).replace("-", "")
        return [
            Put(chunk_key(metric, of, f"{short}-{digest}"), pack(metric, of, series), ABSENT)
            for (metric, of), series in sorted(hours.items())
        ]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an hour's chain."""

    hour: str
    number: int
    members: frozenset[str]
    chunks: tuple[str, ...]


def entries(context: IngestContext, hour: str = "") -> Iterator[Entry]:
    """The entries of an hour of acceptance, or of all hours."""
    for key, reply in context.read_objects(context.list_keys(f"{keys.ROLLED}{hour}")):
        fields = parse(reply.body, key, SCHEMA)
        path, _, name = key.removeprefix(keys.ROLLED).rpartition("/")
        number = int(name.removesuffix(".json"))
        yield Entry(f"{path}/", number, frozenset(fields["members"]), tuple(fields["chunks"]))


def totals(
    store: Store, env: Environment, settings: Settings = STANDARD_SETTINGS
) -> dict[tuple[str, str], Series]:
    """All rollups, by metric and hour: what a query would compute from the chunks."""
    context = IngestContext(store, env, settings)
    named = {key for entry in entries(context) for key in entry.chunks}
    found: dict[tuple[str, str], list[Series]] = {}
    for key, reply in context.read_objects(sorted(named)):
        found.setdefault(place_of_chunk(key), []).append(unpack(reply.body, key))
    return {where: merged(all_series) for where, all_series in found.items()}


def mark_hour(context: IngestContext, hour: str) -> None:
    """Queue an hour that has a batch that is not rolled up. Returns once the mark exists."""
    body = write({"mark": context.env.new_id()})
    context.send_until_done(Put(keys.queue_key(hour), body, ANYTHING, JSON))


def mark_unrolled(context: IngestContext) -> int:
    """Mark the hours with batches that the cursor has passed and no entry names; returns how many."""
    unrolled = Unrolled(context)
    if not unrolled.start:
        return 0  # nothing is behind the cursor
    for key in context.list_keys(keys.BY_TIME):
        unrolled.take(key)
    return unrolled.mark()


class Unrolled:
    """Collects the hours with batches that the cursor has passed and no entry names."""

    def __init__(self, context: IngestContext) -> None:
        self._context = context
        self.start = rollup_cursor(context).start()
        found = entries(context) if self.start else iter(())
        self._counted = {member for entry in found for member in entry.members}
        self._hours: set[str] = set()

    def take(self, by_time_key: str) -> None:
        if by_time_key <= self.start and manifest_id_of(by_time_key) not in self._counted:
            self._hours.add(hour_of(by_time_key))

    def mark(self) -> int:
        """Queue those hours; returns how many."""
        for hour in sorted(self._hours):
            mark_hour(self._context, hour)
        return len(self._hours)


def rollup_cursor(context: IngestContext) -> Cursor:
    return by_time_cursor(context, "rollup")


def manifest_id_of(by_time_key: str) -> str:
    return by_time_key.rsplit("/", 1)[-1].removesuffix(".json")


def entry_key(hour: str, number: int) -> str:
    return f"{keys.ROLLED}{hour}{number:020d}.json"


def rollup_prefix(hour: str) -> str:
    """The prefix of all chunks of an hour, with a slash at its end."""
    return f"{keys.ROLLUP}window={WINDOW}/{hour}"


def metric_prefix(metric: str, hour: str) -> str:
    """The folder of the chunks of one metric and hour, without a slash at its end."""
    return f"{rollup_prefix(hour)}metric={quote(metric, safe='')}"


def chunk_key(metric: str, hour: str, chunk: str) -> str:
    return f"{metric_prefix(metric, hour)}/{chunk}.lmrollup.zst"


def place_of_chunk(key: str) -> tuple[str, str]:
    """The metric and the hour of a chunk."""
    folder = key.removeprefix(rollup_prefix("")).rpartition("/")[0]
    hour, _, metric = folder.rpartition("/metric=")
    return unquote(metric), f"{hour}/"


def hour_of(by_time_key: str) -> str:
    return by_time_key.removeprefix(keys.BY_TIME).rpartition("/")[0] + "/"
