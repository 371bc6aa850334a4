"""Cuts traces into parts of whole runs, so that each part can be judged by itself and forgotten.

A Parquet file keeps the smallest and the largest run name of every row group. Where row groups follow each
other by these names, across all files, parts are found without reading an event: row groups that share a run
stay together. Our writers write so, and so is any table sorted by run.

All other input (lines, files whose runs overlap, runs that are named anew) is rewritten first: events are
dealt to files by the hash of their run, a piece at a time, and each such file is a part. So memory is
bounded by the largest part, which is at least the longest run.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.impl.recording.files import BEGIN, GAP
from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.sim.trace.columns import text
from fencepost.sim.trace.grouping import Grouping, grouped, learn_links, named, unnamed
from fencepost.sim.trace.ordering import numbered_by_one, ordered
from fencepost.sim.trace.reading import Report, batches, is_parquet, open_parquet, read_group
from fencepost.sim.trace.schema import SCHEMA, Problem, TraceError, completed
from fencepost.sim.trace.writing import sorted_by_run

EVENTS_A_PART = 1 << 18
UNNAMED_GAP = "has gaps of which no key is known, so what seems to be missing may have been there"
"""The problem of a trace whose recorder dropped requests, where runs are named by keys."""
SEVERAL_COUNTERS = "several_counters"
"""The column of a part in order that is true in runs whose events were numbered by several counters."""
_PART_BYTES = 32 << 20
_FILES_MAX = 256
"""Files that are open at once while events are dealt."""


_CLOCKS = b"clocks"


@dataclass(frozen=True)
class Clocks:
    """The clocks by which events of several recorders were ordered."""

    difference_ns: int = 0
    """The clocks of two processes differ by at least this much: an ETag was used before it was made."""
    runs: int = 0
    """Runs that were ordered by several clocks."""
    uncertain: int = 0
    """Of those, the runs whose ETags no constant difference explains."""

    def joined(self, other: "Clocks") -> "Clocks":
        most = max(self.difference_ns, other.difference_ns)
        return Clocks(most, self.runs + other.runs, self.uncertain + other.uncertain)

    def as_json(self) -> dict[str, float]:
        difference_s = round(self.difference_ns / 1e9, 6)
        return {"runs": self.runs, "uncertain_runs": self.uncertain, "difference_s": difference_s}


NO_CLOCKS = Clocks()


def clocks_of(table: pa.Table) -> Clocks:
    """The clocks of a part that is in order."""
    noted = (table.schema.metadata or {}).get(_CLOCKS, b"0 0 0")
    return Clocks(*map(int, noted.split()))


@dataclass(frozen=True)
class Part:
    """Some row groups of some files; all events of the runs in them."""

    groups: tuple[tuple[str, tuple[int, ...]], ...]
    events: int


@dataclass(frozen=True)
class Plan:
    """All parts, and the events that belong to no run."""

    parts: tuple[Part, ...]
    left_out: int = 0
    left_out_by: Mapping[str, int] = field(default_factory=dict)
    """Of those, the number by what they are about."""
    clocks: Mapping[str, str] = field(default_factory=dict)
    """The clock of each process, as its recorder names it."""

    @property
    def events(self) -> int:
        return sum(part.events for part in self.parts)


def plan(
    files: Iterable[Path], by: Grouping, folder: Path, report: Report, events: int = EVENTS_A_PART
) -> Plan:
    """Parts of about `events` events; input that must be rewritten first goes to `folder`."""
    files = list(files)
    found = in_parts(files, by, report, events)
    return _dealt(files, by, folder, report) if found is None else found


def in_parts(files: list[Path], by: Grouping, report: Report, events: int = EVENTS_A_PART) -> Plan | None:
    """Parts of the files as they are; None when they have to be rewritten first."""
    if by != "run" or not all(map(is_parquet, files)):
        return None
    problems: list[Problem] = []
    found = _spans(files, problems.append)
    if found is None:
        return None  # rewriting meets the problems again
    for problem in problems:
        report(problem)
    return Plan(tuple(_joined(found, events)))


def load(part: Part, columns: Iterable[str], report: Report) -> pa.Table:
    """The events of a part, by run and number. Row groups that cannot be read are named and left out."""
    tables = []
    for path, groups in part.groups:
        file = open_parquet(Path(path), report)
        for group in groups if file is not None else ():
            try:
                tables.append(read_group(file, group, columns))
            except TraceError as error:
                report(Problem(path, str(error)))
    if not tables:
        return pa.table([pa.array([], SCHEMA.field(name).type) for name in columns], names=list(columns))
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    return in_order(completed_only(table.unify_dictionaries(), columns))


def completed_only(table: pa.Table, columns: Iterable[str]) -> pa.Table:
    """The table with these columns, in the order of the schema; columns that a file leaves out are empty."""
    wanted = set(columns)
    return completed(table).select([name for name in SCHEMA.names if name in wanted])


def in_order(table: pa.Table) -> pa.Table:
    """By run and number; by time and answers, where several counted in one run.

    If there are such runs, the column `SEVERAL_COUNTERS` marks them.
    """
    table = sorted_by_run(_without_beginnings(table))
    run = table["run"].combine_chunks()
    code = (run if pa.types.is_dictionary(run.type) else run.dictionary_encode()).indices.to_numpy()
    seq = table["seq"].to_numpy()
    same = code[1:] == code[:-1]
    odd = same & (seq[1:] == seq[:-1])
    if "t_ns" in table.column_names:
        time = table["t_ns"].to_numpy()
        odd |= same & (time[1:] < time[:-1])
    if not odd.any():
        return table
    landed = text(table["phase"]).is_in(("landed",))
    time = table["t_ns"].to_numpy() if "t_ns" in table.column_names else np.zeros(len(table), np.int64)
    several = ~numbered_by_one(code, seq, time, landed)[code]
    if not several.any():
        return table
    names = pc.unique(run.filter(pa.array(several)).cast(pa.string()))
    order = ordered(table)
    found = order.table.select(table.column_names)
    noted = f"{order.difference_ns} {len(names)} {len(order.uncertain)}"
    found = found.replace_schema_metadata({_CLOCKS: noted.encode()})
    return found.append_column(SEVERAL_COUNTERS, pc.is_in(found["run"].cast(pa.string()), value_set=names))


def has_kind(table: pa.Table, kind: str) -> bool:
    """True if some event may be of this kind; it looks at the dictionaries, where there are any."""
    return any(
        pc.index(chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk, kind).as_py() >= 0
        for chunk in table["kind"].chunks
    )


def _without_beginnings(table: pa.Table) -> pa.Table:
    """The table without the notes by which a recorder begins its files, in runs that one recorder recorded.

    Every such note is numbered 0. Where several recorders wrote, two of these notes are left, so that the
    events are never taken for those of one counter.
    """
    if "kind" not in table.column_names or not has_kind(table, BEGIN):
        return table
    begins = pc.equal(table["kind"].cast(pa.string()), BEGIN)
    wanted = ["run", *(name for name in ("process", "incarnation") if name in table.column_names)]
    found = table.select(wanted).filter(begins).cast(pa.schema([SCHEMA.field(name) for name in wanted]))
    recorders = found.group_by(wanted).aggregate([]).group_by("run").aggregate([([], "count_all")])
    several = recorders.filter(pc.greater(recorders["count_all"], 1))["run"]
    of_several = pc.is_in(table["run"].cast(pa.string()), value_set=several.combine_chunks())
    return table.filter(pc.or_(pc.invert(begins), of_several))


@dataclass(frozen=True)
class _Span:
    first: str
    last: str
    path: str
    group: int
    events: int


def _spans(files: list[Path], report: Report) -> list[_Span] | None:
    """All row groups by the names of their runs; None when they overlap or are unknown."""
    spans = []
    for path in files:
        file = open_parquet(path, report)
        if file is None:
            continue
        column = file.schema_arrow.names.index("run")
        for group in range(file.num_row_groups):
            metadata = file.metadata.row_group(group)
            statistics = metadata.column(column).statistics
            if not metadata.num_rows:
                continue
            if statistics is None or not statistics.has_min_max or statistics.null_count:
                return None
            try:
                first, last = str(statistics.min), str(statistics.max)
            except UnicodeDecodeError:
                return None
            spans.append(_Span(first, last, str(path), group, metadata.num_rows))
    spans.sort(key=lambda span: (span.first, span.last))
    ordered_ = all(one.last <= other.first for one, other in pairwise(spans))
    return spans if ordered_ else None


def _joined(spans: list[_Span], events: int) -> Iterable[Part]:
    """Row groups that share a run together, and small ones with their neighbours."""
    waiting: list[_Span] = []
    for number, span in enumerate(spans):
        waiting.append(span)
        held = sum(one.events for one in waiting)
        following = spans[number + 1] if number + 1 < len(spans) else None
        if following is not None and following.first == span.last:
            continue
        if following is None or held + following.events > events:
            yield _part(waiting)
            waiting = []


def _part(spans: list[_Span]) -> Part:
    groups: dict[str, list[int]] = {}
    for span in spans:
        groups.setdefault(span.path, []).append(span.group)
    named = tuple((path, tuple(numbers)) for path, numbers in groups.items())
    return Part(named, sum(span.events for span in spans))


def _dealt(files: list[Path], by: Grouping, folder: Path, report: Report) -> Plan:
    """Rewrite all events, each run into one file."""
    size = sum(path.stat().st_size * (4 if path.suffix in (".gz", ".parquet") else 1) for path in files)
    count = min(_FILES_MAX, 1 + size // _PART_BYTES)
    writers: dict[int, pq.ParquetWriter] = {}
    dealer = Dealer(by, naming(files, by), count, report)
    try:
        for table in batches(files, report):
            for number, piece in dealer.deal(table):
                if number not in writers:
                    path = folder / f"part-{number:05d}.parquet"
                    writers[number] = pq.ParquetWriter(path, SCHEMA, compression="lz4")
                writers[number].write_table(piece)
    finally:
        for writer in writers.values():
            writer.close()
    parts = []
    for number in sorted(writers):
        path = folder / f"part-{number:05d}.parquet"
        metadata = pq.read_metadata(path)
        parts.append(Part(((str(path), tuple(range(metadata.num_row_groups))),), metadata.num_rows))
    return Plan(tuple(parts), dealer.left_out, dict(dealer.left_out_by.most_common()), dealer.clocks)


@dataclass
class Dealer:
    """Deals events to parts by the hash of their run, and sums up what belongs to none."""

    by: Grouping
    name: Callable[[pa.Table], tuple[pa.Table, int]]
    """Names the runs of a table, see `naming`."""
    count: int
    """The number of parts."""
    report: Report
    left_out: int = 0
    """Events that belong to no run."""
    left_out_by: Counter[str] = field(default_factory=Counter)
    """Of those, the number by what they are about."""
    clocks: dict[str, str] = field(default_factory=dict)
    """The clock of each process, as its recorder names it."""

    def deal(self, table: pa.Table) -> Iterable[tuple[int, pa.Table]]:
        """The events of a table, by the number of their part."""
        whole = completed(table)
        begins = has_kind(whole, BEGIN)
        if begins:
            self.clocks.update(noted_clocks(whole))
        if self.by != "run":
            if begins:
                whole = whole.filter(pc.not_equal(whole["kind"].cast(pa.string()), BEGIN))
            if has_unnamed_gap(whole):
                self.report(Problem("the trace", UNNAMED_GAP))
        named_, rest = self.name(whole)
        self.left_out += rest
        if rest:
            self.left_out_by.update(unnamed(whole, self.by))
        for number, piece in _by_hash(named_, self.count):
            yield number, piece.cast(SCHEMA)


def noted_clocks(table: pa.Table) -> dict[str, str]:
    """The clock of each process, as the notes of recorders name it."""
    begins = table.filter(pc.equal(table["kind"].cast(pa.string()), BEGIN))
    names, words = (begins[name].to_pylist() for name in ("process", "trace_fields"))
    return {name: word.removeprefix("clock=") for name, word in zip(names, words, strict=True)}


def has_unnamed_gap(table: pa.Table) -> bool:
    """True if a recorder dropped requests, or files, and no longer knew which keys they were about."""
    if not has_kind(table, GAP):
        return False
    kind, key = (table[name].cast(pa.string()) for name in ("kind", "key"))
    found = pc.and_(pc.equal(kind, GAP), pc.equal(key, ""))
    return bool(pc.any(pc.and_(found, pc.equal(table["phase"].cast(pa.string()), "note"))).as_py())


def naming(files: list[Path], by: Grouping) -> Callable[[pa.Table], tuple[pa.Table, int]]:
    """A function that names the runs of a table anew; linked runs require a pass over all files first."""
    if isinstance(by, LinkedRuns):
        tables = batches(files, lambda _: None, columns=("run", "key", "trace_fields"))
        known = learn_links(by, map(completed, tables))
        return lambda table: named(by, table, known)
    return lambda table: grouped(table, by)


def _by_hash(table: pa.Table, count: int) -> Iterable[tuple[int, pa.Table]]:
    if not len(table):
        return
    runs = table["run"].combine_chunks()
    if not pa.types.is_dictionary(runs.type):
        runs = runs.dictionary_encode()
    hashes = [zlib.crc32(str(name).encode()) % count for name in runs.dictionary.to_pylist()]
    where = np.array(hashes, np.int64)[runs.indices.to_numpy()]
    for number in np.unique(where).tolist():
        yield number, table.filter(pa.array(where == number))
