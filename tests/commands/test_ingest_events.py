"""`fencepost ingest reconcile --events`: sources of notifications, as an operator names them."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.server import Server, listener
from fencepost.impl.ingest import Authority, keys
from fencepost.impl.ingest.notified import NotifiedBatches, Receiver
from fencepost.impl.notifications.receiving import NotificationServer
from fencepost.impl.store import Store, open_store
from tests.commands.running import Run
from tests.impl.ingest.given import SETTINGS, accepted, batch, sha256
from tests.impl.objects.serving import client, secret, served

TOKEN = "a token of sixteen or more"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of our object server, whose clients have its log."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "root")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret("root"))
    with served(tmp_path / "objects") as address:
        client(address).create_bucket(Bucket="batches")
        yield f"s3://batches/prod?endpoint={address}"


def reconciled(ran: Run, url: str) -> dict[str, Any]:
    code, out, error = ran("ingest", "reconcile", "--store", url, "--events", "log=log", "--json", "-")
    assert code == 0, error
    found: dict[str, Any] = json.loads(out)
    return found


def listed(store: Store, prefix: str) -> list[str]:
    return [one.key for page in store.pages(prefix) for one in page.objects]


def test_the_log_of_an_object_server(ran: Run, url: str) -> None:
    """A batch whose collector died is in all indexes after one round, and the log is read once."""
    with open_store(url) as store:
        accepted(store, 1, follow_up=False)
        found = reconciled(ran, url)
        assert (found["notified"]["seen"], found["notified"]["repaired"]) == (1, 2)
        assert found["seen"] == 1, "the steady pass finds its place in time by then"
        assert len(listed(store, keys.BY_TIME)) == 1
        assert reconciled(ran, url)["notified"]["seen"] == 0
        accepted(store, 2, follow_up=False)
        assert reconciled(ran, url)["notified"]["repaired"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--events", "q"], "no source of its own name"),
        (["--events", "a=log", "--events", "b=log"], "one log"),
        (["--events", "a=log", "--events", "a=http"], "no source of its own name"),
        (["--events", "a=sqs://"], "is no queue"),
        (["--events", "a=http"], "go together"),
        (["--receive", "127.0.0.1:0"], "go together"),
    ],
)
def test_sources_that_make_no_sense_are_refused_in_one_line(ran: Run, words: list[str], message: str) -> None:
    code, _, output = ran(
        "ingest", "reconcile", "--store", "s3://batches?endpoint=http://127.0.0.1:1", *words
    )
    assert code == 2
    assert message in output
    assert output.count("\n") == 1


def test_a_directory_sends_no_notifications(ran: Run, tmp_path: Path) -> None:
    with open_store(f"file://{tmp_path}/store") as store:
        accepted(store, 1)
    code, _, output = ran("ingest", "reconcile", "--store", f"file://{tmp_path}/store", "--events", "a=log")
    assert (code, "sends no notifications" in output) == (2, True)


def test_a_store_that_sends_requests_needs_a_command_that_stays(ran: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    words = (
        "--events",
        "a=http",
        "--receive",
        "127.0.0.1:0",
        "--receive-token-file",
        str(tmp_path / "token"),
    )
    code, _, output = ran("ingest", "reconcile", "--store", url, *words)
    assert (code, "needs --every" in output) == (2, True)


def test_requests_of_a_store_are_answered_once_their_batches_are_repaired(url: str, tmp_path: Path) -> None:
    with open_store(url) as store:
        lost = accepted(store, 1, follow_up=False)
        receiver = Receiver("minio", NotifiedBatches(store, SystemEnvironment()), "batches", "prod/")
        service = NotificationServer({"minio": receiver}, TOKEN, lambda: None)
        started, bound = threading.Event(), listener("127.0.0.1", 0)
        server = Server(service, on_listening=lambda _: started.set())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            assert started.wait(30)
            address = f"http://127.0.0.1:{bound.getsockname()[1]}/minio"
            named = {"bucket": {"name": "batches"}, "object": {"key": f"prod/{lost.key}".replace("=", "%3D")}}
            body = json.dumps({"Records": [{"eventName": "s3:ObjectCreated:Put", "s3": named}]})
            assert requests.post(address, data=body, timeout=10).status_code == 401
            assert listed(store, keys.BY_TIME) == []
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            assert requests.post(address, data=body, headers=bearer, timeout=10).status_code == 200
            assert [len(listed(store, one)) for one in (keys.BY_TIME, keys.BY_BLOB)] == [1, 1]
            assert requests.post(address, data="{}", headers=bearer, timeout=10).status_code == 400
        finally:
            server.stop()
            thread.join(30)
            service.close()
            bound.close()


TIMES = ("--horizon", "0.1", "--landing-bound", "0.01", "--skew-bound", "0.01", "--overlap", "1")


def test_garbage_that_the_log_names(ran: Run, url: str) -> None:
    """No blob is listed, and each is judged once."""
    with open_store(url) as store:
        accepted(store, 1)
        body = batch(9)[1]
        orphan = Authority(store, SystemEnvironment(), "ann", SETTINGS).blobs.keep(sha256(body), body).key
        time.sleep(0.3)
        assert ran("ingest", "audit", "--store", url, *TIMES)[0] == 0
        gc = ("ingest", "gc", "--store", url, "--log", "nightly", "--json", "-", *TIMES)
        code, out, error = ran(*gc, "--dry-run")
        assert (code, json.loads(out)["deleted"]) == (0, [orphan]), error
        code, out, error = ran(*gc)
        found = json.loads(out)
        assert (code, found["deleted"], found["blobs"], found["referenced"]) == (0, [orphan], 2, 1), error
        assert orphan not in listed(store, keys.RAW)
        assert len(listed(store, keys.RAW)) == 1
        assert json.loads(ran(*gc)[1])["blobs"] == 0


def test_candidates_are_named_in_one_way(ran: Run, tmp_path: Path) -> None:
    code, _, error = ran("ingest", "gc", "--store", f"file://{tmp_path}", "--log", "a", "--inventory", "b")
    assert (code, error.count("\n")) == (2, 1)
    code, _, error = ran("ingest", "gc", "--store", f"file://{tmp_path}", "--log", "a")
    assert code == 2
    assert "has no change log" in error
