"""A limit on memory with a directory to spill to changes where things are, and nothing that is found."""

import errno
import os
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fencepost.model import BadSettings, ModelError, Truth, always_recoverable, check, eventually
from fencepost.model.kernel.decision import Decision
from fencepost.model.kernel.language.errors import NoRoom
from fencepost.model.kernel.language.kinds import Judged
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.search.explore import Bounds, Explorer, Search
from fencepost.model.kernel.search.spill import Shelf, is_on_disk, resident
from fencepost.model.textbook.two_phase import TwoPhase


class Live(TwoPhase):
    @eventually(fair=("commit", "abort", "hear_abort", "hear_commit"))
    def ends(s) -> Truth:
        return s.finished()

    @always_recoverable
    def can_commit(s) -> Truth:
        return s.manager.all("committed")


@pytest.fixture(autouse=True)
def _no_least_memory(monkeypatch) -> None:
    """Limits of a few bytes, so that small spaces reach them."""
    monkeypatch.setattr("fencepost.model.kernel.search.explore.LEAST_MEMORY", 1)


def found(result):
    return replace(result, seconds=0, peak_bytes=0, notes=())


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("without", [(), ("all-prepared",)])
@pytest.mark.parametrize("sizes", [{"managers": 5}, {"managers": 20}])
def test_a_tiny_limit_finds_the_same(tmp_path, sizes, without, workers) -> None:
    options = {"without": without, "keep_going": True, "workers": workers}
    if sizes["managers"] == 20:
        options |= {"max_depth": 4}
    plain = check(TwoPhase, sizes, **options)
    spilled = check(TwoPhase, sizes, memory=1_000, spill=tmp_path, **options)
    assert found(spilled) == found(plain)
    assert plain.notes == ()
    (note,) = spilled.notes
    assert note.startswith("the memory limit of 1,000 bytes was reached: ")
    assert note.endswith(f" bytes went to {tmp_path}")
    assert spilled.peak_bytes < plain.peak_bytes
    assert list(tmp_path.iterdir()) == []


def explored_again(model: Model) -> Search:
    raise AssertionError("a property of the whole space needs no second exploration")


def test_properties_of_whole_runs_read_spilled_levels(tmp_path) -> None:
    model = Model(Live, {"managers": 5})
    plain = Explorer(model, properties=()).run()
    spilled = Explorer(model, properties=(), bounds=Bounds(memory=1_000, spill=tmp_path)).run()
    assert spilled.spilled_bytes > 0
    verdicts = {}
    for wanted in model.properties:
        if wanted.kind.judged is Judged.AFTERWARDS:
            verdicts[wanted.name] = wanted.kind.decide(wanted, Decision(plain, plain, explored_again))
            assert (
                wanted.kind.decide(wanted, Decision(spilled, spilled, explored_again))
                == (verdicts[wanted.name])
            )
    assert (verdicts["ends"].verdict, verdicts["can_commit"].verdict) == ("holds", "violated")


def test_symmetry_spills_as_well(tmp_path) -> None:
    plain = check(TwoPhase, {"managers": 5}, symmetry=True)
    spilled = check(TwoPhase, {"managers": 5}, symmetry=True, memory=500, spill=tmp_path)
    assert found(spilled) == found(plain)
    assert len(spilled.notes) == 3


def test_a_limit_that_is_not_reached_spills_nothing(tmp_path) -> None:
    result = check(TwoPhase, {"managers": 3}, memory=10_000_000, spill=tmp_path)
    assert result.notes == ()


def test_levels_behind_the_frontier_are_on_disk_and_counted(tmp_path) -> None:
    reports = []
    bounds = Bounds(memory=1_000, spill=tmp_path)
    explorer = Explorer(Model(TwoPhase, {"managers": 5}), bounds=bounds, progress=reports.append)
    search = explorer.run()
    assert search.complete
    assert explorer._visited.nbytes <= 1_000
    assert all(is_on_disk(level) for level in search.levels if level.nbytes > 1_000)
    assert sum(resident(level) for level in search.levels) < 2_000
    assert search.spilled_bytes >= sum(level.nbytes for level in search.levels if is_on_disk(level))
    assert reports[-1].spilled_bytes == search.spilled_bytes
    assert max(progress.held_bytes for progress in reports) < 16 * search.distinct


@pytest.mark.parametrize("memory", [1_000, 20_000, 60_000])
def test_levels_that_a_record_had_are_moved_to_disk(tmp_path, memory) -> None:
    model = Model(TwoPhase, {"managers": 5})
    whole = Explorer(model, resume=tmp_path / "record").run()
    held = []
    bounds = Bounds(memory=memory, spill=tmp_path)
    options = {"resume": tmp_path / "record", "progress": lambda report: held.append(report.held_bytes)}
    search = Explorer(model, bounds=bounds, **options).run()
    assert search.resumed == len(whole.levels)
    assert [level.tolist() for level in search.levels] == [level.tolist() for level in whole.levels]
    assert max(held) <= memory
    assert sum(resident(level) for level in search.levels) <= memory


def test_large_merges_are_made_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("fencepost.model.kernel.search.visited._PARALLEL", 100)
    explorer = Explorer(
        Model(TwoPhase, {"managers": 5}), bounds=Bounds(memory=100_000, spill=tmp_path), workers=2
    )
    assert explorer.run().distinct == 8_832
    assert not is_on_disk(explorer._allocate(10))
    assert is_on_disk(explorer._allocate(10_000))


def test_nothing_is_left_behind_by_an_interruption(tmp_path) -> None:
    seen = []

    def interrupt(progress) -> None:
        if progress.spilled_bytes:
            seen.append(list(tmp_path.iterdir()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(TwoPhase, {"managers": 5}, memory=1_000, spill=tmp_path, progress=interrupt)
    assert seen == [[]], "the files must have no name even while they are used"
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_directory_is_an_error_of_one_sentence(tmp_path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(
        BadSettings, match=f"cannot put explored states into {missing}: No such file or directory; "
    ):
        check(TwoPhase, memory=1_000, spill=missing)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BadSettings, match="Not a directory"):
        check(TwoPhase, memory=1_000, spill=file)


def test_a_full_disk_is_an_error_of_one_sentence(tmp_path, monkeypatch) -> None:
    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoRoom, match=r"cannot put 16,777,216 bytes .* No space left on device; give another"):
        check(TwoPhase, {"managers": 5}, memory=1_000, spill=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert issubclass(NoRoom, ModelError)


def test_a_file_size_limit_is_an_error_before_anything_is_written(tmp_path) -> None:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, old[1]))
    try:
        with pytest.raises(NoRoom, match="File too large"):
            Shelf(tmp_path).keep(np.arange(10, dtype=np.uint64))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_without_fallocate_the_space_is_written_first(tmp_path, monkeypatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    kept = Shelf(tmp_path).keep(np.arange(10, dtype=np.uint64).reshape(2, 5))
    assert is_on_disk(kept)
    assert kept.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert not kept.flags.writeable


def test_many_small_arrays_share_a_file_and_a_large_one_has_its_own(tmp_path) -> None:
    shelf = Shelf(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else None
    kept = [shelf.keep(np.full(100, number, np.uint64)) for number in range(2_000)]
    large = shelf.keep(np.arange((1 << 21) + 1, dtype=np.uint64))
    if before is not None:
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2
    assert [int(array.sum()) for array in kept] == [100 * number for number in range(2_000)]
    assert int(large[-1]) == 1 << 21
    assert shelf.nbytes == 8 * (200_000 + (1 << 21) + 1)
