"""The lines of an audit report about costs and about the model."""

from typing import Any

from fencepost.reports.audit_text import cost_lines, cost_summary, model_lines
from fencepost.results import AuditResult, Share, from_json

MODEL: dict[str, Any] = {
    "model": "door",
    "parameters": {"doors": 2},
    "transitions": 1000,
    "driven": 15,
    "share": 0.015,
    "runs": 12,
    "runs_beyond_the_bound": 3,
    "actions": {"knock": {"driven": 15, "transitions": 500}, "swing": {"driven": 0, "transitions": 500}},
    "gaps": [{"label": "swing()", "transitions": 500, "path": ["knock()", "swing()"]}],
}


def audit(**more: Any) -> AuditResult:
    data = {"system": "door", "strategy": "exhaustive", "verdict": "holds", "bound": "", "schedules": 1}
    made: AuditResult = from_json(AuditResult, {**data, "seconds": 1.0, "violations": [], **more})
    return made


def share(**more: Any) -> Share:
    made: Share = from_json(Share, {**MODEL, **more})
    return made


def test_costs_are_a_line_a_verb() -> None:
    cost = {"append": {"requests": 1200, "hops": 4}, "closing": {"requests": 1}}
    assert cost_lines(audit(cost=cost)) == [
        "  cost, at most  append: 4 hops, 1,200 requests",
        "                 closing: 1 requests",
    ]
    assert cost_lines(audit()) == []


def level(faults: int, most: int, median: int, **more: int) -> dict[str, int]:
    figures = {"requests": most, "requests_median": median, "hops": most - 1, "hops_median": median - 1}
    return {"faults": faults, "ended": 5, **figures, **more}


CLAIM = {"requests": 4, "hops": 3, "bytes": 9, "faults": [level(0, 2, 2), level(1, 4, 3)]}


def test_operations_are_a_line_each_with_their_faults_beside_each_other() -> None:
    cost = {"ann": CLAIM, "bobby": {**CLAIM, "faults": [level(0, 12, 2)]}, "append": {"requests": 7}}
    assert cost_lines(audit(cost=cost)) == [
        "  cost        requests/hops at most (median)  without faults  with 1 fault",
        "              ann                             2/1 (2/1)       4/3 (3/2)",
        "              bobby                           12/11 (2/1)",
        "  cost, at most  append: 7 requests",
    ]
    assert (
        cost_summary(audit(cost=cost)) == "ann 2/1 without faults, 4/3 with any; bobby 12/11 without faults"
    )


def test_a_bound_stands_beside_what_it_bounds() -> None:
    bounded = [level(0, 2, 2, requests_max=2, hops_max=9), level(1, 4, 3, hops_max=9)]
    lines = cost_lines(audit(cost={"ann": {**CLAIM, "hops_max": 9, "faults": bounded}}))
    assert lines[0].endswith("  may take")
    assert lines[1].endswith("4/3 (3/2)     any/9, 2/9 without faults")


def test_a_search_that_ended_at_a_violation_reports_no_maximum() -> None:
    violations = [{"property": "p", "reason": "r", "counterexample": []}]
    assert cost_lines(audit(cost={"ann": CLAIM}, violations=violations)) == []
    assert cost_summary(audit(cost={"ann": CLAIM}, violations=violations)) == ""


def test_the_model_has_its_gaps_and_on_request_the_ways_there() -> None:
    assert [*model_lines(share())] == [
        "  model       15 of 1,000 transitions (1.50%) of door doors=2 were driven, by 12 different runs; "
        "3 of them left that bound",
        "              knock 3.0%, swing 0.0%",
        "              1 labels were never driven; --gaps shows the model's way to each",
    ]
    assert [*model_lines(share(), gaps=True)][2:] == [
        "              1 labels were never driven",
        "    swing() (500 transitions)",
        "       1 knock()",
        "       2 swing()",
    ]
    assert [*model_lines(share(gaps=[]))][-1].strip() == "every label was driven"
