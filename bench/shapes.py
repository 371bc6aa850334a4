"""Runs of shapes that no judge has seen: tens of thousands of them, each really driven.

    python -m bench.shapes [--systems publish,ingest] [--driven 50000] [--keep DIR] [--memory]

The adversary drives a system's own programs, with crashes, lost replies, late landings and conflicts. Two
runs have one shape if they differ in names alone: event by event they have equal phases, kinds, conditions,
outcomes and names of trace fields, and their processes and keys, numbered by first appearance, are equal. A
run is kept if its shape is new. It is judged with an automaton that has read nothing, part by part as
`fencepost replay` does, and again with the automaton that is there by then: the difference is what building
it costs. Rates are events per processor second, from Parquet to verdicts, continuity included.

With `--memory`, the most that a process had resident while it judged 1 and 10 million events of copies.
Writes out/bench/shapes.json; ends with 1 when a bar is missed.
"""

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import report
from bench.traces import Kept, driven, write
from fencepost.impl.store.events import Event
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton
from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.properties.refinement.symbols import SymbolReader
from fencepost.sim.explore import Setting
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.local import Outcome, replay
from fencepost.sim.replay.parts import load as load_part
from fencepost.sim.replay.parts import plan
from fencepost.sim.systems import SYSTEMS
from fencepost.sim.systems.system import System, load
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import COLUMNS, numbered, text
from fencepost.sim.trace.columns import events as columns_of
from fencepost.sim.trace.grouping import LINK, grouped, halfway
from fencepost.sim.trace.schema import SCHEMA
from fencepost.sim.trace.writing import sorted_by_run
from fencepost.sim.world import Budget, World
from fencepost.sim.world.trace import events

RATE = 200_000
"""Events per processor second, of runs of new shapes."""
BUILDING = 1.0
"""Seconds of building the automaton for each second of judging, at most."""
FAULTS = {"crash": 1, "reply_lost": 1, "request_lost": 1, "late": 1, "conflict": 1}
RUNS_A_TURN = 100
"""Runs that are driven of a scenario before it is the next one's turn."""
TURNS_WITHOUT = 40
"""Turns in a row that bring nothing new, after which a system has no more shapes to offer."""
_SHAPE = ("phase", "kind", "condition", "outcome")
_WORLD = "world"


class _Driven(Kept):
    """Random runs, whose events are kept, those of the setup too."""

    def _after(self, world: World, ended: bool) -> None:
        super(Kept, self)._after(world, ended)
        if ended:
            world.show_bodies(self.trace_fields)
            self.runs.append(events(world, f"{self.name}-{len(self.runs):06d}"))


def tables(system: System, wanted: int) -> Iterator[pa.Table]:
    """Runs of new shapes, in tables, until there are so many or the scenarios offer no more."""
    shapes: set[bytes] = set()
    scenarios = sorted(load(f"{system.program.partition(':')[0]}:SCENARIOS"))
    turn = last = 0
    by = load(system.refinement).runs
    while len(shapes) < wanted and turn - last < TURNS_WITHOUT:
        name = scenarios[turn % len(scenarios)]
        table = _grouped(table_of(_events(system, name, turn)), by)
        turn += 1
        if len(table):
            table = sorted_by_run(table)
            fresh = _fresh(table, shapes, wanted)
            if fresh.any():
                last = turn
                yield table.filter(pa.array(fresh)).select(SCHEMA.names)


def _events(system: System, scenario: str, turn: int) -> Iterator[Event]:
    program = partial(load(system.program), scenario=scenario, lockstep="off")
    budget = Budget(**{**FAULTS, **system.faults})
    # A name sorts behind those of earlier turns, so that row groups follow each other.
    name = f"{turn:06d}-{scenario}"
    search = _Driven(Setting(program, budget, seed=turn), name, load(system.trace_fields))
    search.explore(lambda done: done.schedules >= RUNS_A_TURN)
    return (event for run in search.runs for event in run)


def _grouped(table: pa.Table, by: Any) -> pa.Table:
    """The runs that a map judges, apart for each run that was driven."""
    if by == "run":
        return table
    table = table.append_column(_WORLD, table["run"])
    if isinstance(by, LinkedRuns):
        table, _ = halfway(by, table)
        links = pc.binary_join_element_wise(table[_WORLD].cast(pa.string()), table[LINK], "\n").to_pylist()
        named = table["run"].to_pylist()
        known: dict[str, str] = {}
        for link, run in zip(links, named, strict=True):
            if run and not link.endswith("\n"):
                known.setdefault(link, run)
        runs = [run or known.get(link) for link, run in zip(links, named, strict=True)]
        table = table.set_column(table.column_names.index("run"), "run", pa.array(runs, pa.string()))
        table = table.filter(pc.is_valid(table["run"]))
    else:
        table, _ = grouped(table, by)
    name = pc.binary_join_element_wise(table[_WORLD].cast(pa.string()), table["run"].cast(pa.string()), "/")
    return table.set_column(table.column_names.index("run"), "run", name)


def _fresh(table: pa.Table, shapes: set[bytes], wanted: int) -> "np.ndarray[Any, Any]":
    """The rows of runs whose shape is new."""
    run = text(table["run"]).codes
    # Names and numbers in bodies differ in every run; the words around them are the shape.
    words = pc.replace_substring_regex(table["trace_fields"].cast(pa.string()), r"=[^ ]*", "=")
    columns = [_by_appearance(run, text(table[name]).codes) for name in ("process", "key")]
    columns += [_digests(table[name]) for name in _SHAPE]
    rows = np.stack([*columns, _digests(words), table["incarnation"].to_numpy()], axis=1)
    starts = np.flatnonzero(np.append(True, run[1:] != run[:-1]))
    fresh = np.zeros(len(run), np.bool_)
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(run)], strict=True):
        shape = _hash(rows[start:end].tobytes())
        if shape not in shapes and len(shapes) < wanted:
            shapes.add(shape)
            fresh[start:end] = True
    return fresh


def _by_appearance(run: "np.ndarray[Any, Any]", codes: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Names as numbers within each run, in the order in which the run has them."""
    pair, count = numbered(run, codes)
    first = np.full(count, len(pair))
    np.minimum.at(first, pair, np.arange(len(pair)))
    order = np.lexsort((first, run[first]))
    names = np.bincount(run[first])
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count) - np.repeat(np.cumsum(names) - names, names)
    return rank[pair]


def _digests(column: Any) -> "np.ndarray[Any, Any]":
    """Texts as numbers that are the same in every table."""
    found = text(column)
    hashes = [_hash(str(value).encode())[:7] for value in found.values.array.to_pylist()]
    return np.array([int.from_bytes(one, "big") for one in hashes], np.int64)[found.codes]


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=12).digest()


def drive(name: str, wanted: int, path: Path) -> None:
    """Write so many runs of new shapes of a system."""
    runs = 0
    with pq.ParquetWriter(path, SCHEMA, compression="lz4") as writer:
        for table in tables(SYSTEMS[name], wanted):
            writer.write_table(table.cast(SCHEMA))
            runs += len(pc.unique(table["run"]))
            sys.stderr.write(f"\r{name}: {runs:,} runs of {wanted:,}")
    sys.stderr.write("\n")


def judged(name: str, path: Path) -> dict[str, Any]:
    """Judge the runs twice: with an automaton that has read nothing, and with that one again."""
    automaton = Automaton(load(SYSTEMS[name].refinement)(), slots=8)
    outcome, cold = _timed(automaton, path)
    _, warm = _timed(automaton, path)
    return {
        "runs": outcome.runs,
        "events": outcome.events,
        "read": outcome.read,
        "counts": [outcome.accepted, outcome.rejected, outcome.undecided],
        "distinct_for_the_model": _distinct(automaton, path),
        "sets": len(automaton),
        "states": len(automaton.space),
        "processor_seconds": round(cold, 2),
        "building_seconds": round(cold - warm, 2),
        "judging_seconds": round(warm, 2),
        "events_per_processor_second": round(outcome.events / cold),
    }


def _timed(automaton: Automaton, path: Path) -> tuple[Outcome, float]:
    begun = process_time()
    with tempfile.TemporaryDirectory() as folder:
        parts = plan([path], "run", Path(folder), print).parts
        outcome = replay(Judge(automaton, whole=True), parts, counted=False)
    return outcome, process_time() - begun


def _distinct(automaton: Automaton, path: Path) -> int:
    """The number of runs that differ for the model."""
    reader, found = SymbolReader(automaton, Lock()), set()
    with tempfile.TemporaryDirectory() as folder:
        for part in plan([path], "run", Path(folder), print).parts:
            read = reader.read(columns_of(load_part(part, COLUMNS, print)))
            for start, length in zip(read.starts.tolist(), read.lengths.tolist(), strict=True):
                found.add(_hash(read.symbols[start : start + length].tobytes()))
    return len(found)


def resident(count: int) -> int:
    """The most bytes that a process has resident while it judges so many events of copies."""
    words = [sys.executable, "-m", "bench.shapes", "--resident", str(count)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603 - ourselves
    return int(json.loads(done.stdout))


def _resident(count: int) -> None:
    base = driven(60)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.parquet")
        write(path, count, base, {})
        parts = plan([path], "run", Path(folder), print).parts
        replay(Judge(Automaton(PublishRefinement(3, 4)), whole=True), parts, counted=False)
    sys.stdout.write(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))


def headline(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows of the page on performance."""
    rows = []
    for name, one in found["systems"].items():
        what = f"{one['runs']:,} runs of new shapes, {one['distinct_for_the_model']:,} distinct for the model"
        rate = f"{one['events_per_processor_second']:,} events per processor second (bar >= {RATE:,})"
        spent = f"{one['building_seconds']} s building the automaton, {one['judging_seconds']} s judging"
        rows.append((f"{name}: {what}, {one['events']:,} events", f"{rate}; {spent}"))
    for events_, size in found.get("resident_bytes", {}).items():
        rows.append((f"resident memory, {int(events_):,} events of copies", f"{size / 1e6:,.0f} MB"))
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.shapes", description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--driven", type=int, default=50_000, help="runs of new shapes, of each system")
    parser.add_argument("--keep", help="a folder for the traces; those that are there are used again")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--resident", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.resident:
        _resident(options.resident)
        return 0
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(options.keep or folder)
        kept.mkdir(parents=True, exist_ok=True)
        for name in options.systems.split(","):
            path = kept / f"{name}-{options.driven}.parquet"
            if not path.exists():
                drive(name, options.driven, path)
            found[name] = judged(name, path)
    bars = {
        name: one["events_per_processor_second"] >= RATE
        and one["building_seconds"] <= BUILDING * one["judging_seconds"]
        for name, one in found.items()
    }
    result: dict[str, Any] = {"systems": found, "bars": bars}
    if options.memory:
        result["resident_bytes"] = {str(count): resident(count) for count in (1_000_000, 10_000_000)}
    return report.tell("shapes", result, ok=all(bars.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
