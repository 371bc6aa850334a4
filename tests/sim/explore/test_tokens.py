"""Replay tokens: the same run byte for byte, through edits of the code, honest when they no longer fit."""

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import BadToken, Setting, replay
from fencepost.sim.explore import tokens as tk
from fencepost.sim.explore.audit import AuditRequest
from fencepost.sim.explore.reporting import run_audit, run_token
from fencepost.sim.explore.runs import run
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.loops import Loops
from tests.sim.explore.programs import program_of, random_codes

TOKENS, REPLAYS = 100, 20


def random_token(seed: int) -> tuple[Setting, str, list[tk.Target]]:
    """A token of a random schedule of a random program, with the steps it stands for."""
    draw = random.Random(seed)
    setting = Setting(program_of(random_codes(draw, 3), "nothing"), Budget(1, 1, 1, 1, 1, 1, 1, 1))
    world = setting.world()
    choices: list[tuple[int, str]] = []

    def choose(world: World, enabled: Any) -> tuple[int, str]:
        actor = draw.choice(list(enabled))
        choices.append((actor, draw.choice(world.alternatives(actor))))
        return choices[-1]

    run(world, setting.program, choose, setting.steps_max)
    world.close()
    steps = tk.name_choices(setting, choices, world.footprints, timed=True)
    return setting, tk.write(tk.shorten(setting, steps)), steps


@pytest.mark.slow
def test_tokens_repeat_their_run_byte_for_byte() -> None:
    for seed in range(TOKENS):
        setting, token, steps = random_token(seed)
        first = replay(setting.program, token)
        assert first.misfit == ""
        assert first.steps == steps
        expected = [repr(event) for event in first.events("r")]
        for _ in range(REPLAYS - 1):
            assert [repr(event) for event in replay(setting.program, token).events("r")] == expected


def program(extra: Callable[[Any], None]) -> Callable[[World], None]:
    def write_twice(world: World, name: str) -> None:
        store = world.store()
        extra(store)
        store.put("first", name.encode(), when=ABSENT)
        store.put("second", name.encode(), when=ANYTHING)

    def made(world: World) -> None:
        for name in ("ann", "bob"):
            world.spawn(write_twice, world, name, name=name)
        world.finally_(
            "both keys agree", lambda view: view.get("first") == view.get("second") or "they disagree"
        )

    return made


TOKEN = "bob:put:first:1,ann:put:second:1"


def test_a_token_survives_requests_to_other_keys() -> None:
    before = replay(program(lambda store: None), "ann:put:first:1,bob:put:second:1,ann:put:second:1")
    assert before.violation is None
    before = replay(program(lambda store: None), TOKEN)
    after = replay(program(lambda store: store.get("config")), TOKEN)
    assert (before.misfit, after.misfit) == ("", "")
    assert (before.violation is None) == (after.violation is None)
    assert len(after.steps) == len(before.steps) + 2


def test_a_token_that_no_longer_fits_says_where() -> None:
    result = replay(program(lambda store: None), "bob:put:third:1,ann:put:second:1")
    assert "bob:put:third:1" in result.misfit


def test_a_fault_that_is_no_longer_possible_is_named() -> None:
    result = replay(program(lambda store: store.get("first")), "ann:get:first:1=late")
    assert "ann:get:first:1=late" in result.misfit


@pytest.mark.parametrize("token", ["nonsense", "a:put:k", "a:put:k:x", "a:put:k:1,,b:get:k:1"])
def test_text_that_is_no_token_is_refused_with_the_part_at_fault(token: str) -> None:
    with pytest.raises(BadToken, match="process:operation:key:occurrence"):
        replay(program(lambda store: None), token)


def test_an_escape_that_is_no_character_is_refused() -> None:
    with pytest.raises(BadToken, match="is not UTF-8"):
        replay(program(lambda store: None), "a:put:%80:1")


def test_odd_names_are_quoted_so_that_a_token_is_one_word_in_a_shell() -> None:
    target = tk.Target("ann & co", "put", "a key:with,all=sorts/of $things", 2, "reply_lost")
    text = tk.write([target])
    assert not set(text) & set(" &$;'\"\\|<>*?()`!#")
    assert tk.read(text) == [target]


def test_a_token_names_what_its_rule_depends_on() -> None:
    """If this fails, a new session follows another rule, and says that the program does not repeat itself."""
    loops = Loops()
    loops.add([["a loop in vain"], [("srv/Thread-1 (keep)", "put a/lock#,x")]])
    loops.adopt()
    token = tk.write([], {"no zombie"}, {"self.locked"}, loops)
    assert token == "~no%20zombie,@self.locked,+srv/Thread-1%20%28keep%29:put%20a/lock%23%2Cx"
    setting = tk.muted_for(Setting(lambda world: None), token)
    assert tk.read(token) == []
    assert setting.muted == {"no zombie"}
    assert setting.lines == {"self.locked"}
    assert setting.loops.starving == {("srv/Thread-1 (keep)", "put a/lock#,x")}


def test_a_token_without_marks_has_no_loops_with_effects() -> None:
    """The session that found others must not repeat the run in another way than a new one."""
    setting = Setting(lambda world: None)
    setting.loops.add([["a loop in vain"], [("p", "put a")]])
    setting.loops.adopt()
    assert tk.muted_for(setting, "default").loops.starving == set()
    assert tk.muted_for(setting, "default").loops.is_endless("a loop in vain")
    assert setting.loops.starving == {("p", "put a")}


CACHE: dict[str, bool] = {}


def test_a_token_repeats_a_run_in_which_processes_change_variables_of_a_module() -> None:
    """If this fails, the processes of a replay share what each of them has for itself in a search."""

    def first() -> bool:
        if "known" in CACHE:
            return False
        CACHE["known"] = True
        return True

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            store.head("work")
            world.note("first", first())

        for name in ("ann", "bob"):
            world.spawn(work, name=name, restart=False)
        world.finally_("one is first", lambda view: len([one for one in view.notes("first") if one]) == 1)

    found = run_audit(AuditRequest(program, budget=NO_FAULTS)).counterexamples[0]
    CACHE.clear()
    again = run_token(AuditRequest(program, budget=NO_FAULTS), found.token)
    assert [one.property for one in again.counterexamples] == [found.property]


@functools.lru_cache
def cached(name: str) -> str:
    return name


def test_a_cached_function_is_replaced_in_every_run_of_a_token() -> None:
    """If this fails, the replacement of the first audit calls itself in the second one."""

    def program(world: World) -> None:
        store = world.store()
        world.spawn(lambda: store.put(cached("a"), b"", when=ANYTHING), name="ann", restart=False)
        world.finally_("nothing is written", lambda view: view.get("a") is None)

    for _ in range(2):
        found = run_audit(AuditRequest(program, budget=NO_FAULTS)).counterexamples[0]
        assert run_token(AuditRequest(program, budget=NO_FAULTS), found.token).verdict == "violated"
