"""A bucket of an S3 endpoint as a target: what a walk finds, and what happens between guard and deletion."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.lifecycle import endpoint
from fencepost.impl.lifecycle.endpoint import OURS, EndpointTarget
from fencepost.impl.lifecycle.policy import SECOND_NS, Rule, What
from fencepost.impl.lifecycle.target import Result, Standing, Unavailable
from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import ListReply, ObjectInfo, Outcome
from fencepost.impl.store.urls import open_store

if TYPE_CHECKING:
    from tests.servers.moto_here import Here

DAYS = Rule(expiration_days=1)
TAGGED = Rule(tags=(("t", "1"),), expiration_days=1)
ABORTING = Rule(abort_days=1)


class Made:
    """A bucket of moto, with a client of its own beside the target."""

    def __init__(self, server: "Here", *, versioned: bool = False, locked: bool = False) -> None:
        url = server.bucket(versioned=versioned)
        self.bucket = url.removeprefix("s3://").partition("?")[0]
        self.client = server.client()
        self.store: Any = open_store(url)
        self.rules: Sequence[Rule] = [DAYS]
        context = Context(self.store, self.store.env, retry=RetryPolicy("test", Unavailable, attempts=1))
        self.target = EndpointTarget(context, self.store, self.bucket, lambda: self.rules)
        self.has_locks = locked

    def put(self, key: str, body: bytes = b"x", **more: Any) -> str:
        """Returns its version."""
        made = self.client.put_object(Bucket=self.bucket, Key=key, Body=body, **more)
        return str(made.get("VersionId", ""))

    def walk(self) -> list[str]:
        found: list[str] = []
        while page := self.target.page(self.bucket, found[-1] if found else ""):
            found += page
        return found

    def delete(self, key: str, version: str, what: What, guard: Callable[[Standing], Any]) -> Result:
        return self.target.delete(self.bucket, key, version, what, guard)

    def keys(self) -> list[str]:
        return [one["Key"] for one in self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])]


def allow(_: Standing) -> Result | None:
    return None


@pytest.fixture
def plain(honest_moto: "Here") -> Made:
    return Made(honest_moto)


@pytest.fixture
def versioned(honest_moto: "Here") -> Made:
    return Made(honest_moto, versioned=True)


def test_an_object_is_never_older_than_it_is(plain: Made) -> None:
    before_ns = plain.store.env.now_ns()
    plain.put("k", b"123")
    (live,) = plain.target.standing(plain.bucket, "k").versions
    assert before_ns <= live.version.mtime_ns <= plain.store.env.now_ns() + SECOND_NS
    assert (live.version.size, live.version.tags) == (3, ())


def test_tags_are_read_where_a_rule_needs_them(plain: Made, honest_moto: "Here") -> None:
    plain.put("k", Tagging="t=1")
    plain.rules = [TAGGED]
    assert plain.target.page(plain.bucket, "") == ["k"]
    (live,) = plain.target.standing(plain.bucket, "k").versions
    assert live.version.tags == (("t", "1"),)


def test_what_a_walk_lists_is_its_first_look(plain: Made, honest_moto: "Here") -> None:
    for number in range(3):
        plain.put(f"k{number}")
    assert plain.walk() == ["k0", "k1", "k2"]
    plain.target.page(plain.bucket, "")
    before = len(honest_moto.app.served)
    listed = [plain.target.standing(plain.bucket, f"k{number}") for number in range(3)]
    assert len(honest_moto.app.served) == before
    again = [plain.target.standing(plain.bucket, f"k{number}") for number in range(3)]
    assert [one.versions[0].identity for one in listed] == [one.versions[0].identity for one in again]


def test_nothing_is_seen_of_the_state_of_lifecycles(plain: Made) -> None:
    plain.put(f"{OURS}control.json")
    plain.put("k")
    assert plain.walk() == ["k"]
    assert plain.target.standing(plain.bucket, f"{OURS}control.json") == Standing()
    assert plain.delete(f"{OURS}control.json", "", What.EXPIRE, allow) is Result.NOT_FOUND
    assert len(plain.keys()) == 2


def test_an_upload_is_found_at_a_key_that_has_an_object_too(plain: Made) -> None:
    plain.rules = [DAYS, ABORTING]
    plain.put("k")
    for key in ("a", "k"):
        plain.client.create_multipart_upload(Bucket=plain.bucket, Key=key)
    assert plain.walk() == ["a", "k"]
    plain.target.page(plain.bucket, "")
    for key in ("a", "k"):
        (live,) = plain.target.standing(plain.bucket, key).uploads
        assert plain.delete(key, live.version.version_id, What.ABORT, allow) is Result.DONE
        assert plain.delete(key, live.version.version_id, What.ABORT, allow) is Result.NOT_FOUND


def test_a_second_walk_begins_anew(plain: Made) -> None:
    assert plain.walk() == []
    plain.put("k")
    assert plain.walk() == ["k"]


@pytest.mark.parametrize("order", [["a/x", "a.b", "b"], ["b", "a"], ["a", "b", "c"], ["c", "b", "a"]])
@pytest.mark.parametrize("crash_after", [0, 1, 2])
def test_a_walk_finds_every_key_in_whatever_order_they_are_listed(
    plain: Made, order: list[str], crash_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees of folders list "a/x" before "a.b"; behind the last key of a page that would be passed."""
    monkeypatch.setattr(endpoint, "PAGE", 1)
    listing = ListReply(Outcome.DONE, "", tuple(ObjectInfo(key, "e", 1, 1) for key in order))
    send = plain.store.send
    monkeypatch.setattr(plain.store, "send", lambda one: listing if isinstance(one, ask.List) else send(one))
    found: set[str] = set()
    after, pages = "", 0
    while page := plain.target.page(plain.bucket, after):
        assert page[-1] > after
        found |= {*page}
        after, pages = page[-1], pages + 1
        if pages == crash_after:
            plain.target._walk = None  # the process begins anew, at its last page
        assert pages < 10
    assert found >= {*order}


def test_versions_and_markers_stand_newest_first(versioned: Made) -> None:
    ids = [versioned.put("k"), versioned.put("k")]
    versioned.put("k2")
    versioned.client.delete_object(Bucket=versioned.bucket, Key="k")
    standing = versioned.target.standing(versioned.bucket, "k")
    assert [one.version.version_id for one in standing.versions][1:] == ids[::-1]
    assert [one.version.is_delete_marker for one in standing.versions] == [True, False, False]
    assert standing.is_versioned
    assert versioned.delete("k", ids[0], What.DELETE_VERSION, allow) is Result.DONE
    assert len(versioned.target.standing(versioned.bucket, "k").versions) == 2
    assert versioned.delete("k2", "", What.EXPIRE, allow) is Result.DONE
    hidden = versioned.target.standing(versioned.bucket, "k2").versions
    assert [one.version.is_delete_marker for one in hidden] == [True, False]


def test_a_key_that_is_listed_in_two_places_stands_as_a_whole(versioned: Made) -> None:
    """As moto lists the marker of "a" behind the versions of "b"."""
    for key in ("a", "b"):
        versioned.put(key)
    versioned.client.delete_object(Bucket=versioned.bucket, Key="a")
    assert versioned.target.page(versioned.bucket, "") == ["a", "b"]
    found = versioned.target.standing(versioned.bucket, "a").versions
    assert [one.version.is_delete_marker for one in found] == [True, False]


def test_an_object_that_is_overwritten_behind_the_guard_stays(plain: Made) -> None:
    if not plain.target.evaluates_if_match():
        pytest.skip("this moto does not evaluate If-Match of a deletion")
    plain.put("k")

    def guard(_: Standing) -> Result | None:
        plain.put("k", b"another")
        return None

    assert plain.delete("k", "", What.EXPIRE, guard) is Result.STALE_IDENTITY
    assert plain.keys() == ["k"]


def test_trying_the_conditions_leaves_nothing(plain: Made, versioned: Made) -> None:
    for one in (plain, versioned):
        one.target.evaluates_if_match()
        assert one.keys() == []
        assert "Versions" not in one.client.list_object_versions(Bucket=one.bucket)
        assert "DeleteMarkers" not in one.client.list_object_versions(Bucket=one.bucket)


@pytest.mark.parametrize("how", ["GOVERNANCE", "COMPLIANCE", "hold"])
def test_a_locked_version_is_known_as_locked(how: str, honest_moto: "Here") -> None:
    with_locks = Made(honest_moto)
    name = f"{with_locks.bucket}-locked"
    with_locks.client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    until = datetime(2999, 1, 1, tzinfo=UTC)
    lock: dict[str, Any] = {"ObjectLockMode": how, "ObjectLockRetainUntilDate": until}
    lock = {"ObjectLockLegalHoldStatus": "ON"} if how == "hold" else lock
    store: Any = open_store(honest_moto.url(name))
    context = Context(store, store.env, retry=RetryPolicy("test", Unavailable, attempts=1))
    target = EndpointTarget(context, store, name, lambda: [DAYS])
    with_locks.client.put_object(Bucket=name, Key="k", Body=b"x", ChecksumAlgorithm="CRC32", **lock)
    with_locks.client.put_object(Bucket=name, Key="k2", Body=b"x")
    target.page(name, "")
    assert [target.standing(name, key).versions[0].is_locked for key in ("k", "k2")] == [True, False]


def test_a_store_that_does_not_answer_is_unavailable(plain: Made, honest_moto: "Here") -> None:
    plain.put("k")
    honest_moto.answer("503 Slow Down", method="HEAD")
    with pytest.raises(Unavailable):
        plain.target.standing(plain.bucket, "k")
    honest_moto.lose_reply("DELETE")
    with pytest.raises(Unavailable):
        plain.delete("k", "", What.EXPIRE, allow)
