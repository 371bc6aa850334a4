"""The object server: a directory with conditional writes."""

from fencepost.sim.systems.system import System, Workload

_HERE = "fencepost.sim.systems.objects"

SYSTEM = System(
    name="objects",
    summary="The object server: a directory whose conditional writes hold through kills and power losses.",
    model="fencepost.model.objects:Objects",
    observed="fencepost.model.objects_observed:ObjectsObserved",
    further_models={
        "uploads": "fencepost.model.uploads:Uploads",
        "handoff": "fencepost.model.handoff:Handoff",
    },
    checks="fencepost.properties.objects.checks:CHECKS",
    program=f"{_HERE}.scenarios:program",
    safeguards="fencepost.impl.objects.safeguards:STANDARD",
    mutants=f"{_HERE}.mutants:MUTANTS",
    refinement="fencepost.properties.objects.replayed:ObjectsReplayed",
    run_is="writes of the server, by their system calls: a run is a write",
    trace_fields="fencepost.properties.objects.refinement:trace_fields",
    trace_layout={},
    faults={"crash": 1, "power_loss": 1, "reply_lost": 0, "request_lost": 0, "pause": 0},
    workloads={
        "objects": Workload(
            actors=f"{_HERE}.workload:Serving",
            operations=("put", "get", "delete", "list"),
            counters=("transactions", "changes", "changes_per_transaction"),
            parameters=(
                "workers", "deleters", "getters", "listers", "keys", "request_us", "put_us", "get_us",
                "delete_us", "list_us", "transaction_us", "change_us",
            ),
            keys=("workload.bytes",),
        ),
    },
)  # fmt: skip
