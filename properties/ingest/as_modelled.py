"""The map of ingest into the model as it is checked, for the question how much of it runs of the code drove.

Collectors are told apart by nothing that the store shows, so whichever the model has may have done what is
seen; and all that is not seen is hidden. So this is no judge of runs: `IngestRefinement` is. The bound has no
time in it, and a run in which a blob is deleted counts up to there.
"""

from collections.abc import Callable, Mapping

from fencepost.model import Label, Model, Truth
from fencepost.model.ingest import Ingest
from fencepost.properties.ingest.refinement import IngestRefinement
from fencepost.properties.refinement import (
    OUT_OF_BOUNDS,
    STUTTER,
    Action,
    Actions,
    Observation,
    Refinement,
    Role,
    where,
)

BOUND: Mapping[str, int] = {"collectors": 2, "contents": 2, "horizons": 0, "shared": 0, "troubles": 1}
APPLIED = ("done", "reply-lost")
ASKED = {"put_blob": APPLIED, "create_manifest": APPLIED, "record_conflict": ("done",)}
"""Requests, and the answers to them that show."""
SHOWN = ("late_manifest_lands", "follow_up", "repair", "store_anew", "put_blob_back")


class AsModelled(Refinement):
    """See the top of this module."""

    keys = IngestRefinement.keys
    trace_fields = IngestRefinement.trace_fields

    def __init__(self, bound: Mapping[str, int] = BOUND) -> None:
        super().__init__(Model(Ingest, bound))
        self.roles = (
            Role("identity", ("identity",), most=0),
            Role("batch", ("sha",), most=self.model.sizes["contents"] - 1),
        )

    def hides(self, label: Label) -> bool:
        if label.action in ASKED:
            return dict(label.parameters)["answer"] not in ASKED[label.action]
        return label.action not in SHOWN

    def actions(self, seen: Observation) -> Actions:
        if seen.phase == "note" or not seen.done:
            return STUTTER
        if seen.kind == "delete":
            return OUT_OF_BOUNDS
        h = seen.rank("sha")
        if seen.what == "blob":
            return self.of_batch(h, ("put_blob", "store_anew", "put_blob_back"))
        if seen.what == "record":
            return self.of_batch(h, ("record_conflict",))
        if seen.what == "manifest":
            readings = (*self.applied("create_manifest"), *self.does("late_manifest_lands"))
        else:
            entry = "listing" if seen.what == "listing" else "reference"
            readings = (*self.does("follow_up", entry=entry), *self.does("repair", entry=entry))
        return where(f"batch {h} is what is accepted", lambda s: s.manifest.holds(content=h), readings)

    def of_batch(self, h: int, actions: tuple[str, ...]) -> Actions:
        """By a collector that is at batch h."""
        found: tuple[Action, ...] = ()
        for c in range(self.model.sizes["collectors"]):
            readings = tuple(reading for action in actions for reading in self.applied(action, c=c))
            found += where(f"collector {c} is at batch {h}", _is_at(c, h), readings)
        # Needless, or by somebody who died: nothing that the bound without time notices.
        return (*found, *where("it stood before", lambda s: ~s.blob[h].is_empty(), STUTTER))

    def applied(self, action: str, **parameters: object) -> Actions:
        answers = {"answer": ASKED[action]} if action in ASKED else {}
        return self.does(action, **parameters, **answers)


def _is_at(c: int, h: int) -> Callable[[Ingest], Truth]:
    return lambda s: s.batch[c] == h
