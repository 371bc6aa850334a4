"""A lease: an advisory, expiring claim to work that one of several processes should do, with an epoch.

It is no lock: its holder checks a clock and then writes, and pauses and slow requests may lie in between. It
makes it rare that two processes do the same work. The epoch keeps them from disturbing each other. It rises
whenever the lease changes hands; every write of the work carries it, and a lower one is refused (the machine
is `model/fenced_lease.py`). If doing the work twice only costs more, as in the maintenance of `ingest`, the
lease alone is enough: one that is stolen, outlived or read by a bad clock does no harm.

    lease = Lease(context, "leases/search.json", holder="collector-1", lasts_s=60.0)
    if lease.acquire():                     # take or renew it
        work(lease.epoch)
"""

from fencepost.impl.context import Context
from fencepost.impl.record import Record, RecordError

SCHEMA = "fencepost.lease.v1"


class Fenced(Exception):
    """A process with a higher epoch has taken over; this one changes nothing any more."""


class Lease:
    """`holder` is the unique name of the process."""

    def __init__(
        self,
        context: Context,
        key: str,
        holder: str,
        lasts_s: float,
        *,
        schema: str = SCHEMA,
        damaged: type[Exception] = RecordError,
    ) -> None:
        self.epoch = 0
        """Of the lease as it was acquired last."""
        self._record = Record(context, key, schema, damaged)
        self._env = context.env
        self._holder = holder
        self._lasts_ns = round(lasts_s * 1e9)

    def acquire(self) -> bool:
        """Take or renew the lease; False when another process holds it."""
        fields = self._record.read()
        now_ns = self._env.now_ns()
        until_ns, epoch = fields.get("until_ns", 0), fields.get("epoch", 0)
        is_ours = fields.get("holder") == self._holder and epoch == self.epoch > 0
        taken = not is_ours and fields.get("holder") not in (None, self._holder) and isinstance(until_ns, int)
        # A lease that ends later than any lease can was taken by a bad clock.
        if taken and now_ns < until_ns <= now_ns + 2 * self._lasts_ns:
            return False
        epoch += not is_ours
        claim = {"holder": self._holder, "until_ns": now_ns + self._lasts_ns, "epoch": epoch}
        if not self._record.write(claim):
            return False
        self.epoch = epoch
        return True

    def release(self) -> None:
        """Let others have it at once."""
        fields = self._record.read()
        if fields.get("holder") == self._holder:
            self._record.write({**fields, "until_ns": 0})
