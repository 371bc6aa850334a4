"""Directed graphs of millions of nodes as columns: closures, distances, walks, trimming.

Nodes are 0..n-1. The successors of node v are `targets[starts[v]:starts[v + 1]]`, without parallel
edges and without edges from a node to itself, which no algorithm here needs. It costs 8 bytes a node
and 4 bytes an edge; the reversed graph costs the same again.

Everything moves in whole frontiers. A round costs some microseconds plus its edges, so a graph that
is deep but narrow pays for its depth, and a broad one for nothing but its edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fencepost.model.kernel.layout import I64, U64, Mask

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

    Takes the parts out of the caller's list, so that each is gone when its edges have been stored.
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


def distances(graph: Digraph, begin: I64) -> NDArray[np.int32]:
    """The fewest edges from any node of `begin`; -1 where there is no way."""
    found = np.full(graph.nodes, -1, np.int32)
    frontier = once(begin.copy())
    depth = 0
    while len(frontier):
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
    """What can be reached from `begin` without leaving `within`."""
    seen = np.zeros(graph.nodes, np.bool_)
    frontier = begin
    while len(frontier):
        seen[frontier] = True
        after = graph.successors(frontier)
        frontier = once(after.compress(within.take(after) & ~seen.take(after)))
    return seen


def walk(graph: Digraph, backward: Digraph, begin: I64, wanted: Mask, within: Mask) -> list[int]:
    """A shortest walk inside `within` from a node of `begin` to a wanted node, both of them included.

    The list is empty where there is none.
    """
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
    """The nodes that can lie between cycles: what is left when dead ends, and then sources, are peeled off.

    What a dead end leads to is a dead end, so no node that stays had an edge from it; and a source that
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
