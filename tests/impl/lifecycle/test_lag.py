"""A stream that falls behind is left to scans before the log loses what it has not read, and not before."""

import logging

import pytest

from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import Count, Item, Stream
from fencepost.impl.lifecycle.lag import Lags
from fencepost.impl.lifecycle.log import MemoryLog
from fencepost.impl.lifecycle.operate import Refused
from fencepost.impl.lifecycle.policy import Degraded, Mode
from fencepost.impl.lifecycle.records import ActionState
from fencepost.impl.lifecycle.service import Service

from .given import BUCKET, DAY, EVERYTHING, Given, S
from .history import TAG

ALLOWED = 20 * S
KEPT = DAY + ALLOWED
TWO_DAYS = {"Status": "Enabled", "Filter": {"Prefix": "k"}, "Expiration": {"Days": 2}}
TAGGED = {"Status": "Enabled", "Filter": {"Tag": {"Key": "t", "Value": "1"}}, "Expiration": {"Days": 2}}
LAST = Item("99999999999999999999", BUCKET, "a")
DRIVEN = ActionState(Mode.EVENT_DRIVEN, Degraded.NONE, is_complete=True)
WARNED = ActionState(Mode.EVENT_DRIVEN, Degraded.LAG_HIGH, is_complete=True)
LEFT = ActionState(Mode.SCAN_ONLY, Degraded.LAG_HIGH, is_complete=True)


def behind(seconds: float, *rules: dict[str, object]) -> Given:
    """The oldest event of the ages is that much older than it has to be."""
    given = Given(*rules)
    given.log = given.worker.log = given.bucket.log = MemoryLog(("x",), KEPT)
    given.work()
    given.bucket.write("a", 1, {})
    given.env.sleep(DAY / S + seconds)
    given.flush()
    given.worker.sweep(Stream(cursors.near_key("x")))
    return given


def state(given: Given, rule: int = 0) -> ActionState:
    return given.worker.records.bucket(BUCKET).actions[given.action(rule).partition("/")[2]]


def wanted(given: Given) -> int:
    return given.worker.records.bucket(BUCKET).wanted_ns


@pytest.mark.parametrize(
    ("share", "expected", "is_wanted"),
    [
        (0, DRIVEN, False),
        (0.49, DRIVEN, False),
        (0.5, WARNED, False),
        (0.79, WARNED, False),
        (0.8, WARNED, True),
        (0.94, WARNED, True),
        (0.95, LEFT, False),
        (9, LEFT, False),
    ],
)
def test_what_follows_from_a_lag(share: float, expected: ActionState, is_wanted: bool) -> None:
    given = behind(share * ALLOWED / S)
    Lags(given.worker).act()
    assert (state(given), wanted(given) > 0) == (expected, is_wanted)


def test_it_is_measured_by_the_oldest_event_that_was_not_read() -> None:
    """A stream of a quiet shard is not behind, whatever its position."""
    given = behind(19)
    given.bucket.rows.clear()
    given.log = given.worker.log = MemoryLog(("x",), KEPT)
    given.flush()
    (ages,) = [one for one in Lags(given.worker).measure() if one.stream.delay_ns == DAY]
    assert (ages.lag_ns, ages.allowed_ns) == (0, ALLOWED)
    Lags(given.worker).act()
    assert state(given) == DRIVEN


def test_a_log_that_keeps_all_allows_any_lag() -> None:
    given = behind(200)
    given.log.retention_ns = None
    Lags(given.worker).act()
    assert state(given) == DRIVEN


def test_a_stream_that_catches_up_is_not_marked_any_more() -> None:
    given = behind(12)
    Lags(given.worker).act()
    given.worker.sweep_all()
    Lags(given.worker).act()
    assert state(given) == DRIVEN


def test_one_scan_follows_and_not_one_for_each_round() -> None:
    given = behind(17)
    service = Service(given.worker)
    given.worker.blockers.block(cursors.ages_key(DAY, "x"), LAST, "for the test", Count(30, 0, 0), 0)
    service.round()
    first = wanted(given)
    for _ in range(5):
        given.env.sleep(0.3)
        service.round()
    assert wanted(given) == first > 0
    assert (given.worker.records.bucket(BUCKET).walked_ns or 0) >= first


def test_only_the_actions_of_the_stream_are_left_to_scans() -> None:
    """The other delay has read everything."""
    given = behind(19, EVERYTHING, TWO_DAYS)
    (other,) = [one for one in given.worker.streams() if one.delay_ns == 2 * DAY]
    near = [one for one in given.worker.streams() if one.delay_ns is None]
    for stream in (other, *near):
        given.worker.sweep(stream)
    Lags(given.worker).act()
    assert (state(given, 0), state(given, 1)) == (LEFT, DRIVEN)


def test_the_stream_close_behind_the_clock_counts_for_all_that_it_is_swept_for() -> None:
    given = behind(0, EVERYTHING, TAGGED)
    given.bucket.write("b", 1, TAG)
    given.env.sleep(KEPT / S - 1)
    given.flush()
    for stream in given.worker.streams():
        if stream.delay_ns is not None:
            given.worker.sweep(stream)
    Lags(given.worker).act()
    assert (state(given, 0), state(given, 1)) == (LEFT, LEFT)


def test_a_blocked_stream_is_shown_and_then_left_to_scans() -> None:
    given = behind(1)
    given.bucket.poisoned.add("a")
    for _ in range(5):
        given.worker.sweep_all()
    Lags(given.worker).act()
    assert state(given) == ActionState(Mode.EVENT_DRIVEN, Degraded.DELETE_FAILURES, is_complete=True)
    given.env.sleep(18)
    Lags(given.worker).act()
    assert state(given) == LEFT


def test_a_blocker_of_one_stream_is_shown_though_another_one_lags() -> None:
    given = behind(1)
    given.bucket.poisoned.add("a")
    for _ in range(5):
        given.worker.sweep_all()
    given.bucket.write("b", 1, TAG)
    given.env.sleep(13)
    given.flush()
    shares = {one.stream.delay_ns: one.share for one in Lags(given.worker).act()}
    assert shares[None] >= 0.5
    assert state(given).reason is Degraded.DELETE_FAILURES


def test_what_lag_left_to_scans_returns_only_by_reseed() -> None:
    given = behind(19)
    Lags(given.worker).act()
    for _ in range(10):
        given.work()
        Lags(given.worker).act()
        given.env.sleep(1)
    assert state(given) == LEFT
    (done,) = given.operator.reseed(delay_ns=DAY)
    assert done.reason is Degraded.LAG_HIGH
    given.bucket.write("b", 1, {})
    given.work()
    Lags(given.worker).act()
    assert state(given) == DRIVEN
    walked_ns = given.worker.records.bucket(BUCKET).walked_ns
    given.works(DAY / S + 1)
    assert given.keys == []
    assert given.worker.records.bucket(BUCKET).walked_ns == walked_ns


def test_nothing_is_lost_while_all_are_paused() -> None:
    """Events are lost meanwhile; the action is left to scans before that."""
    given = behind(0)
    given.operator.pause("migration")
    service = Service(given.worker)
    for _ in range(30):
        given.env.sleep(1)
        given.log.lose_before("x", given.env.now_ns() - KEPT)
        service.round()
        given.flush()
        is_there = any(given.log.events("x", "", given.env.now_ns()))
        assert state(given) == LEFT or is_there
    assert state(given) == LEFT
    with pytest.raises(Refused, match="no such action"):
        given.operator.reseed(bucket="other")


def test_a_retention_that_is_too_short_leaves_an_action_to_scans_and_a_longer_one_returns_it() -> None:
    given = behind(0)
    assert state(given) == DRIVEN
    given.log.retention_ns = DAY
    given.work()
    young = ActionState(Mode.SCAN_ONLY, Degraded.RETENTION_BELOW_HORIZON, is_complete=True)
    assert state(given) == young
    given.work()
    assert state(given) == young
    given.log.retention_ns = KEPT
    given.work()
    assert state(given) == DRIVEN


def test_a_gate_is_of_one_action() -> None:
    given = behind(0, {**EVERYTHING, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 60}})
    modes = {key: one.mode for key, one in given.worker.records.bucket(BUCKET).actions.items()}
    assert sorted(mode.value for mode in modes.values()) == ["event_driven", "scan_only"]


def test_a_lag_is_in_the_log_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    given = behind(0.6 * ALLOWED / S)
    lags = Lags(given.worker)
    with caplog.at_level(logging.WARNING, "fencepost.lifecycle"):
        for _ in range(2):
            lags.act()
        (late,) = caplog.messages
        assert "12 s behind, 60 % of what the log leaves it" in late
        assert cursors.ages_key(DAY, "x") in late
        given.work()
        for _ in range(2):
            lags.act()
    assert [one.partition(" has ")[2] for one in caplog.messages[1:]] == ["caught up"]
