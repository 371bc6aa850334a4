"""Whatever is out of order stops its own work, shows itself, and stops nothing else."""

import errno
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.lifecycle.blockers import StreamKind
from fencepost.impl.lifecycle.expiration import Evaluation
from fencepost.impl.lifecycle.opening import Opened, open_lifecycle
from fencepost.impl.lifecycle.operate import Operator, Refused
from fencepost.impl.lifecycle.policy import Rule, Timing, What
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.status import status_of
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Listed,
    Needs,
    Result,
    Standing,
    Target,
    Unavailable,
    Unworkable,
    Wanted,
)
from fencepost.impl.lifecycle.worker import FATAL_TRIES_MAX, Handled, Worker
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.store.requests import ANYTHING

S = 10**9
TIMING = Timing(day_ns=10 * S, small_delay_ns=S, lookback_ns=S)
RULE = [{"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]
BAD, GOOD = "bad-bucket", "good-bucket"
KEYS = ("k1", "k2", "k3")
NAMES = (BAD, GOOD)


class Failing:
    """A target that fails for objects, and for buckets; of every error that a target has."""

    def __init__(self, inner: Target) -> None:
        self._inner = inner
        self.objects: dict[tuple[str, str], Exception] = {}
        self.listings: dict[str, Exception] = {}
        self.policies: dict[str, Exception] = {}

    def buckets(self) -> Sequence[str]:
        return self._inner.buckets()

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        if bucket in self.policies:
            raise self.policies[bucket]
        return self._inner.rules(bucket, age_s)

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        if (bucket, key) in self.objects:
            raise self.objects[bucket, key]
        return self._inner.standing(bucket, key, needs)

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        if bucket in self.listings:
            raise self.listings[bucket]
        return self._inner.page(bucket, after, prefix, uploads=uploads)

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        return self._inner.first(bucket, after, prefix)

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        return self._inner.delete(bucket, key, version_id, what, guard, needs)

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return self._inner.delete_versions(bucket, wanted, after, prefix)


class Two:
    """Two buckets of a directory with a rule each, and a service whose rounds are two seconds apart."""

    def __init__(self, root: str, opened: Opened, env: SeededEnvironment) -> None:
        self.root = root
        self.env = env
        self.target = Failing(opened.target)
        self.worker = Worker(opened.context, self.target, opened.log, TIMING)
        for name in NAMES:
            opened.policies.put(name, RULE)
        self.service = Service(self.worker)

    def write(self) -> None:
        buckets = Buckets(self.root, self.env)
        for key in KEYS:
            for name in NAMES:
                buckets.store(name).put(key, b"x", when=ANYTHING)
        buckets.log.flush(buckets.index)
        buckets.close()

    def rounds(self, count: int = 8) -> None:
        for _ in range(count):
            self.service.round()
            self.env.sleep(2)

    def left(self, bucket: str) -> list[str]:
        folder = Path(self.root, bucket)
        return sorted(path.name for path in folder.iterdir() if path.name in KEYS) if folder.is_dir() else []

    @property
    def operator(self) -> Operator:
        return Operator(self.worker)

    def blocked(self) -> list[tuple[StreamKind, str, str]]:
        return [(one.stream.kind, one.item.bucket, one.item.key) for one in self.operator.blockers()]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    # The files have the times of the system.
    env = SeededEnvironment(1, SystemEnvironment().now_ns() + S)
    buckets = Buckets(str(tmp_path), env)
    for name in NAMES:
        buckets.create(name)
    reconcile(buckets)
    buckets.close()
    with open_lifecycle(str(tmp_path), env) as opened:
        yield Two(str(tmp_path), opened, env)


Damage = Callable[[Two], Callable[[], object]]
"""Returns what repairs it."""


def attributes(two: Two) -> Callable[[], object]:
    path = Path(two.root, BAD, "k2")
    (name,) = os.listxattr(path) or [""]
    if not name:
        pytest.skip("this file system keeps no attributes in the files")
    before = os.getxattr(path, name)
    os.setxattr(path, name, b"\xff rot")
    return lambda: os.setxattr(path, name, before)


def unreadable_object(error: Exception) -> Damage:
    def damage(two: Two) -> Callable[[], object]:
        two.target.objects[BAD, "k2"] = error
        return two.target.objects.clear

    return damage


def changed(place: str, text: str) -> Damage:
    def damage(two: Two) -> Callable[[], object]:
        path = Path(two.root, ".objects", place)
        before = path.read_bytes()
        path.write_text(text)
        return lambda: path.write_bytes(before)

    return damage


def replaced_by_folder(two: Two) -> Callable[[], object]:
    path = Path(two.root, ".objects", "buckets", BAD)
    aside = path.with_name("x")  # too short for a bucket
    path.rename(aside)
    path.mkdir()

    def repair() -> None:
        path.rmdir()
        aside.rename(path)

    return repair


def of_listings(two: Two) -> Callable[[], object]:
    two.target.listings[BAD] = Unworkable("permission is denied")
    return two.target.listings.clear


def of_policies(two: Two) -> Callable[[], object]:
    two.target.policies[BAD] = Unworkable("permission is denied")
    return two.target.policies.clear


DAMAGES: dict[str, tuple[Damage, str]] = {
    "attributes": (attributes, "k2"),
    "object": (unreadable_object(Unworkable("rot")), "k2"),
    "listing": (of_listings, ""),
    "policy": (of_policies, ""),
    "settings": (changed(f"buckets/{BAD}", "{rot"), ""),
    "settings-folder": (replaced_by_folder, ""),
    "rules": (changed(f"buckets/{BAD}", json.dumps({"created_ns": 1, "lifecycle": "[rot"})), ""),
}


@pytest.mark.parametrize(
    ("name", "begins"),
    [(name, begins) for name in DAMAGES for begins in (False, True) if begins or name != "listing"],
)
def test_damage_stops_its_bucket_and_no_other(name: str, begins: bool, two: Two) -> None:
    """By events, whose sweep both buckets share, and by the walks with which the rules begin."""
    damage, key = DAMAGES[name]
    if not begins:
        two.rounds(1)
    two.write()
    repair = damage(two)
    two.env.sleep(20)
    two.rounds(16)
    assert two.left(GOOD) == []
    assert "k2" in two.left(BAD)
    assert two.blocked() == [(StreamKind.BOOTSTRAP, BAD, key)]
    assert two.service.last.failed == {}
    repair()
    if key:
        two.operator.retry(two.operator.blockers()[0].id)
    two.rounds(8)
    assert (two.left(BAD), two.blocked()) == ([], [])


@pytest.mark.parametrize("text", ["{rot", "[1]", '{"actions": 3}'])
def test_a_damaged_state_of_a_bucket_stops_that_bucket(text: str, two: Two) -> None:
    two.rounds(1)
    two.write()
    path = Path(two.root, ".objects/lifecycle/v1/buckets", f"{BAD}.json")
    path.unlink()
    path.write_text(text)
    two.env.sleep(20)
    two.rounds(16)
    assert (two.left(GOOD), two.left(BAD)) == ([], list(KEYS))
    assert two.blocked() == [(StreamKind.BOOTSTRAP, BAD, "")]
    shown = {one.name: one for one in status_of(two.worker, two.root).buckets}
    assert shown[GOOD].unreadable is None
    assert "delete it" in (shown[BAD].unreadable or "")
    path.unlink()  # as its message has it: the rules begin anew
    two.rounds(8)
    assert (two.left(BAD), two.blocked()) == ([], [])


@pytest.mark.parametrize("text", ["{rot", '{"format": 9}'])
def test_a_damaged_cursor_is_shown_and_stops_its_own_delay(text: str, two: Two) -> None:
    two.rounds(1)
    two.write()
    (path,) = Path(two.root, ".objects/lifecycle/v1/cursors/ages").rglob("*.json")
    path.unlink()
    path.write_text(text)
    two.env.sleep(20)
    two.rounds(8)
    (blocker,) = two.operator.blockers()
    assert (blocker.stream.kind, blocker.item.key) == (StreamKind.ORIGINAL, blocker.stream.key)
    assert two.service.last.failed == {}
    assert status_of(two.worker, two.root).blockers[0].id == blocker.id
    with pytest.raises(Refused, match="no single object"):
        two.operator.quarantine(blocker.id, "gone")
    path.unlink()
    two.rounds(8)
    assert (two.left(BAD), two.left(GOOD), two.blocked()) == ([], [], [])


def test_a_damaged_blocker_is_listed_and_holds(two: Two) -> None:
    two.write()
    two.target.objects[BAD, "k2"] = Unworkable("rot")
    two.env.sleep(20)
    two.rounds(8)
    (path,) = Path(two.root, ".objects/lifecycle/v1/blockers").rglob("*.json")
    path.unlink()
    path.write_text("{rot")
    (shown,) = two.operator.blockers()
    assert "delete it" in shown.reason
    assert shown.stream.key == f"walk/{BAD}"
    two.target.objects.clear()
    two.rounds(2)
    assert "k2" in two.left(BAD)
    path.unlink()
    two.rounds(4)
    assert two.left(BAD) == []


def test_what_does_not_answer_is_shown_while_it_is_tried(two: Two) -> None:
    """Not only when it is blocked, half an hour later."""
    two.write()
    two.target.listings[BAD] = Unavailable("no route to host")
    two.env.sleep(20)
    two.rounds(3)
    (shown,) = status_of(two.worker, two.root).retried
    assert (shown.bucket, shown.object, shown.tries, shown.reason) == (BAD, "", 3, "no route to host")
    two.target.listings.clear()
    two.rounds(3)
    assert (status_of(two.worker, two.root).retried, two.left(BAD)) == ((), [])


def test_an_error_that_nobody_expected_stops_its_own_part(two: Two, caplog: pytest.LogCaptureFixture) -> None:
    two.rounds(1)
    two.write()
    two.env.sleep(20)
    two.target.objects[BAD, "k2"] = RuntimeError("a bug")
    two.service.round()
    assert [one for one in two.service.last.failed.values() if "internal error: RuntimeError: a bug" in one]
    assert "Traceback" in caplog.text
    assert two.service.last.handled[f"walk/{GOOD}"] is Handled.RESOLVED


def test_an_event_leaves_a_shared_sweep_only_after_its_tries(two: Two) -> None:
    """A bucket whose disk stumbles once need not be walked."""
    two.rounds(1)
    two.write()
    two.env.sleep(20)
    two.target.objects[BAD, "k2"] = Unworkable("rot")
    two.rounds(FATAL_TRIES_MAX - 1)
    assert two.left(GOOD) != []
    two.target.objects.clear()
    two.rounds(2)
    assert (two.left(BAD), two.left(GOOD)) == ([], [])
    assert two.worker.records.bucket(BAD).walk is None


def test_a_bucket_of_an_unreadable_policy_keeps_its_state(two: Two) -> None:
    """That its rules cannot be read does not mean that it has none: its objects wait, its modes stay."""
    two.rounds(1)
    before = two.worker.records.bucket(BAD).actions
    two.write()
    two.target.policies[BAD] = Unavailable("an input or output error")
    two.rounds(2)
    assert two.worker.records.bucket(BAD).actions == before
    two.target.policies.clear()
    two.rounds(1)
    assert two.worker.records.bucket(BAD).walk is None


@pytest.mark.parametrize("seed", range(6))
def test_whatever_fails_is_blocked_and_all_else_expires(seed: int, two: Two) -> None:
    """Objects and buckets fail at random, for good; every other object is deleted, nothing else is."""
    chance = random.Random(seed)
    if chance.random() < 0.7:
        two.rounds(1)
    two.write()
    errors = [Unworkable("rot"), Unworkable(os.strerror(errno.EACCES))]
    bad = {(name, key) for name in NAMES for key in KEYS if chance.random() < 0.25}
    two.target.objects = {one: chance.choice(errors) for one in bad}
    two.env.sleep(20)
    two.rounds(30)
    for name in NAMES:
        first = min((key for one, key in bad if one == name), default=None)
        assert two.left(name) == [key for key in KEYS if first is not None and key >= first]
    assert sorted({bucket for _, bucket, _ in two.blocked()}) == sorted({name for name, _ in bad})
    while two.operator.blockers():
        for blocker in two.operator.blockers():
            two.operator.quarantine(blocker.id, "lost")
        two.rounds(8)
    assert {(name, key) for name in NAMES for key in two.left(name)} == bad


def test_a_look_is_an_evaluation_or_an_error(two: Two) -> None:
    """What a walk and a sweep take for resolved is an evaluation; no error of a target passes for one."""
    two.write()
    two.target.objects[BAD, "k2"] = Unworkable("rot")
    walks, snapshot = two.service._walks, two.worker.snapshot()
    assert isinstance(walks.look(BAD, "k1", snapshot.of_path(BAD, "k1")), Evaluation)
    assert isinstance(walks.look(BAD, "k2", snapshot.of_path(BAD, "k2")), Unworkable)
