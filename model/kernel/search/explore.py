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
visited keys, plus what merging the current level needs; all of it is counted.

A bound may be hit in the middle of a level. The last level then holds what had been merged so far, and
`stopped_by` names the bound. States of several words are distinguished by their keys only; `keys` gives the
odds that two states share one.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import I64, U64
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.keys import Batch
from fencepost.model.kernel.search.spill import Shelf, resident
from fencepost.model.kernel.search.visited import Visited


@dataclass(frozen=True)
class Progress:
    """How far an exploration has come; what a progress line shows."""

    depth: int
    frontier: int
    distinct: int
    generated: int
    seconds: float
    held_bytes: int
    spilled_bytes: int = 0


@dataclass(frozen=True)
class Found:
    """Where a property was decided: a state of a level, and for a step the label that leads on from it."""

    depth: int
    state: tuple[int, ...]
    label: Label | None = None
    after: tuple[int, ...] | None = None


@dataclass
class Bounds:
    """When to stop without an answer. With `spill`, a directory, memory that is full goes there instead."""

    max_states: int | None = None
    memory: int | None = None
    max_depth: int | None = None
    spill: Path | None = None


@dataclass
class Search:
    """What an exploration has seen. `levels[d]` holds the states first reached after d steps."""

    model: Model
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

    @property
    def depth(self) -> int:
        """The number of levels, the initial states' among them: as TLC counts it."""
        return len(self.levels)

    @property
    def last(self) -> int:
        """The number of the deepest level: the steps to the farthest states."""
        return len(self.levels) - 1


def packed(states: U64, row: int) -> tuple[int, ...]:
    """One packed state as plain numbers."""
    return tuple(int(word) for word in states[:, row])


_PENDING = 1 << 22
"""Successors to gather before repetitions are dropped, so that many labels need no more memory."""


@dataclass
class Expanded:
    """What one chunk gave."""

    batch: Batch
    fired: I64
    deadlock: tuple[int, ...] | None
    steps: dict[str, tuple[int, Found]]


class Expander:
    """How the states of one level are expanded; `depth` is the number of that level."""

    def __init__(
        self, model: Model, *, steps: tuple[Property, ...] = (), deadlocks: bool = True, depth: int = 0
    ) -> None:
        self.model = model
        self.steps = steps
        self.deadlocks = deadlocks
        self.depth = depth

    def expand(self, states: U64) -> Expanded:
        """All successors of a chunk, as a set, with what was noticed on the way."""
        model = self.model
        fired = np.zeros(len(model.labels), np.int64)
        alive = np.zeros(states.shape[1], np.bool_)
        watching = self.deadlocks
        steps: dict[str, tuple[int, Found]] = {}
        frames: list[Frame] = []
        batches: list[Batch] = []
        gathered = 0
        for label in model.labels:
            frame = model.apply(states, label)
            if frame is None:
                continue
            fired[label.number] = frame.size
            if watching:
                frame.mark_origin(alive)
                watching = not alive.all()
            frames.append(frame)
            gathered += frame.size
            if gathered > _PENDING:
                batches.append(self._gather(frames, steps))
                frames, gathered = [], 0
        if frames:
            batches.append(self._gather(frames, steps))
        deadlock = None
        if watching:
            stuck = np.flatnonzero(~alive)
            stuck = stuck.compress(~model.may_end(states.take(stuck, axis=1)))
            deadlock = packed(states, int(stuck[0])) if len(stuck) else None
        batch = keys.merge(batches) if batches else keys.empty(model.words)
        return Expanded(batch, fired, deadlock, steps)

    def _gather(self, frames: list[Frame], steps: dict[str, tuple[int, Found]]) -> Batch:
        """The successors of a few labels as one set, the step properties judged on the way."""
        after = _stacked([frame.finish() for frame in frames])
        if self.steps:
            self._judge_steps(frames, after, steps)
        found = keys.distinct(after)
        standing = self.model.representatives(found.states)
        return found if standing is found.states else keys.distinct(standing)

    def _judge_steps(self, frames: list[Frame], after: U64, steps: dict[str, tuple[int, Found]]) -> None:
        """Keep the violation from the earliest row: a choice that does not depend on the chunks."""
        before = keys.concatenated([frame.kept_before() for frame in frames])
        for wanted in self.steps:
            holds = self.model.holds_between(wanted, before, after)
            if holds.all():
                continue
            start = 0
            for frame in frames:
                part = holds[start : start + frame.size]
                at = int(part.argmin())
                row = int(frame.origin()[at])
                if not part[at] and (wanted.name not in steps or row < steps[wanted.name][0]):
                    one, other = packed(before, start + at), packed(after, start + at)
                    steps[wanted.name] = row, Found(self.depth, one, frame.label, other)
                start += frame.size


def _stacked(parts: list[list[U64]]) -> U64:
    """Successors of many labels, each given as its words, as one new array."""
    states = np.empty((len(parts[0]), sum(len(part[0]) for part in parts)), np.uint64)
    for number in range(len(states)):
        np.concatenate([part[number] for part in parts], out=states[number])
    return states


_CHUNK = 1 << 16
"""States a task: large enough that NumPy's loops outweigh Python, small enough for the caches."""

_WAITING = 1 << 21
"""Successors that may wait to be merged even when the level has fewer states."""

_SMALL = 1 << 13
"""Below this many states threads cost more than they bring."""

T = TypeVar("T")
A = TypeVar("A")


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
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.model = model
        self.search = Search(model, fired=[0] * len(model.labels))
        self._workers = workers or cores()
        self._bounds = bounds or Bounds()
        self._keep_going = keep_going
        self._deadlocks = deadlocks
        self._progress = progress
        wanted = model.properties if properties is None else properties
        self._open = [p for p in wanted if p.kind in ("invariant", "reachable")]
        self._open_steps = [p for p in wanted if p.kind == "step"]
        self._held = 0
        self._levels_held = 0
        self._spilled = 0
        spill = self._bounds.spill if self._bounds.memory is not None else None
        self._shelf = None if spill is None else Shelf(spill)

    def run(self) -> Search:
        """Explore until there is nothing new, a property is violated, or a bound is hit."""
        begun = perf_counter()
        with ThreadPoolExecutor(self._workers) as pool:
            self._pool = pool
            self._visited = Visited(pool, self._workers, self._allocate)
            level = keys.distinct(self.model.initial())
            self.search.generated = len(level)
            self._visited.add(level.keys)
            while len(level):
                self._remember(level)
                self._judge(level)
                self._report(len(level), begun)
                if self._must_stop():
                    break
                level = self._next(level)
            else:
                self.search.complete = True
        self.search.seconds = perf_counter() - begun
        return self.search

    def _remember(self, level: Batch) -> None:
        search = self.search
        search.levels.append(level.states)
        search.distinct += len(level)
        self._levels_held += level.states.nbytes
        self._held = self._visited.nbytes + self._levels_held
        if self._shelf is not None and self._over_memory(0):
            self._spill(self._shelf)
        self._note_peak(0)

    def _spill(self, shelf: Shelf) -> None:
        """Put on disk what will only be looked up: the levels behind the last one, then the visited keys."""
        levels = self.search.levels
        levels[self._spilled : -1] = [shelf.keep(states) for states in levels[self._spilled : -1]]
        self._spilled = len(levels) - 1
        self._visited.move(shelf.keep)
        self._levels_held = resident(levels[-1])
        self._held = self._visited.nbytes + self._levels_held
        self.search.spilled_bytes = shelf.nbytes

    def _allocate(self, size: int) -> U64:
        """Room for a merged run of visited keys: on disk, once memory is full."""
        if self._shelf is not None and self._over_memory(size):
            return self._shelf.allocate(size)
        return np.empty(size, np.uint64)

    def _judge(self, level: Batch) -> None:
        for wanted in list(self._open):
            bad = wanted.kind == "invariant"

            def first(chunk: U64, wanted: Property = wanted, bad: bool = bad) -> tuple[int, ...] | None:
                holds = self.model.holds(wanted, chunk)
                telling = ~holds if bad else holds
                return packed(chunk, int(telling.argmax())) if telling.any() else None

            state = next((s for s in self._map(first, list(_chunks(level.states))) if s is not None), None)
            if state is not None:
                self.search.found[wanted.name] = Found(self.search.last, state)
                self._open.remove(wanted)

    def _next(self, level: Batch) -> Batch:
        """The states that are new after one more step."""
        chunks = list(_chunks(level.states, self._chunk_size(len(level))))
        expander = Expander(
            self.model, steps=tuple(self._open_steps), deadlocks=self._deadlocks, depth=self.search.last
        )
        wave = 4 * self._workers
        fresh: list[Batch] = []
        pending: list[Batch] = []
        for start in range(0, len(chunks), wave):
            for expanded in self._map(expander.expand, chunks[start : start + wave]):
                self._account(expanded)
                pending.append(expanded.batch)
            waiting = sum(len(batch) for batch in pending)
            last = start + wave >= len(chunks)
            if last or waiting > max(2 * len(level), _WAITING) or self._over(waiting):
                fresh.append(self._merge_unseen(pending))
                self._visited.add(fresh[-1].keys)
                self._held += fresh[-1].nbytes + 8 * len(fresh[-1])
                self._note_peak(self._visited.merge_bytes)
                pending = []
                if self._over(sum(len(batch) for batch in fresh)):
                    break
        for wanted in [p for p in self._open_steps if p.name in self.search.found]:
            self._open_steps.remove(wanted)
        if len(fresh) > 1:
            self._note_peak(sum(batch.nbytes for batch in fresh))
        return keys.merge(fresh)

    def _account(self, expanded: Expanded) -> None:
        search = self.search
        search.fired = [old + int(new) for old, new in zip(search.fired, expanded.fired, strict=True)]
        search.generated += int(expanded.fired.sum())
        if search.deadlock is None and expanded.deadlock is not None:
            search.deadlock = Found(search.last, expanded.deadlock)
        for name, (_, found) in expanded.steps.items():
            search.found.setdefault(name, found)

    def _merge_unseen(self, batches: list[Batch]) -> Batch:
        """The union of some batches without what has been visited; ranges of keys side by side.

        Takes the batches away from the caller's list, so that they are gone before the answer is built.
        """
        batches[:] = [batch for batch in batches if len(batch)]
        if not batches:
            return keys.empty(self.model.words)
        total = sum(len(batch) for batch in batches)
        waiting = sum(batch.nbytes for batch in batches)
        parts = 1 if total < _SMALL else self._workers * (1 + total // (1 << 21))
        largest = max(batches, key=len).keys
        cuts = sorted({int(largest[len(largest) * i // parts]) for i in range(1, parts)})
        bounds = [0, *cuts, 1 << 64]

        def unseen(part: int) -> Batch:
            low, high = bounds[part], bounds[part + 1]
            inside = [batch.between(low, high) for batch in batches]
            merged = keys.merge([batch for batch in inside if len(batch)] or inside[:1])
            return merged.select(self._visited.within(low, high).unseen(merged.keys))

        done = self._map(unseen, list(range(len(bounds) - 1)))
        batches.clear()
        new = sum(batch.nbytes for batch in done)
        self._note_peak(max(waiting + new, 2 * new))
        if len(done) == 1:
            return done[0]
        states = keys.concatenated([batch.states for batch in done])
        if self.model.words == 1:
            return keys.of_keys(states[0])
        return Batch(np.concatenate([batch.keys for batch in done]), states)

    def _map(self, work: Callable[[A], T], items: list[A]) -> list[T]:
        """Do the work on all items, in threads when there is more than one."""
        if len(items) == 1 or self._workers == 1:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def _chunk_size(self, states: int) -> int:
        """As few chunks as fit the caches, and as many as keep every thread busy to the end."""
        if states < _SMALL:
            return _SMALL
        most = max(1 << 12, _CHUNK // self.model.words)
        rounds = -(-states // (most * self._workers))
        return -(-states // (rounds * self._workers))

    def _must_stop(self) -> bool:
        search = self.search
        kinds = {wanted.name: wanted.kind for wanted in self.model.properties}
        violated = search.deadlock is not None or any(kinds[name] != "reachable" for name in search.found)
        if violated and not self._keep_going:
            search.stopped_by = "a violation"
            return True
        stopped_by = self._over(0)
        if not stopped_by and self._bounds.max_depth is not None and search.last >= self._bounds.max_depth:
            stopped_by = f"the bound of {self._bounds.max_depth:,} steps"
        search.stopped_by = stopped_by
        return bool(stopped_by)

    def _over(self, more: int) -> str:
        """The bound that is hit when `more` states are added, or nothing."""
        most = self._bounds.max_states
        if most is not None and self.search.distinct + more > most:
            return f"the bound of {most:,} states"
        if self._shelf is None and self._over_memory(more):
            return f"the memory limit of {self._bounds.memory:,} bytes"
        return ""

    def _over_memory(self, more: int) -> bool:
        memory = self._bounds.memory
        return memory is not None and self._held + 16 * self.model.words * more > memory

    def _note_peak(self, transient: int) -> None:
        self.search.peak_bytes = max(self.search.peak_bytes, self._held + transient)

    def _report(self, frontier: int, begun: float) -> None:
        if self._progress is not None:
            search = self.search
            seconds = perf_counter() - begun
            self._progress(
                Progress(
                    search.depth,
                    frontier,
                    search.distinct,
                    search.generated,
                    seconds,
                    self._held,
                    search.spilled_bytes,
                )
            )


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _chunks(states: U64, size: int = _CHUNK) -> Iterator[U64]:
    for start in range(0, states.shape[1], size):
        yield states[:, start : start + size]
