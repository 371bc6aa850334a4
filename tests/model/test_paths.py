"""Run-time choice: `if`, `while`, `and`, `or` and `not` on columns mean what they mean on one state.

If these fail, an action with an `if` loses states, or takes a branch for rows that belong to the other one.
Random machines are written with `if` and with `pick`: they have the same graph, row by row, in every engine.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fencepost.model import *
from fencepost.model.kernel.compiled import build
from tests.depth import examples
from tests.model.random_machines import LENGTH, NAMES, Spec, specs

thorough = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def measured(result: CheckResult) -> CheckResult:
    """A result without what differs from run to run, or with the layout of a run."""
    return replace(result, seconds=0.0, peak_bytes=0, notes=())


@thorough
@given(specs(branches=True))
def test_a_machine_with_if_has_the_transitions_of_the_one_with_pick(spec: Spec) -> None:
    """The same states in the same order, and the same edges."""
    one, other = (reachable_graph(Model(spec.machine(picked=picked)), workers=1) for picked in (False, True))
    assert one.initial == other.initial
    for part in ("states", "sources", "targets", "labels"):
        assert np.array_equal(getattr(one, part), getattr(other, part)), part


def every_state(model: Model, spec: Spec) -> np.ndarray[Any, Any]:
    """All states of a random machine, reachable or not: there its conditions differ."""
    fixed = {"left": 1 << 60, "right": 12345} if spec.wide else {}
    numbers = range(spec.size)
    states = [
        {"f": f, "n": n, "colour": colour, "row": row, **fixed}
        for f, n, colour, row in product((False, True), numbers, NAMES, product(numbers, repeat=LENGTH))
    ]
    return np.concatenate([model.pack(state) for state in states], axis=1)


@thorough
@given(specs(branches=True))
def test_every_state_has_the_successors_of_the_machine_with_pick(spec: Spec) -> None:
    """In one batch of all states, whose rows take different paths."""
    one, other = (Model(spec.machine(picked=picked)) for picked in (False, True))
    states = every_state(one, spec)
    for label in one.labels:
        mine, theirs = one.successors(states, label), other.successors(states, label)
        assert np.array_equal(mine.origin, theirs.origin)
        assert np.array_equal(mine.states, theirs.states)


@thorough
@given(specs(branches=True))
def test_a_machine_with_if_has_the_verdicts_and_counterexamples_of_the_one_with_pick(spec: Spec) -> None:
    one, other = (check(spec.machine(picked=picked), keep_going=True, workers=1) for picked in (False, True))
    assert measured(one) == measured(other)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs(branches=True))
def test_the_compiled_loop_takes_the_same_paths(spec: Spec) -> None:
    if not build.has_compiler():
        pytest.skip("there is no C compiler")
    plain = check(spec.machine(picked=True), keep_going=True, workers=1)
    compiled = check(spec.machine(), keep_going=True, workers=1, compiled=True)
    assert measured(compiled) == measured(plain)


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs(branches=True))
def test_a_walk_takes_the_same_steps(spec: Spec) -> None:
    one, other = (walk(spec.machine(picked=picked), seed=3, walks=5, steps=20) for picked in (False, True))
    assert measured(one) == measured(other)


class Lift(Machine):
    """A lift that serves calls, written as one would in Python."""

    floors = Size(3)
    top = Size(2)
    symmetric = ()
    at = Int(0, top)
    door = Enum("shut", "open")
    called = Each(floors, Bool())

    def direction(s) -> Choice:
        """A definition with paths of its own."""
        for floor in range(s.floors):
            if s.called[floor]:
                if s.at == floor:
                    return "here"
                return "up" if s.at < floor else "down"
        return "none"

    def distance(s, floor: int) -> Number:
        if s.at >= floor:
            return s.at - floor
        return floor - s.at

    def shut(s) -> None:
        """A procedure: it belongs to the action that calls it."""
        if s.door == "open":
            s.door = "shut"

    @action(floor=floors)
    def call(s, floor: int) -> None:
        s.require(not s.called[floor])
        s.called[floor] = True

    @action
    def go(s) -> None:
        s.require(any(s.called))
        s.shut()
        way = s.direction()
        if way == "here":
            s.door = "open"
            s.called[s.at] = False
        elif way == "up":
            s.at += 1
        elif way == "down":
            s.at -= 1
        else:
            s.require(False)

    @invariant
    def open_where_called(s) -> Truth:
        if s.door == "shut":
            return True
        return not s.called[s.at] or s.called.count(True) > 0

    @invariant(floor=floors)
    def near(s, floor: int) -> Truth:
        if s.called[floor] and s.door == "open":
            return s.distance(floor) <= s.top
        return 0 <= s.at <= s.top

    @step
    def one_floor(before, after: "Lift") -> Truth:
        if before.at < after.at:
            return after.at == before.at + 1
        if before.at > after.at:
            return after.at == before.at - 1
        return implies(before.door == "open", lambda: after.door.is_in("shut", "open"))

    @reachable
    def all_called(s) -> Truth:
        return all(s.called)

    @always_recoverable
    def served(s) -> Truth:
        return not any(s.called)

    @leads_to(fair=("go",), floor=floors)
    def is_served(s, floor: int) -> tuple[Truth, Truth]:
        if floor:  # a number of Python: decided when the property is built
            return s.called[floor], s.at == floor
        return s.called[0], s.at == 0 and s.door == "open"


class PickedLift(Machine):
    """The same, with `pick` and `case`."""

    floors = Size(3)
    top = Size(2)
    at = Int(0, top)
    door = Enum("shut", "open")
    called = Each(floors, Bool())

    @action(floor=floors)
    def call(s, floor: int) -> None:
        s.require(~s.called[floor])
        s.called[floor] = True

    @action
    def go(s) -> None:
        s.require(s.called.any(True))
        lowest = case(*((s.called[floor], floor) for floor in range(s.floors)), otherwise=0)
        here, higher = s.at == lowest, s.at < lowest
        for floor in range(s.floors):
            s.called[floor] = s.called[floor] & ~(here & (s.at == floor))
        s.door = pick(here, "open", "shut")
        s.at = case((here, s.at), (higher, s.at + 1), otherwise=s.at + s.top) % (s.top + 1)


def test_a_machine_written_in_plain_python_has_the_states_of_one_written_with_pick() -> None:
    one, other = (reachable_graph(Model(machine), workers=1) for machine in (Lift, PickedLift))
    for part in ("states", "sources", "targets", "labels"):
        assert np.array_equal(getattr(one, part), getattr(other, part)), part


def test_properties_are_decided_path_by_path() -> None:
    result = check(Lift, keep_going=True)
    assert {found.name: found.verdict for found in result.properties} == {
        "open_where_called": "holds",
        "near": "holds",
        "one_floor": "holds",
        "all_called": "holds",
        "served": "holds",
        "is_served": "violated",  # a run that never calls `go`, for the lowest floor comes first
        "no-deadlock": "holds",
    }


@pytest.mark.skipif(not build.has_compiler(), reason="there is no C compiler")
def test_the_compiler_covers_every_path() -> None:
    plain, compiled = (check(Lift, keep_going=True, compiled=way) for way in (False, True))
    assert measured(plain) == measured(compiled)
    assert not compiled.notes


def runs_of(work: Any, **fields: Any) -> int:
    """How often an action is run on all states of its fields at once."""
    runs = []

    def begin(s: Any) -> None:
        for name in fields:
            setattr(s, name, anything())

    def act(s: Any) -> None:
        runs.append(s.frame.size)
        work(s)

    model = Model(type("Counted", (Machine,), {**fields, "begin": initial(begin), "act": action(act)}))
    frame = model.apply(model.initial(), model.labels[0])
    assert frame is not None
    assert sorted(frame.origin().tolist()) == list(range(frame.size))  # every row takes one path
    return len(runs)


def test_a_branch_without_rows_is_not_run() -> None:
    def nested(s: Any) -> None:
        if s.n == 0 and s.n == 1:
            raise AssertionError("no row is here")
        if s.n < 4:
            s.n = 3

    assert runs_of(nested, n=Int(0, 3)) == 2


def test_a_path_is_run_on_its_own_rows_only() -> None:
    sizes = []

    def chain(s: Any) -> None:
        sizes.append(s.frame.size)
        for i in range(3):
            if s.n == i:
                s.n = 3
                return

    assert runs_of(chain, n=Int(0, 3)) == 4
    assert sizes == [4, 3, 2, 1]


def test_paths_of_definitions_add_up_and_do_not_multiply() -> None:
    """Without that, a machine with a few definitions with `if` would have millions of paths."""

    class Many(Machine):
        cells = Each(8, Int(0, 2))

        @initial
        def begin(s) -> None:
            s.cells = anything()

        def name(s, i: int) -> Choice:
            if s.cells[i] == 0:
                return "none"
            return "one" if s.cells[i] == 1 else "two"

        @action
        def go(s) -> None:
            runs.append(s.frame.size)
            s.require(all_of(s.name(i) != "two" for i in range(8)))

        @invariant(i=8)
        def small(s, i: int) -> Truth:
            judged.append(s.frame.size)
            if s.cells[i] == 0:
                return True
            return s.cells[i] < 3

    runs: list[int] = []
    judged: list[int] = []
    model = Model(Many)
    frame = model.apply(model.initial(), model.labels[0])
    assert frame is not None
    assert frame.size == 2**8
    assert set(runs) == {3**8}  # run again once, when the definition has decided for the first time
    assert len(runs) <= 2
    assert model.holds(model.properties[0], model.initial()).all()
    assert len(judged) == 8 * 3  # begun, and then a run for each of the two paths


def test_what_a_definition_chooses_is_of_one_kind() -> None:
    class Mixed(Machine):
        flag = Bool()
        count = Int(0, 3)
        row = Each(2, Int(0, 3))

        @initial
        def begin(s) -> None:
            s.flag = anything()

        @invariant
        def work(s) -> Any:
            return s.count == 0 if s.flag else s.row

        @action
        def stay(s) -> None: ...

    with pytest.raises(ModellingMistake, match=r"an `if` on a column chooses <an array, `row`>"):
        check(Mixed)


def test_a_definition_that_gives_an_array_takes_the_paths_of_its_action() -> None:
    class Rows(Machine):
        flag = Bool()
        left = Each(2, Int(0, 3))
        right = Each(2, Int(0, 3))

        @initial
        def begin(s) -> None:
            s.flag = anything()

        def row(s) -> Any:
            return s.left if s.flag else s.right

        @action
        def grow(s) -> None:
            row = s.row()
            s.require(row[0] == 0)
            row[0] = 1

        @invariant
        def one_grows(s) -> Truth:
            return s.left[0] + s.right[0] < 2

        @may_end
        def ended(s) -> Truth:
            return (s.left[0] if s.flag else s.right[0]) == 1

    result = check(Rows)
    assert result.verdict == "holds"
    assert (result.distinct, result.generated) == (4, 4)


def test_a_branch_inside_of_a_lazy_value_is_joined() -> None:
    class Lazy(Machine):
        at = Int(0, 3)
        log = Each(3, Int(0, 3))

        @action
        def go(s) -> None:
            s.at = pick(s.at < 3, lambda: s.at + 1 if s.log[s.at] == 0 else s.at, 0)

        @invariant
        def fine(s) -> Truth:
            return implies(s.at < 3, lambda: s.log[s.at] == 0 if s.at > 0 else s.at == 0)

    assert (check(Lazy).distinct, check(Lazy).verdict) == (4, "holds")


def test_starts_are_chosen_path_by_path() -> None:
    class Begun(Machine):
        a = Int(0, 3)
        b = Int(0, 3)

        @initial
        def begin(s) -> None:
            s.a = anything()
            if s.a < 2:
                s.b = anything(1, 2)
            else:
                s.require(s.a == 3)

        @action
        def stay(s) -> None: ...

    model = Model(Begun)
    found = {tuple(model.unpack(state).values()) for state in model.initial().T}
    assert found == {(0, 1), (0, 2), (1, 1), (1, 2), (3, 0)}


def test_the_guard_that_refuses_is_found_on_the_path_of_the_state() -> None:
    class Guarded(Machine):
        n = Int(0, 3)

        @action
        def go(s) -> None:
            if s.n == 0:
                s.require(s.n == 1)
            else:
                s.require(s.n == 0)

    model = Model(Guarded)
    refused = model.failed_guard(model.initial(), model.labels[0])
    assert refused is not None
    assert refused.text == "s.require(s.n == 1)"


def test_what_can_happen_is_asked_path_by_path() -> None:
    class Querying(Machine):
        n = Int(0, 3)

        @action
        def up(s) -> None:
            s.require(s.n < 3)
            s.n += 1

        @invariant
        def goes_on(s) -> Truth:
            if s.n < 3:
                return s.can("up")
            return ~s.can("up")

        @may_end
        def ended(s) -> Truth:
            return s.n == 3

    assert check(Querying).verdict == "holds"


def test_a_mapping_may_branch() -> None:
    class Small(Machine):
        half = Int(0, 1)

        @action
        def flip(s) -> None:
            s.half = 1 - s.half

    class Large(Machine):
        n = Int(0, 3)

        @action
        def up(s) -> None:
            s.n = (s.n + 1) % 4

        @refines(Small)
        def small(s) -> dict[str, Any]:
            if s.n < 2:
                return {"half": 0}
            return {"half": 1}

    assert check(Large)["small"].verdict == "holds"


def test_a_loop_on_a_column_ends_in_every_state() -> None:
    class Looping(Machine):
        n = Int(0, 7)
        m = Int(0, 7)

        @initial
        def begin(s) -> None:
            s.n = anything()

        @action
        def go(s) -> None:
            while s.m < s.n:
                s.m += 1

        @step
        def meets(before, after: "Looping") -> Truth:
            return after.m == after.n

    assert check(Looping).verdict == "holds"


def test_a_property_does_not_assign_on_a_path() -> None:
    class Assigning(Machine):
        flag = Bool()

        @initial
        def begin(s) -> None:
            s.flag = anything()

        @action
        def stay(s) -> None: ...

        @invariant
        def fine(s) -> Truth:
            if s.flag:
                s.flag = False
            return ~s.flag

    with pytest.raises(ModellingMistake, match="a property only reads"):
        check(Assigning)
