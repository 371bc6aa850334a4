"""A chain: objects `prefix/<id>.json`, create-only, ids rising by one, cut off behind by a boundary.

There is no pointer to the newest: whoever knows an id asks for the next one, whoever knows none lists
behind the boundary. Between the boundary and the newest there are no holes, because an id is only created
by somebody who has seen the one before.

    chain = Chain(context, "branch/main/manifest/", Boundary(...))
    news = chain.after(7)            # the entries behind 7, in order
    chain.create(8, body)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fencepost.impl.context import Context
from fencepost.impl.publish.boundary import Boundary
from fencepost.impl.retry import Created
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Condition, Get, GetReply, List, ListReply, Outcome, Put

Entry = tuple[int, bytes]
PAGE = 1000
"""Ids in a page of a listing: as many as S3 gives."""
BATCH = 100
"""Entries that are read in one step, on the way back."""
PARTS = 16
"""How many places are looked at in one step, where the newest is further away than a page."""


@dataclass(frozen=True, slots=True)
class News:
    """What stands behind a known id."""

    entries: tuple[Entry, ...]
    whole: bool = True
    """Whether nothing between is left out. Not when the known id fell behind the boundary."""


class Chain:
    """See the top of this module."""

    def __init__(self, context: Context, prefix: str, boundary: Boundary) -> None:
        self.context = context
        self.prefix = prefix
        self.boundary = boundary

    def key(self, id_: int) -> str:
        return f"{self.prefix}{id_:020d}.json"

    def probe(self, id_: int) -> Get:
        """The request that asks for one entry."""
        return Get(self.key(id_))

    def read(self, id_: int) -> bytes | None:
        reply = self.context.read(self.probe(id_))
        return reply.body if reply.outcome is Outcome.DONE else None

    def put(self, id_: int, body: bytes, when: Condition = ABSENT) -> Put:
        return Put(self.key(id_), body, when, "application/json")

    def create(
        self,
        id_: int,
        body: bytes,
        when: Condition = ABSENT,
        read_back: Callable[[Put], bool] = lambda _: True,
    ) -> Created:
        return self.context.create_all([self.put(id_, body, when)], read_back=read_back)[0]

    def newest(self) -> Entry | None:
        """The newest entry, knowing nothing: one listing from the boundary."""
        while True:
            id_ = self.last(self.boundary.read())
            if id_ is None:
                return None
            body = self.read(id_)
            if body is not None:  # else cleaned away meanwhile: there is a newer one
                return id_, body

    def ids(self, after: int) -> list[int]:
        """The ids behind `after` that stand, rising."""
        listing = self.context.pages(partial(self.listing, after))
        return [id_ for page in listing for id_ in self._ids(page)]

    def after(self, known: int, first: Any = None) -> News:
        """The entries behind `known`. `first` is the reply to a probe of the next id, when already asked."""
        reply = first if first is not None else self.context.read(self.probe(known + 1))
        if reply.outcome is not Outcome.DONE:
            return News(())
        ids = [id_ for id_ in self.ids(known) if id_ > known + 1]
        replies = self.context.read_all([self.probe(id_) for id_ in ids])
        # Asked last: an id that was deleted and came back was behind the boundary before it came back.
        if self.boundary.read() > known or any(reply.outcome is not Outcome.DONE for reply in replies):
            newest = self.newest()
            return News((newest,) if newest else (), whole=False)
        bodies = [reply.body, *(other.body for other in replies)]
        return News(tuple(zip([known + 1, *ids], bodies, strict=True)))

    def newest_after(self, known: int, first: GetReply) -> Entry | None:
        """The newest entry behind `known`, for whom what lies between is nothing; `first` as in `after`."""
        if first.outcome is not Outcome.DONE:
            return None
        id_ = max(self.last(known) or 0, known + 1)
        body = first.body if id_ == known + 1 else self.read(id_)
        if self.boundary.read() > known or body is None:  # asked last, as in `after`
            return self.newest()
        return id_, body

    def backwards(self, after: int) -> Iterator[Entry]:
        """The entries behind `after`, the newest first, and no more of them read than are wanted."""
        top = self.last(after) or after
        while top > after:
            ids = range(max(after, top - BATCH) + 1, top + 1)
            replies = self.context.read_all([self.probe(id_) for id_ in ids])
            boundary = self.boundary.read()  # after reading: an id that was cleaned up may have come back
            found = [
                (id_, reply.body)
                for id_, reply in zip(ids, replies, strict=True)
                if reply.outcome is Outcome.DONE and id_ > boundary
            ]
            yield from reversed(found)
            top = ids[0] - 1
            if not found:  # cleaned up meanwhile, or a hole that nobody of ours has made
                top = max((id_ for id_ in self.ids(after) if id_ <= top), default=after)

    # Listing.

    def last(self, after: int, first: ListReply | None = None) -> int | None:
        """The highest id behind `after`. Where that is more than a page away, pages are not walked through:
        whether anything stands behind a given id is one request, and many can be asked at once.

        What is found so far only says where to look for the last page; that page is the answer, and says
        itself whether it is the last. So neither holes nor what others do meanwhile can mislead.
        `first` is the page behind `after`, when already asked.
        """
        page = first if first is not None else self._page(after)
        ids = self._ids(page)
        if not page.next:
            return ids[-1] if ids else None
        if not ids:  # a page of objects that are none of ours
            return max(self.ids(after), default=None)
        low = self._near_the_last(ids[-1])
        return self.last(low) or low

    def _near_the_last(self, low: int) -> int:
        """An id that stands, at or behind `low`, and seems to be within a page of the last."""
        steps = [low + (PAGE << power) for power in range(PARTS)]
        while True:
            found = self._first_behind(steps)
            low = max([low, *found.values()])
            high = min((step for step in steps if step not in found), default=None)
            if high is None or high - low <= PAGE:
                return low
            steps = [low + (high - low) * part // PARTS for part in range(1, PARTS)]

    def _first_behind(self, steps: Sequence[int]) -> dict[int, int]:
        """For each of `steps` the first id behind it, if one stands; asked all at once."""
        asked = [List(self.prefix, after=self.key(step), limit=1) for step in steps]
        pages = self.context.read_all(asked)
        ids = {step: self._ids(page) for step, page in zip(steps, pages, strict=True)}
        return {step: found[0] for step, found in ids.items() if found}

    def listing(self, after: int, token: str = "") -> List:
        """The request for a page of what stands behind `after`."""
        return List(self.prefix, after=self.key(after), limit=PAGE, token=token)

    def _page(self, after: int) -> ListReply:
        return self.context.read(self.listing(after))

    def _ids(self, page: ListReply) -> list[int]:
        return [id_ for info in page.objects if (id_ := self._id(info.key)) is not None]

    def _id(self, key: str) -> int | None:
        name = key.removeprefix(self.prefix).removesuffix(".json")
        return int(name) if len(name) == 20 and name.isdigit() else None


def newest_of(chains: Sequence[Chain]) -> list[Entry | None]:
    """The newest entry of each, in three steps however many there are, and of long ones in a few more."""
    if not chains:
        return []
    context = chains[0].context
    replies = context.read_all([chain.boundary.request() for chain in chains])
    behind = [chain.boundary.value(reply)[0] for chain, reply in zip(chains, replies, strict=True)]
    pages = context.read_all([chain.listing(after) for chain, after in zip(chains, behind, strict=True)])
    lasts = [chain.last(*known) for chain, *known in zip(chains, behind, pages, strict=True)]
    standing = [(chain, id_) for chain, id_ in zip(chains, lasts, strict=True) if id_ is not None]
    bodies = context.read_all([chain.probe(id_) for chain, id_ in standing])
    found = {
        chain.prefix: _found(chain, id_, reply) for (chain, id_), reply in zip(standing, bodies, strict=True)
    }
    return [found.get(chain.prefix) for chain in chains]


def _found(chain: Chain, id_: int, reply: GetReply) -> Entry | None:
    return (id_, reply.body) if reply.outcome is Outcome.DONE else chain.newest()  # cleaned away meanwhile
