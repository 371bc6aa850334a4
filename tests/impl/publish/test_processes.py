"""Writers as operating-system processes, on a directory and on S3 endpoints that are processes too.

All commit or fail cleanly, nothing wedges, and the chain holds every acknowledged commit. Without the epoch
check two processes are enough for a HEAD that stays ahead of its manifest for ever.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.publish import Catalog, HeadAhead, Published, verify

from .scripted import without

pytestmark = pytest.mark.server

SCRIPT = Path(__file__).with_name("process_writer.py")
CLEAN = {"Published", "StaleView", "Fenced", "Unknown"}
SECONDS_MAX = 120
STORES = ["file", "honest_moto_process", "seaweedfs"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new catalog with one empty table."""
    where = request.param
    url = f"file://{tmp_path}/catalog" if where == "file" else request.getfixturevalue(where).bucket()
    with Catalog.open(url, create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("person", {"id": "int64", "name": "string"}, key="id")
    return url


@pytest.mark.parametrize("count", [2, 3, 5, 12])
@pytest.mark.parametrize("mode", ["join", "claim"])
def test_all_commit_or_fail_cleanly(url: str, mode: str, count: int, tmp_path: Path) -> None:
    ends = _race(url, mode, count, tmp_path / "start")
    counted = Counter(end["ended"] for end in ends)
    assert set(counted) <= CLEAN, ends
    assert counted["Published"] >= 1, ends
    acknowledged = {end["number"]: int(end["text"]) for end in ends if end["ended"] == "Published"}
    unknown = {end["number"] for end in ends if end["ended"] == "Unknown"}
    with Catalog.open(url, author="last") as last:
        rows = {row["id"] for row in last.snapshot().rows("person")}
        assert set(acknowledged) <= rows <= set(acknowledged) | unknown, ends
        authors = {manifest.id: manifest.author for manifest in last.log()}
        for number, id_ in acknowledged.items():
            assert authors[id_] == f"writer {number}", "the chain has it where the writer was acknowledged"
        assert isinstance(last.write(lambda txn: txn.append("person", [{"id": 99}])), Published), "no wedge"
        assert verify(last).faults == ()


@pytest.mark.parametrize("safeguard", ["", "epoch-check"])
def test_without_the_epoch_check_two_processes_wedge(url: str, safeguard: str, tmp_path: Path) -> None:
    """The old writer is paused before its head; its successor finds nothing to undo, and is blocked by it."""
    with _started("halt", url, safeguard, str(tmp_path)) as old:
        _wait_for(tmp_path / "head", old)
        successor = Catalog.open(url, author="new", safeguards=without(safeguard or None))
        (tmp_path / "go-head").touch()
        _wait_for(tmp_path / "manifest", old)
        old.kill()
        old.wait(timeout=30)
    with successor:
        for id_ in (2, 3):
            draft = successor.draft()
            draft.append("person", [{"id": id_, "name": "new"}])
            if safeguard:
                with pytest.raises(HeadAhead, match="recovery required"):
                    successor.publish(draft)
            else:
                assert isinstance(successor.publish(draft), Published)
    if safeguard:
        with Catalog.open(url, author="another", mode="join", safeguards=without(safeguard)) as other:
            draft = other.draft()
            draft.append("person", [{"id": 4, "name": "new"}])
            with pytest.raises(HeadAhead):
                other.publish(draft)


@pytest.mark.parametrize("count", [2, 3, 5, 12])
@pytest.mark.parametrize(
    ("safeguard", "first", "others"), [("", "Unknown", "Fenced"), ("epoch-check", "Published", "HeadAhead")]
)
def test_without_the_epoch_check_one_of_many_commits_and_the_others_wedge(
    url: str, count: int, safeguard: str, first: str, others: str, tmp_path: Path
) -> None:
    """All have staged when another process takes over and retires their sidecars, since nothing has moved.
    One creates its head, which no sidecar explains. With the check all of them know that they are fenced.
    """
    with ExitStack() as running:
        numbers = [str(number) for number in range(count)]
        words = [["gated", url, number, safeguard, str(tmp_path)] for number in numbers]
        writers = [running.enter_context(_started(*one, stdout=subprocess.PIPE)) for one in words]
        for number, writer in zip(numbers, writers, strict=True):
            _wait_for(tmp_path / f"head-{number}", writer)
        with Catalog.open(url, author="heir", safeguards=without(safeguard or None)) as heir:
            assert [notice.done for notice in heir.notices] == ["retired"] * count
        (tmp_path / "go-head-0").touch()
        _wait_for(tmp_path / "manifest-0", writers[0])
        for number in numbers[1:]:
            (tmp_path / f"go-head-{number}").touch()
        ends = [_result_of(writer) for writer in writers[1:]]
        (tmp_path / "go-manifest-0").touch()
        ends.insert(0, _result_of(writers[0]))
    assert [end["ended"] for end in ends] == [first, *[others] * (count - 1)]
    with Catalog.open(url, author="last") as last:
        assert bool(safeguard) == any(row["id"] == 0 for row in last.snapshot().rows("person"))
        assert isinstance(last.write(lambda txn: txn.append("person", [{"id": 99}])), Published)
        assert verify(last).faults == ()


def _result_of(writer: "subprocess.Popen[bytes]") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(writer.communicate(timeout=SECONDS_MAX)[0])
    return found


def _race(url: str, mode: str, count: int, start: Path) -> list[dict[str, Any]]:
    writers = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), "race", url, str(number), mode, str(start)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        for number, writer in enumerate(writers):
            _wait_for(Path(f"{start}.ready-{number}"), writer)
        start.touch()
        printed = [writer.communicate(timeout=SECONDS_MAX)[0] for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    return [json.loads(line) for line in printed]


@contextmanager
def _started(*words: str, stdout: int | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, str(SCRIPT), *words], stdout=stdout) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for(file: Path, process: "subprocess.Popen[Any]") -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not file.exists():
        assert process.poll() is None, "the writer ended by itself"
        assert time.monotonic() < deadline, f"the writer did not make {file}"
        time.sleep(0.005)
