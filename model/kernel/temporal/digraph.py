"""Directed graphs of millions of nodes as columns: closures, distances, trimming, components.

Nodes are 0..n-1. The successors of node v are `targets[starts[v]:starts[v + 1]]`, without parallel edges and
without edges from a node to itself, which no algorithm here needs. It costs 8 bytes a node and 4 bytes an
edge; the reversed graph costs the same again. Algorithms advance by whole frontiers: a round costs some
microseconds plus its edges, so a deep, narrow graph pays for its depth and a broad one for its edges.

Strongly connected components are found in four exact steps, each leaving less to the next:

    trim      a node without successors (or predecessors) is a component of its own; peel these off
              until nothing changes. State graphs of protocols mostly vanish here.
    pivot     what the node of the highest degree reaches and is reached from is one component. Where one
    giant
              component holds most of the graph, this finds it in two closures.
    colour    every node takes the largest number that reaches it; a node that keeps its own number
              is in one component with those of its colour that reach it. Many components at once.
    Tarjan    the rest, when the steps above no longer pay: one node at a time, in time linear in its edges.

Colouring numbers the nodes by a fixed shuffle, so that chains in the order of exploration are not slow.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fencepost.model.kernel.language.layout import I64, U64, Mask

U32 = NDArray[np.uint32]

MOST_NODES = 1 << 32
"""Nodes are numbered by 32 bits."""

_EDGES = 1 << 19
"""Edges handled at a time where a whole-graph operation needs scratch memory."""

_LOW = np.uint64((1 << 32) - 1)


@dataclass(frozen=True)
class Digraph:
    """A graph by its successors."""

    starts: I64
    targets: U32

    @property
    def nodes(self) -> int:
        return len(self.starts) - 1

    @property
    def edges(self) -> int:
        return len(self.targets)

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.targets.nbytes

    def degrees(self) -> I64:
        return np.diff(self.starts)

    def successors(self, nodes: I64) -> U32:
        """The successors of some nodes, one after the other, with repetitions."""
        first = self.starts.take(nodes)
        counts = self.starts.take(nodes + 1) - first
        ends = np.cumsum(counts)
        if not len(ends) or not ends[-1]:
            return np.empty(0, np.uint32)
        places = np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)
        found: U32 = self.targets.take(places)
        return found

    def pieces(self) -> Iterator[tuple[I64, U32]]:
        """All edges, some millions at a time: the sources and the targets."""
        low = 0
        while low < self.nodes:
            most = np.searchsorted(self.starts, self.starts[low] + _EDGES, side="right") - 1
            high = min(self.nodes, max(low + 1, int(most)))
            sources = np.repeat(np.arange(low, high), np.diff(self.starts[low : high + 1]))
            yield sources, self.targets[self.starts[low] : self.starts[high]]
            low = high


def pairs(sources: I64, targets: I64) -> U64:
    """Edges as single numbers, sorted by source and then by target, each once."""
    edges = sources.astype(np.uint64)
    edges <<= np.uint64(32)
    edges |= targets.view(np.uint64)
    edges.sort()
    return edges.compress(np.concatenate([[True], edges[1:] != edges[:-1]])) if len(edges) else edges


def from_pairs(nodes: int, parts: list[U64]) -> Digraph:
    """The graph of edges made by `pairs`; each part's sources lie after those of the part before.

    Empties the list of the caller, so that each part is freed when its edges have been stored.
    """
    degrees = np.zeros(nodes, np.int64)
    targets = np.empty(sum(map(len, parts)), np.uint32)
    parts.reverse()
    stored = 0
    while parts:
        part = parts.pop()
        np.bitwise_and(part, _LOW, out=targets[stored : stored + len(part)], casting="unsafe")
        stored += len(part)
        part >>= np.uint64(32)
        if len(part):
            first = int(part[0])
            counts = np.bincount((part - np.uint64(first)).view(np.int64))
            degrees[first : first + len(counts)] += counts
    return Digraph(_starts(degrees), targets)


def reverse(graph: Digraph) -> Digraph:
    """The same edges the other way round."""
    degrees = np.zeros(graph.nodes, np.int64)
    for _, targets in graph.pieces():
        degrees += np.bincount(targets, minlength=graph.nodes)
    starts = _starts(degrees)
    free = starts[:-1].copy()
    reversed_targets = np.empty(graph.edges, np.uint32)
    for sources, targets in graph.pieces():
        turned = pairs(targets.astype(np.int64), sources)
        nodes, first, counts = np.unique(turned >> np.uint64(32), return_index=True, return_counts=True)
        places = np.repeat(free[nodes.view(np.int64)] - first, counts) + np.arange(len(turned))
        reversed_targets[places] = (turned & _LOW).astype(np.uint32)
        free[nodes.view(np.int64)] += counts
    return Digraph(starts, reversed_targets)


def subgraph(graph: Digraph, kept: Mask) -> tuple[Digraph, I64]:
    """The graph between the kept nodes, renumbered in order; and for each new node its old number."""
    if kept.all():
        return graph, np.arange(graph.nodes)
    old = np.flatnonzero(kept)
    new = (np.cumsum(kept) - 1).astype(np.uint32)
    degrees = np.zeros(len(old), np.int64)
    parts = [np.empty(0, np.uint32)]
    for sources, targets in graph.pieces():
        inside = kept[sources] & kept[targets]
        degrees += np.bincount(new[sources[inside]], minlength=len(old))
        parts.append(new[targets[inside]])
    return Digraph(_starts(degrees), np.concatenate(parts)), old


def distances(graph: Digraph, begin: I64, before: I64 | None = None) -> NDArray[np.int32]:
    """The fewest edges to each node through any node of `begin`, which has `before` (or no) edges already.

    -1 where there is no path.
    """
    found = np.full(graph.nodes, -1, np.int32)
    before = np.zeros(len(begin), np.int64) if before is None else before
    order = np.argsort(before, kind="stable")
    begin, before = begin.take(order), before.take(order)
    begun = depth = 0
    frontier = np.empty(0, np.int64)
    while len(frontier) or begun < len(begin):
        here = int(np.searchsorted(before, depth, "right"))
        fresh = begin[begun:here]
        frontier = once(np.concatenate([frontier, fresh.compress(found.take(fresh) < 0)]))
        begun = here
        found[frontier] = depth
        depth += 1
        after = graph.successors(frontier)
        frontier = once(after.compress(found.take(after) < 0))
    return found


def once(nodes: U32 | I64) -> I64:
    """Sorted, and each once. Sorts in place: several times faster than `np.unique`, which hashes."""
    nodes.sort()
    if not len(nodes):
        return np.empty(0, np.int64)
    return nodes.compress(np.concatenate([[True], nodes[1:] != nodes[:-1]])).astype(np.int64)


def closure(graph: Digraph, begin: I64, within: Mask) -> Mask:
    """The nodes that `begin` reaches without leaving `within`."""
    seen = np.zeros(graph.nodes, np.bool_)
    frontier = begin
    while len(frontier):
        seen[frontier] = True
        after = graph.successors(frontier)
        frontier = once(after.compress(within.take(after) & ~seen.take(after)))
    return seen


def walk(graph: Digraph, backward: Digraph, begin: I64, wanted: Mask, within: Mask) -> list[int]:
    """A shortest path inside `within` from a node of `begin` to a wanted node, both included; [] if none."""
    depth = np.full(graph.nodes, -1, np.int32)
    frontier = once(begin.copy())
    steps = 0
    while len(frontier):
        depth[frontier] = steps
        hits = frontier.compress(wanted.take(frontier))
        if len(hits):
            return _back(backward, depth, int(hits[0]))
        steps += 1
        after = graph.successors(frontier)
        new = within.take(after) & (depth.take(after) < 0)
        frontier = once(after.compress(new))
    return []


def _back(backward: Digraph, depth: NDArray[np.int32], node: int) -> list[int]:
    path = [node]
    for steps in range(int(depth[node]) - 1, -1, -1):
        before = backward.successors(np.array(path[-1:], np.int64))
        path.append(int(before.compress(depth.take(before) == steps)[0]))
    return path[::-1]


def trimmed(graph: Digraph, backward: Digraph) -> Mask:
    """The nodes that can lie between cycles: the rest after peeling off dead ends, and then sources.

    The successors of a dead end are dead ends, so no node that stays had an edge from it; and a source that
    is peeled takes no successor from a node that stays. One pass in each direction is therefore enough.
    """
    alive = np.ones(graph.nodes, np.bool_)
    for ahead, behind in ((graph, backward), (backward, graph)):
        degree = ahead.degrees()
        peeled = np.flatnonzero(alive & (degree == 0))
        while len(peeled):
            alive[peeled] = False
            touched = behind.successors(peeled)
            nodes, counts = np.unique(touched.compress(alive.take(touched)), return_counts=True)
            degree[nodes] -= counts
            peeled = nodes.compress(degree.take(nodes) == 0).astype(np.int64)
    return alive


def _starts(degrees: I64) -> I64:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])


SMALL = 1 << 17
"""Edges below which Tarjan's algorithm is as fast as whole columns."""

_PIVOT_SHARE = 8
"""Continue with pivots while each finds at least one node in this many."""

_ROUNDS = 3000
"""Rounds of one colouring after which the graph is a long chain, and Tarjan is faster."""


def components(graph: Digraph, small: int = SMALL) -> I64:
    """For each node the number of the node that represents its component."""
    found = np.arange(graph.nodes)
    numbers = found.copy()
    share = 1.0
    while True:
        graph, kept = subgraph(graph, trimmed(graph, reverse(graph)))
        numbers = numbers[kept]
        part = None
        if graph.edges > small:
            backward = reverse(graph)
            if share * _PIVOT_SHARE >= 1:
                part = _around_pivot(graph, backward)
                share = float((part >= 0).mean())
            else:
                part = _coloured(graph, backward)
        if part is None:
            part = _tarjan(graph)
        settled = part >= 0
        found[numbers[settled]] = numbers[part[settled]]
        if settled.all():
            return found
        graph, kept = subgraph(graph, ~settled)
        numbers = numbers[kept]


def _around_pivot(graph: Digraph, backward: Digraph) -> I64:
    pivot = np.array([int((graph.degrees() * backward.degrees()).argmax())])
    ahead = closure(graph, pivot, np.ones(graph.nodes, np.bool_))
    both = closure(backward, pivot, ahead)
    return np.where(both, pivot[0], -1)


def _coloured(graph: Digraph, backward: Digraph) -> I64 | None:
    own = _shuffled(graph.nodes)
    colour = own.copy()
    changed = np.arange(graph.nodes)
    for _ in range(_ROUNDS):
        if not len(changed):
            break
        after = graph.successors(changed).astype(np.int64)
        offered = np.repeat(colour[changed], graph.degrees()[changed])
        better = offered > colour[after]
        after, offered = after[better], offered[better]
        np.maximum.at(colour, after, offered)
        changed = once(after)
    else:
        return None
    return _roots_first(backward, own, colour)


def _roots_first(backward: Digraph, own: U64, colour: U64) -> I64:
    """The component of every root of a colour: those of its colour that reach it."""
    component = np.full(len(own), -1, np.int64)
    frontier = np.flatnonzero(own == colour)
    component[frontier] = frontier
    degrees = backward.degrees()
    while len(frontier):
        before = backward.successors(frontier).astype(np.int64)
        ahead = np.repeat(frontier, degrees[frontier])
        joins = (component[before] < 0) & (colour[before] == colour[ahead])
        component[before[joins]] = component[ahead[joins]]
        frontier = once(before[joins])
    return component


def _shuffled(nodes: int) -> U64:
    """A different number for each node, in an order that has nothing to do with theirs."""
    return np.arange(nodes, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _tarjan(graph: Digraph) -> I64:
    """Tarjan's algorithm with its own stack; a component is named after the node it was entered by."""
    starts, targets = graph.starts.tolist(), graph.targets.tolist()
    nodes = graph.nodes
    order, low, component = [-1] * nodes, [0] * nodes, [-1] * nodes
    place = starts[:-1]
    counter = 0
    waiting: list[int] = []
    for root in range(nodes):
        if order[root] >= 0:
            continue
        path = [root]
        while path:
            node = path[-1]
            if order[node] < 0:
                order[node] = low[node] = counter
                counter += 1
                waiting.append(node)
            at, end = place[node], starts[node + 1]
            while at < end:
                after = targets[at]
                at += 1
                if order[after] < 0:
                    path.append(after)
                    break
                if component[after] < 0 and order[after] < low[node]:
                    low[node] = order[after]
            else:
                path.pop()
                if path and low[node] < low[path[-1]]:
                    low[path[-1]] = low[node]
                if low[node] == order[node]:
                    member = -1
                    while member != node:
                        member = waiting.pop()
                        component[member] = node
            place[node] = at
    return np.array(component, np.int64)
