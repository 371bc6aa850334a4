"""Several processes on one directory: one winner, no lost update, nothing torn by a kill."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fencepost.impl.store.files import FileStore
from fencepost.impl.store.requests import ANYTHING

pytestmark = pytest.mark.server
HERE = Path(__file__).parent


class Racers:
    """Processes that do the same at the same time."""

    def __init__(self, root, count, variant=""):
        self.processes = [
            subprocess.Popen(
                [sys.executable, HERE / "racer.py", root, *([variant] if variant else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(count)
        ]

    def all(self, line):
        for number, process in enumerate(self.processes):
            process.stdin.write(line.format(number) + "\n")
            process.stdin.flush()
        return [process.stdout.readline().strip() for process in self.processes]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stdin.close()
            process.stdout.close()
            process.wait(timeout=20)


def race(root, processes, rounds, variant="", enough=None):
    """Rounds that did not have exactly one winner whose body stands; looks for no more than `enough`."""
    error = []
    store = FileStore(root)
    with Racers(root, processes, variant) as racers:
        for number in range(rounds):
            outcomes = racers.all(f"create race/{number % 7}/{number} {{}}")
            winners = [who for who, outcome in enumerate(outcomes) if outcome == "done"]
            stands = store.get(f"race/{number % 7}/{number}").body
            if (
                len(winners) != 1
                or stands != str(winners[0]).encode()
                or not set(outcomes) <= {"done", "exists"}
            ):
                error.append((number, outcomes, stands))
                if len(error) == enough:
                    break
            if number % 3 == 0:  # empties the folder now and then, under the racers
                store.delete(f"race/{number % 7}/{number}", when=ANYTHING)
    return error


def count(root, processes, each, variant=""):
    store = FileStore(root)
    store.put("counters/n", b"0", when=ANYTHING)
    with Racers(root, processes, variant) as racers:
        assert set(racers.all(f"add counters/n {each}")) == {"done"}
    return int(store.get("counters/n").body)


def test_of_racing_creators_exactly_one_wins(tmp_path):
    """If this fails, two writers own the same manifest."""
    assert race(str(tmp_path), 3, 40) == []


def test_no_increment_is_lost(tmp_path):
    """If this fails, if-match overwrites what it never saw."""
    assert count(str(tmp_path), 3, 20) == 60


@pytest.mark.slow
def test_of_eight_racing_creators_exactly_one_wins_200_times(tmp_path):
    assert race(str(tmp_path), 8, 200) == []


@pytest.mark.slow
def test_eight_processes_lose_no_increment(tmp_path):
    assert count(str(tmp_path), 8, 200) == 1600


def test_checking_before_renaming_is_caught(tmp_path):
    """The race test must find the classic mistake."""
    assert race(str(tmp_path), 4, 4000, "check-then-rename", enough=1), "a busy machine hides it for a while"


def test_counting_without_a_lock_is_caught(tmp_path):
    """The counter test must find missing mutual exclusion."""
    assert any(count(str(tmp_path), 4, 60, "no-lock") < 240 for _ in range(20))


def kill(root, kills, seed, variant=""):
    done = subprocess.run(
        [sys.executable, HERE / "killer.py", root, str(kills), str(seed), *([variant] if variant else [])],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def disk():
    """Where kills strike more writes: in memory, when there is such a file system. A kill loses no page."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=base) as root:
        yield root


@pytest.mark.parametrize("variant", ["", "by-steps", "side-files"])
def test_a_kill_leaves_the_old_or_the_new_object(disk, variant):
    """If this fails, a crash tears an object, loses an acknowledged write, or mixes attributes."""
    assert kill(disk, 25, 1, variant).startswith("ok")


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["", "by-steps", "side-files"])
def test_two_hundred_kills_leave_nothing_torn_and_nothing_behind(disk, variant):
    assert kill(disk, 200, 2, variant).startswith("ok")
    drafts = Path(disk, ".fencepost", "tmp")
    assert len(list(drafts.iterdir())) <= 200 * 2
    store = FileStore(disk, temp_age_s=0)
    store.verify()
    assert list(drafts.iterdir()) == []
    sides = Path(disk, ".fencepost", "attributes")
    objects = sum(len(page.objects) for page in store.pages())
    assert not sides.exists() or len(list(sides.iterdir())) == objects


@pytest.mark.slow
def test_two_hundred_kills_on_the_disk_itself(tmp_path):
    assert kill(str(tmp_path), 200, 3).startswith("ok")


@pytest.mark.parametrize("variant", ["in-place", "attributes-last"])
def test_a_kill_finds_what_is_not_atomic(disk, variant):
    """The kill test must find torn objects and lost attributes."""
    found = kill(disk, 150, 4, variant)
    assert found.startswith("after kill"), found
