"""The clock: real code on a simulated store, in simulated time.

    result = simulate(Setup(Workload(system, writers=4, operations=1000)))

A `Setup` says everything about a run; equal set-ups give equal results. Parts for those who build their own
runs: Engine, Server, Client, SimulatedEnvironment, Simulation.
"""

from fencepost.sim.des.client import Client, ClientModel
from fencepost.sim.des.engine import Crash, Deadlock, Engine, SimulatedEnvironment
from fencepost.sim.des.faults import Faults
from fencepost.sim.des.latency import Constant, Empirical, Lognormal, Profile
from fencepost.sim.des.result import OperationStats, Result
from fencepost.sim.des.server import Server, StoreModel
from fencepost.sim.des.simulate import simulate
from fencepost.sim.des.simulation import Setup, Simulation, Workload
