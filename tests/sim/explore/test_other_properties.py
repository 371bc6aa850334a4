"""All broken properties are reported in one result; and what changes without the world is no verdict."""

from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import AuditRequest, audit
from fencepost.sim.explore.audit import search
from fencepost.sim.explore.reporting import run_token
from fencepost.sim.world import NO_FAULTS, View, World


def broken_twice(world: World) -> None:
    """`ann` must not be overwritten, nobody may write `b`; and one property that holds."""
    store = world.store()

    def write(name: str) -> None:
        store.put("a", name.encode(), when=ANYTHING)
        store.put("b", name.encode(), when=ANYTHING)

    for name in ("ann", "bob"):
        world.spawn(write, name, name=name)
    world.always("never bob", lambda view: view.get("a") != b"bob")
    world.always("no b", lambda view: view.get("b") is None)
    world.always("a before b", lambda view: view.get("b") is None or view.get("a") is not None)


@pytest.mark.parametrize("strategy", ["exhaustive", "plain", "random"])
def test_every_broken_property_has_its_shortest_counterexample(strategy: str) -> None:
    """Only the first was reported, and the second after the first was repaired."""
    result = audit(broken_twice, budget=NO_FAULTS, strategy=strategy, schedules=200)
    assert {found.property: len(found.lines) for found in result.counterexamples} == {
        "never bob": 1,
        "no b": 2,
    }
    assert result.verdict == "violated"
    assert "2 properties are broken" in result.bound


def masked(world: World) -> None:
    """The second property can only break after the first."""
    store = world.store()

    def write() -> None:
        store.put("a", b"1", when=ANYTHING)
        store.put("b", b"1", when=ANYTHING)

    world.spawn(write, name="writes")
    world.spawn(store.get, "b", name="reads")
    world.always("no a", lambda view: view.get("a") is None)
    world.finally_("no b", lambda view: view.get("b") is None)


def test_a_property_that_breaks_after_another_has_a_token_of_its_own() -> None:
    request = AuditRequest(masked, budget=NO_FAULTS)
    first, second = search(request).counterexamples
    assert (first.property, second.property) == ("no a", "no b")
    again = run_token(request, second.token)
    assert [found.property for found in again.counterexamples] == ["no b"]
    assert second.token.startswith("~no%20a")


def test_what_was_not_decided_of_the_others_is_a_finding() -> None:
    def program(world: World) -> None:
        broken_twice(world)
        store = world.store()
        world.spawn(lambda: [store.put("c", b"%d" % n, when=ANYTHING) for n in range(9)], name="more")
        world.always("no c", lambda view: len(view.keys("")) < 9)

    result = audit(program, budget=replace(NO_FAULTS, reply_lost=2), strategy="plain", schedules=30)
    assert any("whether the other properties hold is not decided" in finding for finding in result.findings)


def in_memory(world: World) -> None:
    leaders: list[str] = []
    store = world.store()

    def claim(name: str) -> None:
        if not store.head("leader").done:
            store.put("leader", name.encode(), when=ANYTHING)
            leaders.append(name)

    for name in ("ann", "bob"):
        world.spawn(claim, name, name=name)
    world.always("one leader", lambda view: len(leaders) < 2)


def test_a_check_of_a_variable_is_an_error() -> None:
    """It was never judged when the variable changed, and the verdict was `holds`."""
    result = audit(in_memory, budget=NO_FAULTS)
    assert result.verdict == "error"
    assert "one leader" in result.bound
    assert "changes without the world" in result.bound
    assert result.error_at is not None
    assert result.error_at.file.endswith("test_other_properties.py")


def test_a_check_of_a_variable_that_recovers_is_an_error() -> None:
    """Judged at the end alone, it would hold again."""

    def program(world: World) -> None:
        inside: list[str] = []
        store = world.store()

        def enter(name: str) -> None:
            store.get(name)
            inside.append(name)
            store.get(name)
            inside.remove(name)
            store.get(name)

        world.spawn(enter, "ann", name="ann")
        world.spawn(enter, "bob", name="bob")
        world.always("nobody inside", lambda view: "bob" not in inside or view.get("x") is not None)

    result: Any = audit(program, budget=NO_FAULTS)
    assert result.verdict == "error"


def test_a_check_of_the_view_is_judged_again_in_vain() -> None:
    def program(world: World) -> None:
        broken_twice(world)
        world.properties.clear()

        def counted(view: View) -> bool:
            return len(view.keys("")) < 3

        world.always("few", counted)

    assert audit(program, budget=NO_FAULTS).verdict == "holds"
