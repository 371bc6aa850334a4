"""Publish, the shipped library: many tables, one visible commit."""

from fencepost.sim.systems.system import System, Workload

_HERE = "fencepost.sim.systems.publish"
_ROW_KEYS = ("workload.tables", "workload.rows", "workload.depth", "workload.attempts")
_DEPTH_MAX = 10_000  # about half a minute

SYSTEM = System(
    name="publish",
    summary="Publish, the shipped library: many tables, one visible commit.",
    model="fencepost.model.publish:Publish",
    observed="fencepost.model.publish_observed:PublishObserved",
    further_models={"publish-content": "fencepost.model.publish_content:PublishContent"},
    checks="fencepost.properties.publish.checks:CHECKS",
    program=f"{_HERE}.scenarios:program",
    safeguards="fencepost.impl.publish:STANDARD",
    mutants=f"{_HERE}.mutants:MUTANTS",
    refinement="fencepost.properties.publish.refinement:PublishRefinement",
    run_is="many tables, one visible commit: a run is a catalog",
    trace_fields="fencepost.impl.publish.trace_fields:trace_fields",
    trace_layout={
        "promises": {
            "created_once": [
                r"(?:.*/)?branch/[^/]+/manifest/[0-9]{20}\.json",
                r"(?:.*/)?table/[^/]+/version/[0-9]{20}\.json",
            ]
        }
    },
    demo_mutant="create-only-manifest",
    demo_scenario="takeover",
    workloads={
        "publish": Workload(
            actors=f"{_HERE}.workload:Publishing",
            operations=("publish",),
            keys=(*_ROW_KEYS, "faults.crash"),
            depth_max=_DEPTH_MAX,
            requires="pyarrow",
        ),
        "group": Workload(
            actors=f"{_HERE}.workload:Grouping",
            operations=("publish",),
            # A crash of one writer would end all writers that share its handle.
            keys=(*_ROW_KEYS, "workload.window"),
            depth_max=_DEPTH_MAX,
            requires="pyarrow",
        ),
    },
)
