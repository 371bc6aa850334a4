"""Reduced exploration must see what plain enumeration sees: the same endings, the same violations.

If this fails, "every schedule" in a verdict is not true. The programs are small and nasty on purpose: a
few keys that collide, replies that steer what comes next, listings, parallel steps, uploads, sleeps.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.stamps import STAMPED
from tests.depth import examples
from tests.sim.explore.programs import (
    KEYS,
    LOCAL,
    MESSAGES,
    ON_KEYS,
    OTHERS,
    WATCHES,
    interpret,
    program_of,
    random_step,
)

PLAIN_MAX = 1_500

STEPS = st.one_of(
    st.tuples(st.sampled_from(ON_KEYS), st.sampled_from(KEYS)),
    st.sampled_from(OTHERS),
    st.sampled_from(LOCAL),
    st.sampled_from(MESSAGES),
)
CODES = st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=2, max_size=3)
BUDGETS = st.sampled_from(
    [
        NO_FAULTS,
        Budget(crash=1, reply_lost=0, request_lost=0, pause=0),
        Budget(crash=0, reply_lost=1, request_lost=1, pause=0),
        Budget(crash=0, reply_lost=0, request_lost=0, late=1, pause=0),
        Budget(crash=0, reply_lost=0, request_lost=0, pause=1),
        Budget(crash=0, reply_lost=0, request_lost=0, pause=0, conflict=1, duplicated=1),
        Budget(crash=1, reply_lost=0, request_lost=0, pause=0, restart=0),
        Budget(crash=2, reply_lost=0, request_lost=0, pause=0, restart=1),
        Budget(crash=0, reply_lost=0, request_lost=0, pause=0, notification_delayed=1),
    ]
)


def seen_by(search: Any, most: int = PLAIN_MAX) -> tuple[set[Any], set[str]]:
    endings: set[Any] = set()
    search._observe = lambda world: endings.add(final_state(world))
    search.explore(lambda s: s.schedules + s.cut > most)
    return endings, {str(failure.violation) for failure in search.failures}


def compare(
    codes: list[list[tuple[str, str]]], budget: Budget, watch: str, ticks: int = 1, **options: Any
) -> tuple[int, int]:
    """As `compare_settings`, for straight-line code."""
    declared = program_of(codes, watch)

    def program(world: World) -> None:
        world.configure(ticks=ticks)
        declared(world)

    return compare_settings(Setting(program, budget), **options)


def compare_settings(setting: Setting, most: int = PLAIN_MAX, **options: Any) -> tuple[int, int]:
    """Explore both ways; the numbers of schedules. (0, 0) when there is too much to enumerate."""
    plain = Plain(setting, first_only=False)
    endings, error = seen_by(plain, most)
    if not plain.exhausted or plain.cut:
        return 0, 0
    reduced = ReducedSearch(setting, first_only=False, **options)
    fewer_endings, fewer_violated = seen_by(reduced, most)
    assert reduced.exhausted
    assert fewer_endings == endings
    assert fewer_violated == error
    return plain.schedules, reduced.runs


@pytest.mark.parametrize("merge", [True, False])
@settings(max_examples=examples(10, 200), deadline=None, suppress_health_check=list(HealthCheck))
@given(codes=CODES, budget=BUDGETS, watch=st.sampled_from(WATCHES))
def test_random_programs_end_alike(merge: bool, codes: Any, budget: Budget, watch: str) -> None:
    compare(codes, budget, watch, merge=merge, timed=STAMPED)


def test_the_order_of_crashes_decides_who_starts_again() -> None:
    """With fewer restarts than crashes, the crashes of two processes conflict."""
    budget = Budget(crash=2, reply_lost=0, request_lost=0, pause=0, restart=1)
    for merge in (True, False):
        codes = [[("note", "one")], [("note", "two"), ("put", "b")]]
        assert compare(codes, budget, "nothing", ticks=0, merge=merge)[1]


def test_runs_that_go_on_beyond_a_violation_end_alike() -> None:
    codes = [[("create", "a/x"), ("note", "one")], [("note", "one")]]
    assert compare(codes, NO_FAULTS, "listing", ticks=0)[1]


def ending_daemon(codes: list[list[tuple[str, str]]], watch: str, steps: int) -> Any:
    """The first process goes round for ever."""

    def program(world: World) -> None:
        world.configure(ticks=0, daemon_steps=steps)
        program_of(codes[1:], watch)(world)
        store = world.store()

        def go_round() -> None:
            while True:
                interpret(world, store, 9, codes[0])

        world.spawn(go_round, name="daemon", daemon=True, may_raise=(Exception,))

    return program


@pytest.mark.parametrize("merge", [True, False])
@settings(max_examples=examples(5, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(codes=CODES, budget=BUDGETS, watch=st.sampled_from(WATCHES), steps=st.integers(1, 3))
def test_programs_with_a_daemon_end_alike(
    merge: bool, codes: Any, budget: Budget, watch: str, steps: int
) -> None:
    compare_settings(
        Setting(ending_daemon(codes, watch, steps), budget, steps_max=60), merge=merge, timed=STAMPED
    )


@pytest.mark.slow
def test_the_comparison_of_daemons_compares() -> None:
    """Of small programs with a daemon, most can be enumerated, and the daemon matters in them."""
    compared = [
        compare_settings(
            Setting(ending_daemon([[random_step(draw)] for _ in range(2)], "nothing", 2), NO_FAULTS),
            timed=STAMPED,
        )
        for draw in map(Random, range(40))
    ]
    assert sum(plain > 1 for plain, _ in compared) > 30


LARGER = 300
"""Plain schedules from which on a program counts as one of the larger."""
SEEDS = (1, 3, 9, 21, 22, 24, 27, 31, 37, 41, 42, 51, 54, 59, 67, 72, 78, 79, 81, 100)
"""Random programs that are larger, and yet can be enumerated."""


@pytest.mark.slow
def test_a_twentieth_of_the_schedules_suffices(capsys: Any) -> None:
    """On twenty programs of two processes that are not tiny, faults included; both sides are counted."""
    plain = reduced = 0
    for seed in SEEDS:
        draw = Random(seed)
        budget = draw.choice(
            [
                NO_FAULTS,
                Budget(crash=1, reply_lost=0, request_lost=0, pause=0),
                Budget(crash=0, reply_lost=1, request_lost=1, pause=0),
            ]
        )
        codes = [[random_step(draw) for _ in range(3)] for _ in range(2)]
        every, fewer = compare(codes, budget, "nothing", ticks=0)
        assert every >= LARGER
        plain += every
        reduced += fewer
    with capsys.disabled():
        print(f" {len(SEEDS)} programs: {plain} schedules, {reduced} reduced")  # noqa: T201 - a figure for people
    assert reduced * 20 <= plain
