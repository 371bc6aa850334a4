"""Ends a process that computes and computes without a request, a sleep or a note.

A process gives up control only where it issues an operation, so a busy loop would hold the whole search, its
time limit and Ctrl-C. A timer looks several times a second at the process that runs. When it has computed
or waited for `SECONDS` without coming to an operation, an exception is raised in the loop itself, which
thereby names its line. The same happens when the time of the audit is over, or after Ctrl-C.

The load of the machine must not turn into a verdict. So the time that counts is the time in which this thread
had the processor, and the time in which it waited for something else than the processor. A gap between two
looks counts only as far as two looks are apart: the machine may have been suspended. Under a debugger only
the processor counts. The audit repeats a search that was ended for computing too long, before it blames the
code.

Only where the platform has interval timers, and in the main thread, which alone handles signals.
"""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from fencepost.sim.world import present
from fencepost.sim.world.located import users_lines
from fencepost.sim.world.process import Stuck

SECONDS = 10.0
"""No code computes so long between two requests in thousands of runs."""
REAL_TIMES = 3
"""Real time of a limit, as a multiple of the time on the processor."""
LOOK_S = 0.25
GRACE_S = 0.2
"""Time that a process may compute on when the audit is to end: innocent code comes to its next operation."""
_DEBUGGERS = frozenset({"bdb", "pdb", "pydevd", "_pydevd_bundle", "debugpy"})
_SCHEDULED = Path("/proc/thread-self/schedstat")
"""On Linux: nanoseconds on the processor, nanoseconds in which this thread waited for it."""


@contextmanager
def watching(
    is_over: Callable[[], bool] = lambda: False, interrupted: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Raise `Stuck` in a process that does not come to its next operation, or when the time is over."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    watch = _Watch(is_over, interrupted)
    handler = signal.signal(signal.SIGALRM, watch.look)
    timer = signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


class Limit:
    """A limit of time, which counts the time of this process on the processor, or all of it.

    On a machine that others use too, the time on the processor is what a search can be given. Real time ends
    the search as well, `REAL_TIMES` later, since a process may wait.
    """

    def __init__(self, seconds: float | None, *, cpu: bool = False) -> None:
        self.seconds = seconds
        self._cpu = cpu
        self._began = time.perf_counter(), time.process_time()

    def elapsed(self) -> float:
        """Return the seconds that count."""
        real_s = time.perf_counter() - self._began[0]
        if not self._cpu:
            return real_s
        return max(time.process_time() - self._began[1], real_s / REAL_TIMES)

    def left(self) -> float:
        """Return the seconds that are left; infinity without a limit."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed())

    def is_over(self) -> bool:
        return self.seconds is not None and self.elapsed() >= self.seconds


class _Watch:
    def __init__(self, is_over: Callable[[], bool], interrupted: Callable[[], bool]) -> None:
        self._is_over = is_over
        self._interrupted = interrupted
        self._seen: Any = None
        self._spent_s = 0.0
        """Time that counts, since the same stretch of code was seen first."""
        self._last = (0.0, 0.0, 0.0)

    def look(self, _number: int, frame: FrameType | None) -> None:
        """Handle the signal: raise if the same stretch of code has run for too long."""
        run = present.controlled()
        process = None if run is None else run.running or run.setup
        if run is None or process is None:
            self._seen = None
            return
        now = _clocks()
        seen = (run, len(run.trace), process.index, process.ops)
        if seen != self._seen:
            self._seen, self._last, self._spent_s = seen, now, 0.0
            return
        self._spent_s += counted(self._last, now, debugged=_is_debugged())
        self._last = now
        at = users_lines(frame)
        where = f", at {at[-1]} in {at[-1].function}" if at else ""
        if self._spent_s >= SECONDS:
            raise Stuck(
                f"{process.name} computed without a request or a sleep for {self._spent_s:.0f} s{where}; "
                "a loop that waits must read the store, sleep, or read the clock, and a lock that others "
                "hold must be one of the world's: make it when the process runs",
                at,
            )
        why = self._reason_to_end()
        if why and self._spent_s >= GRACE_S:
            text = f"a run was left {why}, while {process.name} was computing{where}"
            raise Stuck(text, at, too_long=False)

    def _reason_to_end(self) -> str:
        if self._interrupted():
            return "when it was interrupted"
        if self._is_over():
            return "when the time was over"
        return ""


Clocks = tuple[float, float, float]
"""Seconds of real time, of this thread on the processor, and of this thread waiting for the processor."""


def _clocks() -> Clocks:
    try:
        waited_s = int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        waited_s = 0.0
    return time.perf_counter(), time.thread_time(), waited_s


def counted(before: Clocks, now: Clocks, *, debugged: bool = False) -> float:
    """Return how much of the time between two looks counts."""
    real_s, computed_s, waited_s = (b - a for a, b in zip(before, now, strict=True))
    if debugged:
        return computed_s
    elsewhere_s = max(0.0, real_s - computed_s - waited_s)
    return computed_s + min(elsewhere_s, 2 * LOOK_S)


def _is_debugged() -> bool:
    tracer = sys.gettrace()
    owner = getattr(tracer, "__self__", tracer)
    return tracer is not None and type(owner).__module__.partition(".")[0] in _DEBUGGERS
