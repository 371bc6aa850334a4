"""Scenarios: what-ifs as files, swept, judged and written down. The simulator is `holdfast.sim.des`."""

from holdfast.sim.scenarios.errors import BadScenario
from holdfast.sim.scenarios.loading import load, read, shipped
from holdfast.sim.scenarios.performing import Order, perform
from holdfast.sim.scenarios.running import RunFailed
from holdfast.sim.scenarios.scenario import Scenario

__all__ = ["BadScenario", "Order", "RunFailed", "Scenario", "load", "perform", "read", "shipped"]
