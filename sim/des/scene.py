"""What the systems of one run share: the engine, the store, the clock, and names nobody uses twice."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.events import Event, TraceFields
from fencepost.impl.store.interface import Store
from fencepost.sim.des.client import Client, retrying
from fencepost.sim.des.engine import Engine
from fencepost.sim.des.environment import SimulatedEnvironment
from fencepost.sim.des.server import Server
from fencepost.sim.des.setup import Setup


class Scene:
    """See the top of this module."""

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
        """Requests that writers sent to get ready: no part of what a rate of operations costs."""
        self._taken = 0

    def client(self, name: str, *, compute_per_request_ns: int | None = None) -> Client:
        """The client of this name; a restarted actor finds its own again."""
        if name not in self.clients:
            model = self.setup.client
            if compute_per_request_ns is not None:
                model = replace(model, compute_per_request_ns=compute_per_request_ns)
            self.clients[name] = Client(self.server, name, model, self.env)
        return self.clients[name]

    def store(self, name: str) -> Store:
        """That client, with the retries the scenario wants."""
        return retrying(self.client(name), self.setup.client)

    def take(self, count: int) -> range:
        """Numbers that nobody else has."""
        self._taken += count
        return range(self._taken - count, self._taken)

    def dice(self, purpose: str) -> Any:
        """A stream of the run's own."""
        return SeededEnvironment(0).stream(f"{self.setup.seed}/{purpose}")
