"""The proxy before a real server, which checks nothing of us but what every S3 client relies on."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Outcome, Store, open_store
from fencepost.properties.store_behaviour import StoreBehaviour
from fencepost.sim.proxy import Delay, Plan, Upstream, running
from tests.properties import test_store_behaviour as suite
from tests.servers.endpoint import Endpoint

pytestmark = pytest.mark.server

PART = b"p" * (5 << 20)


@contextlib.contextmanager
def through(server: Endpoint, **more: object) -> Iterator[Store]:
    """A store in a new bucket of the server, with a proxy between."""
    bucket = server.bucket()
    with (
        running(Plan(Upstream.of(server.address), **more)) as proxy,
        open_store(bucket.replace(server.address, proxy.url)) as store,
    ):
        yield store


class TestThrough(StoreBehaviour):
    """A store behind a proxy that changes nothing is the store."""

    deviations = suite.TestMoto.deviations

    @pytest.fixture
    def store(self, request: pytest.FixtureRequest, honest_moto_process: Endpoint) -> Iterator[Store]:
        name = request.function.__name__
        if name in self.deviations:
            request.applymarker(pytest.mark.xfail(reason=self.deviations[name], strict=True))
        with through(honest_moto_process) as store:
            yield store


def test_large_bodies_and_parts_pass(honest_moto_process: Endpoint) -> None:
    with through(honest_moto_process, latency={"": Delay(0.001)}, cap=4) as store:
        upload = store.create_upload("k").upload
        parts = [(n, store.upload_part("k", upload, n, PART).etag) for n in (1, 2)]
        assert store.complete_upload("k", upload, parts, when=ABSENT).done
        assert store.get("k").body == PART * 2
        assert store.get("k", start=5, stop=9).body == b"pppp"


def test_a_dropped_reply_is_unknown_and_landed(honest_moto_process: Endpoint) -> None:
    with through(honest_moto_process, reply_lost={"put": 1.0}) as store:
        assert store.put("k", b"v", when=ABSENT).outcome is Outcome.UNKNOWN
        assert store.get("k").body == b"v"


def test_what_is_late_is_unknown_and_lands(honest_moto_process: Endpoint) -> None:
    with through(honest_moto_process, late={"put": 1.0}, late_after=Delay(0.3)) as store:
        assert store.put("k", b"v", when=ANYTHING).outcome is Outcome.UNKNOWN
        for _ in range(1000):
            if store.get("k").done:
                return
            store.env.sleep(0.02)
        pytest.fail("it never landed")


def test_slow_down_is_throttled(honest_moto_process: Endpoint) -> None:
    with through(honest_moto_process, throttled={"put": 1.0}) as store:
        assert store.put("k", b"v", when=ANYTHING).outcome is Outcome.THROTTLED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stops_cleanly_and_says_what_passed(
    honest_moto_process: Endpoint, tmp_path: Path, number: signal.Signals
) -> None:
    target = tmp_path / "printed.json"
    words = ["proxy", honest_moto_process.address, "--latency", "1ms", "--cap", "2", "--json", str(target)]
    with subprocess.Popen(
        [sys.executable, "-m", "fencepost", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        bucket = honest_moto_process.bucket()
        with open_store(bucket.replace(honest_moto_process.address, first.split()[0])) as store:
            assert store.put("k", b"v", when=ABSENT).done
            assert store.get("k").done
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert first.endswith(f"is a proxy of {honest_moto_process.address}: 1 ms there, 2 at once\n")
    assert out.startswith("2 requests, up to 1 in flight and ")
    received = json.loads(target.read_text())
    assert {kind: row["fates"] for kind, row in received["kinds"].items()} == {
        "get": {"200": 1},
        "put": {"200": 1},
    }
    assert urlsplit(received["url"]).hostname == "127.0.0.1"
