"""`fencepost probe` as its users meet it: exit codes, the table, JSON, and one line for an error."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.probe import FEATURES
from tests import liars
from tests.commands.running import Run

FAST = ("--rounds", "4", "--quick")


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`memory://` opens this store from now on."""

    def install(make: Callable[[], MemoryStore]) -> None:
        monkeypatch.setattr("fencepost.commands.probe.open_store", lambda url: make())

    return install


def test_memory_has_a_complete_table_and_is_safe(ran: Run) -> None:
    code, out, err = ran("probe", "memory://", *FAST, "-v")
    assert code == 0
    assert err == ""
    table = dict(re.findall(r"^([a-z-]+) +(safe|unsafe|unsupported|undecided) ", out, re.MULTILINE))
    assert set(table) == {feature.name for feature in FEATURES}
    assert set(table.values()) == {"safe", "unsupported"}
    assert {name for name, verdict in table.items() if verdict == "unsupported"} == {
        "versioned-bucket",
        "racing-creates-processes",
        "counter-processes",
        "etag-forms",
    }
    assert out.index("Writes only under fencepost-probe/") < out.index("create-only-put ")
    assert "put-1mib" in out
    assert "Build on: create-only put" in out
    assert out.rstrip().splitlines()[2].startswith("safe: ")


@pytest.mark.server
def test_a_directory_has_a_complete_table_and_is_left_as_it_was(ran: Run, tmp_path: Path) -> None:
    code, out, err = ran("probe", f"file://{tmp_path}/new/store", *FAST, "-v")
    assert (code, err) == (0, "")
    assert "racing-creates-processes   safe" in out
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_not_there_is_gone_again(ran: Run, tmp_path: Path) -> None:
    code, _, _ = ran("probe", f"file://{tmp_path}/new/store", *FAST, "--only", "create-only-put")
    assert code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_keeps_what_it_had(ran: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"stays")
    code, _, _ = ran("probe", f"file://{tmp_path}", *FAST, "--only", "create-only-put")
    assert code == 0
    assert (tmp_path / "mine").read_bytes() == b"stays"
    assert {entry.name for entry in tmp_path.iterdir()} <= {"mine", ".fencepost"}


def test_an_unsafe_store_exits_1_and_shows_the_history(ran: Run, lying: Any) -> None:
    lying(liars.IgnoresIfNoneMatch)
    code, out, _ = ran("probe", "memory://", *FAST, "-v")
    assert code == 1
    assert re.search(r"^create-only-put +unsafe +wrote over an existing object", out, re.MULTILINE)
    assert re.search(
        r"^ +2\. +me +put create-only-put/existing-\d+ if absent 'second' +done", out, re.MULTILINE
    )
    assert "Do not use: create-only put, create-only upload in parts" in out
    assert out.rstrip().splitlines()[2].startswith("unsafe: ")


def test_a_store_that_lacks_something_exits_3(ran: Run, lying: Any) -> None:
    lying(liars.RefusesIfMatch)
    code, out, _ = ran("probe", "memory://", *FAST)
    assert code == 3
    assert "Not offered: if-match put" in out
    code, _, _ = ran("probe", "memory://", *FAST, "--only", "create-only-put, racing-creates-threads")
    assert code == 0


def test_json_alone_on_standard_output(ran: Run, lying: Any) -> None:
    lying(liars.ChecksThenActs)
    code, out, err = ran("probe", "memory://", *FAST, "--json", "-")
    assert code == 1
    result = json.loads(out)
    assert result["url"] == "memory://"
    assert result["verdict"] == "unsafe"
    assert [row["name"] for row in result["features"]] == [feature.name for feature in FEATURES]
    assert all({"name", "verdict", "detail"} <= set(row) for row in result["features"])
    bad = next(row for row in result["features"] if row["name"] == "racing-creates-threads")
    assert bad["bad"] > 0
    assert {"number", "worker", "request", "outcome"} <= set(bad["history"][0])
    good = next(row for row in result["features"] if row["name"] == "counter-threads")
    assert good["bound"] == pytest.approx(1 - 0.05 ** (1 / good["rounds"]))
    assert all(set(values) == {"p50", "p90", "p99"} for values in result["latency"].values())
    assert {"put", "put-1mib", "get", "get-1mib", "head", "delete", "list", "complete-upload"} <= set(
        result["latency"]
    )
    assert "Probing" in err, "people read the other stream meanwhile"


def test_the_profile_is_what_the_simulator_reads(ran: Run, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    code, _, _ = ran("probe", "memory://", *FAST, "--only", "ranges", "--profile", str(file))
    assert code == 0
    profile = json.loads(file.read_text())
    assert profile["format"] == "fencepost-latency/1"
    assert profile["unit"] == "ms"
    sizes = {entry["bytes"] for entry in profile["operations"]["put"]}
    assert sizes == {1024, 1_048_576}
    for entries in profile["operations"].values():
        for entry_ in entries:
            assert len(entry_["quantiles"]) == 101
            assert entry_["quantiles"] == sorted(entry_["quantiles"])
            assert entry_["p50"] == entry_["quantiles"][50]
            assert entry_["count"] >= 1


def test_the_list_names_every_feature_without_a_store(ran: Run) -> None:
    code, out, _ = ran("probe", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [feature.name for feature in FEATURES]


BAD = [
    ([], "name the store"),
    (["nope://x"], "nope://x"),
    (["memory://x"], "memory://"),
    (["s3://"], "bucket"),
    (["file://relative/dir"], "three slashes"),
    (["memory://", "--only", "nope"], "nope"),
    (["memory://", "--quick", "--thorough"], "--quick and --thorough contradict"),
    (["memory://", "--only", ","], "--only"),
    (["memory://", "--rounds", "0"], "--rounds"),
    (["memory://", "--budget", "0"], "--budget"),
    (["memory://", "--json", "-", "--profile", "-"], "standard output"),
    (["memory://", "--json", "/no/such/folder/x.json"], "/no/such/folder/x.json"),
    (["file:///proc/fencepost"], "/proc/fencepost"),
    (["file:///dev/null"], "/dev/null"),
    (["file:///a%00b"], "directory"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD, ids=[" ".join(case[0]) or "nothing" for case in BAD])
def test_what_makes_no_sense_gets_one_line(ran: Run, arguments: list[str], named: str) -> None:
    code, out, err = ran("probe", *arguments)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert named in err
    assert "Traceback" not in err
    assert "safe" not in out


def test_an_endpoint_that_is_not_there_gets_one_line(ran: Run, credentials: None) -> None:
    code, out, err = ran("probe", "s3://bucket?endpoint=http://127.0.0.1:9&region=us-east-1")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert "127.0.0.1:9" in err
    assert out == ""


def test_a_bucket_that_is_not_there_gets_one_line(ran: Run, honest_moto: Any) -> None:
    code, _, err = ran("probe", honest_moto.url("no-such-bucket"))
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert "no-such-bucket" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_is_read_only_gets_one_line(ran: Run, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    code, _, err = ran("probe", f"file://{tmp_path}")
    assert code == 2
    assert len(err.strip().splitlines()) == 1


class FillsUp(MemoryStore):
    """The disk is full after a while; deleting still works."""

    made: list["FillsUp"] = []
    room = 200

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)

    def send(self, request: Any) -> Any:
        self.room -= not request.reads
        if self.room < 0 and request.kind in ("put", "create-upload", "upload-part"):
            from fencepost.impl.store.errors import Unusable

            raise Unusable("no space left on /data; free some and try again")
        return super().send(request)


def test_a_disk_that_fills_up_ends_the_probe_with_one_line_and_nothing_left(ran: Run, lying: Any) -> None:
    lying(FillsUp)
    code, _, err = ran("probe", "memory://", *FAST)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert "no space left" in err
    assert not FillsUp.made[-1].contents()


def test_no_secret_is_repeated(ran: Run) -> None:
    code, out, err = ran("probe", "s3://key:hunter2@bucket")
    assert code == 2
    assert "hunter2" not in out + err


@pytest.mark.server
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_being_stopped_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    """In the middle of a race between processes, which get the Ctrl-C of the terminal as well."""
    command = [sys.executable, "-m", "fencepost", "probe", f"file://{tmp_path}/store", "--budget", "120"]
    features = "racing-creates-processes"
    with subprocess.Popen(
        [*command, "--only", features, "--rounds", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("store/fencepost-probe/*/racing-creates-processes/*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        os.killpg(process.pid, how) if how is signal.SIGINT else process.send_signal(how)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert err.strip() == "fencepost: interrupted"
    assert not (tmp_path / "store").exists()
