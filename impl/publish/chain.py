"""A chain: objects `prefix/<id>.json`, create-only, ids rising by one, cut off behind by a boundary.

There is no pointer to the newest: whoever knows an id asks for the next one, whoever knows none lists
behind the boundary. Between the boundary and the newest there are no holes, because an id is only created
by somebody who has seen the one before.

    chain = Chain(store, env, "branch/main/manifest/", Boundary(...))
    news = chain.after(7)            # the entries behind 7, in order
    chain.create(8, body)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.impl.environment import Environment
from holdfast.impl.publish.asking import Stands, create_all, read, read_all
from holdfast.impl.publish.boundary import Boundary
from holdfast.impl.store import ABSENT
from holdfast.impl.store.interface import Store
from holdfast.impl.store.requests import Condition, Get, List, Outcome, Put

Entry = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class News:
    """What stands behind a known id."""

    entries: tuple[Entry, ...]
    whole: bool = True
    """Whether nothing between is left out. Not when the known id fell behind the boundary."""


class Chain:
    """See the top of this module."""

    def __init__(self, store: Store, env: Environment, prefix: str, boundary: Boundary) -> None:
        self.store = store
        self.env = env
        self.prefix = prefix
        self.boundary = boundary

    def key(self, id_: int) -> str:
        return f"{self.prefix}{id_:020d}.json"

    def probe(self, id_: int) -> Get:
        """The request that asks for one entry."""
        return Get(self.key(id_))

    def read(self, id_: int) -> bytes | None:
        reply = read(self.store, self.env, self.probe(id_))
        return reply.body if reply.outcome is Outcome.DONE else None

    def put(self, id_: int, body: bytes, when: Condition = ABSENT) -> Put:
        return Put(self.key(id_), body, when, "application/json")

    def create(
        self, id_: int, body: bytes, when: Condition = ABSENT, look: Callable[[Put], bool] = lambda _: True
    ) -> Stands:
        return create_all(self.store, self.env, [self.put(id_, body, when)], look=look)[0]

    def newest(self) -> Entry | None:
        """The newest entry, knowing nothing: one listing from the boundary."""
        while True:
            ids = self.ids(self.boundary.read())
            if not ids:
                return None
            body = self.read(ids[-1])
            if body is not None:  # else cleaned away meanwhile: there is a newer one
                return ids[-1], body

    def ids(self, after: int) -> list[int]:
        """The ids behind `after` that stand, rising."""
        found: list[int] = []
        token = ""
        while True:
            page = read(self.store, self.env, List(self.prefix, after=self.key(after), token=token))
            found.extend(id_ for info in page.objects if (id_ := self._id(info.key)) is not None)
            token = page.next
            if not token:
                return found

    def after(self, known: int, first: Any = None) -> News:
        """The entries behind `known`. `first` is the reply to a probe of the next id, when already asked."""
        reply = first if first is not None else read(self.store, self.env, self.probe(known + 1))
        if reply.outcome is not Outcome.DONE:
            return News(())
        ids = [id_ for id_ in self.ids(known) if id_ > known + 1]
        replies = read_all(self.store, self.env, [self.probe(id_) for id_ in ids])
        # Asked last: an id that was deleted and came back was behind the boundary before it came back.
        if self.boundary.read() > known or any(reply.outcome is not Outcome.DONE for reply in replies):
            newest = self.newest()
            return News((newest,) if newest else (), whole=False)
        bodies = [reply.body, *(other.body for other in replies)]
        return News(tuple(zip([known + 1, *ids], bodies, strict=True)))

    def _id(self, key: str) -> int | None:
        name = key.removeprefix(self.prefix).removesuffix(".json")
        return int(name) if len(name) == 20 and name.isdigit() else None
