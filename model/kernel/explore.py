"""Breadth-first exploration, one whole level at a time.

Each level is a sorted set of packed states. To get the next one:

    expand   cut the level into chunks; for every chunk run every label, put the successors together,
             sort, drop repetitions, see `expand`       (a chunk is a task for one of the threads)
    merge    cut the space of keys into ranges; in every range merge what the chunks found and drop
             what has been visited                      (a range is a task for one of the threads)
    judge    evaluate the properties on what is new     (again by chunks)
    remember add the new keys to the visited runs, keep the level

NumPy releases the interpreter lock in its loops and sorts, so plain threads keep the cores busy.
Nothing depends on the order in which threads finish: chunks and ranges are put together in order,
and of several violations on one level the first in that order is reported.

A level is what is new after one more step, so a state is first met by a shortest way, and the counterexample
to it
cannot be shorter. Parents are not stored: the levels are kept instead, and `counterexample` walks back
through them.
Memory is therefore 8 bytes a word and state for the levels and 8 bytes a state for the visited
keys, plus what the level at hand needs while it is merged; all of it is counted.

A bound may be hit in the middle of a level. What has been merged by then is the last level, though not all
of it: whoever reads the search learns from `stopped_by` that more was there. States of several words are
told apart by their keys alone, see `keys` for the odds that two share one.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

import numpy as np

from fencepost.model.kernel import keys
from fencepost.model.kernel.declare import Property
from fencepost.model.kernel.expand import Expanded, Expander
from fencepost.model.kernel.keys import Batch
from fencepost.model.kernel.layout import U64
from fencepost.model.kernel.model import Model
from fencepost.model.kernel.search import Bounds, Found, Progress, Search, packed
from fencepost.model.kernel.spill import Shelf, resident
from fencepost.model.kernel.visited import Visited

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
