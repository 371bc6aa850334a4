"""The simulator against what is known in closed form: queues, Little's law, and the hops of a metered run."""

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.des import ClientModel, Constant, Lognormal, Profile, Setup, StoreModel, Workload, simulate
from fencepost.sim.des.paths import Path, Step
from tests.sim.des.parts import MS, constant

ONE = Path("one", steps=(Step("ask"),))


def arrivals(rate: float, store: StoreModel, operations: int = 20_000) -> Setup:
    return Setup(
        Workload("described", path=ONE, writers=200, arrival="poisson", rate=rate, operations=operations),
        store,
    )


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_server_with_constant_service_waits_as_pollaczek_and_khinchine_say(load: float) -> None:
    """M/D/1: the mean time in the system is 1/mu (1 + load / (2 (1 - load)))."""
    found = simulate(arrivals(load * 100, constant(10 * MS, in_flight=1)))
    expected = 10 * (1 + load / (2 * (1 - load)))
    assert found.operations["write"].mean == pytest.approx(expected, rel=0.06)
    assert found.saturation["store"] == pytest.approx(load, rel=0.03)


def test_a_saturated_store_serves_what_it_can_and_no_more() -> None:
    closed = Setup(
        Workload("described", path=ONE, writers=50, operations=5000), constant(10 * MS, in_flight=4)
    )
    found = simulate(closed)
    assert found.throughput == pytest.approx(400, rel=0.01)
    assert found.operations["write"].mean == pytest.approx(50 / 400 * 1000, rel=0.02)
    assert found.saturation["store"] > 0.99


@pytest.mark.parametrize("writers", [1, 7, 40])
def test_littles_law(writers: int) -> None:
    """Those under way are throughput times latency: in a closed loop, all writers."""
    store = StoreModel(latency=Profile(Lognormal(10 * MS, 40 * MS)), in_flight=8)
    found = simulate(Setup(Workload("described", path=ONE, writers=writers, operations=4000), store))
    assert found.throughput * found.operations["write"].mean / 1000 == pytest.approx(writers, rel=0.02)


def test_arrivals_come_at_their_rate_and_wait_for_a_free_writer() -> None:
    slow = Setup(
        Workload("described", path=ONE, writers=1, arrival="poisson", rate=200, operations=400),
        constant(10 * MS),
    )
    found = simulate(slow)
    assert found.throughput == pytest.approx(100, rel=0.01), "one writer, ten milliseconds each"
    assert found.operations["write"].max > 1000, "latency counts from the arrival, so falling behind shows"


def test_hops_and_requests_are_those_that_a_metered_run_counts() -> None:
    """The same publishes: counted in simulated time, and by the graph of happens-before."""
    metered = Metered(MemoryStore(env=SeededEnvironment(1)))
    founder = Catalog.open(metered, author="founder", create=True)
    with founder.transaction() as txn:
        txn.create_table("t0", {"id": "int64", "n": "int64"}, key="id")
        txn.append("t0", [{"id": -1, "n": 0}])
    catalog = Catalog.open(metered, author="meter", mode="join")
    costs = []
    for number in range(5):
        with metered.operation("publish") as cost:
            catalog.write(lambda txn, n=number: txn.append("t0", [{"id": n, "n": 0}]))
        costs.append(cost)
    stats = simulate(Setup(Workload("publish", operations=5), constant())).operations["publish"]
    assert stats.requests == sum(cost.requests for cost in costs) / 5
    assert stats.serial_hops == sum(cost.serial_hops for cost in costs) / 5
    assert {(cost.requests, cost.serial_hops) for cost in costs[1:]} == {(7, 3)}
    assert stats.p50 == 3 * 20


def test_a_described_path_takes_its_hops_times_the_latency() -> None:
    steps = (
        Step("chain", count=_number(5)),
        Step("fan", count=_number(30), parallel=True, repeat=_number(2)),
        Step("one", kind="put"),
        Step("beside", count=_number(3), parallel=True),
        Step("them", count=_number(4), beside=True),
    )
    path = Path("p", steps=steps)
    found = simulate(Setup(Workload("described", path=path, operations=1), constant(10 * MS)))
    stats = found.operations["write"]
    assert (stats.requests, stats.serial_hops, stats.p50) == (73, 9, 90.0)
    capped = simulate(
        Setup(Workload("described", path=path, operations=1), constant(10 * MS), ClientModel(in_flight=10))
    )
    assert capped.operations["write"].p50 == 10.0 * (5 + 3 + 3 + 1 + 1)
    assert capped.parts == {"chain": 5, "fan": 60, "one": 1, "beside": 3, "them": 4}


def _number(count: int) -> object:
    from fencepost.sim.des.expressions import expression

    return expression(count)


def test_constant_stores_need_no_randomness() -> None:
    one = Setup(
        Workload("described", path=ONE, operations=10), StoreModel(latency=Profile(Constant(MS))), seed=1
    )
    other = Setup(
        Workload("described", path=ONE, operations=10), StoreModel(latency=Profile(Constant(MS))), seed=2
    )
    assert simulate(one).operations == simulate(other).operations
