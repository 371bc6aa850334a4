"""Asked again only where it is safe, and never for ever."""

import itertools

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store import requests as ask
from fencepost.impl.store.layers import Effect, Fault, Faulty, Metered, Retrying
from fencepost.impl.store.layers.retrying import may_ask_again
from fencepost.impl.store.memory import MemoryStore

READS = [ask.Get("k"), ask.Head("k"), ask.List(), ask.ListVersions(), ask.ListUploads()]
WRITES = [
    ask.Put("k", b"", ABSENT),
    ask.Delete("k", ANYTHING),
    ask.CreateUpload("k"),
    ask.UploadPart("k", "u", 1, b""),
    ask.AbortUpload("k", "u"),
]
COMPLETE = ask.CompleteUpload("k", "u", ((1, "e"),), Matches("e"))
AGAIN = (
    set(itertools.product(READS, [Outcome.THROTTLED, Outcome.UNKNOWN]))
    | set(itertools.product(WRITES, [Outcome.THROTTLED, Outcome.CONFLICT]))
    | {(COMPLETE, Outcome.THROTTLED)}
)


@pytest.mark.parametrize("request_", [*READS, *WRITES, COMPLETE], ids=lambda request: request.kind)
@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_whole_table(request_: ask.Request[ask.Reply], outcome: Outcome) -> None:
    assert may_ask_again(request_, outcome) is ((request_, outcome) in AGAIN)


def test_a_passing_fault_is_overcome_with_growing_pauses() -> None:
    env = SeededEnvironment(1)
    wire = Metered(Faulty(MemoryStore(env=env), [Fault(Effect.THROTTLED, times=3)]))
    store = Retrying(wire, attempts=4, pause_s=0.1, pause_max_s=0.2)
    assert store.put("k", b"", when=ABSENT).done
    assert wire.total == {"put": 4}
    assert 0.5 * 0.5 <= env.monotonic_ns() / 1e9 <= 0.5


def test_it_gives_up_and_passes_the_last_reply_on() -> None:
    wire = Metered(Faulty(MemoryStore(env=SeededEnvironment()), [Fault(Effect.THROTTLED)]))
    assert Retrying(wire, attempts=3).get("k").outcome is Outcome.THROTTLED
    assert wire.total == {"get": 3}


def test_an_unknown_create_is_not_sent_again() -> None:
    """Sent again it would meet itself, and a healthy writer would call itself beaten."""
    inner = MemoryStore(env=SeededEnvironment())
    wire = Metered(Faulty(inner, [Fault(Effect.REPLY_LOST, times=1)]))
    assert Retrying(wire).put("k", b"", when=ABSENT).outcome is Outcome.UNKNOWN
    assert wire.total == {"put": 1}
    assert "k" in inner.contents()


def test_only_what_failed_of_a_step_is_sent_again() -> None:
    wire = Metered(
        Faulty(MemoryStore(env=SeededEnvironment()), [Fault(Effect.THROTTLED, prefix="b", times=1)])
    )
    replies = Retrying(wire).send_all([ask.Put(key, b"", ABSENT) for key in "abc"])
    assert [reply.outcome for reply in replies] == [Outcome.DONE] * 3
    assert wire.total == {"put": 4}
