"""Continuity of objects: exactly what an independent search over all orders allows, and no false alarm.

If this fails, `fencepost replay` accepts a trace of a store that lost or invented data, or refuses one of a
store that did nothing wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.replay.continuity import NO_CLAIMS, Claims, Continuity, continuity
from fencepost.sim.replay.parts import in_order
from fencepost.sim.replay.register import NONE, Need, Register, Step
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.trust.registers import Call, as_code, drawn, events, possible, stored


def judged(
    made: Iterable[Event], *, all_writers: bool = True, starts_empty: bool = False, as_recorded: bool = True
) -> Continuity:
    table = in_order(table_of(made))
    return continuity(columns(table), table, Claims(all_writers, starts_empty), as_recorded=as_recorded)


def refused(runs: Mapping[int, list[Event]], **options: bool) -> dict[int, dict[str, Any]]:
    """The findings by the number of their run, of many runs with one object each."""
    rows = [replace(event, run=f"{seed:06d}") for seed, made in runs.items() for event in made]
    found = judged(rows, **options)
    assert found.undecided <= len(runs) // 100
    assert found.found == len(found.findings), "not more than are listed"
    return {int(one["run"]): one for one in found.findings}


def compare(seeds: range, most: int) -> int:
    """Compare drawn histories with the search over all orders; the number of those that are possible."""
    cases: dict[tuple[bool, bool], dict[int, list[Call]]] = {}
    for seed in seeds:
        dice = Random(seed)
        calls = drawn(dice, 2 + seed % most, 1 + seed % 4)
        cases.setdefault((dice.random() < 0.5, dice.random() < 0.6), {})[seed] = calls
    count = 0
    for (empty, one_order), histories in cases.items():
        runs = {seed: events(calls) for seed, calls in histories.items()}
        found = refused(runs, starts_empty=empty, as_recorded=one_order)
        for seed, calls in histories.items():
            expected = possible(calls, empty=empty, one_order=one_order)
            assert (seed not in found) == expected, (seed, empty, one_order, found.get(seed), as_code(calls))
            count += expected
    return count


def test_drawn_histories_are_judged_as_by_trying_every_order() -> None:
    assert 150 < compare(range(800), 5) < 650, "both verdicts occur"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 40_000, 1000))
def test_more_drawn_histories_are_judged_as_by_trying_every_order(first: int) -> None:
    assert 50 < compare(range(first, first + 1000), 7) < 900


def history(*requests: str, time: int = 0) -> list[Event]:
    """A run from words: process, life, kind, key, answer, ETags; each is answered before the next is sent.

    A condition stands in front of its ETag, as in `matches:e1`.
    """
    made: list[Event] = []
    for op, words in enumerate(requests):
        process, life, kind, key, condition, outcome, etag = words.split(" ")
        name, _, named = condition.partition(":")
        base = Event("run", 2 * op, time * op, process, int(life), op, "request", kind, key)
        answer = replace(base, seq=2 * op + 1, phase="response", outcome=outcome, etag=etag.strip("-"))
        made += [replace(base, condition=name.strip("-"), etag=named), answer]
    return made


LOST = history("p 0 put o absent done e1", "q 0 get o - missing -")


def rules(found: Continuity) -> list[str]:
    return [one["rule"] for one in found.findings]


@pytest.mark.parametrize("time", [0, 1])
def test_numbers_order_a_run_whose_clock_does_not_move(time: int) -> None:
    """Equal times contradict no number; only times that fall do."""
    run = history("p 0 put o absent done e1", "q 0 get o - missing -", time=time)
    assert rules(judged(run)) == ["lost-write"]
    assert rules(judged([replace(event, t_ns=-event.seq) for event in run])) == []


def test_an_object_with_a_number_that_is_used_twice_is_not_judged() -> None:
    twice = [replace(event, op=0) for event in LOST]
    twice = [replace(event, process="p") for event in twice]
    found = judged(twice)
    assert (found.findings, found.judged) == ([], 0)
    assert found.unjudged == {"are of objects whose requests have numbers that are used twice": 1}


def test_a_life_with_a_number_that_is_used_twice_has_no_order() -> None:
    """Where only the order within a process is known, no object of that life is judged."""
    other = history("p 0 put x anything done e1", "p 0 get x - done e1", "p 0 get x - done e2")
    run = [*other, *(replace(event, seq=event.seq + 6, op=event.op + 3, key="y") for event in other)]
    assert rules(judged(run, as_recorded=False)) == ["never-written", "never-written"]
    run[9] = replace(run[9], op=run[7].op)
    run[8] = replace(run[8], op=run[6].op)
    found = judged(run, as_recorded=False)
    assert (found.findings, found.judged) == ([], 0)


def test_a_request_of_an_unknown_kind_may_change_its_object() -> None:
    between = history("p 0 put o absent done e1", "p 0 rename o - done -", "q 0 get o - missing -")
    found = judged(between)
    assert (found.findings, found.judged) == ([], 0)
    assert found.unjudged == {"are of objects with deleted versions, or of unknown kinds of requests": 2}


def test_lives_of_a_process_follow_each_other_although_each_counts_from_the_beginning() -> None:
    """The numbers of the second life are below those of the first; the number of the life decides."""
    first = history("p 0 put o absent done e1")
    second = history("p 1 get o - missing -")
    run = [
        *(replace(event, seq=event.seq + 2) for event in first),
        *(replace(event, op=7) for event in second),
    ]
    assert rules(judged(run, as_recorded=False)) == ["lost-write"]


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        ("read-of-deleted", ["p 0 delete o matches:e2 done -", "p 0 get o - done e1"]),
        ("stale-read", ["p 0 get o - done e1"]),
        ("never-written", ["p 0 get o - done e9"]),
        ("created-over", ["p 0 put o absent done e3"]),
        ("wrong-condition", ["p 0 put o matches:e1 done e3"]),
        ("wrong-condition", ["p 0 get o only-if:e2 changed -"]),
    ],
)
def test_a_finding_has_the_name_of_what_happened(rule: str, last: list[str]) -> None:
    run = history("p 0 put o absent done e1", "p 0 put o matches:e1 done e2", *last)
    assert rules(judged(run)) == [rule]


def landed(*requests: str) -> list[Event]:
    """The same by a recorder that sees each request land."""
    made = []
    for asked, answer in zip(*[iter(history(*requests))] * 2, strict=True):
        land = replace(answer, phase="landed", condition=asked.condition)
        made += [asked, land, answer]
    return [replace(event, seq=at) for at, event in enumerate(made)]


FIRST = "p 0 put o absent done e1"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (history(FIRST, "p 0 delete o anything done -", "p 0 get o - past-end -"), ["wrong-condition"]),
        (history(FIRST, "p 0 get o - past-end -"), []),
        (history(FIRST, "p 0 delete o anything missing -", "p 0 get o - done e1"), []),
        (landed(FIRST, "p 0 delete o anything done -", "p 0 put o absent exists -"), ["wrong-condition"]),
        (history(FIRST, "p 0 delete o anything done -", "p 0 put o absent exists -"), []),
    ],
    ids=[
        "a range of no object",
        "a range past the end",
        "a delete without a condition tells nothing",
        "a request that landed once was not repeated",
        "a client may have repeated its request",
    ],
)
def test_an_answer_needs_what_the_table_says(run: list[Event], expected: list[str]) -> None:
    assert rules(judged(run)) == expected


def with_version(run: list[Event], kind: str) -> list[Event]:
    """The run, where the last request of this kind names a version."""
    at = max(at for at, event in enumerate(run) if (event.phase, event.kind) == ("request", kind))
    return [replace(event, version="v1") if place == at else event for place, event in enumerate(run)]


def test_a_read_of_a_named_version_tells_nothing_of_the_present_one() -> None:
    run = history(FIRST, "p 0 put o matches:e1 done e2", "p 0 get o - done e1")
    assert rules(judged(run)) == ["stale-read"]
    assert rules(judged(with_version(run, "get"))) == []


def test_an_object_with_a_deleted_version_is_not_judged() -> None:
    run = history(FIRST, "p 0 delete o - done -", "p 0 get o - done e1")
    assert rules(judged(run)) == ["read-of-deleted"]
    found = judged(with_version(run, "delete"))
    assert (found.findings, found.judged) == ([], 0)
    assert found.unjudged == {"are of objects with deleted versions, or of unknown kinds of requests": 3}


def test_the_body_of_an_etag_is_the_one_that_was_put() -> None:
    run = history(FIRST, "p 0 get o - done e1")
    bodies = ["h1", "", "", "h1"]
    assert rules(judged([replace(event, hash=body) for event, body in zip(run, bodies, strict=True)])) == []
    bodies[3] = "h2"
    found = judged([replace(event, hash=body) for event, body in zip(run, bodies, strict=True)])
    assert rules(found) == ["other-body"]


@pytest.mark.parametrize("changed", ["outcome", "etag", "hash"])
def test_an_answer_is_what_landed(changed: str) -> None:
    run = [replace(event, hash="h1" if event.phase != "request" else "") for event in landed(FIRST)]
    assert rules(judged(run)) == []
    values = {"outcome": "exists", "etag": "e2", "hash": "h2"}
    assert rules(judged([*run[:2], replace(run[2], **{changed: values[changed]})])) == ["other-answer"]


def test_what_is_not_decided_in_one_part_is_not_decided_in_all() -> None:
    """If this fails, a replay of several parts holds although one of them was given up."""
    counts = {one.name: 2 + at for at, one in enumerate(fields(Continuity)) if one.type is int}
    assert set(counts) >= {"judged", "undecided", "found"}
    whole = Continuity(judged=1)
    whole.add(Continuity(**counts))
    assert vars(whole) == {**vars(Continuity()), **counts, "judged": counts["judged"] + 1}
    for sums, verdict in [
        (Continuity(judged=1), "holds"),
        (Continuity(), "undecided"),
        (Continuity(judged=1, undecided=1), "undecided"),
        (Continuity(judged=1, undecided=1, found=1), "violated"),
    ]:
        assert sums.result(NO_CLAIMS).verdict == verdict


def test_a_process_alone_explains_nothing_by_its_own_writes() -> None:
    """The writes of the others may come at any time; its own are where it made them."""

    def step(row: int, domain: int, value: int, *, write: bool) -> Step:
        need = Need.NOTHING if write else Need.EQUAL
        return Step(
            row, domain, 2 * row, 2 * row + 1, need, NONE if write else value, value if write else NONE
        )

    own = [step(0, 0, 1, write=True), step(1, 0, 2, write=True), step(2, 0, 1, write=False)]
    others = [step(3, 1, 2, write=False), step(4, 1, 3, write=True)]
    blocked = Register([*own, *others], {}).alone(0).blocked()
    assert blocked is not None
    assert blocked.step.row == 2
    assert Register([*own, step(3, 1, 1, write=True)], {}).alone(0).blocked() is None


def accept(seeds: range, most: int) -> None:
    """Judge histories of an honest store: no finding."""
    cases: dict[tuple[bool, bool], dict[int, list[Call]]] = {}
    for seed in seeds:
        dice = Random(seed)
        empty, one_counter = dice.random() < 0.5, dice.random() < 0.5
        calls = stored(dice, 3 + seed % most, 1 + seed % 6, empty=empty)
        cases.setdefault((empty, one_counter), {})[seed] = calls
    for (empty, one_counter), histories in cases.items():
        runs = {seed: events(calls, one_counter=one_counter) for seed, calls in histories.items()}
        for seed, one in refused(runs, starts_empty=empty).items():
            pytest.fail(f"{seed} {empty} {one_counter} {one} {as_code(histories[seed])}")


def test_histories_of_an_honest_store_are_accepted() -> None:
    accept(range(150), 40)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 4000, 500))
def test_more_histories_of_an_honest_store_are_accepted(first: int) -> None:
    accept(range(first, first + 500), 200)
