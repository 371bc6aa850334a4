"""A walk costs what its rules need, and several workers share it."""

import threading
from collections.abc import Sequence

import pytest

from fencepost.impl.lifecycle.policy import Rule
from fencepost.impl.lifecycle.service import Part, Service, run_together
from fencepost.impl.lifecycle.target import Listed, Unworkable
from fencepost.impl.lifecycle.walk import Walks, stream_of
from fencepost.impl.lifecycle.worker import Handled, Worker

from .given import BUCKET, DAY, EVERYTHING, Given, S

KEYS = [f"k{number:02}" for number in range(20)]


def rule(prefix: str, days: int = 1, **more: object) -> dict[str, object]:
    wanted = {"Prefix": prefix, **more}
    filter_ = {"And": wanted} if more else wanted
    return {"Status": "Enabled", "Filter": filter_, "Expiration": {"Days": days}}


def filled(*rules: dict[str, object], keys: Sequence[str] = KEYS) -> Given:
    given = Given(*rules)
    for key in keys:
        given.bucket.write(key, 1, {"t": "1"})
    given.env.sleep(DAY / S)
    given.flush()
    return given


def walk(worker: Worker, *, pages: int | None = None) -> Handled:
    """Walk the bucket; or some pages of it."""
    left = iter(range(pages - 1)) if pages else None
    worker.proceed = lambda: left is None or next(left, None) is not None
    worker.checkpoint_s = 0.0
    walks = Walks(worker)
    return walks.walk(BUCKET, walks.prepare())


def parts(given: Given) -> list[tuple[str, str, str]]:
    found = given.worker.records.bucket(BUCKET).walk
    return [] if found is None else [(one.start, one.until, one.after) for one in found.parts]


@pytest.mark.parametrize(
    "one",
    [
        rule("other/"),
        rule("", 2),
        rule("", ObjectSizeGreaterThan=1),
        {**rule("", 2), "Filter": {"Tag": {"Key": "t", "Value": "1"}}},
    ],
    ids=["prefix", "age", "size", "age before tags"],
)
def test_an_object_that_no_rule_can_delete_is_not_looked_at(one: dict[str, object]) -> None:
    given = filled(one)
    assert walk(given.worker) is Handled.RESOLVED
    assert given.bucket.looks == []
    assert len(given.keys) == len(KEYS)


def test_only_what_is_below_the_prefixes_of_rules_is_listed() -> None:
    given = filled(rule("b/"), rule("d/x"), rule("b/c"), keys=["a", "b/1", "b/c", "c", "d/x1", "d/y", "e"])
    listed: list[str] = []
    page = given.bucket.page

    def noted(bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        listed.append(prefix)
        return page(bucket, after, prefix, uploads=uploads)

    given.bucket.page = noted  # type: ignore[method-assign]  # notes the prefixes
    assert walk(given.worker) is Handled.RESOLVED
    assert given.keys == ["a", "c", "d/y", "e"]
    assert {*listed} == {"b/", "d/x"}


def test_two_workers_share_a_walk_and_the_leader_ends_it() -> None:
    given = filled()
    lea, bob = given.new_worker("lea"), given.new_worker("bob")
    assert walk(lea, pages=1) is Handled.STOPPED
    assert len(parts(given)) == 1
    assert walk(bob) is Handled.ELSEWHERE  # it has done its half; the rest is with the leader
    ((start, until, after),) = parts(given)
    assert (start, after) == ("", KEYS[2])
    assert KEYS[3] <= until < KEYS[-1]
    assert given.keys == [key for key in KEYS[3:] if key <= until]
    assert walk(lea) is Handled.RESOLVED
    assert (given.keys, parts(given)) == ([], [])
    assert given.worker.records.bucket(BUCKET).walked_ns is not None


def test_another_worker_goes_on_where_a_killed_one_was() -> None:
    given = filled()
    lea, bob, eve = (given.new_worker(name) for name in ("lea", "bob", "eve"))
    walk(lea, pages=1)
    assert walk(bob, pages=1) is Handled.STOPPED
    before = parts(given)
    assert len(before) == 2
    assert before[1][2] > before[1][0]
    given.env.sleep(31)  # both are killed, and their leases end
    given.bucket.looks.clear()
    assert walk(eve) is Handled.RESOLVED
    assert given.keys == []
    assert not [key for key in given.bucket.looks if key <= before[0][2]]


def test_a_walk_is_not_divided_before_its_worker_has_saved_a_place() -> None:
    """Most walks end before another worker has found its half."""
    given = filled()
    lea, bob = given.new_worker("lea"), given.new_worker("bob")
    assert lea.leases.hold(stream_of(BUCKET))
    lea.proceed = lambda: False
    Walks(lea)._begin(BUCKET, [*lea.snapshot().actions.values()], {})
    assert walk(bob) is Handled.ELSEWHERE
    assert parts(given) == [("", "", "")]
    assert len(given.keys) == len(KEYS)


@pytest.mark.parametrize("tag", ["1", "2"])
def test_a_listing_is_no_look_where_a_rule_needs_tags(tag: str) -> None:
    given = filled({**rule(""), "Filter": {"Tag": {"Key": "t", "Value": tag}}})
    given.bucket.lists_looks = True
    assert walk(given.worker) is Handled.RESOLVED
    assert given.keys == ([] if tag == "1" else KEYS)
    assert {*given.bucket.looks} == {*KEYS}


def test_a_listing_is_the_look_where_no_rule_needs_tags() -> None:
    given = filled()
    given.bucket.lists_looks = True
    assert walk(given.worker) is Handled.RESOLVED
    assert (given.keys, given.bucket.looks) == ([], [])


def test_a_blocked_part_keeps_no_other_from_being_walked() -> None:
    given = filled()
    lea, bob = given.new_worker("lea"), given.new_worker("bob")
    lea.fatal_tries_max = bob.fatal_tries_max = 1
    given.bucket.poisoned.add("k19")
    walk(lea, pages=1)
    assert walk(bob) is Handled.BLOCKED
    bob.leases.release()
    assert walk(lea) is Handled.BLOCKED
    assert given.keys[:1] >= ["k18"]
    given.bucket.poisoned.clear()
    (blocker,) = given.operator.blockers()
    given.operator.resume(blocker.id)
    assert walk(lea) is Handled.RESOLVED
    assert given.keys == []


def test_a_worker_that_cannot_read_the_rules_joins_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rules every key would be passed, and the walk end without a look at any."""
    given = filled()
    lea, bob, eve = (given.new_worker(name) for name in ("lea", "bob", "eve"))
    assert walk(lea, pages=1) is Handled.STOPPED
    assert walk(bob, pages=1) is Handled.STOPPED
    bob.leases.release()  # its part is free
    walks = Walks(eve)
    prepared, before = walks.prepare(), parts(given)

    def unreadable(bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        raise Unworkable("rot")

    monkeypatch.setattr(given.bucket, "rules", unreadable)
    assert walks.walk(BUCKET, prepared) is Handled.ELSEWHERE
    assert parts(given) == before
    assert len(before) == 2


def test_a_part_that_cannot_be_listed_is_blocked_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    given = filled()
    lea, bob = given.new_worker("lea"), given.new_worker("bob")
    assert walk(lea, pages=1) is Handled.STOPPED
    assert walk(bob, pages=1) is Handled.STOPPED
    with monkeypatch.context() as patch:
        patch.setattr(given.bucket, "page", unlistable)
        for _ in range(bob.fatal_tries_max - 1):
            with pytest.raises(Unworkable):
                walk(bob)
        assert walk(bob) is Handled.BLOCKED
    (_, (start, _, _)) = parts(given)
    assert [one.stream.key for one in bob.blockers.every()] == [stream_of(BUCKET, start)]
    assert walk(bob) is Handled.ELSEWHERE  # it can be listed again
    assert (bob.blockers.every(), len(parts(given))) == ([], 1)


def unlistable(*_: object, **__: object) -> Sequence[Listed]:
    raise Unworkable("rot")


def test_idle_buckets_cost_no_lease() -> None:
    given = filled()
    lea = given.new_worker("lea")
    assert walk(lea) is Handled.RESOLVED
    before = given.store.contents()
    assert walk(lea) is Handled.RESOLVED
    assert given.store.contents() == before


def test_a_walk_that_takes_long_keeps_no_sweep_waiting() -> None:
    given = Given().written("a")
    given.env.sleep(DAY / S)
    given.flush()
    deleted = threading.Event()
    given.bucket.on_delete = lambda *_: deleted.set()
    page = given.bucket.page

    def slow(bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        assert deleted.wait(30)
        return () if uploads else page(bucket, after, prefix)[:0]

    given.bucket.page = slow  # type: ignore[method-assign]  # waits for the sweep
    given.operator.run_now()
    done = threading.Event()
    services = [
        Service(given.new_worker(part.value), parts=(part,), on_round=lambda _: done.set()) for part in Part
    ]
    run_together(services, lambda: deleted.is_set() and done.is_set())
    assert given.keys == []


def test_an_error_in_one_thread_ends_all() -> None:
    given = Given()

    def broken(_: object) -> None:
        raise RuntimeError("a bug")

    services = [Service(given.new_worker(part.value), parts=(part,), on_round=broken) for part in Part]
    with pytest.raises(RuntimeError, match="a bug"):
        run_together(services, lambda: False)


def test_walks_keep_to_their_hours() -> None:
    given = filled()
    hour = given.env.now_ns() // (3600 * S) % 24
    Service(given.worker, hours=[(hour + 1) % 24]).round()
    assert len(given.keys) == len(KEYS)
    Service(given.worker, hours=[hour]).round()
    assert given.keys == []


def test_a_retry_is_done_by_the_worker_that_has_the_stream() -> None:
    given = Given().written("a")
    given.bucket.poisoned.add("a")
    given.env.sleep(DAY / S)
    worker = given.new_worker("lea")
    worker.fatal_tries_max = 1
    given.flush()
    service = Service(worker)
    service.round()
    (blocker,) = given.operator.blockers()
    assert worker.leases.hold(blocker.stream.key)
    operator = given.operator
    assert operator.retry(blocker.id) is Handled.ELSEWHERE
    before = operator.ask_for_retry(blocker.id)
    assert operator.outcome_of_retry(before) is None
    service.round()
    assert operator.outcome_of_retry(before) is Handled.BLOCKED
    given.bucket.poisoned.clear()
    operator.ask_for_retry(blocker.id)
    service.round()
    assert operator.outcome_of_retry(before) is Handled.RESOLVED
    assert given.keys == []
    assert given.worker.records.control().retries == ()


def test_leases_are_renewed_between_items_and_end_soon_after_a_kill() -> None:
    given = Given(EVERYTHING)
    lea, bob = given.new_worker("lea"), given.new_worker("bob")
    assert lea.leases.hold("s")
    for _ in range(10):
        given.env.sleep(11)
        lea.leases.renew()
        assert not bob.leases.hold("s")
    given.env.sleep(31)
    assert bob.leases.hold("s")
    lea.leases.renew()
    assert not lea.leases.is_held("s")
