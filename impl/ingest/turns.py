"""Whose turn it is to do what one of several does as well as all of them.

A courtesy and no lock: what is done in a turn may be done by many at once, and costs only more. So a claim
that is stolen, outlived, or read by a clock that is wrong does no harm. Whoever has the turn keeps it
by coming back in time; when it does not, somebody else takes it.
"""

from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.record import Record

SCHEMA = "fencepost.ingest_turn.v1"


class Turn:
    """One kind of work; `holder` is what we are called."""

    def __init__(self, context: IngestContext, key: str, holder: str, lasts_s: float) -> None:
        self._record = Record(context, key, SCHEMA)
        self._env = context.env
        self._holder = holder
        self._lasts_ns = round(lasts_s * 1e9)

    def mine(self) -> bool:
        """Take or keep the turn; False when it is somebody else's."""
        said = self._record.read()
        now_ns = self._env.now_ns()
        until_ns = said.get("until_ns", 0)
        taken = said.get("holder") not in (None, self._holder) and isinstance(until_ns, int)
        # One that is further ahead than a turn lasts was taken by a clock that was wrong.
        if taken and now_ns < until_ns <= now_ns + 2 * self._lasts_ns:
            return False
        return self._record.write({"holder": self._holder, "until_ns": now_ns + self._lasts_ns})

    def give_back(self) -> None:
        """Let others have it at once."""
        if self._record.read().get("holder") == self._holder:
            self._record.write({"holder": self._holder, "until_ns": 0})
