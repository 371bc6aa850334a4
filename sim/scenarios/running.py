"""The runs of a scenario, on every core: each in a process of its own, the rows in the order of the scenario.

A run is a function of its set-up, so it does not matter which process takes it, nor when. Workers are
started fresh (`spawn`): a child forked out of a program with threads may inherit a lock nobody will release.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.sim.des.engine import Deadlock
from fencepost.sim.des.expressions import BadExpression
from fencepost.sim.des.result import Result
from fencepost.sim.des.setup import Setup
from fencepost.sim.des.simulate import simulate

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
    """How many this process may use."""
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
        # Whoever stops a sweep does not want to wait for runs that will not be kept.
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
