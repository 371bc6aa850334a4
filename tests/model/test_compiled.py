"""The compiled loop against NumPy: the same result, to the last count and counterexample, or the same error.

If these fail, `--engine compiled` misses states, invents them, or reports another error than the default.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.commands.models import SHIPPED, find_machine
from fencepost.model import (
    Bag,
    Bool,
    CheckResult,
    Each,
    Enum,
    Flags,
    Id,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Progress,
    Record,
    Seq,
    Set,
    Size,
    Truth,
    action,
    case,
    check,
    implies,
    invariant,
    may_end,
    most,
    pick,
    reachable,
    step,
    total,
)
from fencepost.model.kernel.compiled import build, engine
from fencepost.model.kernel.compiled import text as c
from fencepost.model.kernel.compiled.engine import Compiled
from fencepost.model.kernel.compiled.trace import NotCovered, Program, Trace, Traced
from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.layout import look_up
from fencepost.model.kernel.search import explore
from fencepost.model.kernel.temporal import avoiding
from fencepost.model.textbook.two_phase import TwoPhase
from tests.depth import examples
from tests.model.random_machines import Spec, specs

pytestmark = pytest.mark.skipif(not build.has_compiler(), reason="there is no C compiler")


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(build, "OPTIONS", ("-O0", *OPTIMIZED[1:]))  # compiled sooner
        yield


OPTIMIZED = build.OPTIONS


def measured(result: CheckResult) -> CheckResult:
    """A result without what differs from run to run."""
    rows = (replace(row, proof=row.proof and replace(row.proof, seconds=0.0)) for row in result.properties)
    return replace(result, seconds=0.0, peak_bytes=0, notes=(), properties=tuple(rows))


def both(machine: type[Machine], sizes: dict[str, int] | None = None, **options: Any) -> CheckResult:
    """The result, which is the same with and without the compiler; everything was compiled."""
    plain = check(machine, sizes, workers=1, compiled=False, **options)
    compiled = check(machine, sizes, workers=1, compiled=True, **options)
    assert measured(compiled) == measured(plain)
    assert [note for note in compiled.notes if "NumPy" in note] == []
    return compiled


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def test_random_machines_have_the_same_result(spec: Spec) -> None:
    """With and without the short way through narrow levels."""
    with pytest.MonkeyPatch.context() as patch:
        if spec.second_start:
            patch.setattr(engine, "WIDEST", 0)
        both(spec.machine(), keep_going=True, exact=spec.second_start)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs(), st.integers(1, 5))
def test_random_machines_that_are_compiled_on_the_way_have_the_same_result(spec: Spec, depth: int) -> None:
    machine = spec.machine()
    plain = check(machine, workers=1, keep_going=True, compiled=False)
    with pytest.MonkeyPatch.context() as patch:
        compiled_at(depth, patch)
        assert measured(check(machine, workers=1, keep_going=True)) == measured(plain)


def compiled_at(depth: int, patch: pytest.MonkeyPatch) -> list[int]:
    """Have searches be compiled before they leave this depth; the list tells those that were."""
    switched: list[int] = []
    in_time = explore.Explorer._compile_in_time

    def switch(self: explore.Explorer, _: float) -> None:
        at = self.search.depth
        in_time(self, 1e9 if at >= depth else 0.0)
        if at == depth and self._compiled is not None:
            switched.append(at)

    patch.setattr(explore.Explorer, "_compile_in_time", switch)
    return switched


def test_models_have_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "OPTIONS", OPTIMIZED)
    both(find_machine("fenced-lease"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_every_model_has_the_same_result_with_and_without_its_safeguards(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "OPTIONS", OPTIMIZED)
    machine = find_machine(name)
    for without in ([], *([switch] for switch in machine.safeguards)):
        plain, compiled = (
            check(machine, without=without, max_states=20_000, compiled=way) for way in (False, True)
        )
        assert measured(compiled) == measured(plain), without


class Everything(Machine):
    """A use of every kind of field and of every operation on it."""

    nodes = Size(3)
    count = Int(-2, 5)
    colour = Enum("red", "green", "blue")
    other = Enum("blue", "red", "green", "none")
    on = Each(nodes, Bool())
    at = Id(nodes)
    seen = Flags(nodes)
    queue = Seq(2, Int(0, 3))
    message = Record(type=Enum("ask", "answer"), src=Id(nodes), vote=Bool())
    network = Bag(2, Record(type=Enum("ask", "answer"), src=Id(nodes)))
    sent = Set(Record(src=Id(nodes), vote=Bool()))
    named = Each(("red", "green", "blue"), Int(0, 2))
    wide = Each(nodes, Int(0, (1 << 40) - 1))

    @action
    def add(s) -> None:
        s.require(s.count < 4)
        s.count = (s.count * 3 + 1 - s.nodes) % 6 - 1

    @action
    def divide(s) -> None:
        s.require((s.count // 2 == -1) | (s.count > 2) & ~s.on[s.at])
        s.count = pick(s.on.any(True), -1, s.count * -1 // 2)
        s.on[s.at] = True

    @action(n=nodes)
    def turn(s, n: int) -> None:
        s.require((s.at != n) & s.on.all(lambda on: ~on) | (s.on.count(True) == 1))
        s.at = n
        s.seen = s.seen.plus(s.at)
        s.on[n] = ~s.on[n]

    @action
    def repaint(s) -> None:
        s.require(s.seen.size() >= 1, s.seen.has(s.at))
        s.colour = case((s.colour == "red", "green"), (s.colour == "green", "blue"), otherwise="red")
        s.other = s.colour
        s.seen = s.seen - {0}
        s.named[s.colour] = most(s.named) % 2 + 1

    @action(k=4)
    def push(s, k: int) -> None:
        s.require(~s.queue.is_full(), s.count == 1)
        s.queue.append(k)

    @action
    def pop(s) -> None:
        s.require(s.queue.length > 1)
        first = s.queue.pop_first()
        s.require(first != 2)
        s.count = pick(s.queue.length > 0, lambda: s.queue.last, first)
        s.queue.clear()

    @action(n=nodes)
    def ask(s, n: int) -> None:
        s.require(s.network.size() < 2, s.on[n])
        s.network.add(type="ask", src=n)
        s.message = {"type": "ask", "src": s.at, "vote": s.on[n]}

    @action(m=network)
    def answer(s, m) -> None:
        s.require(m.type == "ask")
        s.network.remove(m)
        s.network.add(type="answer", src=m.src)
        s.sent.add(src=m.src, vote=s.message.vote)
        s.message = s.message.but(type="answer")

    @action
    def widen(s) -> None:
        s.require(s.sent.size() > 1, s.wide[s.at] < 2)
        s.wide[s.at] = s.wide[s.at] + (1 << 39) // 3

    @invariant
    def small(s) -> Truth:
        """Not violated."""
        return implies(s.sent.has(vote=True), lambda: s.message.vote | (total(s.named) < 99))

    @invariant
    def few(s) -> Truth:
        """Violated somewhere."""
        return ~(s.sent.any(lambda m: m.vote) & s.queue.has(3))

    @reachable
    def answered(s) -> Truth:
        return s.network.any(lambda m: (m.type == "answer") & (m.src == s.at))

    @step
    def grows(before, after: "Everything") -> Truth:
        return implies(before.seen.has(2), after.seen.has(2) | (after.count >= before.count - 1))

    @may_end
    def anywhere(s) -> Truth:
        return s.count >= 3


def test_every_operation_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "OPTIONS", OPTIMIZED)
    result = both(Everything, max_depth=7, keep_going=True)
    assert result.distinct > 1_000
    assert result.words > 1


class Down(Machine):
    """Does not begin in the state whose words are 0, and violates a step by two labels from one state."""

    n = Int(0, 3, start=3)

    @action(by=(1, 2))
    def down(s, by: int) -> None:
        s.require(s.n >= by)
        s.n = s.n - by

    @step
    def never(before, after: "Down") -> Truth:
        return after.n >= before.n

    @may_end
    def at_the_end(s) -> Truth:
        return s.n == 0


def test_the_first_label_of_the_first_state_that_violates_a_step_is_reported() -> None:
    result = both(Down, keep_going=True)
    assert result.distinct == 4
    found = result["never"].counterexample
    assert found is not None
    assert found.steps[-1].parameters == {"by": 1}


def _deep(wide: int) -> type[Machine]:
    class Deep(Machine):
        """Hundreds of levels of a few states, with something to report on some of them."""

        n = Int(0, 300)
        side = Int(0, 2)
        padding = Int(0, wide, start=wide)
        more = Int(0, wide, start=wide)

        @action
        def up(s) -> None:
            s.require(s.n < 300, ~((s.n == 200) & (s.side == 1)))
            s.n = s.n + 1

        @action
        def turn(s) -> None:
            s.require(s.n % 50 == 0, s.n != 200, s.n != 300)
            s.side = (s.side + 1) % 3

        @action
        def back(s) -> None:
            s.require(s.n == 150, s.side == 2)
            s.n = 20

        @invariant
        def below(s) -> Truth:
            return (s.n < 250) | (s.side != 2)

        @reachable
        def far(s) -> Truth:
            return (s.n == 120) & (s.side == 1)

        @step
        def stays(before, after: "Deep") -> Truth:
            return (after.n >= before.n) | (before.n < 150)

    return Deep


@pytest.mark.parametrize(
    ("wide", "options"), [(1, {}), (1 << 61, {}), (1, {"max_states": 90}), (1, {"max_depth": 7})]
)
def test_narrow_levels_are_those_of_numpy(wide: int, options: dict[str, int]) -> None:
    """Every level, count and finding; several hundred levels were taken by a few calls."""
    model = Model(_deep(wide))
    for keep_going in (False, True):
        for deadlocks in (False, True):
            shared = {"bounds": explore.Bounds(**options), "keep_going": keep_going, "deadlocks": deadlocks}
            plain, compiled = (
                explore.Explorer(model, workers=1, compiled=way, **shared).run() for way in (False, True)
            )
            assert len(plain.levels) == len(compiled.levels)
            assert all((a == b).all() for a, b in zip(plain.levels, compiled.levels, strict=True))
            for name in ("distinct", "generated", "fired", "found", "deadlock", "complete", "stopped_by"):
                assert getattr(plain, name) == getattr(compiled, name), name


def _graph(search: explore.Search, goal: Property) -> list[Any]:
    graph = avoiding.build(search, goal, workers=1)
    return [each.tolist() for each in (graph.forward.starts, graph.forward.targets, graph.ends, graph.leaves)]


@pytest.mark.parametrize("wide", [1, 1 << 61])
def test_the_graph_that_avoids_a_goal_is_that_of_numpy(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges, ends and marks, whether or not the space for successors fills up between two states."""
    model = Model(_deep(wide))
    plain, compiled = (
        explore.Explorer(model, workers=1, compiled=way, keep_going=True).run() for way in (False, True)
    )
    expected = [_graph(plain, goal) for goal in model.properties if goal.kind.name != "step"]
    monkeypatch.setattr(avoiding, "_CHUNK", 100)
    monkeypatch.setattr(avoiding, "_edges", None)  # only NumPy needs it
    for room in (3, 7, 1 << 20):
        monkeypatch.setattr(engine, "PENDING", room)
        found = [_graph(compiled, goal) for goal in model.properties if goal.kind.name != "step"]
        assert found == expected
    assert all(any(marks) for marks in expected[0][2:])


def test_a_graph_with_what_is_not_covered_or_falls_into_a_trap_is_that_of_numpy() -> None:
    for machine in (Partly, Down):
        model = Model(machine)
        plain, compiled = (
            explore.Explorer(model, workers=1, compiled=way, keep_going=True).run() for way in (False, True)
        )
        assert compiled.compiled is not None
        if machine is Down:
            compiled.compiled._expand = lambda _: 1
        assert compiled.compiled.edges(compiled.levels[0]) is None
        goal = replace(model.properties[0], function=lambda s: s.n == 2)
        assert _graph(compiled, goal) == _graph(plain, goal)


def test_narrow_levels_take_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(_deep(1))
    explorer = explore.Explorer(model, workers=1, compiled=True, keep_going=True)
    steps: list[int] = []
    plain = explorer._next
    monkeypatch.setattr(explorer, "_next", lambda level: steps.append(1) or plain(level))
    assert explorer.run().depth > 300
    assert len(steps) < 40


def _overflow(s: Any) -> None:
    s.require(s.n > 1)
    s.n = s.n + 1


def _outside(s: Any) -> None:
    s.require(s.n > 1)
    s.row[s.n] = True


def _empty(s: Any) -> None:
    s.require(s.n == 2)
    s.queue.pop_first()


def _removed(s: Any) -> None:
    s.require(s.n == 2)
    s.bag.remove(1)


@pytest.mark.parametrize("mistake", [_overflow, _outside, _empty, _removed])
def test_what_only_some_states_violate_is_the_same_error(mistake: Callable[[Any], None]) -> None:
    def count(s: Any) -> None:
        s.require(s.n < 3)
        s.n = s.n + 1

    fields = {"n": Int(0, 3), "row": Each(2, Bool()), "queue": Seq(1, Bool()), "bag": Bag(1, Int(0, 1))}
    machine = type("Wrong", (Machine,), {**fields, "count": action(count), "mistake": action(mistake)})
    messages = []
    for compiled in (False, True):
        with pytest.raises(ModellingMistake) as caught:
            check(machine, compiled=compiled)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "mistake()" in messages[0]


OPERATIONS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "add": lambda x, y, a, b: (x + y) * 3,
    "add signed": lambda x, y, a, b: a + b * -5 - 1,
    "bits": lambda x, y, a, b: (x & y | 12) ^ ~y,
    "bits signed": lambda x, y, a, b: ~(a & b) | 1,
    "truths": lambda x, y, a, b: ~(x < y) ^ (a <= b) | (x != y) & ~(a > 7),
    "left": lambda x, y, a, b: x << y,
    "left by few": lambda x, y, a, b: np.left_shift(np.uint64(7), y & 127),
    "left signed": lambda x, y, a, b: (a << (b & 127)) + (a << 3),
    "right": lambda x, y, a, b: x >> (y & 127),
    "right signed": lambda x, y, a, b: (a >> (b & 127)) + (a >> 3),
    "floor": lambda x, y, a, b: a // 7 + b // 1,
    "floor unsigned": lambda x, y, a, b: x // 7,
    "rest": lambda x, y, a, b: a % 7 - b % 64,
    "rest unsigned": lambda x, y, a, b: x % 7,
    "both": lambda x, y, a, b: np.divmod(a, 9)[0] * 100 + np.divmod(a, 9)[1],
    "most": lambda x, y, a, b: np.maximum(x, y),
    "most signed": lambda x, y, a, b: np.maximum(a, b) - np.minimum(b, -3),
    "least": lambda x, y, a, b: np.minimum(x, y),
    "compared": lambda x, y, a, b: (x >= y).astype(np.int64) * 4 + (a >= b).astype(np.int64),
    "compared signed": lambda x, y, a, b: (a < 0).astype(np.uint64) + (x == y).astype(np.uint64),
    "count": lambda x, y, a, b: np.bitwise_count(x).astype(np.int64) + np.bitwise_count(a),
    "count wraps": lambda x, y, a, b: np.bitwise_count(x) * np.bitwise_count(y),
    "where": lambda x, y, a, b: np.where(x < y, a, np.where(a < b, b, -5)),
    "where truths": lambda x, y, a, b: np.where(x < y, a < b, True),
    "table": lambda x, y, a, b: look_up(np.array([5, -7, 9, 2], np.int64), (x & 3).view(np.int64)),
}
EDGES = [0, 1, 2, 3, 6, 7, 63, 64, 65, 1 << 31, *((1 << 63) + n for n in (-1, 0, 1)), (1 << 64) - 7]


def test_every_operation_has_the_meaning_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """On numbers at which signs, shifts and overflows differ between C and NumPy, if they do."""
    monkeypatch.setattr(build, "OPTIONS", OPTIMIZED)
    trace = Trace()
    inputs = [Traced(trace, trace.node("input", np.dtype(np.uint64), n)) for n in range(2)]
    functions = []
    for number, operation in enumerate(OPERATIONS.values()):
        node = operation(*inputs, *(each.view(np.int64) for each in inputs)).node
        body = c.statements(Program([], [node]), {})
        functions.append(f"u64 of_{number}(u64 w0, u64 w1) {{ {body} return (u64){c.variable(node)}; }}")
    library = build.library_of(c.SHARED.replace("@JOB@", "") + "\n".join(functions)).functions
    x, y = (np.array(side, np.uint64) for side in zip(*product(EDGES, EDGES), strict=True))
    for number, (name, operation) in enumerate(OPERATIONS.items()):
        found = getattr(library, f"of_{number}")
        found.restype, found.argtypes = ctypes.c_uint64, [ctypes.c_uint64] * 2
        expected = operation(x, y, x.view(np.int64), y.view(np.int64)).astype(np.uint64)
        for one, other, wanted in zip(x.tolist(), y.tolist(), expected.tolist(), strict=True):
            assert found(one, other) == wanted, (name, one, other)


class Partly(Machine):
    """The property and the action that look at enabled actions are not covered."""

    n = Int(0, 9)

    @action
    def up(s) -> None:
        s.require(s.n < 9)
        s.n = s.n + 1

    @action
    def shown(s) -> None:
        s.require(s.n > 7)
        repr(s.n)
        s.n = 0

    @invariant
    def goes_on(s) -> Truth:
        return s.can("up") | s.can("shown")


def test_what_is_not_covered_is_computed_by_numpy_and_named() -> None:
    plain, compiled = (check(Partly, compiled=way) for way in (False, True))
    assert measured(plain) == measured(compiled)
    assert compiled.coverage == {"up": 9, "shown": 2}
    assert [note.split(" is ")[0] for note in compiled.notes] == ["shown", "goes_on"]


class Unjudged(Machine):
    """The property of steps is not covered, and a step violates it."""

    n = Int(0, 9)

    @action
    def up(s) -> None:
        s.require(s.n < 9)
        s.n = s.n + 1

    @step
    def below_the_last(before, after: "Unjudged") -> Truth:
        return (after.n < 9) | before.can("up") & (before.n == 9)

    @may_end
    def at_the_end(s) -> Truth:
        return s.n == 9


def test_a_property_of_steps_that_is_not_covered_is_judged() -> None:
    plain, compiled = (check(Unjudged, compiled=way) for way in (False, True))
    assert measured(plain) == measured(compiled)
    assert compiled["below_the_last"].verdict == "violated"
    assert [note.split(" is ")[0] for note in compiled.notes] == ["below_the_last, and with it every action,"]


class Branching(Machine):
    """Statements of Python decide, some of them on the size alone, and some branches have no way on."""

    last = Size(5)
    n = Int(0, 20)
    colour = Enum("red", "green", "blue")

    @action(by=(1, 2))
    def go(s, by: int) -> None:
        s.require(by < s.last, s.n < 4 * s.last)
        if s.n < 5:
            s.n = s.n + by
        elif s.colour == "red":
            s.colour = "green"
            if s.n > 7:
                s.n = 0
            else:
                s.n = s.n + 2
        elif s.colour == "green":
            s.require(s.n > 5)
            s.colour = "blue"
        else:
            s.require(by > s.last)

    @action
    def never(s) -> None:
        s.require(s.last < 3)
        s.n = 20

    @reachable
    def is_blue(s) -> Truth:
        return (s.colour == "blue") & (s.n == 7)

    @may_end
    def anywhere(s) -> Truth:
        return s.n >= 0


def test_branches_of_the_text_give_the_same_result() -> None:
    result = both(Branching, keep_going=True)
    assert result["is_blue"].verdict != "violated"
    assert result.distinct > 10


@pytest.mark.parametrize(
    "operation",
    [
        np.add.reduce,
        np.bitwise_or.accumulate,
        lambda column: np.add(column, column, out=np.zeros(1, np.uint64)),
    ],
)
def test_an_operation_on_all_rows_is_not_covered(operation: Callable[[Any], Any]) -> None:
    trace = Trace()
    with pytest.raises(NotCovered):
        operation(Traced(trace, trace.node("input", np.dtype(np.uint64), 0)))


@pytest.mark.parametrize("number", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -1])
@pytest.mark.parametrize("kind", [np.uint64, np.int64])
def test_a_constant_that_does_not_fit_is_not_covered(number: int, kind: Any) -> None:
    trace = Trace()
    column = Traced(trace, trace.node("input", np.dtype(np.uint64), 0)).view(kind)
    bounds = np.iinfo(kind)
    if bounds.min <= number <= bounds.max:
        node = (column & number).node
        assert [each.arguments[0] for each in node.arguments if each.operation == "constant"] == [number]
    else:
        with pytest.raises((NotCovered, OverflowError)):
            column & number


def test_labels_beyond_what_is_compiled_in_time_stay_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_EXPRESSIONS", 100)
    result = check(TwoPhase, compiled=True, keep_going=True)
    assert measured(result) == measured(check(TwoPhase, keep_going=True, compiled=False))
    assert (
        result.notes[-1] == "hear_abort is computed by NumPy (not covered: more than 100 expressions in all)"
    )


def test_other_engines_of_the_search_are_kept() -> None:
    """Symmetry, bounds and several threads see the same successors."""
    both(TwoPhase, symmetry=True)
    both(TwoPhase, without=["all-prepared"])
    both(TwoPhase, {"managers": 4}, max_states=700)
    threaded = check(TwoPhase, {"managers": 6}, workers=2, compiled=True)
    assert measured(threaded) == measured(check(TwoPhase, {"managers": 6}, workers=2, compiled=False))


def test_a_search_is_continued_by_the_other_engine(tmp_path: Path) -> None:
    def stop(at: Progress) -> None:
        if at.depth == 6:
            raise KeyboardInterrupt

    for number, way in enumerate((False, True)):
        record = tmp_path / str(number)
        with pytest.raises(KeyboardInterrupt):
            check(TwoPhase, resume=record, compiled=way, progress=stop)
        continued = check(TwoPhase, resume=record, compiled=not way)
        assert "the first 6 levels were taken" in continued.notes[0]
        assert measured(continued) == measured(check(TwoPhase, compiled=False))


def test_few_states_and_successors_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The space for successors fills up between states, and a bound is hit in the middle of a level."""
    work = explore.Work(chunk=5, pending=7, wave=2, waiting=11, parts=3, nbytes=0)
    monkeypatch.setattr(explore.Work, "within", lambda *_: work)
    both(TwoPhase)
    both(TwoPhase, max_states=150)


@pytest.mark.parametrize("options", [{}, {"max_states": 150}, {"symmetry": True}, {"exact": True}], ids=str)
def test_a_search_that_takes_long_is_compiled_by_itself(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """At the end of a level, without a word; the verdict and all counts stay."""
    plain = check(TwoPhase, compiled=False, **options)
    switched = compiled_at(3, monkeypatch)
    found = check(TwoPhase, **options)
    assert switched
    assert (measured(found), found.notes) == (measured(plain), plain.notes)


def test_a_search_is_compiled_once_it_took_as_long_as_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "SECONDS_A_BYTE", 1.0)
    explorer = explore.Explorer(Model(TwoPhase))
    explorer._compile_in_time(explore.COMPILED_AFTER_S / 2)
    assert explorer._compile_after_s == explore.COMPILED_AFTER_S
    explorer._compile_in_time(100.0)
    assert explorer._compiled is None
    needed_s = explorer._compile_after_s
    assert needed_s > 1_000
    explorer._compile_in_time(needed_s - 1)
    assert explorer._compiled is None
    explorer._compile_in_time(needed_s)
    assert explorer._compiled is not None
    cached = explore.Explorer(Model(TwoPhase))
    cached._compile_in_time(explore.COMPILED_AFTER_S)
    assert cached._compiled is not None


def test_a_search_that_is_compiled_by_itself_names_no_part_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check(Partly, compiled=True).notes
    switched = compiled_at(1, monkeypatch)
    assert check(Partly).notes == ()
    assert switched


def test_a_search_that_is_not_to_be_compiled_is_not() -> None:
    explorer = explore.Explorer(Model(TwoPhase), compiled=False)
    explorer._compile_in_time(1e9)
    assert explorer._compiled is None


def test_without_a_compiler_a_long_search_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_at(1, monkeypatch)
    monkeypatch.setattr(build, "_compiler", _none)
    result = check(TwoPhase)
    assert (measured(result), result.notes) == (measured(check(TwoPhase, compiled=False)), ())


def test_without_a_compiler_numpy_does_the_work_and_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_compiler", _none)
    result = check(TwoPhase, compiled=True)
    assert measured(result) == measured(check(TwoPhase, compiled=False))
    assert result.notes == ("not compiled, NumPy did the work: there is no C compiler",)


def _none() -> tuple[str, str]:
    raise build.NoCompiler("there is no C compiler")


def test_a_text_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a file that is no library, or a folder that others may write to, is not loaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = "int four(void) { return 4; }"
    assert [build.library_of(text).was_cached for _ in range(2)] == [False, True]
    folder = tmp_path / "fencepost" / "compiled"
    (kept,) = folder.iterdir()
    other = "int four(void) { return 2 + 2; }"
    build.library_of(other)
    (broken,) = set(folder.iterdir()) - {kept}
    broken.write_bytes(b"")
    assert build.library_of(other).functions.four() == 4
    folder.chmod(0o777)
    assert not build.library_of(text).was_cached


@pytest.mark.parametrize("cache", ["file", "missing"])
def test_a_cache_that_cannot_be_written_is_done_without(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    if cache == "file":
        home.write_text("no folder")
    else:
        monkeypatch.setattr(build, "_cache_folder", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    library = build.library_of("int four(void) { return 4; }")
    assert not library.was_cached
    assert library.functions.four() == 4


def test_the_compiler_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    build._compiler.cache_clear()
    try:
        with pytest.raises(build.NoCompiler, match="no-such-compiler"):
            build.library_of("")
    finally:
        build._compiler.cache_clear()


def test_the_loop_is_used_at_all() -> None:
    """A fallback to NumPy would pass every comparison above."""
    model = Model(TwoPhase)
    compiled = Compiled(model, model.properties[:1], [p for p in model.properties if p.kind.name == "step"])
    expanded = compiled.expand(model.initial())
    assert os.environ["XDG_CACHE_HOME"]
    assert compiled.labels == len(model.labels)
    assert len(expanded.batch) == len(expanded.fired[expanded.fired > 0])
