"""How much of a model was driven: exact where everything is seen, never too little where something is not."""

import pytest

from fencepost.model import Model
from fencepost.properties.driven_share import Share
from fencepost.properties.refinement import (
    OUTSIDE,
    START,
    Automaton,
    Driven,
    Observation,
    Reader,
    SymbolKind,
)
from tests.properties.refinement.maps import Door, DoorMap, landed


class Heard(DoorMap):
    """Every knock is heard."""

    hidden = ()


def observations(automaton: Automaton, run: tuple[str, ...]) -> list[Observation]:
    reader, names, found = Reader(automaton), 0, []
    for e in landed(*(f"a put door/{act} done" for act in run)):
        row = ("landed", e.kind, e.key, e.condition, e.outcome, e.trace_fields)
        seen, names = reader.observe(names, row, "a", 0)
        found += [seen] if seen is not None else []
    return found


def driven(refinement: DoorMap, *runs: tuple[str, ...]) -> Driven:
    found = Driven(Automaton(refinement))
    for run in runs:
        found.drive(observations(found.automaton, run))
    return found


def counts(share: Share) -> dict[str, tuple[int, int]]:
    """By action: transitions driven, and all."""
    return {name: (both["driven"], both["transitions"]) for name, both in share.actions.items()}


def test_what_is_seen_is_counted_exactly() -> None:
    """The door's machine: knocks 0, 1, 2 shut, 2 open; from 0 and 1 either knock, from 2 the swing."""
    share = driven(Heard(Model(Door)), ("knock", "knock", "swing"), ("knock", "knock")).share()
    assert (share.states, share.transitions, share.driven) == (4, 5, 3)
    assert counts(share) == {"knock": (2, 2), "knock_unheard": (0, 2), "swing": (1, 1)}
    assert [(gap.label, gap.transitions, gap.path) for gap in share.gaps] == [
        ("knock_unheard()", 2, ("knock_unheard()",))
    ]
    assert share.share == 0.6


def test_ways_that_the_rest_of_a_run_rules_out_do_not_count() -> None:
    """After two knocks that were heard none was unheard; after one and a swing one was, before or after."""
    heard = driven(DoorMap(Model(Door)), ("knock", "knock"))
    assert counts(heard.share())["knock_unheard"] == (0, 2)
    unheard = driven(DoorMap(Model(Door)), ("knock", "swing"))
    assert counts(unheard.share()) == {"knock": (2, 2), "knock_unheard": (2, 2), "swing": (1, 1)}


def test_a_run_that_leaves_the_model_counts_up_to_there() -> None:
    found = driven(Heard(Model(Door)), ("knock", "swing", "knock"))
    share = found.share()
    assert (share.runs, share.runs_beyond_the_bound, share.driven) == (1, 1, 1)


def test_a_gap_comes_with_the_shortest_way_to_it() -> None:
    share = driven(Heard(Model(Door)), ("knock",)).share()
    assert {gap.label: gap.path for gap in share.gaps} == {
        "knock_unheard()": ("knock_unheard()",),
        "swing()": ("knock()", "knock()", "swing()"),
    }


@pytest.mark.parametrize(
    "runs",
    [
        [("knock", "knock")],
        [("knock", "swing")],
        [("knock", "knock", "swing"), ("knock", "swing", "knock")],
        [("knock",), ("knock", "knock", "swing"), ("swing",)],
    ],
)
def test_runs_that_are_taken_up_together_count_no_less_and_hardly_more(runs: list[tuple[str, ...]]) -> None:
    """What each set was left by, and where runs ended, is enough: a way counts if some run could go on."""
    alone = driven(DoorMap(Model(Door)), *runs)
    together = Driven(Automaton(DoorMap(Model(Door))))
    taken, ends = set(), set()
    for run in runs:
        number = START
        for seen in observations(together.automaton, run):
            symbol = together.automaton.symbol(seen)
            after = together.automaton.step(number, symbol)
            if after <= OUTSIDE:
                break
            taken.add((number, symbol))
            number = after
        ends.add(number)
    together.spread(taken, ends)
    assert together.edges >= alone.edges
    if len(runs) == 1:
        assert together.edges == alone.edges


def test_what_landed_between_a_request_and_its_answer_counts_once() -> None:
    """Before the answer it may not have landed yet; what is in flight is no part of the model's states."""
    automaton = Automaton(Heard(Model(Door)), slots=2)
    (seen,) = observations(automaton, ("knock",))
    requested = automaton.symbol(seen, SymbolKind.REQUESTED)
    responded = automaton.symbol(seen, SymbolKind.RESPONDED)
    waiting = automaton.step(START, requested)
    found = Driven(automaton)
    found.spread({(START, requested), (waiting, responded)}, {automaton.step(waiting, responded)})
    assert counts(found.share()) == {"knock": (1, 2), "knock_unheard": (0, 2), "swing": (0, 1)}
