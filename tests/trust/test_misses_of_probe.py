"""What `fencepost probe` does not see: a test for each line of `what-can-still-be-wrong.md`.

Every store here is broken, and the probe says "safe". When a test fails because the probe finds more, the
page needs an edit.
"""

from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.store import requests as ask
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Absent
from fencepost.sim.probe import QUICK, Verdict
from tests.trust.test_probe import MIB, PLAN, IgnoresConditionsOfLargePuts, RollsBack, probed


def verdict(store: MemoryStore, *rows: str, **changes: Any) -> Verdict:
    found = probed(store, *rows, plan=replace(PLAN, **changes))
    (verdict,) = {row.verdict for row in found.values()}
    return verdict


def test_a_loss_that_is_rarer_than_the_rounds() -> None:
    def store() -> RollsBack:
        return RollsBack(lambda number: number == 100)

    assert verdict(store(), "counter-threads", rounds=12) is Verdict.SAFE
    assert verdict(store(), "counter-threads", rounds=60) is Verdict.UNSAFE


def test_a_condition_that_is_ignored_above_the_sizes_tried() -> None:
    store = IgnoresConditionsOfLargePuts()
    store.limit = 8 * MIB + 1
    assert verdict(store, "create-only-put") is Verdict.SAFE
    assert verdict(store, "create-only-put", large_bytes=(8 * MIB + 2,)) is Verdict.UNSAFE


def test_large_bodies_in_a_quick_probe() -> None:
    store = IgnoresConditionsOfLargePuts()
    store.limit = MIB
    assert probed(store, "create-only-put", plan=QUICK)["create-only-put"].verdict is Verdict.SAFE


class IgnoresConditions(MemoryStore):
    """Some create-only puts overwrite."""

    def ignores(self, request: ask.Put) -> bool:
        raise NotImplementedError

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Put) and isinstance(request.when, Absent) and self.ignores(request):
            request = replace(request, when=ANYTHING)
        return super().send(request)


class Elsewhere(IgnoresConditions):
    def ignores(self, request: ask.Put) -> bool:
        return request.key.startswith("catalog/")


class Later(IgnoresConditions):
    """From a moment on, such as an upgrade of the server."""

    upgraded = False

    def ignores(self, _: ask.Put) -> bool:
        return self.upgraded


def test_other_keys_and_buckets() -> None:
    store = Elsewhere()
    assert verdict(store, "create-only-put", "racing-creates-threads", rounds=5) is Verdict.SAFE
    assert all(store.put("catalog/1", body, when=ask.ABSENT).done for body in (b"1", b"2"))


def test_a_store_that_changes_afterwards() -> None:
    store = Later()
    assert verdict(store, "create-only-put", rounds=5) is Verdict.SAFE
    store.upgraded = True
    assert verdict(store, "create-only-put", rounds=5) is Verdict.UNSAFE


class LosesMemory(MemoryStore):
    """Acknowledges before it stores: what it holds does not survive a restart."""

    def restart(self) -> None:
        for key in list(self.contents()):
            super().send(ask.Delete(key, ANYTHING))


def test_what_does_not_survive_a_restart() -> None:
    store = LosesMemory()
    assert verdict(store, "read-after-write", "create-only-put", rounds=5) is Verdict.SAFE
    store.put("k", b"acknowledged", when=ask.ABSENT)
    store.restart()
    assert not store.get("k").done


@pytest.mark.parametrize("name", ["create-only-put"])
def test_features_that_were_left_out(name: str) -> None:
    """`--only`: the verdict is about the rows that it lists."""
    store = RollsBack(lambda number: number % 5 == 0)
    assert verdict(store, name, rounds=5) is Verdict.SAFE
    assert verdict(store, "counter-threads", rounds=60) is Verdict.UNSAFE
