"""Breadth-first exploration on Spark: levels are tables, the kernel runs on their parts.

The same search as `fencepost.model.kernel.search.explore`, for spaces beyond the memory of one machine:

    expand     read the level's table in parts; every part through the kernel (`expanding.Expand`), with
               `mapInArrow`; successors and tallies become a table
    merge      of the successors each once, without those of any level so far: Spark's work
    judge      the findings of all parts, the one with the smallest key first
    remember   what is left is the next level's table

Only tallies come to the driver, except for a counterexample: that reads levels back, one at a time. Tables
are files in a folder that the driver and all workers see under one name: any, with a local master; a shared
one on a cluster. Files also make a step repeatable: a lost worker costs its part of one level, not the
search.

`eventually` and `always_recoverable` are decided by the driver afterwards, on all levels, in its memory.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, overload

from fencepost.model import Model
from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.kinds import Judged
from fencepost.model.kernel.language.layout import U64
from fencepost.model.kernel.search import keys
from fencepost.model.kernel.search.explore import Bounds, Found, Progress, Search
from fencepost.sim.spark.expanding import Expand, Recipe, Tally, names, rows_of, schema, states_of
from fencepost.sim.spark.session import ship

_STATES_A_TASK = 1 << 19
"""States a part of a level: minutes for no task, and enough to outweigh a task's start."""


class Levels(Sequence[U64]):
    """The levels of a search, each read from its table on access, in the local engine's order."""

    def __init__(self, folder: Path, words: int, *, exact: bool) -> None:
        self._folder, self._words, self._exact = folder, words, exact
        self.sizes: list[int] = []

    def path(self, depth: int) -> str:
        return str(self._folder / f"level-{depth:05d}")

    def paths(self) -> list[str]:
        return [self.path(depth) for depth in range(len(self.sizes))]

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> U64: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequence[U64]": ...
    def __getitem__(self, index: int | slice) -> "U64 | Sequence[U64]":
        if isinstance(index, slice):
            return _Slice(self, range(len(self))[index])
        depth = range(len(self))[index]
        import pyarrow.dataset as ds  # it imports pandas, two seconds that every replay would take

        table = ds.dataset(self.path(depth), format="parquet").to_table(columns=names(self._words))
        return keys.distinct(states_of(table, self._words), exact=self._exact).states

    def nbytes(self) -> int:
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())


class _Slice(Sequence[U64]):
    """Some of the levels; reads a level on access."""

    def __init__(self, levels: Levels, depths: range) -> None:
        self._levels, self._depths = levels, depths

    def __len__(self) -> int:
        return len(self._depths)

    def __getitem__(self, index: Any) -> Any:
        return self._levels[self._depths[index]]


class SparkEngine:
    """For `check(..., explore=SparkEngine(session, folder))`: explores on Spark, tables in `folder`."""

    def __init__(self, session: Any, folder: Path) -> None:
        self._session, self._folder, self._number = session, folder.absolute(), 0

    def __call__(self, model: Model, *, workers: int | None = None, **how: Any) -> Search:
        self._number += 1
        return SparkExplorer(self._session, model, self._folder / f"exploration-{self._number}", **how).run()


class SparkExplorer:
    """One exploration of one model; `run` returns what the local `Explorer` does."""

    def __init__(
        self,
        session: Any,
        model: Model,
        folder: Path,
        *,
        properties: tuple[Property, ...] | None = None,
        bounds: Bounds | None = None,
        keep_going: bool = False,
        deadlocks: bool = True,
        exact: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.model = model
        self._session, self._folder = session, folder
        self._exact = exact and model.words > 1
        self.levels = Levels(folder, model.words, exact=self._exact)
        self.search = Search(model, exact, fired=[0] * len(model.labels))
        self.search.levels = self.levels  # type: ignore[assignment]
        self._bounds = bounds or Bounds()
        self._keep_going, self._deadlocks, self._progress = keep_going, deadlocks, progress
        wanted = model.properties if properties is None else properties
        self._kinds = {one.name: one.kind for one in wanted}
        self._open = {one.name for one in wanted if one.kind.judged in _SORTS}
        ship(model.machine)

    def run(self) -> Search:
        """Explore until there is nothing new, a property is violated, or a bound is hit."""
        begun = perf_counter()
        search = self.search
        first = keys.distinct(self.model.initial(), exact=self._exact)
        search.generated = size = len(first)
        self._write_first(rows_of(first))
        while size:
            search.distinct += size
            self.levels.sizes.append(size)
            tally = self._expand(search.last)
            self._judge(tally)
            self._report(size, begun)
            if self._must_stop():
                break
            self._account(tally)
            size = self._merge(len(self.levels))
        else:
            search.complete = True
        search.seconds, search.peak_bytes = perf_counter() - begun, self.levels.nbytes()
        return search

    def _write_first(self, rows: Any) -> None:
        # By Spark, not by this process: the folder may be anything that Spark can write.
        frame = self._session.createDataFrame(rows.to_pylist(), schema(self.model.words))
        frame.drop("tally").coalesce(1).write.parquet(self.levels.path(0))

    def _expand(self, depth: int) -> Tally:
        """Successors and tallies of a level, as a table; returns the sum of the tallies."""
        states, steps = (
            tuple(name for name, kind in self._kinds.items() if name in self._open and kind.judged is sort)
            for sort in _SORTS
        )
        deadlocks = self._deadlocks and self.search.deadlock is None
        task = Expand(Recipe.of(self.model), states, steps, deadlocks, self._exact)
        level = self._session.read.parquet(self.levels.path(depth))
        parts = -(-self.levels.sizes[depth] // _STATES_A_TASK)
        if parts > 1:
            level = level.repartition(max(parts, self._session.sparkContext.defaultParallelism))
        level.mapInArrow(task, schema(self.model.words)).write.mode("overwrite").parquet(self._successors)
        made = self._session.read.schema(schema(self.model.words)).parquet(self._successors)
        tallies = made.where("tally is not null").select("tally").collect()
        total = Tally([0] * len(self.model.labels))
        for row in tallies:
            total.add(Tally.read(row.tally))
        return total

    @property
    def _successors(self) -> str:
        return str(self._folder / "successors")

    def _merge(self, depth: int) -> int:
        """Write the next level: what is new among the successors. Returns its size."""
        same = names(self.model.words) if self._exact else names(self.model.words)[:1]
        made = self._session.read.schema(schema(self.model.words)).parquet(self._successors)
        fresh = made.where("tally is null").drop("tally").dropDuplicates(same)
        seen = self._session.read.parquet(*self.levels.paths()).select(same)
        fresh.join(seen, same, "left_anti").write.mode("overwrite").parquet(self.levels.path(depth))
        return int(self._session.read.parquet(self.levels.path(depth)).count())

    def _judge(self, tally: Tally) -> None:
        for name, (_, state) in tally.found.items():
            self.search.found[name] = Found(self.search.last, tuple(state))
            self._open.discard(name)

    def _account(self, tally: Tally) -> None:
        search = self.search
        search.fired = [old + new for old, new in zip(search.fired, tally.fired, strict=True)]
        search.generated += sum(tally.fired)
        if tally.stuck is not None and search.deadlock is None:
            search.deadlock = Found(search.last, tuple(tally.stuck[1]))
        for name, (_, (state, label, after)) in tally.steps.items():
            search.found[name] = Found(search.last, tuple(state), self.model.labels[label], tuple(after))
            self._open.discard(name)

    def _must_stop(self) -> bool:
        search, bounds = self.search, self._bounds
        violated = not all(self._kinds[name].is_goal for name in search.found)
        if (violated or search.deadlock is not None) and not self._keep_going:
            search.stopped_by = "a violation"
        elif bounds.max_states is not None and search.distinct > bounds.max_states:
            search.stopped_by = f"the bound of {bounds.max_states:,} states"
        elif bounds.max_depth is not None and search.last >= bounds.max_depth:
            search.stopped_by = f"the bound of {bounds.max_depth:,} steps"
        return bool(search.stopped_by)

    def _report(self, frontier: int, begun: float) -> None:
        search = self.search
        if self._progress is not None:
            seconds, held = perf_counter() - begun, self.levels.nbytes()
            self._progress(Progress(search.depth, frontier, search.distinct, search.generated, seconds, held))


_SORTS = (Judged.STATES, Judged.STEPS)
