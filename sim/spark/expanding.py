"""Expanding states in a Spark worker: the columnar kernel, batch by batch, and a tally at the end.

A state is a row of 64-bit words, as signed numbers since Spark has no others, and its key. A part of a level
comes in, its successors go out, each once within the part, and one last row, the tally, as JSON: how often
each label fired, and for each property the finding with the smallest key. The smallest over all parts is the
first in the order of the local engine, so both report the same counterexample.
"""

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.model import Machine, Model
from fencepost.model.kernel.language.layout import U64, one_row, packed
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.expand import expand
from fencepost.model.kernel.search.keys import Batch
from fencepost.model.kernel.search.product import Product
from fencepost.model.kernel.search.symmetry import Reduced


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to make the same model."""

    machine: type[Machine]
    sizes: tuple[tuple[str, int], ...]
    without: tuple[str, ...]
    reduced: bool
    refinement: str = ""
    """The refinement whose product is explored."""

    @classmethod
    def of(cls, model: Model) -> "Recipe":
        sizes = tuple(sorted(model.sizes.items()))
        refinement = model.wanted.name if isinstance(model, Product) else ""
        without = tuple(sorted(model.without))
        return cls(model.machine, sizes, without, isinstance(model, Reduced), refinement)

    def model(self) -> Model:
        kind = Reduced if self.reduced else Model
        made = kind(self.machine, dict(self.sizes), without=self.without)
        if not self.refinement:
            return made
        return Product(next(one for one in made.properties if one.name == self.refinement), made)


@functools.lru_cache(maxsize=4)
def _model(recipe: Recipe) -> Model:
    """Workers survive levels; each makes a model once."""
    return recipe.model()


@dataclass(frozen=True)
class Expand:
    """One step of the exploration: the open properties, and whether to report deadlocks."""

    recipe: Recipe
    watched: tuple[str, ...]
    steps: tuple[str, ...]
    deadlocks: bool
    exact: bool = False

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        model = _model(self.recipe)
        properties = {wanted.name: wanted for wanted in model.properties}
        open_steps = tuple(properties[name] for name in self.steps)
        tally = Tally([0] * len(model.labels))
        for part in parts:
            level = keys.distinct(states_of(part, model.words), exact=self.exact)
            for name in self.watched:
                self._watch(model, properties[name], level, tally)
            expanded = expand(
                model, level.states, steps=open_steps, deadlocks=self.deadlocks, exact=self.exact
            )
            tally.count(expanded, level)
            yield rows_of(expanded.batch)
        yield tally.row(model.words)

    def _watch(self, model: Model, wanted: Any, level: Batch, tally: "Tally") -> None:
        holds = model.holds(wanted, level.states)
        telling = holds == wanted.kind.decided_by
        if telling.any():
            row = int(telling.argmax())
            tally.find(wanted.name, int(level.keys[row]), packed(level.states, row))


class Tally:
    """Counts and findings of a part of a level."""

    def __init__(self, fired: list[int]) -> None:
        self.fired = fired
        self.found: dict[str, tuple[int, Any]] = {}
        self.steps: dict[str, tuple[int, Any]] = {}
        self.stuck: tuple[int, Any] | None = None

    def count(self, expanded: Any, level: Batch) -> None:
        self.fired = [old + int(new) for old, new in zip(self.fired, expanded.fired, strict=True)]
        for name, (row, before, label, after) in expanded.steps.items():
            step = before, label.number, after
            self.steps[name] = _first(self.steps.get(name), (int(level.keys[row]), step))
        if expanded.deadlock is not None:
            key = int(keys.fingerprints(one_row(expanded.deadlock))[0])
            self.stuck = _first(self.stuck, (key, expanded.deadlock))

    def find(self, name: str, key: int, state: tuple[int, ...]) -> None:
        self.found[name] = _first(self.found.get(name), (key, state))

    def add(self, other: "Tally") -> None:
        self.fired = [one + two for one, two in zip(self.fired, other.fired, strict=True)]
        for mine, theirs in ((self.found, other.found), (self.steps, other.steps)):
            for name, finding in theirs.items():
                mine[name] = _first(mine.get(name), finding)
        if other.stuck is not None:
            self.stuck = _first(self.stuck, other.stuck)

    def row(self, words: int) -> pa.RecordBatch:
        tally = json.dumps([self.fired, self.found, self.steps, self.stuck])
        empty = np.zeros((words, 1), np.uint64)
        return rows_of(Batch(empty[0], empty), tally)

    @classmethod
    def read(cls, text: str) -> "Tally":
        made = cls([])
        made.fired, made.found, made.steps, made.stuck = json.loads(text)
        return made


def _first(one: Any, other: Any) -> Any:
    return other if one is None or other[0] < one[0] else one


def names(words: int) -> list[str]:
    """The columns of a state: its words, and its key where that is not the only word."""
    return ["w0"] if words == 1 else ["key", *(f"w{number}" for number in range(words))]


def states_of(part: pa.RecordBatch | pa.Table, words: int) -> U64:
    """The packed states of rows; always an array of its own, since sorting works in place."""
    columns = [part.column(f"w{number}").to_numpy() for number in range(words)]
    return np.array([column.view(np.uint64) for column in columns], np.uint64).reshape(words, -1)


def rows_of(batch: Batch, tally: str | None = None) -> pa.RecordBatch:
    """States as rows; a tally in the last column of its one row."""
    words = len(batch.states)
    columns = [batch.states[0]] if words == 1 else [batch.keys, *batch.states]
    arrays = [pa.array(column.view(np.int64)) for column in map(np.ascontiguousarray, columns)]
    tallies = pa.array([tally], pa.string()) if tally is not None else pa.nulls(len(batch), pa.string())
    return pa.RecordBatch.from_arrays([*arrays, tallies], names=[*names(words), "tally"])


def schema(words: int) -> str:
    """The same columns, in Spark's notation."""
    return ", ".join([*(f"{name} long" for name in names(words)), "tally string"])
