"""Appends, creations and deletions of several threads of one node, beside a rival node, in every order.

    for order in every_order(switches=1):
        assert Clients.run(order, SITUATIONS["appends"]).findings() == []

An audited node is one process of one thread. Here the threads of a node share its memory and its flush. The
properties are those of `checks`, by what the clients were answered.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node, Settings, StreamError
from fencepost.impl.streams.stream import Stream
from fencepost.properties.streams.checks import CHECKS, Acknowledged, Outcomes, StreamState
from tests.properties.streams.interleaving import Interleaved, Order, Threads

NAME, KIND = "/s", "text/old"
WANTED = Configuration(KIND)
SETTINGS = Settings(landing_bound_s=0.0, backoff_s=0.0, attempts=3)


class SharedNode(Node):
    """A node whose threads are those of `threads`: they switch at its locks."""

    threads: Threads

    def stream(self, name: str) -> Stream:
        found = super().stream(name)
        for lock in ("lock", "flushing"):
            if not isinstance(getattr(found, lock), type(self.threads.lock())):
                setattr(found, lock, self.threads.lock())
        return found


@dataclass
class Clients:
    """Two nodes of one prefix, and what their clients were answered."""

    threads: Threads
    store: MemoryStore
    ann: SharedNode
    bob: SharedNode
    acknowledged: list[Acknowledged] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    @classmethod
    def run(cls, order: Order, situation: "Situation", kind: type[SharedNode] = SharedNode) -> "Clients":
        threads, env = Threads(order), SeededEnvironment(1)
        store = MemoryStore(env=env)
        ann, bob = (kind(Interleaved(store, threads), env, SETTINGS) for _ in range(2))
        ann.threads = bob.threads = threads
        clients = cls(threads, store, ann, bob)
        clients.ended.append(ann.create(NAME, WANTED)[0].incarnation)
        ann.append(NAME, b"old", content_type=KIND)
        situation(clients)
        threads.run()
        return clients

    def findings(self) -> list[str]:
        """Return the violations that the checks find, each with the name of its property."""
        state = StreamState(self.store.contents(), NAME, SETTINGS, at_rest_ns=self.store.env.now_ns())
        outcomes = Outcomes(self.acknowledged, deleted=self.ended)
        return [f"{name}: {text}" for name, check in CHECKS.items() for text in check(state, outcomes)]

    def append(self, node: Node, body: bytes, **how: Any) -> None:
        try:
            done = node.append(NAME, body, content_type=KIND, **how)
        except StreamError:
            return
        manifest = node.stream(NAME).manifest
        if manifest is not None and not done.duplicate:
            lineage, end = (int(part) for part in done.offset.split("_"))
            if lineage == manifest.lineage:
                self.acknowledged.append(Acknowledged(manifest.incarnation, end, body))

    def create(self, node: Node, body: bytes) -> None:
        try:
            manifest, created = node.create(NAME, WANTED, body)
        except StreamError:
            return
        if created and body:
            self.acknowledged.append(Acknowledged(manifest.incarnation, len(body), body))

    def delete(self, node: Node) -> None:
        try:
            node.delete(NAME)
        except StreamError:
            return


Situation = Callable[[Clients], None]


def appends(clients: Clients) -> None:
    """Two appends of one node share a flush, and the rival takes the stream over."""
    for node, body in ((clients.ann, b"one"), (clients.ann, b"two"), (clients.bob, b"RIV")):
        clients.threads.start(clients.append, node, body)


def resends(clients: Clients) -> None:
    """A client sends one append twice at a node at once, and the rival takes the stream over."""
    for node, body in ((clients.ann, b"one"), (clients.ann, b"one")):
        clients.threads.start(lambda node, body: clients.append(node, body, producer=("x", 0, 0)), node, body)
    clients.threads.start(clients.append, clients.bob, b"RIV")


def closing(clients: Clients) -> None:
    """An append and the closing append of one node, and the rival."""
    clients.threads.start(clients.append, clients.ann, b"one")
    clients.threads.start(lambda: clients.append(clients.ann, b"end", close=True))
    clients.threads.start(clients.append, clients.bob, b"RIV")


def creations(clients: Clients) -> None:
    """Two creations of one deleted name at one node, and an append to what they make."""
    clients.delete(clients.ann)
    clients.threads.start(clients.create, clients.ann, b"new")
    clients.threads.start(clients.create, clients.ann, b"NEW")
    clients.threads.start(clients.append, clients.ann, b"one")


def deletion(clients: Clients) -> None:
    """A deletion and two appends at one node."""
    clients.threads.start(clients.append, clients.ann, b"one")
    clients.threads.start(clients.append, clients.ann, b"two")
    clients.threads.start(clients.delete, clients.ann)


SITUATIONS: Mapping[str, Situation] = {
    one.__name__: one for one in (appends, resends, closing, creations, deletion)
}
