"""Independent jobs on executors: each a call of a function, its result as soon as it is there.

A job is a Spark job of one task. Spark runs a task again when its executor is lost, so a function must be one
that can run twice. The driver keeps as many jobs running as executors have cores, and a few that wait.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from fencepost.sim.spark.session import SparkAway, _reason

WAITING = 2
"""Jobs for every core: one runs, and the next is there when it ends."""
LOOK_S = 0.2
"""Seconds between two looks whether somebody wants to end."""
TASK_FAILURES = {"spark.task.maxFailures": "8"}
"""Settings of a session: a task whose executor is lost this often is given up."""

T = TypeVar("T")
R = TypeVar("R")
Key = Any


class Jobs:
    """Jobs that run now."""

    _groups = 0

    def __init__(self, session: Any) -> None:
        Jobs._groups += 1
        self._context = session.sparkContext
        self._group = f"fencepost-{Jobs._groups}"
        self._ended: queue.SimpleQueue[tuple[Key, Any, Exception | None]] = queue.SimpleQueue()
        self._closed = False

    @property
    def size(self) -> int:
        """Number of jobs to keep running. Executors come and go."""
        return max(2, WAITING * int(self._context.defaultParallelism))

    def start(self, key: Key, function: Callable[[], Any]) -> None:
        threading.Thread(target=self._run, args=(key, function), daemon=True).start()

    def _run(self, key: Key, function: Callable[[], Any]) -> None:
        try:
            self._context.setJobGroup(self._group, "fencepost", interruptOnCancel=True)
            one = self._context.parallelize([0], 1).map(lambda _: function()).collect()
            self._ended.put((key, one[0], None))
        except Exception as error:  # noqa: BLE001 - raised again where results are taken
            self._ended.put((key, None, error))

    def take(self, timeout_s: float) -> list[tuple[Key, Any]]:
        """Return the results that came, with the keys of their jobs; none after a while."""
        found = []
        try:
            found.append(self._ended.get(timeout=timeout_s))
            while True:
                found.append(self._ended.get_nowait())
        except queue.Empty:
            pass
        for _, _, error in found:
            if error is not None:
                raise SparkAway(_explained(error)) from error
        return [(key, result) for key, result, _ in found]

    def close(self) -> None:
        """Cancel what still runs."""
        self._closed = True
        self._context.cancelJobGroup(self._group)


def each(session: Any, items: Iterable[T], job: Callable[[T], Callable[[], R]]) -> Iterator[R]:
    """Yield the results of jobs, one for each item and in their order, as soon as all before are there."""
    jobs = Jobs(session)
    left = iter(enumerate(items))
    results: dict[int, R] = {}
    running = 0
    following = 0
    try:
        while True:
            while running < jobs.size and (item := next(left, None)) is not None:
                jobs.start(item[0], job(item[1]))
                running += 1
            if not running:
                return
            for number, result in jobs.take(LOOK_S):
                results[number] = result
                running -= 1
            while following in results:
                yield results.pop(following)
                following += 1
    finally:
        jobs.close()


def _explained(error: Exception) -> str:
    text = str(error)
    if "No module named 'fencepost'" in text:
        return "fencepost is not installed on the executors; install the same version there"
    kind, _, says = _reason(text).partition(": ")
    ours = kind.startswith("fencepost.") and kind.rpartition(".")[2] in ("BadRequest", "CodeAway")
    return f"a job failed on an executor: {says if ours else _reason(text)}"
