"""A chain: objects `prefix/<id>.json`, create-only, with ids rising by one, cut off behind by a boundary.

No object points at the newest entry: a process that knows an id reads the next one; a process that knows none
lists what there is. Between the boundary and the newest entry there are no holes, because a writer
creates an id only after seeing the one before.

    chain = Chain(context, "branch/main/manifest/", Boundary(...))
    news = chain.after(7)            # the entries after 7, in order
    chain.create(8, body)

Ids up to and including the boundary are deleted, or may be at any moment. A cleanup moves the boundary by
compare-and-swap, only forward, *before* it deletes anything. A reader who found an id, and a writer whose
create succeeded, read the boundary *afterwards*: an id at or before the boundary may be one that was deleted
and created again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fencepost.impl.context import Context, Created
from fencepost.impl.publish.documents import FORMAT, JSON, decode, encode
from fencepost.impl.publish.errors import StoreUnavailable
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store.requests import Condition, Get, GetReply, List, ListReply, Outcome, Put

Entry = tuple[int, bytes]
PAGE = 1000
"""Ids in a page of a listing: the maximum of S3."""
BATCH = 100
"""Entries that `backwards` reads in one step."""
PARTS = 16
"""Listings in one parallel step, where the newest entry is more than a page away."""
SWAPS_MAX = 10
"""Our own limit on swaps that rivals win."""


class Boundary:
    def __init__(self, context: Context, key: str, seen: Callable[[int], None] = lambda _: None) -> None:
        """The boundary at `key`. Every value that is read of it is passed to `seen`."""
        self.context = context
        self.key = key
        self._seen = seen

    def request(self) -> Get:
        """The read, for a caller that sends it together with others."""
        return Get(self.key)

    def value(self, reply: GetReply) -> tuple[int, str]:
        """The boundary in a reply to `request`, and the ETag to swap against, if any."""
        if reply.outcome is Outcome.MISSING:
            return 0, ""
        assert reply.info is not None
        found = int(decode(reply.body, self.key)["boundary"])
        self._seen(found)
        return found, reply.info.etag

    def read(self) -> int:
        return self._read()[0]

    def advance(self, to: int) -> int:
        """Move it forward to `to`, unless another cleanup moved it further; returns where it is."""
        for attempt in range(SWAPS_MAX):
            current, etag = self._read()
            if current >= to:
                return current
            body = encode({"format": FORMAT, "boundary": to})
            reply = self.context.store.put(self.key, body, when=Matches(etag) if etag else ABSENT)
            if reply.outcome is Outcome.DONE:
                return to
            self.context.back_off(attempt)  # lost, refused or unknown: the next read shows which
        raise StoreUnavailable(
            f"could not move {self.key} forward to {to} in {SWAPS_MAX} attempts; try again later"
        )

    def _read(self) -> tuple[int, str]:
        return self.value(self.context.read(self.request()))


@dataclass(frozen=True, slots=True)
class News:
    """The entries after a known id."""

    entries: tuple[Entry, ...]
    whole: bool = True
    """True if no entry in between is left out. False when the known id is before the boundary by now."""


class Chain:
    def __init__(self, context: Context, prefix: str, boundary: Boundary) -> None:
        self.context = context
        self.prefix = prefix
        self.boundary = boundary

    def key(self, id_: int) -> str:
        return f"{self.prefix}{id_:020d}.json"

    def probe(self, id_: int) -> Get:
        return Get(self.key(id_))

    def read(self, id_: int) -> bytes | None:
        reply = self.context.read(self.probe(id_))
        return reply.body if reply.outcome is Outcome.DONE else None

    def create(
        self,
        id_: int,
        body: bytes,
        when: Condition = ABSENT,
        read_back: Callable[[Put], bool] = lambda _: True,
    ) -> Created:
        return self.context.create_all([Put(self.key(id_), body, when, JSON)], read_back=read_back)[0]

    def newest(self) -> Entry | None:
        """The newest entry, without a known id.

        One listing from the first key suffices: the newest entry is never deleted, and an id that was created
        again is lower.
        """
        after = 0
        while True:
            id_ = self.last(after)
            if id_ is None:
                return None
            entry, boundary = self.context.read_all([self.probe(id_), self.boundary.request()])
            after = self.boundary.value(boundary)[0]
            if entry.outcome is Outcome.DONE and id_ > after:  # else cleaned up meanwhile
                return id_, entry.body

    def ids(self, after: int) -> list[int]:
        """The existing ids after `after`, rising."""
        listing = self.context.pages(partial(self.listing, after))
        return [id_ for page in listing for id_ in self._ids(page)]

    def after(self, known: int, first: Any = None) -> News:
        """The entries after `known`. `first` is the reply to a probe of the next id, if already sent."""
        reply = first if first is not None else self.context.read(self.probe(known + 1))
        if reply.outcome is not Outcome.DONE:
            return News(())
        ids = [id_ for id_ in self.ids(known) if id_ > known + 1]
        replies = self.context.read_all([self.probe(id_) for id_ in ids])
        # Read last: an id that was deleted and created again was before the boundary when it was created.
        if self.boundary.read() > known or any(reply.outcome is not Outcome.DONE for reply in replies):
            newest = self.newest()
            return News((newest,) if newest else (), whole=False)
        bodies = [reply.body, *(other.body for other in replies)]
        return News(tuple(zip([known + 1, *ids], bodies, strict=True)))

    def newest_after(self, known: int, first: GetReply) -> Entry | None:
        """The newest entry after `known`, without those in between; `first` as in `after`."""
        if first.outcome is not Outcome.DONE:
            return None
        id_ = max(self.last(known) or 0, known + 1)
        body = first.body if id_ == known + 1 else self.read(id_)
        if self.boundary.read() > known or body is None:  # read last, as in `after`
            return self.newest()
        return id_, body

    def backwards(self, after: int) -> Iterator[Entry]:
        """The entries after `after`, the newest first, read in batches as the caller consumes them."""
        top = self.last(after) or after
        while top > after:
            ids = range(max(after, top - BATCH) + 1, top + 1)
            replies = self.context.read_all([self.probe(id_) for id_ in ids])
            boundary = (
                self.boundary.read()
            )  # after reading: an id that was cleaned up may have been created again
            found = [
                (id_, reply.body)
                for id_, reply in zip(ids, replies, strict=True)
                if reply.outcome is Outcome.DONE and id_ > boundary
            ]
            yield from reversed(found)
            top = ids[0] - 1
            if not found:  # cleaned up meanwhile, or a hole that no writer of ours made
                top = max((id_ for id_ in self.ids(after) if id_ <= top), default=after)

    # Listing.

    def last(self, after: int, first: ListReply | None = None) -> int | None:
        """The highest id after `after`. `first` is the page after `after`, if already read.

        If the highest id is more than a page away, this does not walk through the pages: one request shows
        whether any entry exists after a given id, and many such requests run in parallel. Their replies only
        choose where to look for the last page; that page is the answer, and shows itself whether it is the
        last. So neither holes nor concurrent commits can mislead.
        """
        page = first if first is not None else self.context.read(self.listing(after))
        ids = self._ids(page)
        if not page.next:
            return ids[-1] if ids else None
        if not ids:  # a page of foreign objects
            return max(self.ids(after), default=None)
        low = self._near_the_last(ids[-1])
        return self.last(low) or low

    def _near_the_last(self, low: int) -> int:
        """An existing id, `low` or higher, that seems to be within a page of the last."""
        steps = [low + (PAGE << power) for power in range(PARTS)]
        while True:
            found = self._first_after(steps)
            low = max([low, *found.values()])
            high = min((step for step in steps if step not in found), default=None)
            if high is None or high - low <= PAGE:
                return low
            steps = [low + (high - low) * part // PARTS for part in range(1, PARTS)]

    def _first_after(self, steps: Sequence[int]) -> dict[int, int]:
        """For each of `steps` the first id after it, if there is one; one parallel step."""
        pages = self.context.read_all([List(self.prefix, after=self.key(step), limit=1) for step in steps])
        ids = {step: self._ids(page) for step, page in zip(steps, pages, strict=True)}
        return {step: found[0] for step, found in ids.items() if found}

    def listing(self, after: int, token: str = "") -> List:
        """The request for a page of entries after `after`."""
        return List(self.prefix, after=self.key(after), limit=PAGE, token=token)

    def _ids(self, page: ListReply) -> list[int]:
        names = [info.key.removeprefix(self.prefix).removesuffix(".json") for info in page.objects]
        return [int(name) for name in names if len(name) == 20 and name.isdigit()]


def newest_of(chains: Sequence[Chain]) -> list[Entry | None]:
    """The newest entry of each chain, in three steps whatever their number, and a few more for long ones."""
    if not chains:
        return []
    context = chains[0].context
    replies = context.read_all([chain.boundary.request() for chain in chains])
    after = [chain.boundary.value(reply)[0] for chain, reply in zip(chains, replies, strict=True)]
    pages = context.read_all([chain.listing(at) for chain, at in zip(chains, after, strict=True)])
    lasts = [chain.last(at, page) for chain, at, page in zip(chains, after, pages, strict=True)]
    existing = [(chain, id_) for chain, id_ in zip(chains, lasts, strict=True) if id_ is not None]
    bodies = context.read_all([chain.probe(id_) for chain, id_ in existing])
    found = {
        # A missing entry was cleaned up meanwhile.
        chain.prefix: (id_, reply.body) if reply.outcome is Outcome.DONE else chain.newest()
        for (chain, id_), reply in zip(existing, bodies, strict=True)
    }
    return [found.get(chain.prefix) for chain in chains]
