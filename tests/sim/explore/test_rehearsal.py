"""Before a search, two schedules are run twice: what does not repeat, or has no process, is an error.

If this fails, an audit judges a check by variables that belong to no process, or leaves variables changed.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import Diverged, audit
from fencepost.sim.explore.rehearsal import rehearse
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import NO_FAULTS, World

WRITTEN: list[str] = []


def writers(world: World) -> None:
    def write(name: str) -> None:
        world.store().put("k", b"", when=ANYTHING)
        WRITTEN.append(name)

    for name in ("ann", "bob"):
        world.spawn(write, name, name=name)


def in_a_check(world: World) -> None:
    world.finally_("all are written", lambda view: len(WRITTEN) <= 2)


def in_a_condition(world: World) -> None:
    world.always("all are written", lambda view: True, when=lambda view: len(WRITTEN) == 2)


@pytest.mark.parametrize("declare", [in_a_check, in_a_condition])
def test_a_check_does_not_read_what_each_process_has_of_its_own(declare: Callable[[World], None]) -> None:
    def program(world: World) -> None:
        writers(world)
        declare(world)

    with pytest.raises(Diverged, match=r"the check of 'all are written' reads .* which processes change"):
        audit(program, budget=NO_FAULTS)


def test_a_run_that_ends_otherwise_is_an_error() -> None:
    """Each step is as before, and a check at the end is not."""
    answers = iter(range(100))

    def program(world: World) -> None:
        world.spawn(world.store().put, "k", b"", when=ANYTHING, name="ann")
        world.finally_("even", lambda view: next(answers) % 2 == 0)

    with pytest.raises(Diverged, match="a run ends with"):
        audit(program, budget=NO_FAULTS)


def test_variables_are_afterwards_as_if_nothing_had_run() -> None:
    def change(_: Any) -> list[str]:
        before = [*WRITTEN]
        WRITTEN.append("during the search")
        return before

    assert rehearse(Setting(writers, NO_FAULTS), change) == []
    assert WRITTEN == []
