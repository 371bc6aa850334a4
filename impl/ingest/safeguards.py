"""The protective steps of ingest, each a small function of its own name, in one table.

The code asks `safeguards.<name>(...)` at the place where the step acts, so that an audit can hand a
collector a table in which one of them is broken, and must then find the failure that it prevents:

    broken = dataclasses.replace(STANDARD, compare_after_412=lambda *_: True)
    Authority(store, env, "c1", safeguards=broken)

The counterexample of each is in docs/decisions/0011-ingest-protocol.md.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Condition

T = TypeVar("T")


class Meaning(enum.Enum):
    """What an answer to the create of a manifest means."""

    CREATED = "created"
    LOOK = "look"
    """Something stands there, or may: read it."""
    AGAIN = "again"
    """Not known to have happened: ask again."""
    DUPLICATE = "duplicate"
    """That this batch was accepted before. No answer to a create means that."""


def identity_bound_to_agent(authenticated: str, claimed: str) -> bool:
    """Whether this sender may name batches of `claimed`: only its own."""
    return authenticated == claimed


def create_only_manifest() -> Condition:
    """An identity is accepted once: the create decides between rivals."""
    return ABSENT


def blob_before_manifest() -> bool:
    """Whether the manifest waits until the blob is known to stand."""
    return True


def compare_after_412(found_sha256: str, offered_sha256: str) -> bool:
    """Whether what stands under the identity is what was offered; that something stands proves nothing."""
    return found_sha256 == offered_sha256


def conflict_proves_nothing() -> Meaning:
    """What a 409 to the create of a manifest means: nothing; not even that something stands."""
    return Meaning.AGAIN


def read_back_on_unknown() -> Meaning:
    """What a lost reply to the create of a manifest means: it may have landed, so look."""
    return Meaning.LOOK


def effects_after_create(created: bool) -> bool:
    """Whether live state may be told: only by whoever's create it was, and after it."""
    return created


def new_upload_on_multipart_409(upload: str) -> str | None:  # noqa: ARG001 - whatever it was, it is spent
    """The upload to go on with after a 409 on completing one: none, a new one is begun."""
    return None


def duplicate_with_data(found: bool) -> bool:
    """Whether the blob of a duplicate needs no help: only if it was seen after the manifest was."""
    return found


def gc_stalled_writer(relied_ns: int, now_ns: int, horizon_ns: int) -> bool:
    """Whether a blob of this age may still be relied on; garbage collection takes only what is older."""
    return now_ns - relied_ns < horizon_ns


def gc_new_generation(present: int) -> int:
    """The generation in the name of a blob stored now, on a plain bucket: no name is ever used again."""
    return present


def gc_by_version(version: str) -> str:
    """What garbage collection deletes in a versioned bucket: the version it looked at, and no other."""
    return version


def gc_age(relied_ns: int, horizon_ns: int, margin_ns: int) -> int:
    """The moment from which nobody relies on a blob any more, nor has a request under way that does."""
    return relied_ns + horizon_ns + margin_ns


def gc_audit_before_trust(unneeded_since_ns: int, audit_began_ns: int | None) -> bool:
    """Whether finding no reference proves that there is none: an audit began after the last could come."""
    return audit_began_ns is not None and audit_began_ns >= unneeded_since_ns


def gc_quarantine_refs(accepted: Sequence[T], quarantined: Sequence[T]) -> Sequence[T]:
    """What keeps a blob: references from accepted batches, and from those in quarantine."""
    return [*accepted, *quarantined]


def reconcile(found: Sequence[T]) -> Sequence[T]:
    """Which of the accepted batches found are looked after: all, whoever accepted them."""
    return found


def cursor_overlap(position_ns: int, overlap_ns: int) -> int:
    """Where a reader starts that has got as far as `position_ns`: before it, for what came late."""
    return max(0, position_ns - overlap_ns)


@dataclass(frozen=True)
class Safeguards:
    """The table. A field's name is the safeguard's with underscores for dashes, unless it says otherwise."""

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


STANDARD = Safeguards()
FIELDS = {item.metadata.get("name", item.name.replace("_", "-")): item.name for item in fields(Safeguards)}
"""The field of each safeguard, by the name that the documents give it."""
SAFEGUARDS = tuple(FIELDS)
"""Their names as the documents spell them."""
