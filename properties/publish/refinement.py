"""The map of publish into two machines: the one that follows runs, and the model as it is checked."""

from collections.abc import Mapping

import numpy as np

from fencepost.model import Label, Model
from fencepost.model.kernel.language.layout import U64
from fencepost.model.publish import Publish
from fencepost.properties.publish.followed import Followed, renamed, window
from fencepost.properties.publish.meanings import PublishMap
from fencepost.properties.refinement import Actions, Observation, where

RECOVERY = ("roll_forward", "undo_head", "undo_commit", "retire_settled")
BY_THEMSELVES = ("leave_unmoved", "begin_undo", "leave_to_rival", "undo_lost", "give_up")
"""What openers do that shows, and what does not."""


RENAMING = ("forget", "leave", "slide_versions", "slide_manifests", "slide_epochs")


class PublishRefinement(PublishMap):
    """Into the machine that follows runs: see `followed`."""

    eager = ("sidecar_is_read", "sidecar_is_judged", "one_is_left_to_rival")
    left_out = ("begin", "move_boundary", *RECOVERY, "read_sidecar", *BY_THEMSELVES, *RENAMING)
    forgets = ("dropped",)

    def __init__(self, writers: int = 6, claims: int = 3, *, skew: bool = False) -> None:
        """Room for so many plans and claims in a run. With `skew`, clocks may be wrong by any time."""
        given_up = ("bounded-landing", *(("bounded-skew",) if skew else ()))
        sizes = {"writers": writers, "claims": claims, "openers": 1}
        self.skew = skew
        super().__init__(Model(Followed, sizes, without=given_up))
        self.window = window(self.ids, writers, claims)
        slot = self.model.layout.slots["read"]
        epochs = range(1 + claims)
        self._read = {
            (w, epoch): slot.place(w * len(epochs) + epoch) for w in range(writers) for epoch in epochs
        }
        self._by_epoch: dict[tuple[str, int, int], list[Label]] = {}

    def hides(self, label: Label) -> bool:
        """With any skew a crash lets nothing happen that could not happen anyway: it need not be followed."""
        return super().hides(label) and not (self.skew and label.action == "crash")

    def shows(self, label: Label) -> bool:
        return super().shows(label) and label.action != "crash"

    def saturated(self, states: U64) -> U64:
        """As in general; but labels of epochs in which nobody has read the sidecar are not tried."""
        first, *others = self.eager
        for label in self._labels[first]:
            states = self.after_eager(states, label)
        for (w, epoch), (word, shift) in self._read.items():
            if (states[word] >> np.uint64(shift) & np.uint64(1)).any():
                for name in others:
                    for label in self._of(name, w, epoch):
                        states = self.after_eager(states, label)
        return states

    def _of(self, action: str, w: int, epoch: int) -> list[Label]:
        key = (action, w, epoch)
        if key not in self._by_epoch:
            self._by_epoch[key] = [
                reading.label for reading in self.does(action, w=w, epoch=epoch) if reading.label is not None
            ]
        return self._by_epoch[key]

    def modelled(self) -> "AsModelled":
        return AsModelled()

    def renamed(self, seen: Observation, label: Label) -> Observation | None:
        return renamed(seen, label)

    def begins(self, w: int, kind: str, base: int) -> Actions:
        return self.does("begin_on", w=w, kind=kind, parent=base - 1)

    def rolls_forward(self, w: int) -> Actions:
        return self.does("somebody_rolls_forward", w=w)

    def undoes_head(self, w: int, epoch: int, table: str) -> Actions:
        return self.does("somebody_undoes_head", w=w, epoch=epoch, table=table)

    def commits_undo(self, w: int) -> Actions:
        return self.does("somebody_commits_undo", w=w)

    def retires(self, w: int) -> Actions:
        return self.does("somebody_retires", w=w)

    def moves_boundary(self, to: int) -> Actions:
        return self.does("boundary_to", to=to)


class AsModelled(PublishMap):
    """Into the model as it is checked, for its coverage: sizes, troubles and openers are those of the bound.

    A plan whose sidecar lands when its manifest is no longer the newest has left the bound, and so has a run
    with more troubles than the model has room for.
    """

    hidden = (*PublishMap.hidden, "read_sidecar", *BY_THEMSELVES)

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(Model(Publish, sizes))

    def begins(self, w: int, kind: str, base: int) -> Actions:
        begins = self.does("begin", w=w, kind=kind)
        return where(f"manifest {base} is the newest", lambda s: s.parent[w] == base, begins)

    def rolls_forward(self, w: int) -> Actions:
        return self.does("roll_forward", w=w)

    def undoes_head(self, w: int, epoch: int, table: str) -> Actions:
        return self.does("undo_head", w=w, table=table)

    def commits_undo(self, w: int) -> Actions:
        return self.does("undo_commit", w=w)

    def retires(self, w: int) -> Actions:
        return self.does("retire_settled", w=w)

    def moves_boundary(self, to: int) -> Actions:
        return where(f"the boundary is {to}", lambda s: s.boundary == to, self.does("move_boundary"))
