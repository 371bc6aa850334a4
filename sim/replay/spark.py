"""The Spark engine: the same verdicts on parts, wherever they are; events never come to the driver.

Files whose row groups hold whole runs are not moved. Each part is a task that reads its row groups itself,
the largest first, so that a giant run among a million small ones begins at once and keeps one core. All other
files are read by tasks, one a file, dealt by run with Spark's shuffle, sorted within partitions, and judged
as they stream by, some hundred thousand events of whole runs at a time.

Tasks return a table: a row a run, and a row a task with its sums as JSON. It is written before anything is
read from it, so that a task that ran twice counts once. Spark writes the two kinds of rows into two folders;
that of the runs becomes the table of verdicts.

Workers read files under the names by which the driver found them: on a cluster, in a shared folder.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.properties.refinement import Automaton, Refinement
from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.sim.replay.continuity import NO_CLAIMS, Claims, Continuity, continuity
from fencepost.sim.replay.coverage import label_coverage, taken_labels
from fencepost.sim.replay.judging import Judge, NoModel
from fencepost.sim.replay.local import Outcome, columns_read
from fencepost.sim.replay.parts import (
    EVENTS_A_PART,
    UNNAMED_GAP,
    Clocks,
    Part,
    clocks_of,
    completed_only,
    has_unnamed_gap,
    in_order,
    in_parts,
    load,
)
from fencepost.sim.replay.statistics import Statistics, statistics
from fencepost.sim.replay.tables import VERDICTS
from fencepost.sim.spark.session import ship
from fencepost.sim.trace.columns import events
from fencepost.sim.trace.grouping import LINK, Grouping, grouped, halfway
from fencepost.sim.trace.reading import batches
from fencepost.sim.trace.schema import SCHEMA, Problem, completed

_SQL = {pa.string(): "string", pa.int64(): "long"}
_WHAT, _VERDICT, _SUMS_OF_A_TASK = "what", "verdict", "sums"
_SCHEMA = VERDICTS.append(pa.field(_WHAT, pa.string()))
SUMMED = ", ".join(f"{field.name} {_SQL[field.type]}" for field in _SCHEMA)
"""Rows of both kinds. A row of the sums of a task has them in `reason`."""
EVENTS = ", ".join(f"{field.name} {_SQL[field.type]}" for field in SCHEMA)
_DAMAGE = "fencepost-problem"
"""The phase of a row that is not an event but a problem in reading, in its `key`, `note` and `size`;
without a key, the number of events that belong to no run."""


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to make the same judge."""

    refinement: Callable[[], Refinement] | None
    """None judges continuity alone."""
    slots: int
    counted: bool
    whole: bool
    """As in `Judge`."""
    token: str
    """Of one replay: workers survive tasks, and keep what they have computed."""
    claims: Claims = NO_CLAIMS

    def judge(self) -> Judge | NoModel:
        if self.refinement is None:
            return NoModel(self.whole)
        if self.token not in _JUDGES:
            _JUDGES.clear()
            _JUDGES[self.token] = Judge(Automaton(self.refinement(), slots=self.slots), self.whole)
        return _JUDGES[self.token]

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_read(counted=self.counted)


_JUDGES: dict[str, Judge] = {}


def replay(session: Any, recipe: Recipe, files: list[Path], by: Grouping, verdicts: Path) -> Outcome:
    """Verdicts on all runs of the files; their table is the folder `verdicts`."""
    if recipe.refinement is not None:
        ship(recipe.refinement)
    files, verdicts = (
        [path.absolute() for path in files],
        verdicts.absolute(),
    )  # workers have another working directory
    problems: list[Problem] = []
    plan = in_parts(files, by, problems.append, EVENTS_A_PART)
    if plan is None:
        found = _shuffled(session, recipe, files, by)
    else:
        parts = tuple(sorted(plan.parts, key=lambda part: -part.events))
        numbers = session.range(0, len(parts), 1, max(1, len(parts)))
        found = numbers.mapInArrow(JudgeParts(recipe, parts), SUMMED)
    folder = verdicts.with_name(f"{verdicts.name}.new")
    found.write.mode("overwrite").partitionBy(_WHAT).parquet(str(folder))
    rows = session.read.schema(SUMMED).parquet(str(folder)).where(f"{_WHAT} = '{_SUMS_OF_A_TASK}'")
    outcome = Outcome(problems=problems, claims=recipe.claims)
    labels: set[int] = set()
    for row in rows.select("reason").collect():
        summary = json.loads(row.reason)
        labels |= set(summary.get("labels", ()))
        _add(outcome, summary)
    _keep_verdicts(folder, verdicts)
    judge = recipe.judge()
    outcome.not_judged, outcome.has_model = judge.not_judged, isinstance(judge, Judge)
    if recipe.counted and isinstance(judge, Judge):
        outcome.coverage = label_coverage(judge.automaton, labels)
    return outcome


def _keep_verdicts(folder: Path, verdicts: Path) -> None:
    """Make the table of verdicts of what was written, and remove the rest."""
    made = folder / f"{_WHAT}={_VERDICT}"
    if verdicts.is_dir():
        shutil.rmtree(verdicts)
    else:
        verdicts.unlink(missing_ok=True)
    if made.is_dir():
        made.rename(verdicts)
    else:  # there are no runs
        pq.write_table(VERDICTS.empty_table(), verdicts)
    shutil.rmtree(folder)


def _shuffled(session: Any, recipe: Recipe, files: list[Path], by: Grouping) -> Any:
    paths = tuple(map(str, files))
    numbers = session.range(0, len(paths), 1, len(paths))
    if isinstance(by, LinkedRuns):
        read = _joined(numbers.mapInArrow(ReadFiles(paths, by), f"{EVENTS}, {LINK} string"))
    else:
        read = numbers.mapInArrow(ReadFiles(paths, by), EVENTS)
    size = sum(path.stat().st_size for path in files)
    count = max(session.sparkContext.defaultParallelism, min(1000, size // (16 << 20)))
    dealt = read.repartition(count, "run").sortWithinPartitions("run", "seq")
    return dealt.mapInArrow(JudgeStream(recipe), SUMMED)


def _joined(read: Any) -> Any:
    """Events that name only a link get its run from the events that name both; those of an unknown link
    belong to no run. Files are read twice; the links are a table like any other.
    """
    known = read.where(f"run <> '' and {LINK} <> ''").selectExpr(LINK, "run as known").groupBy(LINK)
    known = known.agg({"known": "min"}).withColumnRenamed("min(known)", "known")
    later = read.where("run = ''").join(known, LINK, "left")
    instead = {
        "run": "coalesce(known, '')",
        "phase": f"if(known is null, '{_DAMAGE}', phase)",
        "key": "if(known is null, '', key)",
        "size": "if(known is null, 1, size)",
    }
    later = later.selectExpr(*(f"{instead.get(name, name)} as {name}" for name in SCHEMA.names))
    return read.where("run <> ''").drop(LINK).unionByName(later)


@dataclass(frozen=True)
class JudgeParts:
    """Tasks by number: read a part, judge it."""

    recipe: Recipe
    parts: tuple[Part, ...]

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for number in batch.column("id").to_pylist():
                problems: list[Problem] = []
                table = load(self.parts[number], self.recipe.columns, problems.append)
                yield from _judged(self.recipe, table, problems)


@dataclass(frozen=True)
class ReadFiles:
    """Tasks by number: read a file, name its runs."""

    files: tuple[str, ...]
    by: Grouping

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for number in batch.column("id").to_pylist():
                yield from self._read(Path(self.files[number]))

    def _read(self, path: Path) -> Iterator[pa.RecordBatch]:
        problems: list[Problem] = []
        left_out = 0
        schema = SCHEMA.append(pa.field(LINK, pa.string())) if isinstance(self.by, LinkedRuns) else SCHEMA
        for table in batches([path], problems.append):
            table = completed(table)
            if self.by != "run" and has_unnamed_gap(table):
                problems.append(Problem("the trace", UNNAMED_GAP))
            table, rest = (
                halfway(self.by, table) if isinstance(self.by, LinkedRuns) else grouped(table, self.by)
            )
            left_out += rest
            yield from table.cast(schema).to_batches()
        damage = [
            {"run": str(path), "phase": _DAMAGE, "key": p.where, "note": p.what, "size": p.lines}
            for p in problems
        ]
        if left_out:
            damage.append({"run": str(path), "phase": _DAMAGE, "key": "", "size": left_out})
        yield from pa.Table.from_pylist([{LINK: "", **row} for row in damage], schema=schema).to_batches()


@dataclass(frozen=True)
class JudgeStream:
    """A partition in order: whole runs are cut from it as they come, and judged."""

    recipe: Recipe

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        for batch in rows:
            waiting.append(batch)
            if sum(map(len, waiting)) >= EVENTS_A_PART:
                table = pa.Table.from_batches(waiting)
                cut = _last_run(table)
                if cut:
                    yield from self._judged(table.slice(0, cut))
                waiting = table.slice(cut).combine_chunks().to_batches()
        if waiting:
            yield from self._judged(pa.Table.from_batches(waiting))

    def _judged(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        damage = table.filter(pc.equal(table["phase"], _DAMAGE))
        problems, left_out = [], 0
        for row in damage.to_pylist():
            if row["key"]:
                problems.append(Problem(row["key"], row["note"], row["size"] or 0))
            else:
                left_out += row["size"]
        table = table.filter(pc.not_equal(table["phase"], _DAMAGE))
        table = in_order(completed_only(table, self.recipe.columns)) if len(table) else table
        yield from _judged(self.recipe, table, problems, left_out)


def _last_run(table: pa.Table) -> int:
    """Where the last run of a table in order begins."""
    runs = table["run"].combine_chunks().dictionary_encode().indices.to_numpy()
    return int(np.flatnonzero(runs == runs[-1])[0]) if len(runs) else 0


def _judged(
    recipe: Recipe, table: pa.Table, problems: list[Problem], left_out: int = 0
) -> Iterator[pa.RecordBatch]:
    judge = recipe.judge()
    outcome = Outcome(problems=problems, left_out=left_out)
    if len(table):
        seen = events(table)
        verdicts = judge.verdicts(seen)
        outcome.count(verdicts)
        outcome.clocks = clocks_of(table)
        outcome.continuity = continuity(seen, table, recipe.claims, as_recorded=recipe.whole)
        if recipe.counted:
            outcome.statistics = statistics(seen, table)
        what = pa.repeat(_VERDICT, len(verdicts))
        yield from verdicts.append_column(_WHAT, what).combine_chunks().to_batches()
    row = _row(outcome)
    if recipe.counted and isinstance(judge, Judge) and judge.walk.grown():
        row["labels"] = sorted(taken_labels(judge.walk))
    sums = {_WHAT: _SUMS_OF_A_TASK, "reason": json.dumps(row)}
    yield from pa.Table.from_pylist([sums], schema=_SCHEMA).to_batches()


_SUMS = ("runs", "events", "read", "accepted", "rejected", "undecided", "left_out")


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        **{name: getattr(outcome, name) for name in _SUMS},
        "not_accepted": outcome.not_accepted,
        "continuity": outcome.continuity.as_row(),
        "statistics": outcome.statistics.as_row(),
        "clocks": vars(outcome.clocks),
        "problems": [[problem.where, problem.what, problem.lines] for problem in outcome.problems],
    }


def _add(outcome: Outcome, row: dict[str, Any]) -> None:
    for name in _SUMS:
        setattr(outcome, name, getattr(outcome, name) + row[name])
    outcome.remember(pa.Table.from_pylist(row["not_accepted"], schema=VERDICTS))
    outcome.continuity.add(Continuity(**row["continuity"]))
    outcome.statistics.add(Statistics.from_row(row["statistics"]))
    outcome.clocks = outcome.clocks.joined(Clocks(**row["clocks"]))
    outcome.problems += [Problem(*problem) for problem in row["problems"]]
