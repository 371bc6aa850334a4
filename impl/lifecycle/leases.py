"""The leases of one worker: which streams it works on, each with the epoch of its lease.

Of several workers one at a time has a stream: a cursor, the walk of a bucket, the pending list of an action.
A worker may be paused for any time and go on after another has taken its stream over. Then

    its cursor and its walk   are not moved: both hold the epoch that was there last, and refuse a lower one
    the end of its walk       lands on cursors as a rewind: they look at events again. An action is complete
                              only when the state of its bucket says so, and that is refused
    what it finds pending     is recorded, as a version that waits may be; no entry that was written since it
                              looked is removed
    its blocker               is cleared by the next sweep if the cursor is past its item
    a demotion                lands: scans enforce what events would have, and an operator sees it
    a deletion                lands, if the object, the policy and the due time are as it found them: it is
                              what the other worker would delete
"""

from fencepost.impl.context import Context
from fencepost.impl.lease import Fenced, Lease
from fencepost.impl.lifecycle.documents import named

LASTS_S = 30.0
"""The time after which others take over what a killed worker had; a worker renews its leases meanwhile."""


class Alone:
    """Without other workers there are no leases."""

    def hold(self, stream: str) -> bool:
        """Take the lease of the stream, or renew it; whether it is held then."""
        return True

    def epoch(self, stream: str) -> int | None:
        return None

    def is_held(self, stream: str) -> bool:
        """Return True if this worker has taken the lease, and knows of no other that has it since."""
        return True

    def lost(self, stream: str) -> None:
        """Another worker has it."""

    def renew(self) -> None:
        """Renew those that are due, between two items of a stream."""

    def release(self, stream: str | None = None) -> None:
        """Let other workers have it, or all of them, at once."""


class Leases(Alone):
    """`holder` is the unique name of the worker."""

    def __init__(self, context: Context, holder: str, lasts_s: float = LASTS_S) -> None:
        self._context = context
        self._holder = holder
        self._lasts_s = lasts_s
        self._held: dict[str, tuple[Lease, int]] = {}
        """Each with when it was taken or renewed last, by the monotonic clock."""

    def hold(self, stream: str) -> bool:
        now_ns = self._context.env.monotonic_ns()
        lease, since_ns = self._held.get(stream, (None, 0))
        if lease is not None and not self._is_due(since_ns):
            return True
        lease = lease or Lease(self._context, named("leases", stream), self._holder, self._lasts_s)
        if not lease.acquire():
            self.lost(stream)
            return False
        self._held[stream] = lease, now_ns
        return True

    def _is_due(self, since_ns: int) -> bool:
        """After a third of its time, so that a failure to renew it leaves time."""
        return self._context.env.monotonic_ns() - since_ns >= self._lasts_s * 1e9 / 3

    def renew(self) -> None:
        for stream, (lease, since_ns) in list(self._held.items()):
            epoch = lease.epoch
            if self._is_due(since_ns) and self.hold(stream) and lease.epoch != epoch:
                # Another worker had it meanwhile: with the new epoch, outdated knowledge could be written.
                self.release(stream)

    def epoch(self, stream: str) -> int | None:
        if stream not in self._held:
            raise Fenced(f"another worker has {stream}")
        return self._held[stream][0].epoch

    def is_held(self, stream: str) -> bool:
        return stream in self._held

    def lost(self, stream: str) -> None:
        self._held.pop(stream, None)

    def release(self, stream: str | None = None) -> None:
        for one, (lease, _) in list(self._held.items()):
            if stream in (None, one):
                lease.release()
                self.lost(one)
