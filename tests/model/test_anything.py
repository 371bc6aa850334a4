"""Starting states as columns: `anything()` is the product of the choices, narrowed by what is required."""

from itertools import product

import pytest

from fencepost.model import *


class Begins(Machine):
    nodes = Size(2)
    symmetric = ("nodes",)
    owner = Id(nodes, nobody=True)
    at = Each(nodes, Enum("idle", "waits", "holds"))
    seen = Flags(nodes)
    last = Record(src=Id(nodes), level=Int(1, 3))
    copy = Id(nodes, nobody=True)

    @initial
    def begin(s) -> None:
        s.owner = anything()
        before = s.owner
        s.at = anything("idle", "holds")
        s.require((before < 0) | (s.at.count("holds") == 1))
        s.seen = anything()
        s.last = anything()
        s.copy = before

    @action
    def stay(s) -> None: ...


def test_starts_are_the_product_of_the_choices() -> None:
    model = Model(Begins)
    starts = model.initial()
    found = [model.unpack(starts[:, i]) for i in range(starts.shape[1])]
    sets = [frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1})]
    expected = [
        {"owner": owner, "at": at, "seen": seen, "last": {"src": src, "level": level}, "copy": owner}
        for owner, at, seen, src, level in product(
            (-1, 0, 1), product(("idle", "holds"), repeat=2), sets, (0, 1), (1, 2, 3)
        )
        if owner < 0 or at.count("holds") == 1
    ]
    assert len(found) == len(expected)
    assert all(each in expected for each in found)
    assert check(Begins, symmetry=True).distinct < check(Begins).distinct == len(expected)


def test_an_element_that_a_column_chooses_may_be_anything() -> None:
    class Chosen(Machine):
        place = Int(0, 1)
        row = Each(2, Int(0, 2))

        @initial
        def begin(s) -> None:
            s.place = anything()
            s.row[s.place] = anything(1, 2)

        @action
        def stay(s) -> None: ...

    model = Model(Chosen)
    starts = model.initial()
    rows = {(v["place"], v["row"]) for v in (model.unpack(starts[:, i]) for i in range(starts.shape[1]))}
    assert rows == {(0, (1, 0)), (0, (2, 0)), (1, (0, 1)), (1, (0, 2))}


def test_a_million_starts_take_no_loop_in_python() -> None:
    class Many(Machine):
        bits = Each(20, Int(0, 1))

        @initial
        def begin(s) -> None:
            s.bits = anything()

        @action
        def stay(s) -> None: ...

    assert Model(Many).initial().shape == (1, 1 << 20)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda s: setattr(s, "n", anything(4)), "outside 0..3"),
        (lambda s: setattr(s, "n", anything(s.m)), "takes constants"),
        (lambda s: s.require(anything() == 1), "anything() is no value"),
        (lambda s: setattr(s, "huge", anything()), "give those to begin with"),
        (lambda s: setattr(s, "many", anything()), "has more than 67,108,864 starts"),
    ],
)
def test_what_is_no_choice_is_refused(work, message) -> None:
    class Refused(Machine):
        n = Int(0, 3)
        m = Int(0, 3)
        huge = Int(0, 1 << 40)
        many = Each(2, Int(0, (1 << 18) - 1))

        @initial
        def begin(s) -> None:
            work(s)

        @action
        def stay(s) -> None: ...

    with pytest.raises(ModellingMistake) as error:
        Model(Refused).initial()
    assert message in str(error.value)


def test_an_action_does_not_choose_anything() -> None:
    class Chooses(Machine):
        n = Int(0, 3)

        @action
        def go(s) -> None:
            s.n = anything()

    with pytest.raises(ModellingMistake, match="only an @initial does"):
        check(Chooses)
