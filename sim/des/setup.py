"""One run, completely: the store, the clients, the faults, and what is done. Equal set-ups, equal results."""

from dataclasses import dataclass, field
from typing import Any

from fencepost.sim.des.client import ClientModel
from fencepost.sim.des.faults import Faults
from fencepost.sim.des.server import StoreModel


@dataclass(frozen=True, slots=True)
class Workload:
    """Who does what, how often, and until when."""

    system: str
    writers: int = 1
    tables: int = 1
    rows: int = 1
    """In one operation."""
    depth: int = 0
    """Operations that were done before the run begins."""
    arrival: str = "closed"
    """`closed`: every writer begins its next operation when its last has ended. `poisson`: operations arrive
    by themselves, at `rate`, and wait for a writer that is free."""
    rate: float = 0.0
    """Arrivals a second."""
    think_ns: int = 0
    """Between a writer's operations."""
    operations: int | None = None
    """How many in all; or else..."""
    duration_ns: int | None = None
    """... for how long operations begin."""
    compute_ns: int = 0
    """What a writer computes in every operation, besides what its path says."""
    window_ns: int = 0
    """How long the first of a group waits for others to come (systems that commit in groups)."""
    attempts: int = 5
    """How often an operation begins again when others were first."""
    path: Any = None
    """The described write path, where there is no code."""
    counters: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)
    maintenance: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """How often maintenance runs, by kind: every so many operations, or nanoseconds; both None: never."""
    size: int = 4096
    """Bytes that an operation writes, where the workload reads this."""
    follow_up: bool = True
    """Whether collectors write at once what is derived from a batch, or leave it to the reconciler."""


@dataclass(frozen=True, slots=True)
class Setup:
    """See the top of this module."""

    workload: Workload
    store: StoreModel = field(default_factory=StoreModel)
    client: ClientModel = field(default_factory=ClientModel)
    faults: Faults = field(default_factory=Faults)
    seed: int = 0
