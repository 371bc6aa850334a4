"""How long counterexamples are, counted so that they can be held against a model's."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.requests import Get, Put
from fencepost.sim.explore.counterexample import count, moves_of
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.tokens import follow, read
from fencepost.sim.world import Budget, World
from tests.commands.running import exit_of

FAULTS = Budget(crash=1, reply_lost=1, request_lost=1, late=1)


def run(token: str, *bodies: Callable[[World], Any]) -> World:
    """A run of processes a, b, ... along the token."""

    def program(world: World) -> None:
        for name, body in zip("abc", bodies, strict=False):
            world.spawn(body, world, name=name)

    replay = follow(Setting(program, FAULTS), read(token))
    assert not replay.misfit
    return replay.world


def put(world: World, key: str) -> Any:
    return world.store().put(key, b"", when=ABSENT)


def look(world: World) -> None:
    world.store().get("k")
    world.store().get("l")


def look_and_put(world: World) -> None:
    look(world)
    put(world, "k")
    world.note("seen", "k")
    look(world)
    put(world, "k")


def at_once(world: World) -> None:
    world.store().send_all([Put("m", b"", ANYTHING), Get("k"), Put("n", b"", ANYTHING)])


def look_at_once(world: World) -> None:
    world.store().get("k")
    world.store().send_all([Get("k"), Get("l")])


@pytest.mark.parametrize(
    ("token", "bodies", "moves"),
    [
        ("default", [look], 1),
        ("default", [look_and_put], 3),  # what is refused belongs to the look
        ("a:get:k:1,b:get:l:1,a:finish::1", [look, look], 3),
        ("a:get:k:1,b:put:x:1", [look, lambda world: put(world, "x")], 3),
        ("default", [at_once], 1),
        ("a:put:m:1,b:put:x:1", [at_once, lambda world: put(world, "x")], 2),
        ("default", [look_at_once], 1),
        ("a:put:x:1=reply_lost", [lambda world: put(world, "x")], 1),
        ("a:put:x:1=request_lost", [lambda world: put(world, "x")], 1),
        ("a:finish::1=crash", [lambda world: put(world, "x")], 3),  # and it looks in vain when it is back
        ("a:put:x:1=late,b:put:y:1", [lambda world: put(world, "x"), lambda world: put(world, "y")], 3),
    ],
)
def test_what_is_a_step(token: str, bodies: list[Any], moves: int) -> None:
    assert count(run(token, *bodies)) == moves


def test_what_comes_after_the_harm_is_not_counted() -> None:
    """A property of the end makes the run go on to its end; a model stops where it is broken for good."""

    def program(world: World) -> None:
        def live() -> None:
            put(world, "never")
            put(world, "soon")
            look(world)
            put(world, "after")
            world.store().delete("soon", when=ANYTHING)
            put(world, "last")

        world.spawn(live, name="a")
        world.finally_("never is never there", lambda view: view.get("never") is None)
        world.finally_("soon stays", lambda view: view.get("soon") is not None)

    setting = Setting(program, FAULTS)
    assert moves_of(setting, follow(setting, read("default")), "default") == 1

    def other(world: World) -> None:
        program(world)
        del world.properties[0]

    # It did not hold at first either; what counts is when it went for good.
    setting = Setting(other, FAULTS)
    assert moves_of(setting, follow(setting, read("default")), "default") == 5


def test_what_waits_for_something_is_settled_by_the_last_fault() -> None:
    """Judged at once it was broken from the start, and every run is at first."""

    def program(world: World) -> None:
        def live() -> None:
            put(world, "first")
            if put(world, "second").done:
                put(world, "last")
            put(world, "after")

        world.spawn(live, name="a")
        world.finally_("the last comes", lambda view: view.get("last") is not None)

    setting = Setting(program, FAULTS)
    found = follow(setting, read("a:put:second:1=reply_lost"))
    assert moves_of(setting, found, "a:put:second:1=reply_lost") == 2
    assert moves_of(setting, found, "a:put:first:1,a:put:second:1=reply_lost,a:put:after:1") == 2


def test_what_waits_in_every_run_counts_to_the_end() -> None:
    def program(world: World) -> None:
        world.spawn(look_and_put, world, name="a")
        world.finally_("nobody does this", lambda view: view.get("x") is not None)

    setting = Setting(program, FAULTS)
    assert moves_of(setting, follow(setting, read("default")), "default") == 3


def test_what_breaks_at_once_is_counted_to_there() -> None:
    def program(world: World) -> None:
        world.spawn(look_and_put, world, name="a")
        world.always("nothing is seen", lambda view: not view.notes("seen"))

    setting = Setting(program, FAULTS)
    assert moves_of(setting, follow(setting, read("default")), "default") == 2


def test_only_a_violation_has_moves() -> None:
    def program(world: World) -> None:
        world.spawn(look, world, name="a")

    with pytest.raises(AssertionError, match="only a violation"):
        moves_of(Setting(program, FAULTS), follow(Setting(program, FAULTS), read("default")), "default")


def test_a_token_whose_last_target_lands_late_is_counted() -> None:
    """A token does not say in which harmless way something was done, and a step does."""

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.json"
        words = ["audit", "ambiguous-commit-cleaned-up", "--mutant", "one-look", "--json", str(target)]
        assert exit_of(*words) == 1
        violation, *_ = json.loads(target.read_text())["violations"]
    assert 0 < violation["moves"] <= len(violation["counterexample"])
