"""Designs of lifecycles that are not taken: docs/decisions/0022 says what each needs, and why it lost.

LifecycleMerged       (a) the shards are one stream with one cursor, in the order of the times
SeedThenActivate      (b) all cursors are moved back, then the record of the action says that it is active
"""

from fencepost.model import *
from fencepost.model.lifecycle import LATE, Lifecycle
from fencepost.model.lifecycle_seeding import LifecycleSeeding


class SeedThenActivate(LifecycleSeeding):
    """An action is routed to once its record says that it is active, not once a cursor names it.

    The order of moving back and activating is right, and does not suffice: a sweep in between passes events
    that are not routed yet.
    """

    def routes(s, a: int, k: int) -> Truth:
        return all_of([s.act[a].serves[k], s.act[a].mode == "event_driven"])

    @action(a=LifecycleSeeding.act)
    def crash(s, a: int) -> None:
        """No cursor names the action, so all of them are moved back again."""
        me = s.act[a]
        s.require(me.mode == "walked")
        me.mode = "new"
        for k in range(s.shards):
            me.serves[k] = False


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
