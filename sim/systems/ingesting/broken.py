"""Each safeguard broken, and what the code then does."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.ingest import STANDARD, Safeguards
from fencepost.impl.ingest.safeguards import FIELDS, Meaning
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Condition
from fencepost.sim.systems.ingesting.batches import PRESENT


def identity_bound_to_agent(_authenticated: str, _claimed: str) -> bool:
    """Whoever is let in may name any batch."""
    return True


def create_only_manifest() -> Condition:
    """The manifest is written over whatever stands there."""
    return ANYTHING


def blob_before_manifest() -> bool:
    """The blob is sent, and nobody waits to hear that it arrived."""
    return False


def compare_after_412(_found_sha256: str, _offered_sha256: str) -> bool:
    """What stands there is taken for the same."""
    return True


def conflict_proves_nothing() -> Meaning:
    """A 409 is taken for a 412."""
    return Meaning.DUPLICATE


def read_back_on_unknown() -> Meaning:
    """No answer is taken for a yes."""
    return Meaning.CREATED


def effects_after_create(_created: bool) -> bool:
    """Live state is told by everybody who met the batch."""
    return True


def new_upload_on_multipart_409(upload: str) -> str | None:
    """The same upload is completed again."""
    return upload


def duplicate_with_data(_found: bool) -> bool:
    """An accepted batch has its blob; nobody looks."""
    return True


def gc_stalled_writer(_relied_ns: int, _now_ns: int, _horizon_ns: int) -> bool:
    """What was seen once may be relied on for ever."""
    return True


def gc_new_generation(_present: int) -> int:
    """The name of a blob is its hash, for all time."""
    return PRESENT - 10


def gc_by_version(_version: str) -> str:
    """Whatever stands under the name is deleted."""
    return ""


def gc_age(relied_ns: int, horizon_ns: int, _margin_ns: int) -> int:
    """An orphan is garbage from its first moment."""
    return relied_ns - 3 * horizon_ns


def gc_audit_before_trust(_unneeded_since_ns: int, _audit_began_ns: int | None) -> bool:
    """A reference that is not found does not exist."""
    return True


def gc_quarantine_refs(accepted: Sequence[Any], _quarantined: Sequence[Any]) -> Sequence[Any]:
    """Only what was accepted counts."""
    return accepted


def reconcile(_found: Sequence[Any]) -> Sequence[Any]:
    """Whoever accepted a batch sees to its indexes."""
    return []


def cursor_overlap(position_ns: int, _overlap_ns: int) -> int:
    """A reader goes on where it stopped."""
    return position_ns + 1


BROKEN: Mapping[str, Any] = {
    function.__name__: function
    for function in (
        identity_bound_to_agent,
        create_only_manifest,
        blob_before_manifest,
        compare_after_412,
        conflict_proves_nothing,
        read_back_on_unknown,
        effects_after_create,
        new_upload_on_multipart_409,
        duplicate_with_data,
        gc_stalled_writer,
        gc_new_generation,
        gc_by_version,
        gc_age,
        gc_audit_before_trust,
        gc_quarantine_refs,
        reconcile,
        cursor_overlap,
    )
}
"""By the field of the table."""


def without(safeguard: str) -> Safeguards:
    """The table with one broken, by the name of the documents. Made once: a run is judged by its table."""
    return _TABLES[FIELDS[safeguard]]


_TABLES = {name: dataclasses.replace(STANDARD, **{name: broken}) for name, broken in BROKEN.items()}
