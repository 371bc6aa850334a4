"""The refinement map of streams: which actions of the model the events of the store show.

    create manifest.json                 created
    if-match on manifest.json            swapped, owned, refreshed, listed or buried: by its trace fields
    create segments/...                  uploaded
    delete segments/..., manifest.json   data_deleted, manifest_deleted

A run is a stream's prefix. Of a manifest a trace shows the incarnation, the owner, whether it is a tombstone,
how many segments it lists, and the last of them.
"""

from collections.abc import Mapping

from fencepost.model import Label, Model, Truth, any_of
from fencepost.model.streams import Streams
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
