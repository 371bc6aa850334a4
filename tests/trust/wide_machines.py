"""Random machines whose states span several words, each with two readings: the kernel's and a naive one.

A machine is an array of numbers, of which rules test and change a few; places at the ends of words are
frequent. The members of a symmetric machine own three numbers each, far apart in the state, and rules take
members as parameters. The naive reading is a dictionary of tuples and shares nothing with the kernel.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from hypothesis import strategies as st

from fencepost.model import (
    Each,
    Int,
    Machine,
    Size,
    Truth,
    action,
    all_of,
    always_recoverable,
    any_of,
    invariant,
    may_end,
    reachable,
    step,
)

NUMBERS = 4
CELLS = 160
"""Two bits each: five words of 32 cells."""

FREQUENT = (0, 15, 16, 31, 32, 47, 48, 63, 64, 95, 96, 127, 128, 159)
Test = tuple[int, int]
State = tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """Tests (the number at a place is a value), then changes (add a value to the number at a place)."""

    tests: tuple[Test, ...]
    changes: tuple[Test, ...]


@dataclass(frozen=True)
class Naive:
    """What a plain breadth-first search finds."""

    depth_of: dict[State, int]
    edges: list[tuple[State, State]]

    @property
    def stuck(self) -> set[State]:
        return set(self.depth_of) - {before for before, _ in self.edges}

    def recoverable(self, goal: Callable[[State], bool]) -> set[State]:
        back: dict[State, list[State]] = {}
        for before, after in self.edges:
            back.setdefault(after, []).append(before)
        found = {state for state in self.depth_of if goal(state)}
        waiting = list(found)
        while waiting:
            for before in back.get(waiting.pop(), []):
                if before not in found:
                    found.add(before)
                    waiting.append(before)
        return found


def searched(start: State, successors: Callable[[State], Iterator[State]], most: int = 1 << 20) -> Naive:
    depth_of, edges, waiting = {start: 0}, [], deque([start])
    while waiting and len(depth_of) <= most:
        state = waiting.popleft()
        for after in successors(state):
            edges.append((state, after))
            if after not in depth_of:
                depth_of[after] = depth_of[state] + 1
                waiting.append(after)
    return Naive(depth_of, edges)


@dataclass(frozen=True)
class Wide:
    """A machine as data: rules over the numbers at some places, and states that must not be."""

    places: tuple[int, ...]
    rules: tuple[Rule, ...]
    bad: tuple[Test, ...]

    def naive(self) -> Naive:
        return searched((0,) * len(self.places), self._successors)

    def is_bad(self, state: State) -> bool:
        return all(state[at] == value for at, value in self.bad)

    def is_bad_step(self, before: State, after: State) -> bool:
        at, value = self.bad[0]
        return before[at] > after[at] and before[at] == value

    def _successors(self, state: State) -> Iterator[State]:
        for rule in self.rules:
            if all(state[at] == value for at, value in rule.tests):
                after = list(state)
                for at, value in rule.changes:
                    after[at] = (after[at] + value) % NUMBERS
                yield tuple(after)

    def machine(self) -> type[Machine]:
        places, bad = self.places, self.bad
        (first, value), *_ = bad

        class WideMachine(Machine):
            cell = Each(CELLS, Int(0, NUMBERS - 1))

            @action(r=len(self.rules))
            def act(s, r: int) -> None:
                for at, value in self.rules[r].tests:
                    s.require(s.cell[places[at]] == value)
                for at, value in self.rules[r].changes:
                    s.cell[places[at]] = (s.cell[places[at]] + value) % NUMBERS

            @invariant
            def never(s) -> Truth:
                return ~all_of(s.cell[places[at]] == value for at, value in bad)

            @reachable
            def sometimes(s) -> Truth:
                return all_of(s.cell[places[at]] == value for at, value in bad)

            @step
            def never_from(before, after: "WideMachine") -> Truth:
                at = places[first]
                return ~((before.cell[at] > after.cell[at]) & (before.cell[at] == value))

            @always_recoverable
            def can_be(s) -> Truth:
                return all_of(s.cell[places[at]] == value for at, value in bad)

        return WideMachine

    def expected(self, naive: Naive) -> dict[str, tuple[str, int | None]]:
        """By property, the verdict and the length of its counterexample."""
        bad = [depth for state, depth in naive.depth_of.items() if self.is_bad(state)]
        back = naive.recoverable(self.is_bad)
        steps = [1 + naive.depth_of[b] for b, a in naive.edges if self.is_bad_step(b, a)]
        lost = [depth for state, depth in naive.depth_of.items() if state not in back]
        stuck = [naive.depth_of[state] for state in naive.stuck]
        found = {"never": bad, "never_from": steps, "can_be": lost, "no-deadlock": stuck}
        verdicts = {n: ("violated" if d else "holds", min(d, default=None)) for n, d in found.items()}
        return {**verdicts, "sometimes": ("holds" if bad else "violated", min(bad, default=None))}


@st.composite
def wide_machines(draw: st.DrawFn, most: int = 5) -> Wide:
    """A random machine of at most 4 ** most states."""
    anywhere = st.one_of(st.sampled_from(FREQUENT), st.integers(0, CELLS - 1))
    places = tuple(draw(st.lists(anywhere, min_size=2, max_size=most, unique=True)))
    at = st.integers(0, len(places) - 1)
    rules = st.builds(
        Rule,
        st.lists(st.tuples(at, st.integers(0, NUMBERS - 1)), max_size=2).map(tuple),
        st.lists(st.tuples(at, st.integers(1, NUMBERS - 1)), min_size=1, max_size=2).map(tuple),
    )
    bad = st.lists(st.tuples(at, st.integers(1, NUMBERS - 1)), min_size=1, max_size=2).map(tuple)
    return Wide(places, tuple(draw(st.lists(rules, min_size=1, max_size=6))), draw(bad))


MEMBERS = 3
MOST = 1_000
"""States of a symmetric machine; a larger one is not compared."""


@dataclass(frozen=True)
class Alike:
    """A machine of interchangeable members, each with a number at three places of the state.

    Rules are over the places of two members m and k: 0 to 2 are m's, 3 to 5 are k's. The rule `favour` is for
    m = 0 alone, which makes the claim of symmetry false.
    """

    rules: tuple[Rule, ...]
    bad: tuple[Test, ...]
    favour: Rule | None = None

    def naive(self) -> Naive:
        return searched((0,) * (3 * MEMBERS), self._successors, MOST)

    def _successors(self, state: State) -> Iterator[State]:
        for rule in (*self.rules, *([self.favour] if self.favour else [])):
            for m, k in product(range(MEMBERS), repeat=2):
                if rule is self.favour and m:
                    continue
                if all(state[self.at(m, k, at)] == value for at, value in rule.tests):
                    after = list(state)
                    for at, value in rule.changes:
                        place = self.at(m, k, at)
                        after[place] = (after[place] + value) % NUMBERS
                    yield tuple(after)

    @staticmethod
    def at(m: int, k: int, at: int) -> int:
        return 3 * (m if at < 3 else k) + at % 3

    def is_bad(self, state: State) -> bool:
        return any(
            all(state[self.at(m, k, at)] == value for at, value in self.bad)
            for m, k in product(range(MEMBERS), repeat=2)
        )

    def machine(self) -> type[Machine]:
        rules, bad, favour = self.rules, self.bad, self.favour

        def number(s: Any, m: int, k: int, at: int) -> Any:
            return (s.low, s.middle, s.high)[at % 3][m if at < 3 else k]

        def run(s: Any, rule: Rule, m: int, k: int) -> None:
            for at, value in rule.tests:
                s.require(number(s, m, k, at) == value)
            for at, value in rule.changes:
                field = (s.low, s.middle, s.high)[at % 3]
                field[m if at < 3 else k] = (number(s, m, k, at) + value) % NUMBERS

        class AlikeMachine(Machine):
            members = Size(MEMBERS)
            symmetric: ClassVar = ("members",)
            low = Each(members, Int(0, (1 << 30) - 1))
            middle = Each(members, Int(0, (1 << 30) - 1))
            high = Each(members, Int(0, (1 << 30) - 1))

            @action(r=len(rules), m=members, k=members)
            def act(s, r: int, m: int, k: int) -> None:
                run(s, rules[r], m, k)

            @action(k=members)
            def favour_first(s, k: int) -> None:
                s.require(favour is not None)
                run(s, favour or rules[0], 0, k)

            @invariant
            def never(s) -> Truth:
                return ~any_of(
                    all_of(number(s, m, k, at) == value for at, value in bad)
                    for m, k in product(range(MEMBERS), repeat=2)
                )

            @may_end
            def anywhere(s) -> Truth:
                return Truth.constant(True)

        return AlikeMachine


@st.composite
def alike_machines(draw: st.DrawFn, *, favour: bool = False) -> Alike:
    at = st.integers(0, 5)
    rules = st.builds(
        Rule,
        st.lists(st.tuples(at, st.integers(0, NUMBERS - 1)), min_size=1, max_size=2).map(tuple),
        st.lists(st.tuples(at, st.integers(1, NUMBERS - 1)), min_size=1, max_size=2).map(tuple),
    )
    bad = st.lists(st.tuples(at, st.integers(1, NUMBERS - 1)), min_size=1, max_size=3).map(tuple)
    return Alike(
        tuple(draw(st.lists(rules, min_size=1, max_size=3))), draw(bad), draw(rules) if favour else None
    )
