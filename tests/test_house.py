"""The parts of a run stay apart: no part is changed from outside, and no world is untyped."""

import ast

from bench import house


def test_a_world_is_changed_by_its_own_methods() -> None:
    """If this fails, a run can change unnoticed: give the part that owns the attribute a method."""
    names = set().union(*house.attributes().values())
    found = house.foreign_writes(names)
    assert found == {"sim/world/executor.py": 1, "sim/world/request_steps.py": 2}, (
        "only the steps that most runs consist of write to their record directly, see decision 0026"
    )


def test_no_world_is_untyped() -> None:
    """An attribute of a world that is `Any` can be misspelt, and nothing notices."""
    assert house.world_parameters()["any"] == 0


def test_the_world_is_a_facade() -> None:
    """State belongs to the run, configuration to the settings, and neither to the facade."""
    assert len(house.attributes()["World"]) <= 7


def test_a_write_from_outside_is_seen() -> None:
    written = list(house.written(ast.parse("run.clock_ns = 1\nself.clock_ns += 1\nprint(run.clock_ns)")))
    assert [(house.last_name(one.value), one.attr) for one in written] == [
        ("run", "clock_ns"),
        ("self", "clock_ns"),
    ]


def test_a_request_takes_few_calls() -> None:
    """The chain from a search to the bucket is what a reader follows; longer chains also cost time."""
    found = house.one_request()
    assert found["chain"][0].startswith("sim.explore.reduced:")
    assert found["longest_chain"] <= 14
    assert 30 < found["calls"] <= 70
