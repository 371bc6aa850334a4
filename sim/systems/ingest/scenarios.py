"""The scenarios of ingest, each small enough to be explored to its end, and the program that sets one up."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import quote

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import (
    STANDARD,
    Safeguards,
    audit_by_report,
    collect,
    full_audit,
    reconcile_once,
    roll_up,
)
from fencepost.impl.ingest.audit import LATEST, SCHEMA
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.context import agree
from fencepost.impl.ingest.documents import ConflictRecord, Manifest, write
from fencepost.impl.ingest.indexes import derived
from fencepost.impl.ingest.maintenance import Search
from fencepost.impl.ingest.notified import NotifiedBatches, Receiver
from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.errors import Misuse
from fencepost.sim.systems.ingest.batches import FIRST, OTHER, PRESENT, SECOND, Batch
from fencepost.sim.systems.ingest.run import OLD_S, READERS, SETTINGS, ScenarioRun, declare_checks, inventory
from fencepost.sim.systems.lockstep import prepare_world
from fencepost.sim.world import View, World

Setup = Callable[[ScenarioRun], None]
OLD = PRESENT - 10
"""A generation on which no collector relies any more."""
OLD_AGE_S = 10 * SETTINGS.horizon_s
BUCKET = "metrics"


def retry(run: ScenarioRun, other: Batch = FIRST, *, versioned: bool = False) -> None:
    """One agent's batch at two collectors: the first did not answer, or was only slow.

    With `OTHER` two batches of one identity: the agent was restored from an old disk.
    """
    run.bucket(versioned=versioned)
    run.collector("ann", FIRST)
    run.collector("bob", other)


def slow(run: ScenarioRun) -> None:
    """A slow collector relies on an existing blob; long after, garbage is collected."""
    run.bucket(timed=True)
    run.put(FIRST.raw_key(), FIRST.body)
    if run.bounded:
        run.excused = _landed_late(run)
    run.collector("ann", FIRST, follow_up=False)
    _garbage(run, wait_s=OLD_S)


def judged(run: ScenarioRun, *, parts: bool = False) -> None:
    """An old orphan in a bucket that keeps versions, and its delete, which was decided on before."""
    run.followed = False  # the model has no deletion that was decided on before the run
    run.bucket(versioned=True, parts=parts)
    version = run.put(FIRST.raw_key(None), FIRST.body, age_s=OLD_AGE_S)
    run.collector("ann", FIRST, follow_up=False)

    def delete() -> None:
        chosen = run.safeguards.gc_by_version(version)
        run.world.store().delete(FIRST.raw_key(None), when=ANYTHING, version=chosen)

    run.world.spawn(delete, name="gc", restart=False)


def slow_versioned(run: ScenarioRun, *, parts: bool = False) -> None:
    """As `slow`, in a bucket that keeps versions: no landing is excused there, however late.

    With multipart uploads, an object that existed at the start may be gone at the end.
    """
    run.bucket(versioned=True, timed=True, parts=parts)
    run.put(FIRST.raw_key(None), FIRST.body)
    run.collector("ann", FIRST, follow_up=False)
    _garbage(run, wait_s=OLD_S)


def orphan(run: ScenarioRun) -> None:
    """A collector stores a blob that also exists as an old orphan, while garbage is collected."""
    run.bucket()
    run.put(FIRST.raw_key(OLD), FIRST.body)
    run.collector("ann", FIRST, follow_up=False)
    _garbage(run)


def young(run: ScenarioRun) -> None:
    """A collector between blob and manifest, while garbage is collected right after an audit."""
    run.bucket()
    audited = {"schema": SCHEMA, "id": "before", "began_ns": run.world.start_ns, "accepted": 0}
    run.put(LATEST, write(audited))
    run.collector("ann", FIRST, follow_up=False)
    _garbage(run, audit=False)


def unaudited(run: ScenarioRun) -> None:
    """An accepted batch whose collector died before it wrote any index, and a collection of garbage."""
    run.bucket()
    _accepted_before(run, FIRST, derive=False)
    run.collector("ann", SECOND, follow_up=False)
    _garbage(run, audit=False)


def reported(run: ScenarioRun) -> None:
    """As `unaudited`, and an orphan, after an audit by an inventory report that may lack the batch."""
    run.bucket()
    unseen = _accepted_before(run, FIRST, derive=False)
    seen = _accepted_before(run, SECOND)
    run.put(OTHER.raw_key(OLD), OTHER.body)
    run.collector("ann", FIRST, follow_up=False)
    lacks = run.world.pick("report", ("lacks", "has"))
    rows = [seen.key, seen.raw_blob_key, *(put.key for put in derived(seen)), OTHER.raw_key(OLD)]
    _garbage(run, report=[*rows, unseen.key] if lacks == "has" else rows)


def quarantined(run: ScenarioRun) -> None:
    """A batch in quarantine, and a collection of garbage."""
    run.bucket()
    accepted = _accepted_before(run, FIRST)
    submitted = OTHER.manifest(age_s=OLD_AGE_S, key=OTHER.raw_key(OLD))
    record = ConflictRecord(
        agent_id=accepted.agent_id,
        boot_id=accepted.boot_id,
        seq_start=accepted.seq_start,
        seq_end=accepted.seq_end,
        accepted_manifest_key=accepted.key,
        accepted_raw_blob_key=accepted.raw_blob_key,
        accepted_frame_sha256=accepted.frame_sha256,
        submitted_raw_blob_key=submitted.raw_blob_key,
        submitted_frame_sha256=submitted.frame_sha256,
        observed_at_unix_ns=submitted.accepted_at_unix_ns,
        collector_id="before",
    )
    run.put(submitted.raw_blob_key, OTHER.body)
    run.put(record.key, record.body())
    run.put(record.by_blob_key, record.body())
    run.collector("ann", SECOND, follow_up=False)
    _garbage(run)


def late_entry(run: ScenarioRun) -> None:
    """A collector writes the indexes of its batch, and may die, beside a reconciler that is ahead."""
    run.bucket()
    early = _accepted_before(run, FIRST, derive=False, age_s=120.0)
    _accepted_before(run, SECOND, age_s=60.0)

    def follow_up() -> None:
        store = run.store()
        Authority(store, store.env, "ann", run.settings, safeguards=run.safeguards).follow_up(early)

    def reconcile() -> None:
        store = run.store()
        reconcile_once(store, store.env, run.settings, safeguards=run.safeguards)

    run.world.spawn(follow_up, name="ann", restart=False)
    run.world.spawn(reconcile, name="reconciler")


def searched(run: ScenarioRun) -> None:
    """A batch in no index, behind the rollups: one process searches, and may die; another rolls up."""
    run.bucket()
    _behind_the_rollups(run)

    def search() -> None:
        store = run.store()
        Search(store, store.env, run.settings, safeguards=run.safeguards).step()

    run.world.spawn(search, name="ann", restart=False)
    run.world.spawn(_rolls_up, run, name="bob", restart=False)


def notified(run: ScenarioRun) -> None:
    """A batch in no index, behind the rollups. A process receives its notification, again until it has
    acknowledged it, and another process rolls up."""
    run.bucket()
    lost = _behind_the_rollups(run)

    def receive() -> None:
        store = run.store()
        batches = NotifiedBatches(store, store.env, run.settings, run.safeguards)
        Receiver("events", batches, BUCKET).take([notification(lost.key)])
        run.world.note("acknowledged", lost.key)

    run.world.spawn(receive, name="ann")
    run.world.spawn(_rolls_up, run, name="bob", restart=False)


def late_place(run: ScenarioRun) -> None:
    """A collector that stalled for hours writes the indexes of its batch; the rollups are ahead."""
    run.bucket()
    late = _behind_the_rollups(run)

    def follow_up() -> None:
        store = run.store()
        Authority(store, store.env, "ann", run.settings, safeguards=run.safeguards).follow_up(late)

    run.world.spawn(follow_up, name="ann", restart=False)
    run.world.spawn(_rolls_up, run, name="bob", restart=False)


def notification(key: str) -> str:
    """What a store sends when the object was created."""
    named = {"bucket": {"name": BUCKET}, "object": {"key": quote(key)}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": named}]})


def _behind_the_rollups(run: ScenarioRun) -> Manifest:
    """A batch in no index, whose time the rollups have passed."""
    lost = FIRST.manifest(age_s=OLD_AGE_S, key=FIRST.raw_key(OLD))
    run.put(lost.raw_blob_key, FIRST.body, age_s=OLD_AGE_S)
    run.put(lost.key, lost.body(), age_s=OLD_AGE_S)
    _accepted_before(run, SECOND, age_s=60.0)
    roll_up(run.world.store(), SeededEnvironment(1, run.world.start_ns), run.settings)
    return lost


def _rolls_up(run: ScenarioRun) -> None:
    store = run.store()
    roll_up(store, store.env, run.settings, safeguards=run.safeguards, owner="bob")


def rollups(run: ScenarioRun) -> None:
    """Two owners of the rollups by mistake; one sees a batch that the other may not have seen yet."""
    run.bucket()
    _accepted_before(run, FIRST, age_s=120.0)
    late = _accepted_before(run, SECOND, derive=False, age_s=60.0)

    def own(name: str, *, more: bool) -> None:
        store = run.store()
        if more:
            Authority(store, store.env, name, run.settings, safeguards=run.safeguards).follow_up(late)
        roll_up(store, store.env, run.settings, safeguards=run.safeguards, owner=name)

    run.world.spawn(own, "ann", name="ann", more=False)
    run.world.spawn(own, "bob", name="bob", more=True)


def impostor(run: ScenarioRun) -> None:
    """Another agent sends a batch under an identity of this one, and a process looks for it."""
    run.bucket()
    run.collector("bob", FIRST, sender="agent-b", follow_up=False)
    run.world.spawn(lambda: run.store().head(FIRST.manifest(age_s=0.0, key="").key), name="ann")


def _accepted_before(
    run: ScenarioRun, batch: Batch, *, derive: bool = True, age_s: float = OLD_AGE_S
) -> Manifest:
    manifest = batch.manifest(age_s=age_s, key=batch.raw_key(OLD))
    run.put(manifest.raw_blob_key, batch.body)
    run.put(manifest.key, manifest.body())
    for put in derived(manifest) if derive else ():
        run.put(put.key, put.body)
    return manifest


def _garbage(
    run: ScenarioRun, *, wait_s: float = 0.0, audit: bool = True, report: Sequence[str] | None = None
) -> None:
    """A process that audits everything and then collects garbage, after a long time or at once."""

    agree(run.world.store(), SeededEnvironment(), run.settings)

    def work() -> None:
        if wait_s:
            run.world.env.sleep(wait_s)
        store = run.store()
        if report is not None:
            rows = inventory(report, run.world.start_ns)
            audit_by_report(store, store.env, run.settings, report=rows, safeguards=run.safeguards)
        elif audit:
            full_audit(store, store.env, run.settings, safeguards=run.safeguards)
        collect(store, store.env, run.settings, safeguards=run.safeguards)

    run.world.spawn(work, name="gc", restart=False)


def _landed_late(run: ScenarioRun) -> Callable[[View, str], bool]:
    """Return True if a document landed too long after its collector read the clock for bounded-landing."""
    bound_ns = round(SETTINGS.landing_bound_s * 1e9)

    def excused(view: View, key: str) -> bool:
        body = view.get(key)
        landed_ns = run.world.bucket.modified_ns(key)
        return body is not None and landed_ns - Manifest.read(body, key).accepted_at_unix_ns > bound_ns

    return excused


SCENARIOS: dict[str, Setup] = {
    "retry": retry,
    "conflict": partial(retry, other=OTHER),
    "versioned": partial(retry, versioned=True),
    "versioned-conflict": partial(retry, other=OTHER, versioned=True),
    "slow": slow,
    "slow-versioned": slow_versioned,
    "orphan": orphan,
    "parts": partial(slow_versioned, parts=True),
    "judged": judged,
    "judged-parts": partial(judged, parts=True),
    "young": young,
    "unaudited": unaudited,
    "reported": reported,
    "quarantined": quarantined,
    "late-entry": late_entry,
    "searched": searched,
    "notified": notified,
    "late-place": late_place,
    "rollups": rollups,
    "impostor": impostor,
}
SMALL = ("retry", "conflict", "versioned", "versioned-conflict")
"""Those that one explores to the end while waiting, with a crash and a lost reply."""


def play(run: ScenarioRun, scenario: str) -> None:
    """Set up one scenario; `small` lets the adversary choose one of the small ones."""
    run.world.share_nothing()
    SCENARIOS[run.world.pick("scenario", SMALL) if scenario == "small" else scenario](run)
    declare_checks(run)


def program(
    world: World,
    scenario: str = "small",
    bounded: bool = True,
    lockstep: str = "on",
    coverage: str = "off",
    safeguards: Safeguards = STANDARD,
) -> None:
    """Ingest as it ships, in one scenario: one of SCENARIOS, or `small`, which is the four small ones.

    Unless `bounded`, nothing is excused that the assumption bounded-landing would grant: `slow`, in a plain
    bucket, then fails, and `slow-versioned` does not. The model follows every run unless `lockstep` is off;
    it never follows a mutant, whose own properties are to fail. With `coverage` the result has the share of
    the model's transitions that the runs drove.
    """
    if scenario not in (*SCENARIOS, "small"):
        raise Misuse(f"no scenario is called {scenario!r}; choose from small, {', '.join(SCENARIOS)}")
    product = safeguards == STANDARD
    followed = product and prepare_world(world, trace_fields, READERS, lockstep=lockstep, coverage=coverage)
    play(ScenarioRun(world, safeguards, bounded=bounded, followed=followed), scenario)
