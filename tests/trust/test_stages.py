"""Stages of an audit are decided as an enumeration of the same schedules says.

If this fails, "holds with any one fault" is not true, or a counterexample has a fault that is not needed. The
enumeration explores the whole budget and counts the faults of every run, so it shares nothing with the limit
of faults that a stage sets.
"""

import threading
import time
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import audit, portfolio
from fencepost.sim.explore.deepening import Lassos
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.faults import TIME, FaultKind, pause_named
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world import budget as limits
from fencepost.sim.world.stamps import CLOCKED, STAMPED, UNTIMED
from tests.generators import batches
from tests.sim.explore.programs import WATCHES, program_of, random_step

RUNS_MAX = 1_500
BUDGETS = (
    Budget(crash=1, reply_lost=1, request_lost=1, pause=0),
    Budget(crash=1, reply_lost=0, request_lost=0, pause=1),
    Budget(crash=2, reply_lost=1, request_lost=0, pause=0, restart=1),
    Budget(crash=0, reply_lost=1, request_lost=2, pause=0, conflict=1),
    Budget(crash=0, reply_lost=0, request_lost=1, pause=0, late=1),
)


def random_setting(seed: int, watch: str = "") -> Setting:
    draw = Random(seed)
    sizes = draw.choice(((2, 1), (1, 1), (2, 2), (1, 1, 1), (3, 1)))
    codes = [[random_step(draw) for _ in range(size)] for size in sizes]
    declared = program_of(codes, watch or draw.choice(WATCHES))

    def program(world: World) -> None:
        world.configure(ticks=0)
        declared(world)

    return Setting(program, draw.choice(BUDGETS))


def faults_of(world: World) -> int:
    return sum(1 for step in world.trace if limits.price(step[1]) >= 0)


def enumerated(setting: Setting) -> dict[Any, int] | None:
    """Return each ending with the fewest faults that lead to it; None when there are too many schedules."""
    fewest: dict[Any, int] = {}

    def look(world: World) -> None:
        ending = final_state(world)
        fewest[ending] = min(faults_of(world), fewest.get(ending, 99))

    plain = Plain(setting, first_only=False, observe=look)
    plain.explore(lambda at: at.schedules + at.cut > RUNS_MAX)
    return fewest if plain.exhausted and not plain.cut else None


def explored(setting: Setting, *, merge: bool) -> tuple[set[Any], ReducedSearch]:
    endings: set[Any] = set()
    search = ReducedSearch(
        setting,
        first_only=False,
        observe=lambda world: endings.add(final_state(world)),
        merge=merge,
        timed=STAMPED,
    )
    search.explore()
    assert search.exhausted
    return endings, search


def differences(seed: int) -> list[str]:
    """Compare every stage of one random program; return where they differ."""
    setting = random_setting(seed)
    fewest = enumerated(setting)
    found = []
    for stage in portfolio.stages_of(setting, jobs=1, lassos=Lassos(setting)) if fewest else ():
        most = setting.budget.most() if stage.setting.faults_max is None else stage.setting.faults_max
        most = 0 if stage.name == "no-faults" else most
        expected = {ending for ending, faults in fewest.items() if faults <= most}
        for merge in (True, False):
            endings, stage.now = explored(stage.setting, merge=merge)
            if endings != expected:
                found.append(f"seed {seed}, {stage.name}, merge={merge}")
            if portfolio.Portfolio(setting)._contains_all(stage) and expected != fewest.keys():
                found.append(f"seed {seed}, {stage.name}, merge={merge}: others have more faults")
    return found


@pytest.mark.parametrize("part", range(3))
def test_the_stages_of_random_programs_end_as_enumerated(part: int) -> None:
    assert not [one for seed in range(part, 9, 3) for one in differences(seed)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(900), ids=str)
def test_the_stages_of_many_random_programs_end_as_enumerated(seeds: range) -> None:
    assert not [one for seed in seeds for one in differences(1_000 + seed)]


def test_a_limit_of_faults_that_limits_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: a stage that takes two faults for one."""
    monkeypatch.setattr(limits, "_limited", lambda left, total: (*left, total))
    assert [one for seed in range(6) for one in differences(seed)]


def test_a_stage_that_is_taken_for_the_last_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: steps that are thought to be struck by no fault."""
    monkeypatch.setattr(FaultKind, "can_strike", lambda *_: False)
    assert [one for seed in range(6) for one in differences(seed)]


def test_a_stage_that_ends_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: a stage that leaves its faults out."""
    monkeypatch.setattr(limits, "_limited", lambda left, total: (*(0 for _ in left), total))
    assert [one for seed in range(6) for one in differences(seed)]


def test_a_lost_reply_does_not_stand_for_a_lost_request_that_costs_less() -> None:
    """Where more requests than replies may be lost, a request that would be refused must be lost as well."""
    assert not differences(2031)


@pytest.mark.parametrize("seed", range(5))
def test_a_counterexample_has_the_fewest_faults(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where schedules are drawn before the stages are done."""
    monkeypatch.setattr(portfolio, "RUNS_FIRST", 20)
    monkeypatch.setattr(portfolio, "RUNS_ONE", 10)
    monkeypatch.setattr(portfolio, "RUNS_WHOLE", 30)
    setting = random_setting(seed, "nothing")
    fewest = enumerated(setting)
    if not fewest:
        return
    ending, faults = max(fewest.items(), key=lambda item: (item[1], repr(item[0])))

    def program(world: World) -> None:
        setting.program(world)
        world.finally_("never ends so", lambda _: final_state(world) != ending)

    found = audit(program, budget=setting.budget, others=False)
    assert found.verdict == "violated"
    assert found.counterexamples[0].faults == faults
    assert [one.verdict for one in found.stages[:faults]] in ([], ["holds"] * faults)


def program_with_a_deadline(world: World) -> None:
    store, world_env = world.store(), world.env

    def wait() -> None:
        store.get("a")
        began = world_env.monotonic_ns()
        store.get("b")
        if world_env.monotonic_ns() - began > 7 * 10**9:
            store.get("c")

    for name in ("ann", "bob"):
        world.spawn(wait, name=name)


def test_a_search_starts_over_when_another_one_learnt_a_deadline() -> None:
    """It had explored states without the pauses that the deadline asks for, and kept them as done."""
    setting = Setting(program_with_a_deadline, Budget(pause=1, crash=0, reply_lost=0, request_lost=0))
    alone = ReducedSearch(setting)
    alone.explore()
    assert pause_named(7 * 10**9 + 10**6) in setting.deadlines.tried
    fresh = Setting(program_with_a_deadline, setting.budget)
    search = ReducedSearch(fresh, timed=alone.timed)
    search.explore(lambda at: at.runs >= 1)
    fresh.deadlines.add(setting.deadlines.packed())
    fresh.deadlines.adopt()
    search.explore()
    assert (search.schedules, search.exhausted) == (alone.schedules, True)


def two_writers(world: World) -> None:
    store = world.store()
    for name in ("ann", "bob"):
        world.spawn(store.put, "k", b"", when=ANYTHING, name=name)


def test_a_stage_begins_with_what_the_others_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would find it out by itself, and start over: all its runs until then would be in vain."""

    class Counter:
        value = 0

    def program(world: World) -> None:
        def count(counter: Counter) -> None:
            counter.value += 1
            if world.store().head("k").done:
                counter.value += 1

        def work() -> None:
            counter = Counter()
            for _ in range(2):
                threading.Thread(target=count, args=(counter,)).start()
            time.sleep(1)

        world.spawn(work, name="ann")

    stages = portfolio.Portfolio(Setting(program, NO_FAULTS.but(crash=1)))
    first, last = stages.stages
    first.explore(lambda at: at.runs >= 3)
    learnt, began = first.setting.sharing.names, []

    def explore(stop: Any, runs: int | None = None) -> ReducedSearch:
        began.append((last.setting.sharing.names, last.timed))
        return ReducedSearch(last.setting)

    monkeypatch.setattr(last, "explore", explore)
    assert learnt
    assert first.timed > last.timed
    stages._explore(last, lambda _: True, None)
    assert began == [(learnt, first.timed)]


def test_what_an_audit_asks_for_is_owed_by_the_last_stage_alone() -> None:
    """Nothing is violated anywhere, but the whole budget did not show what it was to show."""

    def program(world: World) -> None:
        two_writers(world)
        world.sometimes("never", lambda view: view.get("other") is not None)

    found = audit(program, budget=Budget(crash=1, reply_lost=1, request_lost=0, pause=0))
    assert found.verdict == "undecided"
    assert [one.verdict for one in found.stages] == ["holds", "holds", "undecided"]


def test_a_stage_that_is_violated_decides_no_other() -> None:
    """The last stage is not explored then, so no number of its schedules may be shown."""

    def program(world: World) -> None:
        two_writers(world)
        world.finally_("never", lambda view: False)

    found = audit(program, budget=Budget(crash=1, reply_lost=0, request_lost=0, pause=0))
    assert [(one.name, one.verdict) for one in found.stages] == [
        ("no-faults", "violated"),
        ("all", "undecided"),
    ]
    assert found.stages[-1].schedules == 0
    quiet = audit(program, budget=NO_FAULTS.but(conflict=1))
    assert [one.verdict for one in quiet.stages] == ["violated", "undecided"]


@pytest.mark.parametrize(
    ("kind", "timed", "met", "contains"),
    [
        ("pause", UNTIMED, set(), True),
        ("pause", CLOCKED, set(), False),  # the time was read in a run that joined another one
        ("pause", UNTIMED, {TIME}, False),
        ("crash", UNTIMED, set(), True),
        ("crash", CLOCKED, set(), True),
        ("skew", UNTIMED, set(), False),
        ("power_loss", UNTIMED, set(), False),
        ("notification_delayed", UNTIMED, set(), False),
    ],
)
def test_a_stage_contains_the_last_one_if_no_other_fault_can_strike(
    kind: str, timed: int, met: set[int], contains: bool
) -> None:
    """Kinds that strike no step of a run are left out only where it is certain that they change nothing."""
    all_stages = portfolio.Portfolio(Setting(two_writers, NO_FAULTS.but(**{kind: 1})))
    first = all_stages.stages[0]
    assert first.name == "no-faults"
    first.now = ReducedSearch(first.setting, timed=timed)
    first.now.coverage.met_by_faults = met
    assert all_stages._contains_all(first) == contains


def test_a_search_that_is_stopped_covers_what_its_stages_covered() -> None:
    """The last stage was not begun."""
    found = audit(two_writers, budget=Budget(crash=1, reply_lost=1, request_lost=0, pause=0), schedules=2)
    assert [one.verdict for one in found.stages] == ["holds", "undecided", "undecided"]
    assert found.coverage.steps["ann"]
    assert found.bound.startswith("2 processes")


def test_schedules_that_are_drawn_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, --max-schedules is exceeded, and the progress does not show it."""
    monkeypatch.setattr(portfolio, "RUNS_FIRST", 3)
    runs: list[int] = []

    def program(world: World) -> None:
        two_writers(world)
        world.spawn(world.store().get, "k", name="cid")

    audit(program, budget=NO_FAULTS, schedules=6, progress=lambda at: runs.append(at.runs))
    assert {1, 2, 3, 4, 5, 6} <= set(runs)
    assert max(runs) <= 7, "a search that is begun at the limit takes one run"


def test_schedules_are_drawn_where_the_first_runs_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process writes last in one schedule of three, and late in a search."""
    monkeypatch.setattr(portfolio, "RUNS_FIRST", 5)

    def program(world: World) -> None:
        store = world.store()

        def write(name: str) -> None:
            for number in range(6):
                store.put("k", f"{name} {number}".encode(), when=ANYTHING)

        for name in ("ann", "bob", "cid"):
            world.spawn(write, name, name=name)
        world.finally_("ann is not last", lambda view: view.get("k") != b"ann 5")

    options: dict[str, Any] = {"budget": NO_FAULTS, "schedules": 15, "minimise_seconds": 0.1, "others": False}
    assert audit(program, **options).verdict == "violated"
    monkeypatch.setattr(portfolio.Portfolio, "_sample", lambda *_: None)
    assert audit(program, **options).verdict == "undecided", "the search has not come to it by then"
