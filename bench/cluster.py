"""A search in pieces on a cluster: what executors give, measured here and simulated for a hundred.

    python -m bench.cluster [--system ingest] [--set NAME=VALUE] [--faults ...] [--no-spark] [--overhead-ms N]

Three parts, in one run:

1. The search is done in one process, and then piece by piece, with the processor time of every piece and the
   pieces that it was cut into. The ratio of their sums is what cutting costs.
2. A Spark session of two local executors' threads does empty jobs: the overhead of a piece, and the pieces
   that a driver can hand out in a second. Then it does the search: the verdict and counts must be equal.
3. SimPy does the measured pieces on 1 to 100 executors, each piece as soon as the piece that it was cut from
   is done, with the measured overhead and a driver that hands out one at a time.

It writes out/bench/cluster.json. The bar: equal results; on 16 executors at least half of ideal speed for a
search that takes more than a minute on one core. Processor time is measured, so a busy machine changes the
overhead alone.
"""

import argparse
import heapq
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import simpy

from bench.report import median, write
from fencepost.commands.audit import read_faults
from fencepost.commands.systems import find_system, read_parameters
from fencepost.sim.explore import AuditRequest
from fencepost.sim.explore.pieces import Piece, Report, Together, explored
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.rehearsal import rehearse
from fencepost.sim.explore.reporting import silence
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import places
from fencepost.testing import Options, request_of

EXECUTORS = (1, 2, 4, 8, 16, 32, 64, 100)
JOBS = 60
"""Empty jobs whose overhead is measured."""


@dataclass(frozen=True)
class Measured:
    """One piece: its processor time, and the piece that it was cut from."""

    order: tuple[int, ...]
    cpu_s: float
    runs: int
    parts: int


class Stopwatch:
    """Explores pieces in this process, one after another, and measures each."""

    size = 1

    def __init__(self, setting: Setting, measured: list[Measured]) -> None:
        self._setting, self._measured = setting, measured
        self._given: list[Piece] = []

    def give(self, piece: Piece) -> None:
        self._given.append(piece)

    def take(self, timeout_s: float) -> list[tuple[tuple[int, ...], Report]]:
        del timeout_s
        piece = self._given.pop()
        begun = time.process_time()
        report = explored(self._setting, piece.data, piece.runs_max)
        took = time.process_time() - begun
        runs = sum(report.get("counts", [0])[:4])
        self._measured.append(Measured(piece.order, took, runs, len(report.get("left", ()))))
        return [(piece.order, report)]

    def close(self) -> None:
        """Nothing runs."""


def request(name: str, settings: tuple[str, ...], faults: tuple[str, ...]) -> AuditRequest:
    system = find_system(name)
    chosen = system.options.under(Options(faults=read_faults(faults)))
    return request_of(system.function, chosen, read_parameters(system, settings, None), name)


def alone(asked: AuditRequest) -> dict[str, Any]:
    """One search in this process."""
    setting = asked.setting
    with silence(), places.held(asked.program):
        rehearse(setting, then=lambda _: None)
        search = ReducedSearch(setting)
        begun = time.process_time()
        search.explore()
        took = time.process_time() - begun
    return {"runs": search.runs, "cpu_s": round(took, 2), "failures": len(search.failures)}


def in_pieces(asked: AuditRequest) -> tuple[dict[str, Any], list[Measured]]:
    """The same in pieces, one after another."""
    measured: list[Measured] = []
    setting = asked.setting
    with silence(), places.held(asked.program):
        rehearse(setting, then=lambda _: None)
        together = Together(setting, 1, pool=lambda setting, _: Stopwatch(setting, measured))
        begun = time.process_time()
        whole = together.explore(lambda _: False)
        took = time.process_time() - begun
    last = {one.order: one for one in measured}  # a search that starts over measures a piece again
    figures = {
        "runs": whole.runs,
        "cpu_s": round(took, 2),
        "pieces": len(last),
        "longest_s": round(max(one.cpu_s for one in last.values()), 3),
        "median_s": round(median([one.cpu_s for one in last.values()]), 3),
        "failures": len(whole.failures),
    }
    return figures, [*last.values()]


def spark(name: str, settings: tuple[str, ...], faults: tuple[str, ...]) -> dict[str, Any]:
    """Empty jobs, and the search, on two threads of an embedded Spark."""
    from fencepost.commands.cluster import executors, subject_of
    from fencepost.sim.explore.reporting import run_audit
    from fencepost.sim.spark import start
    from fencepost.sim.spark.jobs import TASK_FAILURES, Jobs

    options = {"settings": settings, "processes": None, "faults": faults, "py_files": ()}
    options |= dict.fromkeys(
        ("strategy", "seed", "budget", "max_schedules", "max_steps", "wait_rounds", "depth")
    )
    with start("local[2]", name="fencepost bench", settings=TASK_FAILURES) as session:
        jobs = Jobs(session)

        def done(count: int) -> float:
            begun = time.perf_counter()
            left, running = count, 0
            while left or running:
                while left and running < jobs.size:
                    jobs.start(left, int)
                    left, running = left - 1, running + 1
                running -= len(jobs.take(1.0))
            return time.perf_counter() - begun

        done(jobs.size)  # Python's workers start with the first
        overhead_s = done(JOBS) * 2 / JOBS
        subject = subject_of(session, name, options, None)
        asked = request(name, settings, faults)
        begun = time.perf_counter()
        with silence():
            there = run_audit(replace(asked, pool=executors(session, subject)))
        seconds = time.perf_counter() - begun
    here = run_audit(replace(request(name, settings, faults), jobs=2))
    compared = ("verdict", "schedules", "pruned", "bound", "violations", "coverage", "cost")
    one, other = there.result(), here.result()
    different = [key for key in compared if getattr(one, key) != getattr(other, key)]
    return {
        "overhead_ms": round(1000 * overhead_s, 1),
        "wall_s": round(seconds, 1),
        "jobs_2_wall_s": round(other.seconds, 1),
        "verdict": one.verdict,
        "schedules": one.schedules,
        "different": different,
    }


def simulated(measured: list[Measured], executors: int, overhead_s: float, hand_out_s: float) -> float:
    """Seconds until so many executors are done: least piece first, each after the piece it was cut from."""
    env = simpy.Environment()
    slots, driver = simpy.Resource(env, executors), simpy.Resource(env, 1)
    by_parent: dict[tuple[int, ...], list[Measured]] = {}
    for one in sorted(measured, key=lambda one: one.order):
        by_parent.setdefault(one.order[:-1], []).append(one)
    waiting: list[tuple[tuple[int, ...], int]] = []
    pieces = {id(one): one for one in measured}

    def run(one: Measured) -> Iterator[Any]:
        with driver.request() as turn:
            yield turn
            yield env.timeout(hand_out_s)
        yield env.timeout(overhead_s + one.cpu_s)
        release(one.order)
        slots_free.put(True)

    slots_free = simpy.Store(env)
    for _ in range(slots.capacity):
        slots_free.put(True)
    ready = simpy.Store(env)

    def release(order: tuple[int, ...]) -> None:
        for part in by_parent.get(order, ()):
            heapq.heappush(waiting, (part.order, id(part)))
            ready.put(True)

    def dispatch() -> Iterator[Any]:
        for _ in measured:
            yield ready.get()
            yield slots_free.get()
            env.process(run(pieces[heapq.heappop(waiting)[1]]))

    release(())
    env.process(dispatch())
    env.run()
    return float(env.now)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--system", default="ingest")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--faults", action="append", default=[])
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--overhead-ms", type=float, default=60.0, help="of a piece, without Spark")
    options = parser.parse_args(arguments)
    settings, faults = tuple(options.settings), tuple(options.faults)
    say = sys.stdout.write
    one = alone(request(options.system, settings, faults))
    say(f"one process: {one['runs']:,} runs, {one['cpu_s']} CPU s\n")
    cut, measured = in_pieces(request(options.system, settings, faults))
    say(
        f"in pieces:   {cut['runs']:,} runs, {cut['cpu_s']} CPU s in {cut['pieces']} pieces, "
        f"the longest {cut['longest_s']} s\n"
    )
    on_spark = None if options.no_spark else spark(options.system, settings, faults)
    overhead_s = (on_spark["overhead_ms"] if on_spark else options.overhead_ms) / 1000
    if on_spark:
        say(f"Spark:       {on_spark['overhead_ms']} ms a piece; different from --jobs 2: ")
        say(f"{', '.join(on_spark['different']) or 'nothing'}\n")
    rows = []
    for count in EXECUTORS:
        seconds = simulated(measured, count, overhead_s, overhead_s / 4)
        speed = one["cpu_s"] / seconds
        rows.append({"executors": count, "seconds": round(seconds, 2), "times_one_process": round(speed, 2)})
        say(f"{count:>4} executors: {seconds:8.2f} s, {speed:6.2f} times one process\n")
    equal = on_spark is None or not on_spark["different"]
    figures = {
        "system": options.system,
        "one_process": one,
        "pieces": cut,
        "spark": on_spark,
        "simulated": rows,
        "equal": equal,
    }
    say(f"written to {write('cluster', figures)}\n")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
