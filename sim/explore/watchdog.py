"""Ends a process that computes and computes without a request, a sleep or a note.

A process gives up control only where it issues an operation, so a busy loop would hold the whole search, its
time limit and Ctrl-C. A timer looks several times a second at the process that runs. When it has not come
to an operation for `SECONDS`, when the time of the audit is over, or after Ctrl-C, an exception is raised in
the loop itself, which thereby names its line.

Only where the platform has interval timers, and in the main thread, which alone handles signals.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fencepost.sim.world import present
from fencepost.sim.world.located import users_lines
from fencepost.sim.world.process import Stuck

SECONDS = 10.0
"""No code computes so long between two requests in thousands of runs."""
LOOK_S = 0.25


@contextmanager
def watching(deadline: float | None, interrupted: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Raise `Stuck` in a process that does not come to its next operation; `deadline` as `perf_counter`."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    watch = _Watch(deadline, interrupted)
    handler = signal.signal(signal.SIGALRM, watch.look)
    timer = signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


class _Watch:
    def __init__(self, deadline: float | None, interrupted: Callable[[], bool]) -> None:
        self._deadline = deadline
        self._interrupted = interrupted
        self._seen: Any = None
        self._since = 0.0

    def look(self, _number: int, frame: FrameType | None) -> None:
        """The handler: whether the same stretch of code runs as the last time."""
        run = present.controlled()
        now = time.perf_counter()
        process = None if run is None else run.running or run.setup
        if run is None or process is None:
            self._seen = None
            return
        seen = (run, len(run.trace), process.index, process.ops)
        if seen != self._seen:
            self._seen, self._since = seen, now
            return
        for_s = now - self._since
        why = ""
        if for_s >= SECONDS:
            why = f"for {for_s:.0f} s"
        elif self._interrupted():
            why = "when it was interrupted"
        elif self._deadline is not None and now >= self._deadline:
            why = "when the time was over"
        if why:
            at = users_lines(frame)
            where = f", at {at[-1]} in {at[-1].function}" if at else ""
            raise Stuck(
                f"{process.name} computed without a request or a sleep {why}{where}; a loop that waits must "
                "read the store, sleep, or read the clock, and a lock that others hold must be one of the "
                "world's: make it when the process runs",
                at,
                too_long=for_s >= SECONDS,
            )
