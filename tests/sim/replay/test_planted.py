"""Violations of fifteen kinds, planted into real runs: each is found, at its event, and the run was good."""

from collections import Counter
from dataclasses import replace

import pytest

from bench.planted import PLANTS, Planted, plant
from bench.replay import found_of, planted
from bench.traces import driven, random_choice
from fencepost.impl.store.events import Event
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton
from fencepost.properties.refinement.rules import Events
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.local import Outcome
from fencepost.sim.replay.parts import in_order
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.depth import DEEP


@pytest.fixture(scope="module")
def base() -> list[list[Event]]:
    return driven(18)


def judged(runs: dict[str, list[Event]]) -> Outcome:
    rows = (replace(event, run=name) for name, run in runs.items() for event in run)
    outcome = Outcome()
    outcome.count(Judge(Automaton(PublishRefinement(3, 4))).verdicts(columns(in_order(table_of(rows)))))
    return outcome


def test_every_kind_is_found_at_the_right_event_and_nothing_is_invented(base: list[list[Event]]) -> None:
    draw = random_choice(7)
    made: dict[str, Planted] = {}
    for kind in PLANTS:
        for at, run in enumerate(base):
            one = plant(kind, run, draw)
            if one is not None and sum(other.kind == kind for other in made.values()) < (3 if DEEP else 1):
                made[f"{kind}-{at:02d}"] = one
    counts = Counter(one.kind for one in made.values())
    assert len(PLANTS) >= 10
    assert set(counts) == set(PLANTS)
    good = {f"good-{at}": run for at, run in enumerate(base)}
    found = found_of(made, judged({**good, **{name: one.events for name, one in made.items()}}))
    assert found["planted"] == found["found"] == len(made), found
    assert found["at_the_right_event"] == len(made), found
    assert found["invented"] == 0


def test_the_first_violation_counts_where_the_model_finds_a_later_one() -> None:
    """A process deletes a sidecar that it never saw. If a later manifest has overtaken the plan, the model
    alone allows the deletion, and rejects a manifest that is created twice much later.
    """
    overtaken = 0
    for run in driven(60, ("takeover",)):
        made = plant("sidecar-until-settled", run, random_choice(7))
        if made is None:
            continue
        created = ("landed", "put", "done")
        again = [one for one in made.events if (one.phase, one.kind, one.outcome) == created]
        commit = [one for one in again if "/manifest/" in one.key][-1]
        second = replace(commit, seq=len(made.events), process="rival", op=0)
        found = []
        for with_rules in (False, True):
            model = Automaton(PublishRefinement(3, 4))
            if not with_rules:
                model.refinement.request_rules = None
            found += Judge(model).verdicts(_columns([*made.events, second])).to_pylist()
        model_alone, whole = found
        assert (whole["verdict"], whole["seq"]) == ("rejected", made.at)
        assert model_alone["verdict"] == "rejected"
        if model_alone["seq"] != made.at:
            overtaken += 1
            assert made.at < model_alone["seq"] <= len(made.events)
            assert "neither wrote nor read" in whole["reason"]
    assert overtaken


def _columns(run: list[Event]) -> Events:
    return columns(in_order(table_of(replace(event, run="run") for event in run)))


def test_places_are_drawn_by_seed_and_no_run_is_spoilt_twice(base: list[list[Event]]) -> None:
    spoiled, names = planted(base, 50, 2, seed=3)
    assert len(names) == 2 * len(PLANTS) == sum(map(len, spoiled.values()))
    assert planted(base, 50, 2, seed=3)[1].keys() == names.keys()
    assert planted(base, 50, 2, seed=4)[1].keys() != names.keys()


def test_what_is_missed_found_elsewhere_or_made_up_is_counted(base: list[list[Event]]) -> None:
    draw = random_choice(7)
    made = {name: plant("create-only-manifest", base[0], draw) for name in "abc"}
    outcome = Outcome(rejected=3)
    rows = [("a", made["a"].at), ("b", made["b"].at + 1), ("other", 5)]  # type: ignore[union-attr]
    outcome.not_accepted = [{"run": run, "seq": seq, "verdict": "rejected"} for run, seq in rows]
    found = found_of(made, outcome)  # type: ignore[arg-type]  # this run offers a place
    kinds = ("planted", "found", "at_the_right_event", "invented")
    assert [found[kind] for kind in kinds] == [3, 2, 1, 1]
