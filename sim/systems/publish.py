"""Publish, the shipped library: many tables, one visible commit; every safeguard broken is a mutant.

`scenario` chooses who is there: skew, rivals, joiner, takeover, or small, which is all four of these; heir,
two-tables, cleaner, gone, alone, anything; or crowd, with so many `writers` of so many `plans` each, whose
`epochs` are the same or separate. `depth` commits were there before, and `tables` that nobody touches.
Every run is held against the model as well, unless `lockstep` is off; those of a mutant are not, so that
what its safeguard is for is what is seen to break.
"""

from fencepost.impl.publish import STANDARD
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.errors import Misuse
from fencepost.sim.systems.publishing.broken import without
from fencepost.sim.systems.publishing.lockstep import LENSES
from fencepost.sim.systems.publishing.scenarios import SCENARIOS, play
from fencepost.sim.systems.publishing.stage import ScenarioRun
from fencepost.sim.systems.staging.lockstep import told_about
from fencepost.sim.world import World

BUDGETS = {
    # Two switches at the right places and no fault: with faults to try as well it takes minutes.
    "boundary-check-after-create": {"crash": 0, "reply_lost": 0, "request_lost": 0},
}


def fixed(
    world: World,
    scenario: str = "small",
    writers: int = 2,
    plans: int = 1,
    epochs: str = "same",
    depth: int = 0,
    tables: int = 0,
    lockstep: str = "on",
    coverage: str = "on",
) -> None:
    followed = told_about(world, trace_fields, LENSES, lockstep=lockstep, coverage=coverage)
    if scenario not in (*SCENARIOS, "small", "crowd"):
        raise Misuse(f"no scenario is called {scenario!r}; choose from small, crowd, {', '.join(SCENARIOS)}")
    if epochs not in ("same", "separate") or writers < 1 or plans < 1:
        raise Misuse("epochs is same or separate, and there is at least 1 writer with at least 1 plan")
    if depth < 0 or tables < 0:
        raise Misuse("depth and tables are counted from 0")
    run = ScenarioRun(world, STANDARD, depth=depth, tables=tables)
    play(run, scenario, writers, plans, separate=epochs == "separate", lockstep=followed)


def broken_create_only_manifest(world: World, scenario: str = "skew") -> None:
    play(ScenarioRun(world, without("create_only_manifest")), scenario, lockstep=False)


def broken_sidecar_before_heads(world: World, scenario: str = "gone") -> None:
    play(ScenarioRun(world, without("sidecar_before_heads")), scenario, lockstep=False)


def broken_whole_plan_in_sidecar(world: World, scenario: str = "two-tables") -> None:
    play(ScenarioRun(world, without("whole_plan_in_sidecar")), scenario, lockstep=False)


def broken_epoch_check(world: World, scenario: str = "takeover") -> None:
    play(ScenarioRun(world, without("epoch_check")), scenario, lockstep=False)


def broken_grace_window(world: World, scenario: str = "joiner") -> None:
    play(ScenarioRun(world, without("grace_window")), scenario, lockstep=False)


def broken_shared_head(world: World, scenario: str = "skew") -> None:
    play(ScenarioRun(world, without("shared_head")), scenario, lockstep=False)


def broken_pins_re_evaluated_on_retry(world: World, scenario: str = "skew") -> None:
    play(ScenarioRun(world, without("pins_re_evaluated_on_retry")), scenario, lockstep=False)


def broken_inbound_check_on_removal(world: World, scenario: str = "alone") -> None:
    play(ScenarioRun(world, without("inbound_check_on_removal")), scenario, lockstep=False)


def broken_boundary_check_after_create(world: World, scenario: str = "cleaner") -> None:
    play(ScenarioRun(world, without("boundary_check_after_create")), scenario, lockstep=False)


def broken_read_back_on_unknown(world: World, scenario: str = "takeover") -> None:
    play(ScenarioRun(world, without("read_back_on_unknown")), scenario, lockstep=False)


def broken_late_head(world: World, scenario: str = "takeover") -> None:
    play(ScenarioRun(world, without("late_head")), scenario, lockstep=False)
