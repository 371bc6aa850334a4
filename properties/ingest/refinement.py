"""Which steps of the acceptance machine the store's events show.

    put or complete-upload raw-blobs/<sha>[~<generation>]    a blob stands, in one more generation
    create accepted/<identity>                               the batch is accepted
    create quarantine/<identity>/<sha>                       a conflict is on record
    create accepted-by-time/..., accepted-by-blob/...        what is derived of the manifest
    delete raw-blobs/...                                     collected
    note outcome, note live                                   what an agent was told, what live state shows

Reading shows nothing, and neither does a create that met what was there already.

A run is one identity's: see `grouping`. Generations are counted from the one before the first that is seen,
which a collector may still choose whose clock is behind. Where names do not say them (a versioned bucket), it
may be any that explains the run.

What stood before the first event is unknown here, so a run must begin before its batch. For a run with
more batches or generations than the machine has there is no room: undecided.
"""

from collections.abc import Mapping

from fencepost.model import Model
from fencepost.model.ingest import USABLE
from fencepost.properties.ingest.followed import Followed
from fencepost.properties.refinement import (
    COUNTED,
    IMPOSSIBLE,
    OUT_OF_BOUNDS,
    STUTTER,
    Actions,
    Keys,
    Observation,
    Refinement,
    Role,
    where,
)

IDENTITY = r"(?P<identity>agent=[0-9a-f]+/boot=[0-9a-f]+/[0-9]+-[0-9]+)"
SHA = r"sha256/[0-9a-f]{2}/[0-9a-f]{2}/(?P<sha>[0-9a-f]{64})"
STORED = ("accepted", "duplicate")


class IngestRefinement(Refinement):
    """See the top of this module."""

    keys = (
        Keys("blob", rf"(?:.*/)?raw-blobs/v1/{SHA}(?:~(?P<generation>[0-9]+))?\.lmbatch"),
        Keys("manifest", rf"(?:.*/)?accepted/v1/{IDENTITY}\.json"),
        Keys("record", rf"(?:.*/)?quarantine/v1/identity-conflict/{IDENTITY}/(?P<sha>[0-9a-f]{{64}})\.json"),
        Keys("listing", r"(?:.*/)?accepted-by-time/v1/date=[^/]+/hour=[^/]+/[^/]+\.json"),
        Keys("reference", rf"(?:.*/)?accepted-by-blob/v1/{SHA}/{IDENTITY}\.json"),
    )
    runs = "identity"
    trace_fields = ("what",)
    notes = frozenset({"outcome", "live"})
    hidden = ("time_passes", "ages")

    def __init__(
        self, contents: int = 2, horizons: int = 9, *, versioned: bool = False, bounded: bool = True
    ) -> None:
        """Room for so many batches of the identity, and in a plain bucket for so many horizons. Unless
        `bounded`, requests may land and clocks differ by any time; a versioned bucket asks for no bounds.
        """
        sizes: Mapping[str, int] = {
            "contents": contents,
            "horizons": 1 if versioned else horizons,
            "versioned": int(versioned),
        }
        free = () if bounded and not versioned else ("bounded-landing", "bounded-skew")
        super().__init__(Model(Followed, sizes, without=free))
        self.versioned = bool(versioned)  # a command line knows 0 and 1
        self.roles = (
            Role("identity", ("identity",), most=0),
            Role("batch", ("sha",), most=contents - 1),
            Role("generation", ("generation",), COUNTED, start=1, most=horizons - USABLE - 1),
        )

    def modelled(self) -> Refinement:
        from fencepost.properties.ingest.as_modelled import AsModelled  # it derives from what stands here

        return AsModelled()

    def actions(self, seen: Observation) -> Actions:
        if seen.phase == "note":
            return self.noted(seen)
        if not seen.done:
            return STUTTER
        if seen.kind == "delete":
            return self.deleted(seen) if seen.what == "blob" else IMPOSSIBLE
        return _PUT[seen.what](self, seen)

    def generation(self, seen: Observation) -> dict[str, int]:
        """The generation, where it is told."""
        return {} if self.versioned else {"generation": seen.rank("generation")}

    def is_foreign(self, seen: Observation) -> bool:
        """Whether the names are those of a bucket of the other kind."""
        return (seen.rank("generation") >= 0) is self.versioned

    def stored(self, seen: Observation) -> Actions:
        if self.is_foreign(seen):
            return OUT_OF_BOUNDS
        return self.does("blob_stands", h=seen.rank("sha"), **self.generation(seen))

    def deleted(self, seen: Observation) -> Actions:
        if self.is_foreign(seen):
            return OUT_OF_BOUNDS
        if seen.trace_field("what") == "everything":
            return IMPOSSIBLE  # whatever stands there by then
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
        # Put over what stands: a create would have been told that one does.
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
            self.does("derived", entry=entry),
        )

    def noted(self, seen: Observation) -> Actions:
        h, what = seen.rank("sha"), seen.trace_field("what")
        if seen.what == "live":
            return self.does("shown_live", h=h)
        if what in STORED:
            return self.does("answered", h=h, outcome="stored")
        return self.does("answered", h=h, outcome="parked") if what == "conflict" else STUTTER


_PUT = {
    "blob": IngestRefinement.stored,
    "manifest": IngestRefinement.accepted,
    "record": IngestRefinement.recorded,
    "listing": IngestRefinement.listed,
    "reference": IngestRefinement.referenced,
}
