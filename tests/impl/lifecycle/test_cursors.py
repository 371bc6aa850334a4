"""Positions sort as times and offsets do; an action that begins moves back its own cursors and no other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.cursor import Cursor
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle.cursors import (
    ages_key,
    before,
    is_seeded,
    keys_of,
    name_of,
    near_key,
    position,
    seed,
)
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.policy import STANDARD_TIMING, Rule
from fencepost.impl.store.memory import MemoryStore

DAY = STANDARD_TIMING.day_ns
BACK = STANDARD_TIMING.lookback_ns
NOW = 1_000 * DAY
TIMES = st.integers(0, 3) | st.integers(0, 2**63)


@pytest.fixture
def context() -> Context:
    store = MemoryStore(env=SeededEnvironment(1))
    return Context(store, store.env, retry=RetryPolicy("test", RuntimeError, attempts=3, backoff_s=0.01))


def action(**parts: Any) -> Action:
    rule = Rule(**parts)
    return Action("b", rule.actions()[0], rule, is_active=False)


def started(context: Context, key: str) -> Cursor:
    found = Cursor(context, key)
    found.start()
    return found


@given(st.tuples(TIMES, st.integers(0, 10**14)), st.tuples(TIMES, st.integers(0, 10**14)))
def test_positions_sort_as_events_do(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (position(*one) < position(*other)) == (one < other)
    assert (before(one[0]) < position(*other)) == (one[0] <= other[0])


def test_shards_of_any_name_have_keys_of_their_own() -> None:
    keys = [near_key(shard) for shard in ("a", "a/b", "a%2Fb", "..")]
    assert len({*keys}) == 4
    assert {key.count("/") for key in keys} == {4}


def test_the_cursors_of_an_action_that_begins_are_before_what_the_walk_left(context: Context) -> None:
    week = action(expiration_days=7)
    assert seed(context, [week], ["x", "y"], NOW) == 4
    for shard in ("x", "y"):
        assert started(context, ages_key(7 * DAY, shard)).saved == before(NOW - 7 * DAY)
        assert started(context, near_key(shard)).saved == before(NOW - BACK)
    assert is_seeded(context, week, ["x", "y"])
    assert not is_seeded(context, week, ["x", "y", "z"])
    assert not is_seeded(context, action(expiration_days=8), ["x"])


def test_a_shared_cursor_goes_back_and_never_on(context: Context) -> None:
    """It serves both actions then; a later walk of the second does not have the first miss anything."""
    first, second = action(expiration_days=7), action(prefix="p", expiration_days=7)
    key = ages_key(7 * DAY, "x")
    seed(context, [first], ["x"], NOW)
    ahead = started(context, key)
    ahead.take(position(NOW, 3))
    ahead.done(position(NOW, 3))
    ahead.save()
    seed(context, [second], ["x"], NOW + DAY)
    assert started(context, key).saved == before(NOW - 6 * DAY)
    seed(context, [second], ["x"], NOW + 9 * DAY)
    assert started(context, key).saved == before(NOW - 6 * DAY)
    assert started(context, key).serves == {name_of(first), name_of(second)}


def test_actions_that_begin_together_have_the_earliest_of_their_floors(context: Context) -> None:
    """The smaller delay shares the near cursor, and no cursor of ages."""
    rules = [action(expired_delete_marker=True), action(expiration_days=30), action(expiration_date_ns=5)]
    seed(context, rules, ["x"], NOW)
    small = ages_key(STANDARD_TIMING.small_delay_ns, "x")
    assert started(context, small).saved == started(context, near_key("x")).saved == before(NOW - BACK)
    assert started(context, ages_key(30 * DAY, "x")).saved == before(NOW - 30 * DAY)
    assert started(context, small).serves == {name_of(rules[0])}
    assert started(context, near_key("x")).serves == {name_of(rules[0]), name_of(rules[1])}


def test_dates_have_no_cursor_and_uploads_none_near_the_clock() -> None:
    assert keys_of(action(expiration_date_ns=5), "x") == {}
    assert keys_of(action(abort_days=7), "x") == {ages_key(7 * DAY, "x"): 7 * DAY}
