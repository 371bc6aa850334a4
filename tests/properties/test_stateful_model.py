"""The generic stateful machine: it finds what is planted, shrinks it well, and leaves good machines alone."""

import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from fencepost.model import (
    NO_DEADLOCK,
    Enum,
    Int,
    Label,
    Machine,
    Model,
    State,
    Truth,
    action,
    check,
    initial,
    invariant,
    may_end,
    step,
)
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.model.swap_counter import SwapCounter
from fencepost.model.textbook.peterson import Peterson
from fencepost.model.textbook.philosophers import Philosophers
from fencepost.model.textbook.two_phase import TwoPhase
from fencepost.properties.stateful_model import Broken, ModelMachine, machine_for


def run(driven: type[ModelMachine], examples: int = 40, steps: int = 12) -> None:
    run_state_machine_as_test(
        driven, settings=settings(max_examples=examples, stateful_step_count=steps, derandomize=True)
    )


@pytest.mark.parametrize(
    ("machine", "sizes", "switch", "name", "spare"),
    [
        pytest.param(TwoPhase, {"managers": 2}, "all-prepared", "agreement", 1, marks=pytest.mark.slow),
        (CreateOnlyLock, {}, "read-back", "refusal_is_true", 0),
        pytest.param(
            CreateOnlyLock, {}, "conflict-proves-nothing", "refusal_is_true", 0, marks=pytest.mark.slow
        ),
        (SwapCounter, {}, "if-match", "none_lost", 0),
        (Philosophers, {"seats": 2}, "one-left-handed", NO_DEADLOCK, 0),
        (Peterson, {}, "raise-flag", "exclusion", 0),
    ],
)
def test_a_planted_violation_is_found_and_shrinks_to_the_length_of_the_shortest_counterexample(
    machine, sizes, switch, name, spare
) -> None:
    with pytest.raises(Broken) as found:
        run(machine_for(machine, sizes, without=[switch]))
    lines = str(found.value).splitlines()
    assert lines[0] == f"{name} is violated:"
    shortest = check(machine, sizes, without=[switch])[name].counterexample
    # Leaving out a step changes what the later choices are made from, so one may stay that was not needed.
    assert len(lines) == 2 + len(shortest) + spare
    assert lines[1] == shortest.lines()[0]


@pytest.mark.parametrize("machine", [TwoPhase, CreateOnlyLock, SwapCounter, Philosophers, Peterson])
def test_a_good_machine_passes(machine: type[Machine]) -> None:
    run(machine_for(machine), examples=5)


def test_the_steps_that_are_printed_run_when_they_are_pasted() -> None:
    driven = machine_for(CreateOnlyLock, without=["read-back"])
    with pytest.raises(Broken) as found:
        run(driven)
    printed = "\n".join(found.value.__notes__)
    steps = re.search(r"state = CreateOnlyLockMachine\(\)\n(?:state\..*\n?)+", printed)
    assert steps is not None, printed
    assert steps[0].splitlines()[1:4] == [
        "state.begin_at(start=0)",
        "state.step(label='acquire(c=0, answer=reply_lost)')",
        "state.step(label='acquire(c=0, answer=exists)')",
    ]
    with pytest.raises(Broken) as again:
        exec(steps[0], {"CreateOnlyLockMachine": driven})
    assert str(again.value) == str(found.value)


class Counter(Machine):
    """Counts to three from one of two starts, and may end there."""

    count = Int(0, 5)
    way = Enum("up", "over")

    @initial(at=(0, 1))
    def begin(s, at: int) -> None:
        s.count = at

    @action(by=(1, 2))
    def up(s, by: int) -> None:
        s.require(s.count < 3)
        s.count = s.count + by

    @may_end
    def counted(s) -> Truth:
        return s.count >= 3


def test_a_machine_may_end_where_it_says_so() -> None:
    run(machine_for(Counter), examples=20)


def test_an_end_where_the_machine_does_not_say_so_is_a_deadlock() -> None:
    class Stuck(Counter):
        @may_end
        def counted(s) -> Truth:
            return s.count == 3

    with pytest.raises(Broken, match="no-deadlock is violated"):
        run(machine_for(Stuck), examples=30)
    run(machine_for(Stuck, deadlock=False), examples=20)


def test_a_step_property_is_judged_at_every_step() -> None:
    class Small(Counter):
        @step
        def small_steps(before, after: Counter) -> Truth:
            return after.count <= before.count + 1

    with pytest.raises(Broken) as found:
        run(machine_for(Small), examples=30)
    assert str(found.value).splitlines()[0] == "small_steps is violated:"
    assert len(str(found.value).splitlines()) == 3


def test_a_bad_start_is_found_among_the_good_ones() -> None:
    class Bad(Counter):
        @invariant
        def not_one(s) -> Truth:
            return s.count != 1

        @action(by=(1, 2))
        def up(s, by: int) -> None:
            s.require(s.count > 5)

    with pytest.raises(Broken) as found:
        run(machine_for(Bad, deadlock=False), examples=30)
    assert str(found.value) == "not_one is violated:\n0. start  count: 1, way: up"
    assert "state.begin_at(start=1)" in "\n".join(found.value.__notes__)


def test_a_system_can_walk_beside_the_model() -> None:
    """A counter of our own that forgets to count by two is caught at the step that shows it."""

    class Beside(machine_for(Model(Counter))):  # type: ignore[misc]  # the base is made on the spot
        def __init__(self) -> None:
            super().__init__()
            self.count: Any = None

        def took(self, label: Label, before: State, after: State) -> None:
            self.count = before.values["count"] + 1
            assert self.count == after.values["count"], f"after {label}"

    with pytest.raises(AssertionError, match=r"after up\(by=2\)"):
        run(Beside, examples=30)
