"""The scenarios: who is there, and what they do. Small, so that each can be explored to its end."""

from collections.abc import Callable, Sequence

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import audit_by_report, collect, full_audit, reconcile_once, roll_up
from fencepost.impl.ingest.agreement import agree
from fencepost.impl.ingest.audit import LATEST, SCHEMA
from fencepost.impl.ingest.authority import Authority
from fencepost.impl.ingest.derived import derived
from fencepost.impl.ingest.documents import ConflictRecord, Manifest, write
from fencepost.impl.ingest.search import Search
from fencepost.impl.store import ANYTHING
from fencepost.sim.systems.ingesting.batches import FIRST, OTHER, PRESENT, SECOND, Batch
from fencepost.sim.systems.ingesting.inventory import inventory
from fencepost.sim.systems.ingesting.promises import promise
from fencepost.sim.systems.ingesting.stage import OLD_S, SETTINGS, ScenarioRun
from fencepost.sim.world import View

Setup = Callable[[ScenarioRun], None]
OLD = PRESENT - 10
"""A generation on which nobody relies any more."""
OLD_AGE_S = 10 * SETTINGS.horizon_s


def retry(run: ScenarioRun) -> None:
    """One agent's batch at two collectors: no answer came from the first, or the first was only slow."""
    run.bucket()
    run.collector("ann", FIRST)
    run.collector("bob", FIRST)


def conflict(run: ScenarioRun) -> None:
    """Two batches of one name at two collectors: an agent was restored from an old disk."""
    run.bucket()
    run.collector("ann", FIRST)
    run.collector("bob", OTHER)


def versioned(run: ScenarioRun) -> None:
    """As `retry`, in a bucket that keeps versions."""
    run.bucket(versioned=True)
    run.collector("ann", FIRST)
    run.collector("bob", FIRST)


def versioned_conflict(run: ScenarioRun) -> None:
    """As `conflict`, in a bucket that keeps versions."""
    run.bucket(versioned=True)
    run.collector("ann", FIRST)
    run.collector("bob", OTHER)


def slow(run: ScenarioRun) -> None:
    """A collector relies on a blob that stands, and is slow; long after, garbage is collected."""
    run.bucket(timed=True)
    run.put(FIRST.raw_key(), FIRST.body)
    if run.bounded:
        run.excused = _landed_late(run)
    run.collector("ann", FIRST, follow_up=False)
    _garbage(run, wait_s=OLD_S)


def slow_versioned(run: ScenarioRun) -> None:
    """The same in a bucket that keeps versions: nothing is excused there, however late it lands."""
    _old_version(run)


def parts(run: ScenarioRun) -> None:
    """As `slow-versioned`, with blobs that go up in parts: what stood as one began may be gone at its end."""
    _old_version(run, parts=True)


def judged(run: ScenarioRun) -> None:
    """An old orphan in a bucket that keeps versions, and its delete, which was decided on before."""
    _judged_before(run)


def judged_parts(run: ScenarioRun) -> None:
    """The same with a blob that goes up in parts."""
    _judged_before(run, parts=True)


def orphan(run: ScenarioRun) -> None:
    """A collector stores the blob of which an old orphan stands, while garbage is collected."""
    run.bucket()
    run.put(FIRST.raw_key(OLD), FIRST.body)
    run.collector("ann", FIRST, follow_up=False)
    _garbage(run)


def young(run: ScenarioRun) -> None:
    """A collector between blob and manifest, while garbage is collected after an audit just ended."""
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
    """The same, and an orphan, after an audit by an inventory report that may lack the batch."""
    run.bucket()
    unseen = _accepted_before(run, FIRST, derive=False)
    seen = _accepted_before(run, SECOND)
    run.put(OTHER.raw_key(OLD), OTHER.body)
    run.collector("ann", FIRST, follow_up=False)
    lacks = run.world.pick("report", ("lacks", "has"))
    said = [seen.key, seen.raw_blob_key, *(put.key for put in derived(seen)), OTHER.raw_key(OLD)]
    _garbage(run, report=[*said, unseen.key] if lacks == "has" else said)


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
    """A collector writes the indexes of its batch, and may die over it, beside a reconciler that is ahead."""
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
    """A batch that shows nowhere, behind the rollups: one searches, and may die over it; one rolls up."""
    run.bucket()
    lost = FIRST.manifest(age_s=OLD_AGE_S, key=FIRST.raw_key(OLD))
    run.put(lost.raw_blob_key, FIRST.body, age_s=OLD_AGE_S)
    run.put(lost.key, lost.body(), age_s=OLD_AGE_S)
    _accepted_before(run, SECOND, age_s=60.0)
    roll_up(run.world.store(), SeededEnvironment(1, run.world.start_ns), run.settings)

    def search() -> None:
        store = run.store()
        Search(store, store.env, run.settings, safeguards=run.safeguards).step()

    def own() -> None:
        store = run.store()
        roll_up(store, store.env, run.settings, safeguards=run.safeguards, owner="bob")

    run.world.spawn(search, name="ann", restart=False)
    run.world.spawn(own, name="bob", restart=False)


def rollups(run: ScenarioRun) -> None:
    """Two owners of the rollups by mistake, one of whom sees a batch that the other may not have seen yet."""
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
    """Somebody else sends a batch under a name of this agent, and somebody looks."""
    run.bucket()
    run.collector("bob", FIRST, sender="agent-b", follow_up=False)
    run.world.spawn(lambda: run.store().head(FIRST.manifest(age_s=0.0, key="").key), name="ann")


def _judged_before(run: ScenarioRun, *, parts: bool = False) -> None:
    run.followed = False  # the model knows nobody who had judged before the run
    run.bucket(versioned=True, parts=parts)
    version = run.put(FIRST.raw_key(None), FIRST.body, age_s=OLD_AGE_S)
    run.collector("ann", FIRST, follow_up=False)

    def delete() -> None:
        chosen = run.safeguards.gc_by_version(version)
        run.world.store().delete(FIRST.raw_key(None), when=ANYTHING, version=chosen)

    run.world.spawn(delete, name="gc", restart=False)


def _old_version(run: ScenarioRun, *, parts: bool = False) -> None:
    run.bucket(versioned=True, timed=True, parts=parts)
    run.put(FIRST.raw_key(None), FIRST.body)
    run.collector("ann", FIRST, follow_up=False)
    _garbage(run, wait_s=OLD_S)


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
    """Somebody who audits everything and then collects garbage, after a long time or at once."""

    agree(run.world.store(), SeededEnvironment(), run.settings)

    def work() -> None:
        if wait_s:
            run.world.env.sleep(wait_s)
        store = run.store()
        if report is not None:
            told = inventory(report, run.world.start_ns)
            audit_by_report(store, store.env, run.settings, report=told, safeguards=run.safeguards)
        elif audit:
            full_audit(store, store.env, run.settings, safeguards=run.safeguards)
        collect(store, store.env, run.settings, safeguards=run.safeguards)

    run.world.spawn(work, name="gc", restart=False)


def _landed_late(run: ScenarioRun) -> Callable[[View, str], bool]:
    """Whether a document landed later after its collector looked at the clock than bounded-landing grants."""
    bound_ns = round(SETTINGS.landing_bound_s * 1e9)

    def excused(view: View, key: str) -> bool:
        body = view.get(key)
        landed_ns = run.world.bucket.modified_ns(key)
        return body is not None and landed_ns - Manifest.read(body, key).accepted_at_unix_ns > bound_ns

    return excused


SCENARIOS: dict[str, Setup] = {
    scenario.__name__.replace("_", "-"): scenario
    for scenario in (
        retry,
        conflict,
        versioned,
        versioned_conflict,
        slow,
        slow_versioned,
        orphan,
        parts,
        judged,
        judged_parts,
        young,
        unaudited,
        reported,
        quarantined,
        late_entry,
        searched,
        rollups,
        impostor,
    )
}
SMALL = ("retry", "conflict", "versioned", "versioned-conflict")
"""Those that are explored to their ends while somebody waits, with a crash and a lost response."""


def play(run: ScenarioRun, scenario: str) -> None:
    """Set up one scenario; `small` is one of the small ones, whichever the adversary likes."""
    run.world.share_nothing()
    SCENARIOS[run.world.pick("scenario", SMALL) if scenario == "small" else scenario](run)
    promise(run)
