"""A state that was met before is left out only where the theory of `sim.explore.states` allows it.

No program is known whose endings need the first condition: 8,883 random ones end alike without it. The search
relies on it all the same, because the summary of a state has no races of a step that slept in all runs below.
"""

from typing import Any

import pytest

from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.reduction import Node
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.states import StateCache
from fencepost.sim.world import POWER_ACTOR, Budget, World
from fencepost.sim.world.footprints import EVERYTHING
from tests.sim.explore.test_broken_explorers import Eager, seen_eagerly, seen_soundly, setting_of
from tests.sim.filesystem.programs import program_of

SEEDS = range(6)


def explored(setting: Setting) -> Eager:
    search = Eager(setting, first_only=False)
    search.explore(lambda found: found.runs > 1_000)
    return search


def test_a_state_is_left_out_only_if_all_that_slept_there_sleeps_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_out: list[bool] = []
    sound = StateCache.seen

    def seen(self: StateCache, world: World, node: Node, runs: int) -> bool:
        found = sound(self, world, node, runs)
        known: Any = self._known.get(node.key) if node.key is not None else None
        if known is not None:
            assert found is (known[0] <= node.sleep.keys())
            left_out.append(found)
        return found

    monkeypatch.setattr(StateCache, "seen", seen)
    for seed in SEEDS:
        explored(setting_of(seed))
    assert left_out.count(True) > 20
    assert left_out.count(False) > 20


def test_a_state_keeps_what_slept_when_it_was_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []
    sound = StateCache.store

    def store(self: StateCache, node: Node, runs: int) -> None:
        sound(self, node, runs)
        if node.key is not None and node.key in self._known:
            assert self._known[node.key][0] == frozenset(node.sleep)
            kept.append(bool(node.sleep))

    monkeypatch.setattr(StateCache, "store", store)
    for seed in SEEDS:
        explored(setting_of(seed))
    assert kept.count(True) > 20


@pytest.mark.parametrize("seed", range(39, 47))
def test_a_search_that_keeps_every_state_finds_the_same(seed: int) -> None:
    """Most searches keep only states that are costly to explore again, of which small programs have few."""
    assert seen_eagerly(seed) == seen_soundly(seed)


def test_a_state_keeps_that_power_may_be_lost_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another path to the state is raced with that loss, which would see what the path wrote last.

    No program was found whose verdict depends on it: what such a race requires, other races require too.
    """
    kept: list[set[Any]] = []
    sound = StateCache.store

    def store(self: StateCache, node: Node, runs: int) -> None:
        sound(self, node, runs)
        kept.append(node.summary)

    program = program_of([[("save", "a")], [("save", "b")]], "nothing", "strict")
    monkeypatch.setattr(StateCache, "store", store)
    power = Budget(crash=0, reply_lost=0, request_lost=0, pause=0, power_loss=1)
    ReducedSearch(Setting(program, power)).explore(lambda search: search.runs > 2_000)
    assert any((actor, r, w) == (POWER_ACTOR, EVERYTHING, 0) for some in kept for actor, r, w, *_ in some)
