"""The files of a recorder: nothing that was accepted is lost, nothing blocks, and gaps are recorded."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.impl.recording import Recorder
from fencepost.impl.recording.files import BEGIN, GAP, Sizes
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.events import Event
from fencepost.sim.trace import batches, discover, events_of


def read(folder: Path) -> list[Event]:
    problems: list[object] = []
    events = [event for table in batches(discover([folder]), problems.append) for event in events_of(table)]
    assert problems == []
    return events


def requests(folder: Path) -> list[Event]:
    return sorted((one for one in read(folder) if one.phase == "request"), key=lambda event: event.seq)


def put(recorder: Recorder, key: str, run: str = "b") -> bool:
    return recorder.emit("request", "put", key, recorder.next_op(), {"size": 3}, run=run)


def test_what_was_accepted_is_read_before_it_is_in_the_file(tmp_path: Path) -> None:
    """A reader of a live trace sees the queue, too."""
    recorder = Recorder(tmp_path, "ann")
    with recorder._draining:
        for number in range(20):
            assert put(recorder, f"k{number}")
        assert [event.key for event in requests(tmp_path)] == [f"k{number}" for number in range(20)]
    recorder.close()
    assert [event.seq for event in requests(tmp_path)] == list(range(1, 21))


def test_files_rotate_and_every_event_is_in_one(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "ann", Sizes(rotate_bytes=2000))
    for number in range(200):
        assert put(recorder, f"k{number}", run=f"b{number % 2}")
        if not number % 20:
            recorder.flush()
    recorder.close()
    assert len(list(tmp_path.glob("ann-0-*.jsonl"))) > 5
    assert not list(tmp_path.glob("*.open"))
    found = read(tmp_path)
    for run in ("b0", "b1"):
        mine = [one for one in found if one.run == run and one.kind != BEGIN]
        assert sorted(one.seq for one in mine) == list(range(1, 101))


def test_each_run_begins_anew_in_each_file(tmp_path: Path) -> None:
    """So the events of two recorders are not taken for those of one counter, whatever was shipped away."""
    recorder = Recorder(tmp_path, "ann", Sizes(rotate_bytes=500))
    for number in range(20):
        put(recorder, f"k{number}")
        recorder.flush()
    recorder.close()
    for path in tmp_path.glob("ann-*.jsonl"):
        first = read(path)[0]
        assert (first.kind, first.seq, first.run) == (BEGIN, 0, "b")


def test_a_full_queue_drops_and_names_the_keys(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "ann", Sizes(queue_bytes=4096))
    with recorder._draining:
        accepted = [put(recorder, f"k{number:03}") for number in range(100)]
    assert accepted[:10] == [True] * 10
    assert not accepted[-1]
    while not put(recorder, "later"):
        recorder.flush()
    recorder.close()
    dropped = {f"k{number:03}" for number, kept in enumerate(accepted) if not kept}
    gaps = {one.key: one.size for one in read(tmp_path) if one.kind == GAP}
    assert gaps.pop("later", 1) >= 1
    assert gaps == dict.fromkeys(dropped, 1)
    assert recorder.dropped >= len(dropped)


def test_a_disk_that_hangs_blocks_no_caller(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "ann", Sizes(queue_bytes=8192))
    with recorder._draining:
        caller = threading.Thread(target=lambda: [put(recorder, "k") for _ in range(5000)])
        caller.start()
        caller.join(10)
        assert not caller.is_alive()
    recorder.close()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[tuple[Recorder, Callable[[], None]]]:
    """A recorder whose file is on a full disk, and what makes room there."""
    recorder = Recorder(tmp_path, "ann", Sizes(queue_bytes=8192))
    recorder.flush()
    kept, full = os.dup(recorder._file), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, recorder._file)
    yield recorder, lambda: os.dup2(kept, recorder._file) and None
    os.close(kept)
    os.close(full)


def test_a_full_disk_costs_no_time_and_its_gap_is_named(
    full_disk: tuple[Recorder, Callable[[], None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer does not try again and again, however full the queue is."""
    recorder, make_room = full_disk
    tries = []
    drain = recorder._drain
    monkeypatch.setattr(recorder, "_drain", lambda: (tries.append(1), drain()))
    accepted = [put(recorder, f"k{number}") for number in range(300)]
    assert accepted[0]
    assert not accepted[-1]
    threading.Event().wait(0.3)
    put(recorder, "another")
    assert len(tries) <= 3
    make_room()
    recorder.flush()
    recorder.close()
    found = read(tmp_path)
    assert [one.key for one in found if one.kind == "put"] == [f"k{n}" for n in range(sum(accepted))]
    assert {one.key for one in found if one.kind == GAP} == {
        *(f"k{number}" for number in range(sum(accepted), 300)),
        "another",
    }


def test_a_recorder_that_ends_on_a_full_disk_leaves_its_queue(
    full_disk: tuple[Recorder, Callable[[], None]], tmp_path: Path
) -> None:
    recorder, _ = full_disk
    for number in range(10):
        put(recorder, f"k{number}")
    recorder.close()
    assert [one.key for one in requests(tmp_path)] == [f"k{number}" for number in range(10)]
    Recorder(tmp_path, "ann").close()
    assert [one.key for one in requests(tmp_path)] == [f"k{number}" for number in range(10)]


def test_a_fifo_in_place_of_a_file_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".ann.queue")
    with pytest.raises(Unusable, match="cannot record to"):
        Recorder(tmp_path, "ann")
    os.mkfifo(tmp_path / "bob-0-000001.jsonl.open")
    recorder = Recorder(tmp_path, "bob")
    assert put(recorder, "k")
    recorder.close()
    assert '"key":"k"' in (tmp_path / "bob-1-000001.jsonl").read_text()


def test_a_forked_child_that_cannot_record_leaves_the_parents_files_alone(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    recorder = Recorder(folder, "ann")
    put(recorder, "before")
    folder.rename(tmp_path / "moved")
    folder.write_text("no folder")
    child = os.fork()
    if not child:
        os._exit(0 if put(recorder, "in the child") is False else 1)
    assert os.waitpid(child, 0)[1] == 0
    folder.unlink()
    (tmp_path / "moved").rename(folder)
    put(recorder, "after")
    recorder.close()
    assert [one.key for one in requests(folder)] == ["before", "after"]


def test_old_files_are_removed_which_is_a_gap(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "ann", Sizes(rotate_bytes=1000, kept_bytes=5000))
    for number in range(400):
        put(recorder, f"k{number}")
        if not number % 5:
            recorder.flush()
    recorder.close()
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) < 8000
    assert any(one.kind == GAP and not one.key for one in read(tmp_path))


def test_the_next_life_completes_the_last(tmp_path: Path) -> None:
    lives = [Recorder(tmp_path, "ann")]
    put(lives[0], "one")
    lives[0].close()
    lives.append(Recorder(tmp_path, "ann"))
    put(lives[1], "two")
    lives[1].close()
    assert [(one.key, one.incarnation) for one in read(tmp_path) if one.phase == "request"] == [
        ("one", 0),
        ("two", 1),
    ]


def test_a_name_belongs_to_one_living_process(tmp_path: Path) -> None:
    first = Recorder(tmp_path, "ann")
    second = Recorder(tmp_path, "ann")
    assert (first.process, second.process) == ("ann", f"ann-{os.getpid()}")
    with pytest.raises(Unusable, match="recorded already"):
        Recorder(tmp_path, "ann")
    first.close()
    second.close()


def test_a_torn_line_is_counted(tmp_path: Path) -> None:
    """After the loss of power, or a copy that was cut."""
    with Recorder(tmp_path, "ann") as recorder:
        put(recorder, "one")
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b'{"run":"b","seq":2,"t_')
    problems: list[object] = []
    assert sum(len(table) for table in batches([path], problems.append)) == 2
    assert len(problems) == 1
    assert "is no event" in str(problems[0])


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unusable, match="give another folder"):
        Recorder(tmp_path / folder, "ann")


_WRITER = """
import sys
from fencepost.impl.recording import Recorder
from fencepost.impl.recording.files import Sizes
recorder = Recorder(sys.argv[1], "ann", Sizes(rotate_bytes=20000))
number = 0
while True:
    recorder.emit("request", "put", f"k{number}", number, run="b")
    print(number, flush=True)
    number += 1
"""


@pytest.mark.server
@pytest.mark.parametrize("reopened", [False, True])
def test_kill_9_loses_nothing_that_was_accepted(tmp_path: Path, reopened: bool) -> None:
    """The queue is the kernel's: both a reader and the next life of the process find its end."""
    for life in range(8):
        command = [sys.executable, "-c", _WRITER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            last = -1
            for line in process.stdout:
                last = int(line)
                if last >= 37 * (life + 1):
                    break
            process.send_signal(signal.SIGKILL)
            last = max([last, *map(int, process.stdout.read().split())])
        if reopened:
            Recorder(tmp_path, "ann").close()
        mine = 2 * life if reopened else life
        keys = [one.key for one in requests(tmp_path) if one.incarnation == mine]
        assert keys[: last + 1] == [f"k{number}" for number in range(last + 1)]
        assert len(keys) <= last + 2


@pytest.mark.server
def test_a_forked_child_has_files_of_its_own(tmp_path: Path) -> None:
    script = f"""
import os
from fencepost.impl.recording import Recorder
recorder = Recorder({str(tmp_path)!r}, "ann")
recorder.emit("request", "put", "parent", 0, run="b")
if not os.fork():
    recorder.emit("request", "put", "child", 1, run="b")
    recorder.close()
    os._exit(0)
os.wait()
recorder.emit("request", "put", "after", 2, run="b")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)
    found = {one.key: one.process for one in requests(tmp_path)}
    assert found["parent"] == found["after"] == "ann"
    assert found["child"].startswith("ann-")
