"""Objects in memory: the strict reference among the backends, linearizable, for tests and trials.

Everything is gone when the process ends. One lock makes every request atomic, threads included.

    store = MemoryStore(versioned=True)
    store.conflict_next("head")            # the next conditional write to this key is answered 409
"""

import threading
from collections import Counter
from collections.abc import Mapping

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import PART_BYTES_MIN, Bucket
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Outcome, R, Reply, Request


class MemoryStore(Store):
    """A bucket of its own, shared by the threads of this process."""

    def __init__(
        self,
        *,
        versioned: bool = False,
        part_bytes_min: int = PART_BYTES_MIN,
        env: Environment | None = None,
    ) -> None:
        self.env = env or SystemEnvironment()
        self.url = "memory://?versioned=true" if versioned else "memory://"
        self._bucket = Bucket(versioned=versioned, part_bytes_min=part_bytes_min)
        self._conflicts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def send(self, request: Request[R]) -> R:
        with self._lock:
            if self._conflicts and self._conflicted(request):
                return request.ends(Outcome.CONFLICT, "asked for by conflict_next")
            return self._bucket.answer(request, self.env.now_ns())

    def versioned(self) -> bool:
        return self._bucket.versioned

    def conflict_next(self, key: str, times: int = 1) -> None:
        """Answer the next `times` conditional writes to `key` with `conflict`, applying nothing."""
        with self._lock:
            self._conflicts[key] += times

    def contents(self) -> Mapping[str, bytes]:
        """Every current object: key to bytes."""
        with self._lock:
            return self._bucket.contents()

    def _conflicted(self, request: Request[Reply]) -> bool:
        conditional = isinstance(request, ask.Put | ask.CompleteUpload | ask.Delete) and not isinstance(
            request.when, ask.Anything
        )
        if not conditional or self._conflicts[request.subject] <= 0:
            return False
        self._conflicts[request.subject] -= 1
        return True
