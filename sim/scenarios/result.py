"""The result of a simulation: the runs of a scenario, its checks and its objectives.

The fields are the keys of the JSON, in this order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fencepost.sim.des.result import OperationStats

Verdict = Literal["holds", "violated", "undecided"]
Counts = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    """One run of a scenario: its parameters, and what the simulator measured."""

    parameters: Mapping[str, Any]
    operations: Mapping[str, OperationStats]
    throughput: float
    dollars_month: float
    run: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    """The parameters as numbers, times in milliseconds."""
    throughput_per_writer: float = 0.0
    dollars_million: float = 0.0
    failed: Counts = field(default_factory=dict)
    window_s: float = 0.0
    requests: Counts = field(default_factory=dict)
    outcomes: Counts = field(default_factory=dict)
    faults: Counts = field(default_factory=dict)
    saturation: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulationCheck:
    """A measured number of the real system, beside the simulated one."""

    name: str
    reference: float
    simulated: float
    error: float
    ok: bool
    """True if it is within its tolerance."""
    tolerance: float = 0.0
    unit: str = ""
    says: str = ""
    misses: str = ""
    """The reason why it is expected outside of its tolerance."""
    basis: str = ""
    source: str = ""

    @property
    def expected(self) -> bool:
        """Return True if it is within its tolerance, or outside of it for a stated reason.

        A reason that is no longer needed is as wrong as a number that is no longer reached.
        """
        return self.ok != bool(self.misses)


@dataclass(frozen=True)
class ObjectiveResult:
    """One objective of a scenario, and the first run of the sweep that breaks it."""

    objective: str
    broken_runs: int
    runs: int
    first_broken: Mapping[str, Any] | None = None
    first_value: float | None = None
    violated: bool = False


@dataclass(frozen=True, kw_only=True)
class SimulateResult:
    """The result of `fencepost simulate`."""

    scenario: str
    runs: tuple[SimulatedRun, ...]
    checks: tuple[SimulationCheck, ...]
    verdict: Verdict
    title: str = ""
    about: str = ""
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    planned: int = 0
    units: Mapping[str, str] = field(default_factory=dict)
    case_keys: tuple[str, ...] = ()
    objectives: tuple[ObjectiveResult, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for people: what a sweep replaced, and what differs from a base."""
