"""The shortest way to avoid a goal forever: a stem, and then a loop or a state where the run may stay.

A run may stay forever in a state that enables no demand (nothing at all, where the machine ends). A run that
avoids the goal and changes the state forever stays, from some point on, in one strongly connected component
of the avoiding graph. Weak fairness makes the rest easy: a component has a fair run if and only if every
demand is met somewhere inside it, by a state that enables none of its labels or by a transition that takes
one. Then a loop through the whole component meets them all. A part of a component meets no more than the
whole, so each maximal component is examined once.

Strong fairness: a run that stays in a component where a strong demand is enabled somewhere and taken nowhere
must leave the states that enable it. Without them the component falls apart, and its parts are examined
again. In the rest each strong demand is enabled nowhere, or can be taken.

Of many runs, one with the fewest steps is reported, stem and loop together. Loops of small components are
searched exactly. Where that would take too long, a loop is put together from shortest paths, from one demand
to the next. It is fair, and may be longer than necessary. So may a loop with strong demands, because it takes
each that is enabled anywhere in its component.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fencepost.model.kernel.language.fairness import Demand
from fencepost.model.kernel.language.layout import I64, Mask
from fencepost.model.kernel.language.model import Label
from fencepost.model.kernel.temporal.avoiding import Avoiding
from fencepost.model.kernel.temporal.digraph import Digraph, components, distances, reverse, subgraph, walk

_CHUNK = 1 << 15
_EXACT_STATES = 2_000
"""A component with more states than this gets a loop made of shortest paths."""

_EXACT_TOTAL = 200_000
"""Steps of exact searching for one property."""

_COMPONENTS = 200
"""Components that are searched for a short loop, those nearest to a start first."""


_EACH = 20_000
"""Pairs of a state and the demands met so far that one search may visit."""

Move = tuple[int, int, Label]
"""From a node to a node by a label."""


@dataclass
class Loops:
    """The moves inside a small component, and for each node the demands that it meets by not enabling them.

    Sets of demands are bits of a number. `spent` counts the work.
    """

    moves: Mapping[int, Sequence[Move]]
    idle: Mapping[int, int]
    demands: tuple[Demand, ...]
    spent: int = 0
    _met_by: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for bit, demand in enumerate(self.demands):
            for label in demand.labels:
                self._met_by[label] = self._met_by.get(label, 0) | 1 << bit

    def through(self, node: int, below: int | None) -> list[Move] | None:
        """The shortest fair loop from `node` with fewer than `below` moves, if it is found."""
        everything = (1 << len(self.demands)) - 1
        begin = (node, self.idle[node])
        came: dict[tuple[int, int], tuple[tuple[int, int], Move]] = {}
        waiting = deque([(begin, 0)])
        while waiting:
            pair, steps = waiting.popleft()
            if below is not None and steps + 1 >= below:
                return None
            for move in self.moves[pair[0]]:
                met = pair[1] | self._met_by.get(move[2].number, 0) | self.idle[move[1]]
                reached = (move[1], met)
                if reached in came:
                    continue
                came[reached] = (pair, move)
                if reached == (node, everything):
                    return _followed(came, reached, steps + 1)
                waiting.append((reached, steps + 1))
                self.spent += 1
            if len(came) > _EACH:
                return None
        return None


def _followed(
    came: Mapping[tuple[int, int], tuple[tuple[int, int], Move]], end: tuple[int, int], steps: int
) -> list[Move]:
    moves: list[Move] = []
    for _ in range(steps):
        end, move = came[end]
        moves.append(move)
    return moves[::-1]


@dataclass(frozen=True)
class Run:
    """Nodes of the avoiding graph and the labels between them; the end goes back before step `loop`."""

    nodes: tuple[int, ...]
    labels: tuple[Label, ...]
    loop: int | None

    def __len__(self) -> int:
        return len(self.labels)


def shortest_run(
    avoiding: Avoiding, begin: I64, demands: tuple[Demand, ...], before: I64 | None = None
) -> Run | None:
    """A short fair run from `begin` that never reaches the goal; None only when there is none at all.

    `before` are the steps that lead to each node of `begin`: the run is short together with them.
    """
    region = _Region(avoiding, begin, np.zeros(len(begin), np.int64) if before is None else before)
    best = region.resting(demands)
    left = _EXACT_TOTAL
    for members in _fair_components(region, demands):
        search = _Component(region, members, demands)
        best = search.shorter_than(best, left)
        left -= search.spent
    return best


class _Region:
    """The nodes that runs from a start can reach without the goal, numbered anew from 0."""

    def __init__(self, avoiding: Avoiding, begin: I64, before: I64) -> None:
        self.avoiding = avoiding
        reached = distances(avoiding.forward, begin, before)
        self.graph, self.old = subgraph(avoiding.forward, reached >= 0)
        self.depth = reached.take(self.old)
        self._new = np.full(len(avoiding), -1, np.int64)
        self._new[self.old] = np.arange(len(self.old))
        self._begins = np.zeros(len(self.old), np.bool_)
        at_begin = self._new.take(begin)
        self._begins[at_begin.compress(self.depth.take(at_begin) == before)] = True
        self.component = components(self.graph)

    @cached_property
    def backward(self) -> Digraph:
        return reverse(self.graph)

    def resting(self, demands: tuple[Demand, ...]) -> Run | None:
        """The shortest run to a state where no demand is enabled: there it may stay forever."""
        nodes = np.arange(self.graph.nodes)
        for demand in demands:
            nodes = nodes.compress(~self.demanded(demand, nodes)[0])
        return self.run(int(nodes[self.depth.take(nodes).argmin()]), []) if len(nodes) else None

    def inner(self, nodes: I64, labels: tuple[Label, ...]) -> Iterator[tuple[Label, I64, I64, I64]]:
        """For each label: the places that enable it; those that stay in their component, and where."""
        for label, places, after, inside in self.avoiding.expand(self.old.take(nodes), labels):
            after = self._new.take(after)
            here = nodes.take(places)
            stays = inside & (self.component.take(after) == self.component.take(here))
            yield label, places, places.compress(stays), after.compress(stays)

    def demanded(self, demand: Demand, nodes: I64) -> tuple[Mask, Mask]:
        """Which nodes enable a label of the demand, and which of them can take one inside their component."""
        enabled, taken = np.zeros(len(nodes), np.bool_), np.zeros(len(nodes), np.bool_)
        labels = tuple(self.avoiding.model.labels[number] for number in demand.labels)
        for start in range(0, len(nodes), _CHUNK):
            for _, places, staying, _ in self.inner(nodes[start : start + _CHUNK], labels):
                enabled[places + start] = True
                taken[staying + start] = True
        return enabled, taken

    def run(self, node: int, loop: list[Move]) -> Run:
        """The shortest stem to a node, and a loop from there."""
        path = self._stem(node)
        nodes = path + [after for _, after, _ in loop]
        return Run(
            tuple(int(self.old[each]) for each in nodes),
            (*(label for _, _, label in self.moves(path)), *(label for _, _, label in loop)),
            len(path) if loop else None,
        )

    def split(self, nodes: I64) -> None:
        """Components anew, of these nodes without all others."""
        kept = np.zeros(self.graph.nodes, np.bool_)
        kept[nodes] = True
        graph, old = subgraph(self.graph, kept)
        self.component = np.arange(self.graph.nodes)
        self.component[old] = old.take(components(graph))

    def _stem(self, node: int) -> list[int]:
        """A shortest path to a node."""
        path = [node]
        while not self._begins[path[-1]]:
            earlier = self.backward.successors(np.array(path[-1:], np.int64))
            path.append(int(earlier.compress(self.depth.take(earlier) == self.depth[path[-1]] - 1)[0]))
        return path[::-1]

    def moves(self, path: list[int]) -> list[Move]:
        """A path with, for each of its edges, the first label that leads along it."""
        before, after = np.array(path[:-1], np.int64), np.array(path[1:], np.int64)
        every = self.avoiding.model.labels
        first = np.full(len(before), -1)
        for label, places, reached, inside in self.avoiding.expand(self.old.take(before), every):
            along = places.compress(inside & (self._new.take(reached) == after.take(places)))
            first[along[first[along] < 0]] = label.number
        return [(a, b, every[n]) for a, b, n in zip(path[:-1], path[1:], first.tolist(), strict=True)]

    def only(self, node: int) -> Mask:
        mask = np.zeros(self.graph.nodes, np.bool_)
        mask[node] = True
        return mask


def _fair_components(region: _Region, demands: tuple[Demand, ...]) -> Iterator[I64]:
    """The members of each component that has a fair run, the components nearest to a start first."""
    nodes = _fair_members(region, demands)
    component = region.component
    nodes = nodes.take(np.lexsort((region.depth.take(nodes), component.take(nodes))))
    _, first = np.unique(component.take(nodes), return_index=True)
    ends = np.append(first[1:], len(nodes))
    for place in np.argsort(region.depth.take(nodes.take(first)), kind="stable")[:_COMPONENTS]:
        yield nodes[first[place] : ends[place]]


def _fair_members(region: _Region, demands: tuple[Demand, ...]) -> I64:
    """The nodes of all components that have a fair run; `region.component` is split where that takes it."""
    nodes = np.arange(region.graph.nodes)
    while True:
        component = region.component
        size = np.bincount(component, minlength=region.graph.nodes)
        nodes = nodes.compress(size.take(component.take(nodes)) > 1)
        left = nodes
        for demand in demands:
            enabled, taken = region.demanded(demand, left)
            met = np.zeros(region.graph.nodes, np.bool_)
            if demand.strong:
                met[component.take(left.compress(taken))] = True
                left = left.compress(~enabled | met.take(component.take(left)))
            else:
                met[component.take(left.compress(~enabled | taken))] = True
                left = left.compress(met.take(component.take(left)))
        if len(left) == len(nodes) or not any(demand.strong for demand in demands):
            return left
        nodes = left
        region.split(nodes)


class _Component:
    """One component with a fair run; its members are ordered by their distance from the start."""

    def __init__(self, region: _Region, members: I64, demands: tuple[Demand, ...]) -> None:
        self._region = region
        self._members = members
        self._demands = demands
        self.spent = 0

    def shorter_than(self, best: Run | None, left: int) -> Run | None:
        """The best run so far, or a shorter one with a loop among these members."""
        depth = self._region.depth
        if best is not None and int(depth[self._members[0]]) + 1 >= len(best):
            return best
        small = self._loops() if len(self._members) <= _EXACT_STATES else None
        for node in self._members.tolist():
            stem = int(depth[node])
            if best is not None and (small is None or stem + 1 >= len(best) or self.spent > left):
                break
            loop = small.through(node, None if best is None else len(best) - stem) if small else None
            self.spent = small.spent if small else 0
            if loop is None and best is None:
                loop = self._patched(node)
            if loop is not None and (best is None or stem + len(loop) < len(best)):
                best = self._region.run(node, loop)
        return best

    def _loops(self) -> Loops:
        members = self._members
        moves: dict[int, list[Move]] = {node: [] for node in members.tolist()}
        for label, _, places, targets in self._region.inner(members, self._region.avoiding.model.labels):
            for source, target in zip(members.take(places).tolist(), targets.tolist(), strict=True):
                moves[source].append((source, target, label))
        idle = dict.fromkeys(moves, 0)
        for bit, demand in enumerate(self._demands):
            enabled, _ = self._region.demanded(demand, members)
            if demand.strong and enabled.any():
                continue
            for node in members.compress(~enabled).tolist():
                idle[node] |= 1 << bit
        return Loops(moves, idle, self._demands)

    def _patched(self, begin: int) -> list[Move]:
        """A fair loop through `begin`: a shortest path to each demand that is not met yet, and back."""
        path: list[Move] = []
        at = begin
        for demand in self._demands:
            passed = np.array([begin, *(after for _, after, _ in path)], np.int64)
            enabled, taken = self._region.demanded(demand, self._members)
            if demand.strong:
                if not enabled.any():
                    continue
                enabled = np.ones(len(enabled), np.bool_)
            elif not self._region.demanded(demand, passed)[0].all():
                continue
            path += self._walk(at, self._members.compress(~enabled | taken))
            at = path[-1][1] if path else begin
            if enabled[self._members == at][0]:
                path.append(
                    self._move(at, tuple(self._region.avoiding.model.labels[n] for n in demand.labels))
                )
                at = path[-1][1]
        if not path:
            path.append(self._move(begin, self._region.avoiding.model.labels))
            at = path[-1][1]
        return path + self._walk(at, np.array([begin]))

    def _walk(self, begin: int, wanted: I64) -> list[Move]:
        region = self._region
        goal, within = np.zeros((2, region.graph.nodes), np.bool_)
        goal[wanted] = True
        within[self._members] = True
        path = walk(region.graph, region.backward, np.array([begin]), goal, within)
        return region.moves(path)

    def _move(self, node: int, labels: tuple[Label, ...]) -> Move:
        """A move from a node inside the component by the first of some labels that allows one."""
        for label, _, _, after in self._region.inner(np.array([node]), labels):
            if len(after):
                return node, int(after[0]), label
        raise AssertionError("a component goes on from each of its nodes")
