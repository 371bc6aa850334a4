"""The plain run: a program of the world, run for real, with threads against a real store and no control.

It shows what the adversary cannot (the real store, its real timing) and proves nothing: orders happen as
they happen to. What it finds is real, what it does not find is not decided.
"""

from fencepost.sim.real.rounds import Found, Plain, run_rounds
from fencepost.sim.real.world import NotForReal, RealWorld

__all__ = ["Found", "NotForReal", "Plain", "RealWorld", "run_rounds"]
