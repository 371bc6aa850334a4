"""The refinement map of ingest: which actions of the acceptance model the store's events show.

    put or complete-upload raw-blobs/<sha>[~<generation>]    a blob exists, in one more generation
    create accepted/<identity>                               the batch is accepted
    create quarantine/<identity>/<sha>                       a conflict is recorded
    create accepted-by-time/..., accepted-by-blob/...        an object derived from the manifest
    delete raw-blobs/...                                     collected
    note outcome, note live                                  an agent's outcome, what live state shows

To the model reading shows nothing, and neither does a create that found an object: `request_rules` judge
that.

A run is one identity's. Generations are counted from the one before the first in the run, which a collector
with a slow clock may still choose. Where names hold no generation (a versioned bucket), it may be any that
explains the run.

The objects that exist before the first event are unknown, so a run must begin before its batch. A run with
more batches or generations than the machine has is out of bounds: undecided.
"""

from collections.abc import Mapping
from typing import ClassVar

from fencepost.model import Model
from fencepost.model.ingest_observed import USABLE, IngestObserved
from fencepost.properties.refinement import (
    COUNTED,
    IMPOSSIBLE,
    OUT_OF_BOUNDS,
    STUTTER,
    Actions,
    Keys,
    LinkedRuns,
    Observation,
    Refinement,
    RequestRules,
    Role,
    where,
)

_IDENTITY = "agent=[0-9a-f]+/boot=[0-9a-f]+/[0-9]+-[0-9]+"
IDENTITY = f"(?P<identity>{_IDENTITY})"
_SHA = "sha256/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}"
SHA = r"sha256/[0-9a-f]{2}/[0-9a-f]{2}/(?P<sha>[0-9a-f]{64})"
RUNS = LinkedRuns(
    "identity", run=f"(?P<run>{_IDENTITY})", link="(?:^|[/ =])(?P<link>[0-9a-f]{64})(?:[~./ ]|$)"
)
"""The bytes of a frame name its identity, so the hash of a blob belongs to one identity."""
REPLIES = {"accepted": "accepted", "duplicate": "duplicate", "conflict": "parked"}
"""The replies to agents, by what a trace notes."""


def request_rules(*, versioned: bool) -> RequestRules:
    """Conditions; nothing but blobs is deleted; a conflict is recorded after reading what was accepted."""
    return RequestRules(
        keys=(
            Keys("refusal", rf"(?:.*/)?quarantine-by-blob/v1/{_SHA}/{_IDENTITY}\.json"),
            Keys("cursor", r"(?:.*/)?cursors/v1/[^/]+\.json"),
        ),
        conditions={
            "refusal": ("absent",),
            "cursor": ("absent", "matches"),
            "blob": ("absent", "matches") if versioned else ("absent",),
            "manifest": ("absent",),
            "record": ("absent",),
            "listing": ("absent",),
            "reference": ("absent",),
        },
        kept=("manifest", "record", "listing", "reference", "refusal"),
        read_first=(("record", "manifest"),),
        deletes_all=not versioned,
        not_judged=(
            "objects of no batch: cursors (unless a run has them), audits, rollups, decisions of operators",
            "the age and the references by which a blob was judged before its deletion",
            "answers to agents that the trace does not note",
        ),
    )


class IngestRefinement(Refinement):
    """Into the specification in terms of what the store shows."""

    keys = (
        Keys("blob", rf"(?:.*/)?raw-blobs/v1/{SHA}(?:~(?P<generation>[0-9]+))?\.lmbatch"),
        Keys("manifest", rf"(?:.*/)?accepted/v1/{IDENTITY}\.json"),
        Keys("record", rf"(?:.*/)?quarantine/v1/identity-conflict/{IDENTITY}/(?P<sha>[0-9a-f]{{64}})\.json"),
        Keys("listing", r"(?:.*/)?accepted-by-time/v1/date=[^/]+/hour=[^/]+/[^/]+\.json"),
        Keys("reference", rf"(?:.*/)?accepted-by-blob/v1/{SHA}/{IDENTITY}\.json"),
    )
    runs: ClassVar[LinkedRuns] = RUNS
    trace_fields = ("what",)
    notes = frozenset({"outcome", "live"})
    hidden = ("time_passes", "ages")

    def __init__(
        self, contents: int = 2, horizons: int = 9, *, versioned: bool = False, bounded: bool = True
    ) -> None:
        """Bounds on the batches of the identity, and in a plain bucket on the horizons. Unless `bounded`,
        requests may land and clocks differ by any time; a versioned bucket needs no bounds.
        """
        sizes: Mapping[str, int] = {
            "contents": contents,
            "horizons": 1 if versioned else horizons,
            "versioned": int(versioned),
        }
        free = () if bounded and not versioned else ("bounded-landing", "bounded-skew")
        super().__init__(Model(IngestObserved, sizes, without=free))
        self.versioned = bool(versioned)  # a command line knows 0 and 1
        self.request_rules = request_rules(versioned=self.versioned)
        self.roles = (
            Role("identity", ("identity",), most=0),
            Role("batch", ("sha",), most=contents - 1),
            Role("generation", ("generation",), COUNTED, start=1, most=max(1, horizons - USABLE - 1)),
        )

    def covering(self) -> "IngestRefinement":
        """The map at the bound at which transitions are counted.

        A run in which a blob of a plain bucket is deleted is beyond it.
        """
        return IngestRefinement(2, 2, versioned=self.versioned)

    def actions(self, seen: Observation) -> Actions:
        if seen.phase == "note":
            return self.noted(seen)
        if not seen.done:
            return STUTTER
        if seen.kind == "delete":
            return self.deleted(seen) if seen.what == "blob" else IMPOSSIBLE
        return _PUT[seen.what](self, seen)

    def generation(self, seen: Observation) -> dict[str, int]:
        """The generation, where names hold it."""
        return {} if self.versioned else {"generation": seen.rank("generation")}

    def is_foreign(self, seen: Observation) -> bool:
        """Return True if the names are those of a bucket of the other kind."""
        return (seen.rank("generation") >= 0) is self.versioned

    def stored(self, seen: Observation) -> Actions:
        if self.is_foreign(seen):
            return OUT_OF_BOUNDS
        return self.does("blob_stands", h=seen.rank("sha"), **self.generation(seen))

    def deleted(self, seen: Observation) -> Actions:
        if self.is_foreign(seen):
            return OUT_OF_BOUNDS
        if seen.trace_field("what") == "everything":
            return IMPOSSIBLE  # whatever is there by then
        h, given = seen.rank("sha"), self.generation(seen)
        gone = where(
            "it was gone before",
            lambda s: ~s.blob[h].has(given["generation"]) if given else s.blob[h].is_empty(),
            STUTTER,
        )
        return (*self.does("deleted", h=h, **given), *gone)

    def accepted(self, seen: Observation) -> Actions:
        if self.is_foreign(seen):
            return OUT_OF_BOUNDS
        h = seen.rank("sha")
        # An overwrite: a create would have failed.
        return self.does("accepted", h=h, **self.generation(seen))

    def recorded(self, seen: Observation) -> Actions:
        if self.is_foreign(seen):
            return OUT_OF_BOUNDS
        return self.does("recorded", h=seen.rank("sha"), **self.generation(seen))

    def listed(self, seen: Observation) -> Actions:
        return self._derived(seen, "listing")

    def referenced(self, seen: Observation) -> Actions:
        return self._derived(seen, "reference")

    def _derived(self, seen: Observation, entry: str) -> Actions:
        h = seen.rank("sha")
        return where(
            f"batch {h} is what is accepted",
            lambda s: s.manifest.holds(content=h),
            self.does("indexed", entry=entry),
        )

    def noted(self, seen: Observation) -> Actions:
        h, what = seen.rank("sha"), seen.trace_field("what")
        if seen.what == "live":
            return self.does("shown_live", h=h)
        return self.does("replied", h=h, reply=REPLIES[what]) if what in REPLIES else STUTTER


_PUT = {
    "blob": IngestRefinement.stored,
    "manifest": IngestRefinement.accepted,
    "record": IngestRefinement.recorded,
    "listing": IngestRefinement.listed,
    "reference": IngestRefinement.referenced,
}
