"""A fault does what its name says, no more, no less, and can be shown to have struck."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import ABSENT, ANYTHING, Outcome
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Get, Put


def broken(*faults: Fault) -> tuple[Faulty, MemoryStore]:
    inner = MemoryStore(env=SeededEnvironment(7))
    return Faulty(inner, faults), inner


@pytest.mark.parametrize(
    ("effect", "answered", "applied"),
    [
        (Effect.THROTTLED, Outcome.THROTTLED, False),
        (Effect.CONFLICT, Outcome.CONFLICT, False),
        (Effect.REQUEST_LOST, Outcome.UNKNOWN, False),
        (Effect.REPLY_LOST, Outcome.UNKNOWN, True),
        (Effect.LATE, Outcome.UNKNOWN, False),
        (Effect.DUPLICATED, Outcome.EXISTS, True),
    ],
)
def test_each_effect_on_a_create(effect: Effect, answered: Outcome, applied: bool) -> None:
    store, inner = broken(Fault(effect, times=1))
    assert store.put("k", b"1", when=ABSENT).outcome is answered
    assert ("k" in inner.contents()) is applied
    assert [fault.effect for fault, _ in store.struck] == [effect]
    assert store.get("other").outcome is Outcome.MISSING


def test_a_refusal_can_be_lost_as_well() -> None:
    """Unknown must not mean `probably applied`."""
    store, inner = broken(Fault(Effect.REPLY_LOST))
    inner.put("k", b"theirs", when=ABSENT)
    assert store.put("k", b"ours", when=ABSENT).outcome is Outcome.UNKNOWN
    assert inner.contents() == {"k": b"theirs"}


def test_a_late_write_lands_behind_later_ones() -> None:
    """The writer that woke up an hour later: it buries what came after it."""
    store, inner = broken(Fault(Effect.LATE, prefix="k", times=1, delay=2))
    assert store.put("k", b"late", when=ANYTHING).outcome is Outcome.UNKNOWN
    store.put("k", b"second", when=ANYTHING)
    store.get("k")
    assert inner.contents() == {"k": b"second"}
    store.get("k")
    assert inner.contents() == {"k": b"late"}


def test_all_late_writes_land_on_request_in_order() -> None:
    store, inner = broken(Fault(Effect.LATE, times=2, delay=100))
    store.put("k", b"1", when=ANYTHING)
    store.put("k", b"2", when=ANYTHING)
    store.land_all()
    assert inner.contents() == {"k": b"2"}
    store.land_all()


def test_faults_choose_by_kind_prefix_and_number() -> None:
    store, _ = broken(Fault(Effect.THROTTLED, kinds={"get"}, prefix="a/", times=1))
    requests = [Put("a/1", b"", ABSENT), Get("b/1"), Get("a/1"), Get("a/1")]
    outcomes = [reply.outcome.value for reply in store.send_all(requests)]
    assert outcomes == ["done", "missing", "throttled", "done"]


def test_a_conflict_never_answers_a_read() -> None:
    store, _ = broken(Fault(Effect.CONFLICT))
    assert store.get("k").outcome is Outcome.MISSING
    assert store.put("k", b"", when=ABSENT).outcome is Outcome.CONFLICT


def test_chance_is_drawn_from_the_environment_and_repeats() -> None:
    def outcomes(seed: int) -> list[Any]:
        store = Faulty(MemoryStore(env=SeededEnvironment(seed)), [Fault(Effect.REQUEST_LOST, chance=0.5)])
        return [store.get("k").outcome for _ in range(64)]

    assert outcomes(1) == outcomes(1)
    assert outcomes(1) != outcomes(2)
    assert 10 < outcomes(1).count(Outcome.UNKNOWN) < 54
