"""`@without`: an action or a definition that takes the place of another while a switch is off."""

import re
from typing import Any, ClassVar

import pytest

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
    may_end,
    without,
)
from fencepost.model.kernel import Number


class Counter(Machine):
    """Counts to 3; without `stop` to 5, and without `slow` or `calm` in steps of two."""

    safeguards: ClassVar = {"stop": "the counter stops at 3", "slow": "the counter counts by one"}
    assumptions: ClassVar = {"calm": "nobody pushes"}
    count = Int(0, 5)

    @action(by=(1, 2))
    def add(s, by: int) -> None:
        s.require(by == 1)
        s.require(s.may_add(by))
        s.count += by

    @without("slow", "calm", replaces=add)
    def add_fast(s, by: int) -> None:
        s.require(s.may_add(by))
        s.count += by

    def may_add(s, by: int) -> Truth:
        return s.count + by <= 3

    @without("stop", replaces=may_add)
    def may_always_add(s, by: int) -> Truth:
        return s.count + by <= 5

    @invariant
    def small(s) -> Truth:
        return s.count <= 3


def steps(machine: type[Machine], *off: str) -> list[str]:
    counterexample = check(machine, without=off)["small"].counterexample
    return (
        []
        if counterexample is None
        else [str(step).split("  ")[0].split(". ")[1] for step in counterexample.steps]
    )


def test_a_replacement_applies_only_while_its_switch_is_off() -> None:
    assert steps(Counter) == []
    assert steps(Counter, "stop") == ["add(by=1)"] * 4
    assert steps(Counter, "slow") == []
    assert steps(Counter, "stop", "slow") == ["add(by=2)"] * 2
    assert steps(Counter, "stop", "calm") == ["add(by=2)"] * 2


def test_a_replaced_action_keeps_its_labels() -> None:
    labels = Model(Counter).labels
    assert Model(Counter, without=["stop", "slow"]).labels == labels
    assert [str(label) for label in labels] == ["add(by=1)", "add(by=2)"]


def test_a_subclass_replaces_a_method_of_its_base() -> None:
    class Leaping(Counter):
        safeguards: ClassVar = {**Counter.safeguards, "near": "the counter stops at 4 at the latest"}

        @without("near", replaces=Counter.may_add)
        def may_add_anything(s, by: int) -> Truth:
            """Where the original would do, the replacement calls it as a function of the class."""
            return Counter.may_add(s, by) | (s.count == 3)

    assert steps(Leaping) == []
    assert steps(Leaping, "near") == ["add(by=1)"] * 4
    assert steps(Counter) == []


def test_the_last_declared_of_several_replacements_applies() -> None:
    class Both(Counter):
        @without("stop", replaces=Counter.may_add)
        def may_add_never(s, by: int) -> Truth:
            return s.count + by < 0

    assert steps(Both, "stop") == []


def _replacing(*switches: str, target: Any, function: Any = None) -> Model:
    function = function or (lambda s, by: None)
    return Model(type("Odd", (Counter,), {"odd": without(*switches, replaces=target)(function)}))


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (
            lambda: _replacing("stopp", target=Counter.add),
            "`odd` is without 'stopp', which is not declared (did you mean 'stop'?); the safeguards and "
            "assumptions of Odd are stop, slow, calm",
        ),
        (lambda: _replacing(target=Counter.add), "without needs a safeguard or an assumption"),
        (
            lambda: _replacing("stop", target=lambda s, by: None),
            "which is not an action or a definition of Odd",
        ),
        (lambda: _replacing("stop", target="add"), "`odd` replaces 'add', which is not an action"),
        (
            lambda: _replacing("stop", target=Counter.small, function=lambda s: s.count < 9),
            "`odd` replaces `small`, which is a property, an end or a replacement",
        ),
        (lambda: _replacing("stop", target=Counter.add_fast), "which is a property, an end or a replacement"),
        (
            lambda: _replacing("stop", target=Counter.add, function=lambda s, amount: None),
            "`odd` takes (amount), but `add`, which it replaces, takes (by)",
        ),
        (
            lambda: _replacing("stop", target=Counter.add, function=action(by=(1,))(lambda s, by: None)),
            "has two decorators of a machine",
        ),
    ],
)
def test_an_impossible_replacement_is_an_error_of_the_declaration(declare: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake, match=re.escape(expected)):
        declare()


def test_a_replacement_may_return_true_or_false() -> None:
    """They are columns where the definition is called: `~True` would be -2."""

    class Fenced(Machine):
        safeguards = {"fence": "an old epoch writes nothing", "close": "a closed log takes nothing"}
        epoch = Int(0, 2)
        log = Int(0, 2)

        def is_fenced(s, epoch: int) -> Truth:
            return s.epoch > epoch

        @without("fence", replaces=is_fenced)
        def is_never_fenced(s, epoch: int) -> bool:
            return False

        def is_open(s) -> Truth:
            return s.log < 1

        is_always_open = without("close", replaces=is_open)(lambda s: True)

        @action
        def claim(s) -> None:
            s.require(s.epoch < 2)
            s.epoch += 1

        @action(epoch=3)
        def write(s, epoch: int) -> None:
            s.require(~s.is_fenced(epoch) & s.is_open(), s.epoch >= epoch, s.log < 2)
            s.log += 1

        @may_end
        def ended(s) -> Truth:
            return s.epoch == 2

    assert check(Fenced).distinct == 6
    assert check(Fenced, without=["close"]).distinct == 9
    on, off = (check(Fenced, without=off).coverage for off in ([], ["fence"]))
    assert (on["write"], off["write"]) == (3, 6)
    assert check(Fenced, without=["fence"], compiled=True).coverage == off


@pytest.mark.parametrize("compiled", [False, True])
def test_a_replacement_of_a_number_may_return_a_whole_number(compiled: bool) -> None:
    """`~(1 == 1)` of plain numbers would be -2."""

    class Counting(Machine):
        safeguards = {"fresh": "a new epoch is higher than all before", "read": "it is read, not guessed"}
        newest = Int(0, 3)
        taken = Each(4, Bool())

        def fresh(s) -> Number:
            return s.newest + 1

        first = without("fresh", replaces=fresh)(lambda s: 1)

        @without("read", replaces=fresh)
        def guess(s) -> int:
            return 2

        @action(e=4)
        def begin(s, e: int) -> None:
            s.require(~(s.fresh() != e), s.fresh() <= 3)
            s.taken[s.fresh()] = True
            s.newest = s.fresh()

        @may_end
        def ended(s) -> Truth:
            return Truth.constant(True)

    def found(*without: str) -> tuple[int, dict[str, int]]:
        result = check(Counting, without=without, compiled=compiled)
        assert not result.notes
        return result.distinct, result.coverage

    assert found() == (4, {"begin": 3})
    assert found("fresh") == (2, {"begin": 2})
    assert found("read") == (2, {"begin": 2})
