"""Packing, and every operation on columns, against plain Python values.

If packing loses a bit or an operation disagrees with Python, a model says something its author did not
write.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model import (
    Bool,
    Each,
    Enum,
    Flags,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Number,
    Seq,
    action,
    all_of,
    any_of,
    case,
    count_of,
    implies,
    pick,
)

ENUM = ("north", "east", "south")


def cells() -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    """A field of one cell, with a strategy for its values."""
    bounds = st.tuples(st.integers(-50, 50), st.integers(0, 2**61))
    return st.one_of(
        st.just((Bool(), st.booleans())),
        bounds.map(lambda b: (Int(b[0], b[0] + b[1]), st.integers(b[0], b[0] + b[1]))),
        st.just((Enum(*ENUM), st.sampled_from(ENUM))),
        st.integers(1, 62).map(lambda n: (Flags(n), st.frozensets(st.integers(0, n - 1)))),
        st.just((Flags("r", "w"), st.frozensets(st.sampled_from(["r", "w"])))),
    )


def fields() -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    """Any field, arrays of arrays and arrays of sequences among them."""

    def sequence(pair: Any, capacity: int) -> Any:
        return Seq(capacity, pair[0]), st.lists(pair[1], max_size=capacity).map(tuple)

    def array(pair: Any, extent: int) -> Any:
        return Each(extent, pair[0]), st.lists(pair[1], min_size=extent, max_size=extent).map(tuple)

    leaves = st.one_of(cells(), st.builds(sequence, cells(), st.integers(1, 4)))
    inner = st.one_of(leaves, st.builds(array, leaves, st.integers(1, 3)))
    return st.one_of(inner, st.builds(array, inner, st.integers(1, 3)))


def machine(**text: Any) -> type[Machine]:
    text.setdefault("stay", action(lambda s: None))
    return type("Made", (Machine,), text)


@given(st.lists(fields(), min_size=1, max_size=5), st.data())
def test_unpacking_inverts_packing(made: list[Any], data: st.DataObject) -> None:
    model = Model(machine(**{f"field{i}": field for i, (field, _) in enumerate(made)}))
    for _ in range(3):
        values = {f"field{i}": data.draw(strategy) for i, (_, strategy) in enumerate(made)}
        packed = model.pack(values)
        assert packed.shape == (model.words, 1)
        assert model.unpack(packed[:, 0]) == values


@given(st.lists(fields(), min_size=1, max_size=5))
def test_no_cell_straddles_words_and_no_two_share_a_bit(made: list[Any]) -> None:
    layout = Model(machine(**{f"field{i}": field for i, (field, _) in enumerate(made)})).layout
    taken: set[tuple[int, int]] = set()
    for slot in layout.slots.values():
        for index in range(slot.count):
            word, shift = slot.place(index)
            assert word < layout.words
            assert shift + slot.kind.width <= 64
            bits = {(word, shift + bit) for bit in range(slot.kind.width)}
            assert not bits & taken
            taken |= bits
        if slot.count * slot.kind.width <= 64 and slot.count <= slot.in_word:
            assert len({slot.place(index)[0] for index in range(slot.count)}) == 1
    assert len(taken) == layout.bits
    if layout.bits <= 64:
        assert layout.words == 1


class Wide(Machine):
    """An array of 40 cells of 7 bits, five words, reached by constants and by columns."""

    place = Each(40, Int(-1, 100))
    grid = Each(3, Each(4, Enum(*ENUM)))
    i = Int(0, 39)
    j = Int(0, 39)
    r = Int(0, 2)
    c = Int(0, 3)

    @action
    def copy(s) -> None:
        s.place[s.i] = s.place[s.j]

    @action(k=40)
    def copy_to(s, k: int) -> None:
        s.place[k] = s.place[s.j]

    @action
    def constant(s) -> None:
        s.place[s.i] = 7
        s.grid[s.r][s.c] = "south"

    @action
    def chosen(s) -> None:
        s.require(s.grid[s.r][s.c] == "east", s.place[s.i] > s.place[s.j])
        s.grid[s.r][2] = "north"
        s.place[(s.i + s.j) % 40] = s.place[s.i] - 1


@st.composite
def wide_states(draw: st.DrawFn) -> dict[str, Any]:
    numbers = st.integers(-1, 100)
    line = st.lists(st.sampled_from(ENUM), min_size=4, max_size=4).map(tuple)
    return {
        "place": tuple(draw(st.lists(numbers, min_size=40, max_size=40))),
        "grid": tuple(draw(st.lists(line, min_size=3, max_size=3))),
        "i": draw(st.integers(0, 39)),
        "j": draw(st.integers(0, 39)),
        "r": draw(st.integers(0, 2)),
        "c": draw(st.integers(0, 3)),
    }


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


@given(st.lists(wide_states(), min_size=1, max_size=6), st.integers(0, 39))
def test_arrays_are_indexed_by_columns_across_words(states: list[dict[str, Any]], k: int) -> None:
    model = Model(Wide)
    assert model.words == 6
    rows = np.concatenate([model.pack(state) for state in states], axis=1)

    def after(text: str) -> dict[int, dict[str, Any]]:
        label = next(label for label in model.labels if str(label) == text)
        found = model.successors(rows, label)
        return {int(origin): model.unpack(found.states[:, row]) for row, origin in enumerate(found.origin)}

    for row, s in enumerate(states):
        assert after("copy()")[row]["place"] == put(s["place"], s["i"], s["place"][s["j"]])
        assert after(f"copy_to(k={k})")[row]["place"] == put(s["place"], k, s["place"][s["j"]])
        assert after("constant()")[row]["place"] == put(s["place"], s["i"], 7)
        grid = put(s["grid"], s["r"], put(s["grid"][s["r"]], s["c"], "south"))
        assert after("constant()")[row]["grid"] == grid
        enabled = s["grid"][s["r"]][s["c"]] == "east" and s["place"][s["i"]] > s["place"][s["j"]]
        assert (row in after("chosen()")) is enabled
        if enabled:
            target = (s["i"] + s["j"]) % 40
            assert after("chosen()")[row]["place"] == put(s["place"], target, s["place"][s["i"]] - 1)
            assert after("chosen()")[row]["grid"][s["r"]][2] == "north"


def evaluate(fields: dict[str, Any], values: list[dict[str, Any]], function: Any) -> list[Any]:
    """What `function(s)` gives for each state, as plain values."""
    seen: list[Any] = []

    def look(s: Any) -> None:
        column = function(s)
        decode = int if isinstance(column, Number) else column.kind.decode
        codes = np.broadcast_to(column.codes(), len(values))  # a constant stands for every state
        seen.extend(decode(code) for code in codes.tolist())

    model = Model(machine(look=action(look), **fields))
    label = next(label for label in model.labels if label.action == "look")
    model.apply(np.concatenate([model.pack(value) for value in values], axis=1), label)
    return seen


ARRAYS = {"a": Each(2, Each(2, Bool())), "b": Each(2, Each(2, Bool())), "i": Int(0, 1)}
_rows = st.tuples(st.tuples(st.booleans(), st.booleans()), st.tuples(st.booleans(), st.booleans()))
ARRAY_STATES = st.fixed_dictionaries({"a": _rows, "b": _rows, "i": st.integers(0, 1)})


@given(st.lists(ARRAY_STATES, min_size=1, max_size=6))
def test_arrays_compare_as_tuples_do(states: list[dict[str, Any]]) -> None:
    """A comparison that Python answers by itself is false in every state, and what needs it never happens."""
    some = ((True, False), (False, True))
    work = [
        (lambda s: s.a == s.b, lambda v: v["a"] == v["b"]),
        (lambda s: s.a != s.b, lambda v: v["a"] != v["b"]),
        (lambda s: s.a == some, lambda v: v["a"] == some),
        (lambda s: s.a[s.i] == s.b[1], lambda v: v["a"][v["i"]] == v["b"][1]),
        (lambda s: s.a[0] != [True, False], lambda v: v["a"][0] != (True, False)),
        (lambda s: s.a.any((True, False)), lambda v: (True, False) in v["a"]),
        (lambda s: s.a.all(s.b[0]), lambda v: all(row == v["b"][0] for row in v["a"])),
        (lambda s: s.a.count(s.a[0]), lambda v: v["a"].count(v["a"][0])),
    ]
    for column, plain in work:
        assert evaluate(ARRAYS, states, column) == [plain(state) for state in states]


NUMBERS = {"a": Int(-5, 9), "b": Int(0, 20), "f": Bool(), "g": Bool()}
NUMBER_STATES = st.fixed_dictionaries(
    {"a": st.integers(-5, 9), "b": st.integers(0, 20), "f": st.booleans(), "g": st.booleans()}
)
NUMBER_WORK = {
    "sum": lambda s: s.a + s.b,
    "constant sum": lambda s: 3 + s.a + 2,
    "difference": lambda s: s.a - s.b,
    "reversed": lambda s: 10 - s.a,
    "product": lambda s: s.a * s.b * 2,
    "quotient": lambda s: s.a // 3,
    "remainder": lambda s: s.a % 4,
}
TRUTH_WORK = {
    "equal": lambda s: s.a == s.b,
    "different": lambda s: s.a != s.b,
    "less": lambda s: s.a < s.b,
    "at most": lambda s: s.a <= 3,
    "more": lambda s: s.a > -2,
    "at least": lambda s: s.b >= 20,
    "beyond the field": lambda s: s.a < 1000,
    "below the field": lambda s: s.b > -1000,
    "never equal": lambda s: s.b == 31,
    "reflected": lambda s: s.a > 3,
    "flags": lambda s: s.f == s.g,
}


@pytest.mark.parametrize(
    "work", [*NUMBER_WORK.values(), *TRUTH_WORK.values()], ids=[*NUMBER_WORK, *TRUTH_WORK]
)
@given(states=st.lists(NUMBER_STATES, min_size=1, max_size=5))
def test_arithmetic_and_comparisons_agree_with_python(work: Any, states: list[dict[str, Any]]) -> None:
    class Plain:
        def __init__(self, values: dict[str, Any]) -> None:
            self.__dict__.update(values)

    assert evaluate(NUMBERS, states, work) == [work(Plain(state)) for state in states]


@given(states=st.lists(NUMBER_STATES, min_size=1, max_size=5), k=st.integers(-5, 9))
def test_truth_values_join_as_python_joins_them(states: list[dict[str, Any]], k: int) -> None:
    joined = [
        (lambda s: (s.a == k) & s.f & ~s.g, lambda v: v["a"] == k and v["f"] and not v["g"]),
        (lambda s: ~s.f | ~s.g | (s.a != k), lambda v: not v["f"] or not v["g"] or v["a"] != k),
        (lambda s: s.f & (s.b == 3) & (s.b == 4), lambda v: False),
        (lambda s: s.f ^ s.g ^ True, lambda v: v["f"] == v["g"]),
        (lambda s: implies(s.f, s.g), lambda v: not v["f"] or v["g"]),
        (lambda s: any_of([s.f, s.g, s.a == k]), lambda v: v["f"] or v["g"] or v["a"] == k),
        (lambda s: all_of([s.f, s.g, s.a == k]), lambda v: v["f"] and v["g"] and v["a"] == k),
        (lambda s: count_of([s.f, s.g, s.a == k]), lambda v: v["f"] + v["g"] + (v["a"] == k)),
        (lambda s: s.a.is_in(k, 0), lambda v: v["a"] in (k, 0)),
        (lambda s: pick(s.f, s.a, s.b + 1), lambda v: v["a"] if v["f"] else v["b"] + 1),
        (lambda s: pick(s.f, s.g, False), lambda v: v["f"] and v["g"]),
        (lambda s: pick(s.f, "x", "y"), lambda v: "x" if v["f"] else "y"),
        (
            lambda s: pick(s.f, pick(s.g, "x", "y"), pick(s.g, "y", "z")),
            lambda v: ("x" if v["g"] else "y") if v["f"] else ("y" if v["g"] else "z"),
        ),
        (lambda s: implies(s.a == k, True), lambda v: True),
        (lambda s: implies(True, s.g), lambda v: v["g"]),
        (lambda s: case((s.f, s.g), otherwise=False), lambda v: v["f"] and v["g"]),
        (
            lambda s: case((s.f, s.a), (s.g, 7), otherwise=s.b + 1),
            lambda v: v["a"] if v["f"] else 7 if v["g"] else v["b"] + 1,
        ),
        (
            lambda s: case((s.f, "x"), (s.g, "y"), (s.a == k, "x"), otherwise="z"),
            lambda v: "x" if v["f"] else "y" if v["g"] else "x" if v["a"] == k else "z",
        ),
    ]
    for column, plain in joined:
        assert evaluate(NUMBERS, states, column) == [plain(state) for state in states]


SETS = {"a": Flags(5), "b": Flags(5), "n": Int(0, 4)}
SET_STATES = st.fixed_dictionaries(
    {"a": st.frozensets(st.integers(0, 4)), "b": st.frozensets(st.integers(0, 4)), "n": st.integers(0, 4)}
)


@given(st.lists(SET_STATES, min_size=1, max_size=5))
def test_sets_work_as_python_sets_do(states: list[dict[str, Any]]) -> None:
    work = [
        (lambda s: s.a | s.b, lambda v: v["a"] | v["b"]),
        (lambda s: s.a & s.b, lambda v: v["a"] & v["b"]),
        (lambda s: s.a - s.b, lambda v: v["a"] - v["b"]),
        (lambda s: s.a - {0, 4}, lambda v: v["a"] - {0, 4}),
        (lambda s: s.a | {2}, lambda v: v["a"] | {2}),
        (lambda s: s.a.plus(s.n), lambda v: v["a"] | {v["n"]}),
        (lambda s: s.a.minus(s.n), lambda v: v["a"] - {v["n"]}),
        (lambda s: s.a.plus(3).minus(1), lambda v: (v["a"] | {3}) - {1}),
        (lambda s: s.a.has(s.n), lambda v: v["n"] in v["a"]),
        (lambda s: s.a.has(2), lambda v: 2 in v["a"]),
        (lambda s: s.a.size(), lambda v: len(v["a"])),
        (lambda s: s.a.is_empty(), lambda v: not v["a"]),
        (lambda s: s.a == s.b, lambda v: v["a"] == v["b"]),
        (lambda s: s.a != {1, 2}, lambda v: v["a"] != {1, 2}),
        (lambda s: s.a.within(s.b), lambda v: v["a"] <= v["b"]),
    ]
    for column, plain in work:
        assert evaluate(SETS, states, column) == [plain(state) for state in states]


SEQUENCES = {
    "q": Seq(4, Enum(*ENUM)),
    "other": Seq(3, Enum(*ENUM)),
    "rows": Each(2, Seq(4, Int(3, 9))),
    "i": Int(0, 1),
}


def sequences(item: st.SearchStrategy[Any], capacity: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(item, max_size=capacity).map(tuple)


SEQUENCE_STATES = st.fixed_dictionaries(
    {
        "q": sequences(st.sampled_from(ENUM), 4),
        "other": sequences(st.sampled_from(ENUM), 3),
        "rows": st.tuples(sequences(st.integers(3, 9), 4), sequences(st.integers(3, 9), 4)),
        "i": st.integers(0, 1),
    }
)


def change(states: list[dict[str, Any]], function: Any) -> dict[int, dict[str, Any]]:
    model = Model(machine(change=action(function), **SEQUENCES))
    label = next(label for label in model.labels if label.action == "change")
    found = model.successors(np.concatenate([model.pack(state) for state in states], axis=1), label)
    return {int(row): model.unpack(found.states[:, i]) for i, row in enumerate(found.origin)}


@given(st.lists(SEQUENCE_STATES, min_size=1, max_size=5))
def test_sequences_grow_and_shrink_as_python_lists_do(states: list[dict[str, Any]]) -> None:
    def append(s: Any) -> None:
        s.require(~s.q.is_full(), ~s.rows[s.i].is_full())
        s.q.append("south")
        s.rows[s.i].append(5)

    def pop(s: Any) -> None:
        s.require(~s.q.is_empty(), s.rows[s.i].length > 0)
        s.rows[1 - s.i] = ()
        taken = s.rows[s.i].pop_first()
        first = s.q.pop_first()
        s.require(first == "south")
        s.rows[s.i] = (9,)
        s.rows[s.i].append(taken)

    def copy(s: Any) -> None:
        s.q = s.other
        s.rows[0].clear()

    appended, popped, copied = (change(states, work) for work in (append, pop, copy))
    for number, s in enumerate(states):
        row = s["rows"][s["i"]]
        assert (number in appended) is (len(s["q"]) < 4 and len(row) < 4)
        if number in appended:
            assert appended[number]["q"] == (*s["q"], "south")
            assert appended[number]["rows"][s["i"]] == (*row, 5)
        assert (number in popped) is (len(row) > 0 and s["q"][:1] == ("south",))
        if number in popped:
            assert popped[number]["q"] == s["q"][1:]
            assert popped[number]["rows"] == put(((), ()), s["i"], (9, row[0]))
        assert copied[number]["q"] == s["other"]
        assert copied[number]["rows"] == ((), s["rows"][1])


@given(st.lists(SEQUENCE_STATES, min_size=1, max_size=5))
def test_equal_sequences_are_packed_alike_however_they_came_about(states: list[dict[str, Any]]) -> None:
    """A leftover in an unused place would make two states of one, and every count would be incorrect."""

    def pop(s: Any) -> None:
        s.require(~s.q.is_empty(), ~s.rows[s.i].is_empty())
        s.q.pop_first()
        s.rows[s.i].pop_first()

    model = Model(machine(pop=action(pop), **SEQUENCES))
    label = next(label for label in model.labels if label.action == "pop")
    found = model.successors(np.concatenate([model.pack(state) for state in states], axis=1), label)
    for row in range(found.states.shape[1]):
        afresh = model.pack(model.unpack(found.states[:, row]))
        assert found.states[:, row].tolist() == afresh[:, 0].tolist()


@given(st.lists(SEQUENCE_STATES, min_size=1, max_size=5))
def test_queries_of_sequences_agree_with_python_lists(states: list[dict[str, Any]]) -> None:
    queries = [
        (lambda s: s.q.length, lambda v: len(v["q"])),
        (lambda s: s.q.has("east"), lambda v: "east" in v["q"]),
        (lambda s: s.rows[s.i].has(3), lambda v: 3 in v["rows"][v["i"]]),
        (lambda s: s.q == ("east", "north"), lambda v: v["q"] == ("east", "north")),
        (lambda s: s.q == s.other, lambda v: v["q"] == v["other"]),
        (lambda s: s.rows[0] != s.rows[1], lambda v: v["rows"][0] != v["rows"][1]),
        (lambda s: s.q.first, lambda v: v["q"][0] if v["q"] else "north"),
        (lambda s: s.rows[s.i].last, lambda v: v["rows"][v["i"]][-1] if v["rows"][v["i"]] else 3),
        (lambda s: s.q[2], lambda v: v["q"][2] if len(v["q"]) > 2 else "north"),
        (lambda s: s.q == ("east",) * 5, lambda v: False),
    ]
    for column, plain in queries:
        assert evaluate(SEQUENCES, states, column) == [plain(state) for state in states]


@given(states=st.lists(NUMBER_STATES, min_size=1, max_size=8))
def test_a_column_read_early_keeps_its_values_and_follows_the_rows(states: list[dict[str, Any]]) -> None:
    """A value read before a guard or a write is the value of that moment, for the rows that are left."""

    def work(s: Any) -> None:
        before, flag, total = s.b, s.f, s.a + s.b
        s.b = 0
        s.require(s.g)
        later = s.b
        s.b = 7
        s.require(total > 2)
        s.f = ~flag
        s.g = flag & (later == 0)
        s.b = before

    made = machine(work=action(work), **NUMBERS)
    model = Model(made)
    label = next(label for label in model.labels if label.action == "work")
    found = model.successors(np.concatenate([model.pack(state) for state in states], axis=1), label)
    kept = [i for i, state in enumerate(states) if state["g"] and state["a"] + state["b"] > 2]
    assert found.origin.tolist() == kept
    for row, i in enumerate(kept):
        f = states[i]["f"]
        assert model.unpack(found.states[:, row]) == {**states[i], "f": not f, "g": f}


def test_fields_begin_at_their_first_value_or_at_start() -> None:
    class Begins(Machine):
        flag = Bool()
        low = Int(-3, 3)
        zero = Int(-3, 3, start=0)
        colour = Enum("red", "green")
        other = Enum("red", "green", start="green")
        some = Flags("r", "w", start={"w"})
        queue = Seq(2, Bool())
        each = Each(2, Int(1, 5, start=4))

        @action
        def stay(s) -> None: ...

    model = Model(Begins)
    assert model.unpack(model.initial()[:, 0]) == {
        "flag": False,
        "low": -3,
        "zero": 0,
        "colour": "red",
        "other": "green",
        "some": {"w"},
        "queue": (),
        "each": (4, 4),
    }


# Arrays over names.


class Stock(Machine):
    """Items by the name of their shelf."""

    shelf = Each(("upper", "lower"), Int(0, 2))
    twice = Each(2, Each(("upper", "lower"), Bool()))

    @action(name=("upper", "lower"))
    def put(s, name: str) -> None:
        s.require(s.shelf[name] < 2)
        s.shelf[name] += 1
        s.twice[1][name] = True


class Misplaced(Stock):
    @action
    def put_by_number(s) -> None:
        s.shelf[0] = 1


def test_an_array_over_names_is_indexed_by_them() -> None:
    model = Model(Stock)
    upper, lower = model.labels
    after = model.successors(model.successors(model.initial(), lower).states, lower).states
    assert model.unpack(after[:, 0]) == {"shelf": (0, 2), "twice": ((False, False), (False, True))}
    assert model.successors(after, lower).states.shape[1] == 0
    assert model.successors(after, upper).states.shape[1] == 1


def test_an_array_over_names_has_no_numbers() -> None:
    model = Model(Misplaced)
    with pytest.raises(ModellingMistake, match="`shelf` is indexed by upper, lower, not by 0"):
        model.successors(model.initial(), model.labels[-1])
