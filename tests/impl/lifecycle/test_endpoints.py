"""Requests go round; an endpoint that is down is left alone for a minute; when all are, nothing is lost."""

from dataclasses import dataclass, field

import pytest

from fencepost.impl.lifecycle.endpoints import Endpoints
from fencepost.impl.lifecycle.policy import What
from fencepost.impl.lifecycle.target import WHOLE, Guard, Halted, Needs, Result, Standing, Unavailable
from fencepost.impl.lifecycle.worker import TRIES_MAX, Handled

from .given import BUCKET, DAY, Failing, Given, S


@dataclass
class Endpoint:
    bucket: Failing
    is_down: bool = False
    loses_reply: bool = False
    calls: list[str] = field(default_factory=list)

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.is_down:
            raise Unavailable("connection refused")

    def __getattr__(self, name: str) -> object:
        def call(*args: object, **named: object) -> object:
            self._called(name)
            return getattr(self.bucket, name)(*args, **named)

        return call

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        self._called(f"standing {key}")
        return self.bucket.standing(bucket, key)

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        self._called(f"delete {key}")
        result = self.bucket.delete(bucket, key, version_id, what, guard)
        if self.loses_reply:
            raise Unavailable("connection reset")
        return result


def endpoints(given: Given, count: int = 2) -> tuple[list[Endpoint], Endpoints]:
    found = [Endpoint(given.bucket) for _ in range(count)]
    return found, Endpoints(found, given.env)  # type: ignore[arg-type]  # the rest comes by `__getattr__`


def test_requests_go_round() -> None:
    given = Given()
    (first, second, third), target = endpoints(given, 3)
    for key in "abcd":
        target.standing(BUCKET, key)
    assert (first.calls, second.calls, third.calls) == (
        ["standing a", "standing d"],
        ["standing b"],
        ["standing c"],
    )


def test_one_that_is_down_is_left_alone_for_a_minute() -> None:
    given = Given()
    (first, second), target = endpoints(given)
    first.is_down = True
    for _ in range(4):
        target.standing(BUCKET, "k")
    assert (len(first.calls), len(second.calls)) == (1, 4)
    assert target.healthy == [False, True]
    given.env.sleep(59)
    target.standing(BUCKET, "k")
    assert len(first.calls) == 1
    first.is_down = False
    given.env.sleep(1)
    target.standing(BUCKET, "k")
    target.standing(BUCKET, "k")
    assert len(first.calls) == 2


def test_all_down_is_one_failure_and_then_a_halt() -> None:
    given = Given()
    found, target = endpoints(given)
    for one in found:
        one.is_down = True
    with pytest.raises(Unavailable, match="refused"):
        target.standing(BUCKET, "k")
    with pytest.raises(Halted):
        target.standing(BUCKET, "k")
    assert [len(one.calls) for one in found] == [1, 1]


def test_a_deletion_whose_reply_was_lost_is_found_made() -> None:
    given = Given().written("a")
    found, target = endpoints(given)
    for one in found:
        one.loses_reply = True
    given.worker.expirer.target = target
    given.env.sleep(DAY / S)
    deleted: list[str] = []
    given.bucket.on_delete = lambda what, key, version: deleted.append(key)
    given.works(1)
    assert (given.keys, deleted) == ([], ["a"])


def test_a_halt_loses_nothing_and_counts_as_no_attempt() -> None:
    """For however long it lasts; a stream with a blocker would wait for an operator afterwards."""
    given = Given().written("a", "b")
    given.bucket.is_halted = True
    given.env.sleep(DAY / S)
    given.flush()
    before = given.cursor().saved
    for _ in range(2 * TRIES_MAX):
        (stream,) = [one for one in given.worker.streams() if one.delay_ns == DAY]
        assert given.worker.sweep(stream) is Handled.RETRY
        given.env.sleep(600)
    assert given.cursor().saved == before
    assert given.worker.blockers.every() == []
    given.bucket.is_halted = False
    given.works(1)
    assert given.keys == []


def test_a_halt_below_the_guard_of_a_deletion_is_no_failure_of_its_endpoint() -> None:
    """The guard reads the rules, which may have no endpoint left."""
    given = Given().written("a")
    _, target = endpoints(given)

    def guard(_: Standing) -> Result | None:
        raise Halted("no endpoint answers")

    with pytest.raises(Halted):
        target.delete(BUCKET, "a", "", What.EXPIRE, guard)
    assert target.healthy == [True, True]


def test_a_walk_is_listed_by_one_endpoint_while_it_answers() -> None:
    """Another one may have to list from the beginning: 216 listings of 13,000 keys with two endpoints."""
    given = Given()
    (first, second), target = endpoints(given)
    for after in ("", "a", "b"):
        target.page(BUCKET, after)
    assert (first.calls, second.calls) == (["page"] * 3, [])
    first.is_down = True
    for after in ("c", "d"):
        target.page(BUCKET, after)
    assert (len(first.calls), len(second.calls)) == (4, 2)
    first.is_down = False
    given.env.sleep(60)
    target.page(BUCKET, "e")
    assert (len(first.calls), len(second.calls)) == (4, 3)  # no reason to begin anew
