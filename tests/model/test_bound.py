"""`@bound`: the search does not go beyond it, and every verdict that depends on what it cut says so."""

import pytest

from fencepost.model import (
    BadSettings,
    Each,
    Int,
    Machine,
    Model,
    ModellingMistake,
    Size,
    action,
    always_recoverable,
    bound,
    check,
    eventually,
    initial,
    invariant,
    may_end,
    reachable,
    reachable_graph,
    step,
    together,
    walk,
)
from fencepost.results import to_json


class Counts(Machine):
    """Two counters; the bound is on their sum, the overflow far beyond it."""

    counters = Size(2)
    symmetric = ("counters",)
    n = Each(counters, Int(0, 9))

    @action(i=counters)
    def up(s, i: int) -> None:
        s.n[i] += 1

    @bound
    def small(s):
        return s.n[0] + s.n[1] <= 3


def reached(most: int) -> tuple[set[tuple[int, int]], set[tuple[int, int]], int]:
    """What plain Python finds: the states inside, those cut, and the transitions."""
    inside, cut, steps, waiting = {(0, 0)}, set(), 0, [(0, 0)]
    while waiting:
        a, b = waiting.pop()
        for after in ((a + 1, b), (a, b + 1)):
            steps += 1
            if sum(after) > most:
                cut.add(after)
            elif after not in inside:
                inside.add(after)
                waiting.append(after)
    return inside, cut, steps


def test_the_search_stops_at_the_bound_and_the_verdict_says_what_it_cut() -> None:
    inside, cut, steps = reached(3)
    result = check(Counts)
    assert (result.verdict, result.distinct, result.cut) == ("holds", len(inside), len(cut))
    assert result.generated == steps + 1
    assert to_json(result)["cut"] == len(cut)
    assert f"the bound small cut {len(cut)} states: what holds, holds within it" in result.notes
    graph = reachable_graph(Model(Counts))
    assert len(graph.sources) == steps - sum((a > 0) + (b > 0) for a, b in cut)
    assert check(Counts, symmetry=True).cut == 3


def test_states_outside_are_judged_but_not_left() -> None:
    class Judged(Counts):
        @invariant
        def below_four(s):
            """Violated only outside of the bound."""
            return s.n[0] + s.n[1] < 4

        @step
        def not_to_four(before, after):
            """The same for steps."""
            return after.n[0] + after.n[1] < 4

        @invariant
        def below_five(s):
            """Never even seen."""
            return s.n[0] + s.n[1] < 5

        @reachable
        def four(s):
            """Reached, outside."""
            return s.n[0] == 4

    result = check(Judged, keep_going=True)
    found = result["below_four"].counterexample
    assert found is not None
    assert (result["below_four"].verdict, len(found)) == ("violated", 4)
    assert result["not_to_four"].verdict == "violated"
    assert (result["below_five"].verdict, result["four"].verdict) == ("holds", "holds")


def test_what_depends_on_what_was_cut_is_undecided() -> None:
    """Each would be decided wrongly on the states inside alone."""

    class Beyond(Counts):
        @reachable
        def nine(s):
            """Holds, beyond the bound."""
            return s.n[0] == 9

        @always_recoverable
        def more(s):
            """The way leads through what was cut."""
            return s.n[0] + s.n[1] == 4

        @eventually(fair=(together(),))
        def grows(s):
            """No run inside ends."""
            return s.n[0] + s.n[1] == 4

    result = check(Beyond)
    assert result.verdict == "undecided"
    for name in ("nine", "more", "grows"):
        assert result[name].verdict == "undecided"
        assert "the bound small cut 5 states" in result[name].reason
    assert result["no-deadlock"].verdict == "holds"


def test_a_bound_that_cuts_nothing_changes_nothing() -> None:
    class Loose(Counts):
        @action(i=Counts.counters)
        def up(s, i: int) -> None:
            s.require(s.n[i] < 1)
            s.n[i] += 1

        @eventually(fair=("up",))
        def full(s):
            """Both count."""
            return s.n[0] + s.n[1] == 2

        @may_end
        def done(s):
            return s.n.all(1)

    result = check(Loose)
    assert (result.verdict, result.cut, result.notes) == ("holds", 0, ())


def test_starts_outside_are_judged_and_left() -> None:
    class Starts(Counts):
        far = Int(0, 9)

        @initial(far=(0, 9))
        def begin(s, far: int) -> None:
            s.far = far

        @bound
        def near(s):
            return s.far < 9

        @invariant
        def never_nine(s):
            """Violated at a start that is cut."""
            return s.far != 9

    result = check(Starts, keep_going=True)
    assert (result["never_nine"].verdict, result.distinct) == ("violated", 10)
    far = type("Far", (Counts,), {"n": Each(2, Int(0, 9, start=2)), "__module__": __name__})
    with pytest.raises(ModellingMistake, match="begins outside of its @bound"):
        check(type("AllFar", (far,), {"small": bound(lambda s: s.n[0] < 0)}))


def test_what_does_not_know_bounds_refuses_them(tmp_path) -> None:
    with pytest.raises(BadSettings, match="which only the local search"):
        check(Counts, resume=tmp_path)
    with pytest.raises(BadSettings, match="random walks do not know"):
        walk(Counts, walks=10)
    lopsided = type("Lopsided", (Counts,), {"small": bound(lambda s: s.n[0] < 2)})
    with pytest.raises(ModellingMistake, match="is not symmetric"):
        check(lopsided, symmetry=True)
