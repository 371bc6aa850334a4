"""What programs, processes and checks are given instead of the bare store and the bare clock.

A process's request goes through the run, which counts it, tells it and lets the checks look. A check's goes
to the store directly, and leaves no trace. A sleep ends when the round does.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers.layer import Layer
from fencepost.impl.store.requests import NOT_NOW, Outcome, Reply, Request

if TYPE_CHECKING:
    from fencepost.sim.real.run import RealRun

R = TypeVar("R", bound=Reply)

LOOKS_MAX = 5
"""How often a look at the store is repeated that got no answer."""


class Ended(BaseException):
    """The round is over: raised in whoever goes on. Not an Exception, which a program might catch."""


class Blind(BaseException):
    """The store gave a check no answer: nothing is known, which is not the check's fault."""


class JudgedStore(Layer):
    """The store that programs are given."""

    def __init__(self, inner: Store, run: "RealRun") -> None:
        super().__init__(inner)
        self._run = run
        self.env = run.env

    def send(self, request: Request[R]) -> R:
        sent: R = self._run.send(lambda: [self.inner.send(request)], [request])[0]
        return sent

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return self._run.send(lambda: self.inner.send_all(requests), requests)


class Interruptible(SystemEnvironment):
    """The real clock; whoever sleeps when the round ends is woken to go."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._ended = ended

    def sleep(self, seconds: float) -> None:
        if self._ended.wait(seconds):
            raise Ended


class Glass:
    """The bucket as views look at it: through the store, without a trace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def body(self, key: str) -> bytes | None:
        reply = self._asked(lambda: self._store.get(key))
        return bytes(reply.body) if reply.done else None

    def modified_ns(self, key: str) -> int:
        reply = self._asked(lambda: self._store.head(key))
        return int(reply.info.modified_ns) if reply.done else 0

    def bodies(self, prefix: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        token = ""
        while True:
            page = self._asked(lambda token=token: self._store.list(prefix, token=token))
            for info in page.objects:
                body = self.body(info.key)
                if body is not None:
                    found[info.key] = body
            token = page.next
            if not token:
                return found

    def _asked(self, ask: Callable[[], Any]) -> Any:
        for _ in range(LOOKS_MAX):
            try:
                reply = ask()
            except StoreError as error:
                raise Blind from error
            if reply.outcome not in NOT_NOW and reply.outcome is not Outcome.UNKNOWN:
                return reply
        raise Blind
