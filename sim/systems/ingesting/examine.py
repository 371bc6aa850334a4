"""What a bucket holds at the end of a run, and what becomes of it when everything behind acceptance runs.

Contents are equal far more often than runs are, so what was found out about them is kept. Everything runs
on a copy: a full audit, which finds what no index shows, then the rollups, twice, which must be no more
than once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.impl.ingest import Manifest, Safeguards, full_audit, keys, roll_up, totals
from holdfast.impl.ingest.documents import ConflictRecord
from holdfast.impl.ingest.reconcile import reconcile_once
from holdfast.sim.systems.ingesting.batches import BATCHES
from holdfast.sim.systems.ingesting.stage import SETTINGS
from holdfast.sim.systems.staging.examining import copy_of, once
from holdfast.sim.world.run import START_NS

LATER_NS = 7 * 3600 * 10**9
"""When everything has come to rest."""


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
    without_index = tuple(
        f"{key} of {manifest.identity}"
        for manifest in manifests.values()
        for key in (manifest.by_time_key, manifest.by_blob_key, manifest.raw_by_time_key)
        if key not in after
    )
    return Examined(
        manifests, records, without_blob, without_index, miscounted, _unrepaired(contents, safeguards)
    )


def _is(body: bytes | None, sha256: str) -> bool:
    return body is not None and body in BATCHES and BATCHES[body].sha256 == sha256


def _afterwards(
    contents: Mapping[str, bytes], manifests: Mapping[str, Manifest], safeguards: Safeguards
) -> tuple[Mapping[str, bytes], str]:
    store = copy_of(contents, START_NS + LATER_NS)
    env = store.env
    full_audit(store, env, SETTINGS, safeguards=safeguards)
    for _ in range(2):
        roll_up(store, env, SETTINGS, safeguards=safeguards)
    counted = sum(one.count for series in totals(store, env, SETTINGS).values() for one in series.values())
    value = sum(one.sum for series in totals(store, env, SETTINGS).values() for one in series.values())
    here = [m for m in manifests.values() if _is(contents.get(m.raw_blob_key), m.frame_sha256)]
    wanted = sum(_value(m) for m in here)
    wrong = (
        ""
        if (counted, value) == (len(here), wanted)
        else f"{counted} points of {value}, not {len(here)} of {wanted}"
    )
    return store.contents(), wrong


def _value(manifest: Manifest) -> float:
    return next(batch.value for batch in BATCHES.values() if batch.sha256 == manifest.frame_sha256)


def _unrepaired(contents: Mapping[str, bytes], safeguards: Safeguards) -> tuple[str, ...]:
    store = copy_of(contents, START_NS + LATER_NS)
    reconcile_once(store, store.env, SETTINGS, safeguards=safeguards)
    after = store.contents()
    found = (Manifest.read(body, key) for key, body in after.items() if key.startswith(keys.BY_TIME))
    return tuple(m.by_time_key for m in found if not {m.by_blob_key, m.raw_by_time_key} <= after.keys())
