"""Ingest, the shipped library: active-active acceptance of batches; every safeguard broken is a mutant.

`scenario` chooses who is there: retry (one batch at two collectors), conflict (two batches of one name),
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
from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store.errors import Misuse
from fencepost.sim.systems.ingesting.broken import without
from fencepost.sim.systems.ingesting.lockstep import LENSES
from fencepost.sim.systems.ingesting.scenarios import SCENARIOS, play
from fencepost.sim.systems.ingesting.stage import ScenarioRun
from fencepost.sim.systems.staging.lockstep import told_about
from fencepost.sim.world import World

BUDGETS = {
    "409-proves-nothing": {"conflict": 1},
    # Where time is what breaks it: with crashes and lost responses to try as well it takes minutes.
    "gc-stalled-writer": {"crash": 0, "reply_lost": 0, "request_lost": 0},
    "gc-stalled-writer-duplicate": {"reply_lost": 0, "request_lost": 0},
}


def fixed(
    world: World, scenario: str = "small", bounded: bool = True, lockstep: str = "on", coverage: str = "off"
) -> None:
    followed = told_about(world, trace_fields, LENSES, lockstep=lockstep, coverage=coverage)
    if scenario not in (*SCENARIOS, "small"):
        raise Misuse(f"no scenario is called {scenario!r}; choose from small, {', '.join(SCENARIOS)}")
    play(ScenarioRun(world, STANDARD, bounded=bounded, followed=followed), scenario)


def broken_create_only_manifest(world: World, scenario: str = "retry") -> None:
    play(ScenarioRun(world, without("create-only-manifest")), scenario)


def broken_compare_after_412(world: World, scenario: str = "conflict") -> None:
    play(ScenarioRun(world, without("compare-after-412")), scenario)


def broken_409_proves_nothing(world: World, scenario: str = "retry") -> None:
    play(ScenarioRun(world, without("409-proves-nothing")), scenario)


def broken_read_back_on_unknown(world: World, scenario: str = "retry") -> None:
    play(ScenarioRun(world, without("read-back-on-unknown")), scenario)


def broken_blob_before_manifest(world: World, scenario: str = "conflict") -> None:
    play(ScenarioRun(world, without("blob-before-manifest")), scenario)


def broken_effects_after_create(world: World, scenario: str = "retry") -> None:
    play(ScenarioRun(world, without("effects-after-create")), scenario)


def broken_reconcile(world: World, scenario: str = "retry") -> None:
    play(ScenarioRun(world, without("reconcile")), scenario)


def broken_new_upload_on_multipart_409(world: World, scenario: str = "judged-parts") -> None:
    play(ScenarioRun(world, without("new-upload-on-multipart-409")), scenario)


def broken_gc_age(world: World, scenario: str = "young") -> None:
    play(ScenarioRun(world, without("gc-age")), scenario)


def broken_gc_audit_before_trust(world: World, scenario: str = "unaudited") -> None:
    play(ScenarioRun(world, without("gc-audit-before-trust")), scenario)


def broken_gc_quarantine_refs(world: World, scenario: str = "quarantined") -> None:
    play(ScenarioRun(world, without("gc-quarantine-refs")), scenario)


def broken_gc_stalled_writer(world: World, scenario: str = "slow") -> None:
    play(ScenarioRun(world, without("gc-stalled-writer")), scenario)


def broken_gc_stalled_writer_generation(world: World, scenario: str = "orphan") -> None:
    play(ScenarioRun(world, without("gc-stalled-writer-generation")), scenario)


def broken_gc_stalled_writer_version(world: World, scenario: str = "judged") -> None:
    play(ScenarioRun(world, without("gc-stalled-writer-version")), scenario)


def broken_gc_stalled_writer_duplicate(world: World, scenario: str = "slow-versioned") -> None:
    play(ScenarioRun(world, without("gc-stalled-writer-duplicate")), scenario)


def broken_cursor_overlap(world: World, scenario: str = "late-entry") -> None:
    play(ScenarioRun(world, without("cursor-overlap")), scenario)


def broken_identity_bound_to_agent(world: World, scenario: str = "impostor") -> None:
    play(ScenarioRun(world, without("identity-bound-to-agent")), scenario)
