"""The world: ordinary blocking code as processes under full control, one step at a time.

For programs:  World (store, env, spawn, note, pick, post, receive, configure, always, eventually, sometimes,
               finally_, me), View (what a property may read), Budget and NO_FAULTS.
For searches:  World (start, enabled, alternatives, pending, step, complete, close, trace), the `StepRecord`
               that a step returns, Footprints, Crash, Violation; events (in .trace).
"""

from fencepost.sim.world.budget import NO_FAULTS, Budget
from fencepost.sim.world.folds import MonitorEvent, Violated
from fencepost.sim.world.footprints import CLOCK_ACTOR, POWER_ACTOR, Footprints
from fencepost.sim.world.operations import Crash
from fencepost.sim.world.run import Violation
from fencepost.sim.world.view import View
from fencepost.sim.world.world import Program, World

from fencepost.sim import threads  # isort: skip
from fencepost.sim.world import conversions as _conversions  # isort: skip  # puts a replacement in place

__all__ = [
    "CLOCK_ACTOR",
    "NO_FAULTS",
    "POWER_ACTOR",
    "Budget",
    "Crash",
    "Footprints",
    "MonitorEvent",
    "Program",
    "View",
    "Violated",
    "Violation",
    "World",
]
