"""Processes of labelled steps: the same machine as with a counter of one's own, step by step."""

import random
from typing import Any

import pytest

from bench.tla.peterson import Peterson
from fencepost.model import (
    Each,
    Enum,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Process,
    action,
    check,
    eventually,
    invariant,
    may_end,
    pick,
    reachable_graph,
)


def peterson() -> set[Any]:
    """The same in plain Python."""
    program = ("raise_flag", "give_way", "wait", "critical", "leave")
    first = ((0, 0), (False, False), 0)
    seen, waiting = {first}, [first]
    while waiting:
        at, wants, turn = waiting.pop()
        for p in range(2):
            now, flags, next_turn = program[at[p]], list(wants), turn
            if now == "wait" and wants[1 - p] and turn != p:
                continue
            if now in ("raise_flag", "leave"):
                flags[p] = now == "raise_flag"
            if now == "give_way":
                next_turn = 1 - p
            after = (tuple((at[q] + (q == p)) % 5 for q in range(2)), tuple(flags), next_turn)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return {(tuple(program[i] for i in at), wants, turn) for at, wants, turn in seen}


def test_peterson_has_the_states_that_plain_python_finds() -> None:
    graph = reachable_graph(Model(Peterson))
    states = [graph.model.unpack(graph.states[:, i]) for i in range(graph.states.shape[1])]
    assert {(s["side"], s["wants"], s["turn"]) for s in states} == peterson()
    result = check(Peterson)
    assert result.verdict == "holds"
    assert result.coverage["wait"] > 0


def test_the_trace_shows_steps_and_counters() -> None:
    broken = type("Broken", (Peterson,), {"exclusion": invariant(lambda s: s.side[0] != "critical")})
    found = check(broken)["exclusion"].counterexample
    assert found is not None
    assert found.lines()[0].startswith("0. start  side: [raise_flag, raise_flag]")
    assert found.lines()[1] == (
        "1. raise_flag(p=0)  side[0]: raise_flag -> give_way, wants[0]: False -> True"
    )


def test_a_jump_wins_over_the_next_step_also_on_some_states_only() -> None:
    class Loops(Machine):
        n = Int(0, 3)
        main = Process()

        @main.step
        def again(s) -> None:
            s.n += 1
            s.main = pick(s.n < 3, "again", "rest")

        @main.step
        def skipped(s) -> None:
            s.n = 0

        @main.step
        def rest(s) -> None:
            pass

        @eventually(fair=(main.fairly(),))
        def ends(s):
            """It ends."""
            return s.main == "done"

        @may_end
        def over(s):
            return s.main == "done"

    result = check(Loops)
    assert (result.verdict, result.distinct, result.never_fired) == ("holds", 5, ("skipped",))
    without_end = type("Endless", (Loops,), {"over": None})
    assert check(without_end)["no-deadlock"].verdict == "violated"


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_random_programs_do_what_a_counter_of_ones_own_does(seed: int) -> None:
    """Guards in the middle, jumps on some states, two processes that share a number."""
    draw = random.Random(seed)
    labels = ("a", "b", "c", "d")
    steps = [
        {
            "label": label,
            "needs": draw.randrange(3),
            "plus": draw.randrange(3),
            "jump": draw.choice([None, *labels, "done"]),
            "below": draw.randrange(1, 4),
            "then": draw.choice([None, *labels]),
        }
        for label in labels
    ]

    def work(s: Any, step: dict[str, Any]) -> Any:
        s.n = (s.n + step["plus"]) % 3
        s.require(s.n >= step["needs"] - 1)
        return s.n < step["below"]

    def follower(number: int) -> str:
        return steps[number]["then"] or (*labels, "done")[number + 1]

    process = Process(p=2)
    by_process: dict[str, Any] = {"at": process, "n": Int(0, 2)}
    by_hand: dict[str, Any] = {"at": Each(2, Enum(*labels, "done")), "n": Int(0, 2)}
    for number, step in enumerate(steps):

        def labelled(s: Any, p: int, step: Any = step, number: int = number) -> None:
            jumps = work(s, step)
            if step["jump"]:
                s.at[p] = pick(jumps, step["jump"], follower(number))

        def plain(s: Any, p: int, step: Any = step, number: int = number) -> None:
            s.require(s.at[p] == step["label"])
            jumps = work(s, step)
            s.at[p] = pick(jumps, step["jump"], follower(number)) if step["jump"] else follower(number)

        labelled.__name__ = plain.__name__ = step["label"]
        decorate = process.step(then=step["then"]) if step["then"] else process.step
        by_process[step["label"]] = decorate(labelled)
        by_hand[step["label"]] = action(p=2)(plain)
    one, other = (check(type("Program", (Machine,), text), deadlock=False) for text in (by_process, by_hand))
    assert one.distinct > 5
    assert (one.distinct, one.generated, one.depth, one.coverage) == (
        other.distinct,
        other.generated,
        other.depth,
        other.coverage,
    )


def test_the_counter_of_another_process_is_no_jump_of_ones_own() -> None:
    class Pushes(Machine):
        side = Process(p=2)
        other = Int(0, 1)

        @side.step
        def push(s, p: int) -> None:
            s.require(s.side[1 - p] == "push")
            s.side[1 - p] = "done"

        @side.step
        def last(s, p: int) -> None:
            pass

        @may_end
        def over(s):
            return s.side.all("done")

    graph = reachable_graph(Model(Pushes))
    states = {graph.model.unpack(graph.states[:, i])["side"] for i in range(graph.states.shape[1])}
    assert states == {("push", "push"), ("last", "done"), ("done", "last"), ("done", "done")}

    class Chosen(Machine):
        side = Process(p=2)
        o = Int(0, 1)

        @side.step
        def go(s, p: int) -> None:
            s.side[s.o] = "done"

    with pytest.raises(ModellingMistake, match="assign the counter of one process"):
        check(Chosen)


@pytest.mark.parametrize(
    ("then", "message"),
    [("wiat", "did you mean 'wait'"), ("", "no step of `side`")],
)
def test_a_step_that_does_not_exist_is_named(then: str, message: str) -> None:
    class Lost(Machine):
        side = Process(p=2)
        n = Int(0, 1)

        @side.step(then=then)
        def wait(s, p: int) -> None:
            pass

    with pytest.raises(ModellingMistake, match=message):
        Model(Lost)


def test_misuse_of_a_process_is_refused() -> None:
    with pytest.raises(ModellingMistake, match="one parameter or none"):
        Process(p=2, q=2)
    with pytest.raises(ModellingMistake, match="without steps"):
        Model(type("Empty", (Machine,), {"side": Process(p=2), "go": action(lambda s: None)}))
    twice = Process(p=2)
    twice.step(lambda s, p: None)
    with pytest.raises(ModellingMistake, match="already a step"):
        twice.step(lambda s, p: None)
