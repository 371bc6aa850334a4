"""Requests that are asked until they are answered: reads, and creates whose name only one body can take.

A create that was answered `unknown` may have landed, may land later, or never. Sending the same create
again is safe here and only here: the key takes one body, ours can be told from everybody else's, and
whoever meets an object reads it to see whose it is. So `create_all` ends with a fact: ours stands, or
another's stands - or, when the store stays silent, with the honest answer that nobody knows.

How long is asked, and what is raised when a read is never answered, is the protocol's own: its `Asking`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import (
    NOT_NOW,
    Get,
    ListReply,
    Outcome,
    Put,
    Reply,
    Request,
    UploadsReply,
    VersionsReply,
)

R = TypeVar("R", bound=Reply)
P = TypeVar("P", ListReply, VersionsReply, UploadsReply)


@dataclass(frozen=True, slots=True)
class Stands:
    """What is known of a key after trying to create it."""

    created: bool
    """The store acknowledged our create."""
    body: bytes | None
    """The bytes that stand there; None when that could not be found out."""
    given_up: bool = False
    """Nobody looked (only without `read-back-on-unknown`)."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How patiently one protocol asks."""

    actor: str
    """Whose random stream shortens the pauses."""
    away: type[Exception]
    """What is raised when a read is never answered."""
    rounds_max: int = 5
    """How often an unanswered request is asked again."""
    pause_s: float = 0.1
    """The first pause; they double."""

    def pause(self, env: Environment, attempt: int) -> None:
        """Wait before asking again: doubling, shortened by a random share."""
        env.sleep(self.pause_s * 2.0**attempt * (1 - env.stream(self.actor).random() / 2))

    def read(self, store: Store, env: Environment, request: Request[R]) -> R:
        reply: R = store.send(request)
        return reply if not silent(reply) else self.read_all(store, env, [request])[0]

    def read_all(self, store: Store, env: Environment, requests: Sequence[Request[Any]]) -> list[Any]:
        """Replies to reads, asked again until each is a real answer."""
        replies: list[Any] = list(store.send_all(requests)) if requests else []
        for attempt in range(self.rounds_max):
            again = [at for at, reply in enumerate(replies) if silent(reply)]
            if not again:
                return replies
            self.pause(env, attempt)
            for at, reply in zip(again, store.send_all([requests[at] for at in again]), strict=True):
                replies[at] = reply
        again = [at for at, reply in enumerate(replies) if silent(reply)]
        if again:
            request = requests[again[0]]
            raise self.away(
                f"the store at {store.url} did not answer {request.kind} {request.subject!r} in "
                f"{self.rounds_max + 1} attempts; try again when it does"
            )
        return replies

    def pages(self, store: Store, env: Environment, page_at: Callable[[str], Request[P]]) -> Iterator[P]:
        """A listing, page by page to its end; `page_at` asks for the page at a token."""
        token = ""
        while True:
            page = self.read(store, env, page_at(token))
            yield page
            token = page.next
            if not token:
                return

    def create_all(
        self,
        store: Store,
        env: Environment,
        puts: Sequence[Put],
        *,
        first: Sequence[Any] | None = None,
        look: Callable[[Put], bool] = lambda _: True,
    ) -> list[Stands]:
        """Create each object or find out what stands in its place. `first`: replies already received."""
        found: dict[int, Stands] = {}
        open_ = list(range(len(puts)))
        replies = first if first is not None else (store.send_all(puts) if puts else [])
        for attempt in range(self.rounds_max + 1):
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
            if attempt < self.rounds_max:
                self.pause(env, attempt)
                replies = store.send_all([puts[at] for at in open_])
        return [found.get(at, Stands(False, None)) for at in range(len(puts))]

    def ensure_all(self, store: Store, env: Environment, puts: Sequence[Put]) -> int:
        """Create what follows from its key: whoever made it, it stands. Returns how many are ours."""
        replies = list(store.send_all(puts)) if puts else []
        for attempt in range(self.rounds_max + 1):
            again = [at for at, reply in enumerate(replies) if silent(reply)]
            if not again:
                return sum(reply.outcome is Outcome.DONE for reply in replies)
            if attempt < self.rounds_max:
                self.pause(env, attempt)
                for at, reply in zip(again, store.send_all([puts[at] for at in again]), strict=True):
                    replies[at] = reply
        raise self.away(
            f"the store at {store.url} did not take {puts[again[0]].key!r} in "
            f"{self.rounds_max + 1} attempts; try again when it does"
        )


def silent(reply: Reply) -> bool:
    """Whether this is no answer."""
    return reply.outcome in NOT_NOW or reply.outcome is Outcome.UNKNOWN
