"""The automaton against an oracle that follows one run at a time: the same verdict, at the same event, with
the same states before it, from which the reason is made.

The automaton computes the next sets of many runs together and replays traced expressions of the model. If it
loses a state, a run of right code is rejected; if it invents one, a broken run is accepted.
"""

from collections import Counter
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.traces import random_choice
from fencepost.model import Bool, Int, Machine, Model, action
from fencepost.model.kernel.compiled import tape
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import (
    DEAD,
    OUTSIDE,
    START,
    Actions,
    Automaton,
    Keys,
    Observation,
    Refinement,
)
from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.properties.refinement.symbols import SymbolReader
from fencepost.sim.replay.parts import in_order
from fencepost.sim.replay.walk import VectorisedWalk
from fencepost.sim.systems import SYSTEMS
from fencepost.sim.systems.system import load
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from fencepost.sim.trace.grouping import grouped, learn_links, named
from tests.trust.oracles.following import ACCEPTED, BEYOND, REJECTED, Oracle
from tests.trust.recorded import Run, as_recorded, runs, scenarios
from tests.trust.test_continuity_mutations import mutants as with_another_answer
from tests.trust.test_replay_mutations import mutants as with_another_request

TRACED = ("publish", "ingest", "lifecycle", "streams")
ENDS = {DEAD: REJECTED, OUTSIDE: BEYOND}
WRITES = ("put", "delete", "complete-upload")
DRAWN = 4
"""Runs of a scenario, of which one that writes is taken: in some runs every change is refused."""


def refinement_of(system: str) -> Refinement:
    made: Refinement = PublishRefinement(2, 2) if system == "publish" else load(SYSTEMS[system].refinement)()
    return made


def judged_runs(system: str, wanted: int, mutated: int, seed: int) -> list[Run]:
    """Return a run of each scenario that is drawn, in both forms, and changes of it."""
    draw = random_choice(seed)
    found: list[Run] = []
    for name in draw.sample(list(scenarios(system)), wanted):
        # Notes for the properties of the scenarios are in no trace of production.
        several = [
            [one for one in whole if one.process != "setup" and one.kind != "note"]
            for whole in runs(system, name, DRAWN, seed)
        ]
        run = next((run for run in several if writes_of(run)), several[0])
        for form in ("landed", "answered"):
            recorded = as_recorded(run, form)
            made = [one.events for one in (*with_another_answer(recorded), *with_another_request(recorded))]
            if writes_of(recorded):
                made += [changed_order(recorded, draw) for _ in range(mutated)]
            found += [recorded, *draw.sample(made, min(2 * mutated, len(made)))]
    return found


def writes_of(run: Run) -> list[int]:
    return [one.op for one in run if one.kind in WRITES]


def changed_order(run: Run, draw: Any) -> Run:
    """The run with one write or delete moved to another place, left out, or there twice."""
    op, how = draw.choice(writes_of(run)), draw.choice(("moved", "left out", "twice"))
    mine = [one for one in run if one.op == op]
    rest = [one for one in run if one.op != op] if how != "twice" else list(run)
    at = draw.randrange(len(rest) + 1)
    return rest if how == "left out" else [*rest[:at], *mine, *rest[at:]]


def compared(refinement: Refinement, made: list[Run], slots: int = 8) -> dict[str, int]:
    """Judge all runs together and one by one; return the number of each verdict."""
    automaton = Automaton(refinement, slots=slots)
    table = pa.concat_tables(_apart(refinement, number, run) for number, run in enumerate(made))
    seen = columns(in_order(table))
    read = SymbolReader(automaton, Lock()).read(seen)
    ends = VectorisedWalk(automaton).follow(read.symbols, read.starts, read.lengths)
    oracle = Oracle(automaton)
    counts = dict.fromkeys((ACCEPTED, REJECTED, BEYOND), 0)
    for run, (start, length) in enumerate(zip(read.starts.tolist(), read.lengths.tolist(), strict=True)):
        expected = oracle.follow(read.symbols[start : start + length].tolist())
        end = int(ends.sets[run])
        assert ENDS.get(end, ACCEPTED) == expected.verdict, seen.runs.texts(np.array([run]))
        assert int(ends.places[run]) == expected.place
        before = int(ends.before[run]) if end <= OUTSIDE else end
        states = automaton.states(before)
        assert {tuple(int(word) for word in one) for one in states.T} == expected.before
        counts[expected.verdict] += 1
    return counts


def _apart(refinement: Refinement, number: int, run: Run) -> pa.Table:
    """The runs that a map judges in one trace, under names of their own."""
    table = table_of(replace(event, seq=seq) for seq, event in enumerate(run))
    if isinstance(refinement.runs, LinkedRuns):
        table, _ = named(refinement.runs, table, learn_links(refinement.runs, [table]))
    elif refinement.runs != "run":
        table, _ = grouped(table, refinement.runs)
    names = pc.binary_join_element_wise(f"{number:04d}", table["run"].cast(pa.string()), "/")
    return table.set_column(table.column_names.index("run"), "run", names)


@pytest.mark.parametrize("system", TRACED)
def test_the_automaton_and_the_oracle_agree(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "RUNS", 0)
    made = judged_runs(system, 3, 4, seed=3)
    found = compared(refinement_of(system), made)
    assert found[ACCEPTED], found
    assert found[REJECTED] + found[BEYOND], found


@pytest.mark.slow
@pytest.mark.parametrize("system", TRACED)
def test_the_automaton_and_the_oracle_agree_on_many(system: str) -> None:
    """Half of a text's runs are the reference's, the rest are replayed; one draw may accept none."""
    found: Counter[str] = Counter()
    for seed in range(5):
        found.update(compared(refinement_of(system), judged_runs(system, 5, 30, seed)))
    assert found[ACCEPTED], found
    assert found[REJECTED] + found[BEYOND], found


class Counting(Machine):
    """A count that only rises once one of two actions has begun it."""

    begun = Bool()
    count = Int(0, 3)

    @action
    def begin(s) -> None:
        s.begun = True

    @action
    def begin_too(s) -> None:
        s.begun = True

    @action
    def tick(s) -> None:
        s.require(s.begun)
        s.count = s.count + 1


class CountingMap(Refinement):
    keys = (Keys("begin", "begin"), Keys("begin_too", "begin_too"))
    hidden = ("tick",)

    def actions(self, seen: Observation) -> Actions:
        return self.does(seen.what)


@pytest.mark.parametrize("traced_after", [0, 1000])
def test_states_that_an_overflow_cut_off_are_not_taken_for_explored(
    traced_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden steps overflow a field behind both events: both lead beyond the bounds, the second one too."""
    monkeypatch.setattr(tape, "RUNS", traced_after)
    automaton = Automaton(CountingMap(Model(Counting)))
    begins = [
        automaton.symbol(Observation("landed", "put", name, "", "done", (), ()))
        for name in ("begin", "begin_too")
    ]
    assert [automaton.step(START, one) for one in begins] == [OUTSIDE, OUTSIDE]
    again = Automaton(CountingMap(Model(Counting)))
    symbols = np.array([again.symbol(automaton.symbol_of(one).observation) for one in begins])
    assert again.advance(np.full(2, START), symbols).tolist() == [OUTSIDE, OUTSIDE]


class Noting(Machine):
    """A field that an eager action writes, and that no guard reads."""

    begun = Bool()
    is_noted = Bool()
    noted = Int(0, 3)

    @action
    def begin(s) -> None:
        s.require(~s.begun)
        s.begun = True

    @action
    def note(s) -> None:
        s.require(s.begun & ~s.is_noted)
        s.is_noted = True
        s.noted = 2


class NotingMap(Refinement):
    keys = (Keys("begin", "begin"),)
    eager = ("note",)
    forgets = ("noted",)

    def actions(self, seen: Observation) -> Actions:
        return self.does(seen.what)


def test_an_eager_action_leaves_no_value_in_a_field_that_is_forgotten() -> None:
    refinement = NotingMap(Model(Noting))
    automaton = Automaton(refinement)
    begin = automaton.symbol(Observation("landed", "put", "begin", "", "done", (), ()))
    number = automaton.step(START, begin)
    (after,) = automaton.states(number).T
    assert _numbers(after) == _numbers(refinement.forgotten(automaton.states(number))[:, 0])
    fields = refinement.model.unpack(automaton.states(number)[:, 0])
    assert (fields["begun"], fields["is_noted"], fields["noted"]) == (True, True, 0)
    assert Oracle(automaton).follow([begin]).before == {_numbers(after)}


def _numbers(state: Any) -> tuple[int, ...]:
    return tuple(int(word) for word in state)
