"""Branches that are functions are evaluated only on the states that take them."""

import pytest

from fencepost.model import (
    Enum,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Record,
    Seq,
    action,
    case,
    implies,
    pick,
)


def after(work, states: list[dict]) -> list[dict]:
    class One(Machine):
        log = Seq(3, Int(1, 3))
        n = Int(0, 3)
        out = Int(-1, 9)
        name = Enum("a", "b", "c")
        last = Record(at=Int(0, 3), name=Enum("a", "b", "c"))

        @action
        def do(s) -> None:
            s.require(s.n != 3)
            work(s)

    import numpy as np

    model = Model(One)
    packed = np.concatenate([model.pack(state) for state in states], axis=1)
    found = model.successors(packed, model.labels[0])
    return [model.unpack(found.states[:, i]) for i in range(len(found.origin))]


STATES = [
    {"log": log, "n": n, "out": 0, "name": name, "last": {"at": n, "name": name}}
    for log in ((), (2,), (3, 1), (1, 2, 3))
    for n in range(4)
    for name in ("a", "b", "c")
]
LEFT = [state for state in STATES if state["n"] != 3]


def test_an_index_that_is_outside_elsewhere_is_no_error() -> None:
    def work(s) -> None:
        early = s.n + 1
        s.out = case(
            (s.log.is_empty(), -1),
            (s.log.length < early, lambda: s.log[s.log.length - 1] + early),
            (s.name == "b", lambda: pick(s.n == 0, lambda: s.log[early - 1] * 2, 7)),
            otherwise=lambda: s.log[early - 1],
        )
        s.name = pick(s.log.is_empty(), s.name, lambda: s.last.name)
        s.last = pick(early == 1, lambda: s.last.but(at=3), s.last)

    def plain(state: dict) -> dict:
        log, n = state["log"], state["n"]
        if not log:
            out = -1
        elif len(log) < n + 1:
            out = log[-1] + n + 1
        elif state["name"] == "b":
            out = log[0] * 2 if n == 0 else 7
        else:
            out = log[n]
        last = {**state["last"], "at": 3} if n == 0 else state["last"]
        return {**state, "out": out, "last": last}

    assert after(work, STATES) == [plain(state) for state in LEFT]


def test_a_conclusion_is_judged_where_its_condition_holds() -> None:
    def work(s) -> None:
        s.require(implies(~s.log.is_empty(), lambda: s.log[s.log.length - 1] > s.n))

    expected = [s for s in LEFT if not s["log"] or s["log"][-1] > s["n"]]
    assert after(work, STATES) == expected


def test_a_branch_that_no_state_takes_is_not_evaluated() -> None:
    def work(s) -> None:
        s.out = pick(s.n > 3, lambda: 1 // 0, lambda: s.n)
        s.n = case((s.n < 4, 2), otherwise=lambda: 1 // 0)

    assert {state["out"] for state in after(work, STATES)} == {0, 1, 2}


@pytest.mark.parametrize("later", [0, 1])
def test_what_a_branch_read_belongs_to_it(later: int) -> None:
    """Else a column of a few rows could be taken for one of all rows, or of as many others."""
    kept = []

    def work(s) -> None:
        s.out = pick(s.n < 1, lambda: kept.append(s.n + 0) or kept[-1], 2)
        if later:
            s.require(s.n >= 1)
            s.require(s.n < 2)
        s.out = kept[0]

    with pytest.raises(ModellingMistake, match="keep nothing of `s`"):
        after(work, STATES)


@pytest.mark.parametrize(
    "branch", [lambda s: setattr(s, "n", 1), lambda s: s.require(s.n == 1), lambda s: s.log.clear()]
)
def test_a_branch_only_computes(branch) -> None:
    with pytest.raises(ModellingMistake, match="only computes a value"):
        after(lambda s: setattr(s, "out", pick(s.n < 1, lambda: branch(s) or 1, 2)), STATES)
