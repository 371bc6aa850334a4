"""The layer through which one process of a scenario asks the store."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers.layer import Layer
from fencepost.impl.store.requests import Request


class Watching(Layer):
    """Counts requests and serial hops. Each system extends it by what it looks for in the replies."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.requests = 0
        self.hops = 0

    @abstractmethod
    def look(self, request: Request[Any], reply: Any) -> None:
        """See what was asked and answered."""

    def send(self, request: Request[Any]) -> Any:
        self.hops += 1
        self.requests += 1
        reply = self.inner.send(request)
        self.look(request, reply)
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        self.hops += 1
        self.requests += len(requests)
        replies = self.inner.send_all(requests)
        for request, reply in zip(requests, replies, strict=True):
            self.look(request, reply)
        return replies
