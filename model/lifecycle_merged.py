"""Lifecycle with one cursor for all shards: docs/decisions/0022 compares it with a cursor for each shard.

It is the design for a log that merges the events of several writers into one stream, in the order of their
times. It needs that no event becomes visible behind what was read, so a pass stays behind the clock by as
much as an event may be late.
"""

from fencepost.model import *
from fencepost.model.lifecycle import LATE, Lifecycle


class LifecycleMerged(Lifecycle):
    """One cursor for all shards: no event may become visible behind what was read."""

    safeguards = {
        **Lifecycle.safeguards,
        "flush-lag": "events are read only when no earlier one can become visible any more",
    }
    assumptions = {
        **Lifecycle.assumptions,
        "bounded-flush": "an event is visible before the tick that is `lag` after its time",
    }

    def stream(s, k: int) -> int:
        return 0

    def share_a_stream(s, e: int, o: int) -> Truth:
        return s.event[o].shard == s.event[o].shard

    def flush_lag(s) -> int:
        return s.lag

    @without("flush-lag", replaces=flush_lag)
    def no_flush_lag(s) -> int:
        return 0

    @without("bounded-flush", replaces=Lifecycle.is_flushed)
    def is_flushed_some_time(s) -> bool:
        return True

    # Where the checker shows what.

    shown_at = {**Lifecycle.shown_at, "flush-lag": LATE, "bounded-flush": LATE}
