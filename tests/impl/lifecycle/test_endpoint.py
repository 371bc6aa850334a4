"""A bucket of an S3 endpoint as a target: what a walk finds, and what happens between guard and deletion."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.lifecycle import endpoint
from fencepost.impl.lifecycle.endpoint import OURS, EndpointTarget
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.expiration import Expirer
from fencepost.impl.lifecycle.policy import SECOND_NS, Rule, Timing, What
from fencepost.impl.lifecycle.target import Listed, Result, Standing, Unavailable, Wanted
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
        while page := self.page(found[-1] if found else ""):
            found += [one.key for one in page]
        return found

    def page(self, after: str = "", **more: Any) -> Sequence[Listed]:
        return self.target.page(self.bucket, after, **more)

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
    assert [one.key for one in plain.page()] == ["k"]
    (live,) = plain.target.standing(plain.bucket, "k").versions
    assert live.version.tags == (("t", "1"),)


def test_what_a_walk_lists_is_its_first_look(plain: Made, honest_moto: "Here") -> None:
    for number in range(3):
        plain.put(f"k{number}")
    assert plain.walk() == ["k0", "k1", "k2"]
    listed = [one.shown for one in plain.page()]
    again = [plain.target.standing(plain.bucket, f"k{number}") for number in range(3)]
    identities = [one.versions[0].identity for one in listed if one is not None]
    assert identities == [one.versions[0].identity for one in again]


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
    plain.page()
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
    while page := [one.key for one in plain.page(after)]:
        assert page[-1] > after
        found |= {*page}
        after, pages = page[-1], pages + 1
        if pages == crash_after:
            plain.target._listing = None  # the process begins anew, at its last page
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
    assert [one.key for one in versioned.page()] == ["a", "b"]
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
    shown: list[bool] = []

    def guard(now: Standing) -> Result | None:
        shown.append(now.versions[0].is_locked)
        return Result.SKIPPED_OBJECT_LOCK

    for key in ("k", "k2"):
        version = target.standing(name, key).versions[0].version.version_id
        target.delete(name, key, version, What.DELETE_VERSION, guard)
    assert shown == [True, False]


def test_a_store_that_does_not_answer_is_unavailable(plain: Made, honest_moto: "Here") -> None:
    plain.put("k")
    honest_moto.answer("503 Slow Down", method="HEAD")
    with pytest.raises(Unavailable):
        plain.target.standing(plain.bucket, "k")
    honest_moto.lose_reply("DELETE")
    with pytest.raises(Unavailable):
        plain.delete("k", "", What.EXPIRE, allow)


# What a walk costs.


def served(server: "Here", act: Callable[[], object]) -> list[str]:
    """The requests of an act."""
    before = len(server.app.served)
    act()
    return server.app.served[before:]


def test_a_page_is_one_request_and_may_begin_anywhere(
    plain: Made, honest_moto: "Here", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PAGE", 2)
    for key in "abcde":
        plain.put(key)
    plain.page()  # finds out in which order the store lists
    found: dict[str, list[str]] = {}

    def page(after: str) -> None:
        found[after] = [one.key for one in plain.page(after, uploads=False)]

    for after in ("", "a", "d", "e"):
        assert len([line for line in served(honest_moto, partial(page, after)) if "list-type" in line]) == 1
    assert found == {"": ["a", "b"], "a": ["b", "c"], "d": ["e"], "e": []}
    assert plain.target.first(plain.bucket, "b") == "c"
    assert plain.target.first(plain.bucket, "e") is None


def test_uploads_are_listed_once_for_all_pages_that_they_cover(
    plain: Made, honest_moto: "Here", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PAGE", 2)
    for key in "abcde":
        plain.put(key)
    for key in ("a", "b5", "e", "f"):
        plain.client.create_multipart_upload(Bucket=plain.bucket, Key=key)
    plain.target.first(plain.bucket, "")  # finds out the order
    found: list[str] = []
    lines = served(honest_moto, lambda: found.extend(plain.walk()))
    assert found == ["a", "b", "b5", "c", "d", "e", "f"]
    assert len([line for line in lines if "uploads" in line]) == 1


def test_an_upload_that_was_listed_is_aborted_with_one_request(plain: Made, honest_moto: "Here") -> None:
    upload = plain.client.create_multipart_upload(Bucket=plain.bucket, Key="k")["UploadId"]
    (listed,) = plain.page()
    assert listed.shown is not None
    assert [one.version.version_id for one in listed.shown.uploads] == [upload]
    result: list[Result] = []
    lines = served(honest_moto, lambda: result.append(plain.delete("k", upload, What.ABORT, allow)))
    assert (result, len(lines)) == ([Result.DONE], 1)
    assert plain.delete("k", upload, What.ABORT, allow) is Result.NOT_FOUND


def refuse_current(key: str, version: str) -> Callable[[Standing], Result | None]:
    def guard(now: Standing) -> Result | None:
        found = [one for one in now.versions if one.version.version_id == version]
        assert found, key
        return None if found[0].version.noncurrent_since_ns is not None else Result.NO_LONGER_ELIGIBLE

    return guard


def test_noncurrent_versions_of_a_page_go_with_two_requests(versioned: Made, honest_moto: "Here") -> None:
    """After one more listing: a version that became the current one in between stays."""
    old = {key: versioned.put(key) for key in "abc"}
    new = {key: versioned.put(key) for key in "abc"}
    versioned.page()
    versioned.client.delete_object(Bucket=versioned.bucket, Key="b", VersionId=new["b"])
    wanted = [Wanted(key, version, refuse_current(key, version)) for key, version in old.items()]
    results: list[Result | None] = []
    lines = served(
        honest_moto, lambda: results.extend(versioned.target.delete_versions(versioned.bucket, wanted, ""))
    )
    assert results == [Result.DONE, None, Result.DONE]
    assert len(lines) == 2
    kept = versioned.client.list_object_versions(Bucket=versioned.bucket)["Versions"]
    assert {row["VersionId"] for row in kept} == {new["a"], old["b"], new["c"]}


def test_versions_without_a_name_of_their_own_go_one_by_one(plain: Made, versioned: Made) -> None:
    plain.put("k")
    assert plain.target.delete_versions(plain.bucket, [Wanted("k", "", allow)], "") == [None]
    versioned.put("k")
    assert versioned.target.delete_versions(versioned.bucket, [Wanted("k", "null", allow)], "") == [None]


def test_the_rules_of_guards_are_read_once_a_second(plain: Made) -> None:
    reads: list[int] = []
    target = EndpointTarget(
        plain.target._context, plain.store, plain.bucket, lambda: reads.append(1) or [DAYS]
    )  # type: ignore[func-returns-value]  # counts
    for _ in range(5):
        assert target.rules(plain.bucket, 1000.0) == [DAYS]
    assert len(reads) == 1
    target.rules(plain.bucket)
    assert len(reads) == 2


class Ahead(SystemEnvironment):
    """The clock of a worker that is three days ahead."""

    def now_ns(self) -> int:
        return super().now_ns() + 3 * Timing().day_ns


@pytest.fixture
def expirer(plain: Made) -> Expirer:
    return Expirer(plain.target, Ahead())


def actions(made: Made, *rules: Rule) -> list[Action]:
    return [Action(made.bucket, key, rule, is_active=True) for rule in rules for key in rule.actions()]


def test_a_clock_that_is_ahead_deletes_nothing_early(plain: Made, expirer: Expirer) -> None:
    plain.put("k")
    wanted = actions(plain, DAYS)
    (listed,) = plain.page()
    assert expirer.may_delete(listed, wanted) == []
    for first in (None, listed.shown):  # looked at, and as a walk lists it
        found = expirer.expire(plain.bucket, "k", wanted, listed=first)
        assert (found.deleted, len(found.waiting)) == (0, 1)
    (live,) = plain.target.standing(plain.bucket, "k").versions
    assert expirer.delete(plain.bucket, "k", wanted[0], live, What.EXPIRE) is Result.NO_LONGER_ELIGIBLE
    assert plain.keys() == ["k"]


def test_a_clock_that_is_ahead_aborts_no_upload_early(
    plain: Made, expirer: Expirer, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = plain.client.create_multipart_upload(Bucket=plain.bucket, Key="k")["UploadId"]
    listed, now_ns = endpoint._of_upload, plain.store.env.now_ns()  # moto tells no time of an upload
    monkeypatch.setattr(endpoint, "_of_upload", lambda one: listed(replace(one, started_ns=now_ns)))
    plain.rules = [ABORTING]
    wanted = actions(plain, ABORTING)
    (page,) = plain.page()
    assert expirer.may_delete(page, wanted) == []
    assert page.shown is not None
    (started,) = page.shown.uploads
    assert expirer.delete(plain.bucket, "k", wanted[0], started, What.ABORT) is Result.NO_LONGER_ELIGIBLE
    (left,) = plain.client.list_multipart_uploads(Bucket=plain.bucket)["Uploads"]
    assert left["UploadId"] == upload


def test_a_clock_that_is_ahead_deletes_no_replaced_version_early(versioned: Made) -> None:
    rule = Rule(noncurrent_days=1)
    versioned.rules = [rule]
    versions = {versioned.put("k"), versioned.put("k")}
    (listed,) = versioned.page()
    expirer = Expirer(versioned.target, Ahead())
    assert expirer.expire_versions(versioned.bucket, [(listed, actions(versioned, rule))], "", "") == {"k"}
    standing = versioned.target.standing(versioned.bucket, "k")
    assert {live.version.version_id for live in standing.versions} == versions


def test_only_what_both_clocks_call_due_is_deleted(plain: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.put("k")
    wanted = actions(plain, DAYS)
    later_ns = plain.store.env.now_ns() + 3 * Timing().day_ns
    monkeypatch.setattr(plain.store, "now_ns", lambda: later_ns)
    assert Expirer(plain.target, SystemEnvironment()).expire(plain.bucket, "k", wanted).deleted == 0
    assert plain.keys() == ["k"]
    assert Expirer(plain.target, Ahead()).expire(plain.bucket, "k", wanted).deleted == 1
    assert plain.keys() == []


@pytest.mark.parametrize("date", ["", "yesterday", "Thu, 01 Jan 2026 00:00:00"])
def test_a_store_that_tells_no_time_is_believed_by_the_workers_clock(plain: Made, date: str) -> None:
    response = type("Response", (), {"headers": {"Date": date}})
    plain.store._keep_date(response)
    assert plain.store.now_ns() is None


def test_the_time_of_the_store_goes_on_between_its_replies(plain: Made) -> None:
    response = type("Response", (), {"headers": {"Date": "Thu, 01 Jan 2026 00:00:00 GMT"}})
    begin_ns = plain.store.env.monotonic_ns()
    plain.store._keep_date(response)
    plain.store.env.sleep(0.01)
    sent_ns = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND_NS
    first, second = plain.store.now_ns(), plain.store.now_ns()
    assert (
        sent_ns + SECOND_NS // 100 <= first <= second <= sent_ns + plain.store.env.monotonic_ns() - begin_ns
    )
