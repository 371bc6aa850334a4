"""The protective steps of streams, each a small function of its own name, in one table.

An audit gives a node a table with one of them replaced, and must then find the failure that it prevents. The
counterexample of each is in docs/decisions/0020-streams.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Anything, Condition, Matches

T = TypeVar("T")


def terminal_before_data(has_tombstone: bool) -> bool:
    """Return True if a reap may delete data now, False if it must publish a tombstone first."""
    return has_tombstone


def data_before_manifest(data: Sequence[T]) -> Sequence[T]:
    """The data that must be gone before the manifest is deleted."""
    return data


def verify_empty(left: Sequence[T]) -> Sequence[T]:
    """Return the keys to delete, of those that a listing shows after the manifest is gone."""
    return left


def row_until_empty() -> bool:
    """Return True if the row stays until the prefix is empty."""
    return True


def tombstone_short_circuit(is_terminal: bool) -> bool:
    """Return True if a manifest is restored without reading its segments."""
    return is_terminal


def uploader_filter(flagged: bool) -> bool:
    """Return True if records of a stream may be uploaded and published."""
    return not flagged


def scan(found: Sequence[T]) -> Sequence[T]:
    """Return the findings that a scan acts on: doomed manifests, and data without a manifest."""
    return found


def recreate_lock(held: bool) -> bool:
    """Return True if other work of this node on the stream must wait for a reap."""
    return held


def fresh_epoch(identifier: str) -> str:
    """The name of a new incarnation, with which its epochs and keys begin."""
    return identifier


def expiry_skew_margin(deadline_ns: int, skew_bound_ns: int) -> int:
    """The moment, by this node's clock, from which the stream is expired by every clock."""
    return deadline_ns + 2 * skew_bound_ns


def two_node_reap(etag: str) -> Matches | Anything:
    """The condition on which a reap deletes the manifest: it is the tombstone that was read."""
    return Matches(etag)


def producer_fence(last: tuple[int, int] | None, epoch: int, seq: int) -> str:
    """`accept`, `duplicate`, `stale`, `gap` or `invalid`: what an append is to its producer's state."""
    if last is None:
        return "accept" if seq == 0 else "gap"
    if epoch < last[0]:
        return "stale"
    if epoch > last[0]:
        return "accept" if seq == 0 else "invalid"
    if seq <= last[1]:
        return "duplicate"
    return "accept" if seq == last[1] + 1 else "gap"


def owner_fence(etag: str) -> Condition:
    """The condition on which an owner moves its manifest."""
    return Matches(etag) if etag else ANYTHING


def segment_before_manifest(stored: bool) -> bool:
    """Return True if the manifest may list the segment."""
    return stored


@dataclass(frozen=True)
class Safeguards:
    """The table. A field has the safeguard's name with underscores for dashes."""

    terminal_before_data: Callable[[bool], bool] = terminal_before_data
    data_before_manifest: Callable[[Sequence[Any]], Sequence[Any]] = data_before_manifest
    verify_empty: Callable[[Sequence[Any]], Sequence[Any]] = verify_empty
    row_until_empty: Callable[[], bool] = row_until_empty
    tombstone_short_circuit: Callable[[bool], bool] = tombstone_short_circuit
    uploader_filter: Callable[[bool], bool] = uploader_filter
    scan: Callable[[Sequence[Any]], Sequence[Any]] = scan
    recreate_lock: Callable[[bool], bool] = recreate_lock
    fresh_epoch: Callable[[str], str] = fresh_epoch
    expiry_skew_margin: Callable[[int, int], int] = expiry_skew_margin
    two_node_reap: Callable[[str], Matches | Anything] = two_node_reap
    producer_fence: Callable[[tuple[int, int] | None, int, int], str] = producer_fence
    owner_fence: Callable[[str], Condition] = owner_fence
    segment_before_manifest: Callable[[bool], bool] = segment_before_manifest


STANDARD = Safeguards()
SAFEGUARDS = tuple(item.name.replace("_", "-") for item in fields(Safeguards))
