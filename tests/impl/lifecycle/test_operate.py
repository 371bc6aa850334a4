"""What an operator does: retry, resume, quarantine, pause, scan now, return to events."""

import pytest

from fencepost.impl.lifecycle.blockers import Blocker, StreamKind
from fencepost.impl.lifecycle.cursors import before
from fencepost.impl.lifecycle.operate import Refused
from fencepost.impl.lifecycle.policy import ActionKey, Degraded, Mode
from fencepost.impl.lifecycle.records import HOUR_NS, Cadence
from fencepost.impl.lifecycle.status import status_of
from fencepost.impl.lifecycle.worker import Handled

from .given import BUCKET, DAY, EVERYTHING, START, TIMING, Given, S


def blocked(*keys: str) -> tuple[Given, Blocker]:
    """The first of the keys is poisoned, and its stream blocked."""
    given = Given().written(*keys)
    given.bucket.poisoned.add(keys[0])
    given.until(lambda: bool(given.operator.blockers()))
    return given, given.operator.blockers()[0]


def test_a_blocker_names_its_stream_and_its_object() -> None:
    given, blocker = blocked("a", "b")
    assert (blocker.stream.kind, blocker.stream.shard, blocker.stream.delay_ns) == (
        StreamKind.ORIGINAL,
        "x",
        DAY,
    )
    assert (blocker.item.bucket, blocker.item.key, blocker.tries) == (BUCKET, "a", 5)
    operator = given.operator
    assert operator.blockers(StreamKind.ORIGINAL, "x", BUCKET) == [blocker]
    assert operator.blockers(StreamKind.PENDING) == operator.blockers(shard="y") == []
    assert operator.blockers(bucket="other") == []
    with pytest.raises(Refused, match="no blocker"):
        operator.retry("nonsense")


def test_a_blocked_stream_waits_in_front_of_its_item() -> None:
    given, blocker = blocked("a", "b")
    given.bucket.poisoned.clear()
    given.works(10)
    assert given.keys == ["a", "b"]
    assert given.cursor().saved < blocker.item.name


def test_a_retry_that_succeeds_goes_past_the_item_and_no_further() -> None:
    given, blocker = blocked("a", "b")
    given.env.sleep(10)
    given.bucket.poisoned.clear()
    assert given.operator.retry(blocker.id) is Handled.RESOLVED
    assert (given.keys, given.operator.blockers()) == (["b"], [])
    assert given.cursor().saved == blocker.item.name
    given.works(1)
    assert given.keys == []


def test_a_retry_that_fails_leaves_the_blocker_with_its_count() -> None:
    given, blocker = blocked("a", "b")
    assert given.operator.retry(blocker.id) is not Handled.RESOLVED
    (again,) = given.operator.blockers()
    assert (again.id, again.tries) == (blocker.id, 6)
    assert given.worker.blockers.failing(blocker.stream.key) is None
    assert given.keys == ["a", "b"]


def test_a_retry_works_on_what_a_rewind_put_before_the_item() -> None:
    """The cursor must not jump to the item: other actions began behind it meanwhile."""
    given = Given().written("a", "b")
    given.bucket.poisoned.add("b")
    given.until(lambda: bool(given.operator.blockers()))
    given.cursor().rewind(before(START))
    given.bucket.looks.clear()
    given.bucket.poisoned.clear()
    assert given.operator.retry(given.operator.blockers()[0].id) is Handled.RESOLVED
    assert given.bucket.looks == ["a", "b"]
    assert given.keys == []


def test_resume_clears_the_blocker_and_leaves_the_cursor() -> None:
    given, blocker = blocked("a", "b")
    before = given.cursor().saved
    given.operator.resume(blocker.id)
    assert given.operator.blockers() == []
    assert given.cursor().saved == before
    for _ in range(4):
        given.work()
    assert given.operator.blockers() == []  # the count began anew
    given.work()
    assert [one.id for one in given.operator.blockers()] == [blocker.id]


@pytest.mark.parametrize("act", ["retry", "resume", "quarantine"])
def test_everything_that_an_operator_does_begins_the_count_anew(act: str) -> None:
    """A worker that has lost its lease may have counted since."""
    given, blocker = blocked("a", "b")
    given.worker.blockers.count(blocker.stream.key, blocker.item, given.env.now_ns(), fatal=False)
    getattr(given.operator, act)(blocker.id, *(["lost"] if act == "quarantine" else []))
    assert given.worker.blockers.failing(blocker.stream.key) is None


def test_quarantine_is_the_way_past_and_leaves_a_record() -> None:
    given, blocker = blocked("a", "b")
    with pytest.raises(Refused, match="reason"):
        given.operator.quarantine(blocker.id, "")
    given.operator.quarantine(blocker.id, "lost with a disk", "me")
    given.works(2)
    assert given.keys == ["a"]
    assert given.cursor().saved > blocker.item.name
    (record,) = given.operator.quarantined()
    assert (record["key"], record["quarantined_for"], record["author"]) == ("a", "lost with a disk", "me")


def test_a_pause_of_a_bucket_deletes_nothing_and_its_end_begins_anew() -> None:
    given = Given().written("a")
    given.operator.pause("migration", BUCKET)
    given.works(10)
    assert given.keys == ["a"]
    assert given.operator.unpause(BUCKET)
    assert not given.operator.unpause(BUCKET)
    given.works(1)
    assert given.keys == []


def test_a_pause_of_one_action_leaves_its_siblings() -> None:
    rules = [
        {"Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Days": 1}}
        for prefix in ("a", "b")
    ]
    given = Given(*rules).written("a", "b")
    given.operator.pause("migration", BUCKET, given.bucket.rules(BUCKET)[0].actions()[0])
    given.works(10)
    assert given.keys == ["a"]


def test_run_now_walks_once() -> None:
    given = Given()
    given.work()
    before = given.worker.records.bucket(BUCKET).walked_ns
    given.env.sleep(1)
    assert given.operator.run_now() == [BUCKET]
    given.work()
    walked_ns = given.worker.records.bucket(BUCKET).walked_ns
    assert walked_ns == given.env.now_ns()
    assert walked_ns != before
    given.works(3)
    assert given.worker.records.bucket(BUCKET).walked_ns == walked_ns


# Returning to events.


def lost() -> Given:
    """The log lost what the cursor had not read."""
    given = Given().written("a")
    given.env.sleep(10)
    given.log.lose_before("x", given.env.now_ns() - S)
    given.works(2)
    assert state(given) == (Mode.SCAN_ONLY, Degraded.LOST_LOG)
    return given


def state(given: Given) -> tuple[Mode, Degraded]:
    (found,) = given.worker.records.bucket(BUCKET).actions.values()
    return found.mode, found.reason


def test_a_loss_stays_until_a_walk_proves_that_nothing_is_missed() -> None:
    """The log has to reach back as far as the action looks, and a walk to begin after that."""
    given = lost()
    begins_ns = given.log.begins_ns("x")
    while state(given) == (Mode.SCAN_ONLY, Degraded.LOST_LOG):
        given.works(1)
    assert state(given) == (Mode.EVENT_DRIVEN, Degraded.NONE)
    walked_ns = given.worker.records.bucket(BUCKET).walked_ns
    assert walked_ns is not None
    assert walked_ns - begins_ns >= DAY + TIMING.lookback_ns
    assert given.keys == []


def test_a_loss_is_accepted_with_a_reason() -> None:
    given = lost()
    given.works(1)
    with pytest.raises(Refused, match="accept that"):
        given.operator.reseed()
    with pytest.raises(Refused, match="accept that"):
        given.operator.reseed(is_lost_accepted=True)
    assert state(given) == (Mode.SCAN_ONLY, Degraded.LOST_LOG)
    (done,) = given.operator.reseed(is_lost_accepted=True, reason="old days")
    assert (done.bucket, done.reason) == (BUCKET, Degraded.LOST_LOG)
    given.works(2)
    assert state(given) == (Mode.SCAN_ONLY, Degraded.RETENTION_BELOW_HORIZON)  # the log is as young as before
    given.works(20)
    assert state(given) == (Mode.EVENT_DRIVEN, Degraded.NONE)
    assert given.action() in given.cursor().serves
    assert given.keys == []  # its walk deleted what the events had missed


def test_reseed_is_of_one_delay() -> None:
    given = lost()
    with pytest.raises(Refused, match="no such action"):
        given.operator.reseed(delay_ns=2 * DAY, is_lost_accepted=True, reason="old days")


def test_an_action_behind_a_blocker_is_not_reseeded() -> None:
    given, blocker = blocked("a", "b")
    action = next(iter(given.worker.snapshot().actions.values()))
    given.worker.demote(action, Degraded.LAG_HIGH)
    with pytest.raises(Refused, match=blocker.id):
        given.operator.reseed()


def test_a_pause_is_no_way_around_the_acceptance_of_a_loss() -> None:
    given = lost()
    given.operator.pause("migration", BUCKET)
    given.works(2)
    given.operator.unpause(BUCKET)
    given.works(2)
    assert state(given) == (Mode.SCAN_ONLY, Degraded.LOST_LOG)


def began(given: Given) -> int | None:
    """When the last walk of the bucket began."""
    given.work()
    return given.worker.records.bucket(BUCKET).walked_ns


def test_walks_begin_as_often_as_an_operator_wants_for_an_action() -> None:
    given = Given()
    first = began(given)
    (rule,) = given.bucket.rules(BUCKET)
    (action,) = rule.actions()
    given.env.sleep(2 * DAY / S)
    assert began(given) == first, "by default a walk begins after a week"
    assert given.operator.set_cadence(BUCKET, action, Cadence(2 * DAY))
    assert not given.operator.set_cadence(BUCKET, action, Cadence(2 * DAY))
    second = began(given)
    assert second == given.env.now_ns() > (first or 0)
    given.env.sleep(2 * DAY / S - 1)
    assert began(given) == second
    (shown,) = status_of(given.worker, "here").buckets[0].actions
    assert (shown.walk_every_s, shown.walk_hours) == (2 * DAY / S, ())
    assert given.operator.set_cadence(BUCKET, action, Cadence())
    given.env.sleep(2)
    assert began(given) == second


def test_walks_of_an_action_begin_in_its_hours_and_first_ones_at_once() -> None:
    given = Given()
    hour = given.env.now_ns() // HOUR_NS % 24
    (action,) = given.bucket.rules(BUCKET)[0].actions()
    given.operator.set_cadence(BUCKET, action, Cadence(DAY, ((hour + 1) % 24,)))
    first = began(given)
    assert first == given.env.now_ns(), "the walk with which an action begins waits for no hour"
    given.env.sleep(DAY / S)
    assert began(given) == first
    given.operator.run_now(BUCKET)
    assert (second := began(given)) != first, "nor does one by hand"
    given.env.sleep(3600)
    assert began(given) != second


def test_the_cadence_of_a_bucket_is_of_the_actions_that_have_none() -> None:
    given = Given({**EVERYTHING, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}})
    one, other = given.bucket.rules(BUCKET)[0].actions()
    given.operator.set_cadence(BUCKET, None, Cadence(3 * DAY))
    given.operator.set_cadence(BUCKET, one, Cadence(50 * DAY))
    state = given.worker.records.bucket(BUCKET)
    assert (state.cadence(str(one)).every_ns, state.cadence(str(other)).every_ns) == (50 * DAY, 3 * DAY)
    first = began(given)
    given.env.sleep(3 * DAY / S)
    assert began(given) != first


def test_an_action_that_no_rule_has_gets_no_cadence() -> None:
    given = Given()
    with pytest.raises(Refused, match="no rule"):
        given.operator.set_cadence(BUCKET, ActionKey(b"12345678", "expiration-days"), Cadence(DAY))
