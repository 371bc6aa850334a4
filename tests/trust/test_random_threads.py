"""Random threads of one process: the search reaches exactly the endings of an independent enumeration.

If this fails, an audit of threaded code leaves an order out, or tries one that cannot happen.
"""

from typing import Any

import pytest

from fencepost.sim.explore import Setting
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.thread_steps import DEADLOCK
from tests.depth import DEEP
from tests.trust.task_programs import TaskSpec, task_endings, task_program_of, task_spec_of
from tests.trust.thread_programs import Enumeration, Spec, program_of, spec_of

CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0, restart=0)
STATES_MAX = 20_000 if DEEP else 200
RUNS_MAX = 2_000 if DEEP else 80
"""Larger programs are left out."""
TASK_RUNS_MAX = 2_000 if DEEP else 400


SMALL = [
    Spec(threads=(ops, other), feature=feature, other=False)
    for feature, ops, other in (
        ("plain", (("create", "s", "a"), ("append", "s")), (("create", "s", "a"), ("append", "s"))),
        ("plain", (("put", "a", "s"), ("append", "s")), (("get", "t", "a"), ("append", "t"))),
        ("plain", (("note", "t"), ("append", "t")), (("note", "t"), ("append", "t"))),
        ("lock", (("try", "s", "l"), ("append", "s")), (("try", "s", "l"), ("append", "s"))),
        ("queue", (("qput", "t"), ("append", "s")), (("qtry", "s"), ("append", "s"))),
    )
]
"""In each, the first to act may be the last to append."""


def ending(world: World, spec: Spec) -> Any:
    """Return the ending of a run as the enumeration has it; None after a deadlock."""
    process = world.processes[0]
    contents = {key: int(body) for key, body in world.bucket.contents().items()}
    store = tuple(sorted(contents.items()))
    notes = tuple(value for _, value in world.noted.get("n", ()))
    if process.state == "down":
        return (store, notes)
    if process.state != "done":
        return None
    return (process.result, store, notes, world.processes[1].result if spec.other else None)


def compare(spec: Spec, budget: Budget, *, merge: bool = True) -> int:
    """Compare the endings; return their number, or 0 for a program that is too large."""
    expected = Enumeration(spec, STATES_MAX)
    expected.run()
    if not expected.complete:
        return 0
    found: set[Any] = set()
    setting = Setting(program_of(spec), budget)
    search = ReducedSearch(
        setting, first_only=False, merge=merge, observe=lambda world: found.add(ending(world, spec))
    )
    search.explore(lambda at: at.runs > RUNS_MAX)
    if not search.exhausted:
        return 0
    assert {failure.violation.name for failure in search.failures} <= {DEADLOCK}
    assert bool(search.failures) is expected.deadlocks, spec
    wanted = expected.finals | expected.halfway if budget.crash else expected.finals
    if budget.crash and expected.deadlocks:  # where no thread can step, none is crashed
        assert found - {None} <= wanted, spec
    else:
        assert found - {None} == wanted, spec
    return len(wanted)


def compare_tasks(spec: TaskSpec) -> int:
    """Compare the endings of tasks; return their number, or 0 for a program that is too large."""
    expected = task_endings(spec)
    found: set[Any] = set()

    def observe(world: World) -> None:
        contents = {key: int(body) for key, body in world.bucket.contents().items()}
        found.add((world.processes[0].result, tuple(sorted(contents.items()))))

    search = ReducedSearch(Setting(task_program_of(spec), NO_FAULTS), first_only=False, observe=observe)
    search.explore(lambda at: at.runs > TASK_RUNS_MAX)
    if not search.exhausted:
        return 0
    assert not search.failures
    assert found == expected, spec
    return len(found)


@pytest.mark.parametrize("spec", SMALL, ids=range(len(SMALL)))
def test_the_order_of_effects_is_not_that_of_what_follows(spec: Spec) -> None:
    assert compare(spec, NO_FAULTS) > 2


@pytest.mark.parametrize("merge", [True, False])
def test_few_random_threads_end_as_enumerated(merge: bool) -> None:
    sizes = [compare(spec_of(seed), NO_FAULTS, merge=merge) for seed in range(8)]
    assert sum(size > 1 for size in sizes) >= 2


def test_few_random_threads_crash_as_enumerated() -> None:
    specs = [spec_of(seed) for seed in range(8)]
    sizes = [compare(spec, CRASH) for spec in specs if not spec.other]
    assert sum(size > 1 for size in sizes) >= 2


def test_few_random_tasks_end_as_enumerated() -> None:
    sizes = [compare_tasks(task_spec_of(seed)) for seed in range(3)]
    assert min(sizes) > 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 3_000, 250))
def test_random_threads_end_as_enumerated(first: int) -> None:
    for seed in range(first, first + 250):
        spec = spec_of(seed)
        compare(spec, NO_FAULTS, merge=bool(seed % 3))
        if not spec.other:
            compare(spec, CRASH)


@pytest.mark.slow
def test_random_tasks_end_as_enumerated() -> None:
    for seed in range(1_000, 1_200):
        compare_tasks(task_spec_of(seed))
