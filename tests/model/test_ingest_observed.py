"""The specification of ingest: it holds, each of its guards is needed, and the model refines it."""

import pytest

from fencepost.model import action, check
from fencepost.model.ingest import Ingest
from fencepost.model.ingest_observed import IngestObserved
from tests.model.counterexamples import verdicts
from tests.model.refining import refinement, refining

PLAIN = {"contents": 1, "horizons": 4, "versioned": 0}
NO_TIME = {"horizons": 0}
ALONE = {"contents": 1, "collectors": 1, "shared": 0}


# It holds.


@pytest.mark.parametrize(
    ("sizes", "distinct"),
    [({}, 1_433), (PLAIN, 22_146), ({"versioned": 0, "horizons": 2}, 36_452), ({"contents": 3}, 23_357)],
)
def test_everything_holds(sizes, distinct) -> None:
    result = check(IngestObserved, sizes)
    assert verdicts(result) == {}
    assert result.distinct == distinct


@pytest.mark.parametrize("assumption", IngestObserved.assumptions)
def test_a_plain_bucket_needs_the_bounds_on_time_and_a_versioned_one_does_not(assumption) -> None:
    assert (
        check(IngestObserved, PLAIN, without=[assumption], keep_going=True)["gc_safe"].verdict == "violated"
    )
    assert check(IngestObserved, without=[assumption]).verdict == "holds"


# A machine that allows more is caught by its properties.


class AcceptsAgain(IngestObserved):
    """A manifest that is replaced."""

    @action(h=IngestObserved.contents, generation=IngestObserved.generations)
    def accepted(s, h: int, generation: int) -> None:
        s.require(s.may_send(h, generation))
        s.manifest.put(content=h, generation=generation)
        s.learn()


class RecordsAnything(IngestObserved):
    """A record of a batch that is accepted."""

    @action(h=IngestObserved.contents, generation=IngestObserved.generations)
    def recorded(s, h: int, generation: int) -> None:
        s.require(s.manifest.is_there, s.may_send(h, generation))
        s.conflict[h].create("done", generation=generation)
        s.learn()


class IndexesEarly(IngestObserved):
    """An index of a batch that is not accepted."""

    @action(entry=("listing", "reference"))
    def indexed(s, entry: str) -> None:
        s.derived[entry] = True


class AnswersUnseen(IngestObserved):
    """An answer before the data was seen."""

    @action(h=IngestObserved.contents)
    def replied(s, h: int) -> None:
        s.require(s.is_accepted(h))
        s.outcome[h] = "stored"


class AnswersForAnother(IngestObserved):
    """200 for a batch that the manifest does not name."""

    @action(h=IngestObserved.contents)
    def replied(s, h: int) -> None:
        s.require(s.manifest.is_there)
        s.outcome[h] = "stored"


class RefusesItsOwn(IngestObserved):
    """409 for the batch that is accepted."""

    @action(h=IngestObserved.contents)
    def replied(s, h: int) -> None:
        s.require(s.manifest.is_there)
        s.outcome[h] = "parked"


class DeletesYoung(IngestObserved):
    """A blob that goes though it was never judged."""

    @action(h=IngestObserved.contents, generation=IngestObserved.generations)
    def deleted(s, h: int, generation: int) -> None:
        s.blob[h] = s.blob[h].minus(generation)


class AgesAlways(IngestObserved):
    """A version that a document refers to is taken for old."""

    @action(h=IngestObserved.contents)
    def ages(s, h: int) -> None:
        s.blob[h] = {0}


class LosesManifests(IngestObserved):
    """A manifest that is deleted."""

    @action
    def manifest_lost(s) -> None:
        s.require(s.manifest.is_there)
        s.manifest.delete()


LOOSER = {
    AcceptsAgain: "one_acceptance",
    RecordsAnything: "conflict_durable",
    IndexesEarly: "no_early_effect",
    AnswersUnseen: "ack_durable",
    AnswersForAnother: "truthful_duplicate",
    RefusesItsOwn: "truthful_conflict",
    DeletesYoung: "gc_safe",
    AgesAlways: "gc_safe",
    LosesManifests: "never_reopened",
}


@pytest.mark.parametrize("machine", LOOSER)
def test_a_machine_that_allows_more_violates_a_property(machine) -> None:
    assert check(machine, keep_going=True)[LOOSER[machine]].verdict == "violated"


# The model refines it.


@pytest.mark.parametrize(
    ("sizes", "pairs"),
    [
        (NO_TIME, 74_131),
        ({**PLAIN, "collectors": 1}, 82_246),
        pytest.param({"contents": 1, "horizons": 2}, 317_180, marks=pytest.mark.slow),
        pytest.param({**PLAIN, "horizons": 3}, 262_217, marks=pytest.mark.slow),
        pytest.param({}, 3_178_661, marks=pytest.mark.slow),
    ],
)
def test_the_model_refines_it(sizes, pairs) -> None:
    found = refinement(Ingest, sizes)
    assert (found.kind, found.verdict, found.proof.distinct) == ("refinement", "holds", pairs)


UNSEEN = {
    "reconcile": "that nothing happens is no event",
    "cursor-overlap": "what a reader does not read is no event",
    "identity-bound-to-agent": "who sends a batch is no event of the store",
}
AT = {
    **{name: {**ALONE, "troubles": 0} for name in ("gc-audit-before-trust", "gc-stalled-writer")},
    "gc-quarantine-refs": {"shared": 0, "troubles": 0, "collectors": 1},
    "gc-stalled-writer-duplicate": {"contents": 1, "shared": 0, "troubles": 0},
}


@pytest.mark.parametrize("switch", [*Ingest.safeguards, *Ingest.assumptions])
def test_without_a_switch_the_refinement_breaks_as_far_as_the_store_shows_it(switch) -> None:
    sizes = AT.get(switch) or Ingest.shown_at.get(switch) or NO_TIME
    found = refinement(Ingest, sizes, without=[switch])
    assert found.verdict == ("holds" if switch in UNSEEN else "violated")


class OneAnswer(IngestObserved):
    """An agent is answered once, and a duplicate never."""

    @action(h=IngestObserved.contents, reply=("accepted", "duplicate", "parked"))
    def replied(s, h: int, reply: str) -> None:
        s.require(s.assured[h], reply != "duplicate", s.outcome[h] == "nothing")
        s.outcome[h] = "parked" if reply == "parked" else "stored"
        if reply == "accepted":
            s.is_new = True


class ListsFirst(IngestObserved):
    """The reference only after the listing."""

    @action(entry=("listing", "reference"))
    def indexed(s, entry: str) -> None:
        s.require(s.manifest.is_there, ~s.derived[entry])
        s.require(s.derived["listing"] | (entry == "listing"))
        s.derived[entry] = True


class StoresOnce(IngestObserved):
    """A blob that is there is never stored again."""

    @action(h=IngestObserved.contents, generation=IngestObserved.generations)
    def blob_stands(s, h: int, generation: int) -> None:
        s.require(s.blob[h].is_empty(), generation == 1)
        s.blob[h] = s.blob[h].plus(generation)
        s.learn()


class RefusesBeforeAccepting(IngestObserved):
    """A record names a batch even where none is accepted."""

    @action(h=IngestObserved.contents, generation=IngestObserved.generations)
    def recorded(s, h: int, generation: int) -> None:
        s.require(~s.manifest.is_there, s.may_send(h, generation))
        s.conflict[h].create("done", generation=generation)
        s.learn()


STRICTER = {
    OneAnswer: "replied",
    ListsFirst: "indexed",
    StoresOnce: "blob_stands",
    RefusesBeforeAccepting: "recorded",
}


@pytest.mark.parametrize("other", STRICTER)
def test_the_proof_catches_a_specification_that_forbids_a_step_of_the_model(other) -> None:
    found = refinement(refining(Ingest, other), NO_TIME)
    assert found.verdict == "violated"
    assert STRICTER[other] in found.reason
    assert found.counterexample is not None


CHOICES = {
    "blob_stands never happens with generation=0",
    "deleted never happens with generation=1",
    "accepted never happens with generation=0",
    "recorded never happens with generation=0",
}


def test_a_choice_that_one_kind_of_bucket_never_makes_the_other_makes() -> None:
    """If this fails, a part of the machine is tested at neither of its configurations."""
    assert set(check(IngestObserved).vacuity_warnings) == CHOICES
    plain = check(IngestObserved, PLAIN).vacuity_warnings
    assert not [text for text in plain if "generation=0" in text or "generation=1" in text]
