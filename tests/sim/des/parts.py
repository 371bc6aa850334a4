"""What the tests of the simulator share: small runs on a store of one's own making."""

from collections.abc import Callable
from typing import Any

from fencepost.sim.des import (
    Client,
    ClientModel,
    Constant,
    Engine,
    Faults,
    Profile,
    Server,
    SimulatedEnvironment,
    StoreModel,
)

MS = 1_000_000
RTT = 20 * MS


class World:
    """An engine, a store and its clients; what actors observe goes into `seen`."""

    def __init__(
        self,
        store: StoreModel | None = None,
        client: ClientModel | None = None,
        faults: Faults | None = None,
        seed: int = 0,
    ) -> None:
        self.engine = Engine(seed)
        self.server = Server(self.engine, store or constant(), faults=faults)
        self.env = SimulatedEnvironment(self.engine)
        self.model = client or ClientModel()
        self.seen: list[Any] = []

    def client(self, name: str = "client") -> Client:
        return Client(self.server, name, self.model, self.env)

    def actor(self, name: str, act: Callable[[Client], Any]) -> None:
        """`act` with a client of its own; its result is seen with the time of its end."""
        client = self.client(name)

        def body() -> None:
            result = act(client)
            self.seen.append((name, result, self.engine.now_ns))

        self.engine.spawn(name, body)

    def run(self) -> list[Any]:
        self.engine.run()
        return self.seen


def constant(ns: int = RTT, **limits: Any) -> StoreModel:
    return StoreModel(latency=Profile(Constant(ns)), **limits)
