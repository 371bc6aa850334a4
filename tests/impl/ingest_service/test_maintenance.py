"""The other collectors complete the indexes of a killed one, unattended."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.metrics import Metrics
from fencepost.impl.ingest import Accepted, Authority, Manifest, Settings, keys, totals
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.maintenance import LEASE, Maintenance
from fencepost.impl.ingest.service.background import ALARMS, Maintainer
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.layers.faulty import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

from .serving import batch, frame, listing, serving

ENV = SystemEnvironment()
AT_ONCE = Settings(pause_s=0.001, attempts_max=2, landing_bound_s=0, skew_bound_s=0)
"""Without margins for requests in flight: there are none."""
TIMEOUT_S = 60.0


def killed(store: MemoryStore, start: int = 1) -> Manifest:
    """Accepted by a collector that was killed before it wrote any index."""
    identity = batch(start, start)
    answer = Authority(store, ENV, "killed", AT_ONCE).accept(identity, frame(identity))
    assert isinstance(answer, Accepted)
    return answer.manifest


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not seen():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def in_order(store: MemoryStore, manifests: list[Manifest]) -> bool:
    standing = listing(store)
    if not all(put.key in standing for one in manifests for put in derived(one)):
        return False
    series = totals(store, ENV, AT_ONCE).values()
    return sum(one.count for found in series for one in found.values()) == len(manifests)


def test_another_collector_completes_the_work_of_a_killed_one(tmp_path: Path) -> None:
    store = MemoryStore()
    manifests = [killed(store, number) for number in range(5)]
    with serving(tmp_path, store=store, settings=AT_ONCE, maintenance_s=0.02) as served:
        until(lambda: in_order(store, manifests))
        page = served.client.get(f"{served.url}/metrics").text
    assert "fencepost_ingest_maintenance_repaired_total 10.0\n" in page
    assert 'fencepost_ingest_maintenance_turns_total{result="failed"} 0.0\n' in page


def test_without_maintenance_no_work_and_no_metrics(tmp_path: Path) -> None:
    store = MemoryStore()
    killed(store)
    with serving(tmp_path, store=store, settings=AT_ONCE) as served:
        assert "maintenance" not in served.client.get(f"{served.url}/metrics").text
        time.sleep(0.05)
    assert not [key for key in listing(store) if key.startswith((keys.BY_TIME, keys.CURSORS))]


def test_the_lease_is_released_at_the_end(tmp_path: Path) -> None:
    store = MemoryStore()
    with serving(tmp_path, store=store, settings=AT_ONCE, maintenance_s=0.02):
        until(lambda: LEASE in listing(store))
    assert b'"until_ns":0' in store.get(LEASE).body
    assert not [one for one in threading.enumerate() if one.name == "ingest-maintenance"]


class Kept:
    """A maintainer whose rounds the test runs one by one."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(threading.Thread, "start", lambda _: None)
        self.metrics = Metrics()
        maintenance = Maintenance(store, ENV, "collector-1", AT_ONCE, every_s=60.0, search_every_s=0.0)
        self.maintainer = Maintainer(maintenance, self.metrics)

    def run_once(self) -> bool:
        return self.maintainer.run_once(lambda: False)


def test_an_alarm_is_logged_once_and_shown_while_it_lasts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    gone = killed(store)
    blob = store.get(gone.raw_blob_key).body
    store.delete(gone.raw_blob_key, when=ANYTHING)
    kept = Kept(store, monkeypatch)
    with caplog.at_level(logging.INFO, "fencepost.ingest"):
        kept.run_once()
        kept.run_once()
    logged = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert logged[0] == f"accepted, but its blob is missing or incomplete: {gone.key}"
    assert len(logged) == len(set(logged)) == 2
    assert f"{ALARMS} 2.0\n" in kept.metrics.exposition().decode()
    store.put(gone.raw_blob_key, blob, when=ANYTHING)
    kept.run_once()
    assert f"{ALARMS} 0.0\n" in kept.metrics.exposition().decode()


def test_a_failure_is_logged_once_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    lost = killed(store)
    kept = Kept(Faulty(store, [Fault(Effect.REQUEST_LOST, {"get"}, LEASE, times=6)]), monkeypatch)
    with caplog.at_level(logging.INFO, "fencepost.ingest"):
        assert [kept.run_once(), kept.run_once()] == [False, False]
        assert len([one for one in caplog.records if "is tried again" in one.getMessage()]) == 1
        until(kept.run_once)
    assert 'turns_total{result="failed"} 2.0\n' in kept.metrics.exposition().decode()
    assert in_order(store, [lost])


def test_a_bug_ends_no_thread(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    lost = killed(store)
    kept = Kept(store, monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr(Maintenance, "run_once", lambda *_: 1 / 0)
        assert not kept.run_once()
    assert "ZeroDivisionError" in caplog.text
    assert kept.run_once()
    assert in_order(store, [lost])


def test_without_the_lease_no_old_alarm_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    gone = killed(store)
    store.delete(gone.raw_blob_key, when=ANYTHING)
    kept = Kept(store, monkeypatch)
    kept.run_once()
    assert kept.maintainer.alarms
    kept.maintainer.release()
    Maintenance(store, ENV, "another", AT_ONCE).run_once()
    assert not kept.run_once()
    assert kept.maintainer.alarms == 0
    assert 'turns_total{result="elsewhere"} 1.0\n' in kept.metrics.exposition().decode()
