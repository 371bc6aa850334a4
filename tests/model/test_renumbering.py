"""Renumbering renames a member wherever a state names it: in every kind of field, and in every part of it.

If this fails, symmetry takes two states for one that differ in more than numbers, or misses that they do not:
a state is lost, and "holds" is not true.
"""

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model import Bag, Bool, Channel, Each, Flags, Id, Int, Machine, Record, Seq, Set, Size, action
from fencepost.model.kernel.search.symmetry import Reduced
from tests.depth import examples

MEMBERS = 3
ALL = frozenset(range(MEMBERS))


class Everywhere(Machine):
    """A machine that names its members in every kind of field."""

    members = Size(MEMBERS)
    symmetric: ClassVar = ("members",)

    perhaps = Id(members, nobody=True)
    some = Flags(members)
    number = Int(0, 9)
    record = Record(who=Id(members, nobody=True), heard=Bool())
    line = Seq(2, Id(members))
    letters = Seq(2, Record(who=Id(members, nobody=True), copies=Flags(members)))
    heap = Bag(2, Id(members))
    messages = Bag(2, Record(who=Id(members), heard=Bool(), copies=Flags(members)))
    pairs = Bag(2, Record(one=Id(members), other=Id(members, nobody=True)))
    names = Set(Id(members, nobody=True))
    votes = Set(Record(who=Id(members), heard=Bool()))
    ordered = Channel(2, Record(who=Id(members), heard=Bool()), reordering=False)
    loose = Channel(2, Record(who=Id(members), heard=Bool()), reordering=True)
    own = Each(members, Int(0, 4))
    follows = Each(members, Id(members, nobody=True))
    knows = Each(members, Flags(members))
    boxes = Each(members, Bag(2, Record(who=Id(members), heard=Bool())))
    marks = Each(members, Set(Id(members)))
    rows = Each(members, Seq(2, Id(members)))
    flags = Each(members, Set(Int(0, 2)))

    @action
    def nothing(s) -> None:
        s.number = 0


MEMBER = st.integers(0, MEMBERS - 1)
PERHAPS = st.integers(-1, MEMBERS - 1)
SOME = st.frozensets(MEMBER)
HEARD = st.fixed_dictionaries({"who": MEMBER, "heard": st.booleans()})


def few(item: Any) -> Any:
    return st.lists(item, max_size=2).map(tuple)


def each(item: Any) -> Any:
    return st.tuples(*[item] * MEMBERS)


NAMES = {"who", "one", "other"}
"""Parts of records that name a member."""

STATES = {
    "perhaps": PERHAPS,
    "some": SOME,
    "number": st.integers(0, 9),
    "record": st.fixed_dictionaries({"who": PERHAPS, "heard": st.booleans()}),
    "line": few(MEMBER),
    "letters": few(st.fixed_dictionaries({"who": PERHAPS, "copies": SOME})),
    "heap": few(MEMBER),
    "messages": few(st.fixed_dictionaries({"who": MEMBER, "heard": st.booleans(), "copies": SOME})),
    "pairs": few(st.fixed_dictionaries({"one": MEMBER, "other": PERHAPS})),
    "names": st.frozensets(PERHAPS),
    "votes": few(HEARD),
    "ordered": few(HEARD),
    "loose": few(HEARD),
    "own": each(st.integers(0, 4)),
    "follows": each(PERHAPS),
    "knows": each(SOME),
    "boxes": each(few(HEARD)),
    "marks": each(SOME),
    "rows": each(few(MEMBER)),
    "flags": each(st.frozensets(st.integers(0, 2))),
}
QUANTITIES = {"number", "own", "flags"}
BY_MEMBER = {"own", "follows", "knows", "boxes", "marks", "rows", "flags"}
UNORDERED = {"heap", "messages", "pairs", "names", "votes", "loose", "boxes", "marks", "flags"}


def renamed(value: Any, new: dict[int, int]) -> Any:
    """Return a value with every member in it renamed; a part of a record is one if `NAMES` has it."""
    if isinstance(value, dict):
        return {
            part: renamed(inside, new) if part in NAMES or isinstance(inside, frozenset) else inside
            for part, inside in value.items()
        }
    if isinstance(value, tuple | frozenset):
        return type(value)([renamed(inside, new) for inside in value])
    return value if value == -1 else new[value]


def plain(name: str, value: Any) -> Any:
    """Return a value in a form that can be compared: without the order of what has none."""

    def sorted_out(value: Any) -> Any:
        if hasattr(value, "items"):
            return tuple(sorted((part, sorted_out(inside)) for part, inside in value.items()))
        if isinstance(value, set | frozenset):
            return tuple(sorted(value))
        return int(value)

    def one(value: Any) -> Any:
        found = [sorted_out(inside) for inside in value]
        if name in ("votes", "names", "marks", "flags"):
            found = list(set(found))
        return tuple(sorted(found)) if name in UNORDERED else tuple(found)

    if name in ("perhaps", "number", "record", "some"):
        return sorted_out(value)
    return tuple(map(one, value)) if name in ("boxes", "marks", "rows", "flags") else one(value)


def renumbered(state: dict[str, Any], order: tuple[int, ...]) -> dict[str, Any]:
    """Return the state with member `order[i]` renamed to `i`, computed field by field."""
    new = {old: number for number, old in enumerate(order)}
    found = {}
    for name, value in state.items():
        renamed_value = value if name in QUANTITIES else renamed(value, new)
        found[name] = tuple(renamed_value[old] for old in order) if name in BY_MEMBER else renamed_value
    return found


@settings(max_examples=examples(40, 1_000), deadline=None)
@given(st.fixed_dictionaries(STATES), st.permutations(range(MEMBERS)))
def test_a_member_is_renamed_wherever_a_state_names_it(state: dict[str, Any], order: list[int]) -> None:
    model = Reduced(Everywhere)
    (permuter,) = model.permuters
    packed = model.pack(state)
    moved = permuter.renumbered(packed, order)
    expected = renumbered(state, tuple(order))
    values = model.unpack(moved[:, 0])
    for name in STATES:
        assert plain(name, values[name]) == plain(name, expected[name]), name
    assert (moved == model.pack(expected)).all(), "equal states have equal words"


@settings(max_examples=examples(20, 500), deadline=None)
@given(st.fixed_dictionaries(STATES))
def test_a_representative_is_a_renumbering_of_the_state(state: dict[str, Any]) -> None:
    model = Reduced(Everywhere)
    (permuter,) = model.permuters
    packed = model.pack(state)
    order = tuple(permuter.order_of(packed))
    found = model.unpack(permuter.sorted(packed)[:, 0])
    expected = renumbered(state, order)
    for name in STATES:
        assert plain(name, found[name]) == plain(name, expected[name]), name


@pytest.mark.parametrize("name", sorted(set(STATES) - QUANTITIES))
def test_the_expectation_renames_every_field(name: str) -> None:
    """A check of the checker: some state of each field is changed by a renumbering."""
    draw = np.random.default_rng(1)

    def some() -> Any:
        values = {"who": int(draw.integers(MEMBERS)), "one": int(draw.integers(MEMBERS)), "other": 0}
        return values | {"heard": True, "copies": frozenset({int(draw.integers(MEMBERS))})}

    def value() -> Any:
        if name == "perhaps":
            return int(draw.integers(MEMBERS))
        if name in ("some", "names"):
            return frozenset({int(draw.integers(MEMBERS))})
        if name == "record":
            return some()
        if name in ("line", "heap"):
            return (int(draw.integers(MEMBERS)),)
        if name in ("follows", "knows", "marks", "rows", "boxes"):
            inside = {"follows": 1, "knows": frozenset({1}), "marks": frozenset({1}), "rows": (1,)}
            return (inside.get(name, (some(),)),) * MEMBERS
        return (some(),)

    found = [value() for _ in range(10)]
    moved = [renumbered({name: one}, (1, 2, 0))[name] for one in found]
    assert [plain(name, one) for one in found] != [plain(name, one) for one in moved]
