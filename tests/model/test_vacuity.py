"""Vacuity warnings: what no reachable state ever tested."""

from typing import Any

import pytest

from fencepost.commands.models import SHIPPED, find_machine
from fencepost.model import (
    Bool,
    Enum,
    Int,
    Machine,
    Size,
    Truth,
    action,
    always_recoverable,
    check,
    eventually,
    implies,
    invariant,
    may_end,
    together,
)
from fencepost.results import to_json


class Turning(Machine):
    """A machine that everything is tested of."""

    spare = Size(0, least=0)
    turn = Int(0, 2)
    at = Enum("out", "in")
    on = Bool()

    @action(how=("once", "twice"))
    def go(s, how: str) -> None:
        s.turn = (s.turn + (1 if how == "once" else 2)) % 3
        s.at = "in"

    @action
    def switch(s) -> None:
        s.on = ~s.on

    @invariant
    def fine(s) -> Truth:
        return implies(s.turn == 2, s.at == "in")


SMALL = [
    name
    for name in SHIPPED
    if name
    not in (
        "ingest",
        "ingest-notified",
        "ingest-reading",
        "publish",
        "objects",
        "streams",
        "lifecycle",
        "lifecycle-merged",
        "lifecycle-seeding",
        "lifecycle-blockers",
        "lifecycle-notified",
        "publish-observed",
        "ingest-observed",
    )
]  # their own tests check theirs


@pytest.mark.parametrize("name", SMALL)
def test_shipped_models_have_no_vacuity_warnings(name: str) -> None:
    assert check(find_machine(name)).vacuity_warnings == ()


def vacuity_warnings(*bases: type[Machine], **parts: Any) -> tuple[str, ...]:
    return check(type("Warned", bases or (Turning,), parts)).vacuity_warnings


def test_a_fully_exercised_machine_has_no_vacuity_warnings() -> None:
    result = check(Turning)
    assert result.vacuity_warnings == ()
    assert to_json(result)["vacuity_warnings"] == []


def _never(s: Any) -> None:
    s.require(s.turn == 1, s.turn == 2)


def _only_once(s: Any, how: str) -> None:
    s.require((how == "once") & (s.turn == 0))
    s.on = True


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"more": action(how=("once", "twice"))(_only_once)}, "more never happens with how=twice"),
        (
            {"more": action(how="spare")(lambda s, how: None)},
            "more never happens: it has no choice of its parameters at these sizes",
        ),
        ({"still": Int(1, 3)}, "the same in every reachable state, for nothing changes it: still"),
        ({"p": eventually()(lambda s: s.turn == 0)}, "p demands nothing: every run begins with it"),
        (
            {"p": always_recoverable(lambda s: s.turn < 3)},
            "p demands nothing: it is true in every reachable state",
        ),
        (
            {"ends": may_end(lambda s: s.turn >= 0)},
            "may_end allows every reachable state: no deadlock could be found",
        ),
        (
            {"never": action(lambda s: _never(s)), "p": eventually(fair=["never"])(lambda s: s.at == "in")},
            "p is fair to never(), which never happens: that demands nothing",
        ),
    ],
)
def test_each_warning_is_a_sentence(parts: dict[str, Any], expected: str) -> None:
    assert expected in vacuity_warnings(**parts)


def test_a_vacuous_implication_is_reported_with_its_line() -> None:
    def p(s: Any) -> Truth:
        return implies((s.turn == 1) & (s.at == "out"), s.on) & implies(s.turn == 2, s.at == "in")

    # Two on one line are not distinguished: the condition of one is true, so the line has no warning.
    assert vacuity_warnings(p=invariant(p)) == ()

    def q(s: Any) -> Truth:
        return implies((s.turn == 1) & (s.at == "out"), s.on)

    line = q.__code__.co_firstlineno + 1
    assert vacuity_warnings(q=invariant(q)) == (
        f"q has an implication whose condition is true in no reachable state (test_vacuity.py:{line})",
    )


def test_fairness_to_several_of_which_one_happens_demands_something() -> None:
    parts = {
        "never": action(lambda s: _never(s)),
        "p": eventually(fair=[together("never", "go")])(lambda s: s.at == "in"),
    }
    assert not [warning for warning in vacuity_warnings(**parts) if "demands nothing" in warning]


def test_there_are_no_warnings_after_a_bound_was_hit() -> None:
    result = check(type("Warned", (Turning,), {"still": Int(1, 3)}), max_states=2)
    assert result.stopped_by
    assert result.vacuity_warnings == ()
