"""Every run of the publish library in lockstep with its model: what the model does not allow is a failure.

How many plans and claims the model must have room for is known when the scenario is set.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.errors import StoreError
from fencepost.properties.publish import AsModelled, PublishRefinement
from fencepost.properties.refinement import Follower
from fencepost.sim.systems.publishing.stage import ScenarioRun
from fencepost.sim.systems.staging.lockstep import TRACE_FIELDS_MAX, Lenses, judged
from fencepost.sim.world import World

PLANS_MAX, CLAIMS_MAX = 8, 6
"""What the model has room for at most. Runs with more of either are followed as far as it goes."""

_told = lru_cache(TRACE_FIELDS_MAX)(trace_fields)


class Size(NamedTuple):
    """Of a run: its plans and claims, and whether somebody's clock may be wrong."""

    plans: int
    claims: int
    skew: bool

    def refinement(self) -> PublishRefinement:
        return PublishRefinement(self.plans, self.claims, skew=self.skew)


LENSES = Lenses(Size.refinement, AsModelled)


def in_lockstep(run: ScenarioRun, *, skew: bool) -> None:
    """Follow the run of this stage. Of a real store nobody knows in which order requests landed."""
    world = run.world
    if isinstance(world, World):
        claims = len(world.processes) + 2  # one each, and of those that start again
        world.follow("lockstep", Lockstep(len(run.changes), claims, world.findings, skew=skew))


class Lockstep:
    """Follows one run. Where the model has no room for it, that is one of `findings`."""

    def __init__(self, plans: int, claims: int, findings: list[str], *, skew: bool = False) -> None:
        seen = LENSES.of(Size(min(max(plans, 2), PLANS_MAX), min(claims, CLAIMS_MAX), skew))
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
            _told(request.key, request.body) if request.kind == "put" else "",
        )
        return judged(self.follower.see(looks, process, incarnation), self.findings)

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        if not topic.startswith("outcome "):
            return None
        said, plan = value[:2]
        looks = ("note", "note", topic, "", said, f"plan={plan}" if plan else "")
        return judged(self.follower.see(looks, process, incarnation), self.findings)

    def state(self) -> Any:
        return self.follower.state()


def _condition(request: Any) -> str:
    return type(request.when).__name__.lower()
