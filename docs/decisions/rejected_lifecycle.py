"""The design of lifecycles that 0022-lifecycle-cursors.md rejects, as a variant of the model.

    fencepost check docs/decisions/rejected_lifecycle.py:SeedThenActivate --set losses=0

It violates a property of `LifecycleSeeding`; the record quotes the counterexample.
"""

from fencepost.model import *
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
