"""Streams in simulated time: the code of `fencepost.impl.streams` as it ships.

    streams        an operation is a stream: created with a time to live, appended to, read, left to expire.
                   All writers use one node. Its sweeps reap; its scans find what no row leads to
    streams-boot   an operation is a node that starts without local state on a prefix with `depth` streams
                   and answers its first read. A tenth of them is deleted and not reaped. A scan of the same
                   node is maintenance: until it has ended, streams that only the
                   lost state led to are not reaped

Counters of `streams`: `objects` and `stored_mib` at the last look; `storage_dollars` for what was stored in
the run on average, at the parameter `gib_month_dollars` (0.023).
"""

import functools
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Put
from fencepost.impl.streams import Configuration, Node, Reaper, Settings, StreamError
from fencepost.sim.des.drive import Drive, Failed
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.simulation import Simulation

TYPE = "text/plain"
TTL_S = 3600
APPENDS = 4
LOOK_EVERY = 20
"""Streams between two looks at what is stored."""
MONTH_NS = 30 * 86_400 * 10**9
SETTINGS = Settings(scan_s=0.0, reap_limit=10**9)


class ShortLived:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.node = Node(simulation.store("node"), simulation.env, SETTINGS)
        self._looks = self._bytes = 0
        simulation.counters.update(objects=0.0, stored_mib=0.0, storage_dollars=0.0, streams_reaped=0.0)

    def open(self, number: int) -> "_Writer":
        return _Writer(self)

    def spawn_maintenance(self, drive: Drive) -> None:
        reaper = Reaper(self.node)

        def sweep() -> None:
            failures = list(reaper.sweep())
            self.simulation.counters["streams_reaped"] = float(reaper.counters.streams_reaped)
            if failures:
                raise Failed(type(failures[0][1]).__name__)

        act = {"sweep": sweep, "scan": reaper.scan}
        for name, (every, every_ns) in self.simulation.setup.workload.maintenance.items():
            if every is not None or every_ns is not None:
                drive.keep(name, act[name], every=every, every_ns=every_ns)

    def look(self) -> None:
        """Note what is stored. Costs as much as there is, so not every time."""
        contents = self.simulation.server.bucket.contents()
        size = sum(map(len, contents.values()))
        self._looks, self._bytes = self._looks + 1, self._bytes + size
        counters = self.simulation.counters
        counters["objects"], counters["stored_mib"] = float(len(contents)), round(size / 2**20, 3)
        price = self.simulation.setup.workload.parameters.get("gib_month_dollars", 0.023)
        months = self.simulation.engine.now_ns / MONTH_NS
        counters["storage_dollars"] = round(price * months * self._bytes / self._looks / 2**30, 6)


class _Writer:
    name = "stream"

    def __init__(self, system: ShortLived) -> None:
        self._system = system
        workload = system.simulation.setup.workload
        self._appends = int(workload.parameters.get("appends", APPENDS))
        self._made = Configuration(TYPE, ttl_s=int(workload.parameters.get("ttl_s", TTL_S)))
        self._body = b"x" * max(1, workload.size // self._appends)

    def act(self, operation: Operation) -> None:
        (number,) = self._system.simulation.take(1)
        name, node = f"/{number}", self._system.node
        try:
            node.create(name, self._made)
            for _ in range(self._appends):
                node.append(name, self._body, content_type=TYPE)
            node.read_from(name)
        except StreamError as error:
            raise Failed(type(error).__name__) from None
        if number % LOOK_EVERY == LOOK_EVERY - 1:
            self._system.look()


@functools.cache
def founding(population: int) -> dict[str, bytes]:
    """So many streams, of which every tenth is deleted. Made once for a process."""
    env = SeededEnvironment(1)
    store = MemoryStore(env=env)
    node = Node(store, env, SETTINGS)
    for number in range(population):
        node.create(f"/{number}", Configuration(TYPE))
        node.append(f"/{number}", b"x" * 1000, content_type=TYPE)
        if number % 10 == 9:
            node.delete(f"/{number}")
    return dict(store.contents())


class Booting:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.node: Node | None = None
        for key, body in founding(simulation.setup.workload.depth).items():
            simulation.server.bucket.answer(Put(key, body, ANYTHING), 0)

    def open(self, number: int) -> "_Boot":
        return _Boot(self)

    def spawn_maintenance(self, drive: Drive) -> None:
        for name, (every, every_ns) in self.simulation.setup.workload.maintenance.items():
            if every is not None or every_ns is not None:
                drive.keep(name, self._scan, every=every, every_ns=every_ns)

    def _scan(self) -> None:
        assert self.node is not None, "a boot precedes it"
        Reaper(self.node).scan()


class _Boot:
    name = "boot"

    def __init__(self, system: Booting) -> None:
        self._system = system

    def act(self, operation: Operation) -> Any:
        simulation = self._system.simulation
        store = simulation.store("node")
        try:
            store.verify()
            node = Node(store, simulation.env, SETTINGS)
            if simulation.setup.workload.depth:
                node.read_from("/0")
        except StreamError as error:
            raise Failed(type(error).__name__) from None
        self._system.node = node
