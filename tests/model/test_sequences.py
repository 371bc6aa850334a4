"""Sequences against Python's lists: one operation on every state that a sequence can have."""

from itertools import product

import pytest

from fencepost.model import (
    Enum,
    FieldOverflow,
    Flags,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Seq,
    action,
    check,
)

ITEMS = {
    "number": (Int(1, 3), (1, 2, 3)),
    "name": (Enum("a", "b"), ("a", "b")),
    "set": (Flags(2), (frozenset(), frozenset({0}), frozenset({0, 1}))),
}


def after(items: str, work) -> dict[tuple, tuple]:
    """For every sequence of at most three items, what the operation makes of it, where it is possible."""
    field, values = ITEMS[items]

    class One(Machine):
        queue = Seq(3, field)
        place = Int(0, 2)

        @action
        def do(s) -> None:
            work(s)

    model = Model(One)
    made = {}
    for length, place in product(range(4), range(3)):
        for queue in product(values, repeat=length):
            state = model.pack({"queue": queue, "place": place})
            found = model.successors(state, model.labels[0]).states
            for row in range(found.shape[1]):
                made[queue, place] = model.unpack(found[:, row])["queue"]
    return made


def expected(items: str, work, guard) -> dict[tuple, tuple]:
    made = {}
    for length, place in product(range(4), range(3)):
        for queue in product(ITEMS[items][1], repeat=length):
            if guard(queue, place):
                changed = list(queue)
                work(changed, place)
                made[queue, place] = tuple(changed)
    return made


@pytest.mark.parametrize("items", ITEMS)
def test_operations_do_what_a_list_does(items: str) -> None:
    value = ITEMS[items][1][1]

    def push(s) -> None:
        s.require(~s.queue.is_full())
        s.queue.push_first(value)

    assert after(items, push) == expected(items, lambda q, _: q.insert(0, value), lambda q, _: len(q) < 3)

    def pop(s) -> None:
        s.require(~s.queue.is_empty())
        s.queue.pop_last()

    assert after(items, pop) == expected(items, lambda q, _: q.pop(), lambda q, _: q)

    def remove(s) -> None:
        s.require(s.queue.has(value))
        s.queue.remove(value)

    assert after(items, remove) == expected(items, lambda q, _: q.remove(value), lambda q, _: value in q)

    def assign(s) -> None:
        s.require(s.queue.length > s.place)
        s.queue[s.place] = value

    def assigned(q: list, place: int) -> None:
        q[place] = value

    assert after(items, assign) == expected(items, assigned, lambda q, place: place < len(q))


def test_the_last_item_is_what_pop_last_returns() -> None:
    class Stack(Machine):
        stack = Seq(2, Int(1, 3))
        top = Int(0, 3)

        @action(item=3)
        def push(s, item: int) -> None:
            s.require(~s.stack.is_full())
            s.stack.append(item + 1)

        @action
        def pop(s) -> None:
            s.require(~s.stack.is_empty())
            last = s.stack.last
            s.top = s.stack.pop_last()
            s.require(s.top == last)

    result = check(Stack)
    assert result.coverage["pop"] > 0
    assert result.distinct == (1 + 3 + 9) * 4


@pytest.mark.parametrize(
    ("work", "kind", "message"),
    [
        (lambda s: s.queue.pop_last(), ModellingMistake, "pops from `queue`, which is empty"),
        (lambda s: s.queue.remove(2), ModellingMistake, "removes 2 from `queue`, which does not have it"),
        (lambda s: s.queue.__setitem__(0, 2), ModellingMistake, "beyond its length in state"),
        (lambda s: s.queue.__setitem__(3, 2), ModellingMistake, "its places are 0..1"),
        (lambda s: [s.queue.push_first(2) for _ in range(3)], FieldOverflow, "beyond its 2 places"),
    ],
)
def test_what_is_impossible_is_an_error(work, kind, message) -> None:
    class Incorrect(Machine):
        queue = Seq(2, Int(0, 3))

        @action
        def do(s) -> None:
            work(s)

    with pytest.raises(kind) as error:
        check(Incorrect)
    assert message in str(error.value)
