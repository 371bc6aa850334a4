"""A closed loop: so many workers at once, each of whom acts again as soon as the last act has ended.

    laps = for_seconds(lambda worker, turn: store.put(f"{worker}-{turn}", body, when=ABSENT), 32, 2.0)
    print(laps.per_second, laps.p50_ms)

Real threads and the real clock. The clock starts when all workers are ready, and ends when the last one is
done. An act that raises ends the measurement: what was counted without it would be no figure.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from bench.report import median

Act = Callable[[int, int], object]
"""One act, by the numbers of worker and turn."""


@dataclass(frozen=True)
class Laps:
    """The laps of a measurement."""

    seconds: float
    took: list[float]
    """Seconds of each act."""

    @property
    def per_second(self) -> float:
        return len(self.took) / self.seconds

    @property
    def p50_ms(self) -> float:
        return 1000 * median(self.took)


def for_turns(act: Act, workers: int, turns: int) -> Laps:
    """Until each has acted so often."""
    return _laps(act, workers, lambda: range(turns), lambda: None)


def for_seconds(act: Act, workers: int, seconds: float) -> Laps:
    """Until so much time is over; what is under way then is done to its end."""
    stop = threading.Event()

    def wait() -> None:
        time.sleep(seconds)  # noqa: TID251 - a benchmark measures the real clock
        stop.set()

    return _laps(act, workers, partial(_until, stop), wait)


def _until(stop: threading.Event) -> Iterable[int]:
    return itertools.takewhile(lambda _: not stop.is_set(), itertools.count())


def _laps(act: Act, workers: int, turns: Callable[[], Iterable[int]], meanwhile: Callable[[], None]) -> Laps:
    gate = threading.Barrier(workers + 1)
    took: list[float] = []

    def work(worker: int) -> None:
        gate.wait()
        for turn in turns():
            began = time.perf_counter()
            act(worker, turn)
            took.append(time.perf_counter() - began)

    with ThreadPoolExecutor(workers) as pool:
        working = [pool.submit(work, worker) for worker in range(workers)]
        gate.wait()
        began = time.perf_counter()
        meanwhile()
        for one in working:
            one.result()
        return Laps(time.perf_counter() - began, took)
