"""The scenes: who is there, and what they do. Small, so that each can be explored to its end."""

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
from fencepost.sim.systems.ingesting.stage import OLD_S, SETTINGS, Stage
from fencepost.sim.world import View

Scene = Callable[[Stage], None]
OLD = PRESENT - 10
"""A generation on which nobody relies any more."""
OLD_AGE_S = 10 * SETTINGS.horizon_s


def retry(stage: Stage) -> None:
    """One agent's batch at two collectors: no answer came from the first, or the first was only slow."""
    stage.bucket()
    stage.collector("ann", FIRST)
    stage.collector("bob", FIRST)


def conflict(stage: Stage) -> None:
    """Two batches of one name at two collectors: an agent was restored from an old disk."""
    stage.bucket()
    stage.collector("ann", FIRST)
    stage.collector("bob", OTHER)


def versioned(stage: Stage) -> None:
    """As `retry`, in a bucket that keeps versions."""
    stage.bucket(versioned=True)
    stage.collector("ann", FIRST)
    stage.collector("bob", FIRST)


def versioned_conflict(stage: Stage) -> None:
    """As `conflict`, in a bucket that keeps versions."""
    stage.bucket(versioned=True)
    stage.collector("ann", FIRST)
    stage.collector("bob", OTHER)


def slow(stage: Stage) -> None:
    """A collector relies on a blob that stands, and is slow; long after, garbage is collected."""
    stage.bucket(timed=True)
    stage.put(FIRST.raw_key(), FIRST.body)
    if stage.bounded:
        stage.excused = _landed_late(stage)
    stage.collector("ann", FIRST, follow_up=False)
    _garbage(stage, wait_s=OLD_S)


def slow_versioned(stage: Stage) -> None:
    """The same in a bucket that keeps versions: nothing is excused there, however late it lands."""
    _old_version(stage)


def parts(stage: Stage) -> None:
    """As `slow-versioned`, with blobs that go up in parts: what stood as one began may be gone at its end."""
    _old_version(stage, parts=True)


def judged(stage: Stage) -> None:
    """An old orphan in a bucket that keeps versions, and its delete, which was decided on before."""
    _judged_before(stage)


def judged_parts(stage: Stage) -> None:
    """The same with a blob that goes up in parts."""
    _judged_before(stage, parts=True)


def orphan(stage: Stage) -> None:
    """A collector stores the blob of which an old orphan stands, while garbage is collected."""
    stage.bucket()
    stage.put(FIRST.raw_key(OLD), FIRST.body)
    stage.collector("ann", FIRST, follow_up=False)
    _garbage(stage)


def young(stage: Stage) -> None:
    """A collector between blob and manifest, while garbage is collected after an audit just ended."""
    stage.bucket()
    audited = {"schema": SCHEMA, "id": "before", "began_ns": stage.world.start_ns, "accepted": 0}
    stage.put(LATEST, write(audited))
    stage.collector("ann", FIRST, follow_up=False)
    _garbage(stage, audit=False)


def unaudited(stage: Stage) -> None:
    """An accepted batch whose collector died before it wrote any index, and a collection of garbage."""
    stage.bucket()
    _accepted_before(stage, FIRST, derive=False)
    stage.collector("ann", SECOND, follow_up=False)
    _garbage(stage, audit=False)


def reported(stage: Stage) -> None:
    """The same, and an orphan, after an audit by an inventory report that may lack the batch."""
    stage.bucket()
    unseen = _accepted_before(stage, FIRST, derive=False)
    seen = _accepted_before(stage, SECOND)
    stage.put(OTHER.raw_key(OLD), OTHER.body)
    stage.collector("ann", FIRST, follow_up=False)
    lacks = stage.world.pick("report", ("lacks", "has"))
    said = [seen.key, seen.raw_blob_key, *(put.key for put in derived(seen)), OTHER.raw_key(OLD)]
    _garbage(stage, report=[*said, unseen.key] if lacks == "has" else said)


def quarantined(stage: Stage) -> None:
    """A batch in quarantine, and a collection of garbage."""
    stage.bucket()
    accepted = _accepted_before(stage, FIRST)
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
    stage.put(submitted.raw_blob_key, OTHER.body)
    stage.put(record.key, record.body())
    stage.put(record.by_blob_key, record.body())
    stage.collector("ann", SECOND, follow_up=False)
    _garbage(stage)


def late_entry(stage: Stage) -> None:
    """A collector writes the indexes of its batch, and may die over it, beside a reconciler that is ahead."""
    stage.bucket()
    early = _accepted_before(stage, FIRST, derive=False, age_s=120.0)
    _accepted_before(stage, SECOND, age_s=60.0)

    def follow_up() -> None:
        store = stage.store()
        Authority(store, store.env, "ann", stage.settings, safeguards=stage.safeguards).follow_up(early)

    def reconcile() -> None:
        store = stage.store()
        reconcile_once(store, store.env, stage.settings, safeguards=stage.safeguards)

    stage.world.spawn(follow_up, name="ann", restart=False)
    stage.world.spawn(reconcile, name="reconciler")


def searched(stage: Stage) -> None:
    """A batch that shows nowhere, behind the rollups: one searches, and may die over it; one rolls up."""
    stage.bucket()
    lost = FIRST.manifest(age_s=OLD_AGE_S, key=FIRST.raw_key(OLD))
    stage.put(lost.raw_blob_key, FIRST.body, age_s=OLD_AGE_S)
    stage.put(lost.key, lost.body(), age_s=OLD_AGE_S)
    _accepted_before(stage, SECOND, age_s=60.0)
    roll_up(stage.world.store(), SeededEnvironment(1, stage.world.start_ns), stage.settings)

    def search() -> None:
        store = stage.store()
        Search(store, store.env, stage.settings, safeguards=stage.safeguards).step()

    def own() -> None:
        store = stage.store()
        roll_up(store, store.env, stage.settings, safeguards=stage.safeguards, owner="bob")

    stage.world.spawn(search, name="ann", restart=False)
    stage.world.spawn(own, name="bob", restart=False)


def rollups(stage: Stage) -> None:
    """Two owners of the rollups by mistake, one of whom sees a batch that the other may not have seen yet."""
    stage.bucket()
    _accepted_before(stage, FIRST, age_s=120.0)
    late = _accepted_before(stage, SECOND, derive=False, age_s=60.0)

    def own(name: str, *, more: bool) -> None:
        store = stage.store()
        if more:
            Authority(store, store.env, name, stage.settings, safeguards=stage.safeguards).follow_up(late)
        roll_up(store, store.env, stage.settings, safeguards=stage.safeguards, owner=name)

    stage.world.spawn(own, "ann", name="ann", more=False)
    stage.world.spawn(own, "bob", name="bob", more=True)


def impostor(stage: Stage) -> None:
    """Somebody else sends a batch under a name of this agent, and somebody looks."""
    stage.bucket()
    stage.collector("bob", FIRST, sender="agent-b", follow_up=False)
    stage.world.spawn(lambda: stage.store().head(FIRST.manifest(age_s=0.0, key="").key), name="ann")


def _judged_before(stage: Stage, *, parts: bool = False) -> None:
    stage.followed = False  # the model knows nobody who had judged before the run
    stage.bucket(versioned=True, parts=parts)
    version = stage.put(FIRST.raw_key(None), FIRST.body, age_s=OLD_AGE_S)
    stage.collector("ann", FIRST, follow_up=False)

    def delete() -> None:
        chosen = stage.safeguards.gc_by_version(version)
        stage.world.store().delete(FIRST.raw_key(None), when=ANYTHING, version=chosen)

    stage.world.spawn(delete, name="gc", restart=False)


def _old_version(stage: Stage, *, parts: bool = False) -> None:
    stage.bucket(versioned=True, timed=True, parts=parts)
    stage.put(FIRST.raw_key(None), FIRST.body)
    stage.collector("ann", FIRST, follow_up=False)
    _garbage(stage, wait_s=OLD_S)


def _accepted_before(
    stage: Stage, batch: Batch, *, derive: bool = True, age_s: float = OLD_AGE_S
) -> Manifest:
    manifest = batch.manifest(age_s=age_s, key=batch.raw_key(OLD))
    stage.put(manifest.raw_blob_key, batch.body)
    stage.put(manifest.key, manifest.body())
    for put in derived(manifest) if derive else ():
        stage.put(put.key, put.body)
    return manifest


def _garbage(
    stage: Stage, *, wait_s: float = 0.0, audit: bool = True, report: Sequence[str] | None = None
) -> None:
    """Somebody who audits everything and then collects garbage, after a long time or at once."""

    agree(stage.world.store(), SeededEnvironment(), stage.settings)

    def work() -> None:
        if wait_s:
            stage.world.env.sleep(wait_s)
        store = stage.store()
        if report is not None:
            told = inventory(report, stage.world.start_ns)
            audit_by_report(store, store.env, stage.settings, report=told, safeguards=stage.safeguards)
        elif audit:
            full_audit(store, store.env, stage.settings, safeguards=stage.safeguards)
        collect(store, store.env, stage.settings, safeguards=stage.safeguards)

    stage.world.spawn(work, name="gc", restart=False)


def _landed_late(stage: Stage) -> Callable[[View, str], bool]:
    """Whether a document landed later after its collector looked at the clock than bounded-landing grants."""
    bound_ns = round(SETTINGS.landing_bound_s * 1e9)

    def excused(view: View, key: str) -> bool:
        body = view.get(key)
        landed_ns = stage.world.bucket.modified_ns(key)
        return body is not None and landed_ns - Manifest.read(body, key).accepted_at_unix_ns > bound_ns

    return excused


SCENES: dict[str, Scene] = {
    scene.__name__.replace("_", "-"): scene
    for scene in (
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


def play(stage: Stage, scene: str) -> None:
    """Set up one scene; `small` is one of the small ones, whichever the adversary likes."""
    stage.world.share_nothing()
    SCENES[stage.world.pick("scene", SMALL) if scene == "small" else scene](stage)
    promise(stage)
