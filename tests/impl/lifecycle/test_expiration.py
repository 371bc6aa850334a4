"""What is deleted is what was looked at, for a rule in force; an object that changed is looked at again."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.expiration import Evaluation, Expirer
from fencepost.impl.lifecycle.log import MemoryLog
from fencepost.impl.lifecycle.policy import rules_of
from fencepost.impl.lifecycle.target import Unavailable

from .history import BUCKET, DAY, START, TIMING, Bucket, S

RULE = {"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}


@pytest.fixture
def bucket() -> Bucket:
    """With one object that is due."""
    env = SeededEnvironment(1, START)
    found = Bucket(env, random.Random(1), MemoryLog(("x",)), is_versioned=False, structures=[RULE])
    found.write("k", 1, {})
    env.sleep(DAY / S)
    return found


def look(bucket: Bucket, race: Callable[[], None] = lambda: None) -> Evaluation:
    """With something that happens between the first look and its deletion."""
    left = [race]
    bucket.race = lambda _: left.pop()() if left else None
    rule = rules_of([RULE])[0]
    action = Action(BUCKET, rule.actions()[0], rule, is_active=True)
    return Expirer(bucket, bucket.env, TIMING).expire(BUCKET, "k", [action])


def change(bucket: Bucket, **parts: object) -> None:
    bucket.change("k", [replace(bucket.rows["k"][0], **parts)])


def test_what_is_due_is_deleted(bucket: Bucket) -> None:
    assert look(bucket).deleted == 1
    assert not bucket.rows["k"]


def test_an_object_that_was_overwritten_stays(bucket: Bucket) -> None:
    looked = look(bucket, lambda: bucket.write("k", 1, {}))
    assert (looked.deleted, len(looked.waiting)) == (0, 1)


def test_an_object_that_changed_is_looked_at_again(bucket: Bucket) -> None:
    seen: list[str] = []
    bucket.before = lambda: seen.append("") or (lambda: None)  # type: ignore[func-returns-value]  # None on purpose
    stored = replace(bucket.rows["k"][0].stored, size=2)
    assert look(bucket, lambda: change(bucket, stored=stored)).deleted == 1
    assert len(seen) == 4  # two looks and two deletions


def test_a_rule_that_is_gone_deletes_nothing(bucket: Bucket) -> None:
    looked = look(bucket, bucket.structures.clear)
    assert (looked.deleted, len(looked.stale)) == (0, 1)
    assert bucket.rows["k"]


def test_a_rule_that_is_disabled_deletes_nothing(bucket: Bucket) -> None:
    bucket.structures = [{**RULE, "Status": "Disabled"}]
    assert len(look(bucket).stale) == 1


def test_a_lock_that_comes_after_the_look_holds(bucket: Bucket) -> None:
    looked = look(bucket, lambda: change(bucket, locked=True))
    assert (looked.deleted, looked.locked) == (0, 1)


def test_an_object_that_never_stands_still_is_left_for_later(bucket: Bucket) -> None:
    def touch(_: str) -> None:
        number = bucket.rows["k"][0].number + 1
        change(bucket, number=number)

    rule = rules_of([RULE])[0]
    bucket.race = touch
    action = Action(BUCKET, rule.actions()[0], rule, is_active=True)
    with pytest.raises(Unavailable, match="changed"):
        Expirer(bucket, bucket.env, TIMING).expire(BUCKET, "k", [action])
