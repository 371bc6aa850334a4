"""What a server grants its clients, so that neither one of them nor all together can exhaust it.

    connections      open at once; the next one gets 503 and is closed
    requests         in flight at once, all clients; the next one gets 503
    client_requests  the same for one client; the next one gets 429, so that no client starves the others
    threads          that wait for the store; requests beyond them wait in memory

The body of every request in flight may be in memory: at worst `requests` times `body_bytes`, and
`threads` times what such a body unpacks to.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields

from fencepost.impl.http.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults suit a small machine."""

    body_bytes: int = 8 * 1024 * 1024
    connections: int = 2000
    requests: int = 64
    client_requests: int = 16
    threads: int = 16
    header_s: float = 10.0
    """From the start of a connection, or the first byte of a later request, to the end of its headers."""
    body_s: float = 30.0
    """For the whole body."""
    idle_s: float = 30.0
    """Between requests."""
    write_s: float = 10.0
    """How long a client may leave its response unread once the buffers are full."""
    linger_s: float = 2.0
    """How long the server reads and discards what a refused client still sends: if it closed at once, the
    client's system would drop the response that is on its way."""
    drain_s: float = 60.0
    """For the requests in flight when the server is stopped."""
    retry_after_s: int = 1
    """The `Retry-After` of a refused client."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"the limit {field.name} is {getattr(self, field.name)}; give more than 0")


class Gate:
    """Counts the requests in flight, and refuses those beyond the limits.

    Only the thread of the event loop uses it, and never across an await: there is nothing to lock.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._clients: Counter[str] = Counter()
        self.inside = 0
        self.closed = False

    @contextlib.contextmanager
    def enter(self, client: str) -> Iterator[None]:
        self._check(client)
        self.inside += 1
        self._clients[client] += 1
        try:
            yield
        finally:
            self.inside -= 1
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    def _check(self, client: str) -> None:
        wait = self._limits.retry_after_s
        if self.closed:
            raise Refusal("draining", "this server is about to stop; try another one", retry_after_s=wait)
        if self.inside >= self._limits.requests:
            raise Refusal(
                "busy",
                f"this server has {self.inside} requests in flight; try again, or another one",
                retry_after_s=wait,
            )
        if self._clients[client] >= self._limits.client_requests:
            raise Refusal(
                "too_many_requests",
                f"{self._clients[client]} requests of this client are in flight; wait for their responses",
                retry_after_s=wait,
            )
