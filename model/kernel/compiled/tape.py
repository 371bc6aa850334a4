"""The expressions of a label or a property, computed by NumPy on some rows: without a compiler, and without
running the author's text again.

The text of a machine costs hundreds of calls in Python each time it is run, whatever the number of rows. So a
caller with many small batches of states traces it once (see `trace`) and replays the expressions: one call of
NumPy each. After a guard only the rows that passed it are left, and an expression is computed where it is
first needed. So a label that is enabled nowhere costs the few expressions of its first guard.

Where a row falls into a trap, or the text is not covered, the reference computes the whole batch, as it does
for compiled loops: the same successors, or the same error. Tracing takes as long as some runs of the text, so
a text is traced when it has been run `RUNS` times.
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.model.kernel.compiled.trace import Node, NotCovered, Program, Tracer
from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.layout import I64, U64, Mask
from fencepost.model.kernel.language.model import Label, Model, Successors

RUNS = 5
"""Runs of a text before it is traced."""
_TAKEN = {"guard": True, "if": True, "unless": False}
_Step = tuple[Any, ...]


class _Trapped(Exception):
    """A row fell into a trap."""


@dataclass
class _Block:
    """Steps until the rows divide, and the block of each side; or until the values."""

    steps: list[_Step]
    values: list[int]
    sides: "list[tuple[int, bool, list[int], _Block]]"


class Tapes:
    """Replays labels and properties of one model. Threads may share it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._tracer = Tracer(model)
        self._lock = threading.Lock()
        self._runs: dict[Hashable, int] = {}
        self._tapes: dict[Hashable, _Tape | None] = {}

    def successors(self, states: U64, label: Label) -> Successors:
        """As `Model.successors`."""
        tape = self._tape(label.number, lambda: self._tracer.label(label))
        if tape is not None:
            try:
                return tape.successors(states)
            except _Trapped:
                pass
        return self._model.successors(states, label)

    def holds(self, wanted: Property, states: U64, name: Hashable) -> Mask:
        """As `Model.holds`; equal properties have equal names, which no label's number is."""
        tape = self._tape(name, lambda: [self._tracer.truth(wanted)])
        if tape is not None:
            try:
                return tape.truth(states)
            except _Trapped:
                pass
        return self._model.holds(wanted, states)

    def _tape(self, name: Hashable, trace: Callable[[], list[Program]]) -> "_Tape | None":
        runs = self._runs[name] = self._runs.get(name, 0) + 1
        if runs <= RUNS:
            return None
        with self._lock:
            if name not in self._tapes:
                try:
                    self._tapes[name] = _Tape(trace(), self._model.words)
                except NotCovered:
                    self._tapes[name] = None
            return self._tapes[name]


class _Tape:
    """The programs of the paths of one label, or of one property."""

    def __init__(self, paths: Sequence[Program], words: int) -> None:
        self._words = words
        self._columns: list[Any] = [None] * paths[0].size if paths else []
        """The columns of all expressions; those of constants to begin with."""
        self._root = self._block(paths, 0, set()) if paths else None
        if self._root is not None:
            self._keep(self._root)

    def successors(self, states: U64) -> Successors:
        parts = [] if self._root is None else list(self._run(states))
        if not parts:
            return Successors(np.empty((self._words, 0), np.uint64), np.empty(0, np.int64))
        rows = [len(origin) for origin, _ in parts]
        after = np.empty((self._words, sum(rows)), np.uint64)
        at = 0
        for count, (_, values) in zip(rows, parts, strict=True):
            for word, value in enumerate(values):
                after[word, at : at + count] = value
            at += count
        origin = parts[0][0] if len(parts) == 1 else np.concatenate([one for one, _ in parts])
        if len(parts) > 1:  # in the order of the rows, as without paths
            order = np.argsort(origin, kind="stable")
            after, origin = after[:, order], origin[order]
        return Successors(after, origin)

    def truth(self, states: U64) -> Mask:
        found = np.zeros(states.shape[1], np.bool_)
        for origin, (value,) in self._run(states):
            found[origin] = value
        return found

    # The plan: which expressions are computed between two checks, and which are still needed after each.

    def _block(self, paths: Sequence[Program], start: int, known: set[int]) -> _Block:
        """The checks that all paths have in common, a branch, and what follows on both of its sides."""
        first = paths[0]
        steps: list[_Step] = []
        for place, (kind, truth) in enumerate(first.checks[start:], start + 1):
            steps += self._settled([truth], known)
            if kind in ("if", "unless"):
                sides: list[tuple[int, bool, list[int], _Block]] = []
                for side in ("if", "unless"):
                    there = [path for path in paths if path.checks[place - 1][0] == side]
                    if there:
                        block = self._block(there, place, set(known))
                        sides.append((truth.number, _TAKEN[side], [], block))
                return _Block(steps, [], sides)
            steps.append((kind, truth.number, []))
        steps += self._settled(first.values, known)
        return _Block(steps, [value.number for value in first.values], [])

    def _settled(self, wanted: Sequence[Node], known: set[int]) -> list[_Step]:
        """The expressions that these need and that are not known yet; operands have lower numbers."""
        missing: dict[int, Node] = {}
        waiting = list(wanted)
        while waiting:
            node = waiting.pop()
            if node.number in known or node.number in missing:
                continue
            missing[node.number] = node
            waiting += [each for each in node.arguments if isinstance(each, Node)]
        known |= set(missing)
        return [step for _, node in sorted(missing.items()) for step in self._step(node)]

    def _step(self, node: Node) -> Iterator[_Step]:
        if node.operation == "constant":
            # An array of one element, so that the arithmetic of NumPy is that of columns.
            self._columns[node.number] = np.array(node.arguments, node.dtype)
            return
        given = [each.number for each in node.arguments if isinstance(each, Node)]
        if node.operation == "input":
            yield "input", node.number, node.arguments[0]
        elif node.operation == "table":
            place, *entries = node.arguments
            values = [entry.arguments[0] for entry in entries if isinstance(entry, Node)]
            assert isinstance(place, Node)
            yield "compute", node.number, _looked_up(np.array(values, node.dtype)), (place.number,)
        elif node.operation == "cast":
            yield "compute", node.number, _cast(np.dtype(node.dtype)), tuple(given)
        else:
            yield "compute", node.number, getattr(np, node.operation), tuple(given)

    def _keep(self, block: _Block) -> set[int]:
        """Note at every check which columns are needed behind it. Returns those that the block needs."""
        needed = set(block.values)
        for truth, _, live, side in block.sides:
            live += self._keep(side)
            needed |= {truth, *live}
        for place in range(len(block.steps) - 1, -1, -1):
            step = block.steps[place]
            if step[0] == "compute":
                needed = needed - {step[1]} | set(step[3])
            elif step[0] == "input":
                needed = needed - {step[1]}
            else:
                step[2].extend(needed)
                needed = needed | {step[1]}
        return needed

    # The run.

    def _run(self, states: U64) -> Iterator[tuple[I64, list[Any]]]:
        """For each path that some row takes: the rows, and the values."""
        assert self._root is not None
        return self._rows(self._root, self._columns.copy(), np.arange(states.shape[1]), states)

    def _rows(
        self, block: _Block, columns: list[Any], rows: I64, states: U64
    ) -> Iterator[tuple[I64, list[Any]]]:
        for step in block.steps:
            if step[0] == "compute":
                _, number, compute, given = step
                columns[number] = compute(*[columns[each] for each in given])
            elif step[0] == "input":
                word = states[step[2]]
                columns[step[1]] = word if len(rows) == len(word) else word[rows]
            elif step[0] == "trap":
                if columns[step[1]].any():
                    raise _Trapped
            else:
                truth = columns[step[1]]
                if not truth.all():
                    rows = _narrowed(columns, step[2], truth, rows)
                    if not len(rows):
                        return
        if not block.sides:
            yield rows, [columns[number] for number in block.values]
        for truth, taken, live, side in block.sides:
            passes = columns[truth] if taken else ~columns[truth]
            if passes.all():
                yield from self._rows(side, columns.copy(), rows, states)
            elif passes.any():
                inside = columns.copy()
                yield from self._rows(side, inside, _narrowed(inside, live, passes, rows), states)


def _narrowed(columns: list[Any], live: Sequence[int], truth: Mask, rows: I64) -> I64:
    """The rows in which a truth holds; the columns that are still needed, in these rows."""
    kept = np.flatnonzero(np.broadcast_to(truth, len(rows)))
    for number in live:
        column = columns[number]
        if column is not None and len(column) == len(rows):
            columns[number] = column[kept]
    return rows[kept]


def _looked_up(table: "np.ndarray[Any, Any]") -> Callable[[Any], Any]:
    def look_up(place: Any) -> Any:
        inside = (place >= 0) & (place < len(table))
        return np.where(inside, table.take(place, mode="clip"), table.dtype.type(0))

    return look_up


def _cast(dtype: "np.dtype[Any]") -> Callable[[Any], Any]:
    return lambda column: column.astype(dtype)
