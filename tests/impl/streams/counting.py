"""A store layer that counts what passes."""

from collections import Counter
from typing import Any

from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore


class Counting(Layer):
    """Counts the requests that reach the store, by kind."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.sent: Counter[str] = Counter()

    def send(self, request: Any) -> Any:
        self.sent[request.kind] += 1
        return self.inner.send(request)
