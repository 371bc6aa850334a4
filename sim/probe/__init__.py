"""Certifying a store for coordination: what it promises, tried; what it takes, measured."""

from fencepost.sim.probe.features import BY_NAME, FEATURES, Feature
from fencepost.sim.probe.plan import QUICK, THOROUGH, Plan
from fencepost.sim.probe.run import Probe
from fencepost.sim.probe.verdict import Finding, ProbeResult, Verdict
