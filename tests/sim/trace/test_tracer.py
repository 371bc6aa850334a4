"""The tracer of production: nothing is lost when files turn or a process dies; bodies are never written."""

from pathlib import Path

from fencepost.impl.store import ABSENT
from fencepost.impl.store.events import Event
from fencepost.impl.store.layers import Traced
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.trace import Rotating, TracedStore, batches, discover, events_of


def read(folder: Path) -> list[Event]:
    problems: list[object] = []
    tables = list(batches(discover([folder]), problems.append))
    assert problems == []
    return sorted((event for table in tables for event in events_of(table)), key=lambda event: event.seq)


def test_requests_and_replies_are_on_file_at_once(tmp_path: Path) -> None:
    store = TracedStore(MemoryStore(), tmp_path, process="ann", run="r")
    store.put("k", b"secret body", when=ABSENT)
    found = read(tmp_path)
    assert [(e.process, e.phase, e.kind, e.outcome) for e in found] == [
        ("ann", "request", "put", ""),
        ("ann", "response", "put", "done"),
    ]
    store.close()
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_files_turn_and_every_event_is_in_one(tmp_path: Path) -> None:
    for parquet in (False, True):
        folder = tmp_path / str(parquet)
        with Rotating(folder, "ann", rotate_bytes=2000, parquet=parquet) as sink:
            store = Traced(MemoryStore(), sink, process="ann", run="r")
            for number in range(50):
                store.put(f"k{number}", b"x", when=ABSENT)
        names = sorted(path.name for path in folder.iterdir())
        assert len(names) > 5
        assert {name.partition(".")[2] for name in names} == {"parquet" if parquet else "jsonl"}
        assert [event.seq for event in read(folder)] == list(range(100))


def test_the_next_incarnation_closes_what_a_killed_one_left(tmp_path: Path) -> None:
    """Writing on into a file whose last line is cut would lose two events instead of one."""
    first = Rotating(tmp_path, "ann")
    Traced(MemoryStore(), first, process="ann", run="r").put("k", b"x", when=ABSENT)
    second = Rotating(tmp_path, "ann")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ann-000001.jsonl", "ann-000002.jsonl.open"]
    second.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ann-000001.jsonl"]
    first.close()
