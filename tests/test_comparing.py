"""What is worse and what is better, piece by piece."""

from typing import Any

import pytest

from fencepost.comparing import compare, verdict_of
from fencepost.results import AuditResult, from_json


def result(**more: Any) -> AuditResult:
    plain = {"system": "s", "strategy": "exhaustive", "bound": "", "seconds": 0.0}
    given = {
        **plain,
        "verdict": "holds",
        "violations": [],
        "coverage": {},
        "findings": [],
        "schedules": 1,
        **more,
    }
    found: AuditResult = from_json(AuditResult, given)
    return found


def costs(*levels: tuple[int, ...], size: int = 5, **bounds: int) -> dict[str, Any]:
    """An operation's row: the requests and hops without a fault, with one, and so on; a third is a bound."""
    rows = [
        {
            "faults": number,
            "ended": 10,
            "requests": most[0],
            "requests_median": 1,
            "hops": most[1],
            "hops_median": 1,
            **({"requests_max": most[2]} if most[2:] else {}),
            **bounds,
        }
        for number, most in enumerate(levels)
    ]
    return {"requests": levels[-1][0], "hops": levels[-1][1], "bytes": size, "faults": rows, **bounds}


BROKEN = {"verdict": "violated", "violations": [{"property": "p", "reason": "r", "counterexample": []}]}
CASES = [
    ("a verdict", {}, {"verdict": "undecided"}, "verdict"),
    (
        "a property",
        {},
        {"violations": [{"property": "p", "reason": "r", "counterexample": []}]},
        "property 'p'",
    ),
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
        {"model": {"model": "m", "transitions": 10, "driven": 5, "share": 0.5}},
        {"model": {"model": "m", "transitions": 10, "driven": 4, "share": 0.4}},
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
    (
        "requests of an operation",
        {"cost": {"claim": costs((2, 2), (4, 4))}},
        {"cost": {"claim": costs((2, 2), (5, 4))}},
        "at most, claim with 1 fault",
    ),
    (
        "hops of an operation",
        {"cost": {"claim": costs((2, 2), (4, 3))}},
        {"cost": {"claim": costs((2, 2), (4, 4))}},
        "at most, claim with 1 fault",
    ),
    (
        "bytes of an operation",
        {"cost": {"claim": costs((2, 2), size=7)}},
        {"cost": {"claim": costs((2, 2), size=9)}},
        "at most, claim bytes",
    ),
    (
        "a bound that was raised",
        {"cost": {"claim": costs((2, 2), requests_max=3)}},
        {"cost": {"claim": costs((2, 2), requests_max=4)}},
        "bound of claim",
    ),
    (
        "a bound that is gone",
        {"cost": {"claim": costs((2, 2), requests_max=3, hops_max=3)}},
        {"cost": {"claim": costs((2, 2), requests_max=3)}},
        "bound of claim",
    ),
    (
        "a bound for so many faults that is gone",
        {"cost": {"claim": costs((2, 2, 3), (4, 4))}},
        {"cost": {"claim": costs((2, 2), (4, 4))}},
        "bound of claim without faults",
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


def test_the_size_of_a_search_and_a_new_verb_are_listed_and_not_judged() -> None:
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


def test_a_cost_is_shown_with_its_figures() -> None:
    old, new = (result(cost={"claim": costs((2, 2), most)}) for most in ((4, 3), (6, 5)))
    (change,) = compare(old, new)
    assert (change.before, change.after) == ("4 requests in 3 hops", "6 requests in 5 hops")


def test_more_of_one_is_worse_even_with_less_of_the_other() -> None:
    """Fewer hops bought with more requests is a trade: somebody must look."""
    old, new = (result(cost={"claim": costs(most)}) for most in ((2, 2), (3, 1)))
    (change,) = compare(old, new)
    assert change.judged == "worse"


def test_an_operation_that_is_new_or_gone_is_listed_and_not_judged() -> None:
    old, new = result(cost={"a": costs((2, 2))}), result(cost={"b": costs((2, 2), requests_max=3)})
    assert {change.judged for change in compare(old, new)} == {"other"}


def test_medians_and_counts_are_of_the_search() -> None:
    row = costs((2, 2))
    row["faults"][0].update(requests_median=2, ended=99)
    assert compare(result(cost={"a": costs((2, 2))}), result(cost={"a": row})) == []


@pytest.mark.parametrize(
    ("whole_before", "whole_after", "dearer", "cheaper"),
    [(True, False, "worse", "other"), (False, True, "other", "better"), (False, False, "other", "other")],
)
def test_what_was_not_explored_to_the_end_may_have_cost_more(
    whole_before: bool, whole_after: bool, dearer: str, cheaper: str
) -> None:
    """Only a most that is one can be exceeded, and only one that is one is an improvement."""
    for figures, judged in (((2, 3), dearer), ((3, 2), cheaper)):
        old = result(complete=whole_before, cost={"a": {"requests": figures[0]}})
        new = result(complete=whole_after, cost={"a": {"requests": figures[1]}})
        (change,) = compare(old, new)
        assert change.judged == judged


def test_the_worse_comes_first() -> None:
    old = result(schedules=2, findings=["x"])
    new = result(verdict="undecided")
    assert [change.judged for change in compare(old, new)] == ["worse", "better", "other"]


def test_undecided_stays_undecided() -> None:
    both = result(verdict="undecided")
    assert verdict_of(compare(both, both), both) == "undecided"


def stages(*verdicts: str) -> list[dict[str, Any]]:
    names = ("no-faults", "one-fault", "all")
    size = {"schedules": 1, "runs": 1, "seconds": 0.0, "explored": 0.5}
    return [
        {"name": name, "verdict": verdict, "bound": f"of {name}", **size}
        for name, verdict in zip(names, verdicts, strict=True)
    ]


def test_a_stage_that_is_not_explored_any_more_is_worse() -> None:
    before = result(verdict="undecided", stages=stages("holds", "holds", "undecided"))
    after = result(verdict="undecided", stages=stages("holds", "undecided", "undecided"))
    [change] = compare(before, after)
    assert (change.judged, change.what, change.before) == ("worse", "the audit of one-fault", "holds")
    [change] = compare(after, before)
    assert change.judged == "better"


def test_findings_about_the_search_are_no_difference() -> None:
    noisy = result(findings=["safe may have a shorter counterexample: minimising it ran out of time"])
    assert compare(result(), noisy) == []
    assert compare(result(), result(findings=["nothing was covered"]))[0].judged == "worse"
