"""A fenced counter: the system of docs/guides/add-a-system.md."""

from fencepost.sim.systems.system import System, Workload

_HERE = "fencepost.examples.fenced_counter"

SYSTEM = System(
    name="fenced-counter",
    summary="A counter that only the writer of the latest epoch may raise.",
    model=f"{_HERE}.model:FencedCounter",
    checks=f"{_HERE}.checks:CHECKS",
    program=f"{_HERE}.scenarios:program",
    safeguards=f"{_HERE}.counter:STANDARD",
    mutants=f"{_HERE}.scenarios:MUTANTS",
    refinement=f"{_HERE}.refinement:FencedCounterRefinement",
    run_is="claims and increments: a run is a counter",
    trace_fields=f"{_HERE}.counter:trace_fields",
    trace_layout={"promises": {"never_deleted": [r"(?:.*/)?counter"]}},
    workloads={
        "fenced-counter": Workload(
            actors=f"{_HERE}.workload:Counting",
            operations=("add",),
            keys=("workload.attempts", "faults.crash"),
        )
    },
)
