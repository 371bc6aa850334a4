"""Runs against small machines: what is allowed is accepted, and the first event that is not is found."""

import inspect

import numpy as np
import pytest

from fencepost.model import Model, Stepper
from fencepost.properties.refinement import follow
from tests.properties.refinement.maps import Door, counter, door, landed, lock, requested

FINE = {
    "taken and given back": ("ann put locks/x done take=41", "ann delete locks/x done"),
    "in turns": (
        "ann put locks/x done take=41",
        "bob put locks/x exists take=42",
        "ann delete locks/x done",
        "bob put locks/x done take=42",
    ),
    "other things go on": ("ann put elsewhere done", "ann get locks/x done", "ann put locks/x done take=1"),
    "nothing at all": (),
    "a late create and a late delete": (
        "ann put locks/x done take=7",
        "ann delete locks/x done",
        "ann put locks/x done take=8",
        "ann delete locks/x done",
    ),
}
INVALID = {
    "taken twice": (("ann put locks/x done take=41", "bob put locks/x done take=42"), 1),
    "given back twice": (
        ("ann put locks/x done take=4", "ann delete locks/x done", "ann delete locks/x done"),
        2,
    ),
    "given back before": (("ann delete locks/x done",), 0),
    "the same number again": (
        ("ann put locks/x done take=3", "ann delete locks/x done", "bob put locks/x done take=3"),
        2,
    ),
}


@pytest.mark.parametrize("name", FINE)
def test_what_the_model_allows_is_accepted(name: str) -> None:
    verdict = follow(lock(), landed(*FINE[name]))
    assert (verdict.verdict, verdict.at) == ("holds", -1), verdict


@pytest.mark.parametrize("name", INVALID)
def test_the_first_event_that_the_model_does_not_allow_is_found(name: str) -> None:
    lines, at = INVALID[name]
    verdict = follow(lock(), landed(*lines))
    assert (verdict.verdict, verdict.at) == ("violated", at), verdict
    assert verdict.event == landed(*lines)[at]


def test_what_the_model_has_no_room_for_is_undecided() -> None:
    third = follow(
        lock(), landed("ann put locks/x done take=1", "bob put locks/x exists", "cid delete locks/x done")
    )
    assert (third.verdict, third.at) == ("undecided", 2)
    assert third.reason == "landed delete lock -> done (): the model has no room for this process"
    fourth = follow(lock(), landed("ann put locks/x done take=1", "ann put locks/x done take=4"))
    assert (fourth.verdict, fourth.at) == ("undecided", 1)
    many = follow(counter(), landed("ann put counter done count=3"))
    assert (many.verdict, many.at) == ("undecided", 0)
    assert "no room for it" in many.reason


def test_runs_that_differ_by_names_alone_are_the_same_run() -> None:
    automaton = lock()
    lines = "{} put locks/{} done take={}", "{} delete locks/{} done"
    follow(automaton, landed(*(line.format("ann", "x", 5) for line in lines)))
    sets, symbols = len(automaton), len(automaton.symbols)
    for name in range(50):
        verdict = follow(
            automaton, landed(*(line.format(f"p{name}", f"k{name}", 1000 + name) for line in lines))
        )
        assert verdict.verdict == "holds"
    assert (len(automaton), len(automaton.symbols)) == (sets, symbols)


def line_of(function: object, text: str) -> int:
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]  # a method of a machine
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_a_refusal_is_explained_by_the_guard_that_is_false() -> None:
    verdict = follow(
        door(), landed("a put door/knock done", "a put door/knock done", "a put door/knock done")
    )
    guard = f"s.require(s.knocks < 2) (maps.py:{line_of(Door.knock, 'knocks < 2')}); knocks: 2"
    assert str(verdict).splitlines() == [
        f"violated: landed put door -> done (act=knock): knock() is not possible: {guard}",
        "  event     landed put door -> done (act=knock)",
        "  before    knocks: 2",
        f"  not       knock(): {guard}",
        "  possible  swing()",
    ]


def test_an_explanation_shows_the_state_that_came_furthest() -> None:
    """After one knock heard the door was knocked at once or twice; only then it may have been opened."""
    verdict = follow(door(), landed("a put door/swing done", "a put door/swing done"))
    assert "before    knocks: 2, door: open" in str(verdict)
    assert "possible  nothing that an event shows" in str(verdict)
    nothing = follow(door(), landed("a put door/knock done", "a put door/slam done"))
    assert "this is nothing that the model ever does" in nothing.reason
    assert "before    knocks: 1  (or one of 1 others)" in str(nothing)


def test_a_guard_over_several_lines_is_shown_whole() -> None:
    model = Model(Door)
    swing = Stepper(model).label("swing()")
    shut = np.concatenate(
        [Stepper(model).state({"knocks": n, "door": "shut"}).rows() for n in (0, 1)], axis=1
    )
    opened = Stepper(model).state({"knocks": 2, "door": "open"}).rows()
    refusal = model.failed_guard(np.concatenate([opened, shut], axis=1), swing)
    assert refusal is not None
    assert (refusal.text, refusal.line) == (
        "s.require( s.knocks == 2, )",
        line_of(Door.swing, "s.require(\n"),
    )
    assert refusal.row == 1, "the first of the states that came as far as this guard"
    assert model.failed_guard(Stepper(model).state({"knocks": 2, "door": "shut"}).rows(), swing) is None


def test_a_false_condition_is_shown_in_words() -> None:
    verdict = follow(
        lock(),
        landed("ann put locks/x done take=1", "ann delete locks/x done", "bob put locks/x done take=1"),
    )
    assert "acquire(c=1, answer=done) is not possible: then take 0 is c=1's" in str(verdict)


def test_requests_and_responses_bound_the_landing() -> None:
    """The counter is written between the request and its response, whichever response comes first."""
    lines = (
        "> 1 ann put counter count=1",
        "> 2 bob put counter count=2",
        "< 2 bob put counter done",
        "< 1 ann put counter done",
    )
    assert follow(counter(slots=2), requested(*lines)).verdict == "holds"
    late = ("> 2 bob put counter count=2", "< 2 bob put counter done", "> 1 ann put counter count=1")
    verdict = follow(counter(slots=2), requested(*late))
    assert (verdict.verdict, verdict.at) == ("violated", 1)
    assert "cannot have landed between" in str(verdict)


@pytest.mark.parametrize("outcome", [None, "unknown"])
def test_a_request_without_a_response_may_have_landed_or_not(outcome: str | None) -> None:
    unanswered = ["> 1 ann put counter count=1", *([f"< 1 ann put counter {outcome}"] if outcome else [])]
    second = ("> 2 bob put counter count=2", "< 2 bob put counter done")
    first = ("> 2 bob put counter count=1", "< 2 bob put counter done")
    assert follow(counter(slots=2), requested(*unanswered, *second)).verdict == "holds"
    assert follow(counter(slots=2), requested(*unanswered, *first)).verdict == "holds"
    assert follow(counter(slots=2), requested(*second)).verdict == "violated"


def test_more_pending_requests_than_there_are_slots_are_undecided() -> None:
    lines = ("> 1 ann put counter count=1", "> 2 bob put counter count=2")
    assert follow(counter(slots=2), requested(*lines)).verdict == "holds"
    assert follow(counter(slots=1), requested(*lines)).verdict == "undecided"


def test_a_request_that_was_refused_for_good_was_never_there() -> None:
    lines = ("> 1 ann put counter count=2", "< 1 ann put counter refused")
    assert follow(counter(slots=1), requested(*lines)).symbols == 0
