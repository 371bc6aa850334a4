"""The cleanup boundary: ids up to and with it are deleted, or may be at any moment.

It is moved by compare-and-swap and only forward, *before* anything is deleted. A reader who finds an id,
and a writer whose create succeeded, look at it *afterwards*: an id at or behind the boundary may be one
that was deleted and came back.
"""

from fencepost.impl.context import Context
from fencepost.impl.publish.documents import FORMAT, decode, encode
from fencepost.impl.publish.errors import StoreUnavailable
from fencepost.impl.store import ABSENT, Matches
from fencepost.impl.store.requests import Get, GetReply, Outcome

ATTEMPTS_MAX = 10
"""Our own limit on swaps that rivals win."""


class Boundary:
    """One chain's boundary."""

    def __init__(self, context: Context, key: str) -> None:
        self.context = context
        self.key = key

    def request(self) -> Get:
        """The request that asks for it, for whoever has more to ask at the same time."""
        return Get(self.key)

    def value(self, reply: GetReply) -> tuple[int, str]:
        """What a reply to `request` says: where it stands, and the ETag to swap against, if any."""
        if reply.outcome is Outcome.MISSING:
            return 0, ""
        assert reply.info is not None
        return int(decode(reply.body, self.key)["boundary"]), reply.info.etag

    def read(self) -> int:
        return self._read()[0]

    def advance(self, to: int) -> int:
        """Move it forward to `to`, unless somebody moved it further; answers where it stands."""
        for attempt in range(ATTEMPTS_MAX):
            stands, etag = self._read()
            if stands >= to:
                return stands
            body = encode({"format": FORMAT, "boundary": to})
            reply = self.context.store.put(self.key, body, when=Matches(etag) if etag else ABSENT)
            if reply.outcome is Outcome.DONE:
                return to
            self.context.back_off(attempt)  # lost, refused or unknown: what stands now tells
        raise StoreUnavailable(
            f"could not move {self.key} forward to {to} in {ATTEMPTS_MAX} attempts; try again later"
        )

    def _read(self) -> tuple[int, str]:
        return self.value(self.context.read(self.request()))
