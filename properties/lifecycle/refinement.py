"""The refinement map of lifecycles: which steps of the protocol the events of the store show.

    create cursors/...                    created
    if-match on cursors/...               saved, if its generation stays; or rewound, forgot, fenced
    buckets/...                           walk_began, walk_went_on, walk_ended, demoted: by its trace fields
    retries/...                           counted, cleared
    blockers/..., quarantine/...          blocked, unblocked, given_up

A run is the lifecycle of a store, or a part of it (`whole=0`). Of a cursor a trace shows whether its
generation is odd, whether its reader has a lease, and how many actions it names; positions are judged by the
audit (`checks.STEPS`), as whether one is behind another no rank shows.
"""

from fencepost.model import Model
from fencepost.properties.lifecycle.followed import Followed
from fencepost.properties.refinement import (
    IMPOSSIBLE,
    STUTTER,
    Actions,
    Keys,
    Observation,
    Refinement,
    RequestRules,
    Role,
)

_FOLDER = r"(?:.*/)?lifecycle/v1/"


class LifecycleRefinement(Refinement):
    """Into the machine that follows runs, see `followed`."""

    keys = (
        Keys("cursor", rf"{_FOLDER}cursors/(?P<cursor>.+)\.json"),
        Keys("bucket", rf"{_FOLDER}buckets/(?P<bucket>[^/]+)\.json"),
        Keys("retry", rf"{_FOLDER}retries/(?P<item>[^/]+)\.json"),
        Keys("blocker", rf"{_FOLDER}blockers/(?P<item>[^/]+)\.json"),
        Keys("quarantine", rf"{_FOLDER}quarantine/(?P<item>[^/]+)/[^/]+\.json"),
    )
    trace_fields = ("generation", "serves", "leased", "walk", "beginning", "driven", "failed")

    def __init__(
        self, cursors: int = 12, names: int = 4, buckets: int = 2, items: int = 4, whole: int = 0
    ) -> None:
        """`whole`: runs begin with the lifecycle of their store, so that all of it must be explained."""
        self.left_out = ("begin_midway",) if whole else ()  # type: ignore[misc]  # of this map
        self.hidden = () if whole else ("begin_midway",)  # type: ignore[misc]  # of this map
        super().__init__(
            Model(Followed, {"cursors": cursors, "names": names, "buckets": buckets, "items": items})
        )
        self.roles = (
            Role("cursor", ("cursor",), most=cursors - 1),
            Role("bucket", ("bucket",), most=buckets - 1),
            Role("item", ("item",), most=items - 1),
        )
        swaps = ("absent", "matches")
        self.request_rules = RequestRules(
            conditions={"cursor": swaps, "bucket": swaps, "retry": swaps, "blocker": swaps},
            not_judged=("what was deleted in the bucket", "how far a cursor is", "the pending lists"),
        )

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        if seen.what == "cursor":
            return self._of_cursor(seen)
        if seen.what == "bucket":
            return self._of_bucket(seen)
        i, puts = seen.rank("item"), seen.kind == "put"
        if seen.what == "quarantine":
            return self.does("given_up", i=i)
        if seen.what == "blocker":
            return self.does("blocked" if puts else "unblocked", i=i)
        return (
            self.does("counted", i=i, first=int(seen.trace_field("failed") == "first"))
            if puts
            else self.does("cleared", i=i)
        )

    def _number(self, seen: Observation, name: str) -> int:
        return min(int(seen.trace_field(name) or 0), self.model.sizes["names"])

    def _of_cursor(self, seen: Observation) -> Actions:
        if seen.kind != "put":
            return STUTTER  # an operator, or the end of a shard
        odd, serves = int(seen.trace_field("generation") == "odd"), self._number(seen, "serves")
        place = {"k": seen.rank("cursor"), "n": serves, "odd": odd}
        if seen.condition == "absent":
            return self.does("created", **place)
        if seen.condition != "matches":
            return IMPOSSIBLE
        fenced = self.does("fenced", **place) if seen.trace_field("leased") == "1" else ()
        moves = (self.does(name, **place) for name in ("saved", "rewound", "forgot"))
        return (*fenced, *(one for actions in moves for one in actions))

    def _of_bucket(self, seen: Observation) -> Actions:
        if seen.kind != "put":
            return STUTTER
        place = {"b": seen.rank("bucket"), "d": self._number(seen, "driven")}
        if seen.trace_field("walk") == "1":
            n = self._number(seen, "beginning")
            return (*self.does("walk_began", n=n, **place), *self.does("walk_went_on", n=n, **place))
        return (*self.does("walk_ended", **place), *self.does("demoted", **place))
