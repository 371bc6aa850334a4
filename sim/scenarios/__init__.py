"""Scenarios: what-ifs as files, swept, judged and written down. The simulator is `fencepost.sim.des`.

load or read a Scenario, perform an Order. `measured(file)` and `profile_of(data)` turn what `fencepost probe
--profile` wrote into latencies for the simulator.
"""

from fencepost.sim.scenarios.loading import load, read, shipped
from fencepost.sim.scenarios.running import Order, RunFailed, measured, perform, profile_of
from fencepost.sim.scenarios.scenario import Scenario
from fencepost.sim.scenarios.source import BadScenario
