"""Every run of the publish library in lockstep with its model: what the model does not allow is a failure.

One automaton serves all runs of a size, so a step of a run is a look-up once some run has been there. See
docs/guides/write-a-refinement-map.md.
"""

from typing import Any

from holdfast.impl.publish.facts import facts
from holdfast.impl.store.errors import StoreError
from holdfast.properties.publish import AsModelled, PublishRefinement
from holdfast.properties.refinement import Automaton, Driven, Follower, Lens, Verdict
from holdfast.sim.systems.publishing.stage import Stage
from holdfast.sim.world import World

PLANS_MAX, CLAIMS_MAX = 8, 6
"""What the model has room for at most. Runs with more of either are followed as far as it goes."""

_lenses: dict[tuple[int, int, bool], Lens] = {}
_facts: dict[tuple[str, bytes], str] = {}
_FACTS_MAX = 50_000


def lens(plans: int, claims: int, *, skew: bool) -> Lens:
    """The automaton for so many plans and claims in a run, and how events are read into it."""
    size = (min(max(plans, 2), PLANS_MAX), min(claims, CLAIMS_MAX), skew)
    if size not in _lenses:
        _lenses[size] = Lens(Automaton(PublishRefinement(*size[:2], skew=skew)))
    return _lenses[size]


def model_driven() -> dict[str, Any]:
    """Which share of the model's transitions, at its default bound, the runs of this process drove so far."""
    driven = Driven(Automaton(AsModelled()))
    for seen in _lenses.values():
        for run in seen.runs():
            driven.drive(run)
    return {"model": driven.share().as_json()} if driven.runs else {}


def in_lockstep(stage: Stage, *, skew: bool) -> None:
    """Follow the run of this stage. Of a real store nobody knows in which order requests landed."""
    world = stage.world
    if isinstance(world, World):
        claims = len(world.processes) + 2  # one each, and of those that start again
        world.follow("lockstep", Lockstep(len(stage.changes), claims, world.findings, skew=skew))


class Lockstep:
    """Follows one run. Where the model has no room for it, that is one of `findings`."""

    def __init__(self, plans: int, claims: int, findings: list[str], *, skew: bool = False) -> None:
        seen = lens(plans, claims, skew=skew)
        self.follower = Follower(seen.automaton, seen)
        self.findings = findings

    def landed(self, process: str, incarnation: int, request: Any, reply: Any) -> str | None:
        if request.kind not in ("put", "delete") or isinstance(reply, StoreError):
            return None
        looks = (
            "landed",
            request.kind,
            request.key,
            _condition(request),
            reply.outcome.value,
            _told(request),
        )
        return self._judged(self.follower.see(looks, process, incarnation))

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        if not topic.startswith("told "):
            return None
        said, plan = value[:2]
        looks = ("note", "note", topic, "", said, f"plan={plan}" if plan else "")
        return self._judged(self.follower.see(looks, process, incarnation))

    def state(self) -> Any:
        return self.follower.state()

    def _judged(self, verdict: Verdict | None) -> str | None:
        if verdict is None:
            return None
        if verdict.verdict != "violated":
            self.findings.append(f"lockstep: {verdict.reason}, so the run was not followed to its end")
            return None
        assert verdict.explanation is not None
        return "\n".join([f"the model does not allow this. {verdict.reason}", *verdict.explanation.lines()])


def _condition(request: Any) -> str:
    return type(request.when).__name__.lower()


def _told(request: Any) -> str:
    if request.kind != "put":
        return ""
    known = (request.key, request.body)
    if known not in _facts:
        if len(_facts) > _FACTS_MAX:
            _facts.clear()
        _facts[known] = facts(*known)
    return _facts[known]
