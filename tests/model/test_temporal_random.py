"""Verdicts about whole runs against an independent reading, on random machines.

The independent reading shares nothing with the kernel: plain Python states, networkx components, and
fairness checked for every component label by label. If these fail, a protocol that can stall forever is
called live, or a live one is accused with a counterexample that nobody can walk.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import chain, combinations

import networkx as nx
from hypothesis import HealthCheck, given, settings

from fencepost.model import Model, Stepper, check
from tests.depth import DEEP, examples
from tests.model.random_machines import ANY, Naive, Spec, State, naive_search, specs, specs_of_runs

MACHINES = examples(120)
thorough = settings(max_examples=MACHINES, deadline=None, suppress_health_check=list(HealthCheck))
Edges = dict[State, list[tuple[str, State]]]


class Reading:
    """The naive reading of one machine: what avoids the goal, and which labels are demanded."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.naive: Naive = naive_search(spec)
        self.edges: Edges = {state: [] for state in self.naive.depth_of}
        for state, label, after in self.naive.edges:
            self.edges[state].append((label, after))
        # A step that changes nothing is no step of a run, and its label is not enabled.
        self.changing = {
            state: {label: after for label, after in found if after != state}
            for state, found in self.edges.items()
        }
        labels = {
            f"act{number}": [f"act{number}({k})" for k in (("k=0", "k=1") if act.with_parameter else ("",))]
            for number, act in enumerate(spec.actions)
        }
        self.demands = [frozenset([label]) for name in spec.fair if name != ANY for label in labels[name]] + [
            frozenset(label for own in labels.values() for label in own)
        ] * (ANY in spec.fair)

    def reaches(self, state: State) -> bool:
        return self.spec.goal.true(dict(state))

    def avoiding(self) -> nx.MultiDiGraph:
        """What can be reached from a start without ever meeting the goal."""
        graph = nx.MultiDiGraph()
        waiting = [state for state in self.spec.starts() if not self.reaches(state)]
        graph.add_nodes_from(waiting)
        while waiting:
            state = waiting.pop()
            for label, after in self.changing[state].items():
                if not self.reaches(after):
                    if after not in graph:
                        waiting.append(after)
                    graph.add_edge(state, after, label=label)
        return graph

    def fair_components(self, graph: nx.MultiDiGraph) -> list[set[State]]:
        return [part for part in nx.strongly_connected_components(graph) if self._fair(graph, part)]

    def _fair(self, graph: nx.MultiDiGraph, part: set[State]) -> bool:
        inside = graph.subgraph(part)
        taken = {label for _, _, label in inside.edges(data="label")}
        return inside.number_of_edges() > 0 and all(
            demand & taken or any(not demand & set(self.changing[state]) for state in part)
            for demand in self.demands
        )

    def shortest(self, graph: nx.MultiDiGraph) -> int | None:
        """The fewest steps of a run that misses the goal, from every state of every fair component."""
        if not graph:
            return None
        depth = nx.multi_source_dijkstra_path_length(graph, {s for s in self.spec.starts() if s in graph})
        lengths = [depth[state] for state in graph if self.may_stay(state)]
        for part in self.fair_components(graph):
            lengths += [depth[state] + self._loop(graph.subgraph(part), state) for state in part]
        return min(lengths, default=None)

    def may_stay(self, state: State) -> bool:
        return not any(demand & set(self.changing[state]) for demand in self.demands)

    def met(self, state: State, label: str | None) -> frozenset[frozenset[str]]:
        return frozenset(d for d in self.demands if not d & set(self.changing[state]) or label in d)

    def _loop(self, part: nx.MultiDiGraph, begin: State) -> int:
        waiting = deque([(begin, frozenset(), 0)])
        seen = set()
        while waiting:
            state, met, steps = waiting.popleft()
            if steps and state == begin and len(met) == len(set(self.demands)):
                return steps
            for _, after, label in part.out_edges(state, data="label"):
                reached = (after, met | self.met(state, label))
                if reached not in seen:
                    seen.add(reached)
                    waiting.append((*reached, steps + 1))
        raise AssertionError("a fair component has a fair loop through each of its states")


def walked(spec: Spec, counterexample) -> tuple[list[State], list[str]]:
    """The states and the labels of a counterexample, followed in the naive reading."""
    stepper = Stepper(Model(spec.machine()))
    states = [tuple(stepper.state(counterexample.start).values.items())]
    labels = []
    assert states[0] in spec.starts()
    for step in counterexample.steps:
        label = f"{step.action}({', '.join(f'{name}={value}' for name, value in step.parameters.items())})"
        after = dict(spec.successors(states[-1]))[label]
        assert {name.split("[")[0] for name in step.changes} == {
            name for (name, old), (_, new) in zip(states[-1], after, strict=True) if old != new
        }
        states.append(after)
        labels.append(label)
    return states, labels


def agree_on_eventually(reading: Reading, found, seen: Counter[str]) -> None:
    spec, graph = reading.spec, reading.avoiding()
    expected = reading.shortest(graph)
    assert found.verdict == ("holds" if expected is None else "violated")
    if expected is None:
        assert found.counterexample is None
        seen["holds" if nx.is_directed_acyclic_graph(graph) else "holds, though there are loops"] += 1
        return
    assert len(found.counterexample) == expected, "the counterexample is not the shortest"
    states, labels = walked(spec, found.counterexample)
    assert not any(reading.reaches(state) for state in states)
    if found.counterexample.loop is None:
        assert reading.may_stay(states[-1])
        ends = not reading.edges[states[-1]]
        assert (found.reason == "a run can end without it") is ends
        seen["ends" if ends else "stays"] += 1
        return
    back = found.counterexample.loop - 1
    assert states[back] == states[-1]
    assert back < len(labels)
    loop = zip(states[back:], labels[back:], strict=False)
    assert {demand for state, label in loop for demand in reading.met(state, label)} == set(reading.demands)
    assert found.reason == "a fair run goes on forever without it"
    seen["loops, fair to something" if reading.demands else "loops"] += 1


def agree_on_recoverable(reading: Reading, found, seen: Counter[str]) -> None:
    graph = nx.DiGraph((state, after) for state, _, after in reading.naive.edges)
    graph.add_nodes_from(reading.naive.depth_of)
    goals = [state for state in graph if reading.reaches(state)]
    recoverable = set(goals).union(*(nx.ancestors(graph, goal) for goal in goals))
    lost = [depth for state, depth in reading.naive.depth_of.items() if state not in recoverable]
    assert found.verdict == ("violated" if lost else "holds")
    seen[f"recoverable {found.verdict}"] += 1
    if lost:
        assert len(found.counterexample) == min(lost)
        states, _ = walked(reading.spec, found.counterexample)
        assert states[-1] not in recoverable


def test_verdicts_on_whole_runs_agree_with_networkx() -> None:
    """That each kind of answer is well represented is part of the test."""
    seen: Counter[str] = Counter()

    @thorough
    @given(specs())
    def agree(spec: Spec) -> None:
        reading = Reading(spec)
        result = check(spec.machine(), keep_going=True, workers=1)
        agree_on_eventually(reading, result["in_the_end"], seen)
        agree_on_recoverable(reading, result["recoverable"], seen)

    agree()
    total = seen["recoverable holds"] + seen["recoverable violated"]
    assert total >= MACHINES * 0.8
    assert min(seen["recoverable holds"], seen["recoverable violated"]) >= total / 5, seen
    assert seen["holds"] + seen["holds, though there are loops"] >= total / 5, seen
    assert seen["ends"] + seen["stays"] + seen["loops, fair to something"] >= total / 5, seen
    # A few hundred machines are too few for what is rare: test_temporal.py has examples.
    for kind in DEEP * ("holds, though there are loops", "loops, fair to something", "stays", "ends"):
        assert seen[kind] >= total / 150, seen


class FairReading:
    """Fair runs with strong demands, from their definition: for every set of strong demands that a run stops
    enabling, the components of what is left.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.reading = Reading(spec)
        labels = {label: frozenset([label]) for each in self.reading.changing.values() for label in each}
        every = frozenset(labels)
        self.weak = self.reading.demands
        self.strong = [
            demand
            for name in spec.strong
            for demand in (
                [every] if name == ANY else [d for n, d in labels.items() if n.startswith(f"{name}(")]
            )
        ]
        self.graph = nx.MultiDiGraph()
        missing = [state for state in self.reading.naive.depth_of if not self.reading.reaches(state)]
        self.graph.add_nodes_from(missing)
        for state in missing:
            for label, after in self.reading.changing[state].items():
                if after in self.graph:
                    self.graph.add_edge(state, after, label=label)
        self.fair_states = {state for state in missing if self.may_stay(state)}.union(*self._recurring())

    def may_stay(self, state: State) -> bool:
        return not any(demand & set(self.reading.changing[state]) for demand in [*self.weak, *self.strong])

    def _recurring(self) -> Iterator[set[State]]:
        sets = (combinations(self.strong, n) for n in range(len(self.strong) + 1))
        for left_alone in chain.from_iterable(sets):
            off = frozenset().union(*left_alone)
            kept = [state for state in self.graph if not off & set(self.reading.changing[state])]
            graph = self.graph.subgraph(kept)
            for part in nx.strongly_connected_components(graph):
                inside = graph.subgraph(part)
                taken = {label for _, _, label in inside.edges(data="label")}
                if taken and self._meets(part, taken, [d for d in self.strong if d not in left_alone]):
                    yield part

    def _meets(self, states: Iterable[State], taken: set[str], strong: Iterable[frozenset[str]]) -> bool:
        enabled = [set(self.reading.changing[state]) for state in states]
        return all(
            demand & taken or any(not demand & each for each in enabled) for demand in self.weak
        ) and all(demand & taken for demand in strong)

    def missed_from(self, begin: Iterable[State]) -> bool:
        """Whether a fair run from one of these states never reaches the goal."""
        inside = [state for state in begin if state in self.graph]
        reached = set(inside).union(*(nx.descendants(self.graph, state) for state in inside))
        return bool(reached & self.fair_states)

    def agree(self, found, begin: Iterable[State], seen: Counter[str], since: int) -> None:
        begin = list(begin)
        missed = self.missed_from(begin)
        assert found.verdict == ("violated" if missed else "holds"), found
        kind = f"{found.kind} {found.verdict}"
        seen[kind] += 1
        if not missed:
            return
        states, labels = walked(self.spec, found.counterexample)
        assert states[since] in begin
        assert not any(self.reading.reaches(state) for state in states[since:])
        if found.counterexample.loop is None:
            assert self.may_stay(states[-1])
            return
        back = found.counterexample.loop - 1
        assert since <= back < len(labels)
        assert states[back] == states[-1]
        enabled = frozenset().union(*(self.reading.changing[state] for state in states[back:]))
        strong = [demand for demand in self.strong if demand & enabled]
        assert self._meets(states[back:], set(labels[back:]), strong)
        seen[f"{kind} by a loop"] += 1


def test_verdicts_with_strong_fairness_agree_with_the_definition() -> None:
    seen: Counter[str] = Counter()

    @thorough
    @given(specs_of_runs())
    def agree(spec: Spec) -> None:
        reading = FairReading(spec)
        result = check(spec.machine_of_runs(), keep_going=True, workers=1)
        reachable = [*reading.reading.naive.depth_of]
        reading.agree(result["in_the_end"], spec.starts(), seen, 0)
        again = result["again"]
        missing = [state for state in reachable if not reading.reading.reaches(state)]
        reading.agree(again, missing, seen, _since(again, reading))
        caused = [state for state in missing if spec.cause.true(dict(state))]
        follows = result["follows"]
        step = re.search("in step ([0-9]+)", follows.reason)
        reading.agree(follows, caused, seen, int(step[1]) if step else 0)

    agree()
    for kind in DEEP * ("eventually", "infinitely_often", "leads_to"):
        total = seen[f"{kind} holds"] + seen[f"{kind} violated"]
        assert min(seen[f"{kind} holds"], seen[f"{kind} violated by a loop"]) >= total / 100, seen


def _since(found, reading: FairReading) -> int:
    """The step from which the goal is missed to the end."""
    if found.counterexample is None:
        return 0
    states, _ = walked(reading.spec, found.counterexample)
    back = len(states) - 1 if found.counterexample.loop is None else found.counterexample.loop - 1
    while back and not reading.reading.reaches(states[back - 1]):
        back -= 1
    return back
