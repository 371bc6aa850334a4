"""What a bucket holds at the end of a run, and what becomes of it when everything behind acceptance runs.

Contents are equal far more often than runs are, so what was found out about them is kept. Everything runs
on a copy: a full audit, which finds what no index shows, then the rollups, twice, which must be no more
than once; and, on another copy, nothing but what collectors do on their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.impl.ingest import Manifest, Safeguards, full_audit, keys, roll_up, totals
from fencepost.impl.ingest.documents import ConflictRecord
from fencepost.impl.ingest.maintenance import SEARCH_EVERY_S, Maintenance
from fencepost.impl.ingest.reconcile import reconcile_once
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.systems.harness import copy_of, once
from fencepost.sim.systems.ingest.batches import BATCHES
from fencepost.sim.systems.ingest.run import SETTINGS
from fencepost.sim.world.world import START_NS

LATER_NS = 7 * 3600 * 10**9
"""When everything has come to rest."""
TURNS = 3
"""One ends the search that somebody may have left, one makes a search, one adds up what came to light."""


@dataclass(frozen=True)
class Examined:
    """What was found."""

    manifests: Mapping[str, Manifest]
    """By key."""
    records: tuple[ConflictRecord, ...]
    without_blob: tuple[str, ...]
    """Accepted manifests and conflict records whose blob is gone, or is something else."""
    without_index: tuple[str, ...]
    """What is missing after the audit and the rollups."""
    miscounted: str
    unrepaired: tuple[str, ...]
    """By-time entries that a steady pass of the reconciler leaves without their references."""


@once
def examine(contents: Mapping[str, bytes], safeguards: Safeguards) -> Examined:
    manifests = {
        key: Manifest.read(body, key) for key, body in contents.items() if key.startswith(keys.ACCEPTED)
    }
    records = tuple(
        ConflictRecord.read(body, key) for key, body in contents.items() if key.startswith(keys.QUARANTINE)
    )
    wanted = [(m.raw_blob_key, m.frame_sha256, m.key) for m in manifests.values()]
    wanted += [(r.submitted_raw_blob_key, r.submitted_frame_sha256, r.key) for r in records]
    without_blob = tuple(of for key, sha256, of in wanted if not _is(contents.get(key), sha256))
    after, miscounted = _afterwards(contents, manifests, safeguards)
    return Examined(
        manifests,
        records,
        without_blob,
        _without_index(after, manifests),
        miscounted,
        _unrepaired(contents, safeguards),
    )


def _without_index(contents: Mapping[str, bytes], manifests: Mapping[str, Manifest]) -> tuple[str, ...]:
    return tuple(
        f"{key} of {manifest.identity}"
        for manifest in manifests.values()
        for key in (manifest.by_time_key, manifest.by_blob_key, manifest.raw_by_time_key)
        if key not in contents
    )


def _is(body: bytes | None, sha256: str) -> bool:
    return body is not None and body in BATCHES and BATCHES[body].sha256 == sha256


def _afterwards(
    contents: Mapping[str, bytes], manifests: Mapping[str, Manifest], safeguards: Safeguards
) -> tuple[Mapping[str, bytes], str]:
    store = copy_of(contents, START_NS + LATER_NS)
    full_audit(store, store.env, SETTINGS, safeguards=safeguards)
    for _ in range(2):
        roll_up(store, store.env, SETTINGS, safeguards=safeguards)
    return store.contents(), _miscounted(store, contents, manifests)


def _miscounted(store: MemoryStore, contents: Mapping[str, bytes], manifests: Mapping[str, Manifest]) -> str:
    """What the rollups hold, if that is not every accepted batch that has its data, once."""
    rolled = totals(store, store.env, SETTINGS)
    counted = sum(one.count for series in rolled.values() for one in series.values())
    value = sum(one.sum for series in rolled.values() for one in series.values())
    here = [m for m in manifests.values() if _is(contents.get(m.raw_blob_key), m.frame_sha256)]
    wanted = sum(_value(m) for m in here)
    if (counted, value) == (len(here), wanted):
        return ""
    return f"{counted} points of {value}, not {len(here)} of {wanted}"


Stamps = tuple[tuple[str, int], ...]
"""When each manifest landed, by the store: a search goes by that."""


@once
def unkept(contents: Mapping[str, bytes], known: tuple[Safeguards, Stamps]) -> tuple[str, ...]:
    """What is not in order after nobody did anything, and one collector took its turns."""
    safeguards, stamps = known
    manifests = {key: Manifest.read(contents[key], key) for key, _ in stamps}
    store = _copy_with_times(contents, stamps)
    keeper = Maintenance(store, store.env, "keeper", SETTINGS, safeguards=safeguards)
    for _ in range(TURNS):
        store.env.sleep(SEARCH_EVERY_S)
        keeper.run_once()
    error = [f"there is no {missing}" for missing in _without_index(store.contents(), manifests)]
    miscounted = _miscounted(store, contents, manifests)
    return (*error, *([f"the rollups hold {miscounted}"] if miscounted else ()))


def _copy_with_times(contents: Mapping[str, bytes], stamps: Stamps) -> MemoryStore:
    timed = sorted(stamps, key=lambda one: one[1])
    store = copy_of({}, min([START_NS, *(at_ns for _, at_ns in timed)]))
    for key, at_ns in timed:
        store.env.sleep((at_ns - store.env.now_ns()) / 1e9)
        store.put(key, contents[key], when=ABSENT)
    store.env.sleep((START_NS + LATER_NS - store.env.now_ns()) / 1e9)
    for key in contents.keys() - {key for key, _ in stamps}:
        store.put(key, contents[key], when=ABSENT)
    return store


def _value(manifest: Manifest) -> float:
    return next(batch.value for batch in BATCHES.values() if batch.sha256 == manifest.frame_sha256)


def _unrepaired(contents: Mapping[str, bytes], safeguards: Safeguards) -> tuple[str, ...]:
    store = copy_of(contents, START_NS + LATER_NS)
    reconcile_once(store, store.env, SETTINGS, safeguards=safeguards)
    after = store.contents()
    found = (Manifest.read(body, key) for key, body in after.items() if key.startswith(keys.BY_TIME))
    return tuple(m.by_time_key for m in found if not {m.by_blob_key, m.raw_by_time_key} <= after.keys())
