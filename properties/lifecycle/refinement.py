"""The refinement map of lifecycles: the writes of documents as actions of the machine `LifecycleObserved`.

    create cursors/...         created
    if-match on cursors/...    saved in the same generation; rewound, named, forgot and fenced in the next
    delete cursors/...         removed
    buckets/...                walk_began, walk_went_on, walk_ended, demoted
    retries/...                counted, cleared
    blockers/...               blocked, unblocked
    quarantine/...             given_up
    pending/..., drained/...   nothing of the machine

Values that rise without end are compared with those of the last write of the same document. A document has
the next revision. A cursor has the same generation or the next, no lower epoch, and a position that fits the
action. The ranges of keys that a walk has not done get shorter, also when one is divided. A cursor that names
more actions is not past the beginning of the latest walk, less the delay. A worker without a lease does not
save a cursor past its blocked item.

A run is the lifecycle of a store, or a part of it (`whole=0`).
"""

from fencepost.model import Machine, Model
from fencepost.properties.lifecycle.replayed import LifecycleReplayed, PartReplayed
from fencepost.properties.refinement import (
    IMPOSSIBLE,
    STUTTER,
    Actions,
    Compared,
    Keys,
    Observation,
    Refinement,
    RequestRules,
    Role,
)

_FOLDER = r"(?:.*/)?lifecycle/v1/"
_DOCUMENTS = ("cursor", "bucket", "retry", "pending", "drained")
"""The documents that have a revision."""
HIGHER = ("next", "more")
UNKNOWN = ""
"""The result of a comparison where nothing was shown before."""
MIDWAY = (
    "the protocol of documents before this run writes them: the run may begin midway, so any content of them "
    "is accepted, unless --set whole=1 says that runs begin with their lifecycle"
)
"""The part of a run that the default leaves open."""
BACK, FURTHER = 1, 1
"""Parameters of labels: a position that is not past the last one (0 or 1), and one that is (1 + 1)."""


class LifecycleRefinement(Refinement):
    """Into the observed machine, see `replayed`."""

    keys = (
        Keys("cursor", rf"{_FOLDER}cursors/(?P<cursor>.+)\.json"),
        Keys("bucket", rf"{_FOLDER}buckets/(?P<bucket>[^/]+)\.json"),
        Keys("retry", rf"{_FOLDER}retries/(?P<item>[^/]+)\.json"),
        Keys("blocker", rf"{_FOLDER}blockers/(?P<item>[^/]+)\.json"),
        Keys("quarantine", rf"{_FOLDER}quarantine/(?P<item>[^/]+)/(?P<given>[^/]+)\.json"),
        Keys("pending", rf"{_FOLDER}pending/(?P<pending>.+)\.json"),
        Keys("drained", rf"{_FOLDER}drained/(?P<drained>.+)\.json"),
    )
    trace_fields = ("serves", "walk", "beginning", "driven", "tries", "leased")
    compared = (
        Compared("cursor_revision_is", "revision", "cursor", ("cursor",)),
        Compared("bucket_revision_is", "revision", "bucket", ("bucket",)),
        Compared("retry_revision_is", "revision", "retry", ("item",)),
        Compared("pending_revision_is", "revision", "pending", ("pending",)),
        Compared("drained_revision_is", "revision", "drained", ("drained",)),
        Compared("generation_is", "generation", "cursor", ("cursor",)),
        Compared("epoch_is", "epoch", "cursor", ("cursor",)),
        Compared("position_is", "position", "cursor", ("cursor",), numbers=False),
        Compared("serves_is", "serves", "cursor", ("cursor",)),
        Compared("names_are", "names", "cursor", ("cursor",), numbers=False),
        Compared("reach_is", "reach", "bucket", against="began", largest=True),
        Compared("passes", "position", "blocker", ("stream", "item"), against="blocked", numbers=False),
        Compared("walker_is", "epoch", "bucket", ("bucket",)),
        Compared("began_is", "began", "bucket", ("bucket",)),
        Compared("left_is", "left", "bucket", ("bucket",), numbers=False),
        Compared("beginning_is", "beginning", "bucket", ("bucket",)),
        Compared("begins_are", "begins", "bucket", ("bucket",), numbers=False),
        Compared("driven_is", "driven", "bucket", ("bucket",)),
        Compared("drives_are", "drives", "bucket", ("bucket",), numbers=False),
        Compared("tries_are", "tries", "retry", ("item",)),
        Compared("failing_is", "failing", "retry", ("item",), numbers=False),
        Compared("blocked_is", "blocked", "retry", ("item",), against="failing", numbers=False),
        Compared("given_is", "given", "blocker", ("item",), against="blocked", numbers=False),
    )

    def __init__(
        self, streams: int = 12, names: int = 4, buckets: int = 2, items: int = 4, whole: int = 0
    ) -> None:
        """`items`: streams that have failures. `whole`: runs begin with the lifecycle of their store, so that
        everything that is there must be explained.
        """
        machine: type[Machine] = LifecycleReplayed if whole else PartReplayed
        self.hidden = () if whole else ("begin_midway",)  # type: ignore[misc]  # of this map
        self.is_whole = bool(whole)
        super().__init__(
            Model(machine, {"streams": streams, "names": names, "buckets": buckets, "times": 0, "tries": 1})
        )
        self.roles = (
            Role("cursor", ("cursor",), most=streams - 1),
            Role("bucket", ("bucket",), most=buckets - 1),
            Role("item", ("item",), most=min(items, streams) - 1),
        )
        swaps = ("absent", "matches")
        self.request_rules = RequestRules(
            conditions=dict.fromkeys((*_DOCUMENTS, "blocker"), swaps),
            not_judged=(
                *(() if whole else (MIDWAY,)),
                "what was deleted in the bucket, and whether it was due",
                "what the events that a cursor passed were about",
                "which versions are pending",
                "whether a cursor of a new shard is early enough",
                "whether a worker with a lease saves a cursor past its blocked item",
                "whether all cursors of an action name it",
                "revisions, epochs and positions of documents whose write before no landing or ETag shows",
            ),
        )

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        if seen.kind == "put" and not self._is_next(seen):
            return IMPOSSIBLE
        match seen.what:
            case "cursor":
                return self._of_cursor(seen)
            case "bucket":
                return self._of_bucket(seen) if seen.kind == "put" else STUTTER
            case "retry":
                return self._of_retry(seen)
            case "blocker":
                return self._of_blocker(seen)
            case "quarantine":
                is_blocked = seen.trace_field("given_is") in (UNKNOWN, "same")
                return self.does("given_up", k=seen.rank("item")) if is_blocked else IMPOSSIBLE
            case _:
                return STUTTER

    def _is_next(self, seen: Observation) -> bool:
        """The document has the next revision: no write of it is missing, and none was made twice."""
        return seen.trace_field(f"{seen.what}_revision_is") in (UNKNOWN, "next")

    def _number(self, seen: Observation, name: str) -> int:
        return min(int(seen.trace_field(name) or 0), self.model.sizes["names"])

    # Cursors.

    def _of_cursor(self, seen: Observation) -> Actions:
        k, n = seen.rank("cursor"), self._number(seen, "serves")
        if seen.kind == "delete":
            return self.does("removed", k=k)
        if seen.condition == "absent":
            return self.does("created", k=k, n=n - 1, to=BACK, late=self._lateness(seen)) if n else IMPOSSIBLE
        if seen.condition != "matches":
            return IMPOSSIBLE
        generation = seen.trace_field("generation_is")
        found: Actions = ()
        if generation in (UNKNOWN, "same"):
            found += self._of_save(seen, k, n)
        if generation in (UNKNOWN, "next"):
            found += self._of_new_generation(seen, k, n)
        return found

    def _lateness(self, seen: Observation) -> tuple[int, ...]:
        """Return 1 if the position is later than the beginning of every walk less the delay, both if unknown.

        A part of a run does not show all walks.
        """
        reach = seen.trace_field("reach_is")
        if reach == UNKNOWN or not self.is_whole:
            return 0, 1
        return (1,) if reach in HIGHER else (0,)

    def _is(self, seen: Observation, **wanted: str) -> bool:
        """Each comparison has this result, or is unknown."""
        return all(seen.trace_field(name) in (UNKNOWN, *words.split()) for name, words in wanted.items())

    def _of_save(self, seen: Observation, k: int, n: int) -> Actions:
        is_save = self._is(seen, position_is="more", names_are="same", epoch_is="same")
        is_past = seen.trace_field("passes") == "more" and seen.trace_field("leased") == "0"
        return self.does("saved", k=k, n=n, to=FURTHER, past=0) if is_save and not is_past else ()

    def _of_new_generation(self, seen: Observation, k: int, n: int) -> Actions:
        found: Actions = ()
        if self._is(seen, position_is="same", names_are="same", epoch_is="next more"):
            found += self.does("fenced", k=k, n=n)
        if not self._is(seen, epoch_is="same"):
            return found
        if self._is(seen, position_is="same", serves_is="less"):
            found += self.does("forgot", k=k, n=n)
        if self._is(seen, position_is="same less", names_are="same"):
            found += self.does("rewound", k=k, n=n, to=BACK)
        if n and self._is(seen, position_is="same less", serves_is="next more") and 0 in self._lateness(seen):
            found += self.does("named", k=k, n=n - 1, to=BACK)
        return found

    # The record of a bucket.

    def _of_bucket(self, seen: Observation) -> Actions:
        if not self._is(seen, walker_is="same next more"):
            return IMPOSSIBLE
        b, d = seen.rank("bucket"), self._number(seen, "driven")
        fewer_driven = self._is_fewer(seen, "driven_is", "drives_are")
        if seen.trace_field("walk") == "0":
            ended = self.does("walk_ended", b=b, d=d)
            return (*ended, *self.does("demoted", b=b, d=d)) if fewer_driven else ended
        if not fewer_driven:
            return IMPOSSIBLE
        n = self._number(seen, "beginning")
        is_same_walk = seen.trace_field("began_is") == "same"
        found: Actions = ()
        if not is_same_walk:
            found += self.does("walk_began", b=b, n=n, d=d)
        is_fewer = self._is_fewer(seen, "beginning_is", "begins_are")
        if self._is(seen, began_is="same", left_is="same less") and is_fewer:
            found += self.does("walk_went_on", b=b, n=n, d=d)
        return found

    def _is_fewer(self, seen: Observation, number: str, names: str) -> bool:
        """A set has lost elements, or is the same."""
        if seen.trace_field(number) == "same":
            return self._is(seen, **{names: "same"})
        return self._is(seen, **{number: "less"})

    # Items that cannot be worked on.

    def _of_retry(self, seen: Observation) -> Actions:
        k = seen.rank("item")
        if seen.kind != "put":
            return self.does("cleared", k=k)
        is_first = seen.trace_field("tries") == "1"
        if self._is(seen, failing_is="same") and not is_first:
            is_one_more = self._is(seen, tries_are="next") and seen.condition == "matches"
            return self.does("counted", k=k, first=0) if is_one_more else IMPOSSIBLE
        is_another = seen.trace_field("failing_is") != "same"
        return self.does("counted", k=k, first=1) if is_first and is_another else IMPOSSIBLE

    def _of_blocker(self, seen: Observation) -> Actions:
        k = seen.rank("item")
        if seen.kind != "put":
            return self.does("unblocked", k=k)
        return self.does("blocked", k=k, at=BACK) if self._is(seen, blocked_is="same") else IMPOSSIBLE
