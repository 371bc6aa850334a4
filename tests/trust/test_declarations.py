"""Mistakes in the declaration of a machine that would silently change what is checked."""

import re
from typing import Any

import pytest

from fencepost.commands.models import SHIPPED, find_machine
from fencepost.model import (
    Bool,
    Each,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Truth,
    action,
    check,
    invariant,
    walk,
)
from fencepost.model.kernel.report.vacuity import unused


class Lamp(Machine):
    on = Bool()

    @action
    def switch(s) -> None:
        s.on = ~s.on


def test_two_actions_of_one_name_are_an_error() -> None:
    """The first would vanish, and with it every state behind it."""
    with pytest.raises(ModellingMistake, match="`switch` is declared twice in one machine"):

        class Twice(Machine):
            on = Bool()

            @action
            def switch(s) -> None:
                s.on = True

            @action
            def switch(s) -> None:  # noqa: F811  # this is the mistake
                s.on = False

    with pytest.raises(ModellingMistake, match="`on` is declared twice"):

        class TwoFields(Machine):
            on = Bool()
            on = Int(0, 3)  # noqa: PIE794  # this is the mistake


def test_a_subclass_may_override_an_action() -> None:
    class Once(Lamp):
        @action
        def switch(s) -> None:
            s.require(~s.on)
            s.on = True

    assert len(Model(Once).labels) == 1


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda: Each(2, {"off", "on"}), "elements of an Each are fields, as in Each(2, Bool()), not {"),  # type: ignore[arg-type]  # this is the mistake
        (lambda: Each(2, Bool), "elements of an Each are fields"),  # type: ignore[arg-type]  # this is the mistake
        (lambda: Each(1.5, Bool()), "1.5 is no extent"),  # type: ignore[arg-type]  # this is the mistake
        (lambda: Each({2}, Bool()), "{2} is no extent"),  # type: ignore[arg-type]  # this is the mistake
        (lambda: Int(0, 2.5), "2.5 is no extent"),  # type: ignore[arg-type]  # this is the mistake
    ],
)
def test_a_field_of_impossible_parts_is_an_error_of_one_sentence(declare: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake, match=re.escape(expected)):
        Model(type("Odd", (Lamp,), {"odd": declare()}))


class Forgotten(Lamp):
    burnt = Bool()

    def burn(s) -> None:
        s.burnt = True

    def is_fine(s) -> Truth:
        return ~s.burnt

    @invariant
    def fine(s) -> Truth:
        return s.is_fine()


def test_a_method_that_forgot_its_decorator_is_reported() -> None:
    """`burn` never happens, and so `fine` holds; `is_fine` is a definition, which the property uses."""
    expected = (
        "burn has no decorator, and nothing in the machine uses it: it is no action and no property "
        "(@action, @invariant, ...)"
    )
    for result in (check(Forgotten), check(Forgotten, max_states=1), walk(Forgotten, walks=1, steps=1)):
        assert [found for found in result.vacuity_warnings if "decorator" in found] == [expected]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_method_of_a_shipped_model_is_used(name: str) -> None:
    assert list(unused(Model(find_machine(name)))) == []
