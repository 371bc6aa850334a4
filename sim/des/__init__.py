"""The clock: real code on a simulated store, in simulated time.

    result = simulate(Setup(Workload("publish", writers=4, operations=1000)))

A `Setup` says everything about a run; equal set-ups give equal results. Parts for those who build their own
runs: Engine, Server, Client, SimulatedEnvironment, Scene.
"""

from holdfast.sim.des.client import Client, ClientModel
from holdfast.sim.des.engine import Crash, Deadlock, Engine
from holdfast.sim.des.environment import SimulatedEnvironment
from holdfast.sim.des.faults import Faults
from holdfast.sim.des.latency import Constant, Empirical, Lognormal, Profile
from holdfast.sim.des.result import Result, Stats
from holdfast.sim.des.scene import Scene
from holdfast.sim.des.server import Server, StoreModel
from holdfast.sim.des.setup import Setup, Workload
from holdfast.sim.des.simulate import simulate

__all__ = [
    "Client",
    "ClientModel",
    "Constant",
    "Crash",
    "Deadlock",
    "Empirical",
    "Engine",
    "Faults",
    "Lognormal",
    "Profile",
    "Result",
    "Scene",
    "Server",
    "Setup",
    "SimulatedEnvironment",
    "Stats",
    "StoreModel",
    "Workload",
    "simulate",
]
