"""Every kind of property, broken by a small machine, with the exact counterexample.

A property that has never failed is an opinion; a counterexample that is not the shortest is a waste of a
reader.
"""

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
    count_of,
    define,
    eventually,
    implies,
    initial,
    invariant,
    may_end,
    reachable,
    step,
    without,
)
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.model.fenced_lease import FencedLease
from fencepost.model.swap_counter import SwapCounter
from fencepost.model.textbook.bounded_queue import BoundedQueue
from fencepost.model.textbook.peterson import Peterson
from fencepost.model.textbook.philosophers import Philosophers
from fencepost.model.textbook.two_phase import TwoPhase
from fencepost.results import to_json
from tests.model.counterexamples import counterexample


class Counter(Machine):
    """Goes up by one or two, and back to zero from the top."""

    top = Size(4, least=2, most=9)
    count = Int(0, top)

    @action(by=(1, 2))
    def up(s, by: int) -> None:
        s.require(s.count + by <= s.top)
        s.count = s.count + by

    @action
    def wrap(s) -> None:
        s.require(s.count == s.top)
        s.count = 0


def test_a_broken_invariant_comes_with_the_shortest_counterexample() -> None:
    class Bounded(Counter):
        @invariant
        def never_three(s) -> Truth:
            """The count is never 3."""
            return s.count != 3

        @invariant
        def never_nine(s) -> Truth:
            return s.count < 9

    result = check(Bounded)
    assert result.verdict == "violated"
    assert counterexample(result, "never_three") == [
        "0. start  count: 0",
        "1. up(by=2)  count: 0 -> 2",
        "2. up(by=1)  count: 2 -> 3",
    ]
    assert result["never_three"].doc == "The count is never 3."
    assert result["never_nine"].verdict == "undecided"
    assert result["never_nine"].reason == "stopped by a violation"
    assert check(Bounded, keep_going=True)["never_nine"].verdict == "holds"


def test_a_broken_step_property_ends_with_the_step_that_breaks_it() -> None:
    class Monotone(Counter):
        @step
        def never_down(before, after: "Monotone") -> Truth:
            return after.count >= before.count

    result = check(Monotone)
    assert result["never_down"].verdict == "violated"
    assert counterexample(result, "never_down") == [
        "0. start  count: 0",
        "1. up(by=2)  count: 0 -> 2",
        "2. up(by=2)  count: 2 -> 4",
        "3. wrap()  count: 4 -> 0",
    ]


def test_reachable_gives_a_shortest_path_or_is_violated() -> None:
    class Wanted(Counter):
        @reachable
        def top_reached(s) -> Truth:
            return s.count == s.top

        @reachable
        def more_than_top(s) -> Truth:
            return s.count > s.top

    result = check(Wanted, {"top": 3})
    assert result["top_reached"].verdict == "holds"
    assert counterexample(result, "top_reached")[-1] == "2. up(by=1)  count: 2 -> 3"
    assert result["more_than_top"].verdict == "violated"
    assert result["more_than_top"].counterexample is None
    assert result["more_than_top"].reason == "no reachable state satisfies it"


def test_a_deadlock_is_reported_unless_the_machine_may_end_there() -> None:
    class Ends(Machine):
        phase = Enum("one", "two", "stuck", "done")

        @action(to=("two", "stuck"))
        def go(s, to: str) -> None:
            s.require(s.phase == "one")
            s.phase = to

        @action
        def finish(s) -> None:
            s.require(s.phase == "two")
            s.phase = "done"

        @may_end
        def done(s) -> Truth:
            return s.phase == "done"

    result = check(Ends)
    assert result["no-deadlock"].verdict == "violated"
    assert counterexample(result, "no-deadlock") == [
        "0. start  phase: one",
        "1. go(to=stuck)  phase: one -> stuck",
    ]

    class MayAlways(Ends):
        @may_end
        def anywhere(s) -> Truth:
            return s.phase.is_in("done", "stuck")

    assert check(MayAlways)["no-deadlock"].verdict == "holds"
    assert "no-deadlock" not in [found.name for found in check(Ends, deadlock=False).properties]


def test_a_violated_initial_state_is_a_counterexample_of_no_steps() -> None:
    class Starts(Counter):
        @initial(value=(1, 3))
        def begin(s, value: int) -> None:
            s.count = value

        @invariant
        def below_three(s) -> Truth:
            return s.count < 3

    result = check(Starts)
    assert result.generated == 2
    assert counterexample(result, "below_three") == ["0. start  count: 3"]
    assert len(result["below_three"].counterexample) == 0


def test_properties_of_whole_runs_never_hold_unchecked() -> None:
    class Runs(Counter):
        @eventually(fair=["up"])
        def top_in_the_end(s) -> Truth:
            return s.count == s.top

        @always_recoverable
        def can_return(s) -> Truth:
            return s.count == 0

    result = check(Runs, max_states=2)
    assert {found.verdict for found in result.properties if found.kind != "deadlock"} == {"undecided"}


def test_the_famous_counterexamples() -> None:
    result = check(TwoPhase, {"managers": 2}, without=["all-prepared"])
    assert counterexample(result, "agreement")[1:] == [
        "1. commit()  decision: init -> committed, sent_commit: False -> True",
        "2. hear_commit(m=1)  manager[1]: working -> committed",
        "3. choose_to_abort(m=0)  manager[0]: working -> aborted",
    ]
    result = check(Philosophers, {"seats": 2}, without=["one-left-handed"])
    assert counterexample(result, "no-deadlock")[1:] == [
        "1. take_first(p=1)  philosopher[1]: thinking -> one-fork, taken[1]: False -> True",
        "2. take_first(p=0)  philosopher[0]: thinking -> one-fork, taken[0]: False -> True",
    ]
    assert [
        len(check(Peterson, without=[name])["exclusion"].counterexample) for name in Peterson.safeguards
    ] == [6, 7]


KNOWN = (TwoPhase, Peterson, Philosophers, BoundedQueue, CreateOnlyLock, SwapCounter, FencedLease)


@pytest.mark.parametrize(
    ("machine", "safeguard"),
    [(machine, name) for machine in KNOWN for name in machine.safeguards],
)
def test_every_safeguard_is_needed(machine, safeguard) -> None:
    assert check(machine).verdict != "violated"
    assert check(machine, without=[safeguard]).verdict == "violated"


def test_assumptions_are_switched_off_by_name_as_safeguards_are() -> None:
    class Delivery(Machine):
        assumptions = {"in-order": "messages arrive in the order they were sent"}
        arrived = Each(2, Bool())

        @action(m=2)
        def arrive(s, m: int) -> None:
            s.require(~s.arrived[m], s.is_next(m))
            s.arrived[m] = True

        def is_next(s, m: int) -> Truth:
            return s.arrived[0] if m == 1 else Truth.constant(True)

        any_order = without("in-order", replaces=is_next)(lambda s, m: True)

        @invariant
        def no_gap(s) -> Truth:
            return implies(s.arrived[1], s.arrived[0])

        @may_end
        def done(s) -> Truth:
            return s.arrived.all(True)

    assert check(Delivery).verdict == "holds"
    result = check(Delivery, without=["in-order"])
    assert result.without == ("in-order",)
    assert counterexample(result, "no_gap")[1:] == ["1. arrive(m=1)  arrived[1]: False -> True"]


def test_a_result_as_json_has_the_keys_that_scripts_rely_on() -> None:
    import json

    result = check(TwoPhase, {"managers": 2}, without=["all-prepared"])
    text = json.loads(json.dumps(to_json(result)))
    for key in ("verdict", "distinct", "generated", "depth", "seconds", "peak_bytes", "properties"):
        assert key in text
    assert (text["model"], text["parameters"], text["without"]) == (
        "two-phase",
        {"managers": 2},
        ["all-prepared"],
    )
    agreement = text["properties"][0]
    assert (agreement["name"], agreement["kind"], agreement["verdict"]) == (
        "agreement",
        "invariant",
        "violated",
    )
    assert agreement["trace"][0]["state"]["manager"] == ["working", "working"]
    assert agreement["trace"][2] == {
        "step": 2,
        "action": "hear_commit",
        "parameters": {"m": 1},
        "changes": {"manager[1]": ["working", "committed"]},
    }
    assert text["coverage"]["commit"] == result.coverage["commit"]


# Properties with parameters, and short definitions.


class Race(Machine):
    """Runners that finish in any order."""

    runners = Size(3)
    place = Each(runners, Int(0, runners))
    has_won = define(lambda s, r: s.place[r] == 1)

    @action(r=runners)
    def finish(s, r: int) -> None:
        s.require(s.place[r] == 0)
        s.place[r] = 1 + count_of(place > 0 for place in s.place)

    @invariant(r=runners, q=runners)
    def one_wins(s, r: int, q: int) -> Truth:
        """Two never win."""
        return implies(s.has_won(r) & s.has_won(q), r == q)

    @invariant(r=(0, 1))
    def never_last(s, r: int) -> Truth:
        return s.place[r] < s.runners

    @step(r=runners)
    def place_stays(before, after: "Race", r: int) -> Truth:
        return implies(before.place[r] > 0, after.place[r] == before.place[r])

    @reachable(r=runners, first=(1, 2))
    def ahead(s, r: int, first: int) -> Truth:
        """Some runner can be alone in front, though runner 0 never is."""
        return s.has_won(r) & (count_of(place > 0 for place in s.place) == first) & (r > 0)

    @reachable(r=(0,))
    def out_of_reach(s, r: int) -> Truth:
        return s.place[r] > s.runners

    @may_end
    def over(s) -> Truth:
        return ~s.place.any(0)


def test_a_property_with_parameters_holds_for_every_choice_and_reachable_for_some() -> None:
    result = check(Race, keep_going=True)
    verdicts = {each.name: each.verdict for each in result.properties}
    assert [name for name, verdict in verdicts.items() if verdict == "violated"] == [
        "never_last",
        "out_of_reach",
    ]
    assert result["one_wins"].doc == "Two never win."
    assert counterexample(result, "never_last")[-1].startswith(("3. finish(r=0)", "3. finish(r=1)"))


def test_a_definition_has_its_name_in_messages_and_is_called() -> None:
    class Careless(Race):
        @action
        def stop(s) -> None:
            s.require(s.has_won)  # type: ignore[arg-type]  # the mistake

    with pytest.raises(ModellingMistake, match="has_won"):
        check(Careless)


class Door(Machine):
    """A door whose lock, guard and alarm can be switched off."""

    safeguards = {"lock": "it is locked", "guard": "somebody stands there", "alarm": "it rings"}
    tries = Int(0, 2)
    is_open = define(lambda s, tries: s.tries > tries)
    always_open = without("lock", replaces=is_open)(lambda s, tries: True)

    def answer(s) -> str:
        return "no"

    yes = without("guard", replaces=answer)(lambda s: "yes")
    perhaps = without("alarm", "lock", replaces=answer)(lambda s: "perhaps")

    def is_new(s, tries: int) -> Truth:
        return s.tries < tries

    @without("lock", replaces=is_new)
    def is_never_new(s, tries: int) -> bool:
        return False

    @without("guard", replaces=is_new)
    def is_at_its_try(s, tries: int) -> Truth:
        return s.tries == tries

    @action
    def attempt(s) -> None:
        s.require(s.tries < 2)
        s.tries += 1

    @reachable
    def opens(s) -> Truth:
        return s.is_open(1) & (s.answer() == "no")

    @invariant
    def starts_new(s) -> Truth:
        return implies(s.tries == 0, s.is_new(1))

    @may_end
    def over(s) -> Truth:
        return s.tries == 2


@pytest.mark.parametrize(
    ("off", "violated"),
    [
        ([], []),
        (["lock"], ["opens", "starts_new"]),
        (["guard"], ["opens", "starts_new"]),
        (["alarm"], ["opens"]),
    ],
)
def test_a_definition_says_what_it_is_without_a_safeguard(off, violated) -> None:
    result = check(Door, without=off, keep_going=True)
    assert [each.name for each in result.properties if each.verdict == "violated"] == violated


def test_what_replaces_a_definition_takes_its_parameters() -> None:
    with pytest.raises(ModellingMistake, match=r"`unlocked` takes \(a\), but .* takes \(a, b\)"):

        class Odd(Door):
            locked = define(lambda s, a, b: a == b)
            unlocked = without("lock", replaces=locked)(lambda s, a: a == 1)


def test_a_definition_without_an_unknown_safeguard_is_a_mistake() -> None:
    class Odd(Door):
        locked = define(lambda s: s.tries > 0)
        unlocked = without("key", replaces=locked)(lambda s: True)

    with pytest.raises(ModellingMistake, match="'key', which is not declared"):
        check(Odd)
