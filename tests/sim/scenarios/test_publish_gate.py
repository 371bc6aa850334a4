"""The cost gate of publish behind latency and a cap: requests and serial hops, never seconds of this machine.

Both are needed. Hops alone pass a path that reads more with every commit, as long as all reads are in flight
at once; behind a cap they queue, and the path becomes slower with the age of the catalog.
"""

from typing import Any

import pytest

from fencepost.sim.des import ClientModel, Constant, Profile, Setup, Simulation, StoreModel, Workload
from fencepost.sim.des.meter import Samples
from fencepost.sim.des.simulate import perform
from fencepost.sim.scenarios.pathfiles import LIBRARY, find_path
from tests.impl.publish.test_cost import HOPS_MAX, REQUESTS_MAX

MS = 1_000_000
CAP = 8
OPERATIONS = 6
YOUNG, OLD = 10, 100


def measured(depth: int, latency_ms: int = 50, cap: int | None = CAP, **workload: Any) -> Samples:
    """The operations of one writer on a catalog of so many commits."""
    simulation = Simulation(
        Setup(
            Workload(**{"system": "publish", "operations": OPERATIONS, "depth": depth, **workload}),
            store=StoreModel(Profile(Constant(latency_ms * MS))),
            client=ClientModel(in_flight=cap),
        )
    )
    perform(simulation)
    (samples,) = simulation.engine.meter.samples.values()
    return samples


def hops(depth: int, cap: int | None = CAP, **workload: Any) -> float:
    """The slope of the wall time over the latency, from 50 to 150 ms: hops, and what queues for a place."""
    near, far = (measured(depth, latency_ms, cap, **workload).latency_ns[-1] for latency_ms in (50, 150))
    return (far - near) / (100 * MS)


@pytest.mark.parametrize("depth", [YOUNG, OLD, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_warm_publish_costs_the_same_at_every_depth(depth: int) -> None:
    found = measured(depth)
    assert set(found.requests[1:]) == {REQUESTS_MAX}
    assert set(found.hops[1:]) == {HOPS_MAX}
    assert set(found.latency_ns[1:]) == {HOPS_MAX * 50 * MS}, "no request queues for a place"


@pytest.mark.parametrize("latency_ms", [50, 150])
def test_the_trend_is_hops_times_distance(latency_ms: int) -> None:
    found = measured(OLD, latency_ms)
    assert set(found.latency_ns[1:]) == {HOPS_MAX * latency_ms * MS}
    assert hops(OLD) == HOPS_MAX


def test_the_first_publish_of_a_handle_reads_the_runs_of_one_table_at_once() -> None:
    """Runs are few, whatever the depth: 7 for each digit of the number of commits to the base 8."""
    shallow, deep = measured(YOUNG), measured(OLD)
    assert shallow.hops[0] <= HOPS_MAX + 2
    assert deep.hops[0] <= HOPS_MAX + 2
    assert deep.requests[0] - shallow.requests[0] <= 14


def test_tables_of_one_plan_share_the_hops() -> None:
    one, three = (measured(YOUNG, tables=tables) for tables in (1, 3))
    assert one.hops[-1] == three.hops[-1] == HOPS_MAX


def scanned(depth: int, cap: int | None) -> float:
    path = find_path("scanned-catalog", LIBRARY)
    return hops(depth, cap, system="described", path=path)


def test_a_path_that_scans_its_history_passes_without_a_cap_and_fails_with_one() -> None:
    """The gate can fail, and the cap is what makes it: without one all reads are a single hop."""
    assert scanned(YOUNG, None) == scanned(OLD, None)
    assert scanned(OLD, CAP) > 2 * scanned(YOUNG, CAP)
