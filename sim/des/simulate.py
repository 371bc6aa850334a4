"""One run from its set-up to its result.

result = simulate(Setup(Workload(system, writers=4, operations=1000)))
result.operations[operation].p99
"""

from collections.abc import Callable
from typing import Any

from fencepost.impl.store.events import Event
from fencepost.sim.des.drive import Drive
from fencepost.sim.des.engine import Tick
from fencepost.sim.des.meter import Samples
from fencepost.sim.des.result import MS, Result, statistics
from fencepost.sim.des.scene import Scene
from fencepost.sim.des.setup import Setup
from fencepost.sim.systems import SYSTEMS, Workload, load
from fencepost.sim.systems import WORKLOADS as OF_SYSTEMS

HOUR_NS = 3_600_000_000_000
WORKLOADS: dict[str, Workload] = {
    **OF_SYSTEMS,
    "described": Workload(
        actors="fencepost.sim.des.described:Describing",
        operations=(),
        keys=("workload.path", "workload.depth", "workload.window", "faults.crash"),
    ),
}
"""By the value of `workload.system` in a scenario file: those of the systems, and paths without code."""


def _trace_fields(workload: str) -> Any:
    """What events tell of the bodies of the system's own documents."""
    return next((load(one.trace_fields) for one in SYSTEMS.values() if workload in one.workloads), None)


def simulate(setup: Setup, *, sink: Callable[[Event], object] | None = None, run: str = "") -> Result:
    """Run `setup` to its end. Every event of the store goes to `sink`, if there is one."""
    trace_fields = _trace_fields(setup.workload.system) if sink is not None else None
    return perform(Scene(setup, sink, run, trace_fields))


def perform(scene: Scene) -> Result:
    """Run a scene to its end; what its bucket holds then can be looked at."""
    system = load(WORKLOADS[scene.setup.workload.system].actors)(scene)
    drive = Drive(scene.engine, scene.setup, system.open)
    drive.spawn()
    _schedule_crashes(scene, drive)
    maintenance = getattr(system, "spawn_maintenance", None)
    if maintenance is not None:
        maintenance(drive)
    _skew(scene)
    drive.at_begin.append(lambda: scene.opening.update(scene.server.requests))
    scene.engine.run()
    return _result(scene, drive, getattr(system, "parts", {}))


def _skew(scene: Scene) -> None:
    if not scene.setup.faults.skew_ns:
        return
    for actor in scene.engine.actors:
        off = scene.dice(f"skew/{actor.name}").gauss(0.0, 1.0)
        actor.skew_ns = round(off * scene.setup.faults.skew_ns)


def _schedule_crashes(scene: Scene, drive: Drive) -> None:
    """Every writer crashes at moments of its own, until the work is over."""
    per_hour = scene.setup.faults.crashes_per_hour
    if not per_hour:
        return
    engine = scene.engine
    for actor in list(engine.actors):
        dice = scene.dice(f"crashes/{actor.name}")

        def strike(tick: Tick, actor: Any = actor, dice: Any = dice) -> None:
            if drive.over:
                return
            if engine.crash(actor, scene.setup.faults.restart_ns):
                scene.server.faulted["crash"] += 1
            tick.after(int(dice.expovariate(per_hour) * HOUR_NS))

        Tick(engine, strike).after(int(dice.expovariate(per_hour) * HOUR_NS))


def _result(scene: Scene, drive: Drive, parts: dict[str, int]) -> Result:
    meter = scene.engine.meter
    window_s = drive.window_s()
    done = sum(len(found.ended_ns) for name, found in meter.samples.items() if name not in drive.maintenance)
    return Result(
        operations=statistics(meter),
        failed={f"{name}: {why}": count for (name, why), count in sorted(meter.failed.items())},
        throughput=round(_completed(drive, meter.samples) / window_s, 6),
        window_s=round(window_s, 9),
        requests=dict(sorted((scene.server.requests - scene.opening).items())),
        outcomes={f"{kind} {what}": n for (kind, what), n in sorted(scene.server.outcomes.items())},
        faults=dict(sorted(scene.server.faulted.items())),
        saturation=_saturation(scene),
        counters=dict(scene.counters),
        parts={name: round(n / max(1, done), 4) for name, n in parts.items()},
        latencies_ms={
            name: [round(ns / MS, 6) for ns in samples.latency_ns]
            for name, samples in sorted(meter.samples.items())
        },
    )


def _completed(drive: Drive, samples: dict[str, Samples]) -> int:
    """Operations of the workload that ended within the window; maintenance's are not the workload's."""
    until = drive.until_ns
    return sum(
        len(found.ended_ns) if until is None else sum(ended <= until for ended in found.ended_ns)
        for name, found in samples.items()
        if name not in drive.maintenance
    )


def _saturation(scene: Scene) -> dict[str, float]:
    now = scene.engine.now_ns
    found: dict[str, float] = {}
    if scene.server.gate is not None:
        found["store"] = round(scene.server.gate.use(now), 6)
        found["store_queue_max"] = float(scene.server.gate.queued_max)
    gates = [client.gate for client in scene.clients.values() if client.gate is not None]
    if gates:
        found["client"] = round(sum(gate.use(now) for gate in gates) / len(gates), 6)
        found["client_queue_max"] = float(max(gate.queued_max for gate in gates))
    return found
