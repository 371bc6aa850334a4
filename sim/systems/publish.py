"""Publish, the shipped library: many tables, one visible commit; every safeguard broken is a mutant.

`scene` chooses who is there: skew, rivals, joiner, takeover, or small, which is all four of these; heir,
two-tables, cleaner, gone, alone, anything; or crowd, with so many `writers` of so many `plans` each, whose
`epochs` are the same or separate. `depth` commits were there before, and `tables` that nobody touches.
Every run is held against the model as well, unless `lockstep` is off; those of a mutant are not, so that
what its safeguard is for is what is seen to break.
"""

from fencepost.impl.publish import STANDARD
from fencepost.impl.publish.facts import facts
from fencepost.impl.store.errors import Misuse
from fencepost.sim.systems.publishing.broken import without
from fencepost.sim.systems.publishing.lockstep import LENSES
from fencepost.sim.systems.publishing.scenes import SCENES, play
from fencepost.sim.systems.publishing.stage import Stage
from fencepost.sim.systems.staging.lockstep import told_about
from fencepost.sim.world import World

BUDGETS = {
    # Two switches at the right places and no fault: with faults to try as well it takes minutes.
    "boundary-check-after-create": {"crashes": 0, "lost": 0},
}


def fixed(
    world: World,
    scene: str = "small",
    writers: int = 2,
    plans: int = 1,
    epochs: str = "same",
    depth: int = 0,
    tables: int = 0,
    lockstep: str = "on",
    coverage: str = "on",
) -> None:
    followed = told_about(world, facts, LENSES, lockstep=lockstep, coverage=coverage)
    if scene not in (*SCENES, "small", "crowd"):
        raise Misuse(f"no scene is called {scene!r}; choose from small, crowd, {', '.join(SCENES)}")
    if epochs not in ("same", "separate") or writers < 1 or plans < 1:
        raise Misuse("epochs is same or separate, and there is at least 1 writer with at least 1 plan")
    if depth < 0 or tables < 0:
        raise Misuse("depth and tables are counted from 0")
    stage = Stage(world, STANDARD, depth=depth, tables=tables)
    play(stage, scene, writers, plans, separate=epochs == "separate", lockstep=followed)


def broken_create_only_manifest(world: World, scene: str = "skew") -> None:
    play(Stage(world, without("create_only_manifest")), scene, lockstep=False)


def broken_sidecar_before_heads(world: World, scene: str = "gone") -> None:
    play(Stage(world, without("sidecar_before_heads")), scene, lockstep=False)


def broken_whole_plan_in_sidecar(world: World, scene: str = "two-tables") -> None:
    play(Stage(world, without("whole_plan_in_sidecar")), scene, lockstep=False)


def broken_epoch_check(world: World, scene: str = "takeover") -> None:
    play(Stage(world, without("epoch_check")), scene, lockstep=False)


def broken_grace_window(world: World, scene: str = "joiner") -> None:
    play(Stage(world, without("grace_window")), scene, lockstep=False)


def broken_shared_head(world: World, scene: str = "skew") -> None:
    play(Stage(world, without("shared_head")), scene, lockstep=False)


def broken_pins_re_evaluated_on_retry(world: World, scene: str = "skew") -> None:
    play(Stage(world, without("pins_re_evaluated_on_retry")), scene, lockstep=False)


def broken_inbound_check_on_removal(world: World, scene: str = "alone") -> None:
    play(Stage(world, without("inbound_check_on_removal")), scene, lockstep=False)


def broken_boundary_check_after_create(world: World, scene: str = "cleaner") -> None:
    play(Stage(world, without("boundary_check_after_create")), scene, lockstep=False)


def broken_read_back_on_unknown(world: World, scene: str = "takeover") -> None:
    play(Stage(world, without("read_back_on_unknown")), scene, lockstep=False)


def broken_late_head(world: World, scene: str = "takeover") -> None:
    play(Stage(world, without("late_head")), scene, lockstep=False)
