"""What `fencepost simulate` does not see: a test for each line of `what-can-still-be-wrong.md`.

A simulation predicts from its set-up alone. When a test fails because it predicts more, the page needs an
edit.
"""

import time
from typing import Any

import numpy as np

from fencepost.impl.store import ANYTHING
from fencepost.sim.des import Empirical, Faults
from fencepost.sim.des.simulate import simulate
from fencepost.sim.des.simulation import Setup, Workload
from tests.sim.des.parts import MS, RTT, World


def operations(**settings: Any) -> Any:
    return simulate(Setup(Workload("publish", writers=2, operations=10), **settings))


def test_faults_that_are_rarer_than_the_run_is_long() -> None:
    calm, rare = operations(), operations(faults=Faults(reply_lost=1e-9, crashes_per_hour=1e-6))
    assert {name: found.count for name, found in calm.operations.items()} == {
        name: found.count for name, found in rare.operations.items()
    }


def test_slow_spells_of_a_store() -> None:
    """A profile keeps how often requests are slow, not that slow ones come together."""
    spells = [MS] * 90 + [50 * MS] * 10
    mixed = [50 * MS if number % 10 == 0 else MS for number in range(100)]
    assert spells != mixed
    profiles = [Empirical(tuple(sorted(measured))) for measured in (spells, mixed)]
    assert profiles[0] == profiles[1]
    drawn = profiles[0].block(np.random.default_rng(1), 10_000) > 25 * MS
    together = (drawn[1:] & drawn[:-1]).sum() / drawn.sum()
    assert abs(together - drawn.mean()) < 0.05  # in the spells it is 0.9


def test_computing_takes_no_time() -> None:
    """Only `compute` of the set-up does; a program that computes for long is as fast as one that does not."""
    world = World()

    def busy(client: Any) -> None:
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.01:
            pass
        client.get("k")

    world.actor("busy", busy)
    [(_, _, ended)] = world.run()
    assert ended == RTT


def test_one_order_of_requests_for_each_seed() -> None:
    """It draws a schedule, and explores none: two writers that lose an update in one order alone."""
    world = World()

    def count(client: Any) -> None:
        found = client.get("counter")
        value = int(found.body) if found.done else 0
        client.put("counter", b"%d" % (value + 1), when=ANYTHING)

    def later(client: Any) -> None:
        world.env.sleep(1.0)
        count(client)

    world.actor("first", count)
    world.actor("second", later)
    world.run()
    seen: list[Any] = []
    world.actor("reader", lambda client: seen.append(client.get("counter").body))
    world.run()
    assert seen == [b"2"]
