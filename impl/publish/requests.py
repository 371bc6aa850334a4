"""Requests: a change that its sender may send twice is committed once.

A client whose reply is lost cannot tell whether its change was committed, so it sends the change again, to
the same server or to another one. Each change that may be repeated has a `Request`, with an id that the
client chose. The plan that carries it out, and so its manifest, records that id. The record becomes visible
with the rows, or never, also if recovery executes the plan.

    1  Before a plan is made on a manifest, all manifests from `since` up to it are searched. If one of them
       records the id, the request is answered from there.
    2  The plan records the id, moves the pin of a table that the request names, and relies on the pins of all
       the others that it names.

So two plans that record the same request exclude each other: where one is committed, a pin that the other is
based on has moved. The loser begins again with step 1, on a manifest that shows the winner.

Manifests that a cleanup has deleted cannot be searched. A request that began before them is answered with
`Forgotten`, unless this process has read them in time.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.impl.publish.commit import Published
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, Recorded, read_manifest
from fencepost.impl.publish.errors import Damaged, Forgotten, Invalid, PublishError
from fencepost.impl.store.requests import Outcome

REMEMBERED_MAX = 100_000
"""Requests in memory: our own limit. Those of the oldest manifests are dropped first."""
SEARCHED_MAX = 10_000
"""Manifests that are searched for one request: our own limit. An older one counts as cleaned up."""
BATCH = 100
"""Manifests that are read in one step."""


class Request(NamedTuple):
    id: str
    """Unique for ever: chosen by the client before it first sends the request."""
    since: int
    """A manifest that the client had seen by then; 0 for none."""
    digest: str = ""
    """Of the changes, so that an id that is used twice for different ones is noticed; empty: not compared."""


class _Found(NamedTuple):
    manifest: int
    plan: str
    digest: str


class Requests:
    """The requests that the manifests of one branch record, as far as they were needed."""

    def __init__(self, context: BranchContext) -> None:
        self._context = context
        self._found: dict[str, _Found] = {}
        self._low = self._high = 0
        """All manifests after `_low` and up to `_high` are in `_found`."""

    def search(self, requests: Sequence[Request], latest: Manifest) -> None:
        """Look at every manifest up to `latest` in which one of `requests` may be."""
        if not requests:
            return
        if len(self._found) > REMEMBERED_MAX:
            self._forget()
        if not self._high:
            self._low = latest.id - 1
        elif latest.id > self._high + 1:
            self._low = max(self._low, self._read(range(self._high + 1, latest.id)))
        if latest.id > self._high:
            self._learn(latest)
            self._high = latest.id
        oldest = max(min(request.since for request in requests), self._high - SEARCHED_MAX)
        if oldest < self._low:
            self._low = max(oldest, self._read(range(oldest + 1, self._low + 1)))

    def answer(self, request: Request) -> Published | PublishError | None:
        """The end of a request that was searched for; None if it was not committed before."""
        found = self._found.get(request.id)
        if found is None:
            if request.since >= self._low:
                return None
            return Forgotten(
                f"request {request.id} was perhaps published after manifest {request.since}: the manifests "
                f"up to {self._low} that would show it were cleaned up, or are too many to search; read the "
                "tables to find out"
            )
        if request.digest and found.digest and request.digest != found.digest:
            return other_changes(request, f"was published as manifest {found.manifest}")
        return Published(found.manifest, found.plan)

    def _learn(self, manifest: Manifest) -> None:
        for one in manifest.requests:
            self._found[one.id] = _Found(manifest.id, manifest.plan, one.digest)

    def _read(self, ids: range) -> int:
        """Read these manifests; returns the last of them that was cleaned up, or 0."""
        chain = self._context.chain
        wanted = self._context.safeguards.requests_searched(ids)
        bodies: dict[int, bytes] = {}
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            replies = self._context.read_all([chain.probe(id_) for id_ in some])
            found = zip(some, replies, strict=True)
            bodies |= {id_: reply.body for id_, reply in found if reply.outcome is Outcome.DONE}
        # After reading: an id that was cleaned up may have been created again.
        boundary = chain.boundary.read()
        for id_ in wanted:
            if id_ > boundary and id_ not in bodies:
                raise Damaged(
                    f"{chain.key(id_)} is missing, and no cleanup removed it; restore it from a copy"
                )
            if id_ > boundary:
                self._learn(read_manifest(bodies[id_], chain.key(id_)))
        return min(boundary, ids[-1]) if boundary >= ids[0] else 0

    def _forget(self) -> None:
        """Drop the older half."""
        newest = sorted(self._found.items(), key=lambda item: item[1].manifest)
        dropped, kept = newest[: len(newest) // 2], newest[len(newest) // 2 :]
        self._low = max(self._low, dropped[-1][1].manifest)
        self._found = dict(kept)


def recorded(requests: Sequence[Request]) -> tuple[Recorded, ...]:
    return tuple(Recorded(request.id, request.digest) for request in requests)


def first_of_each(requests: Sequence[Request]) -> dict[str, Request]:
    """By id, the first request that has it."""
    return {request.id: request for request in reversed(requests)}


def other_changes(request: Request, what: str) -> Invalid:
    return Invalid(f"request {request.id} {what} with other changes; give every request an id of its own")
