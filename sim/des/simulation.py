"""The description of one run (`Setup`), and what its system uses while it runs (`Simulation`)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.events import Event, TraceFields
from fencepost.impl.store.interface import Store
from fencepost.sim.des.client import Client, ClientModel, retrying
from fencepost.sim.des.engine import Engine, SimulatedEnvironment
from fencepost.sim.des.faults import Faults
from fencepost.sim.des.server import Server, StoreModel


@dataclass(frozen=True, slots=True)
class Workload:
    """The operations of a run: of which system, by how many writers, how often and until when."""

    system: str
    writers: int = 1
    tables: int = 1
    rows: int = 1
    """Rows of one operation."""
    depth: int = 0
    """Operations in the history before the run begins."""
    arrival: str = "closed"
    """`closed`: every writer begins its next operation when its last one has ended. `poisson`: operations
    arrive independently of the writers, at `rate`, and wait for a free writer."""
    rate: float = 0.0
    """Arrivals per second."""
    think_ns: int = 0
    """Pause of a writer between two operations."""
    operations: int | None = None
    """Number of operations of all writers; None where `duration_ns` bounds the run."""
    duration_ns: int | None = None
    """Time in which operations begin."""
    compute_ns: int = 0
    """Computing time of a writer per operation, in addition to that of its path."""
    window_ns: int = 0
    """Time that the first operation of a group waits for others (group commit)."""
    attempts: int = 5
    """Attempts of an operation that loses to others."""
    path: Any = None
    """The described write path of a workload without code."""
    operation: str | None = None
    """The operation of that path; its first one when not given."""
    counters: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)
    maintenance: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """Interval of maintenance by kind, in operations or in nanoseconds; (None, None) disables it."""
    size: int = 4096
    """Bytes that an operation writes, in workloads that read this."""
    follow_up: bool = True
    """True if collectors write derived objects at once; otherwise the reconciler does."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One run: the workload, the store, the clients and the faults. Equal set-ups give equal results."""

    workload: Workload
    store: StoreModel = field(default_factory=StoreModel)
    client: ClientModel = field(default_factory=ClientModel)
    faults: Faults = field(default_factory=Faults)
    seed: int = 0


class Simulation:
    """State that the actors of one run share: engine, store, environment, clients, and unique numbers."""

    def __init__(
        self,
        setup: Setup,
        sink: Callable[[Event], object] | None = None,
        run: str = "",
        trace_fields: TraceFields | None = None,
    ) -> None:
        self.setup = setup
        self.engine = Engine(setup.seed)
        self.server = Server(
            self.engine, setup.store, faults=setup.faults, sink=sink, run=run, trace_fields=trace_fields
        )
        self.env = SimulatedEnvironment(self.engine)
        self.clients: dict[str, Client] = {}
        self.counters: dict[str, float] = {}
        self.opening: Counter[str] = Counter()
        """Requests of writers while they open: not counted to the cost of operations."""
        self._taken = 0

    def client(self, name: str, *, compute_per_request_ns: int | None = None) -> Client:
        """The client of this name; a restarted actor gets the same one."""
        if name not in self.clients:
            model = self.setup.client
            if compute_per_request_ns is not None:
                model = replace(model, compute_per_request_ns=compute_per_request_ns)
            self.clients[name] = Client(self.server, name, model, self.env)
        return self.clients[name]

    def store(self, name: str) -> Store:
        """The client of this name, with the retries of the client model."""
        return retrying(self.client(name), self.setup.client)

    def take(self, count: int) -> range:
        """`count` numbers that no other call returns."""
        self._taken += count
        return range(self._taken - count, self._taken)

    def dice(self, purpose: str) -> Any:
        """A random stream of the run, by purpose."""
        return SeededEnvironment(0).stream(f"{self.setup.seed}/{purpose}")
