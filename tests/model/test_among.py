"""`among`, a guard in the domains of an action; properties of one expression; conditional faults."""

import pytest

from fencepost.model import (
    Each,
    Enum,
    Id,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Size,
    action,
    always_recoverable,
    among,
    check,
    invariant,
    pick,
    reachable,
    step,
    without,
)
from fencepost.model.store import Budget


class Guards(Machine):
    """The same guards as in `Requires`, in the domains."""

    writers = Size(2)
    at = Each(writers, Enum("new", "writes", "reads", "done"))
    helper = Each(2, Id(writers, nobody=True))
    trouble = Budget(2)

    @action(w=among(writers, at=("new", "reads")))
    def write(s, w: int) -> None:
        s.trouble.spend(s.at[w] == "reads")
        s.at[w] = "writes"

    @action(o=among(2, helper=-1), w=among(writers, at="writes"))
    def help(s, o: int, w: int) -> None:
        s.helper[o] = w

    @action(o=among(2, helper="w"), w=writers)
    def finish(s, o: int, w: int) -> None:
        s.at[w], s.helper[o] = pick(s.at[w] == "writes", "reads", "done"), -1


class Requires(Machine):
    writers = Size(2)
    at = Each(writers, Enum("new", "writes", "reads", "done"))
    helper = Each(2, Id(writers, nobody=True))
    trouble = Int(0, 2)

    @action(w=writers)
    def write(s, w: int) -> None:
        s.require(s.at[w].is_in("new", "reads"))
        s.require((s.at[w] == "new") | (s.trouble < 2))
        s.trouble = pick(s.at[w] == "reads", s.trouble + 1, s.trouble)
        s.at[w] = "writes"

    @action(o=2, w=writers)
    def help(s, o: int, w: int) -> None:
        s.require((s.helper[o] == -1) & (s.at[w] == "writes"))
        s.helper[o] = w

    @action(o=2, w=writers)
    def finish(s, o: int, w: int) -> None:
        s.require(s.helper[o] == w)
        s.at[w], s.helper[o] = pick(s.at[w] == "writes", "reads", "done"), -1


def test_a_domain_with_a_guard_is_the_domain_and_a_require() -> None:
    with_among, with_require = (check(each, keep_going=True) for each in (Guards, Requires))
    assert with_among.distinct == with_require.distinct > 50
    assert with_among.labels_fired == with_require.labels_fired


def test_the_guard_of_a_domain_is_named_where_it_refuses() -> None:
    model = Model(Guards)
    finish = next(label for label in model.labels if label.action == "finish")
    refused = model.failed_guard(model.initial(), finish)
    assert refused is not None
    assert str(refused).startswith("s.helper[o] == w (test_among.py:")


def test_a_replacement_has_the_guard_of_what_it_replaces() -> None:
    class Replaced(Machine):
        safeguards = {"twice": "nothing happens twice"}
        at = Each(1, Enum("new", "done", "again"))

        @action(w=among(1, at="new"))
        def do(s, w: int) -> None:
            s.at[w] = "done"

        @without("twice", replaces=do)
        def undo(s, w: int) -> None:
            s.at[w] = "again"

    assert check(Replaced, without=["twice"], deadlock=False).distinct == 2


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda: among(2), "among(members) needs an array and a value"),
        (
            lambda: invariant(w=among(2, at="new"))(lambda s, w: s.at[w] == "new"),
            'takes `w` among those with s.at[w] == "new": that is a guard of an action',
        ),
    ],
)
def test_an_incorrect_declaration_is_an_error(declare, expected) -> None:
    with pytest.raises(ModellingMistake) as error:
        declare()
    assert expected in str(error.value)


def test_a_name_that_is_no_parameter_is_an_error() -> None:
    class Misnamed(Guards):
        @action(o=among(2, helper="v"), w=2)
        def finish(s, o: int, w: int) -> None: ...

    with pytest.raises(ModellingMistake, match="'v', which is no parameter of the action"):
        check(Misnamed)


def test_a_property_of_one_expression_has_its_sentence_and_its_name() -> None:
    class Counts(Machine):
        safeguards = {"small": "steps are small"}
        count = Int(0, 4)

        def width(s) -> int:
            return 1

        wide = without("small", replaces=width)(lambda s: 2)

        @action
        def up(s) -> None:
            s.require(s.count + s.width() <= 4)
            s.count += s.width()

        odd = reachable("It can be odd.")(lambda s: s.count % 2 == 1)
        small = step("It grows by one.")(lambda before, after: after.count - before.count == 1)
        bounded = invariant("It is never {n}.", n=(5, 6))(lambda s, n: s.count != n)
        ends = always_recoverable("It can always become 4.")(lambda s: s.count == 4)

    result = check(Counts, deadlock=False)
    assert {(p.name, p.verdict, p.doc) for p in result.properties} == {
        ("odd", "holds", "It can be odd."),
        ("small", "holds", "It grows by one."),
        ("bounded", "holds", "It is never {n}."),
        ("ends", "holds", "It can always become 4."),
    }
    result = check(Counts, without=["small"], keep_going=True, deadlock=False)
    assert {p.name for p in result.properties if p.verdict == "violated"} == {"odd", "small"}
