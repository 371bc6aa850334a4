"""Refinement with labels: the product of two machines, compared with plain Python, and what is reported.

If these fail, `check` calls a machine a refinement of one that does not allow its steps, or rejects one that
is.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.model import (
    HISTORY,
    NOTHING,
    Bag,
    Bool,
    CheckResult,
    Each,
    Enum,
    Flags,
    Id,
    Int,
    Machine,
    ModellingMistake,
    PropertyResult,
    Role,
    Size,
    Truth,
    action,
    always_recoverable,
    check,
    does,
    either,
    implies,
    initial,
    invariant,
    may_end,
    pick,
    refines,
    related,
    without,
)
from fencepost.model.kernel.compiled import build
from tests.depth import examples
from tests.model.random_machines import NAMES, Cell, Condition, Literal, Spec, State, specs


class LockObserved(Machine):
    """The client that has the lock, and those that ever had it."""

    clients = Size(3)

    holder = Id(clients, nobody=True)
    ever = Flags(clients)

    @action(c=clients)
    def granted(s, c: int) -> None:
        s.require(s.holder == -1)
        s.holder = c
        s.ever = s.ever.plus(c)

    @action(c=clients)
    def freed(s, c: int) -> None:
        s.require(s.holder == c)
        s.holder = -1


class Lock(Machine):
    """Clients look whether the lock is free, and then take it."""

    clients = Size(2)

    safeguards = {"look-and-take": "looking and taking are one step"}

    at = Each(clients, Enum("idle", "looked", "holds"))
    holder = Id(clients, nobody=True)

    @action(c=clients)
    def look(s, c: int) -> None:
        s.require(s.at[c] == "idle")
        s.at[c] = "looked"

    def may_take(s) -> Truth:
        return s.holder == -1

    @without("look-and-take", replaces=may_take)
    def takes_anyway(s) -> bool:
        return True

    @action(c=clients)
    def acquire(s, c: int) -> None:
        s.require(s.at[c] == "looked", s.may_take())
        s.holder = c
        s.at[c] = "holds"

    @action
    def release(s) -> None:
        s.require(s.holder != -1)
        for c in range(s.clients):
            s.at[c] = pick(s.holder == c, "idle", s.at[c])
        s.holder = -1


class OnceOnly(Lock):
    """A lock that is never released."""

    @action
    def release(s) -> None:
        s.require(s.holder == 7)

    @may_end
    def is_held(s) -> Truth:
        return s.holder != -1


def held(s: Any) -> dict[str, object]:
    """The lock is what is observed."""
    return {"ever": HISTORY}


SHOWS: dict[str, Any] = {"acquire": "granted", "release": lambda s: does("freed", c=s.holder)}


def refining(
    shows: dict[str, Any] = SHOWS,
    mapping: Callable[..., Any] = held,
    *,
    machine: type[Machine] = Lock,
    other: type[Machine] = LockObserved,
    at: dict[str, int] | None = None,
    **text: Any,
) -> type[Machine]:
    """The lock with this refinement."""
    observed = refines(other, shows, at=at or {}, clients=Lock.clients)(_copy(mapping))
    return type("Refining", (machine,), {"observed": observed, **text})


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    made = type(function)(function.__code__, function.__globals__, "observed", None, function.__closure__)
    made.__doc__ = function.__doc__
    return made


def judged(machine: type[Machine], **options: Any) -> tuple[PropertyResult, CheckResult]:
    found = check(machine, **options)
    return found["observed"], found


# The verdict.


def test_a_machine_that_takes_the_labels_of_the_other_is_a_refinement() -> None:
    """The pairs are more than the states: the other machine keeps history."""
    found, result = judged(refining())
    assert (found.verdict, found.kind, found.doc) == ("holds", "refinement", "The lock is what is observed.")
    assert found.proof is not None
    assert (result.distinct, found.proof.distinct) == (8, 24)
    assert (found.proof.refines, found.proof.parameters) == ("lock-observed", {"clients": 2})
    assert result.vacuity_warnings == ()


def test_a_label_that_the_other_machine_does_not_allow_is_the_counterexample() -> None:
    found, _ = judged(refining(), without=["look-and-take"])
    assert found.verdict == "violated"
    refused = "acquire(c=1) is granted(c=1), which lock-observed does not allow here"
    assert found.reason.startswith(f"{refused}: s.require(s.holder == -1) (test_")
    assert found.counterexample is not None
    assert found.counterexample.lines() == [
        "0. start  at: [idle, idle], holder: -1, observed.holder: -1, observed.ever: {}",
        "1. look(c=0)  at[0]: idle -> looked",
        "2. acquire(c=0)  at[0]: looked -> holds, holder: -1 -> 0, observed.holder: -1 -> 0, "
        "observed.ever: {} -> {0}",
        "3. look(c=1)  at[1]: idle -> looked",
        "4. acquire(c=1)  at[1]: looked -> holds, holder: 0 -> 1",
    ]


def test_a_state_in_which_the_mapping_does_not_hold_is_the_counterexample() -> None:
    found, _ = judged(refining({"acquire": "granted"}))
    assert found.counterexample is not None
    last = found.counterexample.steps[-1]
    assert (last.action, dict(last.changes)["holder"]) == ("release", (1, -1))
    assert found.reason == "after release(), `holder` of lock-observed is 1, and the mapping gives -1"


def test_a_refinement_that_shows_nothing_fails_for_lack_of_the_mapping() -> None:
    found, _ = judged(refining({}))
    assert found.reason == "after acquire(c=0), `holder` of lock-observed is -1, and the mapping gives 0"


def test_a_start_that_the_other_machine_does_not_have_is_the_counterexample() -> None:
    def begin(s: Any) -> None:
        s.holder = 1
        s.at[1] = "holds"

    found, _ = judged(refining(begin=initial(begin)))
    assert found.reason == (
        "no start of lock-observed: `holder` of lock-observed is -1, and the mapping gives 1"
    )
    assert found.counterexample is not None
    assert len(found.counterexample) == 0


def test_a_start_is_chosen_that_fits_the_mapping() -> None:
    class Observed(LockObserved):
        @initial(first=(-1, 0, 1))
        def begin(s, first: int) -> None:
            s.holder = first

    def begin(s: Any) -> None:
        s.holder = 1
        s.at[1] = "holds"

    assert judged(refining(other=Observed, begin=initial(begin)))[0].verdict == "holds"


def test_a_parameter_outside_of_the_domain_is_no_label() -> None:
    found, _ = judged(refining({**SHOWS, "release": lambda s: does("freed", c=s.holder + 2)}))
    assert found.reason == "release() is freed(c=2), which is no label of lock-observed"


def test_labels_in_sequence_are_performed_in_order() -> None:
    """The state of the other machine is read between two of them."""

    def both(s: Any) -> tuple[Any, ...]:
        return (does("freed", c=s.holder),)

    def again(s: Any, observed: Any) -> Any:
        return does("granted", c=0, when=observed.holder == 0)

    def restored(s: Any, observed: Any) -> tuple[Any, ...]:
        return (does("granted", c=0, when=observed.holder == -1), does("freed", c=0))

    assert judged(refining({**SHOWS, "release": (both, restored)}))[0].verdict == "holds"
    found, _ = judged(refining({**SHOWS, "release": (both, again, restored)}))
    assert found.verdict == "holds", "`again` sees that the lock is free"
    found, _ = judged(refining({**SHOWS, "release": (restored, both)}))
    assert found.verdict == "violated"


def test_a_function_may_decide_on_columns() -> None:
    """As an action does; the definitions that it calls as well."""

    def branching(s: Any) -> Any:
        if s.holder == 0:
            return does("freed", c=0)
        if s.holder == 1:
            return (does("freed", c=s.holder),)
        return ()

    def observing(before: Any, after: Any, observed: Any) -> Any:
        if observed.holder == before.holder:
            return does("freed", c=before.holder if after.at[0] == "idle" else 1)
        return does("granted", c=0)

    def mapping(s: Any) -> dict[str, object]:
        return {"ever": HISTORY, "holder": 0 if s.at[0] == "holds" else s.holder}

    for compiled in (False, True):
        for shown in (branching, observing):
            found, result = judged(refining({**SHOWS, "release": shown}, mapping), compiled=compiled)
            assert (found.verdict, found.reason) == ("holds", "")
            assert found.proof is not None
            assert found.proof.distinct == 24
            assert not [note for note in result.notes if "not covered" in note]
        found, _ = judged(
            refining({**SHOWS, "release": lambda s: does("freed", c=0) if s.holder == 0 else ()})
        )
        assert found.verdict == "violated"


def test_either_performs_the_first_label_that_is_enabled() -> None:
    anybody = lambda s: either(does("freed", c=0), does("freed", c=1))  # noqa: E731  as a model writes it
    nothing = lambda s: either(does("freed", c=0), NOTHING)  # noqa: E731  as a model writes it
    assert judged(refining({**SHOWS, "release": anybody}))[0].verdict == "holds"
    found, _ = judged(refining({**SHOWS, "release": nothing}))
    assert found.reason == "after release(), `holder` of lock-observed is 1, and the mapping gives -1"


def test_a_condition_in_place_of_an_equation_relates_both_machines() -> None:
    def had(s: Any, observed: Any) -> dict[str, object]:
        return {"ever": related(implies(s.holder == 0, observed.ever.has(0)))}

    def never(s: Any, observed: Any) -> dict[str, object]:
        return {"ever": related(~observed.ever.has(1))}

    assert judged(refining(mapping=had))[0].verdict == "holds"
    found, _ = judged(refining(mapping=never))
    assert found.reason == (
        "after acquire(c=1), what the mapping requires of `ever` of lock-observed does not hold"
    )


def test_an_item_of_a_bag_is_a_parameter_like_any_other() -> None:
    class Mail(Machine):
        clients = Size(2)
        network = Bag(1, Id(clients))
        holder = Id(clients, nobody=True)

        @action(c=clients)
        def ask(s, c: int) -> None:
            s.require(s.network.is_empty())
            s.network.add(c)

        @action(m=network)
        def receive(s, m: Any) -> None:
            s.require(s.holder == -1)
            s.holder = m
            s.network.remove(m)

        @may_end
        def received(s) -> Truth:
            return s.holder != -1

    shows = {"receive": lambda s, m: does("granted", c=m)}
    assert judged(refining(shows, machine=Mail))[0].verdict == "holds"
    shows = {"receive": lambda s, m: does("granted", c=1 - m)}
    assert judged(refining(shows, machine=Mail))[0].verdict == "violated"


class Roles(Machine):
    """The same lock, with a role."""

    clients = Size(3)

    client = Role(clients, holds=Bool(), grants=Int(0, 1))

    @action(c=clients)
    def granted(s, c: int) -> None:
        s.require(~s.client.any(holds=True))
        s.client[c].holds = True
        s.client[c].grants = 1

    @action(c=clients)
    def freed(s, c: int) -> None:
        s.require(s.client[c].holds)
        s.client[c].holds = False


def test_a_field_of_a_role_is_mapped_by_member() -> None:
    def members(s: Any) -> dict[str, object]:
        return {"client.holds": [s.at[c] == "holds" for c in range(s.clients)], "client.grants": HISTORY}

    def few(s: Any) -> dict[str, object]:
        return {"client.holds": [s.at[0] == "holds"], "client.grants": HISTORY}

    class Same(Roles):
        clients = Size(2)
        observed = refines(Roles, {"granted": "granted", "freed": "freed"}, clients=clients)(
            lambda s: {"client.grants": HISTORY}
        )

    assert judged(refining(mapping=members, other=Roles))[0].verdict == "holds"
    assert judged(Same)[0].verdict == "holds"
    found, _ = judged(refining({}, members, other=Roles))
    assert found.reason == (
        "after acquire(c=0), `client.holds` of roles is [False, False], and the mapping gives [True, False]"
    )
    with pytest.raises(ModellingMistake, match="mapped to 1 values: give one for each of 2 members"):
        check(refining(mapping=few, other=Roles))
    with pytest.raises(ModellingMistake, match=r"maps no expression to `client\.holds` of roles"):
        check(refining(mapping=lambda s: {}, other=Roles))


# Vacuity.


def test_an_action_that_is_never_performed_and_a_field_that_nothing_ties_are_reported() -> None:
    class Observed(LockObserved):
        spare = Bool()

        @action
        def broken_in(s) -> None:
            s.spare = True

    def loose(s: Any) -> dict[str, object]:
        return {"ever": HISTORY, "spare": HISTORY}

    _, result = judged(refining(mapping=loose, other=Observed))
    assert result.vacuity_warnings == (
        "observed: no action performs broken_in of observed at the sizes of the proof",
        "observed: neither mapped nor changed is spare of observed",
    )


def test_a_label_that_is_named_and_never_enabled_is_not_performed() -> None:
    def never(s: Any) -> Any:
        return does("freed", c=0, when=s.holder == 7)

    def nowhere(s: Any) -> Any:
        return either(does("freed", c=1 - s.holder), NOTHING)

    unseen = "observed: no action performs freed of lock-observed at the sizes of the proof"
    for shown in (never, nowhere):
        machine = refining({"acquire": "granted", "look": shown}, machine=OnceOnly)
        assert judged(machine)[1].vacuity_warnings == (unseen,)


# Where it is decided.


def test_another_violation_is_found_first_and_keeps_its_counterexample() -> None:
    never = invariant("Nobody ever has the lock.")(lambda s: s.holder == -1)
    found, result = judged(refining(never=never))
    assert result["never"].verdict == "violated"
    assert (found.verdict, found.proof) == ("undecided", None)
    stuck = always_recoverable("It is free in the end.")(lambda s: s.holder == 5)
    found, result = judged(refining(stuck=stuck))
    assert (found.verdict, found.reason) == ("undecided", "another property is violated first")
    assert judged(refining(stuck=stuck), keep_going=True)[0].verdict == "holds"


def test_a_bound_leaves_it_undecided() -> None:
    found, _ = judged(refining(), max_states=5)
    assert (found.verdict, found.reason) == ("undecided", "stopped by the bound of 5 states")
    found, result = judged(refining(), max_states=10)
    assert (result.distinct, found.verdict) == (8, "undecided")
    assert found.reason == "stopped by the bound of 10 states"
    assert result.verdict == "undecided"


def test_it_is_proven_at_its_own_sizes_unless_others_are_given() -> None:
    machine = refining(at={"clients": 3})
    assert judged(machine)[0].proof.parameters == {"clients": 3}  # type: ignore[union-attr]  # it holds
    assert judged(machine, sizes={"clients": 1})[0].proof.parameters == {"clients": 1}  # type: ignore[union-attr]  # a refinement has one


# Mistakes.


@pytest.mark.parametrize(
    ("shows", "mapping", "expected"),
    [
        (
            {"acquires": "granted"},
            held,
            "'acquires', which is no action of refining (did you mean 'acquire'?)",
        ),
        ({"acquire": "granting"}, held, "performs 'granting', which is no action of lock-observed (did you"),
        (
            {"release": "freed"},
            held,
            "release performs 'freed', and has no parameter c of it",
        ),
        ({"look": lambda s: 5}, held, "the labels of look are 5: return does(...), either(...)"),
        ({"look": lambda s: does("freed")}, held, "look performs freed with none: its parameters are c"),
        ({"look": 5}, held, "names 5 for look: give the name of an action of lock-observed"),
        ({}, lambda s: {}, "maps no expression to `ever` of lock-observed"),
        ({}, lambda s: {"evr": HISTORY}, "lock-observed has no field 'evr' (did you mean 'ever'?)"),
        ({}, lambda s: None, "a refinement returns None: is a `return` missing?"),
    ],
)
def test_an_incorrect_refinement_is_an_error(shows: Any, mapping: Any, expected: str) -> None:
    with pytest.raises(ModellingMistake) as error:
        check(refining(shows, mapping))
    assert expected in str(error.value)


def test_an_unknown_size_of_the_proof_is_an_error() -> None:
    with pytest.raises(ModellingMistake, match="`at` names 'client', which is no size of refining"):
        check(refining(at={"client": 2}))
    with pytest.raises(ModellingMistake, match="name the labels as well"):
        refines(LockObserved, at={"clients": 2})


# Random machines.


@dataclass(frozen=True)
class Link:
    """A refinement of a random machine: the kept fields, and a label for each visible action."""

    kept: tuple[str, ...]
    guards: tuple[Condition | None, ...]
    """By action, the guard of its label, on kept fields."""
    needs: tuple[int | None, ...]
    """By action, another one that must have happened before."""
    when: tuple[Condition | None, ...]
    visible: tuple[bool, ...]
    optional: tuple[bool, ...]

    def other(self, spec: Spec) -> type[Machine]:
        f, n, colour, _ = spec.first
        fields: dict[str, Any] = {
            "f": Bool(start=f),
            "n": Int(0, spec.size - 1, start=n),
            "colour": Enum(*NAMES, start=colour),
        }
        text: dict[str, Any] = {name: fields[name] for name in self.kept}
        text["happened"] = Flags(len(spec.actions))

        def begin(s: Any, other: bool) -> None:
            if "f" in self.kept and other:
                s.f = ~s.f

        text["begin"] = initial(other=(False, True))(begin)
        domains = {"f": (False, True), "n": spec.size, "colour": NAMES}
        for number in range(len(spec.actions)):
            given = {name: domains[name] for name in self.kept}
            text[f"label{number}"] = action(**given)(self._label(number))
        return type("Abstract", (Machine,), text)

    def _label(self, number: int) -> Callable[..., None]:
        guard, needed = self.guards[number], self.needs[number]

        def run(s: Any, **given: Any) -> None:
            if guard is not None:
                s.require(guard.column(s))
            if needed is not None:
                s.require(s.happened.has(needed))
            for name, value in given.items():
                setattr(s, name, value)
            s.happened = s.happened.plus(number)

        run.__name__ = f"label{number}"
        return run

    def refining(self, spec: Spec) -> type[Machine]:
        shows = {f"act{n}": self._shown(n) for n in range(len(spec.actions)) if self.visible[n]}
        mapping = refines(self.other(spec), shows)(lambda s: {"happened": HISTORY})
        return type("Refining", (spec.machine(),), {"observed": mapping})

    def _shown(self, number: int) -> Callable[..., Any]:
        def shown(before: Any, after: Any) -> Any:
            condition = self.when[number]
            when = True if condition is None else condition.column(before)
            given = {name: getattr(after, name) for name in self.kept}
            one = does(f"label{number}", when=when, **given)
            return either(one, NOTHING) if self.optional[number] else one

        return shown

    def pairs(self, spec: Spec) -> tuple[int, int | None]:
        """The number of reachable pairs, and the steps to the nearest violation, by sets of plain states."""
        level = {(start, self._kept(start), frozenset[int]()) for start in spec.starts()}
        seen: set[Any] = set()
        depth = 0
        while level:
            seen |= level
            if any(kept != self._kept(state) for state, kept, _ in level):
                return len(seen), depth
            after: set[Any] = set()
            for state, kept, happened in level:
                for text, reached in spec.successors(state):
                    number = int(text[3])
                    moved = self._step(number, state, reached, kept, happened)
                    if moved is None:
                        return len(seen), depth + 1
                    after.add((reached, *moved))
            level = after - seen
            depth += 1
        return len(seen), None

    def _kept(self, state: State) -> tuple[Any, ...]:
        values = dict(state)
        return tuple(values[name] for name in self.kept)

    def _step(
        self, number: int, state: State, reached: State, kept: tuple[Any, ...], happened: frozenset[int]
    ) -> tuple[tuple[Any, ...], frozenset[int]] | None:
        """The abstract state after a step; None where it is refused."""
        condition, guard, needed = self.when[number], self.guards[number], self.needs[number]
        if not self.visible[number] or (condition is not None and not condition.true(dict(state))):
            return kept, happened
        allowed = guard is None or guard.true(dict(zip(self.kept, kept, strict=True)))
        if not allowed or (needed is not None and needed not in happened):
            return (kept, happened) if self.optional[number] else None
        return self._kept(reached), happened | {number}


@st.composite
def links(draw: st.DrawFn, spec: Spec, *, correct: bool) -> Link:
    """`correct`: a refinement by construction, as every action is visible and no label has a guard."""
    kept = tuple(draw(st.lists(st.sampled_from(("f", "n", "colour")), min_size=1, unique=True)))
    literals = [
        Literal(Cell(name), value, equal)
        for name, values in (("f", (False, True)), ("n", range(spec.size)), ("colour", NAMES))
        if name in kept
        for value in values
        for equal in (True, False)
    ]
    conditions = st.builds(
        Condition, st.lists(st.sampled_from(literals), min_size=1, max_size=2).map(tuple), st.booleans()
    )
    count = len(spec.actions)

    def each(strategy: st.SearchStrategy[Any]) -> Any:
        return tuple(draw(strategy) for _ in range(count))

    none = (None,) * count
    if correct:
        own = tuple(_implied(act.guards, kept) for act in spec.actions)
        return Link(kept, own, none, none, (True,) * count, (False,) * count)
    seldom = st.integers(0, 3).map(lambda n: n == 0)
    return Link(
        kept,
        each(st.one_of(st.none(), conditions)),
        each(st.one_of(st.none(), st.none(), st.integers(0, count - 1))),
        each(st.one_of(st.none(), st.none(), conditions)),
        each(seldom.map(lambda hidden: not hidden)),
        each(seldom),
    )


def _implied(guards: tuple[Condition, ...], kept: tuple[str, ...]) -> Condition | None:
    """A guard of the action that only reads what is kept."""
    for guard in guards:
        if all(literal.cell.field in kept for literal in guard.literals):
            return guard
    return None


def test_random_machines_agree_with_plain_python() -> None:
    """The verdict, the length of the counterexample, and the number of pairs."""
    seen: Counter[str] = Counter()

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        spec, correct = data.draw(specs()), data.draw(st.integers(0, 2)) == 0
        link = data.draw(links(spec, correct=correct))
        pairs, depth = link.pairs(spec)
        assert depth is None or not correct
        compiled = build.has_compiler() and data.draw(st.integers(0, 9)) == 0
        found = check(link.refining(spec), keep_going=True, workers=1, exact=correct, compiled=compiled)
        result = found["observed"]
        assert result.verdict == ("holds" if depth is None else "violated")
        if depth is None:
            assert result.proof is not None
            assert result.proof.distinct == pairs
        else:
            assert result.counterexample is not None
            assert len(result.counterexample) == depth
            assert result.reason
        seen["correct" if correct else "holds" if depth is None else "violated"] += 1

    agree()
    assert min(seen["correct"], seen["holds"], seen["violated"]) >= 5, seen


def test_the_other_machine_keeps_switches_that_it_has_as_well() -> None:
    class Observed(LockObserved):
        safeguards = {"look-and-take": "the lock is given to one client at a time"}

        def is_given(s) -> Truth:
            return s.holder == -1

        given_anyway = without("look-and-take", replaces=is_given)(lambda s: True)

        @action(c=LockObserved.clients)
        def granted(s, c: int) -> None:
            s.require(s.is_given())
            s.holder = c
            s.ever = s.ever.plus(c)

    assert judged(refining(other=Observed), without=["look-and-take"])[0].verdict == "holds"


def test_a_bad_mapping_is_found_without_any_label() -> None:
    def lost(s: Any) -> dict[str, Truth]:
        return {"ever": HISTORY, "holder": pick(s.at[0] == "looked", 0, -1)}  # type: ignore[dict-item]  # a mapping

    found, _ = judged(refining({}, lost))
    assert found.reason == "after look(c=0), `holder` of lock-observed is -1, and the mapping gives 0"
