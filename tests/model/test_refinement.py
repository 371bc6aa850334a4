"""Refinement between machines, and what else properties can say: `can`. Compared with plain Python."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.model import (
    Bool,
    Enum,
    Int,
    Machine,
    ModellingMistake,
    Seq,
    Size,
    Truth,
    action,
    check,
    initial,
    invariant,
    pick,
    refines,
)
from tests.depth import examples
from tests.model.counterexamples import counterexample
from tests.model.random_machines import Spec, naive_search, specs


class Light(Machine):
    """On and off, one after the other."""

    on = Bool()

    @action
    def turn(s) -> None:
        s.on = ~s.on


class Clock(Machine):
    """Counts; each second number is `on`. Nothing of it changes at a pause."""

    most = Size(3)
    count = Int(0, most)
    paused = Bool()

    @action(by=(1, 2))
    def tick(s, by: int) -> None:
        s.require(by == 1, ~s.paused)
        s.count = (s.count + by) % (s.most + 1)

    @action
    def pause(s) -> None:
        s.paused = ~s.paused

    @refines(Light)
    def light(s) -> dict[str, Truth]:
        """It is a light."""
        return {"on": s.count % 2 == 1}


def test_a_step_is_a_step_of_the_other_machine_or_changes_nothing_there() -> None:
    result = check(Clock)
    assert (result["light"].verdict, result["light"].doc) == ("holds", "It is a light.")


def test_a_step_that_the_other_machine_does_not_have_is_the_counterexample() -> None:
    class Latch(Light):
        @action
        def turn(s) -> None:
            s.require(~s.on)
            s.on = True

    class Incorrect(Clock):
        @refines(Latch)
        def light(s) -> dict[str, Truth]:
            return {"on": s.count % 2 == 1}

    assert counterexample(check(Incorrect), "light") == [
        "0. start  count: 0, paused: False",
        "1. tick(by=1)  count: 0 -> 1",
        "2. tick(by=1)  count: 1 -> 2",
    ]


def test_a_start_that_the_other_machine_does_not_have_is_the_counterexample() -> None:
    class Early(Clock):
        @initial(at=(0, 1))
        def begin(s, at: int) -> None:
            s.count = at

    found = check(Early)["light"]
    assert found.verdict == "violated"
    assert found.counterexample is not None
    assert found.counterexample.lines() == ["0. start  count: 1, paused: False"]
    assert found.reason == "no start of the other machine"


def test_fields_of_the_same_name_need_no_mapping_and_sizes_are_passed_on() -> None:
    class Queue(Machine):
        places = Size(2)
        items = Seq(places, Enum("a", "b"))

        @action(item=("a", "b"))
        def put(s, item: str) -> None:
            s.require(~s.items.is_full())
            s.items.append(item)

        @action
        def take(s) -> None:
            s.require(~s.items.is_empty())
            s.items.pop_first()

    class Buffered(Machine):
        room = Size(3)
        items = Seq(room, Enum("a", "b"))
        held = Enum("none", "a", "b")

        @action(item=("a", "b"))
        def hold(s, item: str) -> None:
            s.require(s.held == "none")
            s.held = item

        @action
        def store(s) -> None:
            s.require(s.held != "none", ~s.items.is_full())
            s.items.append(pick(s.held == "a", "a", "b"))
            s.held = "none"

        @action
        def take(s) -> None:
            s.require(~s.items.is_empty())
            s.items.pop_first()

        @refines(Queue, places=room)
        def queue(s) -> dict[str, object]:
            return {}

    assert check(Buffered)["queue"].verdict == "holds"


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (lambda s: {"onn": s.paused}, "light has no field 'onn' (did you mean 'on'?)"),
        (lambda s: {}, "`on` is not part of this machine"),
        (lambda s: s.paused, "a refinement returns a truth column: return a dictionary"),
        (lambda s: {"on": s.count}, "assigns a number column to `on`, which holds a truth value"),
    ],
)
def test_an_incorrect_mapping_is_an_error(mapping, expected) -> None:
    machine = type("Incorrect", (Clock,), {"light": refines(Light)(mapping)})
    with pytest.raises(ModellingMistake) as error:
        check(machine)
    assert expected in str(error.value)


def test_only_a_machine_is_refined() -> None:
    with pytest.raises(ModellingMistake, match="refines takes a machine"):
        refines("Light")


def test_refinement_of_random_machines_agrees_with_plain_python() -> None:
    """The other machine lacks an action, has one more, or has another start."""
    seen: Counter[str] = Counter()

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(specs(), specs(), st.sampled_from(["same", "fewer", "other", "start"]))
    def agree(spec: Spec, other: Spec, how: str) -> None:
        spec = replace(spec, wide=False)
        abstract = {
            "same": spec,
            "fewer": replace(spec, actions=spec.actions[:-1] or spec.actions),
            "other": replace(spec, actions=(*spec.actions[:-1], *other.actions))
            if other.size <= spec.size
            else spec,
            "start": replace(spec, second_start=not spec.second_start),
        }[how]
        abstract = replace(abstract, fair=())
        depth = refused_at(spec, abstract)
        machine = type("Refining", (spec.machine(),), {"above": refines(abstract.machine())(lambda s: {})})
        found = check(machine, keep_going=True, workers=1)["above"]
        assert found.verdict == ("holds" if depth is None else "violated")
        assert depth is None or len(found.counterexample) == depth
        seen["holds" if depth is None else "start" if depth == 0 else "violated"] += 1

    agree()
    assert min(seen["holds"], seen["violated"], seen["start"]) >= 1, seen


def refused_at(spec: Spec, abstract: Spec) -> int | None:
    """The number of steps after which the first machine does what the other cannot; None for never."""
    if not set(spec.starts()) <= set(abstract.starts()):
        return 0
    naive = naive_search(spec)
    depths = [
        naive.depth_of[state] + 1
        for state, _, after in naive.edges
        if after != state and after not in {reached for _, reached in abstract.successors(state)}
    ]
    return min(depths, default=None)


# Whether an action is enabled.


def test_can_is_true_where_the_action_is_enabled() -> None:
    class Requesting(Clock):
        ticks = invariant("It ticks unless it pauses.")(lambda s: s.can("tick") == ~s.paused)
        by_one = invariant("It never ticks by two.")(lambda s: s.can("tick", by=1) == s.can("tick"))
        never = invariant("Never by two.")(lambda s: ~s.can("tick", by=2))
        pauses = invariant("It can always pause.")(lambda s: s.can("pause"))

    assert check(Requesting).verdict == "holds"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (
            lambda s: s.can("tock"),
            "names no action that the machine has (did you mean 'tick'?); there are tick",
        ),
        (lambda s: s.can("tick", by=3), "there are tick(by=1), tick(by=2)"),
    ],
)
def test_can_of_an_unknown_action_is_an_error(condition, expected) -> None:
    machine = type("Incorrect", (Clock,), {"bad": invariant("...")(condition)})
    with pytest.raises(ModellingMistake) as error:
        check(machine)
    assert expected in str(error.value)


def test_can_in_an_action_is_an_error() -> None:
    machine = type("Incorrect", (Clock,), {"bad": action(lambda s: s.require(s.can("tick")))})
    with pytest.raises(ModellingMistake, match="is for properties"):
        check(machine)
