"""Graphs as columns against networkx: components by every one of their four steps, and what they stand on.

The random machines are small enough for the last step alone; these graphs make each step do the work.
"""

import networkx as nx
import numpy as np
import pytest

from fencepost.model.kernel.temporal import digraph
from fencepost.model.kernel.temporal.digraph import (
    Digraph,
    closure,
    components,
    distances,
    from_pairs,
    pairs,
    reverse,
    subgraph,
    walk,
)


def made(nodes: int, edges, near: int | None, seed: int) -> tuple[Digraph, nx.DiGraph]:
    """A random graph, with edges between any two nodes or only between near ones."""
    draw = np.random.default_rng(seed)
    sources = draw.integers(0, nodes, edges)
    targets = (
        draw.integers(0, nodes, edges) if near is None else (sources + draw.integers(-near, 2, edges)) % nodes
    )
    kept = sources != targets
    graph = nx.DiGraph(zip(sources[kept].tolist(), targets[kept].tolist(), strict=True))
    graph.add_nodes_from(range(nodes))
    cut = nodes // 2  # two parts, as chunks of states give them
    low = sources < cut
    parts = [pairs(sources[kept & half], targets[kept & half]) for half in (low, ~low)]
    return from_pairs(nodes, parts), graph


def grouped(numbers: np.ndarray) -> set[frozenset[int]]:
    found: dict[int, set[int]] = {}
    for node, number in enumerate(numbers.tolist()):
        found.setdefault(number, set()).add(node)
    return {frozenset(part) for part in found.values()}


@pytest.mark.parametrize("seed", range(40))
def test_components_by_each_step_alone_and_together(seed, monkeypatch) -> None:
    nodes = 5 + 7 * seed
    graph, plain = made(nodes, int(nodes * (0.6 + seed % 5 * 0.3)), (None, 3)[seed % 2], seed)
    expected = {frozenset(part) for part in nx.strongly_connected_components(plain)}
    assert grouped(components(graph)) == expected
    assert grouped(components(graph, small=0)) == expected
    monkeypatch.setattr(digraph, "_PIVOT_SHARE", 0)
    assert grouped(components(graph, small=0)) == expected, "colours alone"
    monkeypatch.setattr(digraph, "_ROUNDS", 2)
    assert grouped(components(graph, small=0)) == expected, "colours that give up"


def test_a_long_chain_of_small_components_is_not_slow() -> None:
    length = 60_000
    low = np.arange(length - 1)
    pair = low[::2]
    graph = from_pairs(length, [pairs(np.concatenate([low, pair + 1]), np.concatenate([low + 1, pair]))])
    found = components(graph)
    assert len(np.unique(found)) == length // 2
    assert (found[::2] == found[1::2]).all()


@pytest.mark.parametrize("seed", range(20))
def test_graph_operations_agree_with_networkx(seed, monkeypatch) -> None:
    monkeypatch.setattr(digraph, "_EDGES", 7)
    nodes = 4 + 5 * seed
    graph, plain = made(nodes, 2 * nodes, (None, 3)[seed % 2], seed)
    back = reverse(graph)
    for node in range(nodes):
        assert sorted(graph.successors(np.array([node])).tolist()) == sorted(plain.successors(node))
        assert sorted(back.successors(np.array([node])).tolist()) == sorted(plain.predecessors(node))
    begin = np.array([0, nodes - 1])
    depth = nx.multi_source_dijkstra_path_length(plain, {0, nodes - 1})
    assert distances(graph, begin).tolist() == [depth.get(node, -1) for node in range(nodes)]
    kept = np.random.default_rng(seed).random(nodes) < 0.7
    kept[0] = True
    inside = plain.subgraph(np.flatnonzero(kept).tolist())
    assert np.flatnonzero(closure(graph, begin[:1], kept)).tolist() == sorted({0} | nx.descendants(inside, 0))
    small, old = subgraph(graph, kept)
    edges = {(int(old[a]), int(old[b])) for piece in small.pieces() for a, b in zip(*piece, strict=True)}
    assert edges == set(inside.edges)
    for goal in range(nodes):
        wanted = np.arange(nodes) == goal
        found = walk(graph, back, begin[:1], wanted, kept)
        if goal != 0 and (goal not in inside or not nx.has_path(inside, 0, goal)):
            assert found == []
        else:
            assert (found[0], found[-1]) == (0, goal)
            assert len(found) == 1 + nx.shortest_path_length(inside, 0, goal)
            assert nx.is_path(inside, found)


@pytest.mark.parametrize("seed", range(20))
def test_trimming_keeps_the_nodes_between_cycles(seed) -> None:
    graph, plain = made(60, 60 + 3 * seed, None, seed)
    cyclic = {node for part in nx.strongly_connected_components(plain) if len(part) > 1 for node in part}
    between = {
        n
        for n in plain
        if ({n} | nx.descendants(plain, n)) & cyclic and ({n} | nx.ancestors(plain, n)) & cyclic
    }
    assert set(np.flatnonzero(digraph.trimmed(graph, reverse(graph))).tolist()) == between


def test_an_empty_graph_has_no_components() -> None:
    empty = from_pairs(0, [])
    assert components(empty).tolist() == []
    assert distances(empty, np.empty(0, np.int64)).tolist() == []
