"""Every run of the ingest library in lockstep with its model: what the model does not allow is a failure.

Each identity is followed by itself. What stood before the run is shown to the model first, as if somebody
had stored it in the same order.
"""

from typing import Any

from holdfast.impl.ingest.facts import facts
from holdfast.impl.store.requests import Outcome
from holdfast.properties.ingest import AsModelled, IngestRefinement, Names
from holdfast.properties.refinement import Automaton, Driven, Follower, Lens, Verdict
from holdfast.sim.systems.ingesting.batches import BATCHES, BY_HASH

CONTENTS = 2
HORIZONS = 15
"""Room for what stood long before the run."""
KINDS = ("put", "delete", "complete-upload")

_lenses: dict[tuple[bool, bool], Lens] = {}
_facts: dict[tuple[str, bytes], str] = {}
_FACTS_MAX = 50_000


def lens(*, versioned: bool, bounded: bool) -> Lens:
    """The automaton for a bucket of this kind, and how events are read into it."""
    if (versioned, bounded) not in _lenses:
        refinement = IngestRefinement(CONTENTS, HORIZONS, versioned=versioned, bounded=bounded)
        _lenses[versioned, bounded] = Lens(Automaton(refinement))
    return _lenses[versioned, bounded]


def model_driven() -> dict[str, Any]:
    """Which share of the model's transitions the runs of this process drove so far, within `BOUND`."""
    driven = Driven(Automaton(AsModelled()))
    for seen in _lenses.values():
        for run in seen.runs():
            driven.drive(run)
    return {"model": driven.share().as_json()} if driven.runs else {}


class Lockstep:
    """Follows one run. Unless `bounded`, requests of a plain bucket may land at any time.

    Where the model has no room for a run, that is one of `findings`.
    """

    def __init__(self, findings: list[str], *, versioned: bool, bounded: bool = True) -> None:
        self.findings = findings
        self._lens = lens(versioned=versioned, bounded=bounded)
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
        if topic == "told":
            sha, what = value.sha256, value.what
        elif topic == "live":
            sha, what = value[1], "live"
        else:
            return None
        looks = ("note", "note", topic, "", "", f"sha={sha} what={what}")
        return self._judged(self._follower(BY_HASH[sha].identity.path).see(looks, process, incarnation))

    def state(self) -> Any:
        return tuple((identity, one.state()) for identity, one in sorted(self.followers.items()))

    def _see(
        self, process: str, incarnation: int, kind: str, key: str, condition: str, outcome: str, told: str
    ) -> str | None:
        identity = _NAMES.of(key, told)
        if not identity:
            return None
        looks = ("landed", kind, key, condition, outcome, told)
        return self._judged(self._follower(identity).see(looks, process, incarnation))

    def _follower(self, identity: str) -> Follower:
        if identity not in self.followers:
            self.followers[identity] = Follower(self._lens.automaton, self._lens)
        return self.followers[identity]

    def _judged(self, verdict: Verdict | None) -> str | None:
        if verdict is None:
            return None
        if verdict.verdict != "violated":
            self.findings.append(f"lockstep: {verdict.reason}, so the run was not followed to its end")
            return None
        assert verdict.explanation is not None
        return "\n".join([f"the model does not allow this. {verdict.reason}", *verdict.explanation.lines()])


def _told(key: str, body: bytes) -> str:
    known = (key, body)
    if known not in _facts:
        if len(_facts) > _FACTS_MAX:
            _facts.clear()
        _facts[known] = facts(*known)
    return _facts[known]


def _names() -> Names:
    names = Names()
    for batch in BATCHES.values():
        names.learn(batch.raw_key(), _told(batch.raw_key(), batch.body))
    return names


_NAMES = _names()
