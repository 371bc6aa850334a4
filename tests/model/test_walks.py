"""Random walks: they find what is planted, never invent, repeat themselves, and count honestly.

A walk's counterexample is followed in the machine before it is believed; a verdict is never `holds` because
nothing was met.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fencepost.model import (
    BadSettings,
    Bool,
    Each,
    Int,
    Machine,
    Model,
    Size,
    Stepper,
    Truth,
    action,
    check,
    invariant,
    may_end,
    reachable,
    step,
    walk,
)
from fencepost.model.kernel.search import shorten
from fencepost.model.kernel.search.shorten import Walk, needed, without_loops
from fencepost.model.kernel.search.visited import Seen
from fencepost.model.textbook.peterson import Peterson
from fencepost.model.textbook.philosophers import Philosophers
from fencepost.model.textbook.two_phase import TwoPhase
from tests.depth import examples
from tests.model.counterexamples import followed
from tests.model.random_machines import Spec, specs

KINDS = ("invariant", "step", "reachable", "deadlock")


@pytest.mark.parametrize(
    ("machine", "safeguard"),
    [(machine, name) for machine in (TwoPhase, Peterson, Philosophers) for name in machine.safeguards],
)
def test_a_planted_violation_is_found_and_reported_as_shortly_as_by_the_search(machine, safeguard) -> None:
    sizes = {"managers": 5} if machine is TwoPhase else {}
    exact = check(machine, sizes, without=[safeguard])
    walked = walk(machine, sizes, without=[safeguard], walks=20_000, steps=60)
    assert walked.verdict == "violated"
    broken = [found for found in walked.properties if found.verdict == "violated"]
    for found in broken:
        followed(Model(machine, sizes, without=[safeguard]), found)
        if exact[found.name].verdict == "violated":
            assert found.counterexample == exact[found.name].counterexample
    assert any("the fewest possible" in note for note in walked.notes)


def test_a_correct_machine_has_no_violation() -> None:
    for machine in (TwoPhase, Peterson, Philosophers):
        result = walk(machine, walks=5_000, steps=60)
        assert result.verdict == "undecided"
        assert result.distinct <= check(machine).distinct
        for found in result.properties:
            assert found.verdict == ("holds" if found.kind == "reachable" else "undecided")
            if found.kind in ("invariant", "step", "deadlock"):
                assert found.reason == "no walk met it: 5,000 walks of 60 steps, seed 0"
    assert walk(Peterson, walks=10)["first_enters"].reason == "walks see states and steps, not whole runs"


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(specs())
def test_random_machines_are_walked_as_they_are(spec: Spec) -> None:
    """What a walk says is never contradicted by the search, and many walks see a small machine whole."""
    machine = spec.machine()
    exact = check(machine, keep_going=True, workers=1)
    result = walk(machine, walks=300, steps=40, keep_going=True, workers=1)
    assert result.distinct <= exact.distinct
    for one, other in zip(result.properties, exact.properties, strict=True):
        if one.verdict != "undecided":
            assert one.kind in KINDS
            assert one.verdict == other.verdict
            assert len(one.counterexample) == len(other.counterexample)
            followed(Model(machine), one)
    assert set(exact.never_fired) <= set(result.never_fired)


def test_the_same_seed_walks_the_same_walks_on_any_number_of_threads() -> None:
    def summary(**options):
        result = walk(TwoPhase, {"managers": 4}, walks=100_000, steps=5, keep_going=True, **options)
        return replace(result, seconds=0, peak_bytes=0)

    assert summary(seed=7, workers=1) == summary(seed=7, workers=3)
    assert summary(seed=7).labels_fired != summary(seed=8).labels_fired
    broken = {"without": ["all-prepared"], "seed": 3}
    assert summary(workers=1, **broken) == summary(workers=2, **broken)


def test_every_enabled_label_is_equally_likely() -> None:
    class Fork(Machine):
        at = Int(0, 8)

        @action(to=8)
        def go(s, to: int) -> None:
            s.require(s.at == 0)
            s.at = to + 1

        @may_end
        def gone(s) -> Truth:
            return s.at > 0

    result = walk(Fork, walks=80_000, steps=1)
    assert sum(result.labels_fired.values()) == 80_000
    assert all(abs(count - 10_000) < 500 for count in result.labels_fired.values())
    assert result.depth == 2
    assert result.generated == result.coverage["go"] == 80_000


def test_a_walk_that_is_stuck_starts_again() -> None:
    class Short(Machine):
        at = Int(0, 2)

        @action
        def go(s) -> None:
            s.require(s.at < 2)
            s.at = s.at + 1

        @may_end
        def arrived(s) -> Truth:
            return s.at == 2

    result = walk(Short, walks=1, steps=30)
    assert result.coverage["go"] == 20
    assert result.depth == 3
    assert result.verdict == "undecided"
    dead = walk(Short, walks=1, steps=30, deadlock=False)
    assert [found.name for found in dead.properties] == []


class Stairs(Machine):
    """Up step by step, with a way out at each; the top violates, and so does the cellar, one step away."""

    at = Int(-2, 6, start=0)

    @action
    def up(s) -> None:
        s.require((s.at >= 0) & (s.at < 6))
        s.at = s.at + 1

    @action
    def out(s) -> None:
        s.require((s.at >= 0) & (s.at < 6))
        s.at = -1

    @may_end
    def outside(s) -> Truth:
        return s.at == -1

    @invariant
    def never_on_top(s) -> Truth:
        return s.at < 6


class Cellar(Stairs):
    @action
    def down(s) -> None:
        s.require(s.at == 0)
        s.at = -2

    @invariant
    def never_on_top(s) -> Truth:
        return (s.at < 6) & (s.at > -2)


def test_a_counterexample_begins_at_the_last_start_of_its_walk(monkeypatch) -> None:
    monkeypatch.setattr(shorten, "EXPLORED", 1)
    for deadlock in (False, True):
        result = walk(Stairs, walks=1, steps=2_000, seed=4, deadlock=deadlock, keep_going=True)
        assert result["never_on_top"].counterexample.steps[-1].changes == {"at": (5, 6)}
        assert result.notes[1] == (
            "never_on_top: found by a walk of 6 steps, reported in 6: there may be a shorter counterexample"
        )
    assert result["no-deadlock"].verdict == "violated"
    assert len(result["no-deadlock"].counterexample) == 6


def test_the_state_after_the_last_step_is_judged_as_well() -> None:
    assert walk(Stairs, walks=2_000, steps=6)["never_on_top"].verdict == "violated"
    assert walk(Stairs, walks=2_000, steps=5)["never_on_top"].verdict == "undecided"


def test_a_nearer_violating_state_ends_the_counterexample() -> None:
    model = Model(Cellar)
    stepper = Stepper(model)
    states = [stepper.state({"at": at}).packed for at in range(7)]
    up = stepper.label("up()")
    (wanted,) = model.properties
    found = shorten._through_corridor(model, wanted, Walk(tuple((s, up) for s in states[:-1]), states[-1]))
    assert [str(label) for _, label in found.steps] == ["down()"]
    assert found.end == stepper.state({"at": -2}).packed


class Door(Machine):
    """Two keys, either of which opens the door; a lamp that has nothing to do with it."""

    keys = Each(2, Bool())
    lamp = Bool()
    opened = Bool()

    @action(k=2)
    def pick(s, k: int) -> None:
        s.require(~s.keys[k])
        s.keys[k] = True

    @action
    def toggle(s) -> None:
        s.lamp = ~s.lamp

    @action
    def open(s) -> None:
        s.require(s.keys.any(True))
        s.opened = True

    @invariant
    def closed(s) -> Truth:
        return ~s.opened

    @step
    def never_opens(before, after: "Door") -> Truth:
        return before.opened | ~after.opened


@pytest.mark.parametrize("name", ["closed", "never_opens"])
def test_exactly_the_unneeded_steps_are_left_out(name) -> None:
    model = Model(Door)
    stepper = Stepper(model)
    wanted = next(wanted for wanted in model.properties if wanted.name == name)
    walked = ["toggle()", "pick(k=0)", "toggle()", "pick(k=1)", "toggle()", "open()"]
    labels = [stepper.label(text) for text in walked]
    kept = [str(label) for label in needed(model, wanted, model.initial(), labels)]
    assert kept in (["pick(k=0)", "open()"], ["pick(k=1)", "open()"])
    assert needed(model, wanted, model.initial(), labels[1::4]) == labels[1::4]
    either = [labels[1], labels[3], labels[5]]
    assert len(needed(model, wanted, model.initial(), either)) == 2, "each key can be left out, not both"


class Deep(Machine):
    """A long way with detours; a counter that walks reach late and a search with a small bound never."""

    length = Size(40, most=1_000)
    at = Int(0, length)
    noise = Each(12, Int(0, 3))

    @action(i=12)
    def rattle(s, i: int) -> None:
        s.noise[i] = (s.noise[i] + 1) % 4

    @action(by=(1, 2))
    def go(s, by: int) -> None:
        s.require(s.at + by <= s.length)
        s.at = s.at + by

    @action
    def back(s) -> None:
        s.require(s.at == s.length)
        s.at = 0

    @invariant
    def never_there(s) -> Truth:
        return s.at < s.length

    @step
    def never_back(before, after: "Deep") -> Truth:
        return after.at >= before.at

    @reachable
    def half_way(s) -> Truth:
        return s.at == s.length // 2


def test_a_walk_is_shortened_where_the_whole_space_is_out_of_reach(monkeypatch) -> None:
    monkeypatch.setattr(shorten, "EXPLORED", 1_000)
    result = walk(Deep, walks=200, steps=1_500, keep_going=True, seed=1)
    for name, least in {"never_there": 20, "never_back": 21, "half_way": 10}.items():
        found = result[name]
        followed(Model(Deep), found)
        (note,) = (note for note in result.notes if note.startswith(name))
        met = int(note.split()[6])
        assert note.endswith("there may be a shorter counterexample")
        assert least <= len(found.counterexample) <= 2 * least + 1
        assert len(found.counterexample) < met


def test_loops_are_cut_out_of_a_walk() -> None:
    label = Model(TwoPhase).labels[0]

    def walked(*places: int) -> Walk:
        return Walk(tuple(((place,), label) for place in places[:-1]), (places[-1],))

    assert without_loops(walked(1, 2, 3, 2, 4)) == walked(1, 2, 4)
    assert without_loops(walked(1, 2, 3, 1, 2, 5)) == walked(1, 2, 5)
    assert without_loops(walked(1, 2, 3, 2)) == walked(1, 2)
    assert without_loops(walked(1, 1, 1)) == Walk((), (1,))
    assert without_loops(walked(1, 2, 3)) == walked(1, 2, 3)


def test_distinct_states_are_counted_exactly_and_then_estimated() -> None:
    many = np.random.default_rng(5).integers(0, 1 << 62, (2, 40_000)).astype(np.uint64)
    for states in (many[:1], many):
        exact, rough = Seen(50_000), Seen(1_000)
        for start in range(0, 40_000, 777):
            for seen in (exact, rough):
                seen.add(states[:, start : start + 777])
                seen.add(states[:, start : start + 77])
        assert (exact.count, exact.is_exact, exact.error) == (40_000, True, 0)
        assert not rough.is_exact
        assert rough.share == 64
        assert abs(rough.count - 40_000) < 4 * rough.error * 40_000
        other = Seen(1_000)
        other.add(states[:, ::-1])
        assert other.count == rough.count, "the estimate must not depend on the order"


def test_memory_limits_the_exact_count_and_a_note_reports_it() -> None:
    exact = walk(TwoPhase, {"managers": 5}, walks=20_000, steps=30)
    rough = walk(TwoPhase, {"managers": 5}, walks=20_000, steps=30, memory=16_000)
    assert exact.notes[0] == f"20,000 walks of 30 steps, seed 0, saw {exact.distinct:,} states"
    assert "counted, standard error" in rough.notes[0]
    assert abs(rough.distinct - exact.distinct) < exact.distinct / 5
    assert rough.peak_bytes < exact.peak_bytes
    assert (rough.generated, rough.coverage) == (exact.generated, exact.coverage)


@pytest.mark.parametrize("error", [{"walks": 0}, {"steps": 0}, {"memory": 0}, {"workers": 0}, {"seed": -1}])
def test_invalid_options_are_errors(error) -> None:
    with pytest.raises(BadSettings, match=f"{next(iter(error))}="):
        walk(TwoPhase, **error)


def test_progress_is_reported_once_a_wave() -> None:
    reports = []
    result = walk(TwoPhase, walks=100_000, steps=2, workers=2, progress=reports.append)
    assert [progress.frontier for progress in reports] == [65_536, 100_000]
    assert reports[-1].distinct == result.distinct
