"""Finalizers of the audited code: when they run, and what they may do.

The garbage collector runs whenever enough was allocated, so the finalizer of a cycle would send its request
in the middle of any later run. So the collector is off during a run, and collects what the run left behind at
its end. A request that a finalizer sends after a complete run is a violation: in reality it would be sent at
some time that nothing orders. After a crash, and after a run that was given up, it is refused without a
violation, because a process that crashes runs no finalizers.

Such a collection looks at the objects of one run only, and resets the count that would start a larger one.
Objects that a run keeps alive until its world is gone would therefore stay for ever, so `let_go` collects
older objects from time to time.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fencepost.sim.world.present import is_library_file
from fencepost.sim.world.run import RunState

PROPERTY = "nothing leads out of the world"
OLDER_RUNS, ALL_RUNS = 256, 16_384
"""Runs between two collections of what they left behind, and runs before the first collection of all objects.
The next ones of these, which take longer, come after twice as many runs each.
"""
_off = False
_runs = 0


def hold() -> None:
    """A run begins: no finalizer of a cycle until its end."""
    global _off
    if gc.isenabled():
        _off = True
        gc.disable()


def let_go() -> None:
    """A run is over."""
    global _off, _runs
    if _off:
        _off = False
        gc.enable()
        _runs += 1
        if _runs % OLDER_RUNS == 0:
            gc.collect(2 if _runs >= ALL_RUNS and not _runs & (_runs - 1) else 1)


@contextmanager
def postponed() -> Iterator[None]:
    """Run no finalizer of a cycle during the block.

    CPython 3.11 cannot parse code while it parses other code. A finalizer that warns has the lines of its
    traceback parsed.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect(run: RunState) -> None:
    """Run the finalizers of the cycles that the run left behind; `world` refuses their requests."""
    run.collect(lambda: gc.collect(0))


def left_behind(run: RunState, what: str) -> str:
    """Mark the run, and return the text of the exception to raise."""
    where = place(sys._getframe(1))  # noqa: SLF001  # the only way to the caller
    text = (
        f"a finalizer sent {what} at {where}, after its process had ended; no schedule says when that "
        "happens: send it before the process returns"
    )
    crashed = any(process.incarnation or process.state == "down" for process in run.processes)
    if run.violation is None and not crashed and not run.completed:
        run.report_violation(PROPERTY, text)
    return text


def place(frame: FrameType | None) -> str:
    """Return the nearest line that is neither ours, nor the SDK's, nor the standard library's."""
    nearest = frame
    while frame is not None:
        if not is_library(frame):
            nearest = frame
            break
        frame = frame.f_back
    assert nearest is not None
    return f"{nearest.f_code.co_filename}:{nearest.f_lineno}"


def is_library(frame: FrameType) -> bool:
    ours = frame.f_globals.get("__name__", "").startswith("fencepost.sim.")
    return ours or is_library_file(frame.f_code.co_filename)
