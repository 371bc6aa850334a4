"""Each property of a model must be able to fail: `what_breaks` finds a change that breaks it.

If the last tests fail, a property of a shipped model is broken by nothing: make it stronger, remove it, or
explain it in `UNBROKEN`, with the reason why it is worth its place.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.commands.models import SHIPPED, find_machine
from fencepost.model import *
from fencepost.model.kernel import breaking
from fencepost.model.kernel.breaking import changes, made, what_breaks
from fencepost.model.kernel.language.model import Model
from fencepost.model.store import CREATE, Key


class Turnstile(Machine):
    """A machine with a property of each kind, and two that nothing breaks."""

    safeguards = {"coin-first": "the bar opens for a coin only"}
    assumptions = {"honest": "no visitor climbs over"}

    coins = Int(0, 3)
    inside = Int(0, 3)
    bar = Enum("closed", "open")

    def may_open(s) -> Truth:
        return s.coins > s.inside

    opens_freely = without("coin-first", replaces=may_open)(lambda s: True)

    def climbs(s) -> Truth:
        return Truth.constant(False)

    climbs_over = without("honest", replaces=climbs)(lambda s: True)

    @action
    def pay(s) -> None:
        s.require(s.coins < 3)
        s.coins += 1

    @action
    def open_bar(s) -> None:
        s.require((s.bar == "closed") & (s.inside < 3), s.may_open())
        s.bar = "open"

    @action
    def enter(s) -> None:
        s.require((s.bar == "open") & (s.inside < 3))
        s.bar, s.inside = "closed", s.inside + 1

    @action
    def climb(s) -> None:
        s.require(s.climbs(), s.inside < 3)
        s.inside += 1

    @invariant
    def paid(s) -> Truth:
        return s.inside <= s.coins

    @step
    def closes(before, after: "Turnstile") -> Truth:
        return implies(after.inside > before.inside, after.bar == "closed")

    @reachable
    def full(s) -> Truth:
        return s.inside == 3

    @always_recoverable
    def can_fill(s) -> Truth:
        return s.inside == 3

    @invariant
    def true_by_its_text(s) -> Truth:
        return (s.inside <= s.coins) | (s.inside >= s.coins)

    @reachable(n=range(3))
    def true_at_the_start(s, n: int) -> Truth:
        return s.coins >= n

    @may_end
    def is_full(s) -> Truth:
        return s.inside == 3


class Lamp(Machine):
    """A machine whose only property an effect keeps."""

    on = Bool()
    lit = Bool()

    @action
    def switch(s) -> None:
        s.on, s.lit = ~s.on, ~s.lit

    @invariant
    def lit_when_on(s) -> Truth:
        return s.on == s.lit


class Register(Machine):
    """Two clients that create one object."""

    clients = Size(2)
    register = Key(owner=Id(clients))

    @action(c=clients, answer=CREATE)
    def create(s, c: int, answer: str) -> None:
        s.register.create(answer, owner=c)

    @step
    def first_stays(before, after: "Register") -> Truth:
        return implies(before.register.is_there, after.register.owner == before.register.owner)


class Doors(Machine):
    """Something that only more doors make reachable."""

    doors = Size(2)
    at = Int(0, 3)

    @action(d=doors)
    def enter(s, d: int) -> None:
        s.require(s.at < 2)
        s.at = d

    @invariant
    def in_range(s) -> Truth:
        return s.at < 3

    @reachable
    def third(s) -> Truth:
        return s.at == 2


def test_each_property_has_the_first_change_that_breaks_it_and_tautologies_have_none() -> None:
    found = what_breaks(Turnstile)
    shown = {each.name: str(each.change) for each in found.properties if each.change}
    assert shown == {
        "paid": "without coin-first",
        "closes": "without honest",
        "full": "pay never happens",
        "can_fill": "pay never happens",
    }
    assert found.unbroken == ("true_by_its_text", "true_at_the_start")
    assert found.tried == len([*changes(Turnstile)])


def test_an_assignment_of_several_is_left_out_alone() -> None:
    (only,) = what_breaks(Lamp).properties
    lines = Path(__file__).read_text().splitlines()
    line = lines.index("        s.on, s.lit = ~s.on, ~s.lit") + 1
    assert str(only.change) == f"switch without `s.on = ~s.on` (line {line})"


def test_a_request_without_its_condition_is_a_change() -> None:
    """If this fails, what only an overwritten object breaks is reported as a tautology."""
    (only,) = what_breaks(Register).properties
    assert "create without the condition of" in str(only.change)
    assert only.length == 2


def test_the_machine_is_as_before_afterwards() -> None:
    """If this fails, a later check explores a changed machine."""
    before = check(Turnstile, keep_going=True)
    for change in changes(Turnstile):
        with pytest.raises(ZeroDivisionError), made(change):
            raise ZeroDivisionError
    after = check(Turnstile, keep_going=True)
    assert (after.distinct, after.generated, after.coverage) == (
        before.distinct,
        before.generated,
        before.coverage,
    )


def test_every_kind_of_change_is_made() -> None:
    kinds = {change.sort for machine in (Turnstile, Register) for change in changes(machine)}
    assert kinds == {
        *("safeguard", "assumption", "action", "guard", "effect", "condition", "part", "standstill")
    }


class Counter(Machine):
    """A field at the border of its range: a machine without the guard cannot be explored to the end."""

    count = Int(0, 3)

    @action
    def rise(s) -> None:
        s.require(s.count < 3)
        s.count += 1

    @step
    def rises_below(before, after: "Counter") -> Truth:
        return before.count < 3

    @invariant
    def below_two_or_more(s) -> Truth:
        return s.count >= 0


def test_the_levels_before_an_error_are_explored() -> None:
    found = what_breaks(Counter)
    assert found.errors == 1
    assert "1 could not be explored" in found.sentence()


class Lookalike(Machine):
    """A field leaves its range only after the property is broken."""

    count = Int(0, 3)
    ended = Bool()

    @action
    def rise(s) -> None:
        s.require(~s.ended)
        s.count += 1
        s.ended = s.count == 3

    @action
    def end(s) -> None:
        s.ended = True

    @step
    def never_after_the_end(before, after: "Lookalike") -> Truth:
        return implies(before.ended, after.count == before.count)

    @may_end
    def over(s) -> Truth:
        return s.ended


def test_a_property_that_breaks_before_the_error_is_broken() -> None:
    """If this fails, a guard that also keeps a field in its range hides what it protects."""
    found = what_breaks(Lookalike)
    assert found.errors > 0
    assert found.unbroken == ()


def test_a_model_that_is_violated_as_it_is_is_refused() -> None:
    class Broken(Turnstile):
        @invariant
        def impossible(s) -> Truth:
            return s.coins == 0

    with pytest.raises(ModelError, match="breaks impossible without any change"):
        what_breaks(Broken)


def test_time_that_is_over_leaves_changes() -> None:
    found = what_breaks(Turnstile, seconds=0)
    assert (found.tried, found.left) == (0, len([*changes(Turnstile)]))


UNBROKEN: Mapping[str, Mapping[str, str]] = {
    "bounded-queue": {
        "one_end_moves": "it is about the form of the actions, of which each writes one end: leaving out a "
        "statement cannot break it, writing another one can"
    },
    "cursor": {
        "loss_is_true": "`record_loss` copies `start` in one step and `start` only grows: it states what the "
        "field means, for an action that would record anything else"
    },
}
"""By shipped model, the properties that no change breaks, each with the reason why it is kept."""
LARGE = frozenset(
    {
        *("publish", "ingest", "objects", "streams", "lifecycle", "cursor"),
        *("publish-observed", "objects-observed", "publish-content"),
        *("ingest-observed", "lifecycle-observed", "streams-observed"),
        *("lifecycle-merged", "lifecycle-seeding", "lifecycle-notified"),
        *("ingest-notified", "ingest-reading"),
    }
)


OPEN: Mapping[str, frozenset[str]] = {
    "publish-observed": frozenset({"cleanup_safe"}),
    "lifecycle": frozenset({"observed"}),
    "lifecycle-merged": frozenset({"observed"}),
    "streams": frozenset({"cursor_honest"}),
}
"""Properties for which five minutes may not suffice to try every change."""
SMALLER: Mapping[str, tuple[Mapping[str, int], frozenset[str]]] = {
    "ingest": (
        {"horizons": 0, "shared": 0, "troubles": 0},
        frozenset({"accepted_unawares", "cursor_honest", "cursor_waits", "without_data", "stored_anew"}),
    ),
    "publish": (
        {"writers": 1, "claims": 1, "troubles": 0},
        frozenset(
            {
                *("retry_succeeds", "conflict", "rolled_forward", "rolled_back", "false_success"),
                "referential_integrity",
            }
        ),
    ),
}
"""Models whose changes take too long: smaller sizes, and the properties that need larger ones.

`fencepost zoo --properties NAME` tries all changes at the model's own sizes.
"""
SECONDS = 300.0


@pytest.fixture
def by_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the time on the processor: on a busy machine as many changes are tried as on an idle one."""
    monkeypatch.setattr(breaking, "time", SimpleNamespace(perf_counter=time.process_time))


def unexplained(name: str) -> list[str]:
    """The properties that nothing breaks and no reason explains, and the reasons that are not needed."""
    found = what_breaks(find_machine(name), seconds=SECONDS)
    undecided = OPEN.get(name, frozenset()) if found.left else frozenset()
    return sorted((set(found.unbroken) ^ set(UNBROKEN.get(name, {}))) - undecided)


@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in LARGE])
def test_every_property_of_a_small_shipped_model_can_fail(name: str) -> None:
    assert unexplained(name) == []


@pytest.mark.slow
@pytest.mark.usefixtures("by_processor")
@pytest.mark.parametrize("name", [name for name in SHIPPED if name in LARGE - SMALLER.keys()])
def test_every_property_of_a_large_shipped_model_can_fail(name: str) -> None:
    assert unexplained(name) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLER)
def test_the_properties_of_the_largest_models_can_fail_at_smaller_sizes(name: str) -> None:
    sizes, needs_more = SMALLER[name]
    machine = find_machine(name)
    broken = {each.name for each in what_breaks(machine, sizes).properties if each.change is not None}
    assert {each.name for each in Model(machine).properties} - broken <= needs_more


def test_a_property_that_needs_larger_sizes_is_left_out() -> None:
    """If this fails, what shall be reachable keeps the other properties from being tried at small sizes."""
    assert {each.name for each in what_breaks(Doors, {"doors": 2}).properties} == {"in_range"}
    with pytest.raises(ModelError, match="breaks third without any change"):
        what_breaks(Doors)


def test_the_reasons_are_of_shipped_models() -> None:
    assert {*UNBROKEN, *OPEN, *SMALLER} <= set(SHIPPED)
    assert all(reason for reasons in UNBROKEN.values() for reason in reasons.values())
