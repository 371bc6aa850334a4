"""Certifying a store for coordination: what it promises, tried; what it takes, measured."""

from holdfast.sim.probe.features import BY_NAME, FEATURES, Feature
from holdfast.sim.probe.plan import QUICK, THOROUGH, Plan
from holdfast.sim.probe.run import Probe
from holdfast.sim.probe.verdict import Finding, Report, Verdict

__all__ = [
    "BY_NAME",
    "FEATURES",
    "QUICK",
    "THOROUGH",
    "Feature",
    "Finding",
    "Plan",
    "Probe",
    "Report",
    "Verdict",
]
