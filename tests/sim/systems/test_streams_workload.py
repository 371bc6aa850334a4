"""Streams in simulated time: what retention removes and costs, and what a boot depends on."""

from fencepost.sim.des.result import Result
from fencepost.sim.des.simulate import simulate
from fencepost.sim.des.simulation import Setup, Workload

MIN_NS = 60 * 10**9


def month(**maintenance: tuple[int | None, int | None]) -> Result:
    """Two hours of streams that live for ten minutes."""
    parameters = {"ttl_s": 600.0, "appends": 2.0, "gib_month_dollars": 1000.0}
    return simulate(
        Setup(
            Workload(
                "streams", arrival="poisson", rate=1 / 60, duration_ns=120 * MIN_NS, size=100_000,
                maintenance=maintenance, parameters=parameters,
            )
        )
    )  # fmt: skip


def test_retention_leaves_what_lives_and_nothing_leaves_without_it() -> None:
    kept, reaped = month(), month(sweep=(None, 5 * MIN_NS), scan=(None, 30 * MIN_NS))
    assert not kept.failed
    assert not reaped.failed
    assert kept.requests.get("delete", 0) == 0
    assert kept.counters["objects"] >= 3 * 100, "a manifest and two segments for each of the streams"
    assert reaped.counters["objects"] < kept.counters["objects"] / 3
    assert reaped.counters["streams_reaped"] > 60
    assert reaped.counters["storage_dollars"] < kept.counters["storage_dollars"]


def boots(population: int) -> Result:
    return simulate(
        Setup(
            Workload(
                "streams-boot",
                operations=2,
                think_ns=60 * MIN_NS,
                depth=population,
                maintenance={"scan": (1, None)},
            )
        )
    )


def test_a_boot_costs_the_same_whatever_the_population_and_a_scan_does_not() -> None:
    few, many = boots(5), boots(50)
    assert few.operations["boot"].requests == many.operations["boot"].requests == 2
    assert few.operations["scan"].requests == 1 + 5
    assert many.operations["scan"].requests == 1 + 50
