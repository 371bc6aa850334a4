"""Properties about whole runs, each broken by a small machine, with the exact counterexample: stem and loop.

Also what the fairness of a property means, and what is respected on the way: bounds, switched-off
safeguards and assumptions, states of several words.
"""

from typing import ClassVar

import numpy as np
import pytest

from fencepost.model import (
    Bool,
    Each,
    Enum,
    Int,
    Machine,
    ModellingMistake,
    Size,
    Truth,
    action,
    always_recoverable,
    check,
    eventually,
    initial,
    may_end,
    without,
)
from fencepost.model.kernel import together
from fencepost.model.textbook.two_phase import TwoPhase
from tests.model.counterexamples import counterexample


class Delivery(Machine):
    """A sender that may poll forever, a message that may be delivered, an end that forgot it."""

    safeguards: ClassVar = {"keep": "the message is kept until it is delivered"}
    assumptions: ClassVar = {"no-noise": "nobody rattles at the door"}

    wide = Int(0, (1 << 61) - 1, start=1 << 60)
    wider = Int(0, (1 << 61) - 1, start=1 << 59)
    message = Enum("none", "sent", "delivered", "lost")
    polls = Int(0, 2)

    @action
    def send(s) -> None:
        s.require(s.message == "none")
        s.message = "sent"

    @action
    def poll(s) -> None:
        s.require(s.message == "sent")
        s.polls = (s.polls + 1) % 3

    @action
    def deliver(s) -> None:
        s.require(s.message == "sent")
        s.message = "delivered"

    @action
    def lose(s) -> None:
        s.require(s.message == "sent", s.may_lose())
        s.message = "lost"

    def may_lose(s) -> Truth:
        return Truth.constant(False)

    loses = without("keep", replaces=may_lose)(lambda s: True)

    def is_noisy(s) -> Truth:
        return Truth.constant(False)

    noise = without("no-noise", replaces=is_noisy)(lambda s: True)

    @action
    def rattle(s) -> None:
        s.require(s.is_noisy())

    @may_end
    def over(s) -> Truth:
        return s.message.is_in("delivered", "lost")

    @eventually(fair=("send", "deliver"))
    def delivered(s) -> Truth:
        """The message is delivered."""
        return s.message == "delivered"

    @always_recoverable
    def deliverable(s) -> Truth:
        """The message can still be delivered."""
        return s.message == "delivered"


class Unfair(Delivery):
    @eventually(fair=(together(),))
    def delivered(s) -> Truth:
        return s.message == "delivered"


START = f"0. start  wide: {1 << 60}, wider: {1 << 59}, message: none, polls: 0"


def test_fairness_forbids_the_loop_that_ignores_an_enabled_action() -> None:
    assert check(Delivery).words == 2
    assert check(Delivery)["delivered"].verdict == "holds"
    result = check(Unfair)
    assert result.verdict == "violated"
    assert counterexample(result, "delivered") == [
        START,
        "1. send()  message: none -> sent",
        "2. poll()  polls: 0 -> 1",
        "3. poll()  polls: 1 -> 2",
        "4. poll()  polls: 2 -> 0",
        "   ... and again from step 2",
    ]
    assert result["delivered"].reason == "a fair run goes on forever without it"
    assert result["delivered"].kind == "eventually"
    assert result["delivered"].trace[-1].back_to == 2


def test_a_switched_off_safeguard_lets_a_run_end_without_the_goal() -> None:
    result = check(Delivery, without=["keep"])
    for name in ("delivered", "deliverable"):
        assert result[name].verdict == "violated"
        assert counterexample(result, name) == [
            START,
            "1. send()  message: none -> sent",
            "2. lose()  message: sent -> lost",
        ]
    assert result["delivered"].reason == "a run can end without it"
    assert result["deliverable"].reason == "from there it can never be reached again"
    assert result["deliverable"].kind == "always_recoverable"


def test_a_transition_that_changes_nothing_is_no_step_of_a_run() -> None:
    result = check(Delivery, without=["no-noise"])
    assert result.coverage["rattle"] > 0
    assert result["delivered"].verdict == result["deliverable"].verdict == "holds"


@pytest.mark.parametrize("bound", [{"max_states": 4}, {"max_depth": 1}])
def test_a_bound_that_hides_a_part_leaves_it_undecided(bound) -> None:
    result = check(Unfair, keep_going=True, **bound)
    for name in ("delivered", "deliverable"):
        assert result[name].verdict == "undecided"
        assert result[name].reason.startswith("stopped by the bound")


def test_a_graph_that_does_not_fit_the_memory_limit_is_undecided() -> None:
    class Live(TwoPhase):
        @eventually(fair=("commit", "abort", "hear_abort", "hear_commit"))
        def ends(s) -> Truth:
            return s.finished()

    plenty = check(Live, {"managers": 3})
    assert plenty["ends"].verdict == "holds"
    result = check(Live, {"managers": 3}, memory=16_000)
    assert result["agreement"].verdict == "holds"
    assert result["ends"].verdict == "undecided"
    assert "needs more than 16,000 bytes" in result["ends"].reason
    assert plenty.peak_bytes > 16_000


def test_the_loop_comes_back_to_the_nearest_state_and_meets_every_demand() -> None:
    """The two-step loop further from the start is shorter in all than the four-step loop at the start."""

    class Roads(Machine):
        place = Int(0, 9)

        @action(a=10, b=10)
        def go(s, a: int, b: int) -> None:
            s.require((s.place == a) & ((a, b) in ROADS))
            s.place = b

        @eventually(fair=(together(),))
        def at_nine(s) -> Truth:
            return s.place == 9

    def loop_of(roads) -> list[str]:
        nonlocal_roads.clear()
        nonlocal_roads.update(roads)
        result = check(Roads, deadlock=False)["at_nine"]
        return (
            []
            if result.counterexample is None
            else [line.split("  ")[0] for line in result.counterexample.lines()[1:]]
        )

    nonlocal_roads = ROADS
    assert loop_of({(0, 1), (1, 2), (2, 3), (3, 0), (2, 1)}) == [
        "1. go(a=0, b=1)",
        "2. go(a=1, b=2)",
        "3. go(a=2, b=1)",
        "",
    ]
    assert loop_of({(0, 1), (1, 1), (1, 9)}) == []
    assert loop_of({(0, 1), (1, 0), (1, 2), (2, 9)}) == ["1. go(a=0, b=1)", "2. go(a=1, b=0)", ""]
    assert loop_of({(0, 1), (1, 9), (9, 0)}) == []
    assert loop_of({(0, 1), (1, 9), (1, 3)}) == ["1. go(a=0, b=1)", "2. go(a=1, b=3)"]
    assert loop_of({(0, 9), (9, 1), (1, 2), (2, 1)}) == []


ROADS: set[tuple[int, int]] = set()


class Turns(Machine):
    """Two processes, each with two ways to move; the goal is that process 0 has moved both ways."""

    left = Each(2, Bool())
    right = Each(2, Bool())

    @action(p=2)
    def go_left(s, p: int) -> None:
        s.left[p] = True

    @action(p=2)
    def go_right(s, p: int) -> None:
        s.right[p] = True


class Restless(Turns):
    """The same, but a process can also move back."""

    @action(p=2)
    def go_left(s, p: int) -> None:
        s.left[p] = ~s.left[p]


def fair_to(*fair, machine=Turns):
    class Fair(machine):
        @eventually(fair=fair)
        def moved(s) -> Truth:
            return s.left[0] & s.right[0]

    return check(Fair)["moved"]


def test_a_name_is_one_demand_for_each_choice_of_parameters() -> None:
    assert fair_to("go_left", "go_right").verdict == "holds"
    found = fair_to("go_left")
    assert found.counterexample.lines()[1:] == [
        "1. go_left(p=0)  left[0]: False -> True",
        "2. go_left(p=1)  left[1]: False -> True",
    ]
    assert found.reason.startswith("a run can stay in the last state forever without it")


def test_a_step_that_changes_nothing_meets_no_demand_of_joint_fairness() -> None:
    assert fair_to(together("go_left", "go_right")).verdict == "holds"
    assert fair_to(together("go_left", "go_right", by="p")).verdict == "holds"


def test_together_is_met_by_any_of_its_actions() -> None:
    for joined in (together("go_left", "go_right"), together()):
        found = fair_to(joined, machine=Restless)
        assert found.verdict == "violated"
        assert [line.split("  ")[0] for line in found.counterexample.lines()[1:]] == [
            "1. go_left(p=0)",
            "2. go_left(p=0)",
            "",
        ]
    by_process = fair_to(together("go_left", "go_right", by="p"), machine=Restless)
    assert by_process.verdict == "violated"
    loop = by_process.counterexample.steps[by_process.counterexample.loop - 1 :]
    assert {step.parameters["p"] for step in loop} == {0, 1}


@pytest.mark.parametrize(
    ("fair", "message"),
    [
        (("go_lef",), "fair to 'go_lef', which is no action \\(did you mean 'go_left'\\?\\)"),
        ((together("go_left", "up"),), "fair to 'up', which is no action"),
        ((together("go_left", by="q"),), "by 'q', which is no parameter of go_left.*its parameters are p"),
    ],
)
def test_fairness_to_an_unknown_action_is_an_error(fair, message) -> None:
    with pytest.raises(ModellingMistake, match=message):
        fair_to(*fair)


def test_a_name_instead_of_a_tuple_is_an_error() -> None:
    with pytest.raises(ModellingMistake, match="write fair=\\('go_left',\\)"):
        eventually(fair="go_left")


def test_a_goal_at_the_start_is_reached_and_one_on_every_path_hides_later_states() -> None:
    class Gate(Machine):
        place = Int(0, 3)

        @initial(at=(0, 1))
        def begin(s, at: int) -> None:
            s.place = at

        @action
        def on(s) -> None:
            s.require(s.place < 3)
            s.place = s.place + 1

        @action
        def stay(s) -> None:
            s.require(s.place == 2)

        @may_end
        def end(s) -> Truth:
            return s.place == 3

        @eventually(fair=(together(),))
        def passed(s) -> Truth:
            return s.place == 1

    assert check(Gate)["passed"].verdict == "holds"


class Ring(Machine):
    """A ring of states far longer than what is searched exactly, with a demand met in one place."""

    length = Size(5000, most=100_000)
    at = Int(0, length)

    @action
    def go_on(s) -> None:
        s.require(s.at < s.length - 1)
        s.at = s.at + 1

    @action
    def start_again(s) -> None:
        s.require(s.at == s.length - 1)
        s.at = 0

    @action(to=(0, 1))
    def step_back(s, to: int) -> None:
        s.require((s.at == 4000) & (s.at > 1))
        s.at = s.at - 2 + to

    @eventually(fair=("go_on", together("step_back"), together("start_again")))
    def at_the_end(s) -> Truth:
        return s.at == s.length


def test_a_large_component_gets_a_loop_from_shortest_walks() -> None:
    result = check(Ring)["at_the_end"]
    assert result.verdict == "violated"
    loop = result.counterexample.steps[result.counterexample.loop - 1 :]
    assert len(result.counterexample) < 3 * 5000
    assert "go_on" in {step.action for step in loop}
    state = result.counterexample.start["at"]
    for step in result.counterexample.steps:
        old, new = step.changes["at"]
        assert old == state
        state = new
    assert state == loop[0].changes["at"][0]


def test_two_phase_commit_comes_to_an_end_when_everybody_is_served() -> None:
    class Live(TwoPhase):
        @eventually(fair=("commit", "abort", "hear_abort", "hear_commit"))
        def ends(s) -> Truth:
            return s.finished()

        @always_recoverable
        def can_end(s) -> Truth:
            return s.finished()

    class NotHeard(Live):
        @eventually(fair=("commit", "abort", "hear_commit"))
        def ends(s) -> Truth:
            return s.finished()

    result = check(Live, {"managers": 4})
    assert (result["ends"].verdict, result["can_end"].verdict) == ("holds", "holds")
    lazy = check(NotHeard, {"managers": 2})
    assert counterexample(lazy, "ends")[1:] == [
        "1. abort()  decision: init -> aborted, sent_abort: False -> True"
    ]


def test_labels_of_numpy_never_leak_into_a_counterexample() -> None:
    result = check(Unfair)
    assert not any(
        isinstance(value, np.generic)
        for step in result["delivered"].counterexample.steps
        for value in step.changes
    )
