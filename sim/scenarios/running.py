"""From a scenario to its outcome: build and check every set-up, then run them all.

A run is a function of its set-up, so neither its process nor its time matters; rows are in the order of the
scenario. Local workers are started fresh (`spawn`): a child forked out of a program with threads may inherit
a lock that no thread will release. A large sweep runs on Spark, one task a run, with the same rows; traces
are then written by the workers, into a folder that all of them see.
"""

import importlib.util
import json
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from pathlib import Path as File
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.sim.des.client import ClientModel
from fencepost.sim.des.engine import Deadlock
from fencepost.sim.des.expressions import BadExpression
from fencepost.sim.des.faults import Faults
from fencepost.sim.des.latency import Constant, Empirical, Latency, Lognormal, Profile
from fencepost.sim.des.result import Result
from fencepost.sim.des.server import StoreModel
from fencepost.sim.des.simulate import WORKLOADS, simulate
from fencepost.sim.des.simulation import Setup, Workload
from fencepost.sim.scenarios.judging import check_places, timed
from fencepost.sim.scenarios.keys import KEYS, OPEN_TABLES
from fencepost.sim.scenarios.loading import points
from fencepost.sim.scenarios.outcome import outcome, run_name
from fencepost.sim.scenarios.result import SimulateResult
from fencepost.sim.scenarios.scenario import Point, Scenario
from fencepost.sim.scenarios.source import BadScenario

FORMAT = "fencepost-latency/1"
SECONDS_IN_HOUR = 3600


def build(scenario: Scenario, point: Point, *, seed: int | None = None) -> Setup:
    """Every run of a sweep has the same seed, so that what differs is what was swept."""

    def get(key: str) -> Any:
        return point.settings.get(key, KEYS[key].default)

    def fields(table: str) -> dict[str, Any]:
        """The settings of a table by the fields that take them: those of times end in `_ns`."""
        head = f"{table}."
        keys = [key for key in KEYS if key.startswith(head)]
        return {key.removeprefix(head) + ("_ns" if timed(key) else ""): get(key) for key in keys}

    def named(table: str) -> dict[str, Any]:
        """The settings of a table whose keys the path names."""
        head = f"{table}."
        return {key.removeprefix(head): v for key, v in point.settings.items() if key.startswith(head)}

    workload, store, faults = fields("workload"), fields("store"), fields("faults")
    workload |= {table.partition(".")[2]: named(table) for table in OPEN_TABLES}
    workload |= {"path": scenario.path, "rate": workload["rate"] or 0.0, "size": workload.pop("bytes")}
    latency = profile(store.pop("latency_ns"), store.pop("bandwidth"), scenario.folder)
    crashes = faults.pop("crash") or 0.0
    return Setup(
        workload=Workload(**workload),
        store=StoreModel(latency=latency, **store),
        client=ClientModel(**fields("client")),
        faults=Faults(crashes_per_hour=crashes * SECONDS_IN_HOUR, **faults),
        seed=scenario.seed if seed is None else seed,
    )


def profile(given: Mapping[str, Any], bandwidth: float | None, folder: str) -> Profile:
    """Return the profile that the keys `latency` and `bandwidth` describe."""
    byte_ns = 1e9 / bandwidth if bandwidth else 0.0
    if "profile" in given:
        return measured(File(folder) / given["profile"], byte_ns)
    kinds = {kind: _latency(value) for kind, value in given.items()}
    return Profile(default=kinds.pop("default"), kinds=kinds, byte_ns=byte_ns)


def _latency(given: Any) -> Latency:
    if isinstance(given, int):
        return Constant(given)
    return Lognormal(given["p50"], given["p99"])


def measured(file: File, byte_ns: float = 0.0) -> Profile:
    """The profile that `fencepost probe --profile FILE` wrote."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadScenario(f"{file}: the latency profile cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadScenario(
            f"{file}: is not JSON; write it with `fencepost probe URL --profile {file.name}`"
        ) from None
    return profile_of(found, str(file), byte_ns)


def profile_of(found: Any, name: str, byte_ns: float = 0.0) -> Profile:
    """A measured profile as the simulator wants it: small requests' quantiles, and what a byte adds."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadScenario(
            f"{name}: is no latency profile ({FORMAT}); write one with `fencepost probe URL --profile FILE`"
        )
    kinds: dict[str, Latency] = {}
    per_byte: dict[str, float] = {}
    try:
        for kind, entries in found["operations"].items():
            ordered = sorted(entries, key=lambda entry: entry["bytes"])
            small, large = ordered[0], ordered[-1]
            kinds[kind] = Empirical(tuple(1e6 * float(value) for value in small["quantiles"]))
            grown = large["bytes"] - small["bytes"]
            per_byte[kind] = max(0.0, 1e6 * (large["p50"] - small["p50"]) / grown) if grown else byte_ns
        if not all(
            len(latency.quantiles_ns) > 1 for latency in kinds.values() if isinstance(latency, Empirical)
        ):
            raise ValueError
        default = kinds["put"]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise BadScenario(
            f"{name}: the latency profile is damaged; write it again with `fencepost probe`"
        ) from None
    return Profile(default=default, kinds=kinds, byte_ns=byte_ns, kinds_byte_ns=per_byte)


ALONE = 2
"""So few runs are not worth starting processes for."""
EVENTS_MAX = 50_000
"""Kept as objects until they become columns."""
AHEAD = 2
"""Tasks handed out beyond those under way, so that no worker waits for the next."""


class RunFailed(Exception):
    """A run could not be finished: which, and why."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run: its place in the scenario, its set-up, and where its trace goes."""

    number: int
    setup: Setup
    name: str
    trace: str | None = None


def run_task(task: Task) -> tuple[int, Result]:
    """In a worker, or here. The trace is written whole or not at all."""
    recorder = _Recorder() if task.trace is not None else None
    try:
        result = simulate(task.setup, sink=recorder, run=task.name)
    except (BadExpression, Deadlock) as error:
        raise RunFailed(f"run {task.name}: {error}") from None
    if recorder is not None and task.trace is not None:
        recorder.write(Path(task.trace))
    return task.number, replace(result, latencies_ms={})


class _Recorder:
    """Takes events, and keeps them as columns: a tenth of the room that objects need."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._tables: list[Any] = []

    def __call__(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= EVENTS_MAX:
            self._pack()

    def _pack(self) -> None:
        from fencepost.sim.trace import table_of

        self._tables.append(table_of(self._events))
        self._events.clear()

    def write(self, path: Path) -> None:
        import pyarrow as pa

        from fencepost.sim.trace import write_parquet

        self._pack()
        write_parquet(path, pa.concat_tables(self._tables))


def cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def run_all(tasks: Sequence[Task], jobs: int, done: Callable[[int, Result], Any]) -> None:
    """Run every task, `jobs` at a time, and call `done` for each as it ends. Ctrl-C keeps them."""
    if jobs < 2 or len(tasks) <= ALONE:
        for task in tasks:
            done(*run_task(task))
        return
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_quiet)
    try:
        for number, result in _finished(pool, tasks, jobs):
            done(number, result)
    except BrokenProcessPool:
        raise RunFailed("a worker process died (out of memory?); try --jobs 1, or fewer operations") from None
    except KeyboardInterrupt:
        # Runs that will not be kept must not delay the end of a stopped sweep.
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _finished(pool: ProcessPoolExecutor, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[int, Result]]:
    """Results as they come; never more tasks handed out than needed, so that an end comes soon."""
    waiting = iter(tasks)
    under_way: set[Future[Any]] = set()
    while True:
        while len(under_way) < jobs + AHEAD and (task := next(waiting, None)) is not None:
            under_way.add(pool.submit(run_task, task))
        if not under_way:
            return
        ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in ended:
            yield future.result()


def _quiet() -> None:
    """Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


Show = Callable[[int, int], object]
"""Called with the number of runs that are done, and of all runs."""


@dataclass(frozen=True, slots=True)
class Order:
    """A scenario, and how it is to be run."""

    scenario: Scenario
    sweeps: Sequence[str] = ()
    seed: int | None = None
    jobs: int | None = None
    folder: Path | None = None
    traces: bool = False
    points: list[Point] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", points(self.scenario, self.sweeps))
        system = self.scenario.settings["workload.system"]
        needed = WORKLOADS[system].requires
        if needed and importlib.util.find_spec(needed) is None:
            raise BadScenario(f"the system {system!r} needs {needed}: pip install 'fencepost[catalog]'")
        if not self.sweeps:
            check_places(self.scenario, self.points)

    @property
    def used_seed(self) -> int:
        return self.scenario.seed if self.seed is None else self.seed

    def tasks(self) -> list[Task]:
        return [
            Task(
                point.number,
                build(self.scenario, point, seed=self.seed),
                self.name(point.number),
                str(self.folder / "traces" / f"{self.name(point.number)}.parquet")
                if self.folder is not None and self.traces
                else None,
            )
            for point in self.points
        ]

    def name(self, number: int) -> str:
        return run_name(self.scenario.name, number)

    def outcome(self, results: dict[int, Result]) -> SimulateResult:
        return outcome(self.scenario, self.points, results, seed=self.used_seed, checked=not self.sweeps)


def _sweep_up(order: Order) -> None:
    """Workers that were stopped while they wrote a trace leave the part they had beside its name."""
    if order.folder is not None:
        for part in (order.folder / "traces").glob(f".{order.scenario.name}-*.parquet.*"):
            part.unlink(missing_ok=True)


def _silent(_done: int, _total: int) -> None:
    """Show no progress."""


def perform(order: Order, show: Show = _silent) -> SimulateResult:
    """Run it here, on every core. Ctrl-C stops it, and keeps the runs that were finished."""
    tasks = order.tasks()
    results: dict[int, Result] = {}
    show(0, len(tasks))

    def done(number: int, result: Result) -> None:
        results[number] = result
        show(len(results), len(tasks))

    try:
        run_all(tasks, order.jobs or cores(), done)
    except KeyboardInterrupt:
        _sweep_up(order)
    return order.outcome(results)


def _run(packed: bytes) -> tuple[int, bytes]:
    """In a worker."""
    number, result = run_task(pickle.loads(packed))  # noqa: S301 - packed by the driver, below
    return number, pickle.dumps(result)


def perform_on_spark(order: Order, master: str | None, show: Show) -> SimulateResult:
    """Every run as a task of its own. Raises `BadScenario` where Spark cannot be used."""
    from fencepost.sim.spark import SparkAway, start

    tasks = order.tasks()
    show(0, len(tasks))
    try:
        with start(master or "", name=f"fencepost simulate {order.scenario.name}") as session:
            packed = session.sparkContext.parallelize([pickle.dumps(task) for task in tasks], len(tasks))
            rows = packed.map(_run).collect()
    except SparkAway as away:
        raise BadScenario(str(away)) from None
    except Exception as error:  # what Py4J raises has no common root short of this
        last = str(error).strip().splitlines()
        raise RunFailed(f"a task failed on Spark: {(last or ['no reason given'])[0][:300]}") from error
    results: dict[int, Result] = {number: pickle.loads(result) for number, result in rows}  # noqa: S301 - ours
    show(len(results), len(tasks))
    return order.outcome(results)
