"""The refinement map of streams: which actions of the model the events of the store show.

    create manifest.json                 created
    if-match on manifest.json            swapped, owned, refreshed, listed or buried: by its trace fields
    create segments/...                  uploaded
    delete segments/..., manifest.json   data_deleted, manifest_deleted

A run is a stream's prefix. Of a manifest a trace shows the incarnation, the owner, whether it is a tombstone,
how many segments it lists, and the last of them.
"""

from fencepost.model import Model
from fencepost.properties.refinement import (
    COUNTED,
    IMPOSSIBLE,
    STUTTER,
    Actions,
    Keys,
    Observation,
    Refinement,
    RequestRules,
    Role,
    where,
)
from fencepost.properties.streams.followed import Followed

_PREFIX = r"(?:.*/)?streams/[0-9a-f]{32}/"


class StreamsRefinement(Refinement):
    """Into the machine that follows runs, see `followed`."""

    keys = (
        Keys("manifest", rf"{_PREFIX}manifest\.json"),
        Keys(
            "segment",
            rf"{_PREFIX}segments/(?P<incarnation>[^.]+)\.0*(?P<owner>[0-9]+)-0*(?P<start>[0-9]+)\.seg",
        ),
    )
    trace_fields = ("state",)
    runs = r"streams/(?P<run>[0-9a-f]{32})/"

    def __init__(self, lives: int = 3, owners: int = 5, places: int = 4) -> None:
        super().__init__(Model(Followed, {"lives": lives, "owners": owners, "places": places}))
        self.roles = (
            Role("life", ("incarnation",), most=lives - 1),
            Role("owner", ("owner@incarnation", "listed@incarnation"), COUNTED, most=owners - 1),
            Role("place", ("start@incarnation",), most=places - 1),
            Role("segments", ("segments@incarnation",), COUNTED, most=places),
        )
        self.request_rules = RequestRules(
            conditions={"manifest": ("absent", "matches"), "segment": ("absent",)},
            not_judged=("what a node had read before it wrote", "records that only a node's disk has"),
        )

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        life = seen.rank("incarnation")
        if seen.what == "segment":
            action = "uploaded" if seen.kind == "put" else "data_deleted"
            return self.does(action, life=life, owner=seen.rank("owner"), place=seen.rank("start"))
        if seen.kind == "delete":
            return self.does("manifest_deleted")
        place = {"life": life, "owner": seen.rank("owner")}
        if seen.condition == "absent":
            return self.does("created", **place)
        if seen.trace_field("state") == "tombstone":
            return self.does("buried", **place)
        if seen.condition != "matches":
            return IMPOSSIBLE
        moved = (
            *self.does("swapped", **place),
            *self.does("owned", **place),
            *self.does("refreshed", **place),
        )
        if seen.rank("start") >= 0:
            listed = {"life": life, "owner": seen.rank("listed"), "place": seen.rank("start")}
            moved = (*moved, *self.does("listed_segment", **listed))
        count = seen.rank("segments")
        return where(f"{count} segments are listed", lambda s: s.segments == count, moved)
