"""What an audit says of costs and of the model: from its JSON alone."""

from fencepost.reports.driven_text import cost_lines, cost_summary, model_lines

MODEL = {
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


def test_costs_are_a_line_a_verb() -> None:
    cost = {"append": {"requests": 1200, "hops": 4}, "closing": {"requests": 1}}
    assert cost_lines({"cost": cost}) == [
        "  cost, at most  append: 4 hops, 1,200 requests",
        "                 closing: 1 requests",
    ]
    assert cost_lines({}) == []


def level(faults: int, most: int, median: int, **more: int) -> dict[str, int]:
    figures = {"requests": most, "requests_median": median, "hops": most - 1, "hops_median": median - 1}
    return {"faults": faults, "ended": 5, **figures, **more}


CLAIM = {"requests": 4, "hops": 3, "bytes": 9, "faults": [level(0, 2, 2), level(1, 4, 3)]}


def test_operations_are_a_line_each_with_their_faults_beside_each_other() -> None:
    cost = {"ann": CLAIM, "bobby": {**CLAIM, "faults": [level(0, 12, 2)]}, "append": {"requests": 7}}
    assert cost_lines({"cost": cost}) == [
        "  cost        requests/hops at most (median)  without faults  with 1 fault",
        "              ann                             2/1 (2/1)       4/3 (3/2)",
        "              bobby                           12/11 (2/1)",
        "  cost, at most  append: 7 requests",
    ]
    assert cost_summary({"cost": cost}) == "ann 2/1 without faults, 4/3 with any; bobby 12/11 without faults"


def test_a_bound_stands_beside_what_it_bounds() -> None:
    bounded = [level(0, 2, 2, requests_max=2, hops_max=9), level(1, 4, 3, hops_max=9)]
    lines = cost_lines({"cost": {"ann": {**CLAIM, "hops_max": 9, "faults": bounded}}})
    assert lines[0].endswith("  may take")
    assert lines[1].endswith("4/3 (3/2)     any/9, 2/9 without faults")


def test_a_search_that_ended_at_a_violation_tells_no_most() -> None:
    assert cost_lines({"cost": {"ann": CLAIM}, "violations": [{}]}) == []
    assert cost_summary({"cost": {"ann": CLAIM}, "violations": [{}]}) == ""


def test_the_model_is_told_with_its_gaps_and_the_ways_on_request() -> None:
    lines = model_lines({"model": MODEL})
    assert lines == [
        "  model         15 of 1,000 transitions (1.50%) of door doors=2",
        "                could have been driven, by 12 different runs; 3 of them left that bound",
        "                knock 3.0%, swing 0.0%",
        "                1 labels were never driven; --gaps shows the model's way to each",
    ]
    told = model_lines({"model": MODEL}, gaps=True)
    assert told[3:] == [
        "                1 labels were never driven",
        "    swing() (500 transitions)",
        "       1 knock()",
        "       2 swing()",
    ]
    assert model_lines({"model": {**MODEL, "gaps": []}})[-1].strip() == "every label was driven"
    assert model_lines({}) == []
