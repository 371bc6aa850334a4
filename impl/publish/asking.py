"""Requests that are asked until they are answered: reads, and creates whose name only one body can take.

A create that was answered `unknown` may have landed, may land later, or never. Sending the same create
again is safe here and only here: the key takes one body, ours names its plan, and whoever meets an object
reads it to see whose it is. So the loop below ends with a fact: ours stands, or another's stands - or, when
the store stays silent, with the honest answer that nobody knows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.impl.environment import Environment
from holdfast.impl.publish.errors import StoreAway
from holdfast.impl.store.interface import Store
from holdfast.impl.store.requests import NOT_NOW, Get, Outcome, Put, Reply, Request

ROUNDS_MAX = 5
"""How often an unanswered request is asked: our own limit, about two seconds of pauses."""
PAUSE_S = 0.1

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Stands:
    """What is known of a key after trying to create it."""

    created: bool
    """The store acknowledged our create."""
    body: bytes | None
    """The bytes that stand there; None when that could not be found out."""
    given_up: bool = False
    """Nobody looked (only without `read-back-on-unknown`)."""


def pause(env: Environment, attempt: int) -> None:
    """Wait before asking again: doubling, shortened by a random share."""
    env.sleep(PAUSE_S * 2.0**attempt * (1 - env.stream("publish").random() / 2))


def read_all(store: Store, env: Environment, requests: Sequence[Request[Any]]) -> list[Any]:
    """Replies to reads, asked again until each is a real answer."""
    replies: list[Any] = list(store.send_all(requests)) if requests else []
    for attempt in range(ROUNDS_MAX):
        silent = [at for at, reply in enumerate(replies) if _silent(reply)]
        if not silent:
            return replies
        pause(env, attempt)
        for at, reply in zip(silent, store.send_all([requests[at] for at in silent]), strict=True):
            replies[at] = reply
    silent = [at for at, reply in enumerate(replies) if _silent(reply)]
    if silent:
        request = requests[silent[0]]
        raise StoreAway(
            f"the store at {store.url} did not answer {request.kind} {request.subject!r} in "
            f"{ROUNDS_MAX + 1} attempts; try again when it does"
        )
    return replies


def read(store: Store, env: Environment, request: Request[R]) -> R:
    reply: R = store.send(request)
    return reply if not _silent(reply) else read_all(store, env, [request])[0]


def _silent(reply: Reply) -> bool:
    return reply.outcome in NOT_NOW or reply.outcome is Outcome.UNKNOWN


def create_all(
    store: Store,
    env: Environment,
    puts: Sequence[Put],
    *,
    first: Sequence[Any] | None = None,
    look: Callable[[Put], bool] = lambda _: True,
) -> list[Stands]:
    """Create each object or find out what stands in its place. `first` holds replies already received."""
    found: dict[int, Stands] = {}
    open_ = list(range(len(puts)))
    replies = first if first is not None else (store.send_all(puts) if puts else [])
    for attempt in range(ROUNDS_MAX + 1):
        looking = []
        for at, reply in zip(open_, replies, strict=True):
            if reply.outcome is Outcome.DONE:
                found[at] = Stands(True, puts[at].body)
            elif reply.outcome is Outcome.UNKNOWN and not look(puts[at]):
                found[at] = Stands(False, None, given_up=True)
            elif reply.outcome not in NOT_NOW:
                looking.append(at)
        if looking:
            seen = store.send_all([Get(puts[at].key) for at in looking])
            for at, reply in zip(looking, seen, strict=True):
                if reply.outcome is Outcome.DONE:
                    found[at] = Stands(False, reply.body)
        open_ = [at for at in open_ if at not in found]
        if not open_:
            break
        if attempt < ROUNDS_MAX:
            pause(env, attempt)
            replies = store.send_all([puts[at] for at in open_])
    return [found.get(at, Stands(False, None)) for at in range(len(puts))]
