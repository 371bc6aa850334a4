"""The parts that the components of one protocol share: store, environment, retry policy, requests under it.

Each protocol extends `Context` by its own settings and safeguards (`publish`: one branch, `ingest`: one
bucket).

Reads are sent until they are answered. So are creates of objects whose key only one body can take: a create
with an unknown outcome may have been applied, may be applied later, or never. Sending it again is safe here
and only here: the key accepts one body, our body differs from all others, and a reader of the object sees
whose it is. So `create_all` ends with a fact (our object exists, or another's does) or, if the store does not
answer, with an unknown result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import NOT_NOW, Outcome, R, Reply, Request

P = TypeVar("P", ask.ListReply, ask.VersionsReply, ask.UploadsReply)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts of one protocol's requests, and the pauses between them."""

    actor: str
    """The random stream that shortens the pauses."""
    unavailable: type[Exception]
    """Raised when a request gets no answer in any attempt."""
    attempts: int = 6
    """The largest number of times that a request is sent."""
    backoff_s: float = 0.1
    """The first pause between attempts; every further one is twice as long."""

    def back_off(self, env: Environment, attempt: int) -> None:
        """Pause after `attempt` (the first is 0): doubling, shortened by a random share of up to a half."""
        env.sleep(self.backoff_s * 2.0**attempt * (1 - env.stream(self.actor).random() / 2))


@dataclass(frozen=True, slots=True)
class Created:
    """The knowledge about a key after an attempt to create it."""

    created: bool
    """The store acknowledged our create."""
    body: bytes | None
    """The bytes at the key; None if they are unknown."""
    given_up: bool = False
    """The outcome was unknown and the key was not read (only without `read-back-on-unknown`)."""


@dataclass(eq=False)
class Context:
    store: Store
    env: Environment
    retry: RetryPolicy = field(kw_only=True)

    def back_off(self, attempt: int) -> None:
        """Pause after `attempt`; the first is 0."""
        self.retry.back_off(self.env, attempt)

    def read(self, request: Request[R]) -> R:
        reply: R = self.store.send(request)
        return reply if _answered(reply) else self.read_all([request])[0]

    def read_all(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Replies to reads; those without an answer are sent again."""
        replies, missing = self._send_all(requests)
        if missing:
            request = requests[missing[0]]
            raise self._unavailable(f"answer {request.kind} {request.subject!r}")
        return replies

    def pages(self, page_at: Callable[[str], Request[P]]) -> Iterator[P]:
        """All pages of a listing; `page_at` makes the request for the page at a token."""
        token = ""
        while True:
            page = self.read(page_at(token))
            yield page
            token = page.next
            if not token:
                return

    def create_all(
        self,
        puts: Sequence[ask.Put],
        *,
        replies: Sequence[Any] | None = None,
        read_back: Callable[[ask.Put], bool] = lambda _: True,
    ) -> list[Created]:
        """Create each object, or find out what is at its key. `replies`: to a first attempt already made."""
        found: dict[int, Created] = {}
        open_ = list(range(len(puts)))
        if replies is None:
            replies = self.store.send_all(puts) if puts else []
        for attempt in range(self.retry.attempts):
            unclear = []
            for at, reply in zip(open_, replies, strict=True):
                if reply.outcome is Outcome.DONE:
                    found[at] = Created(True, puts[at].body)
                elif reply.outcome is Outcome.UNKNOWN and not read_back(puts[at]):
                    found[at] = Created(False, None, given_up=True)
                elif reply.outcome not in NOT_NOW:
                    unclear.append(at)
            if unclear:
                bodies = self.store.send_all([ask.Get(puts[at].key) for at in unclear])
                for at, reply in zip(unclear, bodies, strict=True):
                    if reply.outcome is Outcome.DONE:
                        found[at] = Created(False, reply.body)
            open_ = [at for at in open_ if at not in found]
            if not open_:
                break
            if attempt < self.retry.attempts - 1:
                self.back_off(attempt)
                replies = self.store.send_all([puts[at] for at in open_])
        return [found.get(at, Created(False, None)) for at in range(len(puts))]

    def ensure_all(self, puts: Sequence[ask.Put]) -> int:
        """Create objects whose body follows from their key, so that any writer's is as good as ours.

        Returns how many of them this call created.
        """
        replies, missing = self._send_all(puts)
        if missing:
            raise self._unavailable(f"take {puts[missing[0]].key!r}")
        return sum(reply.outcome is Outcome.DONE for reply in replies)

    def _send_all(self, requests: Sequence[Request[Any]]) -> tuple[list[Any], list[int]]:
        """The replies, and the indices of those requests that never got an answer."""
        replies: list[Any] = list(self.store.send_all(requests)) if requests else []
        for attempt in range(self.retry.attempts):
            missing = [at for at, reply in enumerate(replies) if not _answered(reply)]
            if not missing or attempt == self.retry.attempts - 1:
                break
            self.back_off(attempt)
            again = self.store.send_all([requests[at] for at in missing])
            for at, reply in zip(missing, again, strict=True):
                replies[at] = reply
        return replies, missing

    def _unavailable(self, what: str) -> Exception:
        return self.retry.unavailable(
            f"the store at {self.store.url} did not {what} in {self.retry.attempts} attempts; "
            "try again when it does"
        )


def _answered(reply: Reply) -> bool:
    """Return True if the outcome is known and final."""
    return reply.outcome not in NOT_NOW and reply.outcome is not Outcome.UNKNOWN
