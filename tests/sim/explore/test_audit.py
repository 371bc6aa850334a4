"""Audits as users see them: verdicts, findings, limits, checkpoints, several processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import Diverged, Setting, audit
from fencepost.sim.explore.checkpoint import BadCheckpoint, digest_of_checkpoint, load, save
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import final_state
from fencepost.sim.explore.sampling import Pct, stop_after
from fencepost.sim.world import NO_FAULTS, Budget, World, places
from tests.sim.explore.test_examples import MODULES


def test_a_run_that_covers_nothing_is_a_finding() -> None:
    def program(world: World) -> None:
        for name in ("a", "b"):
            world.spawn(world.store().put, name, b"", when=ANYTHING, name=name)

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "undecided"
    assert any("nothing was covered" in finding for finding in result.findings)


def test_what_never_happened_is_a_finding() -> None:
    def program(world: World) -> None:
        for name in ("a", "b"):
            world.spawn(world.store().put, "k", b"1", when=ABSENT, name=name)
        world.sometimes("it is there", lambda view: view.get("k") == b"1")
        world.sometimes("it is two", lambda view: view.get("k") == b"2")

    assert audit(program).findings == ("sometimes 'it is two': it never happened in any run",)


def test_eventually_must_come_true_in_every_run() -> None:
    def program(world: World) -> None:
        store = world.store()
        world.spawn(store.put, "k", b"1", when=ANYTHING, name="a")
        world.spawn(store.put, "k", b"2", when=ANYTHING, name="b")
        world.eventually("one", lambda view: view.get("k") == b"1")
        world.eventually("two after one", lambda view: view.get("k") == b"2" and "a" in view.results())

    result = audit(program, budget=NO_FAULTS)
    assert result.counterexamples[0].property == "two after one"


def test_running_out_of_time_is_undecided_and_claims_no_end() -> None:
    result = audit(MODULES["counter"].fixed, schedules=300)
    assert result.verdict == "undecided"
    assert "holds without faults; with any one fault: undecided, about" in result.bound
    assert "left" not in result.bound


def test_a_loop_that_waits_is_followed_fairly() -> None:
    def program(world: World) -> None:
        store = world.store()

        def wait(sleep: float | None) -> bytes:
            while not store.get("flag").done:
                if sleep is not None:
                    world.env.sleep(sleep)
            return store.get("data").body

        def publish() -> None:
            store.put("data", b"1", when=ANYTHING)
            store.put("flag", b"", when=ANYTHING)

        world.spawn(publish, name="writer")
        world.spawn(wait, None, name="spinner")
        world.spawn(wait, 1.0, name="sleeper")
        world.finally_(
            "data before flag", lambda view: view.result("spinner") == view.result("sleeper") == b"1"
        )

    result = audit(program, budget=NO_FAULTS)
    assert (result.verdict, result.findings) == ("holds", ())


@pytest.mark.parametrize("sleep", [pytest.param(True, marks=pytest.mark.slow), False])
def test_waiting_for_ever_is_reported_and_proves_nothing(sleep: bool) -> None:
    def program(world: World) -> None:
        def wait() -> None:
            while not world.store().get("never").done:
                if sleep:
                    world.env.sleep(1)

        world.spawn(wait, name="a")
        world.spawn(wait, name="b")

    result = audit(program, budget=NO_FAULTS, steps_max=60)
    assert result.verdict == "undecided"
    assert any("cut after 60 steps" in finding for finding in result.findings)


def test_a_program_that_does_not_repeat_is_caught_at_its_first_difference() -> None:
    runs = []

    def read_and_write(store: Any, key: str) -> None:
        store.get("same")
        store.put(key, b"", when=ANYTHING)

    def program(world: World) -> None:
        runs.append(1)
        store, key = world.store(), f"key-{len(runs) // 3}"
        for name in ("a", "b"):
            world.spawn(read_and_write, store, key, name=name)

    with pytest.raises(Diverged, match=r"issued put key-\d+ .* in one run and put key-\d+"):
        audit(program)


def test_a_search_can_be_put_down_and_taken_up(tmp_path: Path) -> None:
    """Nothing is seen less for the interruptions."""
    setting = Setting(MODULES["counter"].fixed, Budget(crash=1, reply_lost=0, request_lost=0, pause=0))
    whole: set[Any] = set()
    ReducedSearch(setting, observe=lambda world: whole.add(final_state(world))).explore()
    parts: set[Any] = set()
    file, search = tmp_path / "search.json", None
    for number in range(1000):
        search = ReducedSearch(setting, observe=lambda world: parts.add(final_state(world)))
        if number:
            load(search, file)
        limit = search.runs + 60
        search.explore(lambda s, limit=limit: s.runs >= limit)
        save(search, file)
        if search.exhausted:
            break
    assert number > 3
    assert search is not None
    assert search.exhausted
    assert parts == whole


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    save(ReducedSearch(Setting(MODULES["counter"].fixed)), file)
    with pytest.raises(BadCheckpoint, match="belongs to"):
        load(ReducedSearch(Setting(MODULES["counter"].fixed, seed=1)), file)
    file.write_text("{")
    with pytest.raises(BadCheckpoint, match="is no checkpoint"):
        load(ReducedSearch(Setting(MODULES["counter"].fixed)), file)


def test_a_checkpoint_of_another_program_of_the_same_name_is_refused(tmp_path: Path) -> None:
    """It would hold for what was never run: another mutant, another number in a closure, edited code."""

    def made(count: int, mistake: Any = None) -> Any:
        def program(world: World) -> None:
            for number in range(count):
                world.spawn(world.store().put, "k", b"%d" % number, when=mistake or ABSENT)

        return program

    file = tmp_path / "search.json"
    search = ReducedSearch(Setting(made(2)))
    search.explore()
    save(search, file)
    load(ReducedSearch(Setting(made(2))), file)
    for other in (made(3), made(2, ANYTHING)):
        with pytest.raises(BadCheckpoint, match="belongs to"):
            load(ReducedSearch(Setting(other)), file)
    data = json.loads(file.read_text())
    assert data["sources"].keys() > {__file__}
    data["sources"][__file__] = "other"
    del data["digest"]
    file.write_text(json.dumps(data | {"digest": digest_of_checkpoint(data)}))
    with pytest.raises(BadCheckpoint, match=r"test_audit\.py changed since"):
        load(ReducedSearch(Setting(made(2))), file)


@pytest.mark.slow
def test_two_processes_come_to_the_same_verdicts() -> None:
    counter = MODULES["counter"]
    budget = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)
    alone, together = (audit(counter.fixed, budget=budget, jobs=jobs) for jobs in (1, 2))
    assert (alone.verdict, together.verdict) == ("holds", "holds")
    assert alone.coverage.outcomes.keys() == together.coverage.outcomes.keys()
    assert audit(MODULES["lock"].mutant_lease_without_fence, jobs=2).verdict == "violated"


def test_contradictory_options_are_refused() -> None:
    counter = MODULES["counter"].fixed
    for options in ({"strategy": "pct", "jobs": 2}, {"strategy": "pct", "checkpoint": "x"}, {"resume": True}):
        with pytest.raises(ValueError, match=r"jobs|checkpoint"):
            audit(counter, **options)
    with pytest.raises(ValueError, match="choose from"):
        audit(counter, strategy="luck")


def test_pct_keeps_its_promise_on_a_bug_of_known_depth() -> None:
    """Lost update of two writers: depth 2. The promise is a lower bound on how often it is met."""

    def program(world: World) -> None:
        store = world.store()

        def add() -> None:
            value = int(store.get("n").body)
            store.put("n", b"%d" % (value + 1), when=ANYTHING)

        store.put("n", b"0", when=ABSENT)
        world.spawn(add, name="a")
        world.spawn(add, name="b")
        world.finally_("two", lambda view: view.get("n") == b"2")

    met, runs = 0, 0
    with places.held(program):
        for seed in range(60):
            search = Pct(Setting(program, NO_FAULTS, seed=seed), depth=2)
            search.explore(stop_after(None, 200))
            met += len(search.failures)
            runs += search.schedules
    assert met / runs >= search.chance()


def test_the_counterexample_of_a_failure_is_the_shortest_there_is() -> None:
    result = audit(
        MODULES["log"].mutant_own_record_taken_for_anothers,
        budget=Budget(crash=0, reply_lost=1, request_lost=1),
    )
    counterexample = result.counterexamples[0]
    assert (counterexample.switches, counterexample.faults) == (2, 1)
    assert counterexample.text()[-1].startswith("  => every record is there once: ")
    assert " ! " in "\n".join(counterexample.text())


def test_picks_of_data_are_explored_and_made_small() -> None:
    def program(world: World) -> None:
        size = world.pick("size", range(5))
        world.spawn(world.store().put, "k", b"x" * size, when=ANYTHING, name="p")
        world.finally_("small", lambda view: len(view.get("k") or b"") < 2)

    result = audit(program, budget=NO_FAULTS)
    assert result.counterexamples[0].token == "setup:pick:size:1=pick2"
