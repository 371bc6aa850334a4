"""Lockstep: a run of real code is followed by its model, and what the model does not allow is a failure.

Each system says how its events are read. One automaton serves all runs of a kind, so a step of a run is a
look-up once some run has been there. See docs/guides/write-a-refinement-map.md.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from fencepost.impl.store.errors import Misuse
from fencepost.properties.refinement import Automaton, Driven, Lens, Refinement, Verdict
from fencepost.sim.world import World

TRACE_FIELDS_MAX = 50_000
"""Bodies that are remembered with what they tell: an audit meets the same few many thousand times."""

K = TypeVar("K", bound=Hashable)


class Lenses(Generic[K]):
    """How runs of each kind are read into their automaton, and what they drove of the model so far."""

    def __init__(self, refinement: Callable[[K], Refinement], modelled: Callable[[], Refinement]) -> None:
        """`modelled` is the refinement at the bound at which the share of what was driven is told."""
        self._refinement = refinement
        self._modelled = modelled
        self._lenses: dict[K, Lens] = {}

    def of(self, kind: K) -> Lens:
        if kind not in self._lenses:
            self._lenses[kind] = Lens(Automaton(self._refinement(kind)))
        return self._lenses[kind]

    def driven(self) -> dict[str, Any]:
        """Which share of the model's transitions, at its bound, the runs of this process drove so far."""
        driven = Driven(Automaton(self._modelled()))
        for lens in self._lenses.values():
            for run in lens.runs():
                driven.drive(run)
        return {"model": driven.share().as_json()} if driven.runs else {}


def judged(verdict: Verdict | None, findings: list[str]) -> str | None:
    """What a violation is called. Where the model has no room for the run, that is one of `findings`."""
    if verdict is None:
        return None
    if verdict.verdict != "violated":
        findings.append(f"lockstep: {verdict.reason}, so the run was not followed to its end")
        return None
    assert verdict.explanation is not None
    return "\n".join([f"the model does not allow this. {verdict.reason}", *verdict.explanation.lines()])


def told_about(
    world: Any,
    trace_fields: Callable[[str, bytes], str],
    lenses: Lenses[Any],
    *,
    lockstep: str,
    coverage: str,
) -> bool:
    """What an audit of a shipped system writes down besides; whether its runs are followed."""
    if {lockstep, coverage} - {"on", "off"}:
        raise Misuse("lockstep is on or off, and so is coverage")
    if isinstance(world, World):
        world.trace_fields = trace_fields  # so that a trace that is written can be replayed
        if coverage == "on":
            world.report(lenses.driven)
    return lockstep == "on"
