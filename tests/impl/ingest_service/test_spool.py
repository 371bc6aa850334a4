"""The agent's queue: added batches survive any crash, in order, and no number repeats."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import Identity, encode
from fencepost.impl.ingest.service.spool import Batch, Spool, SpoolError, SpoolFull


def opened(path: Path, *, bytes_max: int = 1000, seed: int = 0) -> Spool:
    return Spool(path / "spool", "agent-a", env=SeededEnvironment(seed), bytes_max=bytes_max)


def add(spool: Spool, count: int = 1) -> Batch:
    return spool.add(count, lambda start, end: f"{start}-{end}".encode())


def names(spool: Spool) -> list[tuple[str, int]]:
    found = []
    while batch := spool.first():
        found.append((batch.boot_id, batch.seq_start))
        spool.done(batch)
    return found


def test_batches_keep_their_order_across_openings(tmp_path: Path) -> None:
    boots = []
    for _ in range(12):  # past 9, where the order of text and of numbers part
        with opened(tmp_path) as spool:
            boots.append(spool.boot_id)
            for _ in range(11):
                add(spool, 3)
    with opened(tmp_path) as spool:
        assert names(spool) == [(boot, 1 + 3 * at) for boot in boots for at in range(11)]
        assert spool.bytes_used == 0


def test_no_identity_repeats(tmp_path: Path) -> None:
    """A repeated number names other bytes: a conflict, or a false duplicate."""
    seen = set()
    for at in range(6):
        with opened(tmp_path, seed=at) as spool:
            batch = add(spool)
            seen.add((batch.boot_id, batch.seq_start))
            spool.done(batch)
        if at == 2:  # the count of openings is lost, too
            (tmp_path / "spool" / "boots").unlink()
        if at == 4:
            (tmp_path / "spool" / "boots").write_text("x")
    assert len(seen) == 6


def test_a_failed_add_uses_up_its_numbers(tmp_path: Path) -> None:
    with opened(tmp_path, bytes_max=8) as spool:
        assert add(spool, 2).seq_end == 2
        with pytest.raises(SpoolFull, match="holds 3 bytes and may hold 8"):
            spool.add(5, lambda start, end: b"123456")
        assert add(spool).seq_start == 8


def test_parked_batches_count_against_the_limit_and_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path, bytes_max=8) as spool:
        first, second = add(spool), add(spool)
        spool.park(first, {"why": "conflict"})
        assert spool.first() == second
        with pytest.raises(SpoolFull):
            spool.add(1, lambda *_: b"123")
    with opened(tmp_path, bytes_max=8) as spool:
        assert spool.parked() == [first]
        assert spool.why(first) == {"why": "conflict"}
        assert spool.frame(first) == b"1-1"
        with pytest.raises(SpoolFull):
            spool.add(1, lambda *_: b"123")
        spool.drop(first)
        spool.add(1, lambda *_: b"123")
        assert list((tmp_path / "spool" / "parked").iterdir()) == []


def test_a_requeued_batch_takes_its_old_place(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        batches = [add(spool) for _ in range(3)]
        spool.park(batches[0], {})
        spool.requeue(batches[0])
        assert names(spool) == [(batch.boot_id, batch.seq_start) for batch in batches]


def test_drafts_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "spool" / "drafts" / "half").write_bytes(b"x" * 100)
    with opened(tmp_path) as spool:
        assert (len(spool), spool.bytes_used) == (0, 0)
        assert not list((spool.path / "drafts").iterdir())


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(SpoolError, match="another process uses"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_a_spool_belongs_to_one_agent(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(SpoolError, match="belongs to 'agent-a', not to 'agent-b'"):
        Spool(tmp_path / "spool", "agent-b")
    (tmp_path / "spool" / "agent.json").write_text("[]")
    with pytest.raises(SpoolError, match="names no owner"):
        opened(tmp_path)


def test_a_foreign_file_is_reported(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "spool" / "queue" / "mine.lmbatch").touch()
    with pytest.raises(SpoolError, match=r"mine\.lmbatch is not a file of the spool"):
        opened(tmp_path)


def test_a_folder_that_cannot_be_created_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "spool").touch()
    with pytest.raises(SpoolError, match="cannot be used"):
        opened(tmp_path)


KILLED = """
import sys
from fencepost.impl.ingest.service.spool import Spool
spool = Spool(sys.argv[1], "agent-a")
while True:
    batch = spool.add(1, lambda start, end: b"x" * 5000)
    print(batch.name, flush=True)
"""


@pytest.mark.server
@pytest.mark.parametrize("lines", [1, 7, 40])
def test_added_batches_survive_a_kill(tmp_path: Path, lines: int) -> None:
    """Once `add` has returned, the batch survives any end of the process, whole."""
    printed = []
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "spool")], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            printed += [process.stdout.readline().strip() for _ in range(lines)]
            process.send_signal(signal.SIGKILL)
            printed += process.stdout.read().split()
    with Spool(tmp_path / "spool", "agent-a") as spool:
        assert set(printed) <= {file.name for file in (spool.path / "queue").iterdir()}
        assert len(set(printed)) == len(printed)
        assert not list((spool.path / "drafts").iterdir())
        while batch := spool.first():
            assert spool.frame(batch) == b"x" * 5000
            spool.done(batch)


def test_the_note_of_a_parked_batch_may_be_missing(tmp_path: Path) -> None:
    """A crash between the two leaves the batch parked."""
    with opened(tmp_path) as spool:
        batch = add(spool)
        spool.park(batch, {"why": "x"})
        note = tmp_path / "spool" / "parked" / f"{batch.name}.json"
        assert json.loads(note.read_text()) == {"why": "x"}
        note.unlink()
        assert spool.why(batch) == {}


def with_frames(path: Path, agent: str = "agent-a") -> None:
    """A spool with two batches, in its queue."""
    with Spool(path / "spool", agent, env=SeededEnvironment(1)) as spool:
        for _ in range(2):
            spool.add(1, lambda start, end: encode(Identity(agent, spool.boot_id, start, end), []))


@pytest.mark.parametrize("torn", [b"", b"{", b'{"schema": "fencepost.ingest_sp'])
def test_a_torn_record_of_the_owner_is_made_anew(tmp_path: Path, torn: bytes) -> None:
    """A disk that lost power keeps the batches from being sent for ever otherwise."""
    with_frames(tmp_path)
    (tmp_path / "spool" / "agent.json").write_bytes(torn)
    with opened(tmp_path) as spool:
        assert [seq for _, seq in names(spool)] == [1, 2]
    assert Spool.owner(tmp_path / "spool") == "agent-a"


@pytest.mark.parametrize("torn", [b"", b"{", None])
def test_without_that_record_the_frames_name_the_owner(tmp_path: Path, torn: bytes | None) -> None:
    """Another agent's batches are never sent in this one's name, nor parked as its own."""
    with_frames(tmp_path, "agent-b")
    file = tmp_path / "spool" / "agent.json"
    file.unlink() if torn is None else file.write_bytes(torn)
    with pytest.raises(SpoolError, match="belongs to 'agent-b'"):
        opened(tmp_path)
    assert len(list((tmp_path / "spool" / "queue").iterdir())) == 2


def test_another_kind_of_record_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir(mode=0o700)
    file = tmp_path / "spool" / "agent.json"
    file.write_text('{"schema": "of.another.program"}')
    with pytest.raises(SpoolError, match="names no owner"):
        opened(tmp_path)
    assert file.read_text() == '{"schema": "of.another.program"}'
