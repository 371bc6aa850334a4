"""A spanning tree: each node moves towards a neighbour that is nearer to the root."""

from fencepost.model import *


class SpanningTree(Machine):
    """The graph is a ring with one chord; node 0 is the root."""

    nodes = Size(5, least=3)

    parent = Each(nodes, Id(nodes))
    distance = Each(nodes, Int(0, nodes))

    @initial
    def begin(s) -> None:
        for n in range(s.nodes):
            s.parent[n], s.distance[n] = n, s.nodes if n else 0

    def is_edge(s, m: int, n: int) -> bool:
        return (m - n) % s.nodes in (1, s.nodes - 1) or {m, n} == {0, 2}

    @action(n=nodes, m=nodes, d=nodes)
    def move(s, n: int, m: int, d: int) -> None:
        s.require(s.is_edge(m, n), s.distance[m] < d, d < s.distance[n])
        s.distance[n], s.parent[n] = d, m

    @invariant(n=nodes)
    def nearer(s, n: int) -> Truth:
        """A node's parent is nearer to the root than the node."""
        return (s.parent[n] == n) | (s.distance[s.parent[n]] < s.distance[n])

    def is_tree(s) -> Truth:
        return all_of(s.distance[n] == [0, 1, 1, 2, 1][n] for n in range(s.nodes))

    settled = eventually("All distances become the shortest.", fair=(together(),))(lambda s: s.is_tree())

    @may_end
    def over(s) -> Truth:
        return s.is_tree()
