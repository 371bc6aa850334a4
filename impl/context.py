"""What the components of one protocol share: store, environment and retry policy.

Each protocol extends `Context` by its own settings and safeguards (`publish`: one branch, `ingest`: one
bucket). The methods send requests under the retry policy.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.retry import Created, P, R, RetryPolicy
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Put, Request


@dataclass(eq=False)
class Context:
    """See the top of this module."""

    store: Store
    env: Environment
    retry: RetryPolicy = field(kw_only=True)

    def read(self, request: Request[R]) -> R:
        return self.retry.read(self.store, self.env, request)

    def read_all(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Replies to reads, in one parallel step."""
        return self.retry.read_all(self.store, self.env, requests)

    def pages(self, page_at: Callable[[str], Request[P]]) -> Iterator[P]:
        """All pages of a listing; `page_at` makes the request for the page at a token."""
        return self.retry.pages(self.store, self.env, page_at)

    def create_all(
        self,
        puts: Sequence[Put],
        *,
        replies: Sequence[Any] | None = None,
        read_back: Callable[[Put], bool] = lambda _: True,
    ) -> list[Created]:
        """Create each object, or find out what is at its key. `replies`: to a first attempt already made."""
        return self.retry.create_all(self.store, self.env, puts, replies=replies, read_back=read_back)

    def ensure_all(self, puts: Sequence[Put]) -> int:
        """Create objects whose body follows from their key; returns how many this call created."""
        return self.retry.ensure_all(self.store, self.env, puts)

    def back_off(self, attempt: int) -> None:
        """Pause after `attempt`; the first is 0."""
        self.retry.back_off(self.env, attempt)
