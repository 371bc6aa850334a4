"""What is remembered of processes must be what they would do: the same search, with less code run."""

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Misuse
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.world import Budget, World, process
from fencepost.sim.world.process import Diverged
from tests.sim.explore.programs import WATCHES, program_of, random_codes

FAULTS = Budget(crash=1, reply_lost=1, request_lost=1, late=1, pause=1, conflict=1)
Program = Callable[[World], None]


def sharing_nothing(program: Program) -> Program:
    def promised(world: World) -> None:
        world.share_nothing()
        program(world)

    return promised


def searched(program: Program, budget: Budget, runs: int = 250) -> tuple[Any, ...]:
    """Everything that a search reports about so many runs."""
    endings: set[Any] = set()
    search = ReducedSearch(
        Setting(program, budget), first_only=False, observe=lambda w: endings.add(final_state(w))
    )
    search.explore(lambda s: s.runs >= runs)
    error = {str(failure.violation) for failure in search.failures}
    return endings, error, search.runs, search.steps, search.coverage, search.findings


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 25))]
)
def test_the_search_is_the_same(seed: int) -> None:
    """Not one step more or less, whatever the programs do and whatever fails."""
    draw = Random(seed)
    program = program_of(random_codes(draw), draw.choice(WATCHES))
    assert searched(sharing_nothing(program), FAULTS) == searched(program, FAULTS)


def test_what_is_picked_at_the_beginning_distinguishes_programs() -> None:
    def program(world: World) -> None:
        body = world.pick("body", (b"one", b"two"))
        for name in "ab":
            world.spawn(lambda: world.store().put("k", body, when=ABSENT).outcome.value, name=name)

    plain, quick = searched(program, FAULTS), searched(sharing_nothing(program), FAULTS)
    assert plain == quick
    assert {dict(contents)["k"] for contents, *_ in quick[0] if contents} == {b"one", b"two"}


def test_identifiers_and_what_outlives_a_crash_are_the_same() -> None:
    def program(world: World) -> None:
        for name in "ab":
            lives = itertools.count()

            def live(lives: Any = lives) -> list[str]:
                life = next(lives)
                ids = [world.env.new_id(), world.env.new_id()]
                world.store().put("k", f"{life} {ids}".encode(), when=ANYTHING)
                return [*ids, world.store().get("k").body.decode()]

            world.spawn(live, name=name)

    assert searched(sharing_nothing(program), FAULTS) == searched(program, FAULTS)


def test_code_is_run_again_only_for_something_new() -> None:
    starts: list[str] = []

    def program(world: World) -> None:
        def live(name: str) -> None:
            starts.append(name)
            for key in ("k", "l", "m"):
                world.store().put(key, name.encode(), when=ABSENT)

        for name in "ab":
            world.spawn(live, name, name=name)

    runs = searched(program, FAULTS)[2]
    often = len(starts)
    starts.clear()
    assert searched(sharing_nothing(program), FAULTS)[2] == runs
    assert len(starts) * 2 < often


def test_a_process_that_does_not_let_itself_be_crashed_is_still_found_out() -> None:
    def program(world: World) -> None:
        def stubborn() -> None:
            try:
                world.store().put("k", b"", when=ABSENT)
                world.store().put("l", b"", when=ABSENT)
            except BaseException:  # noqa: BLE001 - the very mistake
                pass

        world.spawn(stubborn, name="stubborn")
        world.spawn(lambda: world.store().put("l", b"", when=ABSENT), name="other")

    found = searched(sharing_nothing(program), FAULTS)[5]
    assert found == searched(program, FAULTS)[5]
    assert "'stubborn' does not let itself be crashed" in found[0]


def test_a_promise_that_is_not_kept_is_noticed() -> None:
    def program(world: World) -> None:
        shared: list[str] = []

        def live(name: str) -> None:
            world.store().put("k", name.encode(), when=ABSENT)
            shared.append(name)
            world.store().put("l", repr(shared).encode(), when=ANYTHING)
            world.store().put("k", b"end", when=ANYTHING)

        world.share_nothing()
        for name in "ab":
            world.spawn(live, name, name=name)

    with pytest.raises(Diverged, match="with the same answers"):
        searched(program, FAULTS)


def test_what_a_store_refuses_is_not_remembered_and_not_lost() -> None:
    """An exception is like no other: from there on the code itself runs."""

    def program(world: World) -> None:
        def live() -> str:
            try:
                world.store().upload_part("k", "no such upload", 0, b"")
            except Misuse as error:
                world.store().put("k", b"", when=ANYTHING)
                return str(error)
            return ""

        for name in "ab":
            world.spawn(live, name=name)

    assert searched(sharing_nothing(program), FAULTS) == searched(program, FAULTS)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "NODES_MAX", 5)
    program = program_of(random_codes(Random(3)), "nothing")
    assert searched(sharing_nothing(program), FAULTS) == searched(program, FAULTS)
