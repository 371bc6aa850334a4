"""What an audit says of costs and of the model: from its JSON alone."""

from holdfast.reports.driven_text import cost_lines, model_lines

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
