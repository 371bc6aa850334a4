"""The map of streams: it allows every run of the model, and none of the counterexamples that it can see."""

from collections import Counter

import pytest

from fencepost.model import Model, check
from fencepost.model.streams import Streams
from fencepost.properties.refinement import Automaton, Driven, Follower, Reader
from fencepost.properties.streams.refinement import StreamsRefinement
from tests.depth import examples
from tests.properties.ingest.shown_events import follow, walks
from tests.properties.streams.shown_events import EventWriter
from tests.properties.streams.test_rejected_events import ONE_LISTED

AUTOMATON = Automaton(StreamsRefinement())
OFTEN = ("create", "own", "accept", "upload", "late_upload_lands", "move", "acknowledge_append", "recreate")


@pytest.mark.parametrize("sizes", [{"appends": 2}, pytest.param({"epochs": 5}, marks=pytest.mark.slow)])
def test_every_walk_of_the_model_is_allowed(sizes) -> None:
    model = Model(Streams, {"troubles": 2, **sizes})
    fired: Counter[str] = Counter()
    for walk in walks(model, rows=examples(12, 80), length=40, seed=1, often=OFTEN):
        writer = EventWriter(model)
        rows = [row for step in walk for row in writer.events(*step)]
        fired.update(step[0].action for step in walk)
        assert follow(AUTOMATON, rows) is None, [str(step[0]) for step in walk]
    assert {"move", "recreate", "delete_manifest", "late_upload_lands", "collect"} <= set(fired)


def test_what_a_run_can_have_driven_is_counted() -> None:
    """One stream with one segment, which no other owner took over."""
    driven = Driven(Automaton(StreamsRefinement().covering()))
    reader = Reader(driven.automaton)
    follower = Follower(reader)
    for row in ONE_LISTED:
        assert follower.see(row, "x", 0) is None
    (run,) = reader.runs()
    driven.drive(run)
    share = driven.share()
    assert (share.model, share.states, share.transitions) == ("streams-observed", 12_117, 141_854)
    assert (share.runs, share.runs_beyond_the_bound) == (1, 0)
    assert {name for name, counts in share.actions.items() if counts["driven"]} == {
        "created",
        "uploaded",
        "listed_segment",
    }
    assert share.driven == 3


UNSEEN = {
    "data-before-manifest": "data that no manifest lists may have landed after the reap listed the prefix",
    "verify-empty": "a listing and a dropped row are no events of the store",
    "row-until-empty": "a dropped row is no event of the store",
    "tombstone-short-circuit": "what a restore reads changes nothing",
    "scan": "that nothing happens is no event",
    "expiry-skew-margin": "no clock is in a trace",
    "producer-fence": "no producer is in a trace",
}
QUICK = ("uploader-filter", "owner-fence", "segment-before-manifest", "bounded-landing", "expiry-skew-margin")


@pytest.mark.parametrize(
    "switch",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in (*Streams.safeguards, *Streams.assumptions)
    ],
)
def test_the_counterexample_of_a_switch_is_refused_as_far_as_it_can_be_seen(switch) -> None:
    model = Model(Streams, Streams.shown_at.get(switch), without=(switch,))
    broken = [one.counterexample for one in check(model).properties if one.verdict == "violated"]
    rows = list(EventWriter(model).counterexample(min(broken, key=len).steps))
    error = follow(AUTOMATON, rows)
    assert (error is None) == (switch in UNSEEN)
    assert error is None or error.verdict == "violated"
