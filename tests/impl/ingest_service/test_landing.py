"""acceptance = "local_spool": the disk accepts, the bucket follows, and neither ever accepts twice."""

import contextlib
import errno
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import Authority, Settings, keys
from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.ingest.service import landing as service_landing
from fencepost.impl.ingest.service.landing import LANDED, LocalSpool
from fencepost.impl.ingest.settings import Mode, SpoolBound
from fencepost.impl.store import ANYTHING, Unusable
from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.layers.faulty import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Put

from .serving import batch, frame, listing, serving

ENV = SystemEnvironment()
SETTINGS = Settings(acceptance=Mode.LOCAL_SPOOL, pause_s=0.001, attempts_max=2)


def opened(folder: Path, bucket: MemoryStore | Faulty) -> LocalSpool:
    return LocalSpool(folder / "disk", Authority(bucket, ENV, "collector-1", SETTINGS), ENV)


def accept(spool: LocalSpool, start: int = 1, value: float = 1.0) -> str:
    identity = batch(start, start + 1)
    return spool.accept("agent-a", identity, frame(identity, value)).result


def accepted(bucket: MemoryStore | Faulty) -> list[str]:
    return [key for key in listing(bucket) if key.startswith(keys.ACCEPTED)]


def test_batches_are_accepted_on_disk_and_land_later(tmp_path: Path) -> None:
    bucket = MemoryStore()
    spool = opened(tmp_path, bucket)
    assert [accept(spool, 1), accept(spool, 1), accept(spool, 1, 2.0)] == [
        "accepted",
        "duplicate",
        "conflict",
    ]
    assert accepted(bucket) == []
    assert (spool.backlog, spool.land(), spool.backlog, spool.land()) == (1, 1, 0, 0)
    (key,) = accepted(bucket)
    manifest = json.loads(bucket.get(key).body)
    assert bucket.get(manifest["raw_blob_key"]).body == frame()
    assert [key for key in listing(bucket) if key.startswith(keys.BY_TIME)], "its indexes, too"
    spool.close()


def test_landed_batches_stay_known_and_their_frames_are_kept_once(tmp_path: Path) -> None:
    spool = opened(tmp_path, MemoryStore())
    accept(spool)
    spool.land()
    left = [key for key in listing(spool.store) if key.startswith(keys.RAW)]
    assert left == []
    assert [accept(spool), accept(spool, value=2.0)] == ["duplicate", "conflict"]
    spool.close()


def test_a_restart_lands_what_the_last_run_did_not(tmp_path: Path) -> None:
    bucket = MemoryStore()
    spool = opened(tmp_path, bucket)
    for start in (1, 3, 5):
        accept(spool, start)
    spool.land(iter([False, True, True]).__next__)
    assert len(accepted(bucket)) == 1
    spool.close()
    spool = opened(tmp_path, bucket)
    assert (spool.backlog, spool.land(), len(accepted(bucket))) == (2, 2, 3)
    spool.close()


def test_batches_wait_for_an_unavailable_bucket(tmp_path: Path) -> None:
    store = MemoryStore()
    bucket = Faulty(store, [Fault(Effect.THROTTLED, times=2)])
    spool = bounded(tmp_path, bucket, landing=1)
    assert [accept(spool, 1), accept(spool, 3)] == ["accepted", "accepted"]
    assert (spool.land(), spool.backlog) == (0, 2)
    assert (spool.land(), spool.backlog, len(accepted(store))) == (2, 0, 2)
    spool.close()


def test_a_lost_reply_lands_once(tmp_path: Path) -> None:
    store = MemoryStore()
    bucket = Faulty(store, [Fault(Effect.REPLY_LOST, kinds={"put"}, prefix=keys.ACCEPTED)])
    spool = opened(tmp_path, bucket)
    accept(spool)
    assert spool.land() == 1
    assert len(accepted(store)) == 1
    spool.close()


def test_other_bytes_in_the_bucket_are_a_conflict_there_and_stay_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = MemoryStore()
    Authority(bucket, ENV, "another", SETTINGS).accept(batch(), frame(value=9.0))
    spool = opened(tmp_path, bucket)
    accept(spool)
    assert (spool.land(), spool.backlog) == (1, 0)
    assert any(key.startswith(keys.QUARANTINE) for key in listing(bucket))
    (mark,) = [key for key in listing(spool.store) if key.startswith(LANDED)]
    assert json.loads(spool.store.get(mark).body) == {"result": "conflict"}
    assert [key for key in listing(spool.store) if key.startswith(keys.RAW)], "the frame is not thrown away"
    assert "other bytes" in caplog.text
    spool.close()


def test_one_collector_per_disk(tmp_path: Path) -> None:
    spool = opened(tmp_path, MemoryStore())
    with pytest.raises(Unusable, match="another collector uses"):
        opened(tmp_path, MemoryStore())
    spool.close()
    os.close(os.open(tmp_path / "file", os.O_CREAT))
    with pytest.raises(Unusable, match="cannot be used"):
        LocalSpool(tmp_path / "file", Authority(MemoryStore(), ENV, "c", SETTINGS), ENV)


def test_over_http_both_modes_look_the_same(tmp_path: Path) -> None:
    bucket = MemoryStore()
    with serving(tmp_path, store=bucket, settings=SETTINGS, spool=tmp_path / "disk") as served:
        duplicates = [served.post(batch(), frame()).json()["duplicate"] for _ in range(2)]
        assert duplicates == [False, True]
        for _ in range(2000):
            if "fencepost_ingest_landing_backlog 0.0" in served.client.get(f"{served.url}/metrics").text:
                break
        assert len(accepted(bucket)) == 1


def test_a_batch_whose_first_answer_was_lost_lands_without_a_restart(tmp_path: Path) -> None:
    """The disk has its manifest, and the client's repetition is a duplicate."""
    bucket = MemoryStore()
    spool = opened(tmp_path, bucket)
    lost = Fault(Effect.REPLY_LOST, {"put"}, keys.ACCEPTED)
    faulty = Faulty(spool.store, [lost, Fault(Effect.THROTTLED, {"get"}, keys.ACCEPTED)])
    other = LocalSpool.__new__(LocalSpool)
    other.__dict__.update(spool.__dict__)
    other._here = Authority(faulty, ENV, "collector-1", SETTINGS)
    assert accept(other) == "unavailable"
    assert accept(spool) == "duplicate"
    assert (spool.backlog, spool.land(), spool.backlog) == (1, 1, 0)
    assert len(accepted(bucket)) == 1
    spool.close()


def test_a_repetition_after_the_landing_leaves_no_frame(tmp_path: Path) -> None:
    spool = opened(tmp_path, MemoryStore())
    accept(spool)
    spool.land()
    assert accept(spool) == "duplicate"
    spool.land()
    assert [key for key in listing(spool.store) if key.startswith(keys.RAW)] == []
    assert spool.backlog == 0
    spool.close()


def bounded(folder: Path, bucket: MemoryStore | Faulty, **bound: int) -> LocalSpool:
    authority = Authority(bucket, ENV, "collector-1", SETTINGS)
    return LocalSpool(folder / "disk", authority, ENV, SpoolBound(**bound))


def test_a_batch_beyond_the_bound_is_refused_until_there_is_room(tmp_path: Path) -> None:
    """A collector accepted without end what its bucket took 33 of a second."""
    bucket = MemoryStore()
    spool = bounded(tmp_path, bucket, batches=2)
    assert [accept(spool, start) for start in (1, 3, 5)] == ["accepted", "accepted", "unavailable"]
    refused = spool.accept("agent-a", batch(5, 6), frame(batch(5, 6))).refusal
    assert refused is not None
    assert (refused.status, refused.kind, refused.headers()["retry-after"]) == (503, "backlog", "5")
    assert accept(spool, 1) == "duplicate", "what waits is answered as ever"
    assert not spool.store.get(keys.accepted_key(batch(5, 6))).done, "nothing of the refused one is kept"
    assert (spool.land(), accept(spool, 5), spool.land(), len(accepted(bucket))) == (2, "accepted", 1, 3)
    spool.close()


def test_the_bound_in_bytes_survives_a_restart(tmp_path: Path) -> None:
    size = len(frame(batch(1, 2)))
    spool = bounded(tmp_path, MemoryStore(), bytes=2 * size)
    assert [accept(spool, start) for start in (1, 3, 5)] == ["accepted", "accepted", "unavailable"]
    assert (spool.backlog, spool.backlog_bytes) == (2, 2 * size)
    spool.close()
    spool = bounded(tmp_path, MemoryStore(), bytes=2 * size)
    assert (spool.backlog, spool.backlog_bytes, accept(spool, 5)) == (2, 2 * size, "unavailable")
    assert (spool.land(), spool.backlog_bytes, accept(spool, 5)) == (2, 0, "accepted")
    spool.close()


def test_what_is_refused_takes_no_room(tmp_path: Path) -> None:
    spool = bounded(tmp_path, MemoryStore(), batches=1)
    for _ in range(3):
        assert spool.accept("agent-a", batch(1, 2), b"no frame").result == "refused"
    assert (accept(spool), accept(spool, value=2.0), spool.backlog) == ("accepted", "conflict", 1)
    spool.close()


def test_many_threads_accept_no_more_than_the_bound(tmp_path: Path) -> None:
    spool = bounded(tmp_path, MemoryStore(), batches=5)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda at: accept(spool, 1 + 2 * at), range(24)))
    assert sorted(set(results)) == ["accepted", "unavailable"]
    assert results.count("accepted") == spool.backlog <= 5
    spool.close()


class Rendezvous(MemoryStore):
    """Answers only when as many requests are waiting as are awaited."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(count)

    def send(self, request: Any) -> Any:
        if isinstance(request, Put) and request.key.startswith(keys.ACCEPTED):
            self._barrier.wait(30)
        return super().send(request)


def test_several_batches_land_at_once(tmp_path: Path) -> None:
    spool = bounded(tmp_path, Rendezvous(4), landing=4)
    for start in range(1, 17, 2):
        accept(spool, start)
    assert (spool.land(), spool.backlog, spool.landed) == (8, 0, 8)
    spool.close()


def test_accepting_while_landing_loses_nothing(tmp_path: Path) -> None:
    bucket = MemoryStore()
    spool = bounded(tmp_path, bucket, batches=10, landing=3)
    sent: list[int] = []

    def send() -> None:
        for start in range(1, 81, 2):
            while accept(spool, start) == "unavailable":
                time.sleep(0.001)
            sent.append(start)

    sender = threading.Thread(target=send)
    sender.start()
    while sender.is_alive() or spool.backlog:
        spool.land()
    sender.join()
    assert len(accepted(bucket)) == len(sent) == 40
    assert spool.backlog_bytes == 0
    spool.close()


def test_a_damaged_batch_holds_no_other_up(tmp_path: Path) -> None:
    bucket = MemoryStore()
    spool = opened(tmp_path, bucket)
    accept(spool, 1)
    accept(spool, 3)
    spool.store.put(keys.accepted_key(batch(1, 2)), b"{}", when=ANYTHING)
    with pytest.raises(IngestError):
        spool.land()
    assert len(accepted(bucket)) == 1
    assert spool.backlog == 1
    spool.close()


def test_a_bucket_that_fails_after_it_accepted_holds_no_other_up(tmp_path: Path) -> None:
    """The indexes could not be written; the reconciler does that."""
    bucket = MemoryStore()
    faulty = Faulty(bucket, [Fault(Effect.THROTTLED, {"put"}, keys.BY_TIME, times=4)])
    spool = opened(tmp_path, faulty)
    accept(spool, 1)
    accept(spool, 3)
    for _ in range(2):
        with contextlib.suppress(IngestError):
            spool.land()
    assert len(accepted(bucket)) == 2
    assert spool.backlog == 0
    spool.close()


class Full(Disk):
    """A disk without room."""

    one_call = False

    def write(self, fd: int, body: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_answered_503_with_one_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is accepted, and the agent keeps its batch."""
    monkeypatch.setattr(service_landing, "FileStore", partial(FileStore, disk=Full()))
    with serving(tmp_path, settings=SETTINGS, spool=tmp_path / "disk") as served:
        answer = served.post(batch(), frame())
        assert (answer.status_code, answer.json()["error"]) == (503, "store_unavailable")
        lines = [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]
        assert all(line.exc_info is None for line in lines)
        assert any("disk is full" in line.getMessage() for line in lines)
        assert served.collector._acceptance.backlog == 0
