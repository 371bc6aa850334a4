"""Runs may stay where they are unless fairness forbids it, as in TLA+."""

from fencepost.model import (
    Bool,
    Each,
    Id,
    Machine,
    Size,
    Truth,
    action,
    check,
    eventually,
    initial,
    may_end,
    together,
)
from fencepost.model.textbook.peterson import Peterson


class Termination(Machine):
    """EWD840: a token goes around a ring of nodes, none of which works any more, and finds that out."""

    nodes = Size(4, least=2, most=8)
    black = Each(nodes, Bool())
    token = Id(nodes)
    token_is_black = Bool(start=True)

    @initial(n=nodes, black=(False, True))
    def begin(s, n: int, black: bool) -> None:
        s.token = n
        s.black[n] = black
        s.black[0] = True

    def detected(s) -> Truth:
        return (s.token == 0) & ~s.black[0] & ~s.token_is_black

    @action
    def begin_round(s) -> None:
        s.require(s.token == 0, s.token_is_black | s.black[0])
        s.token = s.nodes - 1
        s.token_is_black = False
        s.black[0] = False

    @action(n=nodes)
    def pass_token(s, n: int) -> None:
        s.require(n > 0, s.token == n)
        s.token_is_black = s.token_is_black | s.black[n]
        s.black[n] = False
        s.token = n - 1

    @action(n=nodes)
    def look_around(s, n: int) -> None:
        """Changes nothing, and is enabled forever."""
        s.require(s.token == n)

    @may_end
    def over(s) -> Truth:
        return s.detected()

    @eventually(fair=("begin_round", "pass_token"))
    def found_with_fairness(s) -> Truth:
        return s.detected()

    @eventually(fair=(together(),))
    def found_if_something_happens(s) -> Truth:
        return s.detected()

    @eventually(fair=(together("look_around", "pass_token"),))
    def found_if_rounds_begin_by_themselves(s) -> Truth:
        return s.detected()

    @eventually()
    def found_without_fairness(s) -> Truth:
        return s.detected()


def test_without_fairness_a_run_may_stay_at_its_start() -> None:
    result = check(Termination, keep_going=True)
    assert result["found_with_fairness"].verdict == "holds"
    found = result["found_without_fairness"]
    assert (found.verdict, len(found.counterexample)) == ("violated", 0)
    assert found.reason == (
        "a run can stay in the last state forever without it, for no fairness demands a step there"
    )


def test_a_step_that_changes_nothing_meets_no_demand() -> None:
    """`look_around` would meet it at every state; what has to happen is a step that changes something."""
    assert check(Termination)["found_if_something_happens"].verdict == "holds"


def test_a_run_may_stay_where_only_other_actions_are_enabled() -> None:
    found = check(Termination, keep_going=True)["found_if_rounds_begin_by_themselves"]
    assert (found.verdict, len(found.counterexample)) == ("violated", 0)
    assert found.counterexample.start["token"] == 0


def test_petersons_lock_needs_fairness() -> None:
    assert check(Peterson)["first_enters"].verdict == "holds"

    class Unfair(Peterson):
        @eventually(fair=("raise_flag", "give_turn"))
        def first_enters(s) -> Truth:
            return s.at[0] == "critical"

    found = check(Unfair)["first_enters"]
    assert found.verdict == "violated"
    assert found.counterexample.loop is None
