"""The protective steps of ingest, each a small function of its own name, in one table.

The code calls `safeguards.<name>(...)` at the place where the step acts, so that an audit can give a
collector a table with a mutant of one of them, and must then find the failure that the safeguard prevents:

    mutant = dataclasses.replace(STANDARD, compare_after_412=lambda *_: True)
    Authority(store, env, "c1", safeguards=mutant)

The counterexample of each is in docs/decisions/0011-ingest-protocol.md, or in 0050-notified-batches.md.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Condition

T = TypeVar("T")


class Meaning(enum.Enum):
    """The meaning of a reply to the create of a manifest, by which a collector continues."""

    CREATED = "created"
    LOOK = "look"
    """An object exists, or may: read it."""
    AGAIN = "again"
    """Not known to be applied: send it again."""
    DUPLICATE = "duplicate"
    """This batch was accepted before. No reply to a create proves that."""


def identity_bound_to_agent(authenticated: str, claimed: str) -> bool:
    """Return True if this sender may send batches of `claimed`: only its own."""
    return authenticated == claimed


def create_only_manifest() -> Condition:
    """An identity is accepted once: the create decides between rivals."""
    return ABSENT


def blob_before_manifest() -> bool:
    """Return True if the manifest waits until the blob is known to exist."""
    return True


def compare_after_412(found_sha256: str, offered_sha256: str) -> bool:
    """Return True if the accepted batch is the offered one; that one exists proves nothing."""
    return found_sha256 == offered_sha256


def conflict_proves_nothing() -> Meaning:
    """After a 409 to the create of a manifest: it proves nothing, not even that an object exists."""
    return Meaning.AGAIN


def read_back_on_unknown() -> Meaning:
    """After a lost reply to the create of a manifest: it may have been applied, so read the key."""
    return Meaning.LOOK


def effects_after_create(created: bool) -> bool:
    """Return True if live state may be updated: only after one's own create."""
    return created


def new_upload_on_multipart_409(upload: str) -> str | None:  # noqa: ARG001 - a completion with a 409 is final for any upload
    """The upload to continue after a 409 on completing one: none, a new one begins."""
    return None


def duplicate_with_data(found: bool) -> bool:
    """Return True if the blob of a duplicate is safe: only if it was seen after the manifest."""
    return found


def gc_stalled_writer(relied_ns: int, now_ns: int, horizon_ns: int) -> bool:
    """Return True if an attempt may rely on a blob of this age; garbage collection takes only older ones."""
    return now_ns - relied_ns < horizon_ns


def gc_new_generation(present: int) -> int:
    """The generation in the name of a blob stored now, in a plain bucket: no name is ever used again."""
    return present


def gc_by_version(version: str) -> str:
    """The version that garbage collection deletes in a versioned bucket: the one it judged, and no other."""
    return version


def gc_age(relied_ns: int, horizon_ns: int, margin_ns: int) -> int:
    """The moment from which no attempt relies on a blob any more, nor has a request in flight that does."""
    return relied_ns + horizon_ns + margin_ns


def gc_audit_before_trust(unneeded_since_ns: int, audit_began_ns: int | None) -> bool:
    """Return True if a missing reference is a proof: an audit began after the last one could appear."""
    return audit_began_ns is not None and audit_began_ns >= unneeded_since_ns


def gc_quarantine_refs(accepted: Sequence[T], quarantined: Sequence[T]) -> Sequence[T]:
    """The references that keep a blob: from accepted batches, and from those in quarantine."""
    return [*accepted, *quarantined]


def reconcile(found: Sequence[T]) -> Sequence[T]:
    """The batches to repair: all that were found, whichever collector accepted them."""
    return found


def cursor_overlap(position_ns: int, overlap_ns: int) -> int:
    """Where a reader at `position_ns` starts: before it, for late batches."""
    return max(0, position_ns - overlap_ns)


def repair_before_acknowledge(named: Sequence[T]) -> Sequence[T]:
    """The batches to repair before their notifications are acknowledged: all that these name."""
    return named


def mark_late(accepted_ns: int, now_ns: int, late_ns: int) -> bool:
    """Return True if a place in time, which exists by now, may be behind the rollups: mark its hour."""
    return now_ns - accepted_ns >= late_ns


def mark_what_exists(found: Sequence[T], _lacking: Sequence[T]) -> Sequence[T]:
    """The batches whose hours may need a mark: complete ones too, whose writer may have died before it."""
    return found


def search_late_places(accepted_ns: int, placed_ns: int, late_ns: int) -> bool:
    """Return True if a search may rely on a place in time: not if it was written late, by whomever."""
    return placed_ns - accepted_ns < late_ns


@dataclass(frozen=True)
class Safeguards:
    """The table. A field has the safeguard's name with underscores for dashes, or metadata with the name."""

    identity_bound_to_agent: Callable[[str, str], bool] = identity_bound_to_agent
    create_only_manifest: Callable[[], Condition] = create_only_manifest
    blob_before_manifest: Callable[[], bool] = blob_before_manifest
    compare_after_412: Callable[[str, str], bool] = compare_after_412
    conflict_proves_nothing: Callable[[], Meaning] = field(
        default=conflict_proves_nothing, metadata={"name": "409-proves-nothing"}
    )
    read_back_on_unknown: Callable[[], Meaning] = read_back_on_unknown
    effects_after_create: Callable[[bool], bool] = effects_after_create
    new_upload_on_multipart_409: Callable[[str], str | None] = new_upload_on_multipart_409
    duplicate_with_data: Callable[[bool], bool] = field(
        default=duplicate_with_data, metadata={"name": "gc-stalled-writer-duplicate"}
    )
    gc_stalled_writer: Callable[[int, int, int], bool] = gc_stalled_writer
    gc_new_generation: Callable[[int], int] = field(
        default=gc_new_generation, metadata={"name": "gc-stalled-writer-generation"}
    )
    gc_by_version: Callable[[str], str] = field(
        default=gc_by_version, metadata={"name": "gc-stalled-writer-version"}
    )
    gc_age: Callable[[int, int, int], int] = gc_age
    gc_audit_before_trust: Callable[[int, int | None], bool] = gc_audit_before_trust
    gc_quarantine_refs: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]] = gc_quarantine_refs
    reconcile: Callable[[Sequence[Any]], Sequence[Any]] = reconcile
    cursor_overlap: Callable[[int, int], int] = cursor_overlap
    repair_before_acknowledge: Callable[[Sequence[Any]], Sequence[Any]] = repair_before_acknowledge
    mark_late: Callable[[int, int, int], bool] = mark_late
    mark_what_exists: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]] = mark_what_exists
    search_late_places: Callable[[int, int, int], bool] = search_late_places


STANDARD = Safeguards()
FIELDS = {item.metadata.get("name", item.name.replace("_", "-")): item.name for item in fields(Safeguards)}
"""The field of each safeguard, by its name in the documents."""
SAFEGUARDS = tuple(FIELDS)
"""Their names in the documents."""
