"""The page and the metrics of a worker: what they show is what the state has, and no text becomes markup."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.lifecycle import walk
from fencepost.impl.lifecycle.app import LifecycleServer, page
from fencepost.impl.lifecycle.blockers import Count, Item
from fencepost.impl.lifecycle.opening import open_lifecycle
from fencepost.impl.lifecycle.policy import Timing
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.status import status_of
from fencepost.impl.lifecycle.target import Unavailable
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.store.requests import ANYTHING
from tests.impl.streams import requests

BUCKET = "logs"
RULE = {"ID": "<b>old</b>", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """One that has deleted one of two objects, and is blocked."""
    buckets = Buckets(str(tmp_path))
    buckets.create(BUCKET)
    for key in ("keep", "tmp/1"):
        buckets.store(BUCKET).put(key, b"x", when=ANYTHING)
    buckets.close()
    with open_lifecycle(str(tmp_path), SystemEnvironment()) as opened:
        opened.policies.put(BUCKET, [RULE])
        found = Worker(opened.context, opened.target, opened.log, Timing(1000, 1000, 1000))
        walk.run(found)
        found.blockers.block(f"walk/{BUCKET}", Item("k", BUCKET, "<k>"), "a <reason>", Count(5, 5, 1), 2)
        yield found


def test_the_page_shows_texts_as_they_are(worker: Worker) -> None:
    status = status_of(worker, "<store>")
    shown = page(replace(status, paused_for="<reason>", log_begins_ns=10**18))
    for text in ("&lt;store&gt;", "&lt;b&gt;old&lt;/b&gt;", "&lt;k&gt;", "a &lt;reason&gt;", "event_driven"):
        assert text in shown
    assert "<b>" not in shown
    assert "<reason>" not in shown


def test_the_metrics_count_and_show(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    server = LifecycleServer(worker, "store")
    found = metrics(server)
    rule = found["fencepost_lifecycle_expired"][0][0]["rule_hash"]
    expired = {"bucket": BUCKET, "rule_hash": rule, "action": "expiration-days"}
    assert found["fencepost_lifecycle_expired"] == [(expired, 1.0)]
    assert found["fencepost_lifecycle_blocked_streams"] == [
        ({"stream_kind": "bootstrap", "bucket": BUCKET}, 1)
    ]
    assert found["fencepost_lifecycle_rule_mode"] == [({**expired, "mode": "event_driven"}, 1.0)]
    assert found["fencepost_lifecycle_rule_degraded"] == [({**expired, "reason": "NONE"}, 1.0)]
    assert found["fencepost_lifecycle_pending_size"] == [(expired, 0.0)]
    assert found["fencepost_lifecycle_quarantined"] == [({}, 0.0)]
    assert [labels["shard"] for labels, _ in found["fencepost_lifecycle_predicate_lag_seconds"]] == [
        "changes"
    ]
    assert len(found["fencepost_lifecycle_watermark_lag_seconds"]) == 1

    def unavailable(*_: object) -> None:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr("fencepost.impl.lifecycle.app.status_of", unavailable)
    server._known = None
    assert metrics(server)["fencepost_lifecycle_expired"] == [(expired, 1.0)]
    server.close()


def metrics(server: LifecycleServer) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = server.metrics.exposition().decode()
    return {
        family.name: [(dict(sample.labels), sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


TOKEN = "a token of this test"


def ask(
    server: LifecycleServer, method: str, target: str, header: str = f"Bearer {TOKEN}"
) -> requests.Answer:
    return requests.ask(server, method, target, authorization=header)


@pytest.mark.parametrize(
    ("token", "header"), [("", f"Bearer {TOKEN}"), (TOKEN, "Bearer x"), (TOKEN, ""), ("", "Bearer ")]
)
def test_nobody_acts_without_the_token(worker: Worker, token: str, header: str) -> None:
    server = LifecycleServer(worker, "store", token=token)
    assert ask(server, "POST", "/act?do=pause&reason=x", header).status == 401
    assert not worker.records.control().paused_for
    server.close()


def test_the_page_acts(worker: Worker) -> None:
    server = LifecycleServer(worker, "store", token=TOKEN)

    def act(query: str) -> int:
        return ask(server, "POST", f"/act?{query}").status

    assert act("do=pause&reason=migration") == 200
    assert worker.records.control().paused_for == "migration"
    assert act("do=run") == 400  # everything is paused
    assert act("do=resume") == 200
    assert act(f"do=pause&reason=x&bucket={BUCKET}") == 200
    assert worker.records.bucket(BUCKET).paused
    assert act(f"do=resume&bucket={BUCKET}") == act(f"do=run&bucket={BUCKET}") == 200
    assert worker.records.bucket(BUCKET).wanted_ns
    (blocker,) = worker.blockers.every()
    assert act(f"do=retry&blocker={blocker.id}") == 200
    assert worker.records.control().retries == (blocker.id,)
    assert [act(query) for query in ("do=retry&blocker=x", "do=pause", "do=nonsense", "")] == [400] * 4
    shown = ask(server, "GET", "/")
    assert f"bucket={BUCKET}".encode() in shown.body
    assert b"<button" in shown.body
    assert "lasttick" not in shown.headers
    Service(worker).round()
    assert "lasttick" in ask(server, "GET", "/status.json").headers
    server.close()


def test_the_page_has_no_buttons_where_nobody_may_act(worker: Worker) -> None:
    assert "<button" not in page(status_of(worker, "store"))


def test_deletions_are_timed(worker: Worker) -> None:
    server = LifecycleServer(worker, "store")
    worker.expirer.counters.on_delete(0.02)
    assert "fencepost_lifecycle_delete_seconds_count 1.0" in server.metrics.exposition().decode()
    server.close()


def test_the_dashboard_shows_metrics_that_there_are(worker: Worker) -> None:
    server = LifecycleServer(worker, "store")
    Service(worker).round()
    worker.expirer.counters.on_delete(0.02)
    worker.expirer.counters.fail(BUCKET, "unavailable")
    worker.expirer.counters.locked[BUCKET, "rule"] += 1
    text = (Path(__file__).parents[3] / "docs/ci/lifecycle-dashboard.json").read_text()
    named = set(re.findall(r"fencepost_lifecycle_\w+", text))
    shown = set(re.findall(r"^# TYPE (\S+)", server.metrics.exposition().decode(), re.MULTILINE))
    assert {one.removesuffix("_bucket") for one in named} <= shown
    assert len(named) > 10
    server.close()
