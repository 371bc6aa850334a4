"""Streams, the shipped library: durable streams on an object store, with retention."""

from fencepost.sim.systems.system import System, Workload

_HERE = "fencepost.sim.systems.streams"
_DATA = [r"(?:.*/)?streams/[0-9a-f]{32}/segments/.*"]

SYSTEM = System(
    name="streams",
    summary="Streams, the shipped library: durable streams with retention.",
    model="fencepost.model.streams:Streams",
    observed="fencepost.model.streams_observed:StreamsObserved",
    checks="fencepost.properties.streams.checks:CHECKS",
    program=f"{_HERE}.scenarios:program",
    safeguards="fencepost.impl.streams:STANDARD",
    mutants=f"{_HERE}.mutants:MUTANTS",
    refinement="fencepost.properties.streams.refinement:StreamsRefinement",
    run_is="appends, owners and retention: a run is a stream",
    trace_fields="fencepost.impl.streams.manifest:trace_fields",
    trace_layout={"promises": {"created_once": _DATA}},
    workloads={
        "streams": Workload(
            actors=f"{_HERE}.workload:ShortLived",
            operations=("stream", "sweep", "scan"),
            maintenance=("sweep", "scan"),
            counters=("objects", "stored_mib", "storage_dollars", "streams_reaped"),
            parameters=("ttl_s", "appends", "gib_month_dollars"),
            keys=("workload.bytes",),
        ),
        "streams-boot": Workload(
            actors=f"{_HERE}.workload:Booting",
            operations=("boot", "scan"),
            maintenance=("scan",),
            keys=("workload.depth",),
            depth_max=20_000,
        ),
    },
)
