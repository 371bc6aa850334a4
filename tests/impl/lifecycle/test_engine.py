"""Events are routed to the actions that may apply, once for each delay, and only to those that are ready."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.lifecycle.engine import Change, Class, Seen, State, classify, compile_policies
from fencepost.impl.lifecycle.policy import DAY_NS, STANDARD_TIMING, Kind, Mode, Rule, delays
from tests.depth import examples

READY = State(Mode.EVENT_DRIVEN, is_complete=True)
A = Seen(1, 2, "a")
TAGGED = replace(A, tags=(("t", "1"),))
SMALL = STANDARD_TIMING.small_delay_ns


def ready(policies: dict[str, list[Rule]]) -> dict[Any, State]:
    return {
        (bucket, key): READY for bucket, rules in policies.items() for rule in rules for key in rule.actions()
    }


def compiled(policies: dict[str, list[Rule]], states: dict[Any, State] | None = None) -> Any:
    return compile_policies(1, policies, ready(policies) if states is None else states)


# Events.


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, A, Class.AGE),
        (A, replace(A, mtime_ns=2), Class.AGE),
        (A, replace(A, size=3), Class.AGE),
        (A, replace(A, content="b"), Class.AGE),
        (A, replace(TAGGED, content="b"), Class.AGE),
        (A, TAGGED, Class.TAGS),
        (TAGGED, A, Class.TAGS),
        (A, None, Class.REMOVAL),
        (A, A, Class.IRRELEVANT),
        (TAGGED, TAGGED, Class.IRRELEVANT),
        (None, None, Class.IRRELEVANT),
    ],
)
def test_an_event_is_of_one_class(old: Seen | None, new: Seen | None, expected: Class) -> None:
    assert classify(Change("b", "k", old, new)) is expected


# Groups.


def test_actions_of_one_delay_share_a_sweep_over_all_buckets() -> None:
    policies = {
        f"bucket-{n}": [
            Rule(prefix=f"{at}/", expiration_days=days) for at, days in enumerate((1, 1, 7, 7, 30))
        ]
        for n in range(100)
    }
    snapshot = compiled(policies)
    assert len(snapshot.actions) == 500
    assert snapshot.delays == (DAY_NS, 7 * DAY_NS, 30 * DAY_NS)
    assert [len(snapshot.groups[delay]) for delay in snapshot.delays] == [200, 200, 100]


def test_siblings_of_one_rule_have_delays_of_their_own() -> None:
    rule = Rule(expiration_days=90, noncurrent_days=30, newer_noncurrent=2, abort_days=7)
    snapshot = compiled({"b": [rule]})
    kinds = {delay: {action.key.kind for action in found} for delay, found in snapshot.groups.items()}
    assert kinds == {
        90 * DAY_NS: {Kind.EXPIRATION_DAYS},
        30 * DAY_NS: {Kind.NEWER_NONCURRENT},
        SMALL: {Kind.NEWER_NONCURRENT},
        7 * DAY_NS: {Kind.ABORT_MPU},
    }


@pytest.mark.parametrize(
    "state",
    [
        None,
        State(Mode.EVENT_DRIVEN, is_complete=False),
        State(Mode.SCAN_ONLY, is_complete=True),
        State(Mode.SCAN_AT_DATE, is_complete=True),
        State(Mode.DISABLED, is_complete=True),
    ],
)
def test_no_event_is_routed_to_an_action_that_is_not_ready(state: State | None) -> None:
    """Its cursors are not set, or something else enforces it; a walk finds it all the same."""
    rule = Rule(expiration_days=1, tags=(("t", "1"),))
    (key,) = rule.actions()
    snapshot = compiled({"b": [rule]}, {} if state is None else {("b", key): state})
    assert snapshot.delays == ()
    assert snapshot.by_age("b", "k", DAY_NS) == snapshot.near(Change("b", "k", A, TAGGED)) == []
    assert [action.key for action in snapshot.of_path("b", "k")] == [key]
    assert snapshot.has("b", key)


def test_a_disabled_rule_is_in_the_policy_and_does_nothing() -> None:
    rule = Rule(expiration_days=1, is_enabled=False)
    snapshot = compiled({"b": [rule]})
    assert (snapshot.delays, snapshot.of_path("b", "k")) == ((), [])
    assert snapshot.has("b", rule.actions()[0])
    assert not snapshot.has("b", Rule(expiration_days=2).actions()[0])
    assert not snapshot.has("other", rule.actions()[0])


@pytest.mark.parametrize("enabled", [(True, False), (False, True)])
def test_of_two_rules_that_do_the_same_the_enabled_one_counts(enabled: tuple[bool, bool]) -> None:
    snapshot = compiled({"b": [Rule(expiration_days=1, is_enabled=on) for on in enabled]})
    assert len(snapshot.by_age("b", "k", DAY_NS)) == len(snapshot.of_path("b", "k")) == 1


# Routing.


def test_a_removal_is_looked_at_for_everything_and_a_tag_for_what_it_completes() -> None:
    """An older version may have become the current one, or a marker the only version."""
    policies = {
        "b": [
            Rule(expiration_days=1),
            Rule(expiration_days=2, tags=(("t", "1"),)),
            Rule(expiration_days=3, tags=(("t", "1"), ("u", "1"))),
            Rule(expired_delete_marker=True),
            Rule(abort_days=1),
        ]
    }
    snapshot = compiled(policies)
    removed = snapshot.near(Change("b", "k", A, None))
    assert len(removed) == 4
    assert Kind.ABORT_MPU not in {action.key.kind for action in removed}
    assert [action.rule.expiration_days for action in snapshot.near(Change("b", "k", A, TAGGED))] == [2]
    assert snapshot.near(Change("b", "k", TAGGED, A)) == []
    assert snapshot.near(Change("b", "k", None, TAGGED)) == []


def test_uploads_are_looked_at_for_their_own_action() -> None:
    snapshot = compiled({"b": [Rule(expiration_days=7, abort_days=7)]})
    for is_upload, kind in ((True, Kind.ABORT_MPU), (False, Kind.EXPIRATION_DAYS)):
        found = snapshot.by_age("b", "k", 7 * DAY_NS, is_upload=is_upload)
        assert [action.key.kind for action in found] == [kind]


def test_dates_are_in_order_and_in_no_sweep() -> None:
    rules = [Rule(expiration_date_ns=9), Rule(expiration_date_ns=3)]
    snapshot = compiled(
        {"b": rules}, {("b", rule.actions()[0]): State(Mode.SCAN_AT_DATE, True) for rule in rules}
    )
    assert [action.rule.expiration_date_ns for action in snapshot.dates] == [3, 9]
    assert snapshot.delays == ()


PATHS = st.text("ab/", max_size=4)
RULES = st.builds(Rule, prefix=PATHS, expiration_days=st.integers(1, 2), abort_days=st.none() | st.just(1))


@given(st.dictionaries(st.sampled_from("xy"), st.lists(RULES, max_size=5)), st.sampled_from("xyz"), PATHS)
@settings(max_examples=examples(100), deadline=None)
def test_the_candidates_are_those_of_every_rule_tried(policies: Any, bucket: str, key: str) -> None:
    snapshot = compiled(policies)
    for delay in (DAY_NS, 2 * DAY_NS):
        for is_upload in (False, True):
            expected = {
                action
                for rule in policies.get(bucket, [])
                for action in rule.actions()
                if key.startswith(rule.prefix)
                and delay in delays(rule, action.kind)
                and (action.kind is Kind.ABORT_MPU) == is_upload
            }
            found = snapshot.by_age(bucket, key, delay, is_upload=is_upload)
            assert {action.key for action in found} == expected
            assert len(found) == len(expected)
