"""The whole reachable graph of a bounded space, as arrays, and small ones as a networkx graph.

States are numbered in the order of the levels in which they were first reached, initial states first.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fencepost.model.kernel.language.errors import BadSettings
from fencepost.model.kernel.language.layout import I64, U64
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.report.counterexample import format_fields
from fencepost.model.kernel.search.explore import Bounds, Explorer, Search
from fencepost.model.kernel.search.keys import fingerprints

if TYPE_CHECKING:
    import networkx as nx


_CHUNK = 1 << 16


@dataclass(frozen=True)
class Graph:
    """States of shape (words, n); edge i leads from `sources[i]` to `targets[i]` by label `labels[i]`."""

    model: Model
    states: U64
    initial: int
    sources: I64
    targets: I64
    labels: I64

    def to_networkx(self) -> "nx.MultiDiGraph":
        """Nodes carry their `values` and whether they are `initial`, edges their `label`."""
        import networkx as nx  # slow to load, and only drawing needs it

        graph = nx.MultiDiGraph()
        for number in range(self.states.shape[1]):
            values = self.model.unpack(self.states[:, number])
            graph.add_node(number, values=values, text=format_fields(values), initial=number < self.initial)
        for source, target, label in zip(self.sources, self.targets, self.labels, strict=True):
            graph.add_edge(int(source), int(target), label=str(self.model.labels[label]))
        return graph


def reachable_graph(model: Model, *, max_states: int = 1_000_000, workers: int | None = None) -> Graph:
    """Explore everything, without deciding properties, and keep the edges."""
    bounds = Bounds(max_states=max_states)
    search = Explorer(model, properties=(), bounds=bounds, workers=workers, deadlocks=False).run()
    if not search.complete:
        raise BadSettings(
            f"{model.name} has more than {max_states:,} states; give smaller sizes or a larger bound"
        )
    return graph_of(search)


def graph_of(search: Search) -> Graph:
    """The graph of a finished exploration; every level is expanded once more to get its edges."""
    model = search.model
    states = np.concatenate(search.levels, axis=1)
    keys = fingerprints(states)
    by_key = np.argsort(keys)
    sorted_keys = keys.take(by_key)
    edges: list[tuple[I64, I64, I64]] = []
    for start in range(0, states.shape[1], _CHUNK):
        chunk = states[:, start : start + _CHUNK]
        for label in model.labels:
            after = model.successors(chunk, label)
            found = fingerprints(after.states)
            places = np.minimum(np.searchsorted(sorted_keys, found), len(sorted_keys) - 1)
            inside = sorted_keys.take(places) == found  # all, unless a bound cut some
            targets, sources = by_key.take(places.compress(inside)), after.origin.compress(inside)
            edges.append((sources + start, targets, np.full(len(targets), label.number, np.int64)))
    sources, targets, labels = (np.concatenate(column) for column in zip(*edges, strict=True))
    return Graph(model, states, search.levels[0].shape[1], sources, targets, labels)
