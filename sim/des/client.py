"""The store that simulated code is given: a client of its own for each actor, or shared by several.

    store = Client(server, "writer-1", ClientModel(in_flight=8))

Called while no actor runs (while a run is being set up), a request is answered at once and takes no time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store, settle
from fencepost.impl.store.layers.retrying import Retrying
from fencepost.impl.store.requests import R, Request
from fencepost.sim.des.engine import START_NS, SimulatedEnvironment, Tick
from fencepost.sim.des.faults import Faults
from fencepost.sim.des.latency import Draw, Profile, draw
from fencepost.sim.des.server import Flight, Gate, Server

TIMEOUT_NS = 60_000_000_000
"""The SDK's own: how long a client waits for an answer that was lost."""


@dataclass(frozen=True, slots=True)
class ClientModel:
    """The settings of a client."""

    in_flight: int | None = None
    timeout_ns: int | None = None
    """When it gives up on an answer. None: only on one that never comes, after the SDK's minute."""
    attempts: int = 1
    """Repetitions of a request that may be sent again (see `impl.store.layers.retrying`)."""
    pause_ns: int = 50_000_000
    pause_max_ns: int = 5_000_000_000
    compute_per_request_ns: int = 0
    """Work of the client's one core on every answer before the code can use it."""


class Client(Store):
    def __init__(self, server: Server, name: str, model: ClientModel, env: SimulatedEnvironment) -> None:
        self.name = name
        self.env = env
        self.url = "simulated://"
        self.server = server
        self.gate = Gate(server.engine, model.in_flight) if model.in_flight is not None else None
        self.timeout_ns = model.timeout_ns
        self.wait_ns = model.timeout_ns if model.timeout_ns is not None else TIMEOUT_NS
        self.timeouts = 0
        self.compute_ns = model.compute_per_request_ns
        self._idle_from_ns = 0
        self._engine = server.engine
        self._seed = f"{server.engine.seed}/{name}"
        profile = server.model.latency
        self.draws = _Draws(profile, f"{self._seed}/latency")
        """By kind of request, the latency of the next one, there and back."""
        self.byte_ns: Callable[[str], float] | None = (
            profile.per_byte_ns if profile.byte_ns or profile.kinds_byte_ns else None
        )
        self.dice = _dice(server.faults, self._seed)

    def send(self, request: Request[R]) -> R:
        engine = self._engine
        actor = engine.current
        if actor is None:
            return self.server.bucket.answer(request, START_NS + engine.now_ns)
        if actor.crashing:
            engine.refuse(actor)
        flight = Flight(self, actor, request)
        operation = actor.operation
        if operation is not None:
            operation.step()
        actor.waits = flight
        self.server.launch(flight)
        reply = engine.hub.switch()
        if isinstance(reply, StoreError):
            raise reply
        answered: R = reply
        return answered

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        engine = self._engine
        actor = engine.current
        if actor is None or len(requests) < 2:
            return settle(self.send, requests)
        if actor.crashing:
            engine.refuse(actor)
        operation = actor.operation
        if operation is not None:
            operation.step(len(requests))
        group = _Group(len(requests))
        actor.waits = group
        for slot, request in enumerate(requests):
            flight = Flight(self, actor, request)
            flight.group = group
            flight.slot = slot
            self.server.launch(flight)
        replies: list[Any] = engine.hub.switch()
        for reply in replies:
            if isinstance(reply, StoreError):
                raise reply
        return replies

    def answered(self, flight: Flight, actor: Any, reply: Any) -> None:
        """Hand an answer to the client's core; the actor that waits for it continues afterwards."""
        if self.compute_ns:
            now = self._engine.now_ns
            self._idle_from_ns = max(self._idle_from_ns, now) + self.compute_ns
            later = Tick(self._engine, lambda _: self._hand(flight, actor, reply))
            later.after(self._idle_from_ns - now)
        elif flight.group is None:
            self._engine.wake(actor, flight, reply)
        else:
            self._hand(flight, actor, reply)

    def _hand(self, flight: Flight, actor: Any, reply: Any) -> None:
        group = flight.group
        if group is None:
            self._engine.wake(actor, flight, reply)
            return
        group.replies[flight.slot] = reply
        group.open -= 1
        if not group.open:
            self._engine.wake(actor, group, group.replies)

    def versioned(self) -> bool:
        return self.server.bucket.versioned


class _Draws(dict[str, Draw]):
    """A stream of latencies for each kind of request, made when the first of that kind is sent."""

    def __init__(self, profile: Profile, seed: str) -> None:
        self._profile = profile
        self._stream = seed

    def __missing__(self, kind: str) -> Draw:
        made = self[kind] = draw(self._profile.of(kind), f"{self._stream}/{kind}")
        return made


class _Group:
    """The replies of one parallel step, and how many are still missing."""

    __slots__ = ("open", "replies")

    def __init__(self, count: int) -> None:
        self.open = count
        self.replies: list[Any] = [None] * count


def _dice(faults: Faults, seed: str) -> Any:
    return SeededEnvironment(0).stream(f"{seed}/faults") if faults.per_request else None


def retrying(client: Client, model: ClientModel) -> Store:
    """Return the store that protocol code uses: with the retries that ship, if the model has any."""
    if model.attempts < 2:
        return client
    return Retrying(
        client, attempts=model.attempts, pause_s=model.pause_ns / 1e9, pause_max_s=model.pause_max_ns / 1e9
    )
