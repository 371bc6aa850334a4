"""The object server in simulated time: what its requests wait for, and what they share."""

import pytest

from fencepost.sim.des.engine import Engine
from fencepost.sim.des.faults import Faults
from fencepost.sim.des.latency import Constant, Profile
from fencepost.sim.des.result import Result
from fencepost.sim.des.server import StoreModel
from fencepost.sim.des.simulate import simulate
from fencepost.sim.des.simulation import Setup, Workload
from fencepost.sim.systems.objects.workload import DEFAULTS, SimulatedEvent, Turns

FREE = {name: 0.0 for name in DEFAULTS if name.endswith("_us")}


def served(
    writers: int = 1,
    operations: int = 20,
    flush_ms: float = 10,
    faults: Faults | None = None,
    **parameters: float,
) -> Result:
    store = StoreModel(latency=Profile(Constant(round(flush_ms * 1e6))))
    workload = Workload(
        "objects", writers=writers, operations=operations, parameters={"keys": 10.0, **parameters}
    )
    return simulate(Setup(workload, store, faults=faults or Faults()))


@pytest.mark.parametrize(
    ("kind", "parameter", "flushes"),
    [("put", "", 2), ("delete", "deleters", 1), ("get", "getters", 0), ("list", "listers", 0)],
)
def test_a_put_waits_for_two_flushes_a_delete_for_one_and_a_read_for_none(
    kind: str, parameter: str, flushes: int
) -> None:
    found = served(**{**FREE, parameter: 1.0} if parameter else FREE)
    assert not found.failed
    assert found.operations[kind].count == 20
    assert found.operations[kind].requests == flushes
    assert found.operations[kind].p50 == found.operations[kind].p99 == flushes * 10
    assert found.requests == ({"put": 20 * flushes} if flushes else {})


def test_what_is_computed_is_added() -> None:
    found = served(flush_ms=1)
    microseconds = sum(DEFAULTS[f"{name}_us"] for name in ("request", "put", "transaction", "change"))
    assert found.operations["put"].p50 == pytest.approx(2 + microseconds / 1000)


def test_many_connections_share_flushes_and_transactions() -> None:
    one, many = served(flush_ms=20), served(16, 160, flush_ms=20)
    assert one.operations["put"].requests == 2
    assert one.counters["changes_per_transaction"] == 1
    assert many.operations["put"].requests < 1.8
    assert many.counters["changes_per_transaction"] > 1.2
    assert many.counters["changes"] == 160
    assert many.throughput > 8 * one.throughput


def test_a_worker_is_one_core() -> None:
    one, two = served(16, 80, flush_ms=0.1), served(16, 80, flush_ms=0.1, workers=2.0)
    assert 1.6 * one.throughput < two.throughput < 2 * one.throughput


def test_a_listing_delays_the_puts_of_its_worker() -> None:
    alone, beside = served(4, 40, flush_ms=1), served(4, 40, flush_ms=1, listers=1.0, list_us=2_000_000.0)
    assert not beside.failed
    assert beside.operations["list"].count
    assert beside.operations["put"].p99 > alone.operations["put"].p99 + 5


def test_a_flush_that_fails_is_an_error_and_no_answer() -> None:
    found = served(operations=40, faults=Faults(throttled=0.3))
    failed = sum(found.failed.values())
    assert failed > 5
    assert found.operations["put"].count == 40 - failed


def test_the_real_server_is_as_fast() -> None:
    """Its figures are in the scenario `objects-measured`."""
    assert served(1, 20, flush_ms=50, request_us=0.0).throughput == pytest.approx(9.7, rel=0.1)
    assert served(16, 160, flush_ms=50, request_us=0.0).throughput == pytest.approx(141, rel=0.15)


def test_turns_are_taken_in_order() -> None:
    engine = Engine()
    turns, seen = Turns(engine), []

    def work(name: str) -> None:
        for number in range(2):
            with turns:
                engine.sleep_ns(10)
                seen.append((engine.now_ns, f"{name}{number}"))

    for name in "abc":
        engine.spawn(name, lambda name=name: work(name))  # type: ignore[misc]  # mypy infers no default
    engine.run()
    assert seen == [(10, "a0"), (20, "b0"), (30, "c0"), (40, "a1"), (50, "b1"), (60, "c1")]


def test_an_event_wakes_once_when_it_is_set_or_in_time() -> None:
    engine = Engine()
    event, seen = SimulatedEvent(engine), []

    def wait(timeout: float | None) -> None:
        seen.append((event.wait(timeout), engine.now_ns))

    engine.spawn("late", lambda: wait(1e-6))
    engine.spawn("patient", lambda: wait(None))
    engine.spawn("sets", lambda: (engine.sleep_ns(5000), event.set()))
    engine.spawn("after", lambda: wait(None), after_ns=6000)
    engine.run()
    assert seen == [(False, 1000), (True, 5000), (True, 6000)]
