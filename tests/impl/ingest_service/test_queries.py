"""Readers over HTTP: who may ask, what a page holds, and what a collector shows that has not landed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.impl.ingest import Identity, Point, Settings, encode, roll_up
from fencepost.impl.ingest.settings import Mode
from fencepost.impl.store.layers.faulty import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

from .serving import ENV, Served, serving

NOW = 1_760_000_000_000_000_000
WINDOW = {"start_unix_ns": NOW - 10, "end_unix_ns": NOW + 10}
CPU = {"metric": "cpu.load", **WINDOW}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as served:
        yield served


def ask(served: Served, path: str, token: str = "dashboard", **fields: Any) -> httpx.Response:
    return served.client.get(f"{served.url}/v1/query/{path}", params=fields, headers=served.auth(token))


def send(served: Served, number: int, *points: Point) -> None:
    identity = Identity("agent-a", "boot-1", number, number)
    assert served.post(identity, encode(identity, points)).status_code == 200
    served.collector.wait_idle()


def point(value: float, **labels: str) -> Point:
    return Point("cpu.load", labels, NOW, value)


def test_sums_points_and_metrics(served: Served) -> None:
    send(served, 1, point(1.0, host="a"), point(2.0, host="b"))
    roll_up(served.store, ENV)
    send(served, 2, point(4.0, host="a"), point(float("nan"), host="a"), point(float("inf"), host="b"))
    assert ask(served, "metrics", **WINDOW).json() == {"metrics": ["cpu.load"]}
    found = ask(served, "sums", **CPU).json()
    assert (found["uncounted_batches"], found["missing"]) == (1, [])
    hour = "2025-10-09T08:00:00Z"
    a = {"hour": hour, "labels": {"host": "a"}, "count": 2, "sum": 5.0, "min": 1.0, "max": 4.0, "nan": 1}
    b = {"hour": hour, "labels": {"host": "b"}, "count": 2, "sum": "inf", "min": 2.0, "max": "inf", "nan": 0}
    assert found["sums"] == [a, b]
    assert ask(served, "sums", **CPU, **{"label.host": "a"}).json()["sums"] == [a]
    values = [1.0, 2.0, 4.0, "nan", "inf"]
    for more in ({}, {"agent_id": "agent-a"}):
        assert [one["value"] for one in ask(served, "points", **CPU, **more).json()["points"]] == values
    assert ask(served, "points", **CPU, agent_id="agent-b").json()["points"] == []


def test_labels_of_any_spelling_select(served: Served) -> None:
    """Names and values of labels are any text: they arrive encoded."""
    send(served, 1, point(1.0, **{"größe & co": "x=1&y"}), point(2.0))
    (row,) = ask(served, "sums", **CPU, **{"label.größe & co": "x=1&y"}).json()["sums"]
    assert row["sum"] == 1.0


def test_pages_go_on_where_the_last_one_ended(served: Served) -> None:
    """Within a batch, too: a batch may hold a million points."""
    for number in range(3):
        send(served, number, *(point(10.0 * number + one) for one in range(5)))
    found: list[float] = []
    after = ""
    for _ in range(20):
        page = ask(served, "points", **CPU, limit=4, after=after).json()
        assert len(page["points"]) <= 4
        found += [one["value"] for one in page["points"]]
        after = page["after"]
        if not after:
            break
    assert found == [10.0 * number + one for number in range(3) for one in range(5)]


@pytest.mark.parametrize("path", ["metrics", "sums", "points"])
def test_readers_and_operators_may_ask_and_agents_may_not(served: Served, path: str) -> None:
    """An agent's token must not show the data of other agents."""
    fields = WINDOW if path == "metrics" else CPU
    assert ask(served, path, "dashboard", **fields).status_code == 200
    assert ask(served, path, "ops", **fields).status_code == 200
    assert ask(served, path, "agent-a", **fields).json()["error"] == "not_reader"
    assert ask(served, path, "nobody", **fields).status_code == 401


def test_a_reader_may_only_ask(served: Served) -> None:
    identity = Identity("dashboard", "boot-1", 1, 1)
    assert served.post(identity, encode(identity, [point(1.0)]), token="dashboard").status_code == 403
    answer = served.client.get(f"{served.url}/v1/conflicts", headers=served.auth("dashboard"))
    assert answer.json()["error"] == "not_operator"


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("sums", {"metric": "no name", **WINDOW}, "not the name of a metric"),
        ("sums", {"metric": "m", "start_unix_ns": 5, "end_unix_ns": 5}, "the window is empty"),
        ("sums", {"metric": "m", "start_unix_ns": 0, "end_unix_ns": NOW}, "at most 744"),
        ("sums", WINDOW, "lacks metric"),
        ("sums", {**CPU, "host": "a"}, "the query has 'host'"),
        ("metrics", {"start_unix_ns": "x", "end_unix_ns": 5}, "send a whole number"),
        ("points", {**CPU, "limit": 0}, "send 1 to 10000"),
        ("points", {**CPU, "after": "7:raw-blobs/x"}, "is no position"),
        ("points", {**CPU, "agent_id": "\n"}, "control characters"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    served: Served, path: str, fields: dict[str, Any], message: str
) -> None:
    answer = ask(served, path, **fields)
    assert answer.status_code == 400
    assert message in answer.json()["message"]


def test_a_collector_with_a_disk_shows_what_has_not_landed(tmp_path: Path) -> None:
    """Nothing lands while the bucket refuses writes; the collector shows the batch all the same."""
    bucket = MemoryStore()
    closed = Faulty(bucket, [Fault(Effect.THROTTLED, kinds={"put"})])
    local = Settings(acceptance=Mode.LOCAL_SPOOL, pause_s=0.001, attempts_max=2)
    with serving(tmp_path, store=closed, settings=local, spool=tmp_path / "disk") as served:
        send(served, 1, point(3.0))
        (row,) = ask(served, "sums", **CPU).json()["sums"]
        assert (row["count"], row["sum"]) == (1, 3.0)
        (one,) = ask(served, "points", **CPU, agent_id="agent-a").json()["points"]
        assert one["value"] == 3.0
    assert not bucket.list("accepted/").objects
