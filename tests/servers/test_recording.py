"""End to end: systems run for real with kills, are recorded, and their traces are replayed.

What is accepted is a behaviour of the model of each system; what was planted is rejected where it happened.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.recording.bodies import json_fields
from fencepost.impl.recording.files import Recorder
from fencepost.impl.recording.http import HttpRecording
from fencepost.sim.proxy import Plan, Upstream, running
from tests.commands.running import exit_of

from .end_to_end import SYSTEMS, Planted, row
from .endpoint import Endpoint

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


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_that_is_killed_leaves_a_trace_that_its_model_accepts(system: str, tmp_path: Path) -> None:
    """Several processes, SIGKILLs, restarts; what belongs to no run is counted and named."""
    found = row(system, tmp_path)
    assert (found["verdict"], found["continuity"]) == ("holds", "holds"), (found["event"], found["reason"])
    assert (found["rejected"], found["undecided"]) == (0, 0)
    assert found["accepted"] == found["runs"] > 0
    assert sum(found["left_out_by"].values()) == found["left_out"]


@pytest.mark.parametrize(
    ("system", "planted"),
    [
        pytest.param(system, planted, id=f"{system}-{planted.mutant}")
        for system, one in SYSTEMS.items()
        for planted in one.planted
    ],
)
def test_a_planted_mutant_is_rejected_at_the_right_event(
    system: str, planted: Planted, tmp_path: Path
) -> None:
    found = row(system, tmp_path, planted)
    assert found["verdict"] == "violated"
    assert found["as_expected"], (found["event"], found["reason"])


def test_a_recorder_on_a_full_disk_ends_no_program(tmp_path: Path) -> None:
    """Neither where the disk is full from the start, nor where it becomes full."""
    program = (
        "import sys; from fencepost.impl.recording import Recorder\n"
        "from fencepost.impl.store.errors import Unusable\n"
        "try: recorder = Recorder(sys.argv[1] + '/traces', 'ann')\n"
        "except Unusable as error: sys.exit(str(error))\n"
        "kept = sum(recorder.emit('request', 'put', f'k{n}', n, run='b') for n in range(20_000))\n"
        "recorder.close(); print(kept < 20_000, recorder.dropped + kept)"
    )
    for size, code, shown in (("512k", 1, "No space left on device"), ("1300k", 0, "True 20000")):
        mounted = f'mount -t tmpfs -o size={size} tmpfs "$1" && exec "$2" -c "$3" "$1"'
        words = ["unshare", "-rm", "sh", "-c", mounted, "sh", str(tmp_path), sys.executable, program]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        if "unshare" in ran.stderr or "mount:" in ran.stderr:
            pytest.skip(f"this user may not mount: {ran.stderr}")
        assert ran.returncode == code, ran.stderr
        assert shown in ran.stdout + ran.stderr
