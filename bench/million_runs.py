"""A million runs of each library, every one with names of its own: all of them must be accepted.

    python -m bench.million_runs [--runs 1000000]

A few hundred runs are really driven by the adversary, with crashes, lost replies, late landings and
conflicts; their columns are repeated under other names (bench/traces.py). The trace is written and judged in
portions, because of its size. Writes out/bench/million-runs.json; ends with 1 when a run is not accepted.
"""

import argparse
import resource
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from bench import report
from bench.traces import PUBLISH, Source, copies, distinct, driven
from fencepost.impl.ingest.trace_fields import trace_fields as ingest_trace_fields
from fencepost.properties.ingest.refinement import IngestRefinement
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton, Refinement
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.local import replay
from fencepost.sim.replay.parts import plan
from fencepost.sim.systems.ingest.scenarios import program as ingest
from fencepost.sim.trace import table_of, write_parquet

INGEST = Source(
    ingest,
    ingest_trace_fields,
    (
        (r"agent=([0-9a-f]+)", r"agent=\1MARK"),
        (r"([0-9a-f]{58})[0-9a-f]{6}([^0-9a-f]|$)", r"\1MARK\2"),
    ),
    conflicts=0,
)
"""An agent's name gets longer, a hash keeps its length. A collector that is refused thrice in a row ends, so
no request is refused beside those that are lost.
"""

SYSTEMS: dict[str, tuple[Source, tuple[str, ...], Any]] = {
    "publish": (PUBLISH, ("skew", "rivals", "two-tables"), partial(PublishRefinement, 3, 4)),
    "ingest": (INGEST, ("retry", "conflict"), IngestRefinement),
}
DRIVEN = 200
RUNS_A_PORTION = 100_000


def judged(name: str, runs: int) -> dict[str, Any]:
    """So many runs of a library, portion by portion."""
    source, scenarios, refinement = SYSTEMS[name]
    base = driven(DRIVEN, scenarios, source)
    table = table_of(event for run in base for event in run)
    automaton: Automaton = Automaton(_made(refinement))
    total = {"runs": 0, "events": 0, "accepted": 0, "rejected": 0, "undecided": 0}
    seconds = processor_seconds = 0.0
    while total["runs"] < runs:
        wanted = min(RUNS_A_PORTION, runs - total["runs"])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.parquet"
            first = total["runs"] // len(base)
            write_parquet(path, copies(table, -(-wanted // len(base)), first, source))
            begun, worked = perf_counter(), process_time()
            found = replay(Judge(automaton), plan([path], "run", Path(folder), print).parts, counted=False)
            seconds += perf_counter() - begun
            processor_seconds += process_time() - worked
        for key in total:
            total[key] += getattr(found, key)
    return {
        **total,
        "driven": len(base),
        "distinct_driven": distinct(base, _made(refinement)),
        "seconds": round(seconds, 1),
        "events_per_second": round(total["events"] / seconds),
        "events_per_processor_second": round(total["events"] / processor_seconds),
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _made(refinement: Any) -> Refinement:
    made: Refinement = refinement()
    return made


def headline(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows of the page on performance."""
    return [
        (
            f"{name}: {row['runs']:,} runs, copies of {row['driven']} driven runs "
            f"({row['distinct_driven']} of them distinct)",
            f"{row['accepted']:,} accepted, "
            f"{row['events_per_processor_second']:,} events per processor second",
        )
        for name, row in found.items()
        if isinstance(row, dict) and "driven" in row
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.million_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000, help="of each library")
    chosen = parser.parse_args(arguments)
    figures = {name: judged(name, chosen.runs) for name in SYSTEMS}
    ok = all(row["accepted"] == row["runs"] >= chosen.runs for row in figures.values())
    return report.tell("million-runs", figures, ok=ok)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
