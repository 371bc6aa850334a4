"""The parts of the publish workload that are not the library's: the window of a group, and skewed clocks."""

from typing import Any

import pytest

from fencepost.impl.publish import Draft, StaleView
from fencepost.sim.des import Engine, SimulatedEnvironment
from fencepost.sim.des.engine import START_NS
from fencepost.sim.systems.publish.workload import Windowed
from tests.sim.des.parts import MS


class Slow:
    """Stands for a catalog: publishes in 80 ms what it is given, or raises."""

    def __init__(self, engine: Engine, *, refuses: bool = False) -> None:
        self._engine = engine
        self._refuses = refuses
        self.groups: list[int] = []

    def publish_all(self, drafts: Any) -> list[str]:
        self.groups.append(len(drafts))
        self._engine.sleep_ns(80 * MS)
        if self._refuses:
            raise StaleView("others were first")
        return ["published"] * len(drafts)


def ends(arrivals: list[int], *, refuses: bool = False) -> tuple[list[Any], list[int]]:
    """When each publisher that came at these milliseconds had its answer; the sizes of the groups."""
    engine = Engine()
    catalog = Slow(engine, refuses=refuses)
    windowed = Windowed(engine, catalog, 100 * MS)  # type: ignore[arg-type]
    received: dict[int, Any] = {}

    def publisher(at: int) -> None:
        try:
            windowed.publish(Draft())
        except StaleView:
            received[at] = "refused"
        else:
            received[at] = engine.now_ns // MS

    for at in arrivals:
        engine.spawn(f"p{at}", lambda at=at: publisher(at), after_ns=at * MS)
    engine.run()
    return [received[at] for at in arrivals], catalog.groups


def test_the_first_of_a_group_waits_for_the_window_and_all_drafts_in_it_are_published() -> None:
    assert ends([0, 30, 99]) == ([180, 180, 180], [3])


def test_a_later_draft_waits_for_the_next_group_and_its_waiting_counts() -> None:
    """At 110 the first group is on its way until 180; the window of the next ends at 210, not at 280."""
    assert ends([0, 110, 150]) == ([180, 290, 290], [1, 2])
    assert ends([0, 101, 400]) == ([180, 281, 580], [1, 1, 1])


def test_every_draft_of_a_refused_group_is_refused() -> None:
    assert ends([0, 50, 120], refuses=True) == (["refused"] * 3, [2, 1])


@pytest.mark.parametrize("skew", [-5, 7])
def test_a_skewed_clock_is_off_and_its_durations_are_right(skew: int) -> None:
    engine = Engine()
    env = SimulatedEnvironment(engine)
    seen: list[Any] = []

    def reads() -> None:
        env.sleep(0.001)
        seen.append((env.now_ns() - START_NS, env.monotonic_ns()))

    engine.spawn("a", reads).skew_ns = skew
    engine.run()
    assert seen == [(MS + skew, MS)]
