"""Programs for the audit: writers that claim and add, and the mutants of the safeguards."""

from typing import Any

from fencepost.examples.fenced_counter.checks import CHECKS
from fencepost.examples.fenced_counter.counter import (
    STANDARD,
    Counter,
    Fenced,
    Safeguards,
    Unknown,
    trace_fields,
)
from fencepost.examples.fenced_counter.refinement import FencedCounterRefinement
from fencepost.sim.systems.harness import declare
from fencepost.sim.systems.lockstep import Lockstep, Readers, cached, prepare_world
from fencepost.sim.systems.system import Mutant
from fencepost.sim.world import World
from fencepost.store import ANYTHING, Misuse

SCENARIOS = {"rivals": ("ann", "bob"), "alone": ("ann",)}
MUTANTS = {
    "compare-and-swap": Mutant(lambda _read: ANYTHING, "rivals"),
    "epoch-check": Mutant(lambda _mine, _latest: True, "rivals"),
}
READERS = Readers(lambda writers: FencedCounterRefinement(writers), FencedCounterRefinement)
_fields = cached(trace_fields)


def _note(_topic: str, _value: Any) -> None:
    """The model reads no notes."""


def program(
    world: World,
    scenario: str = "rivals",
    lockstep: str = "on",
    coverage: str = "off",
    safeguards: Safeguards = STANDARD,
) -> None:
    if scenario not in SCENARIOS:
        raise Misuse(f"no scenario is called {scenario!r}; choose from {', '.join(SCENARIOS)}")

    def live() -> None:
        counter = Counter(world.store(), safeguards)
        counter.claim()
        counter.add()
        world.note("added", "acknowledged")

    for name in SCENARIOS[scenario]:
        world.spawn(live, name=name, may_raise=(Fenced, Unknown))
    declare(world, CHECKS, lambda view: view.contents(""), lambda view: view.notes("added"))
    if safeguards != STANDARD or not isinstance(world, World):
        return  # a mutant's own checks are to fail; on a real store the order of the requests is unknown
    if prepare_world(world, trace_fields, READERS, lockstep=lockstep, coverage=coverage):
        reader = READERS.of(max(2, len(SCENARIOS[scenario])))
        world.follow("lockstep", Lockstep(reader, world.findings, _fields, _note))
