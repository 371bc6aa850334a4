"""The local engine: threads judge parts side by side, and keep only the verdicts that are not accepted.

Arrow and NumPy release the interpreter lock while they work, so threads keep the cores busy and share one
automaton: what one part has computed, no other computes again. A part is in memory until its verdicts are
known, so memory is bounded by the cores times the largest part.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.sim.replay.continuity import EXTRA as CONTINUITY_EXTRA
from fencepost.sim.replay.continuity import NO_CLAIMS, Claims, Continuity, continuity
from fencepost.sim.replay.coverage import label_coverage, taken_labels
from fencepost.sim.replay.heap import keep_freed_memory
from fencepost.sim.replay.judging import ACCEPTED, REJECTED, UNDECIDED, Judge, NoModel
from fencepost.sim.replay.parts import NO_CLOCKS, UNNAMED_GAP, Clocks, Part, clocks_of, load
from fencepost.sim.replay.result import LabelCoverage, ReplayResult, RunVerdict
from fencepost.sim.replay.skewed import reconsidered
from fencepost.sim.replay.statistics import EXTRA as STATISTICS_EXTRA
from fencepost.sim.replay.statistics import RETRIES, Statistics, statistics
from fencepost.sim.replay.tables import VERDICTS
from fencepost.sim.trace.columns import COLUMNS, events
from fencepost.sim.trace.schema import Problem

LISTED_MAX = 1000
"""Runs that a summary lists; the table of verdicts has all of them."""
_LISTED = [each.name for each in fields(RunVerdict)]
"""The columns of the table of verdicts that a summary shows."""
Verdict = Literal["holds", "violated", "undecided"]


@dataclass
class Outcome:
    """The sums of a replay."""

    runs: int = 0
    events: int = 0
    read: int = 0
    accepted: int = 0
    rejected: int = 0
    undecided: int = 0
    left_out: int = 0
    """Events that belong to no run."""
    left_out_by: dict[str, int] = field(default_factory=dict)
    """Of those, the number by what they are about; empty where that was not counted."""
    not_accepted: list[dict[str, Any]] = field(default_factory=list)
    """Runs that were not accepted, rejected ones first."""
    statistics: Statistics = field(default_factory=Statistics)
    problems: list[Problem] = field(default_factory=list)
    coverage: LabelCoverage | None = None
    claims: Claims = NO_CLAIMS
    has_model: bool = True
    continuity: Continuity = field(default_factory=Continuity)
    not_judged: tuple[str, ...] = ()
    """Facts that the verdicts do not cover."""
    clocks: Clocks = NO_CLOCKS

    def count(self, verdicts: pa.Table) -> None:
        """Add the verdicts of a part by the model."""
        self.runs += len(verdicts)
        self.events += pc.sum(verdicts["events"]).as_py() or 0
        self.read += pc.sum(verdicts["read"]).as_py() or 0
        for name in (ACCEPTED, REJECTED, UNDECIDED):
            many = pc.sum(pc.equal(verdicts["verdict"], name)).as_py() or 0
            setattr(self, name, getattr(self, name) + many)
        self.remember(verdicts.filter(pc.not_equal(verdicts["verdict"], ACCEPTED)))

    def add(self, other: "Outcome") -> None:
        """Add the sums of other parts."""
        for name in ("runs", "events", "read", "accepted", "rejected", "undecided", "left_out"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.not_accepted = sorted(
            [*self.not_accepted, *other.not_accepted],
            key=lambda row: (row["verdict"] != REJECTED, row["run"]),
        )[:LISTED_MAX]
        self.statistics.add(other.statistics)
        self.continuity.add(other.continuity)
        self.clocks = self.clocks.joined(other.clocks)
        self.problems += other.problems
        if self.coverage is None or (other.coverage and other.coverage.taken > self.coverage.taken):
            self.coverage = other.coverage

    def remember(self, verdicts: pa.Table) -> None:
        """Keep runs that were not accepted, as many as a summary lists."""
        self.not_accepted += verdicts.slice(0, 2 * LISTED_MAX).to_pylist()
        self.not_accepted.sort(key=lambda row: (row["verdict"] != REJECTED, row["run"]))
        del self.not_accepted[LISTED_MAX:]

    def result(
        self,
        model: str,
        engine: Literal["local", "spark"],
        seconds: float,
        *,
        grouped_by: str = "",
        started_seconds: float = 0.0,
    ) -> ReplayResult:
        """The result of the replay, which took `seconds` after `started_seconds` to start the engine."""
        return ReplayResult(
            model=model,
            engine=engine,
            runs=self.runs,
            events=self.events,
            accepted=self.accepted,
            rejected=self.rejected,
            undecided=self.undecided,
            seconds=seconds,
            events_per_second=round(self.events / max(seconds, 1e-9)),
            violations=self._listed(REJECTED),
            verdict=self.verdict,
            undecided_runs=self._listed(UNDECIDED),
            problems=tuple(str(problem) for problem in self.problems),
            damaged_lines=sum(problem.lines for problem in self.problems),
            left_out=self.left_out,
            left_out_by=dict(self.left_out_by),
            events_read=self.read,
            grouped_by=grouped_by,
            started_seconds=started_seconds,
            continuity=self.continuity.result(self.claims),
            coverage=self.coverage,
            statistics=self.statistics.as_json(),
            clocks=self.clocks.as_json(),
            not_judged=self.not_judged,
        )

    def _listed(self, verdict: str) -> tuple[RunVerdict, ...]:
        return tuple(
            RunVerdict(**{name: row[name] for name in _LISTED if name in row})
            for row in self.not_accepted
            if row["verdict"] == verdict
        )

    @property
    def verdict(self) -> Verdict:
        if self.rejected or self.continuity.found:
            has_gaps = any(problem.what == UNNAMED_GAP for problem in self.problems)
            return "undecided" if has_gaps else "violated"
        # A model accepts whatever its map does not read.
        is_judged = self.runs and (self.read if self.has_model else self.continuity.judged)
        is_open = self.undecided or self.continuity.undecided or self.problems
        return "undecided" if is_open or not is_judged else "holds"


def columns_read(judge: Judge | NoModel, *, counted: bool) -> tuple[str, ...]:
    """The columns of a trace that are read; `counted` with statistics."""
    extra = (*CONTINUITY_EXTRA, *(STATISTICS_EXTRA if counted else ()))
    extra += RETRIES if isinstance(judge, NoModel) else ()
    return tuple(dict.fromkeys((*COLUMNS, *extra)))


def judged(
    judge: Judge | NoModel,
    table: pa.Table,
    *,
    claims: Claims,
    counted: bool,
    skew_ns: int | None,
    clocks: Mapping[str, str],
) -> tuple[pa.Table, Outcome]:
    """The verdicts on the runs of a part that is in order, and their sums. Every engine judges by this."""
    outcome = Outcome()
    if not len(table):
        return VERDICTS.empty_table(), outcome
    seen = events(table)
    if counted:
        outcome.statistics = statistics(seen, table)
    outcome.continuity = continuity(seen, table, claims, as_recorded=judge.whole)
    verdicts = judge.verdicts(seen)
    if isinstance(judge, Judge):
        verdicts = reconsidered(table, verdicts, judge, skew_ns, clocks)
    outcome.count(verdicts)
    outcome.clocks = clocks_of(table)
    return verdicts, outcome


def replay(
    judge: Judge | NoModel,
    parts: Iterable[Part],
    *,
    claims: Claims = NO_CLAIMS,
    counted: bool = True,
    skew_ns: int | None = None,
    clocks: Mapping[str, str] = MappingProxyType({}),
    verdicts: Path | None = None,
    workers: int | None = None,
    progress: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Verdicts on all parts; with `counted` also the statistics; `verdicts` is a file for the table.

    `skew_ns` bounds the difference of clocks; None takes what the recorders show, see `skewed`. `clocks` are
    those of processes.
    """
    keep_freed_memory()
    outcome = Outcome(not_judged=judge.not_judged, claims=claims, has_model=isinstance(judge, Judge))
    workers = workers or os.cpu_count() or 1
    columns = columns_read(judge, counted=counted)

    def work(part: Part) -> tuple[pa.Table, Outcome]:
        problems: list[Problem] = []
        table = load(part, columns, problems.append)
        found, sums = judged(judge, table, claims=claims, counted=counted, skew_ns=skew_ns, clocks=clocks)
        sums.problems = problems
        return found, sums

    # The largest first, so that a giant run does not begin last.
    waiting = sorted(parts, key=lambda part: -part.events)
    with ThreadPoolExecutor(workers) as pool, _Table(verdicts) as table:
        for found, sums in pool.map(work, waiting):
            outcome.add(sums)
            table.write(found)
            if progress is not None:
                progress(outcome)
    if isinstance(judge, NoModel):
        return outcome
    if counted:
        outcome.coverage = label_coverage(judge.automaton, taken_labels(judge.walk))
    if judge.driven is not None and outcome.runs:
        assert outcome.coverage is not None, "transitions are counted where labels are"
        outcome.coverage = replace(outcome.coverage, model=judge.driven.share())
    return outcome


class _Table:
    """The table of verdicts as a file, if requested."""

    def __init__(self, path: Path | None) -> None:
        self._writer = None if path is None else pq.ParquetWriter(path, VERDICTS)

    def write(self, verdicts: pa.Table) -> None:
        if self._writer is not None:
            self._writer.write_table(verdicts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
