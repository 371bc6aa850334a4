"""The rules for deleting records of retired plans that 0059 rejects, each as a variant of the model.

    fencepost check docs/decisions/rejected_publish.py:ForgetsFenced

Each violates a property of `Publish`; the record quotes the counterexamples. `ForgetsEnded` violates none.
"""

from fencepost.model import *
from fencepost.model.publish import Publish


class ForgetsFenced(Publish):
    """Cleanup deletes the record of a plan once a later epoch is claimed: its writer may not know that yet."""

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
    """The record goes only when its writer has ended. This holds, and nobody can see it but the writer."""

    @action(w=Publish.writers)
    def forget_record(s, w: int) -> None:
        s.require(s.plan[w].recorded > 0, s.writer[w].at == "over")
        s.plan[w].recorded = 0
