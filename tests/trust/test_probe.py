"""`probe` finds a lost update wherever it shows, and conditions that fail for large bodies only.

If this fails, a store that loses acknowledged writes is certified as safe.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.store import requests as ask
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Absent, Matches
from fencepost.sim.probe import QUICK, Finding, Plan, Probe, Verdict

PLAN = Plan(rounds=60, seconds=30, threads=4, body_bytes=0, samples=1)
MIB = 1024 * 1024


def probed(store: MemoryStore, *only: str, plan: Plan = PLAN) -> dict[str, Finding]:
    return {row.name: row for row in Probe(store, plan, only=only).run().features}


class RollsBack(MemoryStore):
    """Restores the version before the last acknowledged if-match put, on some read of the key.

    Within one round every reply and the final object agree; the loss shows only across rounds.
    """

    def __init__(self, reads: Callable[[int], bool]) -> None:
        super().__init__()
        self._reads = reads
        self._reads_done = 0
        self._previous: dict[str, bytes] = {}
        self.lost = 0

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Put) and isinstance(request.when, Matches):
            standing = super().send(ask.Get(request.key))
            reply = super().send(request)
            if reply.done:
                self._previous[request.key] = standing.body
            return reply
        if isinstance(request, ask.Get) and request.key in self._previous:
            self._reads_done += 1
            if self._reads(self._reads_done):
                super().send(ask.Put(request.key, self._previous.pop(request.key), ANYTHING))
                self.lost += 1
        return super().send(request)


def test_an_update_lost_between_rounds_is_unsafe() -> None:
    """Every twentieth read, which is the first one of a round, finds the counter one lower."""
    store = RollsBack(lambda number: number % 20 == 0)
    row = probed(store, "counter-threads")["counter-threads"]
    assert store.lost
    assert row.verdict is Verdict.UNSAFE, row.detail
    assert "acknowledged" in row.detail
    assert 0 < row.bad <= row.rounds
    assert any(step.outcome.startswith("done") and step.request.startswith("put") for step in row.history)


def test_an_update_lost_after_the_last_round_is_unsafe() -> None:
    """Two reads a round; the read after the last round is the only one that sees the loss."""
    plan = replace(PLAN, rounds=12)
    store = RollsBack(lambda number: number == 24)
    row = probed(store, "counter-threads", plan=plan)["counter-threads"]
    assert store.lost == 1
    assert row.verdict is Verdict.UNSAFE, row.detail


@pytest.mark.parametrize("at", range(1, 25))
def test_one_update_lost_at_any_read_is_unsafe(at: int) -> None:
    store = RollsBack(lambda number: number == at)
    row = probed(store, "counter-threads", plan=replace(PLAN, rounds=12))["counter-threads"]
    assert (row.verdict is Verdict.UNSAFE) == (store.lost > 0), (row.detail, store.lost)


@pytest.mark.parametrize("seed", range(5))
def test_any_loss_the_counter_sees_is_unsafe(seed: int) -> None:
    """Random rolled back reads, compared with the store's own count of what it lost."""
    dice = random.Random(seed)
    store = RollsBack(lambda _: dice.random() < 0.02)
    row = probed(store, "counter-threads")["counter-threads"]
    assert (row.verdict is Verdict.UNSAFE) == (store.lost > 0), (row.detail, store.lost)


class IgnoresConditionsOfLargePuts(MemoryStore):
    """Another code path writes bodies from some size on, and drops the condition."""

    limit = 0
    condition: type = Absent

    def send(self, request: Any) -> Any:
        large = isinstance(request, ask.Put) and len(request.body) > self.limit
        if large and isinstance(request.when, self.condition):
            request = replace(request, when=ANYTHING)
        return super().send(request)


@pytest.mark.parametrize("limit", [MIB, 8 * MIB])
@pytest.mark.parametrize(("condition", "name"), [(Absent, "create-only-put"), (Matches, "if-match-put")])
def test_a_condition_ignored_for_large_bodies_only_is_unsafe(limit: int, condition: type, name: str) -> None:
    store = IgnoresConditionsOfLargePuts()
    store.limit, store.condition = limit, condition
    row = probed(store, name)[name]
    assert row.verdict is Verdict.UNSAFE
    assert "bytes" in row.detail
    assert not store.contents()


class IgnoresConditionsOfManyParts(MemoryStore):
    """Completing an upload of several parts overwrites."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.CompleteUpload) and len(request.parts) > 1:
            request = replace(request, when=ANYTHING)
        return super().send(request)


@pytest.mark.parametrize("name", ["create-only-complete", "if-match-complete"])
def test_a_condition_ignored_for_several_parts_is_unsafe(name: str) -> None:
    assert probed(IgnoresConditionsOfManyParts(), name)[name].verdict is Verdict.UNSAFE


class IgnoresConditionsOfLargeDeletes(MemoryStore):
    """Deletes large objects whatever the condition."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Delete) and isinstance(request.when, Matches):
            standing = super().send(ask.Get(request.key))
            if standing.done and len(standing.body) > MIB:
                request = replace(request, when=ANYTHING)
        return super().send(request)


def test_a_condition_ignored_for_deletes_of_large_objects_is_unsafe() -> None:
    row = probed(IgnoresConditionsOfLargeDeletes(), "if-match-delete")["if-match-delete"]
    assert row.verdict is Verdict.UNSAFE, row.detail
    assert "bytes" in row.detail


@pytest.mark.parametrize(
    "name",
    ["create-only-put", "if-match-put", "if-match-delete", "create-only-complete", "if-match-complete"],
)
def test_large_bodies_are_tried_or_named_as_not_tried(name: str) -> None:
    row = probed(MemoryStore(), name)[name]
    assert row.verdict is Verdict.SAFE, row.detail
    assert "not tried" not in row.detail
    row = probed(MemoryStore(), name, plan=QUICK)[name]
    assert row.verdict is Verdict.SAFE
    assert "not tried" in row.detail
