"""Read what was accepted: sums by hour, and single points.

    context = IngestContext(store, env, settings)
    window = Window("cpu.load", start_ns, end_ns, labels={"host": "a"})
    sums_by_hour(context, window)             every accepted batch once, rolled up or not
    points_of(context, window, agent="a")     a page of points, from the frames themselves

**Who sees a batch, and when.** A batch that was answered with 200 is in every answer of `points_of` for its
agent from then on, whichever process asks: the answer is read from the identity manifests. All other answers
find batches by their place in time. The collector writes that object after its 200, the reconciler if the
collector died before. So a batch may be missing in them for a while, and is never counted twice. In
`local_spool` mode a batch that has not landed is visible to its own collector only.

**Why sums are exact.** A batch is counted in one chunk, which an entry of its hour of acceptance names. For
every hour of acceptance that can matter, one read of its entries decides: chunks that they name count, and a
batch with a place in time that they do not name is read from its frame. The hours that matter are those whose
chunks are in the window, and those that may have uncounted batches: the hours behind the rollup's cursor, and
the marked ones. They are collected before any entry is read. So a batch that is rolled up meanwhile is in one
of them and counts once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext, portions
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import Damaged, QueryError
from fencepost.impl.ingest.frames import METRIC, Point
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.rollups import (
    Aggregate,
    Labels,
    entries,
    hour_of,
    json_number,
    manifest_id_of,
    merged,
    metric_prefix,
    rollup_cursor,
    rollup_prefix,
    unpack,
)
from fencepost.impl.store.requests import Head, List

HOUR_NS = 3600 * 10**9
HOURS_MAX = 24 * 31
"""Our own limit on the hours of one query: each costs a request."""
UNCOUNTED_MAX = 10_000
"""Our own limit on the batches that one query reads because no rollup counts them."""
POINTS_MAX = 10_000
"""Points of a page."""
AT_ONCE = 16
"""Frames in memory at a time."""

Local = Mapping[Identity, Callable[[], Iterator[Point]]]
"""Batches that a collector had accepted on its disk before the query began, and how to read their points."""


@dataclass(frozen=True)
class Window:
    """The points of one metric, from `start_ns` and before `end_ns`, that have at least these labels."""

    metric: str
    start_ns: int
    end_ns: int
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not METRIC.fullmatch(self.metric):
            raise QueryError(f"{self.metric[:80]!a} is not the name of a metric")
        if not 0 <= self.start_ns < self.end_ns < 2**63:
            raise QueryError("the window is empty: its end must be after its start, and its start after 1970")

    def hours(self) -> list[str]:
        """The hours that the window touches, as `date=.../hour=.../`."""
        first, last = self.start_ns // HOUR_NS, (self.end_ns - 1) // HOUR_NS
        if last - first >= HOURS_MAX:
            raise QueryError(
                f"the window has {last - first + 1} hours; ask for at most {HOURS_MAX} at a time"
            )
        return [keys.hour_path(number * HOUR_NS) for number in range(first, last + 1)]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.labels.items())

    def has(self, point: Point) -> bool:
        return (
            point.name == self.metric
            and self.start_ns <= point.unix_ns < self.end_ns
            and self.matches(point.labels)
        )


@dataclass(frozen=True)
class HourSum:
    """The sum of one series in one whole hour."""

    hour: str
    labels: Labels
    sum: Aggregate


@dataclass
class Sums:
    rows: list[HourSum]
    uncounted: int
    """Batches that no rollup counts yet, whose frames were read instead."""
    missing: list[str]
    """Accepted batches that could not be read, with the reason: their points are not in the sums."""


def metrics_in(context: IngestContext, start_ns: int, end_ns: int) -> list[str]:
    """The metrics that are rolled up in the hours of this window."""
    found = set()
    for hour in Window("any", start_ns, end_ns).hours():
        prefix = rollup_prefix(hour)
        for page in context.pages(lambda token, prefix=prefix: List(prefix, delimiter="/", token=token)):  # type: ignore[misc] # mypy infers no type for the default
            found |= {
                unquote(one.removeprefix(prefix).partition("=")[2].rstrip("/")) for one in page.prefixes
            }
    return sorted(found)


def sums_by_hour(context: IngestContext, window: Window, *, local: Local = MappingProxyType({})) -> Sums:
    """Sum the points of every series by whole hours, in order of hour and labels.

    A batch of `local` that has landed by now counts once.
    """
    _check_local(local)
    hours = window.hours()
    acceptance = _hours_with_uncounted(context) | _hours_of_chunks(context, window.metric, hours)
    total: dict[str, list[Mapping[Labels, Aggregate]]] = {hour: [] for hour in hours}
    prefixes = {metric_prefix(window.metric, hour): hour for hour in hours}
    result = Sums([], 0, [])
    fresh: list[str] = []
    counted: set[str] = set()
    for hour in sorted(acceptance):
        found = list(entries(context, hour))  # before the listing: a batch entered meanwhile counts as fresh
        members = {member for entry in found for member in entry.members}
        counted |= members
        fresh += [
            key for key in context.list_keys(f"{keys.BY_TIME}{hour}") if manifest_id_of(key) not in members
        ]
        if len(fresh) > UNCOUNTED_MAX:
            raise QueryError(
                f"more than {UNCOUNTED_MAX} batches are not rolled up: run fencepost ingest rollup, ask again"
            )
        named = [key for entry in found for key in entry.chunks if key.rpartition("/")[0] in prefixes]
        for key, reply in context.read_objects(named):
            if reply.info is None:
                raise Damaged(f"{key} is missing, which an entry of {hour} names")
            total[prefixes[key.rpartition("/")[0]]].append(unpack(reply.body, key))
    counted |= {manifest_id_of(key) for key in fresh}
    known = {id_.rpartition("-")[2] for id_ in counted}
    for _, points in _frames(context, context.read_manifests(fresh, result.missing).values(), result.missing):
        result.uncounted += 1
        _sum(window, points, total)
    for identity, points_of_batch in local.items():
        if keys.identity_hash(identity.path) not in known:
            result.uncounted += 1
            _sum(window, points_of_batch(), total)
    for hour in hours:
        for labels, one in sorted(merged(total[hour]).items()):
            if window.matches(dict(labels)):
                result.rows.append(HourSum(hour, labels, one))
    return result


def _sum(window: Window, points: Iterable[Point], total: dict[str, list[Mapping[Labels, Aggregate]]]) -> None:
    for point in points:
        hour = keys.hour_path(point.unix_ns)
        if point.name == window.metric and hour in total and window.matches(point.labels):
            one = Aggregate()
            one.take(point.value)
            total[hour].append({tuple(sorted(point.labels.items())): one})


def _hours_with_uncounted(context: IngestContext) -> set[str]:
    """The hours of acceptance in which batches may be uncounted."""
    # The cursor before the marks: an hour that the rollup passes without counting all of it is marked first.
    found = {hour_of(key) for key in context.list_keys(keys.BY_TIME, rollup_cursor(context).start())}
    for key in context.list_keys(keys.QUEUE):
        found.add(f"{key.removeprefix(keys.QUEUE).removesuffix('.json')}/")
    return found


def _hours_of_chunks(context: IngestContext, metric: str, hours: Iterable[str]) -> set[str]:
    """The hours of acceptance of the chunks of these hours: the name of a chunk begins with it."""
    found = set()
    for hour in hours:
        for key in context.list_keys(metric_prefix(metric, hour) + "/"):
            short = key.rpartition("/")[2].partition("-")[0]
            found.add(f"date={short[:4]}-{short[4:6]}-{short[6:8]}/hour={short[8:]}/")
    return found


@dataclass
class Page:
    points: list[tuple[Identity, Point]]
    missing: list[str]
    after: str = ""
    """Where the next page begins; empty at the end."""


def points_of(
    context: IngestContext,
    window: Window,
    *,
    agent: str | None = None,
    accepted_until_ns: int | None = None,
    after: str = "",
    limit: int = POINTS_MAX,
    local: Local = MappingProxyType({}),
) -> Page:
    """One page of the points in the window: by boot and sequence of an agent, or by time of acceptance.

    Without an agent, read the batches accepted from the start of the window on, less the bound on the skew of
    clocks, until `accepted_until_ns`. With an agent, read all its batches. The last page ends with the points
    of those `local` batches that are not in the bucket, so it may be longer than `limit`.
    """
    waiting = [identity for identity in local if agent in (None, identity.agent)]
    _check_local(waiting)
    heads = context.read_all([Head(keys.accepted_key(identity)) for identity in waiting])
    page = Page([], [])
    shown, previous = _position(after)
    for some in portions(_batches(context, window, agent, accepted_until_ns, previous), AT_ONCE):
        manifests = context.read_manifests(some, page.missing)
        frames = dict(_frames(context, manifests.values(), page.missing))
        for key in some:
            if (manifest := manifests.get(key)) in frames:
                points = [point for point in frames[manifest] if window.has(point)]
                end = shown + limit - len(page.points)
                page.points += [(manifest.identity, point) for point in points[shown:end]]
                if len(points) > end:
                    page.after = f"{end}:{previous}"
                    return page
            shown, previous = 0, key
    # A batch that landed between the HEAD and the listing is in both.
    listed = {identity for identity, _ in page.points}
    for identity, head in zip(waiting, heads, strict=True):
        if head.info is None and identity not in listed:
            page.points += [(identity, point) for point in local[identity]() if window.has(point)]
    return page


def _check_local(local: Collection[Identity]) -> None:
    if len(local) > UNCOUNTED_MAX:
        raise QueryError(f"{len(local)} batches of this collector have not landed; ask again when fewer wait")


def _position(after: str) -> tuple[int, str]:
    """The number of points of the next batch that were shown, and the key of the batch before it."""
    if not after:
        return 0, ""
    shown, _, key = after.partition(":")
    number = whole_number(shown, 2**63)
    if number is None or not (key == "" or key.startswith((keys.ACCEPTED, keys.BY_TIME))):
        raise QueryError(f"{after[:80]!a} is no position: send what the page before gave as `after`")
    return number, key


def _batches(
    context: IngestContext, window: Window, agent: str | None, until_ns: int | None, after: str
) -> Iterator[str]:
    """The keys of the batches to read, which hold their manifests, behind the key `after`."""
    if agent is not None:
        yield from context.list_keys(f"{keys.ACCEPTED}{keys.agent_path(agent)}", after)
        return
    skew_ns = round(context.settings.skew_bound_s * 1e9)
    first = keys.by_time_from(window.start_ns - skew_ns)
    end = None if until_ns is None else keys.by_time_from(until_ns)
    for key in context.list_keys(keys.BY_TIME, max(after, first)):
        if end is not None and key >= end:
            return
        yield key


def _frames(
    context: IngestContext, found: Iterable[Manifest], missing: list[str]
) -> Iterator[tuple[Manifest, Iterator[Point]]]:
    """Each batch with its points; adds the reasons of unreadable ones to `missing`."""
    for some in portions(found, AT_ONCE):
        replies = context.read_objects(one.raw_blob_key for one in some)
        for manifest, (_, reply) in zip(some, replies, strict=True):
            try:
                yield manifest, manifest.frame(reply.body if reply.info is not None else None).each_point()
            except Damaged as error:
                missing.append(str(error))


def page_row(page: Page) -> dict[str, Any]:
    """A page of points as the commands and the HTTP interface return it."""
    points = [point_row(identity, point) for identity, point in page.points]
    return {"points": points, "missing": page.missing, "after": page.after}


def sums_row(sums: Sums) -> dict[str, Any]:
    """Sums as the commands and the HTTP interface return them."""
    rows = [sum_row(one) for one in sums.rows]
    return {"sums": rows, "uncounted_batches": sums.uncounted, "missing": sums.missing}


def point_row(identity: Identity, point: Point) -> dict[str, Any]:
    """A point in JSON, which has no infinities and no NaN: they are text."""
    return {
        "agent_id": identity.agent,
        "boot_id": identity.boot,
        "labels": dict(point.labels),
        "unix_ns": point.unix_ns,
        "value": json_number(point.value),
    }


def sum_row(one: HourSum) -> dict[str, Any]:
    """A sum in JSON; an hour without numbers has no min and max."""
    least, most = (one.sum.min, one.sum.max) if one.sum.count else (None, None)
    return {
        "hour": one.hour[5:15] + "T" + one.hour[21:23] + ":00:00Z",
        "labels": dict(one.labels),
        "count": one.sum.count,
        "sum": json_number(one.sum.sum),
        "min": None if least is None else json_number(least),
        "max": None if most is None else json_number(most),
        "nan": one.sum.nan,
    }
