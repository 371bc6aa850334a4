"""End to end: systems run for real with kills, are recorded, and their traces are replayed.

What is accepted is a behaviour of the model of each system; what was planted is rejected where it happened.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.publish import Catalog
from fencepost.impl.recording.bodies import json_fields
from fencepost.impl.recording.files import Recorder
from fencepost.impl.recording.http import HttpRecording
from fencepost.impl.store import open_store
from fencepost.sim.proxy import Plan, Upstream, running
from tests.commands.running import exit_of

from .endpoint import Endpoint
from .fleet import chaos
from .ingest_fleet import fleet, run_agents
from .lifecycle_kills import User, Workers
from .processes import objects_process
from .streams_fleet import nodes, store
from .streams_kills import Client, together
from .test_lifecycle import PLAIN, client_of, make

pytestmark = pytest.mark.server

QUEUE_MAP = "examples/work_queue/refinement.py:QueueMap"
ROOT = Path(__file__).parent.parent.parent
JOBS = int(os.environ.get("FENCEPOST_JOBS", "24"))


def replay(traces: Path, *words: str, folder: Path) -> dict[str, Any]:
    """The JSON of `fencepost replay`."""
    found = folder / "replay.json"
    exit_of("replay", str(traces), *words, "--json", str(found))
    result: dict[str, Any] = json.loads(found.read_text())
    return result


@contextlib.contextmanager
def recording_proxy(endpoint: Endpoint, traces: Path) -> Iterator[str]:
    recording = HttpRecording(
        Recorder(traces, "proxy"), trace_fields=json_fields({"claims/.+": ("state", "attempt")})
    )
    with running(Plan(Upstream.of(endpoint.address)), recording=recording) as proxy:
        yield proxy.url
    recording.close()


def work(url: str, endpoint: Endpoint, traces: Path, bucket: str, *words: str) -> None:
    """Run the work queue as processes."""
    subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "fencepost.examples.work_queue.run", url, str(traces)),
            *("--bucket", bucket, "--jobs", str(JOBS), *words),
        ],
        check=True,
        timeout=300,
        cwd=ROOT,
        env={
            **os.environ,
            "AWS_ACCESS_KEY_ID": endpoint.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
        },
    )


@pytest.mark.parametrize("where", ["objects", "seaweedfs", "honest_moto_process"])
def test_the_work_queue_is_accepted_as_its_processes_and_a_proxy_recorded_it(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Four workers, a janitor, kills; the hook and the proxy agree, and both are accepted by the model."""
    endpoint: Endpoint = request.getfixturevalue(where)
    with recording_proxy(endpoint, tmp_path / "proxy") as url:
        work(url, endpoint, tmp_path / "hook", f"queue-{where}".replace("_", "-"), "--kills", "4")
    for traces in ("hook", "proxy"):
        found = replay(tmp_path / traces, "--model", QUEUE_MAP, folder=tmp_path)
        assert (found["verdict"], found["accepted"]) == ("holds", JOBS), found["violations"][:1]
        assert found["continuity"]["verdict"] == "holds"


@pytest.mark.parametrize("where", ["objects", "seaweedfs"])
def test_an_unfenced_worker_is_found_where_it_takes_a_job_from_another(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    endpoint: Endpoint = request.getfixturevalue(where)
    with recording_proxy(endpoint, tmp_path / "proxy") as url:
        bucket = f"unfenced-{where}"
        work(url, endpoint, tmp_path / "hook", bucket, "--kills", "0", "--unfenced", "1")
    for traces in ("hook", "proxy"):
        found = replay(tmp_path / traces, "--model", QUEUE_MAP, folder=tmp_path)
        assert found["verdict"] == "violated"
        assert found["continuity"]["verdict"] == "holds", "the store did nothing wrong"
        # Where its write overlaps another one, the model may reject the other as the first impossible one.
        assert any(one["event"].startswith("worker-0: ") for one in found["violations"])
        reasons = {one["reason"].partition(":")[0] for one in found["violations"]}
        assert any("condition anything" in reason for reason in reasons), reasons


def test_collectors_that_are_killed_leave_a_trace_that_their_model_accepts(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    url = f"file://{tmp_path}/store"
    with fleet(url, tmp_path, 2, "--record", str(traces)) as made:
        counts = {f"agent-{at}": 10 for at in range(3)}
        with chaos(made, seed=7, pause_s=(0.2, 0.8)):
            run_agents(made, counts, seconds_max=200)
    found = replay(traces, "--model", "ingest", folder=tmp_path)
    assert found["rejected"] == 0, found["violations"][:1]
    assert found["continuity"]["verdict"] == "holds"
    assert found["accepted"] >= 30


class _Short(random.Random):
    """Makes streams of four appends: a longer one has more segments than the model has room for."""

    def randint(self, a: int, b: int) -> int:
        return min(super().randint(a, b), 4)


def test_nodes_that_are_killed_leave_a_trace_that_their_model_accepts(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    options = ["--landing", "5", "--skew", "0.1", "--sweep-every", "0.3", "--record", str(traces)]
    done = threading.Event()
    with store("file", tmp_path / "data") as url, nodes(url, tmp_path, 2, *options) as made:
        clients = [Client(made, f"s{at}", _Short(at), done) for at in range(3)]

        def kill() -> None:
            for number in range(4):
                done.wait(0.7)
                made.restart(number % 2, signal.SIGKILL)
            done.set()

        together([kill, *(client.run for client in clients)], done)
    words = ("--model", "streams", "--set", "places=10", "--set", "owners=10", "--set", "lives=4")
    found = replay(traces, *words, folder=tmp_path)
    assert found["rejected"] == 0, found["violations"][:1]
    assert found["continuity"]["verdict"] == "holds", found["continuity"]
    assert found["accepted"] > 0


def test_workers_that_are_killed_leave_a_trace_that_their_model_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = tmp_path / "traces"
    monkeypatch.setenv("FENCEPOST_RECORD", str(traces))
    directory = tmp_path / "data"
    with objects_process(directory, 1) as (_, address):
        made = make(client_of(address), PLAIN)
        user = User(seed=3)
        made.seen = made.read()
        with Workers(directory, count=2, seed=3) as workers:
            while workers.kills < 8 and not workers.failed:
                user.turn(made)
        assert not workers.failed, workers.failed
    found = replay(traces, "--model", "lifecycle", folder=tmp_path)
    assert found["rejected"] == 0, found["violations"][:1]
    assert found["continuity"]["verdict"] == "holds", found["continuity"]
    assert (found["verdict"], found["accepted"]) == ("holds", 1)


def _publish(tmp_path: Path, url: str, kills: int, mutant: str = "") -> Path:
    """Two writers of one catalog, each killed in turn after some commits, and started again."""
    with (
        Catalog.open(open_store(url), author="setup", create=True) as catalog,
        catalog.transaction("x") as txn,
    ):
        txn.create_table("person", {"id": "int64", "name": "string"}, key="id")
    traces = tmp_path / "traces"
    words = {"ann": [mutant] if mutant else [], "bob": []}

    def begun(name: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.servers.publish_agent", url, str(traces), name]
        return subprocess.Popen([*command, *words[name]], stdout=subprocess.PIPE, text=True, cwd=ROOT)

    writers = {name: begun(name) for name in words}
    try:
        for number in range(kills):
            name = ("ann", "bob")[number % 2]
            stdout = writers[name].stdout
            assert stdout is not None
            assert [stdout.readline() for _ in range(3)][-1], "the writer has ended by itself"
            writers[name].kill()
            writers[name].communicate()
            writers[name] = begun(name)
    finally:
        for writer in writers.values():
            writer.kill()
            writer.communicate()
    return traces


def test_writers_that_are_killed_leave_a_trace_that_their_model_accepts(tmp_path: Path) -> None:
    traces = _publish(tmp_path, f"file://{tmp_path}/shop", kills=6)
    found = replay(traces, "--model", "publish", folder=tmp_path)
    assert (found["rejected"], found["continuity"]["verdict"]) == (0, "holds"), found["violations"][:1]
    assert (found["verdict"], found["accepted"]) == ("holds", 1), found["undecided_runs"][:1]


def test_a_writer_without_sidecars_is_rejected_where_it_moves_a_head(tmp_path: Path) -> None:
    traces = _publish(tmp_path, f"file://{tmp_path}/shop", kills=2, mutant="sidecar-before-heads")
    found = replay(traces, "--model", "publish", folder=tmp_path)
    assert found["verdict"] == "violated"
    (violation,) = found["violations"]
    assert violation["event"].startswith("ann: ")
