"""Verdicts of a random machine, from its second reading: a breadth-first search over dictionaries.

What must happen in the end is decided by a textbook search for fair cycles: a strongly connected component in
which every weak demand is met or not always enabled, without the states that enable an unmet strong demand.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

import networkx as nx

from tests.trust.oracles.machine_generator import Act, Claim, Demand, MachineSpec, Parameter
from tests.trust.oracles.machine_language import Env, Many, NotEnabled
from tests.trust.oracles.request_oracle import TooMany

State = tuple[Any, ...]


class Label(NamedTuple):
    """An action with values for its parameters; of a parameter over items, the place of the item."""

    act: Act
    given: tuple[tuple[str, Any], ...]


class Verdict(NamedTuple):
    verdict: str
    length: int | None
    """Steps of the shortest counterexample or example, where there is one."""


class MachineOracle:
    """All reachable states, steps and verdicts."""

    def __init__(self, spec: MachineSpec, most: int) -> None:
        self.spec = spec
        self.names = list(spec.fields)
        self.labels = list(self._labels())
        self.starts = self._starts()
        self.depth: dict[State, int] = {}
        self.cut: dict[State, int] = {}
        """States beyond the bound."""
        self.steps: dict[State, list[tuple[int, State]]] = {}
        self._search(most)

    def _labels(self) -> Iterator[Label]:
        for act in self.spec.acts:
            domains = [self._domain(act, one) for one in act.parameters]
            names = [one.name for one in act.parameters]
            for values in product(*domains):
                yield Label(act, tuple(zip(names, values, strict=True)))

    def _domain(self, act: Act, one: Parameter) -> Iterable[Any]:
        if not one.items_of:
            return one.values
        kind = self.spec.fields[one.items_of]
        assert isinstance(kind, Many)
        if kind.kind == "Set":
            return kind.item.values
        return range(1 if kind.kind == "ordered" and not act.fault else kind.capacity)

    def env(self, state: State, given: dict[str, Any] | None = None) -> Env:
        return Env({"s": dict(zip(self.names, state, strict=True))}, given or {})

    def _frozen(self, env: Env) -> State:
        return tuple(env.states["s"][name] for name in self.names)

    def _starts(self) -> list[State]:
        first = tuple(kind.first for kind in self.spec.fields.values())
        found: dict[State, None] = {}
        for statements in self.spec.starts or [()]:
            env = self.env(first)
            try:
                for one in statements:
                    one.run(env)
            except NotEnabled:
                continue
            found[self._frozen(env)] = None
        return list(found)

    def after(self, state: State, label: Label) -> State | None:
        env = self.env(state, dict(label.given))
        for one in label.act.parameters:
            if one.items_of and not self._takes_item(env, one, label.act):
                return None
        if label.act.fault:
            self._fault(env, label)
            return self._frozen(env) if env.given else None
        try:
            for statement in label.act.statements:
                statement.run(env)
        except NotEnabled:
            return None
        return self._frozen(env)

    def _takes_item(self, env: Env, one: Parameter, act: Act) -> bool:
        """Set the parameter to the item at its place; False where there is none."""
        kind = self.spec.fields[one.items_of]
        assert isinstance(kind, Many)
        items = env.states["s"][one.items_of]
        if kind.kind == "Set":
            return env.given[one.name] in items
        if not kind.in_order:
            items = sorted(set(items), key=repr)
        place = env.given[one.name]
        if place >= len(items):
            return False
        if not act.fault or not kind.in_order:
            env.given[one.name] = items[place]
        return True

    def _fault(self, env: Env, label: Label) -> None:
        (one,) = label.act.parameters
        kind = self.spec.fields[one.items_of]
        assert isinstance(kind, Many)
        items = list(env.states["s"][one.items_of])
        message = env.given["m"]
        place = message if kind.in_order else items.index(message)
        if label.act.fault == "loses":
            del items[place]
        elif len(items) == kind.capacity:
            env.given.clear()
        else:
            items.insert(place, items[place])
        env.states["s"][one.items_of] = kind.of(items)

    def _search(self, most: int) -> None:
        bound = self.spec.bound
        waiting: deque[State] = deque()

        def meet(state: State, depth: int) -> None:
            if state in self.depth or state in self.cut:
                return
            if bound is None or bound.value(self.env(state)):
                self.depth[state] = depth
                waiting.append(state)
            else:
                self.cut[state] = depth

        for state in self.starts:
            meet(state, 0)
        while waiting:
            state = waiting.popleft()
            self.steps[state] = []
            for number, label in enumerate(self.labels):
                after = self.after(state, label)
                if after is not None:
                    self.steps[state].append((number, after))
                    meet(after, self.depth[state] + 1)
            if len(self.depth) > most:
                raise TooMany

    @property
    def generated(self) -> int:
        return len(self.starts) + sum(map(len, self.steps.values()))

    # Verdicts.

    def holds(self, claim: Claim, state: State, given: dict[str, Any]) -> bool:
        return bool(claim.test.value(self.env(state, given)))

    def holds_between(self, claim: Claim, before: State, after: State) -> bool:
        states = {
            "before": dict(zip(self.names, before, strict=True)),
            "after": dict(zip(self.names, after, strict=True)),
        }
        return all(claim.test.value(Env(states, given)) for given in choices(claim))

    def everywhere(self, claim: Claim, state: State) -> bool:
        return all(self.holds(claim, state, given) for given in choices(claim))

    def verdicts(self) -> dict[str, Verdict]:
        found = {claim.name: self._verdict(claim) for claim in self.spec.claims}
        over = self.spec.may_end
        stuck = [
            depth
            for state, depth in self.depth.items()
            if not self.steps[state] and not (over is not None and over.value(self.env(state)))
        ]
        return found | {"no-deadlock": _unless(stuck)}

    def _verdict(self, claim: Claim) -> Verdict:
        seen = {**self.cut, **self.depth}
        if claim.kind == "invariant":
            return _unless([depth for state, depth in seen.items() if not self.everywhere(claim, state)])
        if claim.kind == "reachable":
            met = [
                depth
                for state, depth in seen.items()
                if any(self.holds(claim, state, given) for given in choices(claim))
            ]
            if met:
                return Verdict("holds", min(met))
            return Verdict("undecided" if self.cut else "violated", None)
        if claim.kind == "step":
            return _unless(
                [
                    self.depth[before] + 1
                    for before, steps in self.steps.items()
                    for _, after in steps
                    if not self.holds_between(claim, before, after)
                ]
            )
        if self.cut:
            return Verdict("undecided", None)
        if claim.kind == "always_recoverable":
            graph = self._graph(set(self.depth))
            goal = {state for state in self.depth if self.holds(claim, state, {})}
            back = goal.union(*(nx.ancestors(graph, state) for state in goal))
            return _unless([depth for state, depth in self.depth.items() if state not in back])
        broken = any(self._is_avoided(claim, given) for given in choices(claim))
        return Verdict("violated" if broken else "holds", None)

    def _graph(self, states: set[State]) -> Any:
        graph = nx.DiGraph()
        graph.add_nodes_from(states)
        graph.add_edges_from(
            (before, after)
            for before in states
            for _, after in self.steps[before]
            if after != before and after in states
        )
        return graph

    def _is_avoided(self, claim: Claim, given: dict[str, Any]) -> bool:
        """Return True if a fair run avoids the goal for ever, from where it is due."""
        away = {state for state in self.depth if not self.holds(claim, state, given)}
        if claim.kind == "eventually":
            due = {state for state in self.starts if state in away}
        elif claim.kind == "infinitely_often":
            due = away
        else:
            assert claim.when is not None
            due = {state for state in away if claim.when.value(self.env(state, given))}
        graph = self._graph(away)
        reached = due.union(*(nx.descendants(graph, state) for state in due))
        return bool(reached & self._fair(away, self.groups(claim.weak), self.groups(claim.strong)))

    def groups(self, demands: Iterable[Demand]) -> list[set[int]]:
        """Return the labels of each demand: of an action alone, a set for each choice of its parameters."""
        found: list[set[int]] = []
        for demand in demands:
            groups: dict[Any, set[int]] = {}
            for number, label in enumerate(self.labels):
                if demand.names and label.act.name not in demand.names:
                    continue
                groups.setdefault(None if demand.together else self._group(label), set()).add(number)
            found += groups.values()
        return found

    def _group(self, label: Label) -> Any:
        """Return the choice that a label belongs to: which of the items at equal places is none."""
        fields = {one.name: one.items_of for one in label.act.parameters}
        return tuple(
            (name, value)
            for name, value in label.given
            if not fields[name] or getattr(self.spec.fields[fields[name]], "kind", "") == "Set"
        )

    def enabled(self, state: State) -> set[int]:
        """Return the labels that change this state."""
        return {number for number, after in self.steps[state] if after != state}

    def _fair(self, states: set[State], weak: list[set[int]], strong: list[set[int]]) -> set[State]:
        """Return the states from which some fair run stays inside `states`, at its end."""
        found: set[State] = set()
        waiting = [states]
        while waiting:
            inside = waiting.pop()
            for part in nx.strongly_connected_components(self._graph(inside)):
                taken = {
                    number
                    for before in part
                    for number, after in self.steps[before]
                    if after != before and after in part
                }
                enabled = [self.enabled(state) for state in part]
                if any(not group & taken and all(group & one for one in enabled) for group in weak):
                    continue
                unmet = [
                    group for group in strong if not group & taken and any(group & one for one in enabled)
                ]
                if not unmet:
                    found |= part
                    continue
                rest = {state for state in part if not any(group & self.enabled(state) for group in unmet)}
                if rest:
                    waiting.append(rest)
        return found


def choices(claim: Claim) -> list[dict[str, Any]]:
    names = [one.name for one in claim.parameters]
    return [
        dict(zip(names, chosen, strict=True)) for chosen in product(*(one.values for one in claim.parameters))
    ]


def _unless(depths: list[int]) -> Verdict:
    return Verdict("violated", min(depths)) if depths else Verdict("holds", None)
