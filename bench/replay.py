"""Replay at size: ten million events of the real publish library against its model.

    python -m bench.replay [--events 10000000] [--runs 240] [--planted 3] [--seed 1] [--engines local,spark]
                           [--mutated 60] [--keep DIR]

A few hundred runs are driven, and repeated under names of their own; the figures say how many of them differ.

One run on one machine measures three things. Speed: events a second from Parquet to verdicts on both engines,
start-up apart, with and without the request rules, beside the same model stepped run by run over a sample of
the events. The bar is taken against the stepped model with its automaton already built, core against core;
it is also stepped with nothing cached. Planted violations: fifteen kinds at drawn places, all of which must
be found at the right event, and nothing else. Mutations: each must be found at the event that builds on the
change. Writes out/bench/replay.json; ends with 1 when a bar is missed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from bench import report
from bench.mutations import Mutation, mutations
from bench.planted import PLANTS, Planted, plant
from bench.traces import Spoiled, distinct, driven, random_choice, write
from fencepost.impl.store.events import Event
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton, follow
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.local import Outcome, replay
from fencepost.sim.replay.parts import in_order, plan
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as events_in

RATE, FACTOR, RIGHT, MEMORY = 1_000_000, 30, 0.99, 4 << 30
SPARK = 1.2
"""Times the rate of the local engine, on as many cores and in the same run; both with the automaton built."""
refinement = partial(PublishRefinement, 3, 4)


def local(path: Path, automaton: Automaton, *, counted: bool = False) -> tuple[Outcome, dict[str, Any]]:
    """The local engine over the whole file, from its name to the last verdict."""
    begun, worked = perf_counter(), process_time()
    with tempfile.TemporaryDirectory() as folder:
        parts = plan([path], "run", Path(folder), print).parts
        outcome = replay(Judge(automaton), parts, counted=counted)
    seconds = perf_counter() - begun
    return outcome, {
        "seconds": round(seconds, 2),
        "processor_seconds": round(process_time() - worked, 2),
        "events_per_processor_second": round(outcome.events / max(1e-9, process_time() - worked)),
        "events_per_second": round(outcome.events / seconds),
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def stepped(base: list[list[Event]], built: Automaton, seconds: float) -> dict[str, Any]:
    """Events per processor second of the same runs one by one, with an automaton that has read them all
    before; and with a new one each.
    """
    found = {}
    for name, automaton in (("nothing_remembered", None), ("all_remembered", built)):
        events, begun, worked = 0, perf_counter(), process_time()
        for run in base:
            made = automaton or Automaton(refinement())
            assert follow(made, run).verdict == "holds"
            events += len(run)
            if perf_counter() - begun > seconds:
                break
        found[name] = round(events / (process_time() - worked), 1)
    return found


def planted(
    base: list[list[Event]], copies: int, of_each: int, seed: int
) -> tuple[Spoiled, dict[str, Planted]]:
    """So many violations of every kind, in runs and at events that are drawn, no two in one run."""
    draw = random_choice(seed)
    spoiled: Spoiled = {}
    names: dict[str, Planted] = {}
    for kind in PLANTS:
        for _ in range(of_each):
            number, at, made = _somewhere(kind, base, copies, draw, names)
            spoiled.setdefault(number, {})[at] = made.events
            names[_named(number, base[at])] = made
    return spoiled, names


def _somewhere(
    kind: str, base: list[list[Event]], copies: int, draw: Any, taken: Collection[str]
) -> tuple[int, int, Planted]:
    for _ in range(10_000):
        number, at = draw.randrange(copies), draw.randrange(len(base))
        made = plant(kind, base[at], draw)
        if made is not None and _named(number, base[at]) not in taken:
            return number, at, made
    raise AssertionError(f"none of the runs offers a place for {kind}; drive more of them")


def _named(number: int, run: list[Event]) -> str:
    """The name that a run has in a copy."""
    return f"{number:06d}-{run[0].run}"


def found_of(names: dict[str, Planted], outcome: Outcome) -> dict[str, Any]:
    """Return the fate of the planted violations."""
    rejected = {row["run"]: row["seq"] for row in outcome.not_accepted if row["verdict"] == "rejected"}
    kinds = {
        kind: {
            "planted": sum(one.kind == kind for one in names.values()),
            "found": sum(one.kind == kind and name in rejected for name, one in names.items()),
            "at_the_right_event": sum(
                one.kind == kind and rejected.get(name) == one.at for name, one in names.items()
            ),
        }
        for kind in PLANTS
    }
    total = {
        key: sum(one[key] for one in kinds.values()) for key in ("planted", "found", "at_the_right_event")
    }
    return {**total, "invented": outcome.rejected - total["found"], "kinds": kinds}


def mutated(base: list[list[Event]], count: int) -> dict[str, Any]:
    """All mutations of some runs, judged together as columns."""
    made: dict[str, Mutation] = {}
    for number, run in enumerate(base[:: max(1, len(base) // count)]):
        for place, one in enumerate(mutations(run)):
            made[f"{number:04d}-{place:04d}"] = one
    rows = [
        event
        for name, one in made.items()
        for event in (Event(**{**_columns(event), "run": name}) for event in one.events)
    ]
    verdicts = Judge(Automaton(refinement())).verdicts(events_in(in_order(table_of(rows)))).to_pylist()
    counts: Counter[str] = Counter()
    rest: Counter[str] = Counter()
    for row in verdicts:
        one = made[row["run"]]
        if not one.sure and (row["verdict"] == "accepted" or row["seq"] not in one.right):
            counts[f"nothing surely builds on it: {row['verdict']}"] += 1
        elif row["verdict"] == "rejected" and row["seq"] in one.right:
            counts["at the right event"] += 1
        else:
            where = "elsewhere" if row["verdict"] == "rejected" else row["verdict"]
            why = row["reason"].partition(":")[2][:100] or "a behaviour of the model all the same"
            rest[f"{one.kind} of a {one.what}: {where}: {why}"] += 1
    actions = counts["at the right event"] + sum(rest.values())
    return {
        "mutations": len(made),
        "that_change_the_meaning": actions,
        "at_the_right_event": counts["at the right event"],
        "share": round(counts["at the right event"] / max(1, actions), 4),
        "rest": dict(rest.most_common()),
        "others": {name: n for name, n in counts.items() if name.startswith("nothing")},
    }


def _columns(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__dataclass_fields__}


def on_spark(path: Path, master: str) -> dict[str, Any]:
    """The Spark engine over the whole file, in a process of its own: cold, then with automata built."""
    words = [sys.executable, "-m", "bench.replay", "--only-spark", str(path), "--master", master]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _only_spark(path: Path, master: str) -> None:
    from fencepost.sim.replay import spark
    from fencepost.sim.spark import start

    replay_name = "bench"  # workers keep what they built for it
    recipe = spark.Recipe(refinement, 0, counted=False, whole=True, token=replay_name)
    begun = perf_counter()
    with start(master, name="bench replay") as session, tempfile.TemporaryDirectory() as folder:
        figures: dict[str, Any] = {"start_seconds": round(perf_counter() - begun, 2)}
        for name in ("first", "second"):
            begun, worked = perf_counter(), processor_seconds()
            outcome = spark.replay(session, recipe, [path], "run", Path(folder) / name)
            seconds = perf_counter() - begun
            figures[name] = {
                "seconds": round(seconds, 2),
                "processor_seconds": round(processor_seconds() - worked, 2),
                "events_per_second": round(outcome.events / seconds),
                "counts": [outcome.accepted, outcome.rejected, outcome.undecided],
            }
    sys.stdout.write(json.dumps(figures))


def processor_seconds() -> float:
    """Processor seconds of this process and of all that it started and that still run, Java's too."""
    spent: dict[int, float] = {}
    started: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            number = int(path.parent.name)
            started.setdefault(int(fields[1]), []).append(number)
            spent[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        number = waiting.pop()
        total += spent.get(number, 0.0)
        waiting += started.get(number, [])
    return total


def headline(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows of the page on performance."""
    behind = f"{found['driven_runs']} driven runs, {found['distinct_driven_runs']} of them distinct"
    rows = [(f"{found['events']:,} events in {found['runs']:,} runs: copies of", behind)]
    for name, what in (
        ("local", "verdicts, building the automaton"),
        ("local_built", "verdicts, automaton built before"),
        ("local_built_without_request_rules", "the same by the model alone, without request rules"),
        ("local_with_statistics", "verdicts and statistics, automaton built before"),
    ):
        one = found[name]
        rate = f"{one['events_per_processor_second']:,} events per processor second"
        rows.append((f"local engine: {what}", rate))
    if "second" in found.get("spark", {}):
        second = found["spark"]["second"]
        rate = f"{round(found['events'] / second['processor_seconds']):,} events per processor second"
        rows.append(("Spark engine, automata built before, its Java included", rate))
        if "spark_over_local" in found:
            rows.append((f"Spark over local, in one run (bar >= {SPARK})", str(found["spark_over_local"])))
    step = found["stepped_events_per_second"]["all_remembered"]
    rows.append(("run by run, automaton built before", f"{step:,.0f} events per processor second"))
    times = f"{found['times_stepping']:,.1f}"
    rows.append((f"local engine over run by run, one core each, both built before (bar >= {FACTOR})", times))
    plants = found["planted"]
    share = f"{plants['at_the_right_event']} of {plants['planted']}, {plants['invented']} invented"
    rows.append(("planted violations found at the right event", share))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=240)
    parser.add_argument("--mutated", type=int, default=60)
    parser.add_argument("--planted", type=int, default=3, help="violations of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the places where they are planted")
    parser.add_argument("--engines", default="local,spark")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--keep", help="a folder for the trace, which is large; used again when it is there")
    parser.add_argument("--only-spark", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_spark:
        _only_spark(Path(options.only_spark), options.master)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return _measured(options, Path(options.keep or folder))


def _measured(options: argparse.Namespace, folder: Path) -> int:
    base = driven(options.runs)
    per_copy = sum(map(len, base))
    runs = -(-options.events // per_copy) * len(base)
    spoiled, names = planted(base, runs // len(base), options.planted, options.seed)
    path = folder / "trace.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    written, runs = write(path, options.events, base, spoiled)
    automaton = Automaton(refinement())
    warm, figures = local(path, automaton)
    _, built = local(path, automaton)
    rules, automaton.refinement.request_rules = automaton.refinement.request_rules, None
    _, modelled = local(path, automaton)
    automaton.refinement.request_rules = rules
    counted, with_statistics = local(path, automaton, counted=True)
    step = stepped(base, automaton, 10.0)
    found = found_of(names, warm)
    changed = mutated(base, options.mutated)
    result: dict[str, Any] = {
        "events": warm.events,
        "runs": warm.runs,
        "driven_runs": len(base),
        "distinct_driven_runs": distinct(base, refinement()),
        "events_a_run": round(warm.events / max(1, warm.runs), 1),
        "file_bytes": path.stat().st_size,
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "counts": [warm.accepted, warm.rejected, warm.undecided],
        "local": figures,
        "local_built": built,
        "local_built_without_request_rules": modelled,
        "local_with_statistics": with_statistics,
        "stepped_events_per_second": step,
        "times_stepping": round(built["events_per_processor_second"] / step["all_remembered"], 1),
        "planted": found,
        "mutated": changed,
        "coverage": {key: getattr(counted.coverage, key) for key in ("taken", "of")},
    }
    del written, runs
    bars = {
        "events_per_second": figures["events_per_second"] >= RATE,
        "times_stepping": result["times_stepping"] >= FACTOR,
        "planted": found["at_the_right_event"] == len(names) and not found["invented"],
        "undecided": warm.undecided == 0,
        "mutated": changed["share"] >= RIGHT,
        "memory": figures["peak_resident_bytes"] <= MEMORY,
    }
    if "spark" in options.engines:
        result["spark"] = on_spark(path, options.master)
        second = result["spark"].get("second", {})
        rate = second.get("events_per_second", 0) / built["events_per_second"]
        result["spark_over_local"] = round(rate, 2)
        bars["spark"] = rate >= SPARK and second.get("counts") == result["counts"]
    result["bars"] = bars
    return report.tell("replay", result, ok=all(bars.values()))


if __name__ == "__main__":
    sys.exit(main())
