"""Counts what an operation costs: requests, bytes, and how many of the requests had to wait for another.

On a store every request is a round trip, so an operation takes at least as long as its longest chain of
requests in which each could only be sent after the one before was answered. Those are its *serial hops*.
Blocking code sends a request after the last one was answered, so requests form a chain; the requests of
one parallel step (`send_all`) all follow the same predecessors and precede whatever comes next. That
relation, happens-before, is a graph without cycles; its longest path is the number of serial hops.

    store = Metered(open_store(url))
    with store.operation("publish") as cost:
        catalog.publish(plan)
    assert cost.serial_hops <= 4

An operation follows one thread of control: the requests that another thread sends meanwhile are not part
of it, unless that thread was given this one's context (`contextvars.copy_context`); then they fork off
at the point where the context was copied.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.requests import R, Reply, Request


class Tally:
    """Counts the requests and serial hops of one thread of control.

    It waits for the answers of a step before it takes the next one, so its longest chain of requests is the
    number of its steps: a parallel step is one hop, however wide.
    """

    __slots__ = ("hops", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.hops = 0

    def step(self, requests: int = 1) -> None:
        """Count a step of so many requests."""
        self.requests += requests
        self.hops += 1


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of an operation, and the requests whose answers it had to wait for."""

    number: int
    kind: str
    key: str
    outcome: str
    bytes_sent: int
    bytes_received: int
    after: tuple[int, ...]


@dataclass(slots=True)
class Cost:
    name: str
    sent: list[Sent] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def requests(self) -> int:
        return len(self.sent)

    @property
    def bytes_sent(self) -> int:
        return sum(request.bytes_sent for request in self.sent)

    @property
    def bytes_received(self) -> int:
        return sum(request.bytes_received for request in self.sent)

    @property
    def by_kind(self) -> Counter[str]:
        return Counter(request.kind for request in self.sent)

    def graph(self) -> Any:
        """The happens-before relation: a networkx DiGraph, a node a request with its `Sent` as `request`."""
        import networkx as nx

        graph = nx.DiGraph()
        for request in self.sent:
            graph.add_node(request.number, request=request)
            graph.add_edges_from((before, request.number) for before in request.after)
        return graph

    def critical_path(self) -> list[Sent]:
        """The longest chain of requests that each had to wait for the one before."""
        import networkx as nx

        return [self.sent[number] for number in nx.dag_longest_path(self.graph())]

    @property
    def serial_hops(self) -> int:
        """The length of the critical path. A request is recorded after those that it waited for."""
        hops: list[int] = []
        for request in self.sent:
            hops.append(1 + max((hops[before] for before in request.after), default=0))
        return max(hops, default=0)

    def add(self, request: Request[Any], reply: Reply | None, after: tuple[int, ...]) -> int:
        """Record one request; `reply` is None when the store raised instead."""
        with self._lock:
            number = len(self.sent)
            self.sent.append(
                Sent(
                    number=number,
                    kind=request.kind,
                    key=request.subject,
                    outcome=reply.outcome.value if reply is not None else "refused",
                    bytes_sent=len(getattr(request, "body", b"")),
                    bytes_received=len(getattr(reply, "body", b"")),
                    after=after,
                )
            )
            return number


_Thread = tuple[tuple[Cost, ...], tuple[tuple[int, ...], ...]]
"""The operations a thread of control is in, outermost first, and for each the requests that come before
the next one."""


class Metered(Layer):
    """Meters every request of the operations that are open in the calling thread of control."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.total: Counter[str] = Counter()
        """Requests by kind since this layer was made, inside operations or not."""
        self._thread: ContextVar[_Thread] = ContextVar("metered", default=((), ()))
        self._lock = threading.Lock()

    @contextmanager
    def operation(self, name: str) -> Iterator[Cost]:
        """Meter what the calling thread sends until the end of the `with`. Operations may nest."""
        cost = Cost(name)
        costs, frontiers = self._thread.get()
        token = self._thread.set(((*costs, cost), (*frontiers, ())))
        try:
            yield cost
        finally:
            # Requests sent inside also precede the next request of the surrounding operation.
            inside = self._thread.get()[1][: len(costs)]
            self._thread.reset(token)
            self._thread.set((costs, inside))

    def send(self, request: Request[R]) -> R:
        reply = None
        try:
            reply = self.inner.send(request)
            return reply
        finally:
            self._count([(request, reply)])

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        replies: Sequence[Any] = [None] * len(requests)
        try:
            replies = self.inner.send_all(requests)
            return replies
        finally:
            self._count(list(zip(requests, replies, strict=True)))

    def _count(self, step: list[tuple[Request[Any], Reply | None]]) -> None:
        """Record the requests of one step, all of which follow the same predecessors."""
        if not step:
            return
        with self._lock:
            self.total.update(request.kind for request, _ in step)
        costs, frontiers = self._thread.get()
        after = tuple(
            tuple(cost.add(request, reply, frontier) for request, reply in step)
            for cost, frontier in zip(costs, frontiers, strict=True)
        )
        self._thread.set((costs, after))
