"""The observed machine of lifecycles, for traces: positions are relative, and a run may be a part of one.

Positions rise without end. A trace shows only how one compares with the last one of its cursor. So every
position is renamed after each write: the last one is 1, any before it is 0, any beyond it is 2. The guards of
the machine compare positions with the last one only, so they allow the same as before the renaming.
Comparisons with anything else, the beginning of a walk or a blocked item, are in the labels; the map reads
them from the events.

A part of a run may begin `midway`: a document that it has not shown may have any content.
"""

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved


class LifecycleReplayed(LifecycleObserved):
    """The documents of a lifecycle, as the trace of a run shows them that begins with the lifecycle."""

    def move(s, k: int, to: int) -> None:
        s.stream[k].position = 1

    def is_later(s, flag: int, one: Number, other: int) -> Truth | bool:
        return True


class PartReplayed(LifecycleReplayed):
    """The same for a part of a run."""

    midway = Bool()  # the part begins after the lifecycle did
    shown = Each(LifecycleObserved.buckets, Bool())  # the record was written in this part

    # Definitions.

    def is_unknown(s, k: int) -> Truth:
        return s.midway & ~s.stream[k].present

    def require_cursor(s, k: int, *conditions: Truth) -> None:
        s.require(s.stream[k].present | s.midway)
        for condition in conditions:
            s.require(condition | s.is_unknown(k))

    def require_record(s, b: int, condition: Truth) -> None:
        s.require(condition | (s.midway & ~s.shown[b]))
        s.shown[b] = s.midway

    def require_before(s, condition: Truth) -> None:
        s.require(condition | s.midway)

    # Actions.

    @action
    def begin_midway(s) -> None:
        """Nothing was shown yet."""
        s.require(~s.midway, ~s.ever)
        s.require(*(~s.bucket[b].walks & (s.bucket[b].driven == 0) for b in range(s.buckets)))
        s.require(
            *(
                ~s.stream[k].present & ~s.stream[k].waits & (s.stream[k].failures == 0)
                for k in range(s.streams)
            )
        )
        s.midway = True
