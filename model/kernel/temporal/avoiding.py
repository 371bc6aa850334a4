"""The part of an explored space that avoids a goal, as a graph.

Properties of whole runs depend only on the runs that avoid a goal, so states that satisfy it are no nodes: a
transition into one of them is a mark on the state that it leaves, not an edge. A transition that changes
nothing is no edge either: every run may stay where it is. States are numbered by the rank of their key.

    keys, states   8 bytes a state and word, and 8 for the key where it is not the state itself
    forward        8 bytes a state, 4 bytes an edge (parallel edges once)
    marks          2 bytes a state

The labels of the edges are not kept: for the few states of a counterexample or of a component that may be
fair, the actions are applied once more.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.layout import I64, U64, Mask, packed
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.explore import Search, cores
from fencepost.model.kernel.search.keys import Batch
from fencepost.model.kernel.search.spill import resident
from fencepost.model.kernel.temporal.digraph import Digraph, from_pairs, pairs

_CHUNK = 1 << 15

_NODE, _EDGE = 59, 12
"""Bytes, at most, of a state and of an edge while the graph is built, reversed and searched."""


class TooLarge(Exception):  # not an error: it makes the property undecided
    """The graph needs more memory than the limit."""


@dataclass(frozen=True)
class Avoiding:
    """States without the goal; `ends` enable nothing, `leaves` lead to the goal in one step."""

    model: Model
    nodes: Batch
    forward: Digraph
    ends: Mask
    leaves: Mask
    exact: bool = False

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def nbytes(self) -> int:
        return self.nodes.nbytes + self.forward.nbytes + 2 * len(self)

    def find(self, states: U64) -> tuple[I64, Mask]:
        """The number of each state, and whether it is in the graph."""
        return _find(self.nodes, states, self.exact)

    def packed(self, node: int) -> tuple[int, ...]:
        return packed(self.nodes.states, node)

    def expand(self, nodes: I64, labels: tuple[Label, ...]) -> Iterator[tuple[Label, I64, I64, Mask]]:
        """For each label: the places in `nodes` that it changes, the nodes after, and if they avoid."""
        states = self.nodes.states.take(nodes, axis=1)
        for label in labels:
            frame = self.model.apply(states, label)
            if frame is not None:
                origin = frame.origin()
                after, inside = self.find(self.model.representatives(np.stack(frame.finish())))
                changes = ~inside | (after != nodes.take(origin))
                yield label, origin.compress(changes), after.compress(changes), inside.compress(changes)


def build(
    search: Search, goal: Property, *, memory: int | None = None, workers: int | None = None
) -> Avoiding:
    """The graph of a finished exploration without the states of a goal."""
    model, exact = search.model, search.exact and search.model.words > 1
    nodes = _without(search, goal)
    edges: list[U64] = []
    held = sum(resident(level) for level in search.levels) + nodes.nbytes + _NODE * len(nodes)
    ends, leaves = (np.zeros(len(nodes), np.bool_) for _ in range(2))

    def expand(start: int) -> U64:
        chunk = nodes.states[:, start : start + _CHUNK]
        compiled = None if search.compiled is None else search.compiled.edges(chunk)
        steps, alive = _edges(model, chunk) if compiled is None else compiled
        found = []
        for rows, states in steps:
            origin = rows + start
            after, inside = _find(nodes, states, exact)
            leaves[origin.compress(~inside)] = True
            inside &= after != origin
            found.append((origin.compress(inside), after.compress(inside)))
        ends[start : start + _CHUNK] = ~alive
        return pairs(*(np.concatenate(column) for column in zip(*found, strict=True))) if found else _NONE

    for part in _in_threads(expand, range(0, len(nodes), _CHUNK), workers or cores()):
        edges.append(part)
        held += _EDGE * len(part)
        if memory is not None and held > memory:
            raise TooLarge(
                f"the graph of {len(nodes):,} states and at least {sum(map(len, edges)):,} edges "
                f"needs more than {memory:,} bytes"
            )
    search.peak_bytes = max(search.peak_bytes, held)
    return Avoiding(model, nodes, from_pairs(len(nodes), edges), ends, leaves, exact)


def _edges(model: Model, states: U64) -> tuple[Iterator[tuple[I64, U64]], Mask]:
    """All transitions, label by label: the row and the state after of each. And which rows have one, which
    is complete after the last label."""
    alive = np.zeros(states.shape[1], np.bool_)

    def of_labels() -> Iterator[tuple[I64, U64]]:
        for label in model.labels:
            frame = model.apply(states, label)
            if frame is not None:
                frame.mark_origin(alive)
                yield frame.origin(), model.representatives(np.stack(frame.finish()))

    return of_labels(), alive


def _in_threads(work: Callable[[int], U64], items: range, workers: int) -> Iterator[U64]:
    if len(items) < 2 or workers == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        wave = 4 * workers
        for first in range(0, len(items), wave):
            yield from pool.map(work, items[first : first + wave])


def _without(search: Search, goal: Property) -> Batch:
    """The states that do not satisfy the goal, sorted by key."""
    model = search.model
    parts = []
    for level in search.levels:
        for start in range(0, level.shape[1], _CHUNK):
            chunk = level[:, start : start + _CHUNK]
            mask = ~model.holds(goal, chunk)
            if mask.any():
                parts.append(chunk.compress(mask, axis=1))
    if not parts:
        return keys.empty(model.words)
    return keys.distinct(keys.concatenated(parts), exact=search.exact)


def _find(known: Batch, states: U64, exact: bool) -> tuple[I64, Mask]:
    wanted = keys.fingerprints(states)
    if not len(known):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    at = np.searchsorted(known.keys, wanted)
    np.minimum(at, len(known) - 1, out=at)
    inside = known.keys.take(at) == wanted
    if exact:
        there = np.flatnonzero(inside)
        found = at.take(there)
        inside[there] = keys.match(known, found, states.take(there, axis=1))
        at[there] = found
    return at, inside


_NONE = np.empty(0, np.uint64)
