"""The acceptance protocol's machine: what holds, what each safeguard is for, that each property can fail."""

import functools

import pytest

from fencepost.model import action, check
from fencepost.model.ingest import Ingest
from tests.model.counterexamples import steps, verdicts

BLOBS = {"contents": 1, "horizons": 2}
PLAIN = {"contents": 1, "horizons": 3, "versioned": 0}
SMALL = {"horizons": 0, "shared": 0, "troubles": 0}


# It holds.


@pytest.mark.slow
def test_everything_holds_at_the_default_size_and_every_action_but_two_fires() -> None:
    result = check(Ingest)
    assert verdicts(result) == {}
    assert result.distinct == 3_078_863
    assert result.never_fired == ("manifest_deleted", "move_cursor")  # an assumption; `scanning`
    assert result.vacuity_warnings == (
        "receive never happens with sender=stranger",  # identity-bound-to-agent refuses them
        "put_blob never happens with clock=behind, far-behind",  # only a plain bucket asks a writer's clock
        "store_anew never happens with clock=behind, far-behind",
        "decide never happens with generation=1",  # generations name the blobs of a plain bucket
        "delete never happens with generation=1",
        # What marks a violation or another assumption's failure; the cursor is for `scanning`.
        "the same in every reachable state, for nothing changes it: replica, overwritten, stranger, forged, "
        "cursor",
    )


@pytest.mark.parametrize(
    ("sizes", "distinct"),
    [
        ({"horizons": 0}, 74_131),
        ({"horizons": 0, "collectors": 1, "contents": 3, "shared": 3}, 18_978),
        ({**BLOBS, "scanning": 1, "collectors": 1}, 40_298),
        pytest.param({"collectors": 1, "horizons": 2}, 816_627, marks=pytest.mark.slow),
        pytest.param(BLOBS, 317_172, marks=pytest.mark.slow),
        (PLAIN, 201_469),
        ({**PLAIN, "scanning": 1, "collectors": 1}, 51_866),
    ],
)
def test_everything_holds_at_other_sizes(sizes, distinct) -> None:
    result = check(Ingest, sizes)
    assert verdicts(result) == {}
    assert result.distinct == distinct


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"versioned": 0}, {**BLOBS, "scanning": 1}])
def test_everything_holds_at_larger_sizes(sizes) -> None:
    assert verdicts(check(Ingest, sizes)) == {}


@pytest.mark.parametrize(
    "sizes",
    [
        {**BLOBS, "collectors": 1},
        *(pytest.param(one, marks=pytest.mark.slow) for one in (BLOBS, {"collectors": 1, "horizons": 2})),
        {"horizons": 0},
    ],
)
def test_a_versioned_bucket_needs_no_bounds_on_time(sizes) -> None:
    result = check(Ingest, sizes, without=["bounded-landing", "bounded-skew"])
    assert verdicts(result) == {}


# Each safeguard.

NEEDED = {
    "create-only-manifest": ({"one_acceptance", "no_early_effect"}, 6),
    "compare-after-412": ({"ack_durable", "truthful_duplicate"}, 7),
    "409-proves-nothing": ({"ack_durable", "truthful_duplicate"}, 4),
    "read-back-on-unknown": ({"ack_durable", "truthful_duplicate"}, 4),
    "blob-before-manifest": ({"ack_durable"}, 4),
    "effects-after-create": ({"no_early_effect"}, 6),
    "reconcile": ({"effects_eventually"}, 4),
    "new-upload-on-multipart-409": ({"ack_durable"}, 4),
    "gc-age": ({"gc_safe"}, 5),
    "gc-audit-before-trust": ({"gc_safe"}, 6),
    "gc-quarantine-refs": ({"gc_safe"}, 10),
    "gc-stalled-writer": ({"ack_durable"}, 7),
    "gc-stalled-writer-duplicate": ({"ack_durable"}, 10),
    "gc-stalled-writer-generation": ({"gc_safe"}, 9),
    "gc-stalled-writer-version": ({"gc_safe"}, 7),
    "cursor-overlap": ({"cursor_honest"}, 5),
    "identity-bound-to-agent": ({"no_forgery"}, 3),
    "single-authority": ({"one_acceptance", "never_reopened", "no_early_effect"}, 6),
    "deny-deletes": ({"ack_durable", "truthful_duplicate"}, 5),
    "linearizable-create": ({"one_acceptance", "no_early_effect"}, 6),
    "bounded-landing": ({"gc_safe"}, 9),
    "bounded-skew": ({"gc_safe"}, 8),
}


@functools.cache
def without(switch: str):
    return check(Ingest, Ingest.shown_at.get(switch), without=[switch])


def test_every_switch_has_an_expected_violation() -> None:
    assert set(NEEDED) == {*Ingest.safeguards, *Ingest.assumptions}
    assert set(Ingest.shown_at) <= set(NEEDED)


@pytest.mark.parametrize("switch", NEEDED)
def test_without_a_switch_its_properties_are_violated(switch) -> None:
    result = without(switch)
    broken, length = NEEDED[switch]
    assert {name for name, verdict in verdicts(result).items() if verdict == "violated"} == broken
    assert {len(steps(result, name)) for name in broken} == {length}


COUNTEREXAMPLES = {
    "compare-after-412": [
        "receive(c=0, h=0, sender=owner)",
        "put_blob(c=0, answer=done, clock=right)",
        "create_manifest(c=0, answer=done)",
        "receive(c=1, h=1, sender=owner)",
        "put_blob(c=1, answer=done, clock=right)",
        "create_manifest(c=1, answer=exists)",
        "answer(c=1, reply=duplicate)",
    ],
    "409-proves-nothing": [
        "receive(c=0, h=0, sender=owner)",
        "put_blob(c=0, answer=done, clock=right)",
        "create_manifest(c=0, answer=conflict)",
        "answer(c=0, reply=duplicate)",
    ],
    "blob-before-manifest": [
        "receive(c=0, h=0, sender=owner)",
        "put_blob(c=0, answer=request_lost, clock=right)",
        "create_manifest(c=0, answer=done)",
        "answer(c=0, reply=stored)",
    ],
    "gc-audit-before-trust": [
        "receive(c=0, h=0, sender=owner)",
        "put_blob(c=0, answer=done, clock=right)",
        "create_manifest(c=0, answer=done)",
        "time_passes()",
        "decide(h=0, generation=0)",
        "delete(h=0, generation=0)",
    ],
    "gc-stalled-writer": [
        "receive(c=0, h=0, sender=owner)",
        "put_blob(c=0, answer=done, clock=right)",
        "time_passes()",
        "decide(h=0, generation=0)",
        "delete(h=0, generation=0)",
        "create_manifest(c=0, answer=done)",
        "answer(c=0, reply=stored)",
    ],
    "gc-stalled-writer-version": [
        "receive(c=0, h=0, sender=owner)",
        "put_blob(c=0, answer=done, clock=right)",
        "time_passes()",
        "decide(h=0, generation=0)",
        "create_manifest(c=0, answer=done)",
        "put_blob_back(c=0)",
        "delete(h=0, generation=0)",
    ],
    "bounded-landing": [
        "receive(c=0, h=0, sender=owner)",
        "put_blob(c=0, answer=done, clock=right)",
        "create_manifest(c=0, answer=late)",
        "time_passes()",
        "time_passes()",
        "time_passes()",
        "decide(h=0, generation=0)",
        "late_manifest_lands()",
        "delete(h=0, generation=0)",
    ],
}


@pytest.mark.parametrize("switch", COUNTEREXAMPLES)
def test_the_shortest_counterexample_is_the_failure_that_the_safeguard_prevents(switch) -> None:
    broken, _ = NEEDED[switch]
    assert steps(without(switch), min(broken)) == COUNTEREXAMPLES[switch]


def test_a_collector_that_never_saw_the_data_answers_a_duplicate() -> None:
    """Another collector stalled past the horizon, created the manifest, and died before it looked."""
    assert steps(without("gc-stalled-writer-duplicate"), "ack_durable")[-3:] == [
        "create_manifest(c=0, answer=done)",
        "read_manifest(c=1)",
        "answer(c=1, reply=duplicate)",
    ]


def test_a_reused_name_is_deleted_by_an_earlier_decision() -> None:
    """In one plain bucket, with everything that may be assumed of time, the acknowledged data goes as well:
    a name stored anew while its delete is on its way. So generations need names of their own.
    """
    result = check(
        Ingest,
        Ingest.shown_at["gc-stalled-writer-generation"],
        without=["gc-stalled-writer-generation"],
        keep_going=True,
    )
    trace = steps(result, "ack_durable")
    assert trace[-4:] == [
        "create_manifest(c=0, answer=done)",
        "put_blob_back(c=0)",
        "delete(h=0, generation=0)",
        "answer(c=0, reply=stored)",
    ]


@pytest.mark.parametrize("versioned", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("assumption", ["bounded-landing", "bounded-skew"])
def test_only_a_plain_bucket_needs_bounds(versioned, assumption) -> None:
    result = check(Ingest, BLOBS if versioned else PLAIN, without=[assumption])
    assert result.verdict == ("holds" if versioned else "violated")


def test_a_deleted_manifest_is_reopened_by_another_batch() -> None:
    result = check(Ingest, SMALL, without=["deny-deletes"], keep_going=True)
    trace = steps(result, "never_reopened")
    assert trace[-1].startswith("create_manifest")
    assert "manifest_deleted()" in trace
    assert result["one_acceptance"].verdict == "violated"


def test_without_the_reconciler_a_batch_of_a_dead_collector_is_never_counted() -> None:
    counterexample = steps(without("reconcile"), "effects_eventually")
    assert counterexample[2] == "create_manifest(c=0, answer=done)"


# The other properties can fail as well.


class CountsTwice(Ingest):
    """A rollup that does not look whether its chunk is there."""

    @action
    def roll_up(s) -> None:
        s.require(s.derived["listing"] & (s.rolled < 2))
        s.rolled = s.rolled + 1


class TakesConflictForConflict(Ingest):
    """409 of the store passed to the agent as 409."""

    @action(c=Ingest.collectors)
    def refuse(s, c: int) -> None:
        s.require(s.collector[c].at == "manifest")
        s.outcome[s.collector[c].batch] = "parked"
        s.rest(c)


class KeepsNoRecord(Ingest):
    """A conflict that nobody writes down."""

    @action(c=Ingest.collectors)
    def refuse(s, c: int) -> None:
        s.require(s.collector[c].at == "conflict")
        s.outcome[s.collector[c].batch] = "parked"
        s.rest(c)


class WaitsForNobody(Ingest):
    """A collector that meets a conflict and says nothing."""

    record_conflict = None


class PassesOver(Ingest):
    """A cursor that moves past what it has listed and not repaired."""

    @action
    def move_cursor(s) -> None:
        s.require(s.cursor < s.era)
        s.cursor = s.era


@pytest.mark.parametrize(
    ("machine", "sizes", "name"),
    [
        (CountsTwice, SMALL, "effects_once"),
        (TakesConflictForConflict, SMALL, "truthful_conflict"),
        (KeepsNoRecord, SMALL, "conflict_durable"),
        (WaitsForNobody, SMALL, "answered"),
        (PassesOver, {"contents": 1, "collectors": 1, "horizons": 2, "scanning": 1}, "cursor_waits"),
    ],
)
def test_a_broken_machine_is_violated(machine, sizes, name) -> None:
    result = check(machine, sizes, keep_going=True)
    assert result[name].verdict == "violated"


@pytest.mark.parametrize(
    ("sizes", "out_of_reach"),
    [
        ({**SMALL, "collectors": 1, "contents": 1}, {"answered_as_duplicate", "accepted_unawares"}),
    ],
)
def test_a_size_that_is_too_small_violates_the_reachability_goals(sizes, out_of_reach) -> None:
    """The good situations that a size is too small for show that these properties can fail."""
    assert set(verdicts(check(Ingest, sizes, keep_going=True))) == out_of_reach
