"""Ingest, the shipped library: active-active acceptance of batches."""

from fencepost.sim.systems.system import System, Workload

_HERE = "fencepost.sim.systems.ingest"
_MAINTENANCE = ("reconcile", "audit", "collect")
_DOCUMENTS = [r"(?:.*/)?accepted/v1/.*", r"(?:.*/)?quarantine/v1/.*"]

SYSTEM = System(
    name="ingest",
    summary="Ingest, the shipped library: active-active acceptance of batches.",
    model="fencepost.model.ingest:Ingest",
    observed="fencepost.model.ingest_observed:IngestObserved",
    further_models={
        "ingest-notified": "fencepost.model.ingest_notified:IngestNotified",
        "ingest-reading": "fencepost.model.ingest_reading:IngestReading",
    },
    checks="fencepost.properties.ingest.checks:CHECKS",
    program=f"{_HERE}.scenarios:program",
    safeguards="fencepost.impl.ingest:STANDARD",
    mutants=f"{_HERE}.mutants:MUTANTS",
    refinement="fencepost.properties.ingest.refinement:IngestRefinement",
    run_is="acceptance of batches: a run is an identity",
    trace_fields="fencepost.impl.ingest.trace_fields:trace_fields",
    trace_layout={
        "promises": {"created_once": _DOCUMENTS, "never_deleted": _DOCUMENTS},
        # A blob may carry its generation behind its name.
        "needs": [
            {
                "key": r"(?P<root>(?:.*/)?)accepted-by-blob/v1/sha256/"
                r"(?P<a>[^/]+)/(?P<b>[^/]+)/(?P<sha>[0-9a-f]{64})/.*",
                "of": "{root}raw-blobs/v1/sha256/{a}/{b}/{sha}",
            }
        ],
    },
    workloads={
        "ingest": Workload(
            actors=f"{_HERE}.workload:Ingesting",
            operations=("accept", "follow-up", *_MAINTENANCE),
            maintenance=_MAINTENANCE,
            counters=("accepted", "duplicates", "orphans_deleted", "orphans_young"),
            parameters=("horizon_s",),
            keys=("workload.bytes", "workload.follow_up", "workload.attempts", "faults.crash"),
        )
    },
)
