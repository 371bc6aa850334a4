"""Every run of the ingest library in lockstep with its model: what the model does not allow is a failure.

Each identity is followed by itself. What stood before the run is shown to the model first, as if somebody
had stored it in the same order.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store.requests import Outcome
from fencepost.properties.ingest import AsModelled, IngestRefinement, Names
from fencepost.properties.refinement import Follower
from fencepost.sim.systems.ingesting.batches import BATCHES, BY_HASH
from fencepost.sim.systems.staging.lockstep import TRACE_FIELDS_MAX, Lenses, judged

CONTENTS = 2
HORIZONS = 15
"""Room for what stood long before the run."""
KINDS = ("put", "delete", "complete-upload")

_told = lru_cache(TRACE_FIELDS_MAX)(trace_fields)


class Kind(NamedTuple):
    """Of bucket, and whether requests land within bounds there."""

    versioned: bool
    bounded: bool

    def refinement(self) -> IngestRefinement:
        return IngestRefinement(CONTENTS, HORIZONS, versioned=self.versioned, bounded=self.bounded)


LENSES = Lenses(Kind.refinement, AsModelled)


class Lockstep:
    """Follows one run. Unless `bounded`, requests of a plain bucket may land at any time.

    Where the model has no room for a run, that is one of `findings`.
    """

    def __init__(self, findings: list[str], *, versioned: bool, bounded: bool = True) -> None:
        self.findings = findings
        self._lens = LENSES.of(Kind(versioned, bounded))
        self._versioned = versioned
        self.followers: dict[str, Follower] = {}

    def before(self, key: str, body: bytes) -> None:
        """This stood before the run."""
        self._see("before", 0, "put", key, "absent", Outcome.DONE.value, _told(key, body))

    def landed(self, process: str, incarnation: int, request: Any, reply: Any) -> str | None:
        outcome = getattr(reply, "outcome", None)
        if request.kind not in KINDS or not isinstance(outcome, Outcome):
            return None
        condition = type(request.when).__name__.lower()
        told = _told(request.key, request.body) if request.kind == "put" else ""
        if request.kind == "delete" and self._versioned and not request.version:
            told = "what=everything"
        return self._see(process, incarnation, request.kind, request.key, condition, outcome.value, told)

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        if topic == "outcome":
            sha, what = value.sha256, value.what
        elif topic == "live":
            sha, what = value[1], "live"
        else:
            return None
        looks = ("note", "note", topic, "", "", f"sha={sha} what={what}")
        follower = self._follower(BY_HASH[sha].identity.path)
        return judged(follower.see(looks, process, incarnation), self.findings)

    def state(self) -> Any:
        return tuple((identity, one.state()) for identity, one in sorted(self.followers.items()))

    def _see(
        self, process: str, incarnation: int, kind: str, key: str, condition: str, outcome: str, told: str
    ) -> str | None:
        identity = _NAMES.of(key, told)
        if not identity:
            return None
        looks = ("landed", kind, key, condition, outcome, told)
        return judged(self._follower(identity).see(looks, process, incarnation), self.findings)

    def _follower(self, identity: str) -> Follower:
        if identity not in self.followers:
            self.followers[identity] = Follower(self._lens.automaton, self._lens)
        return self.followers[identity]


def _names() -> Names:
    names = Names()
    for batch in BATCHES.values():
        names.learn(batch.raw_key(), _told(batch.raw_key(), batch.body))
    return names


_NAMES = _names()
