"""Times of modification, and whether a program looks at them.

Every object carries the time at which it landed, and most programs never look. For them a write of one key
and a write of another commute; for a program that compares times of modification they do not, because time
may pass between them. So a search begins without, and starts over when a process reads the time of
modification of an object, a version or an upload. Only the attribute counts as a look, not the comparison or
the hash of the whole reply (see `modified`), which the search itself needs.

The level of time that is explored is one of these numbers:

    UNTIMED  no process sleeps, and the clock is read at most once: time does not pass.
    CLOCKED  clock readings are steps, and time may pass before each.
    STAMPED  so are writes, because code reads when they landed.
    WATCHED  a check looks at the present time, so time may pass before every step.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.sim.world.run import RunState

UNTIMED, CLOCKED, STAMPED, WATCHED = 0, 1, 2, 3

_run: list["RunState | None"] = [None]
"""The world that started last."""


def watch(run: "RunState") -> None:
    """From now on, looks of processes count for `world`."""
    _run[0] = run


def look() -> None:
    """The code that runs looks at a time of modification."""
    run = _run[0]
    if run is not None and run.running is not None and run.settings.stamped:
        run.depend_on_time(STAMPED)


def matter() -> None:
    """A check looks at a time of modification."""
    run = _run[0]
    if run is not None and run.settings.stamped:
        run.depend_on_time(STAMPED)


def pass_time() -> None:
    """A check looks at the time."""
    run = _run[0]
    if run is not None:
        run.depend_on_time(WATCHED)
