"""The change log notices whatever it lost, is pruned for nobody's loss, and has as many nodes as it needs."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.change_log import ChangeLog, Event, Hole
from fencepost.impl.objects.maintenance import Maintenance
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import ANYTHING

BUCKET = "bucket-one"
DAY_NS = 86_400 * 10**9
NOON = 1_700_049_600 * 10**9
"""2023-11-15 12:00."""


class Clock(SystemEnvironment):
    def __init__(self, ns: int) -> None:
        super().__init__()
        self.ns = ns

    def now_ns(self) -> int:
        return self.ns


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def buckets(tmp_path: Path, clock: Clock) -> Iterator[Buckets]:
    found = Buckets(str(tmp_path), clock)
    found.create(BUCKET)
    reconcile(found)
    yield found
    found.close()


def put(buckets: Buckets, *keys: str) -> None:
    for key in keys:
        buckets.store(BUCKET).put(key, b"x", when=ANYTHING)
    buckets.log.flush(buckets.index)


def put_on_days(buckets: Buckets, clock: Clock, count: int) -> list[Event]:
    """One event on each of so many days, from the 15th on."""
    for number in range(count):
        clock.ns = NOON + number * DAY_NS
        put(buckets, f"k{number}")
    return list(buckets.log.events(buckets.index))


def log_folder(buckets: Buckets) -> Path:
    return Path(buckets.root, ".log")


def remove_day(buckets: Buckets, day: str) -> None:
    for path in (log_folder(buckets) / day).iterdir():
        path.unlink()
    (log_folder(buckets) / day).rmdir()


def rot_a_line(buckets: Buckets) -> None:
    (path,) = (log_folder(buckets) / "2023-11-17").iterdir()
    path.write_bytes(path.read_bytes().replace(b'"k2"', b'"kx"'))


def remove_everything(buckets: Buckets) -> None:
    for day in buckets.log.days():
        remove_day(buckets, day)


LOSSES: dict[str, tuple[Callable[[Buckets], None], int]] = {
    "first-day": (lambda buckets: remove_day(buckets, "2023-11-15"), 0),
    "day-between": (lambda buckets: remove_day(buckets, "2023-11-17"), 2),
    "last-day": (lambda buckets: remove_day(buckets, "2023-11-19"), 4),
    "a-line": (rot_a_line, 2),
    "everything": (remove_everything, 4),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_reader_stops_in_front_of_what_is_missing(name: str, buckets: Buckets, clock: Clock) -> None:
    """Wherever it is; nothing else of the log says so."""
    known = put_on_days(buckets, clock, 5)
    lose, missing = LOSSES[name]
    lose(buckets)
    seen = []
    events = buckets.log.events(buckets.index)
    with pytest.raises(Hole) as caught:
        seen.extend(event.key for event in events)
    assert caught.value.until_ns == known[missing].ts_ns
    before = 0 if name == "everything" else missing
    assert seen == [f"k{number}" for number in range(before)]
    later = known[missing].ts_ns
    assert [one.key for one in buckets.log.events(buckets.index, later)] == [
        one.key for one in known[missing + 1 :]
    ]


def test_what_other_processes_have_not_written_yet_is_no_gap(buckets: Buckets, clock: Clock) -> None:
    """Their events are in the outbox, before some that are in the log already."""
    other = Buckets(buckets.root, clock)
    try:
        put(buckets, "a")
        other.store(BUCKET).put("b", b"x", when=ANYTHING)
        put(buckets, "c")
        assert [one.key for one in buckets.log.events(buckets.index)] == ["a"]
        other.log.flush(other.index)
        assert [one.key for one in buckets.log.events(buckets.index)] == ["a", "b", "c"]
    finally:
        other.close()


def test_a_gap_in_front_of_what_is_not_written_yet_is_one(buckets: Buckets, clock: Clock) -> None:
    known = put_on_days(buckets, clock, 2)
    buckets.store(BUCKET).put("later", b"x", when=ANYTHING)
    remove_day(buckets, "2023-11-16")
    with pytest.raises(Hole) as caught:
        list(buckets.log.events(buckets.index))
    assert caught.value.until_ns == known[1].ts_ns


def test_a_log_without_an_index_has_no_gap(buckets: Buckets, clock: Clock) -> None:
    """The index is derived: one that begins anew goes on behind the log."""
    put_on_days(buckets, clock, 2)
    buckets.close()
    for path in sorted(Path(buckets.root, ".index").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    again = Buckets(buckets.root, clock)
    try:
        reconcile(again)
        put(again, "more")
        assert [one.key for one in again.log.events(again.index)][-1] == "more"
    finally:
        again.close()


# Pruning.


def test_pruning_removes_days_and_says_where_the_log_begins(buckets: Buckets, clock: Clock) -> None:
    put_on_days(buckets, clock, 5)
    pruned = buckets.log.prune("2023-11-18")
    assert (pruned.days, pruned.begins, pruned.held_by) == (3, "2023-11-18", "")
    assert buckets.log.days() == ["2023-11-18", "2023-11-19"]
    assert datetime.fromtimestamp(buckets.log.begins_ns() / 1e9, UTC).isoformat()[:10] == "2023-11-18"
    assert [one.key for one in buckets.log.events(buckets.index)] == ["k3", "k4"]
    assert buckets.log.prune("2023-11-18").days == 0


def test_nothing_is_pruned_that_a_reader_has_not_passed(buckets: Buckets, clock: Clock) -> None:
    known = put_on_days(buckets, clock, 5)
    buckets.log.hold("fast", known[4].ts_ns)
    buckets.log.hold("slow/1", known[1].ts_ns)
    pruned = buckets.log.prune("2023-11-19")
    assert (pruned.days, pruned.begins, pruned.held_by) == (1, "2023-11-16", "slow/1")
    assert [one.key for one in buckets.log.events(buckets.index, known[1].ts_ns)] == ["k2", "k3", "k4"]
    assert buckets.log.prune("2023-11-19", force=True).days == 3
    buckets.log.hold("slow/1", None)
    assert list(buckets.log.readers()) == ["fast"]


@pytest.mark.parametrize("day", ["2023-11-31", "yesterday", "2023-11-19x", "../../etc"])
def test_what_is_no_day_is_refused(day: str, buckets: Buckets) -> None:
    with pytest.raises(Misuse, match="write it as"):
        buckets.log.prune(day)


def test_a_day_to_come_is_refused(buckets: Buckets, clock: Clock) -> None:
    """The log would be lost for every reader, until that day."""
    put_on_days(buckets, clock, 1)
    with pytest.raises(Misuse, match="in the future"):
        buckets.log.prune("2999-01-01")
    assert buckets.log.begins_ns() == 0


@pytest.mark.parametrize("step", range(6))
def test_a_kill_in_the_middle_of_pruning_loses_nothing_in_silence(
    step: int, buckets: Buckets, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each removal of a file or a folder, and before the first: the log begins behind all of them."""
    known = put_on_days(buckets, clock, 5)

    class Kill(BaseException):
        pass

    left = [step]
    unlink, rmdir = Path.unlink, Path.rmdir

    def counted(act: Callable[..., None]) -> Callable[..., None]:
        def acts(path: Path, *args: object, **named: object) -> None:
            if not left[0]:
                raise Kill
            left[0] -= 1
            act(path, *args, **named)

        return acts

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", counted(unlink))
        patch.setattr(Path, "rmdir", counted(rmdir))
        with pytest.raises(Kill):
            buckets.log.remove_before("2023-11-18")
    assert buckets.log.begins_ns() > known[2].ts_ns
    assert [one.key for one in buckets.log.events(buckets.index)] == ["k3", "k4"]
    buckets.log.prune("2023-11-18")
    assert buckets.log.days() == ["2023-11-18", "2023-11-19"]


def test_a_reader_goes_on_while_days_behind_it_are_removed(buckets: Buckets, clock: Clock) -> None:
    known = put_on_days(buckets, clock, 5)
    events = buckets.log.events(buckets.index, known[1].ts_ns)
    assert next(events).key == "k2"
    buckets.log.prune("2023-11-17")
    assert [one.key for one in events] == ["k3", "k4"]


def test_the_server_removes_days_at_their_age(buckets: Buckets, clock: Clock) -> None:
    """Every reader sees the age, so that a lifecycle leaves to scans what needs older events."""
    known = put_on_days(buckets, clock, 5)
    buckets.log.keep(2 * DAY_NS)
    assert ChangeLog(buckets.root, clock).keeps_ns == 2 * DAY_NS
    buckets.log.hold("slow", known[1].ts_ns)
    maintenance = Maintenance(buckets)
    maintenance.close()
    assert buckets.log.days() == ["2023-11-16", "2023-11-17", "2023-11-18", "2023-11-19"]
    buckets.log.hold("slow", None)
    Maintenance(buckets).close()
    assert buckets.log.days() == ["2023-11-17", "2023-11-18", "2023-11-19"]
    buckets.log.keep(None)
    assert (buckets.log.keeps_ns, buckets.log.prune_old()) == (None, None)


# Nodes.

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from fencepost.impl.objects.buckets import Buckets
buckets = Buckets(sys.argv[1])
print(sum(1 for _ in buckets.log.events(buckets.index)))
buckets.close()
"""


def test_a_log_of_1500_nodes_is_read_with_1024_open_files(buckets: Buckets, clock: Clock) -> None:
    """As many files as processes that wrote; none is open while another one is read."""
    put(buckets, *(f"k{number}" for number in range(3)))
    (path,) = (log_folder(buckets) / "2023-11-15").iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    for number in range(1500):
        path.with_name(f"12-00.node{number:04}-1").write_bytes(lines[number % 3])
    buckets.close()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, buckets.root], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("3", "")
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 0


def test_the_name_of_a_node_is_used_again(buckets: Buckets, clock: Clock) -> None:
    """Processes that come and go, as from cron, leave one node in the log, not one for each."""
    for number in range(5):
        clock.ns += 60 * 10**9
        again = Buckets(buckets.root, clock)
        put(again, f"k{number}")
        again.close()
    names = {path.name.partition(".")[2] for path in log_folder(buckets).glob("*/*")}
    assert len(names) == 1
    assert [one.key for one in buckets.log.events(buckets.index)] == [f"k{number}" for number in range(5)]


def test_the_name_of_a_dead_node_is_used_again_once_its_events_are_written(
    buckets: Buckets, clock: Clock
) -> None:
    dead = Buckets(buckets.root, clock)
    dead.store(BUCKET).put("left", b"x", when=ANYTHING)
    node = dead.index.node
    os.close(dead.index._alive)  # as a kill does
    dead.index._alive = -1
    put(buckets, "k")
    heir = Buckets(buckets.root, clock)
    put(heir, "more")
    assert heir.index.node == node
    assert [one.key for one in heir.log.events(heir.index)] == ["left", "k", "more"]
    heir.close()
    assert sorted(path.name for path in Path(buckets.root, ".index", "free").iterdir()) == [node]


def test_two_processes_never_have_one_name(buckets: Buckets, clock: Clock) -> None:
    first = Buckets(buckets.root, clock)
    put(first, "a")
    first.close()
    one, two = Buckets(buckets.root, clock), Buckets(buckets.root, clock)
    put(one, "b")
    put(two, "c")
    assert one.index.node != two.index.node
    one.close()
    two.close()
