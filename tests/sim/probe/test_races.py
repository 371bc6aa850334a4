"""The judge of a race: what rivals may receive, given the final object."""

import pytest

from fencepost.impl.store.requests import Outcome
from fencepost.sim.probe.races import Rival, _without_echoes, judge

DONE, EXISTS, CHANGED, CONFLICT, UNKNOWN, MISSING = (
    Outcome.DONE,
    Outcome.EXISTS,
    Outcome.CHANGED,
    Outcome.CONFLICT,
    Outcome.UNKNOWN,
    Outcome.MISSING,
)


def race(*outcomes: Outcome) -> list[Rival]:
    return [Rival(f"w{at}", f"t{at}", outcome) for at, outcome in enumerate(outcomes, 1)]


FINE = [
    ("one winner", race(DONE, EXISTS), None, "t1"),
    ("losers may be answered conflict", race(CONFLICT, DONE, EXISTS), None, "t2"),
    ("nobody wins, nobody gets a reason", race(CONFLICT, CONFLICT), None, None),
    ("nobody wins a swap", race(CONFLICT, Outcome.THROTTLED), "b", "b"),
    ("a lost reply may have been applied", race(UNKNOWN, EXISTS), None, "t1"),
    ("or not", race(UNKNOWN, CONFLICT), None, None),
    ("a winner beside lost replies", race(UNKNOWN, DONE, EXISTS), None, "t2"),
    ("a swap", race(CHANGED, DONE, CHANGED), "b", "t2"),
]

INVALID = [
    ("2 winners", race(DONE, DONE), None, "t2"),
    ("answered done, but 't2' stands", race(DONE, EXISTS), None, "t2"),
    ("answered done, but nothing stands", race(DONE, EXISTS), None, None),
    ("answered done, but 't1' stands", race(UNKNOWN, DONE), None, "t1"),
    ("answered done, but 'b' stands", race(DONE, CHANGED), "b", "b"),
    ("answered conflict, and yet its write stands", race(CONFLICT, EXISTS), None, "t1"),
    ("answered exists, and yet its write stands", race(EXISTS, EXISTS), None, "t2"),
    ("'torn(...' stands, which no rival wrote", race(UNKNOWN, EXISTS), None, "torn(..."),
    ("answered exists, though nobody's write was applied", race(EXISTS, CONFLICT), None, None),
    ("answered changed, though nobody's write was applied", race(CHANGED, CHANGED), "b", "b"),
    ("answered missing, though nobody's write was applied", race(CONFLICT, MISSING), "b", "b"),
    ("nothing stands, which no rival wrote", race(CONFLICT, CHANGED), "b", None),
]


@pytest.mark.parametrize(("why", "rivals", "before", "after"), FINE, ids=[case[0] for case in FINE])
def test_what_may_happen_in_a_race(
    why: str, rivals: list[Rival], before: str | None, after: str | None
) -> None:
    assert judge(rivals, before, after) is None


@pytest.mark.parametrize(("words", "rivals", "before", "after"), INVALID, ids=[case[0] for case in INVALID])
def test_what_must_not(words: str, rivals: list[Rival], before: str | None, after: str | None) -> None:
    output = judge(rivals, before, after)
    assert output is not None
    assert words in output


def test_a_delete_that_wins_leaves_nothing() -> None:
    delete = Rival("w2", None, DONE)
    put = Rival("w1", "t1", MISSING)
    assert judge([put, delete], "b", None) is None
    assert "winners" in (judge([Rival("w1", "t1", DONE), delete], "b", "t1") or "")
    assert "answered done" in (judge([put, delete], "b", "b") or "")


def test_a_lost_reply_of_a_delete_excuses_that_nothing_stands() -> None:
    assert judge([Rival("w1", None, UNKNOWN), Rival("w2", "t2", MISSING)], "b", None) is None


def test_echoes_of_deletes_are_forgiven_only_where_the_store_always_echoes() -> None:
    deletes = [Rival("w1", None, DONE), Rival("w2", None, DONE)]
    assert judge(_without_echoes(deletes, lenient=True), "b", None) is None
    assert judge(_without_echoes(deletes, lenient=False), "b", None) is not None
    put_too = [*deletes, Rival("w3", "t3", DONE)]
    assert judge(_without_echoes(put_too, lenient=True), "b", "t3") is not None
