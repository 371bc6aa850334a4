"""What rules mean: the hash names what a rule does, an evaluation is what a walk of the bucket finds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.impl.lifecycle.policy import (
    Degraded,
    Kind,
    Mode,
    Rule,
    Timing,
    Version,
    What,
    decide_mode,
    delays,
    due_at,
    evaluate,
    event_log_horizon,
    in_order,
    min_trigger_age,
    rules_of,
    scan_every_ns,
)
from fencepost.impl.objects.lifecycle_rules import kept_rules, read_rules
from fencepost.properties.lifecycle.oracle import Stored, due_now
from tests.depth import examples

DAY = 10 * 10**9
TIMING = Timing(day_ns=DAY, small_delay_ns=10**8, lookback_ns=10**9)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rule(**parts: Any) -> dict[str, Any]:
    return {"Status": "Enabled", "Filter": {}, **parts}


def one(**parts: Any) -> Rule:
    return rules_of([rule(**parts)])[0]


def tag(key: str, value: str) -> dict[str, str]:
    return {"Key": key, "Value": value}


# Hashes.


def test_name_status_and_order_are_not_part_of_the_hash() -> None:
    tags = [tag("a", "1"), tag("b", "2")]
    plain = one(Filter={"And": {"Prefix": "p", "Tags": tags}}, Expiration={"Days": 3})
    other = one(
        ID="x", Status="Disabled", Filter={"And": {"Tags": tags[::-1], "Prefix": "p"}}, Expiration={"Days": 3}
    )
    assert plain.hash == other.hash
    assert len(plain.hash) == 8
    single = one(Filter={"Tag": tag("a", "1")}, Expiration={"Days": 3})
    assert single.hash == one(Filter={"And": {"Tags": [tag("a", "1")]}}, Expiration={"Days": 3}).hash
    assert (
        one(Expiration={"Days": 3}).hash
        == rules_of([{"Status": "Enabled", "Prefix": "", "Expiration": {"Days": 3}}])[0].hash
    )


DIFFERENT = [
    Rule(expiration_days=3),
    Rule(expiration_days=4),
    Rule(noncurrent_days=3),
    Rule(abort_days=3),
    Rule(expiration_date_ns=3),
    Rule(expired_delete_marker=True),
    Rule(noncurrent_days=3, newer_noncurrent=1),
    Rule(noncurrent_days=1, newer_noncurrent=3),
    Rule(larger_than=3),
    Rule(smaller_than=3),
    Rule(prefix="logs", expiration_days=3),
    Rule(prefix="logs/", expiration_days=3),
    Rule(tags=(("a", "b"),)),
    Rule(tags=(("ab", ""),)),
    Rule(tags=(("", "ab"),)),
    Rule(tags=(("a", "b"), ("c", "d"))),
    Rule(tags=(("a", "bc"), ("", "d"))),
    Rule(prefix="1", tags=()),
    Rule(prefix="", tags=(("", ""),)),
]


def test_whatever_changes_what_a_rule_does_changes_its_hash() -> None:
    """Also parts of other lengths whose texts, written one after the other, are the same."""
    assert len({found.hash for found in DIFFERENT}) == len(DIFFERENT)


NAMES = st.text("ab1", max_size=3)
NUMBERS = st.none() | st.integers(1, 30)


@given(
    st.lists(
        st.builds(
            Rule,
            prefix=NAMES,
            tags=st.lists(st.tuples(NAMES, NAMES), max_size=2, unique_by=lambda t: t[0]).map(
                lambda t: tuple(sorted(t))
            ),
            larger_than=NUMBERS,
            expiration_days=NUMBERS,
            abort_days=NUMBERS,
        ),
        min_size=2,
        max_size=2,
    )
)
@settings(max_examples=examples(100), deadline=None)
def test_two_rules_have_one_hash_only_if_they_do_the_same(pair: list[Rule]) -> None:
    assert (pair[0].hash == pair[1].hash) == (pair[0] == pair[1])


def test_a_rule_has_an_action_for_each_of_its_elements() -> None:
    found = one(
        Expiration={"Days": 90},
        NoncurrentVersionExpiration={"NoncurrentDays": 30},
        AbortIncompleteMultipartUpload={"DaysAfterInitiation": 7},
    )
    assert found.kinds() == (Kind.EXPIRATION_DAYS, Kind.NONCURRENT_DAYS, Kind.ABORT_MPU)
    assert len({*found.actions()}) == 3
    assert {key.rule_hash for key in found.actions()} == {found.hash}


# Boundaries.


@pytest.mark.parametrize(("late_ns", "expected"), [(-1, What.NOTHING), (0, What.EXPIRE), (1, What.EXPIRE)])
def test_an_age_is_due_to_the_nanosecond(late_ns: int, expected: What) -> None:
    found = evaluate(
        Rule(expiration_days=2), Kind.EXPIRATION_DAYS, Version("k", mtime_ns=5), 5 + 2 * DAY + late_ns, TIMING
    )
    assert found is expected


def test_a_number_of_newer_versions_counts_noncurrent_ones_and_waits_for_the_age() -> None:
    keep_one = Rule(noncurrent_days=1, newer_noncurrent=1)
    versions = in_order([Version("k", str(at), mtime_ns=at * DAY) for at in (9, 8, 7, 6)])
    due = [due_at(keep_one, Kind.NEWER_NONCURRENT, version, TIMING) for version in versions]
    assert due == [None, None, 9 * DAY, 8 * DAY]
    assert (
        due_at(replace(keep_one, noncurrent_days=5), Kind.NEWER_NONCURRENT, versions[2], TIMING) == 13 * DAY
    )
    assert due_at(keep_one, Kind.NONCURRENT_DAYS, versions[2], TIMING) is None


# The oracle.


def plain_rules() -> st.SearchStrategy[dict[str, Any]]:
    tags = st.sampled_from([tag("t", "1"), tag("t", "2"), tag("u", "1")])
    sizes = st.fixed_dictionaries(
        {}, optional={"ObjectSizeGreaterThan": st.integers(0, 3), "ObjectSizeLessThan": st.integers(4, 6)}
    )
    filters = st.one_of(
        st.just({}),
        st.builds(lambda prefix: {"Prefix": prefix}, st.sampled_from(["", "a", "a/"])),
        st.builds(lambda one: {"Tag": one}, tags),
        st.builds(lambda size: {"ObjectSizeGreaterThan": size}, st.integers(0, 5)),
        st.builds(
            lambda prefix, one, size: {"And": {"Prefix": prefix, "Tags": [one], **size}},
            st.sampled_from(["", "a"]),
            tags,
            sizes,
        ),
    )
    days = st.integers(1, 4)
    dates = st.integers(0, 2).map(lambda day: EPOCH + timedelta(days=day))
    expirations = st.one_of(
        days.map(lambda n: {"Days": n}),
        dates.map(lambda date: {"Date": date}),
        st.just({"ExpiredObjectDeleteMarker": True}),
    )
    noncurrent = st.builds(
        lambda n, newer: {"NoncurrentDays": n, **newer},
        days,
        st.fixed_dictionaries({}, optional={"NewerNoncurrentVersions": st.integers(1, 2)}),
    ) | st.integers(1, 2).map(lambda n: {"NewerNoncurrentVersions": n})
    return st.builds(
        lambda wanted, status, actions: {"Status": status, "Filter": wanted, **actions},
        filters,
        st.sampled_from(["Enabled", "Enabled", "Disabled"]),
        st.fixed_dictionaries(
            {},
            optional={
                "Expiration": expirations,
                "NoncurrentVersionExpiration": noncurrent,
                "AbortIncompleteMultipartUpload": days.map(lambda n: {"DaysAfterInitiation": n}),
            },
        ).filter(bool),
    ).filter(is_valid)


def is_valid(plain: dict[str, Any]) -> bool:
    """As the object server checks it."""
    try:
        kept_rules([plain])
    except Exception:  # noqa: BLE001  # whatever it refuses is no input here
        return False
    return True


TAGS = st.dictionaries(st.sampled_from("tu"), st.sampled_from("12"), max_size=2)
TIMES = st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True).map(sorted)
HISTORIES = TIMES.flatmap(
    lambda times: st.tuples(
        *(
            st.builds(
                Stored, st.just(f"v{at}"), st.just(at * DAY // 2), st.integers(0, 6), TAGS, st.just(False)
            )
            | st.just(Stored(f"v{at}", at * DAY // 2, marker=True))
            for at in times
        )
    )
)
UPLOADS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from("xy")),
    st.integers(0, 12).map(lambda at: at * DAY // 2),
    max_size=2,
)


def product(
    rules: list[Rule], objects: dict[str, Any], uploads: dict[Any, int], now_ns: int
) -> set[tuple[str, str, str]]:
    """What the product would do."""
    versions = [
        version
        for key, stored in objects.items()
        for version in in_order(
            [
                Version(key, s.version_id, s.mtime_ns, s.size, tuple((s.tags or {}).items()), s.marker)
                for s in reversed(stored)
            ]
        )
    ]
    versions += [Version(key, upload, began, is_upload=True) for (key, upload), began in uploads.items()]
    found = {
        (evaluate(rule, kind, version, now_ns, TIMING), version.key, version.version_id)
        for rule in rules
        for kind in rule.kinds()
        for version in versions
    }
    return {(what.value, key, version) for what, key, version in found if what is not What.NOTHING}


def compare(rules: list[dict[str, Any]], objects: dict[str, Any], uploads: dict[Any, int]) -> set[str]:
    """At every half of a day; returns what was done to which version of an object."""
    kept = rules_of(read_rules(kept_rules(rules)))
    done: set[str] = set()
    for now_ns in range(0, 8 * DAY, DAY // 2):
        there = {key: [one for one in stored if one.mtime_ns <= now_ns] for key, stored in objects.items()}
        found = product(kept, there, uploads, now_ns)
        assert found == due_now(rules, there, uploads, now_ns, DAY)
        done |= {f"{what} {version}" for what, _, version in found}
    return done


@given(
    st.lists(plain_rules(), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["a", "a/b", "b"]), HISTORIES, min_size=2, max_size=3),
    UPLOADS,
)
@settings(max_examples=examples(60), deadline=None)
def test_what_is_done_is_what_a_walk_of_the_bucket_finds(rules: Any, objects: Any, uploads: Any) -> None:
    compare(rules, objects, uploads)


DAYS = {"Expiration": {"Days": 1}}
MARKED = [Stored("v0", 0), Stored("m1", DAY, marker=True)]


@pytest.mark.parametrize(
    ("plain", "stored", "expected"),
    [
        (rule(Filter={"ObjectSizeGreaterThan": 3}, **DAYS), [Stored("v", 0, 3)], set()),
        (rule(Filter={"ObjectSizeGreaterThan": 3}, **DAYS), [Stored("v", 0, 4)], {"expire v"}),
        (rule(Filter={"ObjectSizeLessThan": 3}, **DAYS), [Stored("v", 0, 3)], set()),
        (rule(Filter={"ObjectSizeLessThan": 3}, **DAYS), [Stored("v", 0, 2)], {"expire v"}),
        (rule(Filter={"ObjectSizeLessThan": 3}, **DAYS), [Stored("m", 0, marker=True)], set()),
        (
            rule(Filter={"And": {"Tags": [tag("t", "1"), tag("u", "1")]}}, **DAYS),
            [Stored("v", 0, 0, {"t": "1"})],
            set(),
        ),
        (
            rule(Filter={"Tag": tag("t", "1")}, **DAYS),
            [Stored("v", 0, 0, {"t": "1", "u": "2"})],
            {"expire v"},
        ),
        (rule(Filter={"Tag": tag("t", "1")}, **DAYS), [Stored("v", 0, 0, {"t": "2"})], set()),
        (rule(Filter={"Prefix": "k/"}, **DAYS), [Stored("v", 0)], set()),
        (rule(Status="Disabled", **DAYS), [Stored("v", 0)], set()),
        (rule(**DAYS), [Stored("m", 0, marker=True)], {"delete-marker m"}),
        (rule(**DAYS), MARKED, set()),
        (rule(Expiration={"ExpiredObjectDeleteMarker": True}), MARKED, set()),
        (rule(Expiration={"ExpiredObjectDeleteMarker": True}), MARKED[1:], {"delete-marker m1"}),
        (rule(Expiration={"Date": EPOCH}), MARKED[1:], set()),
        (rule(NoncurrentVersionExpiration={"NoncurrentDays": 2}), MARKED, {"delete-version v0"}),
    ],
)
def test_each_boundary_of_a_rule(plain: dict[str, Any], stored: list[Stored], expected: set[str]) -> None:
    """Without these the comparison with the oracle meets them by chance."""
    assert compare([plain], {"k": stored}, {}) == expected


# Delays and modes.

KINDS = {
    Kind.EXPIRATION_DAYS: Rule(expiration_days=5),
    Kind.EXPIRATION_DATE: Rule(expiration_date_ns=0),
    Kind.NONCURRENT_DAYS: Rule(noncurrent_days=5),
    Kind.NEWER_NONCURRENT: Rule(noncurrent_days=5, newer_noncurrent=2),
    Kind.ABORT_MPU: Rule(abort_days=5),
    Kind.EXPIRED_DELETE_MARKER: Rule(expired_delete_marker=True),
}
EXPECTED = {
    Kind.EXPIRATION_DAYS: ({5 * DAY}, 7),
    Kind.EXPIRATION_DATE: (set(), 1),
    Kind.NONCURRENT_DAYS: ({5 * DAY}, 7),
    Kind.NEWER_NONCURRENT: ({5 * DAY, TIMING.small_delay_ns}, 7),
    Kind.ABORT_MPU: ({5 * DAY}, 5),
    Kind.EXPIRED_DELETE_MARKER: ({TIMING.small_delay_ns}, 7),
}


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_its_delays_and_its_safety_scan(kind: Kind) -> None:
    found, days = EXPECTED[kind]
    assert delays(KINDS[kind], kind, TIMING) == found
    assert scan_every_ns(KINDS[kind], kind, TIMING) == days * DAY
    assert min_trigger_age(KINDS[kind], kind, TIMING) == (min(found) if found else None)


@pytest.mark.parametrize("kind", Kind)
def test_an_action_is_driven_by_events_only_if_the_log_reaches_as_far_as_it_looks(kind: Kind) -> None:
    horizon = event_log_horizon(KINDS[kind], kind, TIMING)
    if horizon is None:
        assert decide_mode(KINDS[kind], kind, retention_ns=0, timing=TIMING) == (
            Mode.SCAN_AT_DATE,
            Degraded.NONE,
        )
        return
    enough = horizon + TIMING.lookback_ns
    below = (Mode.SCAN_ONLY, Degraded.RETENTION_BELOW_HORIZON)
    driven = (Mode.EVENT_DRIVEN, Degraded.NONE)
    for name in ("retention_ns", "reaches_back_ns"):
        assert decide_mode(KINDS[kind], kind, **{name: enough}, timing=TIMING) == driven
        assert decide_mode(KINDS[kind], kind, **{name: enough - 1}, timing=TIMING) == below
    assert decide_mode(KINDS[kind], kind, timing=TIMING) == driven
    disabled = replace(KINDS[kind], is_enabled=False)
    assert decide_mode(disabled, kind, timing=TIMING) == (Mode.DISABLED, Degraded.NONE)


@pytest.mark.parametrize(("days", "expected"), [(1, 7), (20, 20), (90, 30)])
def test_the_safety_scan_of_an_age_is_between_a_week_and_a_month(days: int, expected: int) -> None:
    assert scan_every_ns(Rule(expiration_days=days), Kind.EXPIRATION_DAYS, TIMING) == expected * DAY
