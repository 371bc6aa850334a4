"""Symmetry changes how much is explored and nothing else: every verdict, every counterexample's length,
every step.

If these fail, a reduction has hidden a violation or reported a counterexample that no machine can follow.
"""

import pkgutil
from collections import Counter
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fencepost.model
import fencepost.model.textbook
from fencepost.model import (
    BadSettings,
    Bool,
    Each,
    Enum,
    FieldOverflow,
    Flags,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Seq,
    Size,
    Truth,
    action,
    always_recoverable,
    any_of,
    check,
    count_of,
    eventually,
    initial,
    invariant,
    may_end,
    reachable,
    step,
    without,
)
from fencepost.model.kernel import Id, Reduced
from fencepost.model.textbook.philosophers import Philosophers
from fencepost.model.textbook.two_phase import TwoPhase
from tests.depth import examples
from tests.model.counterexamples import followed


def project_machines() -> list[type[Machine]]:
    """Every machine of the project that declares a symmetry."""
    found = []
    for package in (fencepost.model, fencepost.model.textbook):
        for module in pkgutil.iter_modules(package.__path__):
            if not module.ispkg:
                for value in vars(import_module(f"{package.__name__}.{module.name}")).values():
                    if isinstance(value, type) and issubclass(value, Machine) and value.symmetric:
                        found.append(value)
    return list(dict.fromkeys(found))


def compared(machine: type[Machine], sizes: dict[str, int] | None = None, without: tuple[str, ...] = ()):
    """The machine checked without and with symmetry; what must agree is asserted here."""
    plain = check(machine, sizes, without=without, keep_going=True, workers=1)
    reduced = check(machine, sizes, without=without, keep_going=True, workers=1, symmetry=True)
    assert reduced.distinct <= plain.distinct
    assert reduced.depth == plain.depth
    assert reduced.verdict == plain.verdict
    assert reduced.never_fired == plain.never_fired
    for one, other in zip(plain.properties, reduced.properties, strict=True):
        assert (one.name, one.verdict, one.reason) == (other.name, other.verdict, other.reason)
        assert (one.counterexample is None) == (other.counterexample is None)
        if other.counterexample is not None:
            assert len(other.counterexample) == len(one.counterexample)
            followed(Model(machine, sizes, without=without), other)
    return plain, reduced


QUICK_SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "Cursor": ({"troubles": 0},),
    "IngestNotified": ({"ticks": 3, "crashes": 0, "lost": 0},),
    "IngestReading": ({"readers": 1}, {"owners": 1}),
    "Lifecycle": ({"writes": 1, "edits": 0},),
    "LifecycleMerged": ({"writes": 1, "edits": 0},),
    "LifecycleNotified": ({"crashes": 0},),
    "Objects": ({"writers": 2, "crashes": 0},),
    "Streams": ({"epochs": 1, "lives": 1, "troubles": 0},),
}
"""Of machines with many states at their default sizes, which the slow test explores."""


@pytest.mark.parametrize("machine", project_machines())
def test_every_machine_of_the_project_keeps_its_verdicts(machine) -> None:
    """As it is, and with the first of its switches off."""
    for sizes in QUICK_SIZES.get(machine.__name__, ({},)):
        compared(machine, sizes)
        for name in [*machine.safeguards, *machine.assumptions][:1]:
            compared(machine, sizes, without=(name,))


@pytest.mark.slow
@pytest.mark.parametrize("machine", project_machines())
def test_every_machine_of_the_project_keeps_its_verdicts_without_each_switch(machine) -> None:
    compared(machine)
    for name in (*machine.safeguards, *machine.assumptions):
        try:
            compared(machine, without=(name,))
        except FieldOverflow:
            # Behind its violation a machine may leave its fields; then it does so with symmetry too.
            with pytest.raises(FieldOverflow):
                check(machine, without=(name,), keep_going=True, symmetry=True)


@pytest.mark.parametrize(
    ("managers", "explored", "stood_for"), [(3, 80, 288), (5, 314, 8_832), (7, 920, 296_448)]
)
def test_the_represented_states_are_counted_exactly(managers, explored, stood_for) -> None:
    result = check(TwoPhase, {"managers": managers}, symmetry=True)
    assert result.distinct == explored
    assert result.notes[0] == (
        f"symmetry of managers: {explored:,} states stand for {stood_for:,}, "
        f"{stood_for / explored:.1f} times as many"
    )
    assert check(TwoPhase, {"managers": 3}).notes == ()


class Office(Machine):
    """Clerks with a stamp that one of them holds, a line of those who wait, and who trusts whom."""

    clerks = Size(3, most=5)
    symmetric: ClassVar = ("clerks",)
    safeguards: ClassVar = {"in-line": "the stamp goes to the first in the line"}

    holder = Id(clerks, nobody=True)
    line = Seq(clerks, Id(clerks))
    done = Flags(clerks)
    mood = Each(clerks, Enum("calm", "waiting", "busy"))
    mentor = Each(clerks, Id(clerks, nobody=True))
    trusts = Each(clerks, Each(clerks, Bool()))
    trusted_by = Each(clerks, Flags(clerks))
    letters = Each(clerks, Seq(2, Id(clerks)))

    @action(c=clerks)
    def queue(s, c: int) -> None:
        s.require((s.mood[c] == "calm") & ~s.done.has(c))
        s.line.append(c)
        s.mood[c] = "waiting"

    def is_next(s, c: int) -> Truth:
        return s.line.first == c

    @without("in-line", replaces=is_next)
    def is_any(s, c: int) -> bool:
        return True

    @action(c=clerks)
    def take(s, c: int) -> None:
        s.require((s.holder == -1) & (s.mood[c] == "waiting"), s.is_next(c))
        s.holder = s.line.pop_first()
        s.mood[c] = "busy"

    @action(c=clerks, d=clerks)
    def learn(s, c: int, d: int) -> None:
        s.require((s.holder == c) & (s.mood[d] == "waiting") & (s.mentor[d] == -1))
        s.mentor[d] = c
        s.trusts[d][c] = True
        s.letters[c] = (d,)
        s.trusted_by[c] = s.trusted_by[c].plus(d)

    @action(c=clerks)
    def leave(s, c: int) -> None:
        s.require((s.holder == c) & (s.mood[c] == "busy"))
        s.holder = -1
        s.mood[c] = "calm"
        s.done = s.done.plus(c)

    @invariant
    def the_holder_is_busy(s) -> Truth:
        return s.holder.is_in(-1) | any_of((s.holder == c) & (s.mood[c] == "busy") for c in range(s.clerks))

    @invariant
    def not_all_have_mentors(s) -> Truth:
        return ~(count_of(mentor != -1 for mentor in s.mentor) == s.clerks - 1)

    @step
    def mentors_stay_calm(before, after: "Office") -> Truth:
        return ~any_of(
            (after.mentor[c] != -1) & (before.mood[c] == "waiting") & (after.mood[c] == "busy")
            for c in range(before.clerks)
        )

    @reachable
    def somebody_trusts(s) -> Truth:
        return any_of(
            s.trusts[c][d] & s.trusted_by[d].has(c) for c in range(s.clerks) for d in range(s.clerks)
        )

    @always_recoverable
    def all_done(s) -> Truth:
        return s.done.size() == s.clerks

    @eventually(fair=("queue", "take", "leave"))
    def all_done_in_the_end(s) -> Truth:
        return s.done.size() == s.clerks

    @may_end
    def over(s) -> Truth:
        return s.done.size() == s.clerks


@pytest.mark.parametrize("clerks", [1, 2, 3])
@pytest.mark.parametrize("without", [(), ("in-line",)])
def test_numbers_of_members_are_renamed_in_every_kind_of_field(clerks, without) -> None:
    plain, reduced = compared(Office, {"clerks": clerks}, without)
    if clerks == 3 and not without:
        assert plain["mentors_stay_calm"].verdict == "violated"
        assert plain["all_done"].verdict == "holds"
        assert plain.distinct > 3 * reduced.distinct
        assert reduced.notes[0].endswith("stand for up to 6 times as many")
        assert reduced.notes[2] == f"eventually is decided without symmetry, on {plain.distinct:,} states"


@given(st.integers(0, 10_000), st.permutations(range(4)))
@settings(max_examples=examples(30), deadline=None)
def test_renumbering_is_a_group_action_and_sorting_stays_in_the_orbit(seed, order) -> None:
    model = Reduced(Office, {"clerks": 4})
    (permuter,) = model.permuters
    draw = np.random.default_rng(seed)
    states = np.concatenate([model.pack(_office(draw, 4)) for _ in range(5)], axis=1)
    back = [order.index(member) for member in range(4)]
    moved = permuter.renumbered(states, order)
    assert (permuter.renumbered(moved, back) == states).all()
    for row in range(5):
        state = states[:, row : row + 1]
        assert (permuter.renumbered(state, permuter.order_of(state)) == permuter.sorted(state)).all()
        old, new = model.unpack(states[:, row]), model.unpack(moved[:, row])
        assert new["mood"] == tuple(old["mood"][order[c]] for c in range(4))
        assert new["done"] == {back[c] for c in old["done"]}
        assert new["line"] == tuple(back[c] for c in old["line"])
        assert new["holder"] == (-1 if old["holder"] == -1 else back[old["holder"]])
        assert new["mentor"] == tuple(_renamed(old["mentor"][order[c]], back) for c in range(4))
        assert new["letters"] == tuple(tuple(back[d] for d in old["letters"][order[c]]) for c in range(4))
        assert new["trusted_by"] == tuple({back[d] for d in old["trusted_by"][order[c]]} for c in range(4))
        assert new["trusts"] == tuple(
            tuple(old["trusts"][order[c]][order[d]] for d in range(4)) for c in range(4)
        )


def _renamed(number: int, back: list[int]) -> int:
    return number if number == -1 else back[number]


def _office(draw: np.random.Generator, clerks: int) -> dict[str, Any]:
    def some() -> set[int]:
        return {c for c in range(clerks) if draw.integers(2)}

    def each(make) -> tuple[Any, ...]:
        return tuple(make() for _ in range(clerks))

    return {
        "holder": int(draw.integers(-1, clerks)),
        "line": tuple(int(c) for c in draw.permutation(clerks)[: draw.integers(clerks + 1)]),
        "done": some(),
        "mood": each(lambda: str(draw.choice(["calm", "waiting", "busy"]))),
        "mentor": each(lambda: int(draw.integers(-1, clerks))),
        "trusts": each(lambda: each(lambda: bool(draw.integers(2)))),
        "trusted_by": each(some),
        "letters": each(lambda: tuple(draw.integers(clerks, size=draw.integers(3)).tolist())),
    }


# Random symmetric machines: everything that an action tests or writes is by its own parameters.

GUARDS = {
    "colour is red": lambda s, m, k: s.colour[m] == "red",
    "colour is not green": lambda s, m, k: s.colour[m] != "green",
    "count is 0": lambda s, m, k: s.count[m] == 0,
    "other's count is 0": lambda s, m, k: s.count[k] == 0,
    "owner is nobody": lambda s, m, k: s.owner == -1,
    "owner is me": lambda s, m, k: s.owner == m,
    "flagged": lambda s, m, k: s.flagged.has(m),
    "other not flagged": lambda s, m, k: ~s.flagged.has(k),
    "line is not full": lambda s, m, k: s.line.length < 2,
    "first in line": lambda s, m, k: ~s.line.is_empty() & (s.line.first == m),
    "follows other": lambda s, m, k: s.follows[m] == k,
    "shared": lambda s, m, k: s.shared == "up",
    "not oneself": lambda s, m, k: m != k,
}


def _append(s: Any, m: int, k: int) -> None:
    s.require(s.line.length < 2)
    s.line.append(k)


def _pop(s: Any, m: int, k: int) -> None:
    s.require(~s.line.is_empty())
    s.owner = s.line.pop_first()


def _set(name: str, value: Any):
    def write(s: Any, m: int, k: int) -> None:
        target = getattr(s, name)
        if name in ("colour", "count"):
            target[m] = value
        else:
            setattr(s, name, value)

    return write


def _assign(field: str, compute):
    return lambda s, m, k: setattr(s, field, compute(s, m, k))


def _assign_at(field: str, compute):
    return lambda s, m, k: getattr(s, field).__setitem__(m, compute(s, m, k))


WRITES = {
    "colour red": _set("colour", "red"),
    "colour green": _set("colour", "green"),
    "count up": _assign_at("count", lambda s, m, k: (s.count[m] + 1) % 3),
    "count of the other": _assign_at("count", lambda s, m, k: s.count[k]),
    "own": _assign("owner", lambda s, m, k: m),
    "other owns": _assign("owner", lambda s, m, k: k),
    "nobody owns": _set("owner", -1),
    "flag": _assign("flagged", lambda s, m, k: s.flagged.plus(m)),
    "unflag": _assign("flagged", lambda s, m, k: s.flagged.minus(k)),
    "append": _append,
    "pop": _pop,
    "follow": _assign_at("follows", lambda s, m, k: k),
    "follow the owner": _assign_at("follows", lambda s, m, k: s.owner),
    "shared up": _set("shared", "up"),
    "shared down": _set("shared", "down"),
}
GOALS = {
    "all green": lambda s: s.colour.all("green"),
    "two red": lambda s: s.colour.count("red") == 2,
    "owner flagged": lambda s: any_of((s.owner == m) & s.flagged.has(m) for m in range(s.members)),
    "everybody counted": lambda s: s.count.all(1),
    "line of two": lambda s: s.line.length == 2,
    "a pair follows": lambda s: any_of(
        (s.follows[m] == k) & (s.follows[k] == m) for m in range(s.members) for k in range(s.members)
    ),
}
acts = st.tuples(
    st.lists(st.sampled_from(sorted(GUARDS)), max_size=2, unique=True),
    st.lists(st.sampled_from(sorted(WRITES)), min_size=1, max_size=2, unique=True),
)


def random_symmetric(
    members: int, actions, goal: str, start: str, relation: bool, apart: bool
) -> type[Machine]:
    size = Size(members)
    text: dict[str, Any] = {
        "symmetric": ("members",),
        "members": size,
        "colour": Each(size, Enum("red", "green", start=start)),
        "count": Each(size, Int(0, 2)),
        "owner": Id(size, nobody=True),
        "flagged": Flags(size),
        "line": Seq(2, Id(size)),
        "shared": Enum("down", "up"),
        "follows": Each(size, Id(size, nobody=True)) if relation else Each(size, Enum("none", "some")),
        "wide": Int(0, (1 << 60) - 1, start=1 << 59),
    }

    if apart:

        def begin(s: Any, m: int, k: int) -> None:
            s.owner = m
            s.count[k] = 1

        text["begin"] = initial(m=size, k=size)(begin)

    def make(guards, writes):
        def run(s: Any, m: int, k: int) -> None:
            for name in guards:
                s.require(GUARDS[name](s, m, k))
            for name in writes:
                WRITES[name](s, m, k)

        return run

    for number, (guards, writes) in enumerate(actions):
        guards = [name for name in guards if relation or "follow" not in name]
        writes = [name for name in writes if relation or "follow" not in name] or ["own"]
        run = make(guards, writes)
        run.__name__ = f"act{number}"
        text[f"act{number}"] = action(m=size, k=size)(run)
    goal = goal if relation or "follow" not in goal else "all green"
    functions = {
        "never": (invariant, GOALS[goal]),
        "sometimes": (reachable, GOALS[goal]),
        "back": (always_recoverable, GOALS[goal]),
        "steady": (step, lambda before, after: ~((before.owner != after.owner) & (after.shared == "down"))),
        "end": (may_end, lambda s: s.shared == "up"),
    }
    functions["never"] = (invariant, lambda s: ~GOALS[goal](s))
    for name, (decorator, function) in functions.items():
        function = (lambda f: lambda *s: f(*s))(function)
        function.__name__ = name
        text[name] = decorator(function)
    return type("RandomSymmetric", (Machine,), text)


def test_random_symmetric_machines_keep_every_verdict() -> None:
    seen: Counter[str] = Counter()

    @settings(
        max_examples=examples(30),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.integers(2, 3),
        st.lists(acts, min_size=1, max_size=3),
        st.sampled_from(sorted(GOALS)),
        st.sampled_from(["red", "green"]),
        st.booleans(),
        st.booleans(),
    )
    def agree(members, actions, goal, start, relation, apart) -> None:
        machine = random_symmetric(members, actions, goal, start, relation, apart)
        if not check(machine, max_states=4_000, deadlock=False, keep_going=True).stopped_by:
            plain, reduced = compared(machine)
            for found in plain.properties:
                seen[f"{found.name} {found.verdict}"] += 1
            seen["reduced"] += reduced.distinct < plain.distinct
            seen["all"] += 1

    agree()
    assert seen["reduced"] > seen["all"] / 3
    for name in ("never", "sometimes", "back", "steady", "no-deadlock"):
        for verdict in ("holds", "violated"):
            assert seen[f"{name} {verdict}"] > seen["all"] / 20, (name, verdict, seen)


class Towers(Machine):
    """Members with more bits than a word each: their signatures are compared word by word."""

    members = Size(3, most=6)
    symmetric: ClassVar = ("members",)
    height = Each(members, Int(0, 1 << 40))
    width = Each(members, Int(0, 1 << 40))

    @action(m=members)
    def grow(s, m: int) -> None:
        s.require(s.height[m] == 0)
        s.height[m] = 1 << 40

    @action(m=members)
    def widen(s, m: int) -> None:
        s.require(s.width[m] < 2)
        s.width[m] = s.width[m] + 1

    @may_end
    def done(s) -> Truth:
        return s.height.all(1 << 40) & s.width.all(2)


def test_members_wider_than_a_word_are_distinguished_by_all_their_words() -> None:
    plain, reduced = compared(Towers)
    assert plain.distinct == 6**3
    assert reduced.distinct == 8 * 7 * 6 // 6  # multisets of 3 among 6
    assert "56 states stand for 216, 3.9 times" in reduced.notes[0]


@pytest.mark.parametrize("bits", [23, 24, 25])
def test_members_that_just_fill_a_word_keep_all_their_bits(bits: int) -> None:
    class Filled(Machine):
        members = Size(3)
        symmetric: ClassVar = ("members",)
        one = Each(members, Int(0, (1 << bits) - 1))
        other = Each(members, Int(0, (1 << 40) - 1))

        @action(m=members)
        def fill_one(s, m: int) -> None:
            s.one[m] = (1 << bits) - 1

        @action(m=members)
        def fill_other(s, m: int) -> None:
            s.other[m] = (1 << 40) - 1

    plain, reduced = compared(Filled)
    assert plain.distinct == 4**3
    assert reduced.distinct == 6 * 5 * 4 // 6  # multisets of 3 among 4


class Letters(Machine):
    """The start distinguishes all members, and the counterexample must go on from the same one."""

    members = Size(3)
    symmetric: ClassVar = ("members",)
    writer = Id(members)
    reader = Id(members)
    read = Each(members, Bool())

    @initial(w=members, r=members)
    def begin(s, w: int, r: int) -> None:
        s.require(w != r)
        s.writer = w
        s.reader = r

    @action(m=members)
    def read_on(s, m: int) -> None:
        s.require((s.reader == m) & ~s.read[m])
        s.read[m] = True
        s.reader = s.writer
        s.writer = m

    @invariant
    def not_both(s) -> Truth:
        return s.read.count(True) < 2


def test_a_counterexample_continues_from_its_own_start() -> None:
    _, reduced = compared(Letters)
    assert reduced["not_both"].verdict == "violated"


# What is not symmetric is refused.


class Mutex(Machine):
    """A lock with an owner; each variant below breaks the symmetry in one way."""

    processes = Size(3)
    symmetric: ClassVar = ("processes",)
    inside = Each(processes, Bool())
    owner = Int(-1, 2)

    @action(p=processes)
    def enter(s, p: int) -> None:
        s.require(s.owner == -1)
        s.owner = p
        s.inside[p] = True

    @action(p=processes)
    def leave(s, p: int) -> None:
        s.require(s.owner == p)
        s.owner = -1
        s.inside[p] = False


class Ambiguous(Mutex):
    owner = Int(0, Mutex.processes - 1)


class Renamed(Mutex):
    owner = Id(Mutex.processes, nobody=True)


class FirstIsSpecial(Renamed):
    @action
    def reset(s) -> None:
        s.require(s.inside[0])


class FirstIsWatched(Renamed):
    @invariant
    def never_first(s) -> Truth:
        return ~s.inside[0]


class FirstMayEnd(Renamed):
    @may_end
    def first(s) -> Truth:
        return s.inside[0]


class FirstStepWatched(Renamed):
    @step
    def first_never_moves(before, after: "FirstStepWatched") -> Truth:
        return ~after.inside[0]


class FirstStarts(Renamed):
    @initial
    def begin(s) -> None:
        s.inside[0] = True


class RoundTable(Philosophers):
    symmetric: ClassVar = ("seats",)


def test_only_an_id_is_renamed_with_its_member() -> None:
    assert check(Renamed, symmetry=True).distinct == 2
    with pytest.raises(ModellingMistake, match="not symmetric in processes: what may happen next"):
        check(Mutex, symmetry=True)
    with pytest.raises(
        ModellingMistake, match=r"`owner` ranges over 0..processes - 1.*declare it Id\(processes\)"
    ):
        check(Ambiguous, symmetry=True)


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        (FirstIsSpecial, "what may happen next"),
        (FirstIsWatched, "the verdict of `never_first`"),
        (FirstMayEnd, "whether it may end"),
        (FirstStepWatched, "what may happen next"),
        (FirstStarts, "whether it is a start"),
        (RoundTable, "what may happen next"),
    ],
)
def test_a_machine_that_distinguishes_its_members_is_an_error(machine, what) -> None:
    with pytest.raises(ModellingMistake, match=f"{machine.__name__} is not symmetric in .*: {what}"):
        check(machine, symmetry=True, keep_going=True)


def test_an_impossible_symmetry_is_an_error() -> None:
    with pytest.raises(BadSettings, match="philosophers declares no symmetry"):
        check(Philosophers, symmetry=True)
    with pytest.raises(ModellingMistake, match="'chairs', which is no size"):
        check(type("Chairs", (Philosophers,), {"symmetric": ("chairs",)}), symmetry=True)
    with pytest.raises(ModellingMistake, match="no field depends on it"):
        check(type("Idle", (Philosophers,), {"symmetric": ("idle",), "idle": Size(2)}), symmetry=True)
    with pytest.raises(ModellingMistake, match=r"must be a tuple: write \('seats',\)"):
        type("Text", (Philosophers,), {"symmetric": "seats"})
