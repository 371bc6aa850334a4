"""A described path, simulated: its steps are sent through the same store, clients and limits as real code."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.requests import Outcome
from fencepost.sim.des.client import Client
from fencepost.sim.des.drive import Drive, Failed
from fencepost.sim.des.engine import Signal
from fencepost.sim.des.expressions import BadExpression
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.paths import READS, Contended, Maintenance, Path, Step, nominal
from fencepost.sim.des.simulation import Simulation

REQUESTS_MAX = 1_000_000
"""Of one step: more is a slip in its arithmetic."""


class Refused(Exception):
    """A conditional write was refused: somebody else was first."""


class Describing:
    """Every writer walks the path; the counters are common to all."""

    def __init__(self, simulation: Simulation) -> None:
        workload = simulation.setup.workload
        self.simulation = simulation
        self.path: Path = workload.path
        self.values = self.path.values(workload.depth, workload.parameters, workload.counters)
        self.parts: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        """Of the keys that writers contend for."""
        self.operation = workload.operation or self.path.operation
        self._steps = self.path.steps_of(self.operation)
        self._contends = any(step.when for step in self._steps)
        if self._contends:
            simulation.counters["conflicts"] = 0.0
        self._dice = SeededEnvironment(0).stream(f"{simulation.engine.seed}/conflicts")
        self._queue: list[Signal] = []
        self._publish_counters()

    def open(self, number: int) -> "_Walker":
        return _Walker(self, self._client(f"writer-{number + 1}"))

    def _client(self, name: str) -> Client:
        return self.simulation.client(name, compute_per_request_ns=self.path.compute_per_request_ns)

    # An operation.

    def operate(self, client: Client) -> None:
        """Alone, or with all who come within the window."""
        window_ns = self.simulation.setup.workload.window_ns
        if not window_ns:
            self._walk_once(client, 1)
            return
        ended = Signal(self.simulation.engine)
        self._queue.append(ended)
        if len(self._queue) > 1:
            ended.wait()
            return
        self.simulation.engine.sleep_ns(window_ns)
        batch, self._queue = self._queue, []
        self._walk_once(client, len(batch))
        for other in batch:
            other.set()

    def _walk_once(self, client: Client, batch: int) -> None:
        self._walk_until_done(client, batch)
        values = self.values
        for name, counter in self.path.counters.items():
            values[name] += counter.grows.value({**values, "batch": float(batch)})
        values["history"] += batch
        self._publish_counters()

    def _walk_until_done(self, client: Client, batch: int) -> None:
        """The steps, from the first again whenever a conditional write is refused."""
        for attempt in range(self.path.attempts):
            known = dict(self.versions) if self._contends else {}
            try:
                values = {**self.values, "batch": float(batch)}
                self.walk(client, self._steps, values, self.parts, known)
                return
            except Refused:
                actor = self.simulation.engine.current
                if actor is not None and actor.operation is not None:
                    actor.operation.retries += 1
                self.simulation.counters["conflicts"] = self.simulation.counters.get("conflicts", 0.0) + 1
                if attempt + 1 < self.path.attempts and self.path.pause_ns:
                    self.simulation.engine.sleep_ns(int(2 * self.path.pause_ns * self._dice.random()))
        raise Failed(f"refused {self.path.attempts} times")

    def walk(
        self,
        client: Client,
        steps: tuple[Step, ...],
        values: dict[str, float],
        parts: dict[str, int] | None,
        known: dict[str, int],
    ) -> None:
        """Send what the steps say, with these values. Raises `Refused` after a conditional write that was."""
        together: list[Any] = []
        for at, step in enumerate(steps):
            rounds = _whole(step.repeat.value(values))
            if step.compute_ns and rounds:
                self.simulation.engine.sleep_ns(step.compute_ns)
            for _ in range(rounds):
                requests = self._requests(step, values, known)
                if parts is not None and requests:
                    for name in step.counted:
                        parts[name] = parts.get(name, 0) + len(requests)
                together += requests
                follows = at + 1 < len(steps) and steps[at + 1].beside
                if follows:
                    continue
                if step.parallel or step.beside:
                    _accept(together, client.send_all(together))
                else:
                    for request in together:
                        _accept([request], [client.send(request)])
                        if step.when:  # its own writes need no read
                            known[request.key] = self.versions.get(request.key, 0)
                together = []

    def _requests(self, step: Step, values: dict[str, float], known: dict[str, int]) -> list[Any]:
        count = _whole(step.count.value(values))
        if count < 1:
            return []
        if step.key:
            shared = (step.kind, step.key, step.size, step.kind in READS, step.when)
            return [Contended(*shared, versions=self.versions, known=known)] * count
        return [nominal(step.kind, f"{step.prefix or step.counted[0]}/object", step.size)] * count

    # Maintenance.

    def spawn_maintenance(self, drive: Drive) -> None:
        for name, maintenance in self.path.maintenance.items():
            given = self.simulation.setup.workload.maintenance.get(name)
            if given is not None:
                maintenance = replace(maintenance, every=given[0], every_ns=given[1])
            if maintenance.every is None and maintenance.every_ns is None:
                continue
            run = partial(self._maintain, self._client(name), maintenance)
            drive.keep(name, run, every=maintenance.every, every_ns=maintenance.every_ns)

    def _maintain(self, client: Client, maintenance: Maintenance) -> None:
        """Its steps; what it takes off is reckoned on the values it began with."""
        values = dict(self.values)
        self.walk(client, maintenance.steps, values, None, {})
        for name, taken in maintenance.takes.items():
            self.values[name] -= taken.value(values)
        self._publish_counters()

    def _publish_counters(self) -> None:
        for name in self.path.counters:
            now = self.values[name]
            self.simulation.counters[name] = now
            peak = f"{name}_max"
            self.simulation.counters[peak] = max(now, self.simulation.counters.get(peak, now))


class _Walker:
    def __init__(self, describing: Describing, client: Client) -> None:
        self.name = describing.operation
        self._describing = describing
        self._client = client

    def act(self, operation: Operation) -> None:
        self._describing.operate(self._client)


def _accept(requests: list[Any], replies: Sequence[Any]) -> None:
    """A conditional write counts only when it was done."""
    for request, reply in zip(requests, replies, strict=True):
        if type(request) is Contended and request.when and reply.outcome is not Outcome.DONE:
            raise Refused


def _whole(number: float) -> int:
    if not number < REQUESTS_MAX:
        raise BadExpression(
            f"a step of the path asks for {number:.3g} requests at once; at most {REQUESTS_MAX}"
        )
    return max(0, round(number))
