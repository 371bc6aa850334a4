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
from fencepost.sim.des.simulation import Setup, Simulation
from fencepost.sim.systems import SYSTEMS, Workload, load
from fencepost.sim.systems import WORKLOADS as OF_SYSTEMS

HOUR_NS = 3_600_000_000_000
WORKLOADS: dict[str, Workload] = {
    **OF_SYSTEMS,
    "described": Workload(
        actors="fencepost.sim.des.described:Describing",
        operations=(),
        keys=("workload.path", "workload.operation", "workload.depth", "workload.window", "faults.crash"),
    ),
}
"""By the value of `workload.system` in a scenario file: those of the systems, and paths without code."""


def _trace_fields(workload: str) -> Any:
    """Return the trace fields of the bodies of the system's own documents."""
    return next((load(one.trace_fields) for one in SYSTEMS.values() if workload in one.workloads), None)


def simulate(setup: Setup, *, sink: Callable[[Event], object] | None = None, run: str = "") -> Result:
    """Run `setup` to its end. Every event of the store goes to `sink`, if there is one."""
    trace_fields = _trace_fields(setup.workload.system) if sink is not None else None
    return perform(Simulation(setup, sink, run, trace_fields))


def perform(simulation: Simulation) -> Result:
    """Run a simulation to its end; what its bucket holds then can be looked at."""
    system = load(WORKLOADS[simulation.setup.workload.system].actors)(simulation)
    drive = Drive(simulation.engine, simulation.setup, system.open)
    drive.spawn()
    _schedule_crashes(simulation, drive)
    maintenance = getattr(system, "spawn_maintenance", None)
    if maintenance is not None:
        maintenance(drive)
    _skew(simulation)
    drive.at_begin.append(lambda: simulation.opening.update(simulation.server.requests))
    try:
        simulation.engine.run()
    finally:
        getattr(system, "close", lambda: None)()
    return _result(simulation, drive, getattr(system, "parts", {}))


def _skew(simulation: Simulation) -> None:
    if not simulation.setup.faults.skew_ns:
        return
    for actor in simulation.engine.actors:
        off = simulation.dice(f"skew/{actor.name}").gauss(0.0, 1.0)
        actor.skew_ns = round(off * simulation.setup.faults.skew_ns)


def _schedule_crashes(simulation: Simulation, drive: Drive) -> None:
    """Every writer crashes at moments of its own, until the work is over."""
    per_hour = simulation.setup.faults.crashes_per_hour
    if not per_hour:
        return
    engine = simulation.engine
    for actor in list(engine.actors):
        dice = simulation.dice(f"crashes/{actor.name}")

        def strike(tick: Tick, actor: Any = actor, dice: Any = dice) -> None:
            if drive.over:
                return
            if engine.crash(actor, simulation.setup.faults.restart_ns):
                simulation.server.faulted["crash"] += 1
            tick.after(int(dice.expovariate(per_hour) * HOUR_NS))

        Tick(engine, strike).after(int(dice.expovariate(per_hour) * HOUR_NS))


def _result(simulation: Simulation, drive: Drive, parts: dict[str, int]) -> Result:
    meter = simulation.engine.meter
    window_s = drive.window_s()
    done = sum(len(found.ended_ns) for name, found in meter.samples.items() if name not in drive.maintenance)
    return Result(
        operations=statistics(meter),
        failed={f"{name}: {why}": count for (name, why), count in sorted(meter.failed.items())},
        throughput=round(_completed(drive, meter.samples) / window_s, 6),
        window_s=round(window_s, 9),
        requests=dict(sorted((simulation.server.requests - simulation.opening).items())),
        outcomes={f"{kind} {what}": n for (kind, what), n in sorted(simulation.server.outcomes.items())},
        faults=dict(sorted(simulation.server.faulted.items())),
        saturation=_saturation(simulation),
        counters=dict(simulation.counters),
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


def _saturation(simulation: Simulation) -> dict[str, float]:
    now = simulation.engine.now_ns
    found: dict[str, float] = {}
    if simulation.server.gate is not None:
        found["store"] = round(simulation.server.gate.use(now), 6)
        found["store_queue_max"] = float(simulation.server.gate.queued_max)
    gates = [client.gate for client in simulation.clients.values() if client.gate is not None]
    if gates:
        found["client"] = round(sum(gate.use(now) for gate in gates) / len(gates), 6)
        found["client_queue_max"] = float(max(gate.queued_max for gate in gates))
        found["client_in_flight_max"] = float(max(gate.used_max for gate in gates))
        found["client_parallelism"] = round(sum(gate.parallelism() for gate in gates) / len(gates), 6)
    return found
