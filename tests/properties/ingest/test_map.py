"""The map of ingest: it allows every run of the model, and none of the counterexamples that safeguards are
for."""

from collections import Counter

import pytest

from fencepost.model import Model, check
from fencepost.model.ingest import Ingest
from fencepost.properties.ingest import IngestRefinement
from fencepost.properties.refinement import Automaton, Driven, Follower, Reader
from tests.depth import examples
from tests.properties.ingest import shown_events


@pytest.mark.parametrize(
    ("contents", "versioned"), [(1, 0), (1, 1), pytest.param(2, 0, marks=pytest.mark.slow), (2, 1)]
)
def test_every_walk_of_the_model_is_allowed(contents, versioned) -> None:
    sizes = {"contents": contents, "shared": contents, "horizons": 3, "troubles": 3, "versioned": versioned}
    model = Model(Ingest, sizes)
    writer = shown_events.EventWriter(model)
    automaton = shown_events.automaton(versioned=bool(versioned), contents=contents)
    fired: Counter[str] = Counter()
    for walk in shown_events.walks(model, rows=examples(30, 60), length=50, seed=versioned):
        symbols = [looks for step in walk for looks in writer.events(*step)]
        fired.update(step[0].action for step in walk)
        assert shown_events.follow(automaton, symbols) is None, [str(step[0]) for step in walk]
    assert {"create_manifest", "answer", "decide", "late_manifest_lands"} <= set(fired)


def test_what_a_run_can_have_driven_is_counted() -> None:
    """One batch that is stored, accepted and listed; no run ever recorded a conflict."""
    driven = Driven(Automaton(IngestRefinement(versioned=True).covering()))
    reader = Reader(driven.automaton)
    follower = Follower(reader)
    for row in (
        shown_events.landed("put", shown_events.blob_key(0, 0, named=False)),
        shown_events.manifest(0, 0, named=False),
        shown_events.entry("listing", 0),
    ):
        assert follower.see(row, "x", 0) is None
    (run,) = reader.runs()
    driven.drive(run)
    share = driven.share()
    assert (share.model, share.states) == ("ingest-observed", 1_433)
    assert (share.runs, share.runs_beyond_the_bound) == (1, 0)
    assert share.actions["accepted"]["driven"] > 0
    assert share.actions["recorded"]["driven"] == 0
    assert share.driven < share.transitions / 100
    assert any(gap.label.startswith("recorded") for gap in share.gaps)


UNSEEN = {
    "reconcile": "that nothing happens is no event",
    "cursor-overlap": "what a reader does not read is no event",
    "identity-bound-to-agent": "who sends a batch is no event of the store",
}


UNSEEN["gc-stalled-writer-version"] = "which version is deleted is not in a trace; the audit finds it"
UNSEEN["deny-deletes"] = "a manifest that is deleted is outside of everything that was promised"
ALONE = {"contents": 1, "collectors": 1, "shared": 0, "troubles": 0}
ANSWERED = {
    "gc-age": (ALONE, "ack_durable"),
    "gc-audit-before-trust": (ALONE, "ack_durable"),
    "gc-quarantine-refs": ({**ALONE, "contents": 2}, "conflict_durable"),
}
"""In a versioned bucket nobody sees how old a blob is: these are seen when somebody was answered."""


@pytest.mark.parametrize("switch", [*Ingest.safeguards, *Ingest.assumptions])
def test_the_counterexample_of_every_switch_is_refused_as_far_as_it_can_be_seen(switch) -> None:
    sizes, name = ANSWERED.get(switch, (Ingest.shown_at.get(switch), ""))
    model = Model(Ingest, sizes, without=(switch,))
    broken = check(model, keep_going=bool(name)).properties
    counterexample = min(
        (
            p.counterexample
            for p in broken
            if p.counterexample and p.name == (name or p.name) and p.verdict == "violated"
        ),
        key=len,
    )
    symbols = list(shown_events.EventWriter(model).counterexample(counterexample.steps))
    error = shown_events.follow(shown_events.automaton(versioned=bool(model.sizes["versioned"])), symbols)
    assert (error is None) == (switch in UNSEEN)
    assert error is None or error.verdict == "violated"


@pytest.mark.parametrize("switch", ["bounded-landing", "bounded-skew"])
def test_without_bounds_their_counterexamples_are_allowed(switch) -> None:
    model = Model(Ingest, Ingest.shown_at[switch], without=(switch,))
    symbols = list(
        shown_events.EventWriter(model).counterexample(check(model)["gc_safe"].counterexample.steps)
    )
    assert shown_events.follow(shown_events.automaton(versioned=False, bounded=False), symbols) is None
    assert shown_events.follow(shown_events.automaton(versioned=False), symbols) is not None
