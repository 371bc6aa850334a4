"""The claim of symmetry is tested on every state, and what is left of it is part of the verdict."""

from typing import ClassVar

import pytest

from fencepost.model import (
    Each,
    Flags,
    Int,
    Machine,
    ModellingMistake,
    Size,
    Truth,
    action,
    always_recoverable,
    check,
    invariant,
    may_end,
    step,
    together,
)
from fencepost.model.kernel import eventually
from fencepost.model.kernel.search import symmetry


class Counters(Machine):
    """Members that count by themselves; member 0 is watched in one state of thousands only."""

    members = Size(4, most=6)
    symmetric: ClassVar = ("members",)
    count = Each(members, Int(0, 5))

    @action(m=members)
    def up(s, m: int) -> None:
        s.require(s.count[m] < 5)
        s.count[m] = s.count[m] + 1

    @may_end
    def anywhere(s) -> Truth:
        return s.count.all(5)


class WatchesOne(Counters):
    @invariant
    def rare(s) -> Truth:
        """False in one real state, which no sorted state is."""
        return ~((s.count[0] == 5) & (s.count[1] == 3) & (s.count[2] == 1) & (s.count[3] == 4))


def test_a_property_of_one_member_in_one_rare_state_is_an_error_that_names_the_state() -> None:
    assert check(WatchesOne)["rare"].verdict == "violated"
    with pytest.raises(ModellingMistake, match=r"verdict of `rare` changes .* in state \{'count': \(.*\)\}"):
        check(WatchesOne, symmetry=True)


def test_without_the_test_of_every_state_it_would_hold(monkeypatch) -> None:
    """The mistake above does hide in a symmetric search."""
    monkeypatch.setattr(symmetry.Reduced, "_tried", lambda *_: iter(()))
    assert check(WatchesOne, symmetry=True)["rare"].verdict == "holds"


def test_the_verdict_says_what_was_tested_and_what_is_assumed(monkeypatch) -> None:
    assert check(Counters, {"members": 3}, symmetry=True).notes[1] == (
        "the claim that members are interchangeable was tested on every state, under every renumbering"
    )
    result = check(Counters, {"members": 6}, symmetry=True)
    assert result.notes[1].startswith(
        "assuming that members are interchangeable: tested on every state for its properties, and on "
    )
    assert result.notes[1].endswith(" for what may happen next, under some renumberings")


def test_the_sample_grows_with_the_space(monkeypatch) -> None:
    def tested(members: int) -> int:
        note = check(Counters, {"members": members}, symmetry=True).notes[1]
        return int(note.split(" for its properties, and on ")[1].split(" of ")[0].replace(",", ""))

    monkeypatch.setattr(symmetry, "_ALL_TESTED", 4)
    monkeypatch.setattr(symmetry, "_ONE_IN", 4)
    assert tested(6) > tested(5) > 20


class Bells(Machine):
    """Only the last member of a sorted state ever rings, whoever it is."""

    members = Size(3)
    symmetric: ClassVar = ("members",)
    rung = Flags(members)

    @action(m=members, times=(1, 2))
    def ring(s, m: int, times: int) -> None:
        s.require(~s.rung.has(m), times == 1)
        s.rung = s.rung.plus(m)

    @always_recoverable
    def all_rung(s) -> Truth:
        return s.rung.size() == s.members

    @eventually(fair=("ring", together("ring", by="m")))
    def all_rung_at_last(s) -> Truth:
        return s.rung.size() == s.members

    @step
    def never_quiet(before, after: "Bells") -> Truth:
        return before.rung.within(after.rung)

    @may_end
    def over(s) -> Truth:
        return s.rung.size() == s.members


def test_symmetry_adds_no_vacuity_warning() -> None:
    """A label that no sorted state enables may well happen in the states that it stands for."""
    plain, reduced = check(Bells), check(Bells, symmetry=True)
    assert plain.vacuity_warnings == reduced.vacuity_warnings
    assert "ring never happens with times=2" in plain.vacuity_warnings
