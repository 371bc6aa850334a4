"""The world: ordinary blocking code as processes under full control, one step at a time.

For programs:   World (store, env, spawn, note, pick, post, receive, configure, always, eventually,
                sometimes, finally_, me), View (what a property may look at), Budget and NO_FAULTS.
For schedulers: World (start, enabled, alternatives, pending, step, complete, close, r, w, before,
                told, trace), Objects, Crash, Violation, events.
"""

from fencepost.sim.world.budget import NO_FAULTS, Budget
from fencepost.sim.world.objects import Objects
from fencepost.sim.world.operations import Crash
from fencepost.sim.world.view import View, Violation
from fencepost.sim.world.world import CLOCK_ACTOR, Program, World

__all__ = [
    "CLOCK_ACTOR",
    "NO_FAULTS",
    "Budget",
    "Crash",
    "Objects",
    "Program",
    "View",
    "Violation",
    "World",
]
