"""What was accepted can be read: every batch once, however far rollups, indexes and landings are."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.ingest import (
    Accepted,
    Identity,
    Manifest,
    Point,
    encode,
    full_audit,
    keys,
    query,
    roll_up,
)
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import QueryError
from fencepost.impl.ingest.query import HOUR_NS, Window, points_of, sums_by_hour
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.memory import MemoryStore
from tests.depth import examples

from .given import SETTINGS, bucket, collector

EXACT = replace(SETTINGS, overlap_s=0.0)

Batches = list[tuple[Manifest, list[Point]]]


def send(
    store: MemoryStore, number: int, points: list[Point], agent: str = "a", *, indexed: bool = True
) -> Manifest:
    identity = Identity(agent, "boot", number, number)
    ann = collector(store)
    answer = ann.accept(identity, encode(identity, points))
    assert isinstance(answer, Accepted)
    if indexed:
        ann.follow_up(answer.manifest)
    return answer.manifest


def context_of(store: MemoryStore) -> IngestContext:
    return IngestContext(store, store.env, SETTINGS)


def expected(batches: Batches, window: Window) -> dict[tuple[str, Any], tuple[int, float]]:
    """Count and sum by hour and labels, from the points themselves."""
    found: dict[tuple[str, Any], tuple[int, float]] = {}
    hours = window.hours()
    for _, points in batches:
        for point in points:
            hour = keys.hour_path(point.unix_ns)
            labels = tuple(sorted(point.labels.items()))
            if (
                point.name == window.metric
                and hour in hours
                and window.labels.items() <= dict(labels).items()
            ):
                count, total = found.get((hour, labels), (0, 0.0))
                found[hour, labels] = (count + 1, total + point.value)
    return found


def shown(store: Any, window: Window, **options: Any) -> dict[tuple[str, Any], tuple[int, float]]:
    found = sums_by_hour(context_of(store), window, **options)
    assert found.missing == []
    return {(row.hour, row.labels): (row.sum.count, row.sum.sum) for row in found.rows}


def everything(now: int, metric: str = "cpu", **labels: str) -> Window:
    return Window(metric, now - 30 * HOUR_NS, now + 30 * HOUR_NS, labels)


@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["send", "send", "later", "roll", "late", "again"]), max_size=14),
)
@settings(max_examples=examples(25))
def test_sums_are_those_of_the_points(seed: int, steps: list[str]) -> None:
    """Whatever part is rolled up, by several entries and hours, and with late and repeated batches."""
    draw = random.Random(seed)
    store = bucket()
    batches: Batches = []
    for number, step in enumerate(steps):
        now = store.env.now_ns()
        if step in ("send", "late"):
            moments = [now - draw.randrange(5) * HOUR_NS - draw.randrange(HOUR_NS) for _ in range(3)]
            points = [
                Point(draw.choice(["cpu", "disk"]), {"host": draw.choice("ab")}, at, float(draw.randrange(9)))
                for at in moments
            ]
            batches.append((send(store, number, points, indexed=step == "send"), points))
        elif step == "later":
            store.env.sleep(draw.choice([60, 4000]))
        elif step == "roll":
            roll_up(store, store.env, SETTINGS)
        elif batches:
            manifest, points = draw.choice(batches)
            send(store, manifest.seq_start, points)
    for manifest, _ in batches:
        collector(store).follow_up(manifest)
    now = store.env.now_ns()
    windows = [everything(now), everything(now, host="a"), Window("cpu", now - 2 * HOUR_NS, now - HOUR_NS)]
    # A place that a collector wrote late lies behind the rollups' cursor: an audit marks its hour.
    full_audit(store, store.env, SETTINGS)
    for window in windows:
        assert shown(store, window) == expected(batches, window)


class Meanwhile:
    """Hands requests on, and acts once before the request number `at`."""

    def __init__(self, store: MemoryStore, at: int, act: Callable[[], object]) -> None:
        self.store, self.at, self.act, self.count = store, at, act, 0

    def send(self, request: Any) -> Any:
        self._step()
        return self.store.send(request)

    def send_all(self, requests: Any) -> Any:
        self._step()
        return self.store.send_all(requests)

    def _step(self) -> None:
        if self.count == self.at:
            self.act()
        self.count += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def prepared(state: str) -> tuple[MemoryStore, Batches]:
    """Batches of four hours of acceptance, some rolled up. No reader starts behind its cursor."""
    store = bucket()
    batches: Batches = []

    def more(number: int, *, indexed: bool = True) -> None:
        points = [Point("cpu", {}, store.env.now_ns() - HOUR_NS * (number % 2), 2.0**number)]
        batches.append((send(store, number, points, indexed=indexed), points))
        store.env.sleep(2 * 3600)

    more(0)
    more(1)
    if state != "nothing":
        roll_up(store, store.env, EXACT)
    more(2, indexed=state != "marked")
    more(3)
    if state == "marked":
        roll_up(store, store.env, EXACT)
        full_audit(store, store.env, EXACT)
        assert list(store.list(keys.QUEUE).objects), "the late batch's hour is marked"
    return store, batches


@pytest.mark.parametrize("state", ["nothing", "first", "marked"])
def test_a_batch_that_is_rolled_up_during_the_query_counts_once(state: str) -> None:
    """Before every single request of the query, by a rollup of all batches."""
    for at in range(1000):
        store, batches = prepared(state)
        window = everything(store.env.now_ns())
        meanwhile = Meanwhile(store, at, lambda: roll_up(store, store.env, EXACT))  # noqa: B023 - called in this round
        found = sums_by_hour(IngestContext(meanwhile, store.env, EXACT), window)  # type: ignore[arg-type] # a stand-in
        sums = {(row.hour, row.labels): (row.sum.count, row.sum.sum) for row in found.rows}
        assert sums == expected(batches, window), f"a rollup before request {at}"
        if meanwhile.count <= at:
            break
    assert at > 5


def test_a_batch_that_a_rollup_skips_during_the_query_is_named() -> None:
    """The rollup passes it and marks its hour: the query must find it by the place or by the mark."""
    for at in range(1000):
        store, batches = prepared("nothing")
        store.delete(batches[0][0].raw_blob_key, when=ANYTHING)
        window = everything(store.env.now_ns())
        meanwhile = Meanwhile(store, at, lambda: roll_up(store, store.env, EXACT))  # noqa: B023 - as above
        found = sums_by_hour(IngestContext(meanwhile, store.env, EXACT), window)  # type: ignore[arg-type] # a stand-in
        assert len(found.missing) == 1, f"a rollup before request {at}"
        if meanwhile.count <= at:
            break
    assert at > 5


def test_chunks_of_an_owner_that_lost_do_not_count() -> None:
    """Two owners write chunks of one batch; the entry of one is created."""
    store = bucket()
    now = store.env.now_ns()
    batches = [
        (send(store, number, points), points) for number, points in enumerate([[Point("cpu", {}, now, 1.0)]])
    ]
    roll_up(store, store.env, SETTINGS)
    (chunk,) = [info.key for info in store.list(keys.ROLLUP).objects]
    store.put(
        chunk.replace(chunk.rpartition("-")[2], "0" * 32 + ".lmrollup.zst"),
        store.get(chunk).body,
        when=ANYTHING,
    )
    assert shown(store, everything(now)) == expected(batches, everything(now))


def test_a_batch_without_its_place_in_time_is_among_the_points_of_its_agent() -> None:
    """Its collector died after the answer. The search of the maintenance writes the place in time later."""
    store = bucket()
    now = store.env.now_ns()
    points = [Point("cpu", {}, now, 1.0)]
    send(store, 1, points, indexed=False)
    context = context_of(store)
    assert [point for _, point in points_of(context, everything(now), agent="a").points] == points
    assert points_of(context, everything(now)).points == []
    assert sums_by_hour(context, everything(now)).rows == []


def test_points_are_of_the_window_the_metric_and_the_labels() -> None:
    store = bucket()
    now = store.env.now_ns()
    inside = Point("cpu", {"host": "a", "core": "1"}, now, math.inf)
    others = [
        Point("disk", {"host": "a"}, now, 1.0),
        Point("cpu", {"host": "b"}, now, 1.0),
        Point("cpu", {}, now, 1.0),
        Point("cpu", {"host": "a"}, now + 10, 1.0),
        Point("cpu", {"host": "a"}, now - 1, 1.0),
    ]
    send(store, 1, [inside, *others])
    window = Window("cpu", now, now + 10, {"host": "a"})
    for agent in (None, "a"):
        assert [point for _, point in points_of(context_of(store), window, agent=agent).points] == [inside]
    assert points_of(context_of(store), window, agent="b").points == []


def test_pages_contain_every_point_once() -> None:
    """With an agent and without, whatever the size of a page."""
    store = bucket()
    now = store.env.now_ns()
    for number in range(40):
        send(store, number, [Point("cpu", {}, now, float(number)), Point("cpu", {}, now, number + 0.5)])
        store.env.sleep(200)
    for agent in (None, "a"):
        values, after, pages = [], "", 0
        while True:
            page = points_of(context_of(store), everything(now), agent=agent, after=after, limit=5)
            values += [point.value for _, point in page.points]
            pages, after = pages + 1, page.after
            if not after:
                break
        assert sorted(values) == sorted([*map(float, range(40)), *(n + 0.5 for n in range(40))])
        assert pages > 2


def test_an_unreadable_batch_is_named_and_the_others_are_shown() -> None:
    store = bucket()
    now = store.env.now_ns()
    good = [Point("cpu", {}, now, 1.0)]
    send(store, 1, good)
    gone, changed = (send(store, number, [Point("cpu", {}, now, float(number))]) for number in (2, 3))
    store.delete(gone.raw_blob_key, when=ANYTHING)
    store.put(changed.raw_blob_key, b"other", when=ANYTHING)
    sums = sums_by_hour(context_of(store), everything(now))
    assert [(row.sum.count, row.sum.sum) for row in sums.rows] == [(1, 1.0)]
    assert len(sums.missing) == 2
    assert any("is missing, which" in text for text in sums.missing)
    assert any("has another hash than" in text for text in sums.missing)
    page = points_of(context_of(store), everything(now))
    assert [point for _, point in page.points] == good
    assert page.missing == sums.missing


def test_batches_on_the_disk_of_a_collector_count_until_they_land() -> None:
    store, disk = bucket(), bucket()
    now = store.env.now_ns()
    batches: Batches = []
    local = {}
    for number in range(3):
        points = [Point("cpu", {}, now, 2.0**number)]
        manifest = send(disk, number, points)
        batches.append((manifest, points))
        local[manifest.identity] = partial(iter, points)
    send(store, 0, batches[0][1])
    roll_up(store, store.env, SETTINGS)
    send(store, 1, batches[1][1])
    assert shown(store, everything(now), local=local) == expected(batches, everything(now))
    for agent in (None, "a"):
        page = points_of(context_of(store), everything(now), agent=agent, local=local)
        assert sorted(point.value for _, point in page.points) == [1.0, 2.0, 4.0]


def test_the_metrics_of_a_window_are_listed() -> None:
    store = bucket()
    now = store.env.now_ns()
    send(store, 1, [Point("cpu/load:1m", {}, now, 1.0), Point("disk", {}, now - 5 * HOUR_NS, 1.0)])
    roll_up(store, store.env, SETTINGS)
    assert query.metrics_in(context_of(store), now - HOUR_NS, now + 1) == ["cpu/load:1m"]
    assert query.metrics_in(context_of(store), now - 6 * HOUR_NS, now + 1) == ["cpu/load:1m", "disk"]


def test_questions_without_an_answer_are_refused() -> None:
    store = bucket()
    now = store.env.now_ns()
    for window, message in (
        (lambda: Window("no name", 0, 1), "not the name of a metric"),
        (lambda: Window("cpu", 5, 5), "the window is empty"),
        (lambda: sums_by_hour(context_of(store), Window("cpu", 0, now)), "ask for at most 744 at a time"),
    ):
        with pytest.raises(QueryError, match=message):
            window()


def test_too_many_uncounted_batches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading every frame of a bucket without rollups would take hours."""
    monkeypatch.setattr(query, "UNCOUNTED_MAX", 2)
    store = bucket()
    now = store.env.now_ns()
    for number in range(3):
        send(store, number, [Point("cpu", {}, now, 1.0)])
    with pytest.raises(QueryError, match="run fencepost ingest rollup"):
        sums_by_hour(context_of(store), everything(now))
