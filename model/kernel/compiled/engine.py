"""A model's compiled loop: what `expand` and a judgement of states do, by C where it covers the text.

A label or a property that is not covered (see `trace`) stays with NumPy, one by one; a step property that is
not covered keeps all labels there, for it sees the states before and after side by side. Where a row falls
into a trap, the whole chunk goes to NumPy, from its beginning: the same function on the same states as
without the compiler, so the same error, or the same successors.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from fencepost.model.kernel.compiled.build import NoCompiler, library_of
from fencepost.model.kernel.compiled.job import Job
from fencepost.model.kernel.compiled.product import ProductTracer
from fencepost.model.kernel.compiled.text import c_text
from fencepost.model.kernel.compiled.thin import WIDEST, Levels, narrow_levels
from fencepost.model.kernel.compiled.trace import NotCovered, Program, Tracer
from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.layout import I64, U64, Mask, PackedState, packed
from fencepost.model.kernel.language.model import Model, Transition
from fencepost.model.kernel.search.expand import PENDING, Begun, Expanded, expand, keep_first, set_of
from fencepost.model.kernel.search.product import Product

_RECENT = 1 << 20
"""Bytes, at most, for the successors that were written last: they fit into the nearer caches."""

_NOWHERE = (1 << 63) - 1
MOST_EXPRESSIONS = 1 << 17
"""Limit of all labels together: the compiler takes some ten seconds for so many."""


class Compiled:
    """The compiled parts of a model, and sentences on what they are. Threads may share it.

    `keep_all` leaves repetitions and unchanged states among the successors, as NumPy does: a search that
    stops in the middle of a level then stops at the same place. Raises `TakesLonger` as `library_of` does.
    """

    def __init__(
        self,
        model: Model,
        states: Sequence[Property],
        steps: Sequence[Property],
        *,
        keep_all: bool = False,
        within_s: float | None = None,
    ) -> None:
        self._model = model
        self._keep_all = keep_all
        self._steps = tuple(steps)
        self.notes: list[str] = []
        left: dict[str, str] = {}
        tracer = ProductTracer(model) if isinstance(model, Product) else Tracer(model)
        labels: dict[int, list[Program]] = {}
        judged = []
        for wanted in steps:
            try:
                judged.append(tracer.step(wanted))
            except NotCovered as reason:
                left[f"{wanted.name}, and with it every action,"] = str(reason)
        self._left = []
        size = 0
        self._is_plain = type(model).representatives is Model.representatives
        for label in model.labels if not left else ():
            try:
                paths = tracer.label(label)
                if paths:
                    if size + paths[0].size > MOST_EXPRESSIONS:
                        raise NotCovered(f"more than {MOST_EXPRESSIONS:,} expressions in all")
                    size += paths[0].size
                    labels[label.number] = paths
            except NotCovered as reason:
                left.setdefault(label.action, str(reason))
                self._left.append(label)
        self.labels = len(labels)
        """The number of compiled labels."""
        # A reduction tests its claim whenever it judges states.
        truths = {}
        for wanted in states if type(model).holds is Model.holds else ():
            try:
                truths[wanted.name] = tracer.truth(wanted)
            except NotCovered as reason:
                left[wanted.name] = str(reason)
        self._first: dict[str, Any] = {}
        for name, reason_ in left.items():
            self.notes.append(f"{name} is computed by NumPy (not covered: {reason_})")
        try:
            library = library_of(c_text(model.words, labels, truths.values(), judged), within_s)
        except NoCompiler as error:
            self.notes = [f"not compiled, NumPy did the work: {error}"]
            self.labels = 0
            return
        self._expand = library.functions.expand
        self._expand.argtypes = [ctypes.c_void_p]
        self._find = library.functions.find
        self._find.argtypes = [ctypes.c_void_p]
        self._thin = library.functions.thin
        self._thin.argtypes = [ctypes.c_void_p] * 3
        for number, name in enumerate(truths):
            first = getattr(library.functions, f"first_{number}")
            first.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
            first.restype = ctypes.c_int64
            self._first[name] = first

    def first(self, wanted: Property, states: U64, value: bool) -> PackedState | None:
        """The first of some states where a property has this value."""
        first = self._first.get(wanted.name)
        row = -2
        if first is not None:
            states = _in_rows(states)
            row = first(states.ctypes.data, states.strides[0] // 8, states.shape[1], value)
        if row == -2:
            deciding = self._model.holds(wanted, states) == value
            row = int(deciding.argmax()) if deciding.any() else -1
        return packed(states, row) if row >= 0 else None

    def expand(
        self,
        states: U64,
        *,
        steps: tuple[Property, ...] = (),
        deadlocks: bool = True,
        exact: bool = False,
        pending: int = PENDING,
    ) -> Expanded:
        """Expand as `search.expand.expand` does, without states that have been visited unless `keep_all`."""
        begun = None
        if self.labels:
            begun = self._begin(states, steps, deadlocks=deadlocks, exact=exact, pending=pending)
        labels = None if begun is None else self._left
        return expand(
            self._model,
            states,
            steps=steps,
            deadlocks=deadlocks,
            exact=exact,
            pending=pending,
            labels=labels,
            begun=begun,
        )

    def predecessor(self, states: U64, after: PackedState) -> list[Transition] | None:
        """The first label that leads from some of these states to another, and the first such state.

        Empty if none does; None if NumPy has to find out.
        """
        if not self._is_whole:
            return None
        states = _in_rows(states)
        target = np.array(after, np.uint64)
        job = Job(0, states.shape[1], states.strides[0] // 8)
        job.states, job.target = states.ctypes.data, target.ctypes.data
        found = self._find(ctypes.byref(job))
        if found == 1:
            return None
        return [(packed(states, job.at), self._model.labels[job.made])] if found else []

    def edges(self, states: U64) -> tuple[list[tuple[I64, U64]], Mask] | None:
        """All transitions, in parts: the row and the state after of each. And which rows have one.

        None if NumPy has to find them.
        """
        if not self._is_whole:
            return None
        rows, states = states.shape[1], _in_rows(states)
        room = min(max(PENDING, self.labels), rows * self.labels)
        alive = np.zeros(rows, np.bool_)
        job = Job(0, rows, states.strides[0] // 8, room, 0, keep_all=True)
        job.states, job.alive = states.ctypes.data, alive.ctypes.data
        parts = []
        while job.at < rows:
            out, origins = np.empty((self._model.words, room), np.uint64), np.empty(room, np.int64)
            job.out, job.origins, job.made = out.ctypes.data, origins.ctypes.data, 0
            if self._expand(ctypes.byref(job)):
                return None
            parts.append((origins[: job.made], out[:, : job.made]))
        return parts, alive

    def narrow(
        self,
        level: U64,
        runs: Sequence[U64],
        *,
        states: Sequence[Property],
        steps: Sequence[Property],
        deadlocks: bool,
        most_levels: int,
        most_states: int,
    ) -> Levels | None:
        """The narrow levels after this one in which none of these properties is decided; None without any.

        `runs` are the sorted keys of what has been visited.
        """
        if (
            not self._is_whole
            or level.shape[1] > WIDEST
            or any(each.name not in self._first for each in states)
        ):
            return None
        values = {each.name: int(each.kind.decided_by) for each in states}
        bad = np.full((len(self._steps), 2 + 2 * self._model.words), _NOWHERE, np.uint64)
        for number, wanted in enumerate(self._steps):
            if wanted not in steps:
                bad[number, 0] = (1 << 64) - 1
        return narrow_levels(
            self._thin,
            level,
            runs,
            labels=(len(self._model.labels), self.labels),
            wanted=[values.get(name, -1) for name in self._first],
            bad=bad,
            deadlocks=deadlocks,
            most_levels=most_levels,
            most_states=most_states,
        )

    @property
    def _is_whole(self) -> bool:
        """True if all labels are compiled, and successors are their own representatives."""
        return bool(self.labels) and not self._left and self._is_plain

    def _begin(
        self, states: U64, steps: tuple[Property, ...], *, deadlocks: bool, exact: bool, pending: int
    ) -> Begun | None:
        """Expand by the compiled labels; None if a row fell into a trap."""
        model, begun = self._model, Begun.of(self._model, states)
        words, rows = model.words, states.shape[1]
        states = _in_rows(states)
        room = min(max(pending, self.labels), rows * self.labels)
        bits = max(4, min((4 * rows).bit_length(), (_RECENT // 8 // words).bit_length() - 1))
        # Where a hash is 0, the first state takes the place of the last one written: it has been visited.
        recent = np.zeros((1 << bits, words), np.uint64)
        recent[0] = states[:, 0]
        bad = np.zeros((len(self._steps), 2 + 2 * words), np.uint64)
        for number, wanted in enumerate(self._steps):
            bad[number, 0] = _NOWHERE if wanted in steps else 0
        job = Job(0, rows, states.strides[0] // 8, room, 0, self._keep_all, bits)
        job.states, job.recent, job.bad = states.ctypes.data, recent.ctypes.data, bad.ctypes.data
        job.fired, job.alive = begun.fired.ctypes.data, begun.alive.ctypes.data if deadlocks else None
        while job.at < rows:
            out = np.empty((words, room), np.uint64)
            job.out, job.made = out.ctypes.data, 0
            if self._expand(ctypes.byref(job)):
                return None
            begun.most = max(begun.most, job.made)
            if job.made:
                begun.batches.append(set_of(model, out[:, : job.made], exact=exact))
        for number, wanted in enumerate(self._steps):
            row, label, *pair = bad[number].tolist()
            if wanted in steps and row != _NOWHERE:
                step = row, tuple(pair[:words]), model.labels[label], tuple(pair[words:])
                keep_first(begun.bad, wanted, step)
        return begun


def _in_rows(states: U64) -> U64:
    """The states with each word of all of them in one piece."""
    return states if states.strides[1] == 8 else np.ascontiguousarray(states)
