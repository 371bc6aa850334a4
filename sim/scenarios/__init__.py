"""Scenarios: what-ifs as files, swept, judged and written down. The simulator is `holdfast.sim.des`.

load or read a Scenario, perform an Order. `measured(file)` and `profile_of(data)` turn what `holdfast probe
--profile` wrote into latencies for the simulator.
"""

from holdfast.sim.scenarios.building import measured, profile_of
from holdfast.sim.scenarios.errors import BadScenario
from holdfast.sim.scenarios.loading import load, read, shipped
from holdfast.sim.scenarios.performing import Order, perform
from holdfast.sim.scenarios.running import RunFailed
from holdfast.sim.scenarios.scenario import Scenario

__all__ = [
    "BadScenario",
    "Order",
    "RunFailed",
    "Scenario",
    "load",
    "measured",
    "perform",
    "profile_of",
    "read",
    "shipped",
]
