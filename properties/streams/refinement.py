"""The refinement map of streams: which actions of the model the events of the store show.

    create manifest.json                 created
    if-match on manifest.json            swapped, owned, refreshed, listed_segment or buried
    create segments/...                  uploaded
    delete segments/..., manifest.json   data_deleted, manifest_deleted

A run is a stream's prefix. Of a manifest a trace shows the incarnation, the owner, whether it is a tombstone,
how many segments it lists, and the last of them.
"""

from collections.abc import Mapping

from fencepost.model import Label, Model, Truth, any_of
from fencepost.model.streams import Streams
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
            *self.does("owned", life=life, owner=owner),
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


BOUND: Mapping[str, int] = {"appends": 2, "epochs": 2, "lives": 1, "troubles": 0}
SHOWN = (
    *("create", "late_create_lands", "own", "late_upload_lands", "move", "refresh", "expire"),
    *("delete_data", "delete_manifest", "recreate", "collect"),
)


class AsModelled(Refinement):
    """Into the model as it is checked, for its coverage.

    Nothing in the store distinguishes nodes, nor shows what they know or plan: any of the model's may have
    done what an event shows. So this map gives no verdicts: `StreamsRefinement` does. A run with a third
    owner, a third append or a second incarnation counts up to there.
    """

    keys = StreamsRefinement.keys
    trace_fields = StreamsRefinement.trace_fields
    runs = StreamsRefinement.runs

    def __init__(self, bound: Mapping[str, int] = BOUND) -> None:
        super().__init__(Model(Streams, bound))
        sizes = self.model.sizes
        self.roles = (
            Role("life", ("incarnation",), most=sizes["lives"] - 1),
            Role("owner", ("owner@incarnation", "listed@incarnation"), COUNTED, most=sizes["epochs"] - 1),
            Role("place", ("start@incarnation",), most=sizes["appends"] - 1),
            Role("segments", ("segments@incarnation",), COUNTED, most=sizes["appends"]),
        )

    def hides(self, label: Label) -> bool:
        answer = dict(label.parameters).get("answer", "done")
        if label.action in ("upload", "delete"):
            return answer != "done"
        return label.action not in SHOWN

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        if seen.what == "segment":
            return self.of_segment(seen.kind, seen.rank("start"))
        if seen.kind == "delete":
            return self.does("delete_manifest")
        if seen.trace_field("state") == "tombstone":
            buried = (*self.does("delete", answer="done"), *self.does("expire"), *self.does("begin_reap"))
            return where("there is a tombstone", lambda s: s.is_dead(), buried)
        if seen.condition == "absent":
            return (*self.does("create"), *self.does("late_create_lands"))
        moves = (action for name in ("recreate", "own", "refresh", "move") for action in self.does(name))
        count = seen.rank("segments")
        return where(
            f"{count} segments are listed",
            lambda s: s.is_live() & (s.manifest.length == count),
            tuple(moves),
        )

    def of_segment(self, kind: str, place: int) -> Actions:
        def stands(s: Streams) -> Truth:
            return any_of(line[place].is_there for line in s.data)

        if kind == "put":
            stored = (*self.does("upload", answer="done"), *self.does("late_upload_lands"))
            return where(f"segment {place} stands", stands, stored)
        deleted = (*self.does("delete_data", o=place), *self.does("collect", o=place))
        return (*deleted, *where("it was gone before", lambda s: ~stands(s), STUTTER))
