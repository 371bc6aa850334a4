"""What is worse and what is better, piece by piece."""

from typing import Any

import pytest

from holdfast.comparing import compare, verdict_of


def result(**more: Any) -> dict[str, Any]:
    return {"verdict": "holds", "violations": [], "coverage": {}, "findings": [], "schedules": 1, **more}


BROKEN = {"verdict": "violated", "violations": [{"property": "p", "reason": "r"}]}
CASES = [
    ("a verdict", {}, {"verdict": "undecided"}, "verdict"),
    ("a property", {}, {"violations": [{"property": "p", "reason": "r"}]}, "property 'p'"),
    ("an answer", {"coverage": {"outcomes": {"put exists": 3}}}, {}, "answer 'put exists'"),
    ("a fault", {"coverage": {"faults": {"crash": 3}}}, {}, "fault 'crash'"),
    (
        "a situation",
        {"coverage": {"sometimes": {"two race": True}}},
        {"coverage": {"sometimes": {"two race": False}}},
        "sometimes 'two race'",
    ),
    (
        "a share",
        {"model": {"share": 0.5}},
        {"model": {"share": 0.4}},
        "the model's transitions",
    ),
    ("a finding", {}, {"findings": ["nothing was covered"]}, "finding"),
    (
        "requests",
        {"cost": {"append": {"requests": 7}}},
        {"cost": {"append": {"requests": 8}}},
        "at most, append requests",
    ),
    (
        "hops",
        {"cost": {"append": {"hops": 4}}},
        {"cost": {"append": {"hops": 5}}},
        "at most, append hops",
    ),
    (
        "flatness",
        {"cost": {"append": {"flat": True}}},
        {"cost": {"append": {"flat": False}}},
        "at most, append flat",
    ),
]


@pytest.mark.parametrize(("_", "before", "after", "what"), CASES)
def test_one_way_is_worse_and_the_other_better(_: str, before: Any, after: Any, what: str) -> None:
    old, new = result(**before), result(**after)
    (change,) = compare(old, new)
    assert (change.judged, change.what) == ("worse", what)
    assert verdict_of([change], new) == "violated"
    (change,) = compare(new, old)
    assert (change.judged, change.what) == ("better", what)
    assert verdict_of([change], old) == "holds"


@pytest.mark.parametrize(("_", "before", "after", "what"), CASES)
def test_the_same_is_no_change(_: str, before: Any, after: Any, what: str) -> None:
    for one in (before, after):
        judged = [change.judged for change in compare(result(**one), result(**one))]
        assert judged in ([], ["other"])


def test_the_size_of_a_search_and_a_new_verb_are_told_and_not_judged() -> None:
    changes = compare(result(cost={"a": {"requests": 3}}), result(schedules=2, cost={"b": {"requests": 3}}))
    assert [(change.judged, change.what) for change in changes] == [
        ("other", "cost of a requests"),
        ("other", "cost of b requests"),
        ("other", "schedules"),
    ]


def test_a_search_that_stopped_at_a_violation_says_nothing_of_coverage_and_cost() -> None:
    """It met only what lay before: all would look lost."""
    old = result(coverage={"outcomes": {"put exists": 3}}, cost={"a": {"requests": 3}})
    assert {change.what for change in compare(old, result(**BROKEN))} == {"verdict", "property 'p'"}


def test_the_worse_comes_first() -> None:
    old = result(schedules=2, findings=["x"])
    new = result(verdict="undecided")
    assert [change.judged for change in compare(old, new)] == ["worse", "better", "other"]


def test_undecided_stays_undecided() -> None:
    both = result(verdict="undecided")
    assert verdict_of(compare(both, both), both) == "undecided"
