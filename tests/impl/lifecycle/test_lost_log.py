"""A log that loses events: it is noticed, scanned for at once, and events drive again without an operator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.lifecycle.log import READER, ChangeLogReader
from fencepost.impl.lifecycle.opening import Opened, open_lifecycle
from fencepost.impl.lifecycle.policy import Degraded, Mode, Timing
from fencepost.impl.lifecycle.records import ActionState
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.store.requests import ANYTHING

S = 10**9
DAY_S = 10
TIMING = Timing(day_ns=DAY_S * S, small_delay_ns=S, lookback_ns=S)
RULE = [{"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]
BUCKET = "bucket-one"


class Directory:
    def __init__(self, root: str, opened: Opened, env: SeededEnvironment) -> None:
        self.root, self.env = root, env
        self.worker = Worker(opened.context, opened.target, opened.log, TIMING)
        assert isinstance(opened.log, ChangeLogReader)
        self.log = opened.log
        opened.policies.put(BUCKET, RULE)
        self.service = Service(self.worker)

    def write(self, *keys: str) -> None:
        buckets = Buckets(self.root, self.env)
        for key in keys:
            buckets.store(BUCKET).put(key, b"x", when=ANYTHING)
        buckets.log.flush(buckets.index)
        buckets.close()

    def rounds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.service.round()
            self.env.sleep(1)
        assert self.service.last.failed == {}

    @property
    def keys(self) -> list[str]:
        return sorted(path.name for path in Path(self.root, BUCKET).iterdir() if path.name[0] != ".")

    @property
    def state(self) -> ActionState:
        (found,) = self.worker.records.bucket(BUCKET).actions.values()
        return found

    def remove_log(self) -> None:
        for path in Path(self.root, ".log").glob("????-??-??/*"):
            path.unlink()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    # The files have the times of the system.
    env = SeededEnvironment(1, SystemEnvironment().now_ns() + S)
    buckets = Buckets(str(tmp_path), env)
    buckets.create(BUCKET)
    reconcile(buckets)
    buckets.close()
    with open_lifecycle(str(tmp_path), env) as opened:
        yield Directory(str(tmp_path), opened, env)


def test_days_that_vanish_are_noticed_and_nothing_is_forgotten(directory: Directory) -> None:
    directory.rounds(1)
    assert directory.state == ActionState(Mode.EVENT_DRIVEN, Degraded.NONE, is_complete=True)
    directory.write("a", "b")
    directory.remove_log()
    directory.env.sleep(DAY_S)
    directory.rounds(2)
    assert directory.state == ActionState(Mode.SCAN_ONLY, Degraded.LOST_LOG, is_complete=True)
    directory.rounds(3)
    assert directory.keys == []  # by a walk that nobody asked for


def test_a_loss_has_the_bucket_walked_at_once(directory: Directory) -> None:
    """Though it was walked a moment ago."""
    directory.rounds(1)
    directory.write("a")
    directory.remove_log()
    lost_ns = directory.env.now_ns()
    directory.rounds(3)
    assert directory.state.reason is Degraded.LOST_LOG
    assert (directory.worker.records.bucket(BUCKET).walked_ns or 0) >= lost_ns


def test_events_drive_again_without_an_operator(directory: Directory) -> None:
    """As soon as the log reaches back as far as the rule does; until then a walk each day."""
    directory.rounds(1)
    directory.write("a")
    directory.remove_log()
    directory.rounds(3)
    assert directory.state.reason is Degraded.LOST_LOG
    directory.write("b")
    directory.env.sleep(DAY_S)
    directory.rounds(6)
    assert directory.keys == []
    assert directory.state == ActionState(Mode.EVENT_DRIVEN, Degraded.NONE, is_complete=True)
    walked_ns = directory.worker.records.bucket(BUCKET).walked_ns
    directory.write("c")
    directory.env.sleep(DAY_S)
    directory.rounds(3)
    assert directory.keys == []
    assert directory.worker.records.bucket(BUCKET).walked_ns == walked_ns


def test_a_loss_behind_the_cursors_is_none(directory: Directory) -> None:
    directory.rounds(1)
    directory.write("a")
    directory.env.sleep(DAY_S)
    directory.rounds(4)
    assert directory.keys == []
    directory.remove_log()
    directory.write("b")
    directory.env.sleep(DAY_S)
    directory.rounds(4)
    assert directory.keys == []
    assert directory.state.mode is Mode.EVENT_DRIVEN


def test_what_became_due_while_the_log_was_too_young_is_walked_for_each_day(directory: Directory) -> None:
    directory.rounds(1)
    for number in range(4):  # the log loses its newest events each day
        directory.write(f"k{number}")
        directory.remove_log()
        directory.rounds(DAY_S)
    assert directory.state.reason is Degraded.LOST_LOG
    assert len(directory.keys) <= 2


def test_the_log_keeps_what_the_slowest_cursor_needs(directory: Directory) -> None:
    directory.rounds(1)
    directory.write("a")
    directory.rounds(1)
    readers = Buckets(directory.root, directory.env)
    try:
        held_ns = readers.log.readers()[READER]
        assert 0 <= directory.env.now_ns() - held_ns <= 86_400 * S + (DAY_S + 3) * S
        directory.worker.records.pause_all("migration")
        directory.rounds(2)
        assert readers.log.readers()[READER] == held_ns
        directory.worker.target.rules(BUCKET)
    finally:
        readers.close()


def test_the_age_that_the_server_keeps_is_the_retention(directory: Directory) -> None:
    """Without an option for the worker; an action that needs more is left to scans, before any loss."""
    directory.rounds(1)
    buckets = Buckets(directory.root, directory.env)
    try:
        buckets.log.keep(3 * S)
        assert directory.log.retention_ns == 3 * S
        directory.rounds(2)
        assert directory.state.reason is Degraded.RETENTION_BELOW_HORIZON
        assert buckets.log.readers() == {}
        buckets.log.keep(None)
        directory.env.sleep(DAY_S + 2)
        directory.rounds(2)
        assert directory.state.mode is Mode.EVENT_DRIVEN
    finally:
        buckets.close()
