"""The refinement map of streams: which actions of the model the events of the store show.

    create manifest.json                 created
    if-match on manifest.json            swapped, owned, refreshed, listed_segment or buried
    create segments/...                  uploaded
    delete segments/..., manifest.json   data_deleted, manifest_deleted

A run is a stream's prefix. Of a manifest a trace shows the incarnation, the owner, whether it is a tombstone,
how many segments it lists, and the last of them.
"""

from fencepost.model import Model
from fencepost.model.streams_observed import StreamsObserved
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

_PREFIX = r"(?:.*/)?streams/[0-9a-f]{32}/"


class StreamsRefinement(Refinement):
    """Into the specification in terms of what the store shows."""

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
        super().__init__(Model(StreamsObserved, {"lives": lives, "owners": owners, "places": places}))
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

    def covering(self) -> "StreamsRefinement":
        """The map at the bound at which transitions are counted."""
        return StreamsRefinement(2, 2, 2)

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        life = seen.rank("incarnation")
        if seen.what == "segment":
            action = "uploaded" if seen.kind == "put" else "data_deleted"
            return self.does(action, life=life, owner=seen.rank("owner"), place=seen.rank("start"))
        if seen.kind == "delete":
            return self.does("manifest_deleted")
        return _with_what_is_seen(seen, self._written(seen))

    def _written(self, seen: Observation) -> Actions:
        """The actions that may have written this manifest."""
        life, owner = seen.rank("incarnation"), seen.rank("owner")
        if seen.condition == "absent":
            return self.does("created", life=life)
        if seen.trace_field("state") == "tombstone":
            return self.does("buried", life=life, owner=owner)
        if seen.condition != "matches":
            return IMPOSSIBLE
        found = (
            *self.does("swapped", life=life),
            *self.does("owned", life=life),
            *self.does("refreshed", life=life, owner=owner),
        )
        if seen.rank("start") < 0 or seen.rank("listed") != owner:
            return found
        listed = self.does("listed_segment", life=life, owner=owner, place=seen.rank("start"))
        return (*found, *listed)


def _with_what_is_seen(seen: Observation, actions: Actions) -> Actions:
    """The actions, after which the manifest's owner, count and last segment are those of the event."""
    owner, count = seen.rank("owner"), seen.rank("segments")
    found = where(
        f"owner {owner} has listed {count} segments",
        lambda s: (s.manifest.owner == owner) & (s.manifest.count == count),
        actions,
    )
    if count < 1:
        return found
    place, uploader = seen.rank("start"), seen.rank("listed")
    return where(
        f"the last one is segment {place} of owner {uploader}",
        lambda s: (s.manifest.last == place) & (s.listed[place] == uploader),
        found,
    )
