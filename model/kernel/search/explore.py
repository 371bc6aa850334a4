"""Breadth-first exploration, one whole level at a time.

Each level is a sorted set of packed states. The next one is computed in four steps:

    expand   cut the level into chunks; run every label on each chunk, concatenate the successors, sort,
             drop repetitions                           (one task per chunk, in threads)
    merge    cut the key space into ranges; in each range merge the results of all chunks and drop what has
             been visited                               (one task per range, in threads)
    judge    evaluate the properties on the new states  (by chunks again)
    remember add the new keys to the visited runs, keep the level

NumPy releases the interpreter lock in its loops and sorts, so plain threads keep the cores busy. Nothing
depends on the order in which threads finish: chunks and ranges are joined in order, and of several violations
on one level the first in that order is reported, whatever the chunks were.

A level holds what is new after one more step, so every state is first reached by a shortest path, and its
counterexample is shortest. Parents are not stored: the levels are kept, and `report.counterexample` walks
back through them. Memory is therefore 8 bytes a word and state for the levels and 8 bytes a state for the
visited keys, plus what expanding chunks and merging the current level need; all of it is counted.

A memory limit sets the sizes of this work (`Work`): a part of the limit is for states, the rest for what one
wave of chunks and one merge need. With a directory to spill to, everything but that work may go to disk.

A bound may be hit in the middle of a level. The last level then holds what had been merged so far, and
`stopped_by` names the bound. States of several words are distinguished by their keys only, and `keys` gives
the odds that two states share one; an `exact` search compares the states as well, and keeps them with the
visited keys for that.
"""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.errors import ModellingMistake
from fencepost.model.kernel.language.kinds import Judged
from fencepost.model.kernel.language.layout import U64, PackedState, packed
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.expand import PENDING, Expanded, expand, row_bytes
from fencepost.model.kernel.search.keys import Batch
from fencepost.model.kernel.search.spill import Shelf, is_on_disk, resident
from fencepost.model.kernel.search.visited import Visited

if TYPE_CHECKING:
    from fencepost.model.kernel.compiled.engine import Compiled
    from fencepost.model.kernel.search.resume import Saved


@dataclass(frozen=True)
class Progress:
    """The state of an exploration for a progress line."""

    depth: int
    frontier: int
    distinct: int
    generated: int
    seconds: float
    held_bytes: int
    spilled_bytes: int = 0


@dataclass(frozen=True)
class Found:
    """Where a property was decided: a state of a level, and for a step also the label and the state after."""

    depth: int
    state: PackedState
    label: Label | None = None
    after: PackedState | None = None


@dataclass
class Bounds:
    """When to stop undecided. With the directory `spill`, states beyond `memory` go there instead."""

    max_states: int | None = None
    memory: int | None = None
    max_depth: int | None = None
    spill: Path | None = None


@dataclass
class Search:
    """The result of an exploration. `levels[d]` holds the states first reached after d steps; `resumed` of
    them were taken from the record of an earlier process.

    An exploration that ends early gives a reason, `stopped_by`: without one it was complete.
    """

    model: Model
    exact: bool = False
    levels: list[U64] = field(default_factory=list)
    distinct: int = 0
    generated: int = 0
    fired: list[int] = field(default_factory=list)
    found: dict[str, Found] = field(default_factory=dict)
    deadlock: Found | None = None
    complete: bool = False
    stopped_by: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    spilled_bytes: int = 0
    cut: int = 0
    """States that were reached and lie outside of a `@bound`."""
    resumed: int = 0
    notes: list[str] = field(default_factory=list)
    """Sentences on how the search was done."""
    compiled: "Compiled | None" = None

    @property
    def depth(self) -> int:
        """The number of levels including that of the initial states, as TLC counts it."""
        return len(self.levels)

    @property
    def reason(self) -> str:
        """Why the exploration is not complete, in words."""
        assert self.stopped_by, "an exploration that is not complete gives a reason"
        return f"stopped by {self.stopped_by}"

    @property
    def last(self) -> int:
        """The number of the deepest level: the steps to the farthest states."""
        return len(self.levels) - 1


_CHUNK = 1 << 16
"""States a task: large enough that NumPy's loops outweigh Python, small enough for the caches."""

_WAITING = 1 << 21
"""Successors that may wait for a merge even if the level has fewer states."""

_SMALL = 1 << 13
"""Below this many states threads cost more than they gain."""

_NEVER = 1 << 40
"""More states and levels than any search has."""

COMPILED_AFTER_S = 0.3
"""Seconds of a search before it is compiled by itself: most searches end before."""

LEAST_MEMORY = 3 << 24
"""The smallest memory limit that a search with spilling keeps, for each word of a state."""


def least_memory(model: Model) -> int:
    """The smallest memory limit that a search of this model keeps with spilling."""
    return LEAST_MEMORY * model.words


T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True)
class Work:
    """The amounts of work at a time: states a chunk, successors a gathering, chunks a wave, successors that
    wait for a merge, ranges of keys a merge; and the bytes that all of it takes, freed memory included."""

    chunk: int
    pending: int
    wave: int
    waiting: int
    parts: int
    nbytes: int

    @classmethod
    def within(cls, memory: int | None, words: int, workers: int) -> "Work":
        """As much as is fast, but a quarter of the limit at most; three quarters with what is not counted."""
        row, most = row_bytes(words), max(1 << 12, _CHUNK // words)
        if memory is None:
            return cls(most, PENDING, 4 * workers, _WAITING, workers, 0)
        pending = min(PENDING, max(1 << 13, memory // 8 // workers // row))
        waiting = min(_WAITING, max(1 << 15, memory // 8 // (8 * words + 8 + row // 2)))
        nbytes = 3 * (workers * pending * row + waiting * (8 * words + 8 + row // 2))
        return cls(min(most, pending // 4), pending, workers, waiting, 4 * workers, nbytes)


class Explorer:
    """One exploration of one model."""

    def __init__(
        self,
        model: Model,
        *,
        properties: tuple[Property, ...] | None = None,
        bounds: Bounds | None = None,
        workers: int | None = None,
        keep_going: bool = False,
        deadlocks: bool = True,
        exact: bool = False,
        resume: Path | None = None,
        compiled: bool | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.model = model
        self.search = Search(model, exact, fired=[0] * len(model.labels))
        self._exact = exact and model.words > 1
        self._workers = workers or cores()
        self._bounds = bounds or Bounds()
        self._keep_going = keep_going
        self._deadlocks = deadlocks
        self._resume = resume
        self._progress = progress
        wanted = model.properties if properties is None else properties
        self._open = [p for p in wanted if p.kind.judged is Judged.STATES]
        self._open_steps = [p for p in wanted if p.kind.judged is Judged.STEPS]
        self._judged = (*self._open,), (*self._open_steps,)
        """All properties of states and of steps, so that a compiled text depends on the model alone."""
        self._levels_held = self._fresh_held = 0
        self._spilled = 0
        spill = self._bounds.spill if self._bounds.memory is not None else None
        self._shelf = None if spill is None else Shelf(spill)
        self._work = Work.within(self._bounds.memory, model.words, self._workers)
        self._branching = 1.0
        self._narrow_after, self._narrow_wait = 0, 1
        self._compiled = self._compile() if compiled else None
        self._compile_after_s = COMPILED_AFTER_S if compiled is None else math.inf

    def run(self) -> Search:
        """Explore until there is nothing new, a property is violated, or a bound is hit."""
        begun = perf_counter()
        with ThreadPoolExecutor(self._workers) as pool, self._record() as record:
            self._pool = pool
            release = self._release if self._shelf is not None else lambda: None
            self._visited = Visited(pool, self._workers, self._allocate, exact=self._exact, release=release)
            first = keys.distinct(self.model.initial(), exact=self._exact)
            self.search.generated = len(first)
            level = first.states if record is None else self._recorded(record, first)
            self._visited.add(self._batch(level))
            while (level := self._within_bounds(level)).shape[1]:
                self._remember(level)
                level = self.search.levels[-1]
                if record is not None and self.search.depth > self.search.resumed:
                    record.add(level, self.search)
                self._judge(level)
                self._report(level.shape[1], begun)
                if self._must_stop():
                    break
                if record is None and (narrow := self._narrow(level)) is not level:
                    level = narrow
                    self._report(level.shape[1], begun)
                    if self._must_stop():
                        break
                self._compile_in_time(perf_counter() - begun)
                level = self._next(level)
            else:
                self.search.complete = not self.search.stopped_by
        self.search.seconds = perf_counter() - begun
        return self.search

    def _within_bounds(self, level: U64) -> U64:
        """The states of a new level that satisfy the machine's bounds; the others are judged and left."""
        if not self.model.bounds or not level.shape[1]:
            return level
        inside = np.concatenate(self._map(self.model.within_bounds, list(_chunks(level))))
        if inside.all():
            return level
        if not self.search.levels and not inside.any():
            raise ModellingMistake(
                f"{self.model.name} begins outside of its @bound: there is nothing to search"
            )
        outside = level.compress(~inside, axis=1)
        self.search.cut += outside.shape[1]
        self._judge(outside, self.search.depth)
        return level.compress(inside, axis=1)

    def _compile(self, within_s: float | None = None) -> "Compiled":
        from fencepost.model.kernel.compiled.engine import Compiled

        bounds = self._bounds
        may_stop = bounds.max_states is not None or (bounds.memory is not None and bounds.spill is None)
        made = Compiled(self.model, *self._judged, keep_all=may_stop, within_s=within_s)
        if within_s is None:
            self.search.notes += made.notes
        self.search.compiled = made
        return made

    def _compile_in_time(self, seconds: float) -> None:
        """Compile once the search has taken as long as that takes: it doubles a short search at most."""
        if seconds < self._compile_after_s:
            return
        from fencepost.model.kernel.compiled.build import TakesLonger, has_compiler

        self._compile_after_s = math.inf
        try:
            self._compiled = self._compile(seconds) if has_compiler() else None
        except TakesLonger as found:
            self._compile_after_s = found.seconds

    def _record(self) -> AbstractContextManager["Saved | None"]:
        if self._resume is None:
            return nullcontext()
        from fencepost.model.kernel.search.resume import Saved

        properties = [wanted.name for wanted in (*self._open, *self._open_steps)]
        how = {"comparison": self._exact, "deadlocks": self._deadlocks, "properties": properties}
        return Saved(self._resume, self.model, **how)

    def _recorded(self, record: "Saved", first: Batch) -> U64:
        """Take over the recorded levels but the last, which is the one to go on with."""
        level = None
        for number, found in enumerate(record.levels(self.search)):
            if number == 0 and not np.array_equal(found, first.states):
                raise record.differs("initial states")
            if level is not None:
                self._remember(level)
                self._visited.add(self._batch(level))
            level = found
        if level is None:
            return first.states
        self.search.resumed = self.search.depth + 1
        self._open = [p for p in self._open if p.name not in self.search.found]
        self._open_steps = [p for p in self._open_steps if p.name not in self.search.found]
        return level

    def _batch(self, level: U64) -> Batch:
        """A level, which is in the order of its keys, as a set."""
        return Batch(keys.fingerprints(level), level)

    @property
    def _held(self) -> int:
        return self._visited.nbytes + self._levels_held + self._fresh_held

    def _remember(self, level: U64) -> None:
        search = self.search
        search.levels.append(level)
        search.distinct += level.shape[1]
        self._levels_held += resident(level)
        self._fresh_held = 0
        if self._shelf is not None:
            if self._over_memory(0):
                self._spill(self._shelf)
            search.spilled_bytes = self._shelf.nbytes
        self._note_peak(0)

    def _spill(self, shelf: Shelf) -> None:
        """Move to disk what is only looked up: the levels and the visited keys."""
        levels = self.search.levels
        levels[self._spilled :] = [shelf.keep(states) for states in levels[self._spilled :]]
        self._spilled = len(levels)
        self._visited.move(shelf.keep)
        self._levels_held = 0
        self._release()

    def _allocate(self, size: int) -> U64:
        """Space for a merged run of visited keys, or for a level: on disk, once memory is full."""
        if self._shelf is not None and self._over_memory(size):
            return self._shelf.allocate(size)
        return np.empty(size, np.uint64)

    def _release(self) -> None:
        assert self._shelf is not None
        self._shelf.release()

    def _judge(self, level: U64, depth: int | None = None) -> None:
        depth = self.search.last if depth is None else depth
        for wanted in list(self._open):

            def first(chunk: U64, wanted: Property = wanted) -> PackedState | None:
                value = wanted.kind.decided_by
                if self._compiled is not None:
                    return self._compiled.first(wanted, chunk, value)
                deciding = self.model.holds(wanted, chunk) == value
                return packed(chunk, int(deciding.argmax())) if deciding.any() else None

            state = next((s for s in self._map(first, list(_chunks(level))) if s is not None), None)
            if state is not None:
                self.search.found[wanted.name] = Found(depth, state)
                self._open.remove(wanted)

    def _next(self, level: U64) -> U64:
        """The states that are new after one more step; a part of them if a bound is hit, see `stopped_by`."""
        work = partial(
            partial(expand, self.model) if self._compiled is None else self._compiled.expand,
            steps=tuple(self._open_steps),
            deadlocks=self._deadlocks,
            exact=self._exact,
            pending=self._work.pending,
        )
        wave = self._work.wave
        fresh: list[Batch] = []
        pending: list[Batch] = []
        size = level.shape[1]
        chunks = list(_chunks(level, self._chunk_size(size)))
        for start in range(0, len(chunks), wave):
            expanding = []
            for expanded in self._map(work, chunks[start : start + wave]):
                self._account(expanded)
                pending.append(expanded.batch)
                expanding.append(expanded.work_bytes)
            waiting = sum(len(batch) for batch in pending)
            self._note_peak(sum(sorted(expanding)[-self._workers :]) + sum(batch.nbytes for batch in pending))
            last = start + wave >= len(chunks)
            limited = self._bounds.memory is not None
            most = self._work.waiting if limited else max(2 * size, self._work.waiting)
            if last or waiting > most or self._over(waiting):
                fresh.append(self._shelved(self._merge_unseen(pending)))
                self._visited.add(fresh[-1])
                self._fresh_held += 0 if is_on_disk(fresh[-1].keys) else fresh[-1].nbytes
                self._note_peak(self._visited.merge_bytes)
                pending = []
                if not last and (stopped_by := self._over(sum(len(batch) for batch in fresh))):
                    self.search.stopped_by = stopped_by
                    break
            if self._shelf is not None:
                self._release()
        self._branching = max(1.0, self.search.generated / max(1, self.search.distinct))
        for wanted in [p for p in self._open_steps if p.name in self.search.found]:
            self._open_steps.remove(wanted)
        return self._joined(fresh)

    def _narrow(self, level: U64) -> U64:
        """Take all narrow levels after this one that decide nothing, in one call; the last of them."""
        search, bounds = self.search, self._bounds
        if self._compiled is None or self.model.bounds or self._exact or bounds.memory is not None:
            return level
        if self._narrow_after > search.depth:
            return level
        most = _NEVER if bounds.max_states is None else bounds.max_states - search.distinct
        found = self._compiled.narrow(
            level,
            self._visited.runs,
            states=self._open,
            steps=self._open_steps,
            deadlocks=self._deadlocks,
            most_levels=_NEVER if bounds.max_depth is None else bounds.max_depth - search.last,
            most_states=most,
        )
        if found is None:  # most levels are not narrow: try again later, and then later still
            self._narrow_wait *= 2
            self._narrow_after = search.depth + self._narrow_wait
            return level
        self._narrow_wait = 1
        for start, end in pairwise([0, *found.ends]):
            search.levels.append(found.states[:, start:end])
        search.distinct += found.states.shape[1]
        search.fired = [old + int(new) for old, new in zip(search.fired, found.fired, strict=True)]
        search.generated += int(found.fired.sum())
        self._levels_held += found.states.nbytes
        self._visited.add(keys.distinct(found.states.copy()))
        self._note_peak(self._visited.merge_bytes)
        return search.levels[-1]

    def _shelved(self, batch: Batch) -> Batch:
        """A new part of a level, on disk once memory is full."""
        if self._shelf is None or not self._over_memory(len(batch)):
            return batch
        self._visited.move(self._shelf.keep)
        return batch.moved(self._shelf.keep)

    def _joined(self, fresh: list[Batch]) -> U64:
        """The parts of a level as one, in the order of the keys; no state is in two of them."""
        if len(fresh) == 1:
            return fresh[0].states
        words, size = self.model.words, sum(map(len, fresh))
        level = self._allocate(words * size).reshape(words, size)
        largest = max(fresh, key=len).keys
        parts = max(1, size // (self._work.waiting if self._bounds.memory is not None else _WAITING))
        cuts = sorted({int(largest[len(largest) * i // parts]) for i in range(1, parts)})
        at = 0
        for low, high in pairwise([0, *cuts, 1 << 64]):
            inside = [batch.between(low, high) for batch in fresh]
            part = keys.merge([batch for batch in inside if len(batch)] or inside[:1], exact=self._exact)
            level[:, at : at + len(part)] = part.states
            at += len(part)
            self._note_peak(resident(level) + len(part) * row_bytes(words))
            if self._shelf is not None:
                self._release()
        return level

    def _account(self, expanded: Expanded) -> None:
        search = self.search
        search.fired = [old + int(new) for old, new in zip(search.fired, expanded.fired, strict=True)]
        search.generated += int(expanded.fired.sum())
        if search.deadlock is None and expanded.deadlock is not None:
            search.deadlock = Found(search.last, expanded.deadlock)
        for name, (_, before, label, after) in expanded.steps.items():
            search.found.setdefault(name, Found(search.last, before, label, after))

    def _merge_unseen(self, batches: list[Batch]) -> Batch:
        """The union of some batches without what has been visited; ranges of keys in parallel.

        Empties the list of the caller, so that the batches are freed before the result is built.
        """
        batches[:] = [batch for batch in batches if len(batch)]
        if not batches:
            return keys.empty(self.model.words)
        total = sum(len(batch) for batch in batches)
        waiting = sum(batch.nbytes for batch in batches)
        parts = 1 if total < _SMALL else self._work.parts * (1 + total // (1 << 21))
        if self._shelf is not None and self._bounds.memory is not None:
            # A lookup maps the pages that it reads: no more of them at a time than fit.
            mapped = 8 * self._workers * self._shelf.nbytes // self._bounds.memory
            parts = max(parts, min(mapped, total >> 12))
        largest = max(batches, key=len).keys
        cuts = sorted({int(largest[len(largest) * i // parts]) for i in range(1, parts)})
        bounds = [0, *cuts, 1 << 64]

        def unseen(part: int) -> Batch:
            low, high = bounds[part], bounds[part + 1]
            inside = [batch.between(low, high) for batch in batches]
            merged = keys.merge([batch for batch in inside if len(batch)] or inside[:1], exact=self._exact)
            found = merged.select(self._visited.within(low, high).unseen(merged))
            if self._shelf is not None:
                self._release()
            return found

        done = self._map(unseen, list(range(len(bounds) - 1)))
        batches.clear()
        new = sum(batch.nbytes for batch in done)
        merging = total * min(self._workers, len(done)) // len(done) * row_bytes(self.model.words)
        self._note_peak(max(waiting + new + merging, 2 * new))
        if len(done) == 1:
            return done[0]
        states = keys.concatenated([batch.states for batch in done])
        if self.model.words == 1:
            return keys.of_keys(states[0])
        return Batch(np.concatenate([batch.keys for batch in done]), states)

    def _map(self, work: Callable[[A], T], items: list[A]) -> list[T]:
        """Apply `work` to all items, in threads if there are several."""
        if len(items) == 1 or self._workers == 1:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def _chunk_size(self, states: int) -> int:
        """As few chunks as fit the caches and the limit, and as many as keep every thread busy to the end."""
        most = self._work.chunk
        if self._bounds.memory is not None:
            most = min(most, max(1 << 9, int(self._work.pending / 2 / self._branching)))
        if states < _SMALL:
            return min(most, _SMALL)
        rounds = -(-states // (most * self._workers))
        return -(-states // (rounds * self._workers))

    def _must_stop(self) -> bool:
        search = self.search
        kinds = {wanted.name: wanted.kind for wanted in self.model.properties}
        violated = search.deadlock is not None or not all(kinds[name].is_goal for name in search.found)
        if violated and not self._keep_going:
            search.stopped_by = "a violation"
            return True
        stopped_by = search.stopped_by or self._over(0)
        if not stopped_by and self._bounds.max_depth is not None and search.last >= self._bounds.max_depth:
            stopped_by = f"the bound of {self._bounds.max_depth:,} steps"
        search.stopped_by = stopped_by
        return bool(stopped_by)

    def _over(self, more: int) -> str:
        """The bound that `more` states would hit, or an empty text."""
        most = self._bounds.max_states
        if most is not None and self.search.distinct + more > most:
            return f"the bound of {most:,} states"
        if self._shelf is None and self._over_memory(more):
            return f"the memory limit of {self._bounds.memory:,} bytes"
        return ""

    def _over_memory(self, more: int) -> bool:
        """True if `more` states would not fit beside the work."""
        memory = self._bounds.memory
        if memory is None:
            return False
        room = max(memory // (2 if self._shelf is None else 4), memory - self._work.nbytes)
        return self._held + 16 * self.model.words * more > room

    def _note_peak(self, transient: int) -> None:
        self.search.peak_bytes = max(self.search.peak_bytes, self._held + transient)

    def _report(self, frontier: int, begun: float) -> None:
        if self._progress is not None:
            at, seconds = self.search, perf_counter() - begun
            held, spilled = self._held, at.spilled_bytes
            self._progress(Progress(at.depth, frontier, at.distinct, at.generated, seconds, held, spilled))


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _chunks(states: U64, size: int = _CHUNK) -> Iterator[U64]:
    for start in range(0, states.shape[1], size):
        yield states[:, start : start + size]
