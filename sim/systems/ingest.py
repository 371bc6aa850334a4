"""Ingest, the shipped library: active-active acceptance of batches; every safeguard broken is a mutant.

`scene` chooses who is there: retry (one batch at two collectors), conflict (two batches of one name),
versioned and versioned-conflict (the same, in a bucket that keeps versions), or small, which is all four of
these; slow and slow-versioned (a stalled collector and garbage collection), and parts, with a large blob;
judged and judged-parts (an old orphan whose delete is still to come); young, orphan, unaudited, reported and
quarantined (garbage collection beside a collector, in `reported` after an audit by an inventory report);
late-entry (the reconciler); searched (the search for what shows nowhere); rollups (two owners); impostor.
With `bounded=false` nothing is excused that bounded-landing would grant: `slow`, in a plain bucket, then
breaks, and `slow-versioned` does not. Every run is held against the model as well, unless `lockstep` is off;
with `coverage=on` the result tells which share of the model's transitions the runs drove.
"""

from fencepost.impl.ingest import STANDARD
from fencepost.impl.ingest.facts import facts
from fencepost.impl.store.errors import Misuse
from fencepost.sim.systems.ingesting.broken import without
from fencepost.sim.systems.ingesting.lockstep import LENSES
from fencepost.sim.systems.ingesting.scenes import SCENES, play
from fencepost.sim.systems.ingesting.stage import Stage
from fencepost.sim.systems.staging.lockstep import told_about
from fencepost.sim.world import World

BUDGETS = {
    "409-proves-nothing": {"conflicts": 1},
    # Where time is what breaks it: with crashes and lost responses to try as well it takes minutes.
    "gc-stalled-writer": {"crashes": 0, "lost": 0},
    "gc-stalled-writer-duplicate": {"lost": 0},
}


def fixed(
    world: World, scene: str = "small", bounded: bool = True, lockstep: str = "on", coverage: str = "off"
) -> None:
    followed = told_about(world, facts, LENSES, lockstep=lockstep, coverage=coverage)
    if scene not in (*SCENES, "small"):
        raise Misuse(f"no scene is called {scene!r}; choose from small, {', '.join(SCENES)}")
    play(Stage(world, STANDARD, bounded=bounded, followed=followed), scene)


def broken_create_only_manifest(world: World, scene: str = "retry") -> None:
    play(Stage(world, without("create-only-manifest")), scene)


def broken_compare_after_412(world: World, scene: str = "conflict") -> None:
    play(Stage(world, without("compare-after-412")), scene)


def broken_409_proves_nothing(world: World, scene: str = "retry") -> None:
    play(Stage(world, without("409-proves-nothing")), scene)


def broken_read_back_on_unknown(world: World, scene: str = "retry") -> None:
    play(Stage(world, without("read-back-on-unknown")), scene)


def broken_blob_before_manifest(world: World, scene: str = "conflict") -> None:
    play(Stage(world, without("blob-before-manifest")), scene)


def broken_effects_after_create(world: World, scene: str = "retry") -> None:
    play(Stage(world, without("effects-after-create")), scene)


def broken_reconcile(world: World, scene: str = "retry") -> None:
    play(Stage(world, without("reconcile")), scene)


def broken_new_upload_on_multipart_409(world: World, scene: str = "judged-parts") -> None:
    play(Stage(world, without("new-upload-on-multipart-409")), scene)


def broken_gc_age(world: World, scene: str = "young") -> None:
    play(Stage(world, without("gc-age")), scene)


def broken_gc_audit_before_trust(world: World, scene: str = "unaudited") -> None:
    play(Stage(world, without("gc-audit-before-trust")), scene)


def broken_gc_quarantine_refs(world: World, scene: str = "quarantined") -> None:
    play(Stage(world, without("gc-quarantine-refs")), scene)


def broken_gc_stalled_writer(world: World, scene: str = "slow") -> None:
    play(Stage(world, without("gc-stalled-writer")), scene)


def broken_gc_stalled_writer_generation(world: World, scene: str = "orphan") -> None:
    play(Stage(world, without("gc-stalled-writer-generation")), scene)


def broken_gc_stalled_writer_version(world: World, scene: str = "judged") -> None:
    play(Stage(world, without("gc-stalled-writer-version")), scene)


def broken_gc_stalled_writer_duplicate(world: World, scene: str = "slow-versioned") -> None:
    play(Stage(world, without("gc-stalled-writer-duplicate")), scene)


def broken_cursor_overlap(world: World, scene: str = "late-entry") -> None:
    play(Stage(world, without("cursor-overlap")), scene)


def broken_identity_bound_to_agent(world: World, scene: str = "impostor") -> None:
    play(Stage(world, without("identity-bound-to-agent")), scene)
