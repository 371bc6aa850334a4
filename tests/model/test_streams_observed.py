"""The specification of streams: it holds, each of its guards is needed, and the model refines it."""

import pytest

from fencepost.model import action, check
from fencepost.model.streams import Streams
from fencepost.model.streams_observed import NONE, StreamsObserved
from tests.model.counterexamples import verdicts
from tests.model.refining import refinement, refining

SMALL = {"epochs": 2, "troubles": 0}
TWO_APPENDS = {"appends": 2, "epochs": 2, "lives": 1, "troubles": 1}


# It holds.


@pytest.mark.parametrize(
    ("sizes", "distinct"),
    [
        ({}, 12_117),
        ({"lives": 1, "owners": 3}, 2_027),
        pytest.param({"owners": 3}, 337_365, marks=pytest.mark.slow),
        pytest.param({"places": 3}, 496_327, marks=pytest.mark.slow),
    ],
)
def test_everything_holds(sizes, distinct) -> None:
    result = check(StreamsObserved, sizes)
    assert verdicts(result) == {}
    assert result.vacuity_warnings == ()
    assert result.distinct == distinct


# A machine that allows more is caught by its properties.


class ListsAnything(StreamsObserved):
    """A manifest that lists segments that were never uploaded."""

    @action(life=StreamsObserved.lives, owner=StreamsObserved.owners, place=StreamsObserved.places)
    def listed_segment(s, life: int, owner: int, place: int) -> None:
        s.require(s.is_owned(life, owner), s.listed[place] == NONE, s.manifest.count < s.places)
        s.change_manifest(count=s.manifest.count + 1, last=place)
        s.listed[place] = owner


class ListsOfAnotherOwner(StreamsObserved):
    """A write of the manifest that lists a segment of a fenced owner."""

    @action(life=StreamsObserved.lives, owner=StreamsObserved.owners, place=StreamsObserved.places)
    def listed_segment(s, life: int, owner: int, place: int) -> None:
        s.require(s.is_live_at(life), s.data[life][owner].has(place))
        s.require(s.listed[place] == NONE, s.manifest.count < s.places)
        s.change_manifest(count=s.manifest.count + 1, last=place)
        s.listed[place] = owner


class ReplacesTheLast(StreamsObserved):
    """A write of the manifest that lists another segment in place of the last one."""

    @action(life=StreamsObserved.lives, owner=StreamsObserved.owners, place=StreamsObserved.places)
    def replaced(s, life: int, owner: int, place: int) -> None:
        s.require(s.is_owned(life, owner), s.data[life][owner].has(place), s.listed[place] == NONE)
        s.require(s.manifest.count > 0)
        s.listed[s.manifest.last] = NONE
        s.change_manifest(last=place)
        s.listed[place] = owner


class SwapsBeforeDeleting(StreamsObserved):
    """A recreate over a tombstone whose data exists."""

    @action(life=StreamsObserved.lives)
    def swapped(s, life: int) -> None:
        s.require(s.is_dead())
        s.begin(life)


class ReapsTooEarly(StreamsObserved):
    """A manifest that goes before its data."""

    @action
    def manifest_deleted(s) -> None:
        s.require(s.is_dead())
        s.manifest.delete()
        s.clear_list()


class DeletesLiveManifests(StreamsObserved):
    """A manifest that goes without a tombstone."""

    @action
    def manifest_deleted(s) -> None:
        s.require(s.manifest.is_there)
        s.manifest.delete()
        s.clear_list()


class DeletesLiveData(StreamsObserved):
    """A listed segment of a fenced owner that is taken for garbage."""

    @action(life=StreamsObserved.lives, owner=StreamsObserved.owners, place=StreamsObserved.places)
    def data_deleted(s, life: int, owner: int, place: int) -> None:
        s.require(~s.is_live_at(life) | (s.manifest.owner > owner))
        s.data[life][owner] = s.data[life][owner].minus(place)


class CreatesAgain(StreamsObserved):
    """A create of an incarnation that is over."""

    def begin(s, life: int) -> None:
        s.manifest.put(life=life, owner=0, tomb=False, count=0, last=NONE)
        s.granted[life] = 1
        s.clear_list()


class KeepsTheList(StreamsObserved):
    """A recreate that keeps the segments of the incarnation before in its list."""

    def clear_list(s) -> None:
        """Nothing."""


LOOSER = {
    ListsAnything: "manifest_last",
    ListsOfAnotherOwner: "zombie_fenced",
    ReplacesTheLast: "immutable_by_position",
    SwapsBeforeDeleting: "manifest_last",
    ReapsTooEarly: "manifest_last",
    DeletesLiveManifests: "live_untouched",
    DeletesLiveData: "live_untouched",
    CreatesAgain: "no_resurrection",
    KeepsTheList: "recreate_clean",
}


@pytest.mark.parametrize("machine", LOOSER)
def test_a_machine_that_allows_more_violates_a_property(machine) -> None:
    assert check(machine, keep_going=True)[LOOSER[machine]].verdict == "violated"


# The model refines it.


@pytest.mark.parametrize("sizes", [SMALL, pytest.param(TWO_APPENDS, marks=pytest.mark.slow)])
def test_the_model_refines_it(sizes) -> None:
    found = refinement(Streams, sizes)
    assert (found.kind, found.verdict) == ("refinement", "holds")
    assert found.proof.distinct >= check(Streams, sizes).distinct


@pytest.mark.slow
def test_the_proof_at_the_default_size_performs_every_action() -> None:
    result = check(Streams)
    assert result["observed"].verdict == "holds"
    assert result["observed"].proof.distinct == 543_548
    assert result.vacuity_warnings == ()


UNSEEN = {
    "verify-empty": "a listing and a dropped row are no events of the store",
    "tombstone-short-circuit": "what a restore reads changes nothing",
    "scan": "that nothing happens is no event",
    "expiry-skew-margin": "no clock is in the store",
    "producer-fence": "no producer is in the store",
}


@pytest.mark.parametrize("switch", [*Streams.safeguards, *Streams.assumptions])
def test_without_a_switch_the_refinement_breaks_as_far_as_the_store_shows_it(switch) -> None:
    sizes = TWO_APPENDS if switch == "producer-fence" else {"epochs": 2}
    found = refinement(Streams, sizes, without=[switch])
    assert found.verdict == ("holds" if switch in UNSEEN else "violated")


class ReplacesFullTombstones(StreamsObserved):
    """A tombstone is replaced only if it lists a segment."""

    @action(life=StreamsObserved.lives)
    def swapped(s, life: int) -> None:
        s.require(s.is_dead(), s.manifest.count > 0, ~s.has_listed_data())
        s.begin(life)


class NothingLate(StreamsObserved):
    """Uploads of the present owner alone."""

    @action(life=StreamsObserved.lives, owner=StreamsObserved.owners, place=StreamsObserved.places)
    def uploaded(s, life: int, owner: int, place: int) -> None:
        s.require(s.is_owned(life, owner), ~s.data[life][owner].has(place))
        s.data[life][owner] = s.data[life][owner].plus(place)


class KeepsGarbage(StreamsObserved):
    """The data of a fenced owner is never deleted from a live stream."""

    @action(life=StreamsObserved.lives, owner=StreamsObserved.owners, place=StreamsObserved.places)
    def data_deleted(s, life: int, owner: int, place: int) -> None:
        s.require(~s.is_live_at(life))
        s.data[life][owner] = s.data[life][owner].minus(place)


class TombsAreEmpty(StreamsObserved):
    """A tombstone that lists nothing."""

    @action(life=StreamsObserved.lives, owner=StreamsObserved.owners)
    def buried(s, life: int, owner: int) -> None:
        s.require(s.is_owned(life, owner))
        s.change_manifest(tomb=True, count=0, last=NONE)
        s.clear_list()


STRICTER = {
    ReplacesFullTombstones: "swapped",
    NothingLate: "uploaded",
    KeepsGarbage: "data_deleted",
    TombsAreEmpty: "manifest",
}


@pytest.mark.parametrize("other", STRICTER)
def test_the_proof_catches_a_specification_that_forbids_a_step_of_the_model(other) -> None:
    """The reason names the label that is refused, or the field that differs."""
    found = refinement(refining(Streams, other), {"epochs": 2, "troubles": 0})
    assert found.verdict == "violated"
    assert STRICTER[other] in found.reason
    assert found.counterexample is not None
