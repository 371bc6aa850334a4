"""Shards join, depart and vanish; nothing that one of them held is forgotten in silence."""

from typing import Any
from urllib.parse import quote

import pytest

from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.operate import Refused
from fencepost.impl.lifecycle.policy import Degraded, Mode
from fencepost.impl.lifecycle.records import ActionState
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.shards import Shards

from .given import BUCKET, DAY, EVERYTHING, TIMING, Given, S

THREE_DAYS = {"Status": "Enabled", "Filter": {"Prefix": "k"}, "Expiration": {"Days": 3}}
KEY = cursors.ages_key(DAY, "x")


def rounds(given: Given, count: int = 1, seconds: float = 1.0) -> None:
    service = Service(given.worker)
    for _ in range(count):
        given.flush()
        result = service.round()
        assert result.failed == {}
        given.env.sleep(seconds)


def state(given: Given, rule: int = 0) -> ActionState:
    return given.worker.records.bucket(BUCKET).actions[given.action(rule).partition("/")[2]]


def only(given: Given, shard: str) -> None:
    """What is written from here on goes to this shard."""
    given.bucket.random.choice = lambda _: shard  # type: ignore[method-assign]  # of one writer


# A new shard.


def test_a_new_shard_is_swept_without_a_walk() -> None:
    given = Given()
    rounds(given)
    walked_ns = given.worker.records.bucket(BUCKET).walked_ns
    given.log.open("y")
    only(given, "y")
    given.bucket.write("a", 1, {})
    rounds(given, 6)
    assert given.keys == []
    assert given.worker.records.bucket(BUCKET).walked_ns == walked_ns


@pytest.mark.parametrize("begins_ago", [0, 1, 10])
def test_the_floor_of_a_new_shard_is_the_earlier_of_two(begins_ago: int) -> None:
    """Where the log begins, or as far back as the delay and the lookback."""
    given = Given()
    rounds(given, 20)
    now_ns = given.env.now_ns()
    given.log.open("y")
    given.log.lose_before("y", now_ns - begins_ago * S)
    assert Shards(given.worker).adopt() == 2
    floor_ns = min(now_ns - begins_ago * S, now_ns - DAY)
    cursor = given.cursor(cursors.ages_key(DAY, "y"))
    assert cursor.saved == cursors.before(floor_ns)
    assert cursor.serves == {given.action()}
    near_ns = min(now_ns - begins_ago * S, now_ns - TIMING.lookback_ns)
    assert given.cursor(cursors.near_key("y")).saved == cursors.before(near_ns)


def test_an_event_at_the_floor_is_looked_at() -> None:
    given = Given()
    rounds(given, 20)
    given.log.open("y")
    only(given, "y")
    given.bucket.write("a", 1, {})
    given.log.lose_before("y", given.env.now_ns())
    given.env.sleep(DAY / S)
    rounds(given)
    assert given.keys == []


def test_an_action_that_has_not_begun_is_in_no_cursor_of_a_new_shard() -> None:
    given = Given()
    rounds(given)
    given.bucket.structures.append(THREE_DAYS)
    given.log.open("y")
    Shards(given.worker).adopt()
    assert given.cursor(cursors.near_key("y")).serves == {given.action()}
    given.bucket.structures.clear()
    given.log.open("z")
    assert Shards(given.worker).adopt() == 0


def test_a_shard_that_returns_is_not_drained() -> None:
    given = departed(read=True)
    given.log.vanish("x")
    rounds(given)
    given.log.open("x")
    rounds(given)
    assert Shards(given.worker).departed().until_ns == 0
    given.log.vanish("x")
    rounds(given)
    assert state(given).reason is Degraded.LOST_LOG


# One that departs.


def departed(*, read: bool) -> Given:
    """Shard x has an event and gets no more; shard y goes on."""
    given = Given(shards=("x", "y"))
    rounds(given)
    only(given, "x")
    given.bucket.write("a", 1, {})
    only(given, "y")
    if read:
        given.log.close("x")
        rounds(given, 8)
    else:
        given.flush()
    return given


def test_the_cursors_of_a_shard_that_was_read_are_removed_once_it_vanished() -> None:
    given = departed(read=True)
    assert given.cursor(KEY).serves
    given.log.vanish("x")
    rounds(given)
    assert not [key for key in given.store.contents() if key.endswith("/x.json") and "/cursors/" in key]
    assert state(given) == ActionState(Mode.EVENT_DRIVEN, Degraded.NONE, is_complete=True)


def test_a_shard_that_vanished_unread_leaves_evidence() -> None:
    given = departed(read=False)
    given.log.vanish("x")
    rounds(given, 3)
    assert given.cursor(KEY).serves == {given.action()}
    assert state(given) == ActionState(Mode.SCAN_ONLY, Degraded.LOST_LOG, is_complete=True)
    assert [one.key for one in Shards(given.worker).evidence()] == [KEY, cursors.near_key("x")]


def test_a_marker_is_of_one_cursor() -> None:
    """The one close behind the clock was past the end of the shard; the one of the ages was not."""
    given = departed(read=False)
    given.log.close("x")
    given.env.sleep(2)
    rounds(given, 2, 0)
    assert [key for key in given.store.contents() if "/drained/" in key] == [
        f"lifecycle/v1/drained/{quote(cursors.near_key('x'), safe='')}.json"
    ]
    given.log.vanish("x")
    rounds(given)
    assert [one.key for one in Shards(given.worker).evidence()] == [KEY]
    assert state(given).reason is Degraded.LOST_LOG


def test_a_cursor_that_was_moved_back_since_is_not_drained() -> None:
    given = departed(read=True)
    given.cursor(KEY).rewind(cursors.before(0))
    given.log.vanish("x")
    rounds(given)
    assert state(given).reason is Degraded.LOST_LOG


def test_a_shard_that_may_get_events_is_never_drained() -> None:
    """It had been read to its end, and got an event that nobody saw."""
    given = Given(shards=("x", "y"))
    only(given, "x")
    given.bucket.write("a", 1, {})
    rounds(given, 8)
    only(given, "x")
    given.bucket.write("b", 1, {})
    only(given, "y")
    given.log.vanish("x")
    rounds(given)
    assert state(given).reason is Degraded.LOST_LOG
    rounds(given, 2, 7 * DAY / S)
    assert given.keys == []


def test_a_cursor_that_serves_nothing_is_no_evidence() -> None:
    given = departed(read=False)
    given.bucket.structures.clear()
    given.work()
    given.log.vanish("x")
    rounds(given)
    assert Shards(given.worker).evidence() == []
    assert not [key for key in given.store.contents() if "/cursors/" in key and key.endswith("/x.json")]


# Accepting a loss.


def test_evidence_stays_until_an_operator_accepts_the_loss() -> None:
    given = departed(read=False)
    given.log.vanish("x")
    rounds(given, 20)
    with pytest.raises(Refused):
        given.operator.reseed()
    given.operator.reseed(is_lost_accepted=True, reason="disk 7", author="me")
    assert Shards(given.worker).evidence() == []
    (record,) = accepted(given, KEY)
    assert (record["accepted_for"], record["author"], record["serves"]) == ("disk 7", "me", [given.action()])
    rounds(given, 3)
    # What was written before may have had its event there: as long as it may be due, events do not suffice.
    assert state(given) == ActionState(Mode.SCAN_ONLY, Degraded.RETENTION_BELOW_HORIZON, is_complete=True)
    rounds(given, 8)
    assert state(given) == ActionState(Mode.EVENT_DRIVEN, Degraded.NONE, is_complete=True)


def accepted(given: Given, key: str) -> list[dict[str, Any]]:
    records = given.worker.records
    found = [records.read(one) for one in records.keys("lifecycle/v1/accepted/")]
    return [one for one in found if one is not None and one["stream"] == key]


def test_an_action_that_begins_needs_what_a_vanished_shard_held() -> None:
    """An object that is not due yet had its event there: no cursor will find it."""
    given = departed(read=True)
    only(given, "x")
    given.log.open("x")
    rounds(given)
    given.bucket.write("k", 1, {})
    given.log.close("x")
    rounds(given, 3)
    given.bucket.structures = [THREE_DAYS]
    given.log.vanish("x")
    rounds(given, 3)
    assert state(given).mode is Mode.SCAN_ONLY


def test_an_action_that_begins_late_enough_is_driven_by_events() -> None:
    given = departed(read=True)
    given.log.vanish("x")
    rounds(given, 20)
    given.bucket.structures = [THREE_DAYS]
    rounds(given, 2)
    assert state(given).mode is Mode.EVENT_DRIVEN


def test_an_action_that_begins_beside_evidence_is_left_to_scans() -> None:
    given = departed(read=False)
    given.log.vanish("x")
    rounds(given)
    given.bucket.structures = [EVERYTHING, THREE_DAYS]
    rounds(given, 2)
    assert state(given, 1) == ActionState(Mode.SCAN_ONLY, Degraded.LOST_LOG, is_complete=True)
