"""The Spark engine: the same verdicts on parts, wherever they are; events never come to the driver.

Files whose row groups hold whole runs are not moved, and no row of them passes through the JVM. A task has
the names of some row groups, reads them itself, and judges them with the code of the local engine. The
largest parts come first, so that a giant run among a million small ones begins at once and keeps one core.
All other files are read by tasks, one a file, dealt by run with Spark's shuffle, sorted within partitions,
and judged as they stream by, some hundred thousand events of whole runs at a time.

A task writes its table of verdicts to a file that is its own, and returns the name of the file and its sums.
Spark gives the driver one result of each task, however often the task ran. Only the files of these results
become the table of verdicts, so a task whose executor was lost counts once.

Tasks read and write files under the names by which the driver found them: on a cluster, in a shared folder.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.impl.recording.files import BEGIN
from fencepost.properties.refinement import Automaton, Refinement
from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.sim.replay.continuity import NO_CLAIMS, Claims, Continuity
from fencepost.sim.replay.coverage import label_coverage, taken_labels
from fencepost.sim.replay.heap import keep_freed_memory
from fencepost.sim.replay.judging import Judge, NoModel
from fencepost.sim.replay.local import Outcome, columns_read, judged
from fencepost.sim.replay.parts import (
    EVENTS_A_PART,
    SEVERAL_COUNTERS,
    UNNAMED_GAP,
    Clocks,
    Part,
    completed_only,
    has_kind,
    has_unnamed_gap,
    in_order,
    in_parts,
    load,
    noted_clocks,
)
from fencepost.sim.replay.statistics import Statistics
from fencepost.sim.replay.tables import VERDICTS
from fencepost.sim.spark.session import ship
from fencepost.sim.trace.grouping import LINK, Grouping, grouped, halfway
from fencepost.sim.trace.reading import batches
from fencepost.sim.trace.schema import SCHEMA, Problem, completed

_SQL = {pa.string(): "string", pa.int64(): "long"}
SUMS = "sums string"
"""A row a task: its sums, as JSON."""
EVENTS = ", ".join(f"{field.name} {_SQL[field.type]}" for field in SCHEMA)
_DAMAGE = "fencepost-problem"
"""The phase of a row that is not an event but a problem in reading, in its `key`, `note` and `size`;
without a key, the number of events that belong to no run."""
_CLOCK = "fencepost-clock"
"""The phase of a row that names the clock, in `note`, of a process."""
EVENTS_A_TASK = 1 << 22
"""Events of a task that has more than one part. A task costs a tenth of a second of a core by itself."""
TASKS_A_CORE = 4
"""Tasks for each core, at least, where there are so many parts: the last ones end at about the same time."""


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to make the same judge, and to judge as the local engine does."""

    refinement: Callable[[], Refinement] | None
    """None judges continuity alone."""
    slots: int
    counted: bool
    whole: bool
    """As in `Judge`."""
    token: str
    """Of one replay: workers survive tasks, and keep what they have computed."""
    claims: Claims = NO_CLAIMS
    skew_ns: int | None = None
    """As in `local.replay`."""
    clocks: Mapping[str, str] = field(default_factory=dict)
    """The clock of each process, as its recorder names it."""

    def judge(self) -> Judge | NoModel:
        if self.refinement is None:
            return NoModel(self.whole)
        if self.token not in _JUDGES:
            _JUDGES.clear()
            _JUDGES[self.token] = Judge(Automaton(self.refinement(), slots=self.slots), self.whole)
        return _JUDGES[self.token]


_JUDGES: dict[str, Judge] = {}


def replay(session: Any, recipe: Recipe, files: list[Path], by: Grouping, verdicts: Path) -> Outcome:
    """Verdicts on all runs of the files; their table is the folder `verdicts`."""
    if recipe.refinement is not None:
        ship(recipe.refinement)
    # Workers have another working directory.
    files, verdicts = [path.absolute() for path in files], verdicts.absolute()
    folder = verdicts.with_name(f"{verdicts.name}.new")
    problems: list[Problem] = []
    plan = in_parts(files, by, problems.append, EVENTS_A_PART)
    try:
        if plan is None:
            results = _shuffled(session, recipe, files, by, _empty(folder))
        else:
            tasks = in_tasks(plan.parts, session.sparkContext.defaultParallelism)
            numbers = session.range(0, len(tasks), 1, max(1, len(tasks)))
            found = numbers.mapInArrow(JudgeParts(recipe, tasks, str(_empty(folder))), SUMS)
            results = [json.loads(row.sums) for row in found.collect()]
        keep_verdicts(folder, [name for one in results for name in one["files"]], verdicts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    judge = recipe.judge()
    outcome = Outcome(problems=problems, claims=recipe.claims)
    for one in results:
        outcome.add(_outcome_of(one))
    outcome.not_judged, outcome.has_model = judge.not_judged, isinstance(judge, Judge)
    if recipe.counted and isinstance(judge, Judge):
        labels = {label for one in results for label in one["labels"]}
        outcome.coverage = label_coverage(judge.automaton, labels)
    return outcome


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def keep_verdicts(folder: Path, files: list[str], verdicts: Path) -> None:
    """Make the table of verdicts of these files of a folder."""
    kept = folder / "kept"
    kept.mkdir()
    for name in files:
        (folder / name).rename(kept / name)
    if verdicts.is_dir():
        shutil.rmtree(verdicts)
    else:
        verdicts.unlink(missing_ok=True)
    if files:
        kept.rename(verdicts)
    else:  # there are no runs
        pq.write_table(VERDICTS.empty_table(), verdicts)


def in_tasks(parts: Iterable[Part], cores: int) -> tuple[tuple[Part, ...], ...]:
    """The parts of each task, the largest parts first; a part of more events than a task has is alone."""
    parts = sorted(parts, key=lambda part: -part.events)
    wanted = min(EVENTS_A_TASK, -(-sum(part.events for part in parts) // (cores * TASKS_A_CORE)))
    tasks: list[tuple[Part, ...]] = []
    waiting: list[Part] = []
    for part in parts:
        waiting.append(part)
        if sum(one.events for one in waiting) >= wanted:
            tasks.append(tuple(waiting))
            waiting = []
    return (*tasks, tuple(waiting)) if waiting else tuple(tasks)


def _shuffled(
    session: Any, recipe: Recipe, files: list[Path], by: Grouping, folder: Path
) -> list[dict[str, Any]]:
    """Deal the events by run, and judge them. Runs of several clocks are judged when all clocks are known."""
    paths = tuple(map(str, files))
    numbers = session.range(0, len(paths), 1, len(paths))
    if isinstance(by, LinkedRuns):
        read = _joined(numbers.mapInArrow(ReadFiles(paths, by), f"{EVENTS}, {LINK} string"))
    else:
        read = numbers.mapInArrow(ReadFiles(paths, by), EVENTS)
    size = sum(path.stat().st_size for path in files)
    count = max(session.sparkContext.defaultParallelism, min(1000, size // (16 << 20)))
    dealt = read.repartition(count, "run").sortWithinPartitions("run", "seq")

    def results(recipe: Recipe) -> list[dict[str, Any]]:
        found = dealt.mapInArrow(JudgeStream(recipe, str(folder)), SUMS)
        return [json.loads(row.sums) for row in found.collect()]

    found = results(recipe)
    clocks = {name: clock for one in found for name, clock in one["clock_of"].items()}
    # Events of several counters are in the order of their clocks, which may explain what is not accepted.
    is_open = any(one["several_counters"] and one["accepted"] < one["runs"] for one in found)
    if is_open and clocks and (recipe.skew_ns is not None or len(set(clocks.values())) > 1):
        found = results(replace(recipe, clocks=clocks))
    return found


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
    """Tasks by number: read the parts one after the other, and judge each."""

    recipe: Recipe
    tasks: tuple[tuple[Part, ...], ...]
    folder: str

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _Task(self.recipe, self.folder) as task:
            for batch in rows:
                for number in batch.column("id").to_pylist():
                    for part in self.tasks[number]:
                        problems: list[Problem] = []
                        task.judge(load(part, task.columns, problems.append), problems)
        yield task.result()


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
        clocks: dict[str, str] = {}
        left_out = 0
        schema = SCHEMA.append(pa.field(LINK, pa.string())) if isinstance(self.by, LinkedRuns) else SCHEMA
        for table in batches([path], problems.append):
            table = completed(table)
            if has_kind(table, BEGIN):
                clocks.update(noted_clocks(table))
                if self.by != "run":
                    table = table.filter(pc.not_equal(table["kind"].cast(pa.string()), BEGIN))
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
        damage += [
            {"run": str(path), "phase": _CLOCK, "process": name, "note": clock}
            for name, clock in clocks.items()
        ]
        yield from pa.Table.from_pylist([{LINK: "", **row} for row in damage], schema=schema).to_batches()


@dataclass(frozen=True)
class JudgeStream:
    """A partition in order: whole runs are cut from it as they come, and judged."""

    recipe: Recipe
    folder: str

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        with _Task(self.recipe, self.folder) as task:
            for batch in rows:
                waiting.append(batch)
                if sum(map(len, waiting)) >= EVENTS_A_PART:
                    table = pa.Table.from_batches(waiting)
                    cut = _last_run(table)
                    if cut:
                        _judge_rows(task, table.slice(0, cut))
                    waiting = table.slice(cut).combine_chunks().to_batches()
            if waiting:
                _judge_rows(task, pa.Table.from_batches(waiting))
        yield task.result()


def _judge_rows(task: "_Task", table: pa.Table) -> None:
    """Judge rows of whole runs, some of which are no events."""
    problems = []
    for row in table.filter(pc.equal(table["phase"], _DAMAGE)).to_pylist():
        if row["key"]:
            problems.append(Problem(row["key"], row["note"], row["size"] or 0))
        else:
            task.outcome.left_out += row["size"]
    for row in table.filter(pc.equal(table["phase"], _CLOCK)).to_pylist():
        task.clock_of[row["process"]] = row["note"]
    table = table.filter(pc.invert(pc.is_in(table["phase"], value_set=pa.array([_DAMAGE, _CLOCK]))))
    table = in_order(completed_only(table, task.columns)) if len(table) else table
    task.judge(table, problems)


def _last_run(table: pa.Table) -> int:
    """Where the last run of a table in order begins."""
    runs = table["run"].combine_chunks().dictionary_encode().indices.to_numpy()
    return int(np.flatnonzero(runs == runs[-1])[0]) if len(runs) else 0


class _Task:
    """The sums of a task of Spark, and the file of its verdicts. A task that runs again has another file."""

    def __init__(self, recipe: Recipe, folder: str) -> None:
        from pyspark import TaskContext

        keep_freed_memory()
        self._recipe = recipe
        self._judge = recipe.judge()
        self.columns = columns_read(self._judge, counted=recipe.counted)
        self.outcome = Outcome()
        self.clock_of: dict[str, str] = {}
        self._several_counters = False
        task = TaskContext.get()
        assert task is not None, "tasks run on Spark"
        self._path = Path(folder, f"part-{task.partitionId():05d}-{task.taskAttemptId()}.parquet")
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def judge(self, table: pa.Table, problems: list[Problem]) -> None:
        """Judge the runs of a part that is in order."""
        self._several_counters |= SEVERAL_COUNTERS in table.column_names
        recipe = self._recipe
        verdicts, sums = judged(
            self._judge,
            table,
            claims=recipe.claims,
            counted=recipe.counted,
            skew_ns=recipe.skew_ns,
            clocks=recipe.clocks,
        )
        sums.problems = problems
        self.outcome.add(sums)
        if len(verdicts):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, VERDICTS)
            self._writer.write_table(verdicts)

    def result(self) -> pa.RecordBatch:
        """The row of sums."""
        row = _row(self.outcome)
        row["files"] = [self._path.name] if self._writer is not None else []
        row["clock_of"], row["several_counters"] = self.clock_of, self._several_counters
        row["labels"] = []
        if self._recipe.counted and isinstance(self._judge, Judge):
            row["labels"] = sorted(taken_labels(self._judge.walk))
        return pa.RecordBatch.from_pydict({"sums": [json.dumps(row)]})


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


def _outcome_of(row: dict[str, Any]) -> Outcome:
    """The sums of a task, as `_row` made them."""
    return Outcome(
        **{name: row[name] for name in (*_SUMS, "not_accepted")},
        continuity=Continuity(**row["continuity"]),
        statistics=Statistics.from_row(row["statistics"]),
        clocks=Clocks(**row["clocks"]),
        problems=[Problem(where, what, lines) for where, what, lines in row["problems"]],
    )
