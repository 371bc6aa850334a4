"""Lifecycle, the shipped worker: objects expire by what the change log says."""

from typing import Any

from fencepost.sim.systems.system import System, Workload

_HERE = "fencepost.sim.systems.lifecycle"
_SIMULATED: dict[str, Any] = {
    "operations": ("write", "round", "look"),
    "maintenance": ("round",),
    "counters": (
        "expired",
        "left",
        "late_s_most",
        "lag_most",
        "demoted_at_s",
        "log_lost",
        "caught_up_s",
    ),
    "parameters": ("days", "connections", "day_s", "retention_s", "flush_s", "down_s", "walk_s"),
    "keys": ("workload.bytes", "workload.depth"),
}

SYSTEM = System(
    name="lifecycle",
    summary="Lifecycle, the shipped worker: objects expire by what the change log says.",
    model="fencepost.model.lifecycle:Lifecycle",
    observed="fencepost.model.lifecycle_observed:LifecycleObserved",
    further_models={
        "lifecycle-merged": "fencepost.model.lifecycle_merged:LifecycleMerged",
        "lifecycle-seeding": "fencepost.model.lifecycle_seeding:LifecycleSeeding",
        "lifecycle-blockers": "fencepost.model.lifecycle_blockers:LifecycleBlockers",
        "lifecycle-notified": "fencepost.model.lifecycle_notified:LifecycleNotified",
    },
    checks="fencepost.properties.lifecycle.checks:CHECKS",
    program=f"{_HERE}.scenarios:program",
    safeguards="fencepost.impl.lifecycle.safeguards:STANDARD",
    mutants=f"{_HERE}.mutants:MUTANTS",
    refinement="fencepost.properties.lifecycle.refinement:LifecycleRefinement",
    run_is="cursors, walks and blockers: a run is that of a store, or with `whole=1` from its beginning",
    trace_fields="fencepost.impl.lifecycle.trace_fields:trace_fields",
    trace_layout={},
    extension="fencepost.impl.lifecycle.served:ServedLifecycle",
    workloads={
        "lifecycle": Workload(actors=f"{_HERE}.workload:Expiring", **_SIMULATED),
        "lifecycle-walks": Workload(actors=f"{_HERE}.workload:Walked", **_SIMULATED),
        "lifecycle-keys": Workload(
            actors=f"{_HERE}.keys:Walking",
            operations=("walk", "look"),
            maintenance=(),
            counters=(
                "hours",
                "formula_hours",
                "hours_over",
                "dollars",
                "formula_dollars",
                "dollars_over",
                "lists",
                "state_share",
                "expired",
                "least_share",
            ),
            parameters=("keys", "due", "as_one", "connections"),
            keys=(),
        ),
    },
)
