"""The rules for deleting records of retired plans that 0059 rejects, each as a variant of the model.

    fencepost check docs/decisions/rejected_publish.py:ForgetsFenced

The first two violate `no_lost_write`. `ForgetsEnded` violates nothing that `Publish` keeps, and cannot be
built: only the writer knows.
"""

from fencepost.model import *
from fencepost.model.publish import Publish


class ForgetsFenced(Publish):
    """Cleanup deletes the record of a plan once a later epoch is claimed, which its writer may not know."""

    @action(w=Publish.writers)
    def forget_record(s, w: int) -> None:
        s.require(s.plan[w].recorded > 0, s.plan[w].began < s.epoch)
        s.plan[w].recorded = 0


class ForgetsSettled(Publish):
    """Cleanup deletes the record of a plan whose pins have moved on, and which no manifest can show."""

    @action(w=Publish.writers)
    def forget_record(s, w: int) -> None:
        s.require(s.plan[w].recorded > 0, s.is_settled(w))
        s.plan[w].recorded = 0


class ForgetsEnded(Publish):
    """The record goes only when its writer has ended, which no other process can see."""

    @action(w=Publish.writers)
    def forget_record(s, w: int) -> None:
        s.require(s.plan[w].recorded > 0, s.writer[w].at == "over")
        s.plan[w].recorded = 0
