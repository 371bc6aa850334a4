"""Run a program of the simulated world against a real store, with threads and without control of the order.

It tests what the simulation cannot (the real store and its timing) and proves nothing: it takes the orders
that occur. A violation that it finds is real; other orders stay undecided.
"""

from fencepost.sim.real.rounds import Found, Plain, run_rounds
from fencepost.sim.real.world import NotForReal, RealWorld
