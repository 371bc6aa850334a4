"""Strongly connected components of large graphs, with columns for the bulk and Tarjan for the rest.

Four steps, each exact, each leaving less to the next:

    trim      a node without successors (or predecessors) is a component of its own; peel these off
              until nothing changes. State graphs of protocols mostly vanish here.
    pivot     what the busiest node reaches and is reached from is one component. Where one giant
              component holds most of the graph, this finds it in two closures.
    colour    every node takes the largest number that reaches it; a node that keeps its own number
              is in one component with those of its colour that reach it. Many components at once.
    Tarjan    what is left when the above pays no more: one node at a time, in time linear in its edges.

Numbers for colouring are a fixed shuffle of the nodes, so that the order in which a state space
happens to be numbered does not make its chains slow.
"""

import numpy as np

from fencepost.model.kernel.digraph import Digraph, closure, once, reverse, subgraph, trimmed
from fencepost.model.kernel.layout import I64, U64

SMALL = 1 << 17
"""Edges below which Tarjan's algorithm is as fast as whole columns."""

_PIVOT_SHARE = 8
"""Go on with pivots while each finds at least one node in this many."""

_ROUNDS = 3000
"""Rounds of one colouring after which the graph is a long chain, and Tarjan is faster."""


def components(graph: Digraph, small: int = SMALL) -> I64:
    """For each node the number of a node that stands for its component."""
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
