"""Which of a model's transitions runs of real code took, out of all transitions within a bound.

Theory. A run, read as symbols, goes from set to set (see `automaton`). Which way it took through the states
of those sets is unknown where something hidden may have happened. So a transition (state, label, state)
counts as *driven* when some run may have taken it: when it lies on a way through the sets from the start to
the run's end. Ways that the rest of the run rules out do not count; a backward pass from the end finds them.
This counts too many transitions rather than too few: what is listed as never driven never was.

Where runs are too many to be taken up one by one (`spread`), the ways out of each set are those of all runs
that went through it together: a little more is counted, and never less.

The denominator is exact: every transition between reachable states of the bounded model. A run that leaves
the bound (a third plan, a second crash) counts up to there.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from fencepost.model import Label, Model
from fencepost.model.kernel.report.counterexample import chain, counterexample_of
from fencepost.model.kernel.search.explore import Explorer, Search
from fencepost.properties.driven_share import Gap, Share
from fencepost.properties.refinement.automaton import OUTSIDE, START, Automaton, Space
from fencepost.properties.refinement.observation import Observation

Edge = tuple[int, int, int]
"""State, label, state, by number."""


class Driven:
    """The transitions that runs drove. The map must be into the model itself: nothing eager, nothing
    forgotten.
    """

    def __init__(self, automaton: Automaton) -> None:
        refinement = automaton.refinement
        assert not refinement.eager, "each state must be one of the model's"
        assert not refinement.forgets, "each state must be one of the model's"
        self.automaton = automaton
        self.edges: set[Edge] = set()
        self.runs = self.beyond = 0
        self._inside: dict[int, list[Edge]] = {}
        self._across: dict[tuple[int, int], list[Edge]] = {}
        self._back: dict[tuple[int, int, frozenset[int]], frozenset[int]] = {}

    def drive(self, word: Iterable[Observation]) -> None:
        self.runs += 1
        sets, symbols = [START], []
        for observation in word:
            symbol = self.automaton.symbol(observation)
            after = self.automaton.step(sets[-1], symbol)
            if after <= OUTSIDE:
                self.beyond += 1
                break
            sets.append(after)
            symbols.append(symbol)
        alive = frozenset(self.automaton.members(sets[-1]))
        self._mark_inside(sets[-1], alive)
        for number, symbol in zip(reversed(sets[:-1]), reversed(symbols), strict=True):
            alive = self._before(number, symbol, alive)

    def spread(self, taken: Iterable[tuple[int, int]], ends: Iterable[int]) -> None:
        """Take up all runs that read these symbols in these sets, and ended in one of those sets."""
        before: dict[int, list[tuple[int, int]]] = {}
        for number, symbol in taken:
            after = self.automaton.step(number, symbol)
            if after > OUTSIDE:
                before.setdefault(after, []).append((number, symbol))
        alive: dict[int, frozenset[int]] = {}
        waiting: list[int] = []
        for number in ends:
            alive[number] = frozenset(self.automaton.members(number))
            self._mark_inside(number, alive[number])
            waiting.append(number)
        while waiting:
            after = waiting.pop()
            for number, symbol in before.get(after, ()):
                known = alive.get(number, frozenset())
                grown = known | self._before(number, symbol, alive[after])
                if len(grown) > len(known):
                    alive[number] = grown
                    waiting.append(number)

    def _before(self, number: int, symbol: int, after: frozenset[int]) -> frozenset[int]:
        """The states of a set from which `symbol` leads to one of `after`; on the way, marks what does."""
        key = (number, symbol, after)
        if key not in self._back:
            across = (number, symbol)
            if across not in self._across:
                self._across[across] = list(self.automaton.steps(number, symbol))
            steps = [edge for edge in self._across[across] if edge[2] in after]
            self.edges.update(step for step in steps if step[1] >= 0)
            alive = {state for state, _, _ in steps}
            inside = self._within(number)
            grown = True
            while grown:
                found = {edge[0] for edge in inside if edge[2] in alive} - alive
                alive |= found
                grown = bool(found)
            self._back[key] = frozenset(alive)
            self._mark_inside(number, self._back[key])
        return self._back[key]

    def _mark_inside(self, number: int, alive: frozenset[int]) -> None:
        inside = (edge for edge in self._within(number) if edge[1] >= 0)
        self.edges.update(edge for edge in inside if edge[0] in alive and edge[2] in alive)

    def _within(self, number: int) -> list[Edge]:
        """The hidden transitions inside a set."""
        if number not in self._inside:
            self._inside[number] = list(self.automaton.inside(number))
        return self._inside[number]

    def _transitions(self) -> Counter[int]:
        """Count the transitions that were driven, by label. The model's states have no pending requests."""
        automaton = self.automaton
        if not automaton.slots:
            return Counter(label for _, label, _ in self.edges)
        numbers = np.array(sorted({end for one, _, other in self.edges for end in (one, other)}), np.int64)
        own = Space(automaton.model.words)
        bare = own.numbers(automaton.space.rows(numbers)[: automaton.model.words])
        called = dict(zip(numbers.tolist(), bare, strict=True))
        distinct = {(called[one], label, called[other]) for one, label, other in self.edges}
        return Counter(label for _, label, _ in distinct)

    def share(self) -> Share:
        """The share of the whole model, which this explores."""
        model = self.automaton.model
        search = Explorer(model, properties=(), deadlocks=False).run()
        by_label = self._transitions()
        actions: dict[str, tuple[int, int]] = {}
        for label in model.labels:
            driven, all_ = actions.get(label.action, (0, 0))
            actions[label.action] = (driven + by_label[label.number], all_ + search.fired[label.number])
        never = [label for label in model.labels if search.fired[label.number] and not by_label[label.number]]
        transitions, driven = sum(search.fired), by_label.total()
        return Share(
            model.name,
            transitions,
            driven,
            round(driven / transitions, 6) if transitions else 0.0,
            dict(model.sizes),
            search.distinct,
            self.runs,
            self.beyond,
            {name: {"driven": one, "transitions": all_} for name, (one, all_) in actions.items() if all_},
            tuple(
                Gap(str(label), search.fired[label.number], shortest(model, search, label)) for label in never
            ),
        )


def shortest(model: Model, search: Search, label: Label) -> tuple[str, ...]:
    """The steps of the model's shortest way to a label."""
    for depth, level in enumerate(search.levels):
        after = model.successors(level, label)
        if len(after.origin):
            state = tuple(int(word) for word in level[:, int(after.origin[0])])
            end = tuple(int(word) for word in after.states[:, 0])
            steps = [*chain(model, search.levels, depth, state), (state, label)]
            return tuple(
                f"{step.action}({', '.join(f'{name}={value}' for name, value in step.parameters.items())})"
                for step in counterexample_of(model, steps, end).steps
            )
    return ()
