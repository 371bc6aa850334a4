"""Ingest in simulated time: collectors accept batches and follow up, beside a reconciler, audits and garbage
collection. All of it is the code of `fencepost.impl.ingest` as it ships.

    accept       from the collector's first request until it may answer 200: one batch of `bytes`
    follow-up    the derived objects, after the answer: an actor of its own for each collector

    reconcile    one steady pass
    audit        one full audit
    collect      one pass of garbage collection, which trusts only the latest audit

A batch that was answered 503 is sent again after the pause of the reply, as an agent does, at most `attempts`
times. Garbage must be older than a horizon, which is a day; scenarios of minutes set it with the parameter
`horizon_s` and leave requests and clocks a hundredth of it.
"""

from collections.abc import Callable
from typing import Any

from fencepost.impl.cursor import CursorError
from fencepost.impl.ingest import (
    Accepted,
    Authority,
    Conflict,
    Identity,
    IngestError,
    Point,
    Reconciler,
    Settings,
    Unavailable,
    collect,
    encode,
    full_audit,
)
from fencepost.sim.des.drive import Drive, Failed
from fencepost.sim.des.engine import Channel
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.simulation import Simulation

LABEL_BYTES = 4000
"""Size of one label that pads a frame: the limit of a frame is a little more."""


class Ingesting:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        workload = simulation.setup.workload
        self.settings = settings(workload.parameters.get("horizon_s"))
        self._drive: Drive | None = None
        self._followers: dict[int, Channel] = {}
        simulation.counters.update(accepted=0.0, duplicates=0.0)

    def open(self, number: int) -> "_Collector":
        name = f"writer-{number + 1}"
        authority = Authority(self.simulation.store(name), self.simulation.env, name, self.settings)
        return _Collector(self, number, authority, self._follower(number, authority))

    def _follower(self, number: int, authority: Authority) -> Channel | None:
        """The queue of accepted batches for the follow-up actor of the same host."""
        if not self.simulation.setup.workload.follow_up:
            return None
        assert self._drive is not None
        if number not in self._followers:
            name = f"follow-up-{number + 1}"
            act = counted(authority.follow_up)
            self._followers[number] = self._drive.serve(name, "follow-up", act)
        return self._followers[number]

    def spawn_maintenance(self, drive: Drive) -> None:
        self._drive = drive
        reconciler = Reconciler(self.simulation.store("reconcile"), self.simulation.env, self.settings)
        act: dict[str, Callable[[], Any]] = {
            "reconcile": reconciler.once,
            "audit": lambda: full_audit(self.simulation.store("audit"), self.simulation.env, self.settings),
            "collect": self._collect,
        }
        for name, (every, every_ns) in self.simulation.setup.workload.maintenance.items():
            if every is not None or every_ns is not None:
                drive.keep(name, counted(act[name]), every=every, every_ns=every_ns)

    def _collect(self) -> None:
        found = collect(self.simulation.store("collect"), self.simulation.env, self.settings)
        counters = self.simulation.counters
        counters["orphans_deleted"] = counters.get("orphans_deleted", 0.0) + len(found.deleted)
        counters["orphans_young"] = float(found.young)


class _Collector:
    name = "accept"

    def __init__(
        self, ingesting: Ingesting, number: int, authority: Authority, follower: Channel | None
    ) -> None:
        self._simulation = ingesting.simulation
        self._number = number
        self._authority = authority
        self._follower = follower
        self._points = padding(ingesting.simulation.setup.workload.size)

    def act(self, operation: Operation) -> None:
        (sequence,) = self._simulation.take(1)
        identity = Identity(f"agent-{self._number + 1}", "boot-1", sequence, sequence)
        body = encode(identity, self._points, compress=False)
        for attempt in range(self._simulation.setup.workload.attempts):
            operation.retries += attempt > 0
            match self._authority.accept(identity, body):
                case Accepted(duplicate=duplicate, manifest=manifest):
                    self._simulation.counters["duplicates" if duplicate else "accepted"] += 1
                    if self._follower is not None and not duplicate:
                        self._follower.put(manifest)
                    return
                case Conflict():
                    raise Failed("Conflict")
                case Unavailable(retry_after_s=pause):
                    self._simulation.env.sleep(pause)
        raise Failed("Unavailable")


def counted(act: Callable[..., Any]) -> Callable[..., Any]:
    """Count a pass that ends because the store did not answer as failed; the next pass makes up for it."""

    def acts(*args: Any) -> Any:
        try:
            return act(*args)
        except (IngestError, CursorError) as error:
            raise Failed(type(error).__name__) from None

    return acts


def settings(horizon_s: float | None) -> Settings:
    """The standard settings, or those of a world with shorter days."""
    if horizon_s is None:
        return Settings()
    return Settings(
        horizon_s=horizon_s,
        landing_bound_s=horizon_s / 100,
        skew_bound_s=horizon_s / 100,
        overlap_s=horizon_s / 100,
    )


def padding(size: int) -> list[Point]:
    """Points that make a frame of about so many bytes."""
    labels = [LABEL_BYTES] * (size // LABEL_BYTES) + [max(1, size % LABEL_BYTES)]
    return [Point("load", {"pad": "x" * length}, 0, 0.0) for length in labels]
