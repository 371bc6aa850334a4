"""A scenario: settings by name, sweeps, and expectations of the results."""

from dataclasses import dataclass, field
from typing import Any

from fencepost.sim.des.paths import Path


@dataclass(frozen=True, slots=True)
class Objective:
    """A bound that every run must keep: `write.p99 < 500 ms`."""

    measure: str
    below: bool
    bound: float
    text: str
    relative: bool = False
    """The bound is a share of what the first run reached."""


@dataclass(frozen=True, slots=True)
class Check:
    """A measured number, and where the simulation's counterpart is found."""

    name: str
    measure: str
    at: dict[str, Any]
    measured: float
    tolerance: float
    unit: str = ""
    slope_over: str = ""
    """Not the measure itself, but its slope over this key."""
    relative_to: dict[str, Any] | None = None
    """Not the measure itself, but its ratio to that of this run."""
    says: str = ""
    """A remark on its residual."""
    misses: str = ""
    """The reason why the simulation cannot have this number: it is expected outside of the tolerance."""
    basis: str = ""
    """The parameter of the path whose number is from this measurement, if one is."""
    source: str = ""
    """Place where the number was published."""


@dataclass(frozen=True, slots=True)
class Formula:
    """Hold the closed formula against every run: wall = (hops + requests / cap) x RTT + compute."""

    operation: str
    tolerance: float


@dataclass(frozen=True, slots=True)
class Case:
    """A named set of settings."""

    name: str
    shown: dict[str, Any]
    """As the file writes them."""
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    about: str
    seed: int
    settings: dict[str, Any]
    """Parsed values by key, for those that the file gives."""
    shown: dict[str, Any]
    """The same as the file writes them."""
    sweep: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)
    """By key, each value as the file writes it, and parsed."""
    cases: tuple[Case, ...] = ()
    objectives: tuple[Objective, ...] = ()
    prices: dict[str, float] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    formula: Formula | None = None
    path: Path | None = None
    folder: str = ""
    """Where files that it names are looked for."""
    file: str = ""
    lines: dict[str, int] = field(default_factory=dict)
    """Place of each key in the file."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a scenario: what distinguishes it, as the file writes it, and its settings in full."""

    number: int
    parameters: dict[str, Any]
    settings: dict[str, Any]
