"""The mutants of ingest: for each safeguard a replacement that breaks it, and a scenario that needs it."""

from collections.abc import Sequence
from typing import Any

from fencepost.impl.ingest.safeguards import Meaning
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Condition
from fencepost.sim.systems.ingest.batches import PRESENT
from fencepost.sim.systems.system import Mutant


def identity_bound_to_agent(_authenticated: str, _claimed: str) -> bool:
    """Let an authenticated agent name any batch."""
    return True


def create_only_manifest() -> Condition:
    """Overwrite whatever manifest exists."""
    return ANYTHING


def blob_before_manifest() -> bool:
    """Send the blob without waiting for the reply."""
    return False


def compare_after_412(_found_sha256: str, _offered_sha256: str) -> bool:
    """Treat every existing manifest as the same batch."""
    return True


def conflict_proves_nothing() -> Meaning:
    """Treat a 409 as a 412."""
    return Meaning.DUPLICATE


def read_back_on_unknown() -> Meaning:
    """Treat a missing reply as a success."""
    return Meaning.CREATED


def effects_after_create(_created: bool) -> bool:
    """Update live state for duplicates too."""
    return True


def new_upload_on_multipart_409(upload: str) -> str | None:
    """Complete the same upload again."""
    return upload


def duplicate_with_data(_found: bool) -> bool:
    """Assume that an accepted batch has its blob."""
    return True


def gc_stalled_writer(_relied_ns: int, _now_ns: int, _horizon_ns: int) -> bool:
    """Rely on a blob for ever once it was seen."""
    return True


def gc_new_generation(_present: int) -> int:
    """Use one generation of blob names for all time."""
    return PRESENT - 10


def gc_by_version(_version: str) -> str:
    """Delete whatever version is current."""
    return ""


def gc_age(relied_ns: int, horizon_ns: int, _margin_ns: int) -> int:
    """Treat an orphan as garbage from its first moment."""
    return relied_ns - 3 * horizon_ns


def gc_audit_before_trust(_unneeded_since_ns: int, _audit_began_ns: int | None) -> bool:
    """Assume that a reference that was not found does not exist."""
    return True


def gc_quarantine_refs(accepted: Sequence[Any], _quarantined: Sequence[Any]) -> Sequence[Any]:
    """Count references of accepted batches only."""
    return accepted


def reconcile(_found: Sequence[Any]) -> Sequence[Any]:
    """Leave the indexes to the collector that accepted the batch."""
    return []


def cursor_overlap(position_ns: int, _overlap_ns: int) -> int:
    """Resume exactly at the last position."""
    return position_ns + 1


def repair_before_acknowledge(_named: Sequence[Any]) -> Sequence[Any]:
    """Acknowledge at once."""
    return []


def mark_late(_accepted_ns: int, _now_ns: int, _late_ns: int) -> bool:
    """Leave every batch to the cursor of the rollups."""
    return False


def mark_what_exists(_found: Sequence[Any], lacking: Sequence[Any]) -> Sequence[Any]:
    """Mark the hours of batches that lacked something, and of no others."""
    return lacking


def search_late_places(_accepted_ns: int, _placed_ns: int, _late_ns: int) -> bool:
    """Rely on every place in time."""
    return True


NO_LOSS = {"reply_lost": 0, "request_lost": 0}
MUTANTS = {
    "create-only-manifest": Mutant(create_only_manifest, "retry"),
    "compare-after-412": Mutant(compare_after_412, "conflict"),
    "409-proves-nothing": Mutant(conflict_proves_nothing, "retry", {"conflict": 1}),
    "read-back-on-unknown": Mutant(read_back_on_unknown, "retry"),
    "blob-before-manifest": Mutant(blob_before_manifest, "conflict"),
    "effects-after-create": Mutant(effects_after_create, "retry"),
    "reconcile": Mutant(reconcile, "retry"),
    "new-upload-on-multipart-409": Mutant(new_upload_on_multipart_409, "judged-parts"),
    "gc-age": Mutant(gc_age, "young"),
    "gc-audit-before-trust": Mutant(gc_audit_before_trust, "unaudited"),
    "gc-quarantine-refs": Mutant(gc_quarantine_refs, "quarantined"),
    # Time breaks these; with crashes and lost replies to try as well the search takes minutes.
    "gc-stalled-writer": Mutant(gc_stalled_writer, "slow", {"crash": 0, **NO_LOSS}),
    "gc-stalled-writer-generation": Mutant(gc_new_generation, "orphan"),
    "gc-stalled-writer-version": Mutant(gc_by_version, "judged"),
    "gc-stalled-writer-duplicate": Mutant(duplicate_with_data, "slow-versioned", NO_LOSS),
    "cursor-overlap": Mutant(cursor_overlap, "late-entry"),
    "identity-bound-to-agent": Mutant(identity_bound_to_agent, "impostor"),
    "repair-before-acknowledge": Mutant(repair_before_acknowledge, "notified"),
    "mark-late": Mutant(mark_late, "notified"),
    "mark-what-exists": Mutant(mark_what_exists, "notified"),
    "search-late-places": Mutant(search_late_places, "late-place"),
}
