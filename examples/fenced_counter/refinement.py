"""Which actions of the model the events of the store show: each write is a claim or an add."""

from fencepost.examples.fenced_counter.model import FencedCounter
from fencepost.model import Model
from fencepost.properties.refinement import (
    COUNTED,
    STUTTER,
    Actions,
    Keys,
    Observation,
    Refinement,
    Role,
    where,
)


class FencedCounterRefinement(Refinement):
    keys = (Keys("counter", "counter"),)
    trace_fields = ("what",)
    hidden = ("read_to_claim", "read_to_add", "find_a_later_epoch", "lose_claim", "lose_add", "restart")

    def __init__(self, writers: int = 2, claims: int = 4) -> None:
        super().__init__(Model(FencedCounter, {"writers": writers, "claims": claims}))
        self.roles = (
            Role("writer", ("process",), most=writers - 1),
            Role("epoch", ("epoch",), COUNTED, start=1, most=claims),
        )

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        w, epoch = seen.rank("process"), seen.rank("epoch")
        written = self.does(seen.trace_field("what"), w=w)
        return where(f"the epoch of writer {w} is {epoch}", lambda s: s.mine[w] == epoch, written)
