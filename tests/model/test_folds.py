"""`least`, `most` and `total` against Python's `min`, `max` and `sum`, on every state of an array."""

from fencepost.model import (
    Each,
    Int,
    Machine,
    Model,
    action,
    check,
    invariant,
    least,
    most,
    reachable_graph,
    total,
)

NUMBERS = ("a", "b", "c")


class Folds(Machine):
    numbers = Each(NUMBERS, Int(-2, 2))
    low, high = Int(-2, 2), Int(-2, 3)
    sum, none = Int(-6, 6), Int(0, 0)

    @action(name=NUMBERS, value=(-2, 0, 1))
    def put(s, name: str, value: int) -> None:
        s.numbers[name] = value
        s.low, s.high = least(s.numbers), most([*s.numbers, 0])
        s.sum, s.none = total(s.numbers), total([])
        s.high = most(n + 1 for n in s.numbers)

    @invariant
    def ordered(s) -> object:
        return (least(s.numbers) <= most(s.numbers)) & (most([3, *s.numbers]) == 3)


def test_folds_are_those_of_python_in_every_state() -> None:
    assert check(Folds).verdict == "holds"
    graph = reachable_graph(Model(Folds))
    states = [graph.model.unpack(graph.states[:, row]) for row in range(graph.initial, graph.states.shape[1])]
    assert len(states) == 27
    for state in states:
        numbers = state["numbers"]
        assert (state["low"], state["high"], state["sum"]) == (min(numbers), max(numbers) + 1, sum(numbers))
