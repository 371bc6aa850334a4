"""What fails is tried so often, then blocks its own stream and no other, and is never skipped."""

from dataclasses import replace

import pytest

from fencepost.impl.lifecycle.blockers import StreamKind
from fencepost.impl.lifecycle.policy import Degraded, Mode
from fencepost.impl.lifecycle.records import ActionState
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.worker import FATAL_TRIES_MAX, TRIES_MAX, TRIES_NS, Handled
from fencepost.impl.store.layers import Effect, Fault, Faulty

from .given import BUCKET, DAY, EVERYTHING, Down, Given, S
from .history import TAG

TAGGED = {"Status": "Enabled", "Filter": {"Tag": {"Key": "t", "Value": "1"}}, "Expiration": {"Days": 3}}
TAGGED_TOO = {"Status": "Enabled", "Filter": {"Tag": {"Key": "u", "Value": "1"}}, "Expiration": {"Days": 3}}


def due(*keys: str) -> Given:
    """Objects that are due, whose events are ahead of the cursor."""
    given = Given().written(*keys)
    given.env.sleep(DAY / S)
    given.flush()
    return given


def sweep(given: Given) -> Handled:
    (stream,) = [one for one in given.worker.streams() if one.delay_ns == DAY]
    return given.worker.sweep(stream)


def tries(given: Given, most: int = 100) -> int:
    """How often the sweep is tried until it is blocked."""
    return next(number for number in range(1, most) if sweep(given) is Handled.BLOCKED)


# How often.


def test_what_does_not_answer_is_tried_thirty_times() -> None:
    given = due("a")
    given.bucket.unreachable.add("a")
    assert tries(given) == TRIES_MAX == 30
    assert [one.tries for one in given.worker.blockers.every()] == [30]


def test_or_for_four_hours() -> None:
    given = due("a")
    given.bucket.unreachable.add("a")
    assert sweep(given) is Handled.RETRY
    given.env.sleep(TRIES_NS / S - 1)
    assert sweep(given) is Handled.RETRY
    given.env.sleep(1)
    assert sweep(given) is Handled.BLOCKED


def test_what_can_never_be_worked_on_is_tried_five_times() -> None:
    given = due("a")
    given.bucket.poisoned.add("a")
    assert tries(given) == FATAL_TRIES_MAX == 5


def test_tries_of_one_kind_are_none_of_the_other() -> None:
    """An outage before does not have it blocked at the first fatal error."""
    given = due("a")
    given.bucket.unreachable.add("a")
    for _ in range(10):
        assert sweep(given) is Handled.RETRY
    given.bucket.poisoned.add("a")
    assert tries(given) == FATAL_TRIES_MAX


def test_tries_are_counted_by_all_workers_together() -> None:
    given = due("a")
    given.bucket.poisoned.add("a")
    for _ in range(4):
        given.worker = given.new_worker()
        assert sweep(given) is Handled.RETRY
    given.worker = given.new_worker()
    assert sweep(given) is Handled.BLOCKED


def test_tries_are_of_one_item() -> None:
    given = due("a", "b")
    given.bucket.unreachable.add("a")
    for _ in range(29):
        sweep(given)
    given.bucket.unreachable = {"b"}
    given.env.sleep(DAY / S)
    given.flush()
    assert sweep(given) is Handled.RETRY
    assert given.keys == ["b"]


def test_a_success_begins_the_count_anew() -> None:
    given = due("a")
    given.bucket.unreachable.add("a")
    for _ in range(29):
        sweep(given)
    given.bucket.unreachable.clear()
    assert sweep(given) is Handled.RESOLVED
    assert [key for key in given.store.contents() if "/retries/" in key] == []


# What follows.


def test_a_blocked_stream_is_not_looked_at() -> None:
    given = due("a", "b")
    given.bucket.poisoned.add("a")
    tries(given)
    given.bucket.looks.clear()
    assert sweep(given) is Handled.BLOCKED
    assert given.bucket.looks == []
    assert given.worker.blockers.failing(given.worker.blockers.every()[0].stream.key) is None


def test_a_blocker_pauses_its_own_stream_and_no_other() -> None:
    given = Given(shards=("x", "y"))
    given.work()
    for shard, key in (("x", "a"), ("y", "b")):
        given.bucket.random.choice = lambda _, shard=shard: shard  # type: ignore[method-assign]  # of one writer
        given.bucket.write(key, 1, {})
    given.bucket.poisoned.add("a")
    given.works(DAY / S + 8)
    assert given.keys == ["a"]
    assert [one.stream.shard for one in given.worker.blockers.every()] == ["x"]


def test_a_blocker_that_cannot_be_written_leaves_the_stream_as_it_was() -> None:
    """Without a record for the operator it must not wait; the next pass tries again."""
    given = due("a")
    given.bucket.poisoned.add("a")
    for _ in range(4):
        sweep(given)
    blockers = Faulty(
        given.store, [Fault(Effect.REQUEST_LOST, {"put"}, times=3, prefix="lifecycle/v1/blockers/")]
    )
    given.worker = given.new_worker(store=blockers)
    before = given.cursor().saved
    with pytest.raises(Down):
        sweep(given)
    assert (given.worker.blockers.every(), given.cursor().saved) == ([], before)
    given.worker = given.new_worker()
    assert sweep(given) is Handled.BLOCKED


def test_nothing_behind_a_failure_is_passed() -> None:
    given = due("a", "b", "c")
    given.bucket.unreachable.add("b")
    assert sweep(given) is Handled.RETRY
    assert given.keys == ["b", "c"]
    before = given.cursor().saved
    given.bucket.unreachable.clear()
    assert sweep(given) is Handled.RESOLVED
    assert given.keys == []
    assert given.cursor().saved > before


# A walk.


def walked(*keys: str) -> Given:
    """A first walk over objects that are due; a page has three keys."""
    given = Given()
    for key in keys:
        given.bucket.write(key, 1, {})
    given.env.sleep(DAY / S)
    given.flush()
    return given


def walk(given: Given) -> Handled:
    walks = Service(given.worker)._walks
    return walks.walk(BUCKET, walks.prepare())


def after(given: Given) -> str | None:
    found = given.worker.records.bucket(BUCKET).walk
    return None if found is None else min(part.after for part in found.parts)


def test_a_walk_goes_on_behind_the_last_page_that_is_done() -> None:
    given = walked(*"abcdefgh")
    given.bucket.unreachable.add("e")
    assert walk(given) is Handled.RETRY
    assert (after(given), given.keys) == ("c", ["e", "f", "g", "h"])
    given.bucket.looks.clear()
    given.bucket.unreachable.clear()
    given.worker = given.new_worker()
    assert walk(given) is Handled.RESOLVED
    assert (after(given), given.keys) == (None, [])
    assert [key for key in given.bucket.looks if key < "d"] == []


def test_an_action_is_not_complete_before_its_walk_is() -> None:
    given = walked(*"abcd")
    given.bucket.unreachable.add("d")
    walk(given)
    assert given.worker.records.bucket(BUCKET).actions == {}
    assert given.worker.streams() == []


def test_a_walk_is_blocked_by_itself_and_refuses_to_go_on() -> None:
    given = walked(*"abcd")
    given.bucket.poisoned.add("d")
    assert [walk(given) for _ in range(6)] == [Handled.RETRY] * 4 + [Handled.BLOCKED] * 2
    (blocker,) = given.operator.blockers(StreamKind.BOOTSTRAP, bucket=BUCKET)
    assert (blocker.item.key, after(given)) == ("d", "c")
    given.bucket.poisoned.clear()
    assert given.operator.retry(blocker.id) is Handled.RESOLVED
    assert (given.keys, after(given)) == ([], "c")  # the walk goes on by itself
    assert walk(given) is Handled.RESOLVED


def test_a_success_of_a_walk_begins_its_count_anew() -> None:
    given = walked("a")
    given.bucket.unreachable.add("a")
    walk(given)
    given.bucket.unreachable.clear()
    walk(given)
    assert [key for key in given.store.contents() if "/retries/" in key] == []


def test_what_was_given_up_in_one_walk_is_tried_in_the_next() -> None:
    """An operator skipped it when the bucket did not answer; that is no reason a week later."""
    given = walked("a")
    given.bucket.unreachable.add("a")
    while walk(given) is not Handled.BLOCKED:
        pass
    (blocker,) = given.operator.blockers()
    given.operator.quarantine(blocker.id, "down for hours")
    assert walk(given) is Handled.RESOLVED
    given.env.sleep(7 * DAY / S)
    assert walk(given) is Handled.RETRY
    given.bucket.unreachable.clear()
    assert walk(given) is Handled.RESOLVED
    assert given.keys == []


def test_what_can_never_be_worked_on_is_given_up_once() -> None:
    given = walked("a", "b")
    given.bucket.poisoned.add("a")
    while walk(given) is not Handled.BLOCKED:
        pass
    given.operator.quarantine(given.operator.blockers()[0].id, "lost with a disk")
    assert walk(given) is Handled.RESOLVED
    given.env.sleep(7 * DAY / S)
    assert walk(given) is Handled.RESOLVED
    assert given.keys == ["a"]


# A pending list.


def pending(*rules: dict[str, object]) -> Given:
    """Two objects that began to match late, one for each rule."""
    given = Given(TAGGED, TAGGED_TOO)
    given.work()
    for key in ("a", "b"):
        given.bucket.write(key, 1, {})
    given.env.sleep(1)
    for key, tags in (("a", TAG), ("b", {"u": "1"})):
        (row,) = given.bucket.rows[key]
        given.bucket.change(key, [replace(row, stored=replace(row.stored, tags=tags))])
    given.env.sleep(2)
    given.work()
    assert sorted(one.key for one in given.operator.pending()) == ["a", "b"]
    return given


def test_a_pending_list_is_blocked_by_itself() -> None:
    given = pending()
    given.bucket.poisoned.add("a")
    for _ in range(6):
        given.worker.drain()
    (blocker,) = given.operator.blockers(StreamKind.PENDING)
    assert blocker.item.key == "a"
    given.bucket.rows["b"].clear()
    given.worker.drain()
    assert [one.key for one in given.operator.pending()] == ["a"]
    given.bucket.poisoned.clear()
    given.bucket.rows["a"].clear()
    assert given.operator.retry(blocker.id) is Handled.RESOLVED
    assert (list(given.operator.pending()), given.operator.blockers()) == ([], [])


def test_a_pending_list_is_of_a_bucket() -> None:
    given = pending()
    assert list(given.operator.pending("other")) == []
    assert [one.version_id for one in given.operator.pending(BUCKET)] == ["", ""]


def test_a_full_list_leaves_its_action_to_scans_and_no_other() -> None:
    given = Given(TAGGED, EVERYTHING)
    given.worker.pending_max = 0
    given.work()
    given.bucket.write("a", 1, {})
    given.env.sleep(1)
    (row,) = given.bucket.rows["a"]
    given.bucket.change("a", [replace(row, stored=replace(row.stored, tags=TAG))])
    given.env.sleep(2)
    given.work()
    states = given.worker.records.bucket(BUCKET).actions
    assert states[given.action(0).partition("/")[2]] == ActionState(
        Mode.SCAN_ONLY, Degraded.PENDING_FULL, True
    )
    assert states[given.action(1).partition("/")[2]].mode is Mode.EVENT_DRIVEN
    assert list(given.operator.pending()) == []
