"""The mutants of streams: for each safeguard a replacement that breaks it, and a scenario that needs it."""

from collections.abc import Sequence
from typing import Any

from fencepost.impl.store import ANYTHING
from fencepost.impl.store.requests import Anything, Condition
from fencepost.sim.systems.system import Mutant


def terminal_before_data(_has_tombstone: bool) -> bool:
    """Treat what is expired as terminal."""
    return True


def data_before_manifest(_data: Sequence[Any]) -> Sequence[Any]:
    """Delete the manifest first."""
    return []


def verify_empty(_left: Sequence[Any]) -> Sequence[Any]:
    """Take the prefix for empty."""
    return []


def row_until_empty() -> bool:
    """Drop the row when the reap begins."""
    return False


def tombstone_short_circuit(_is_terminal: bool) -> bool:
    """Look at the segments of every manifest."""
    return False


def uploader_filter(_flagged: bool) -> bool:
    """Upload and list whatever is buffered."""
    return True


def scan(_found: Sequence[Any]) -> Sequence[Any]:
    """Rely on local rows."""
    return []


def recreate_lock(_held: bool) -> bool:
    """Let reaps and creations of one node overlap."""
    return False


def fresh_epoch(_identifier: str) -> str:
    """Begin every incarnation with the same epoch."""
    return "0" * 26


def expiry_skew_margin(deadline_ns: int, _skew_bound_ns: int) -> int:
    """Believe the own clock."""
    return deadline_ns


def two_node_reap(_etag: str) -> Anything:
    """Delete all objects below the prefix, unconditionally."""
    return ANYTHING


def producer_fence(_last: tuple[int, int] | None, _epoch: int, _seq: int) -> str:
    """Accept every append."""
    return "accept"


def owner_fence(_etag: str) -> Condition:
    """Overwrite whatever manifest exists."""
    return ANYTHING


def segment_before_manifest(_stored: bool) -> bool:
    """List a segment that was sent."""
    return True


MUTANTS = {
    "terminal-before-data": Mutant(terminal_before_data, "expired"),
    "data-before-manifest": Mutant(data_before_manifest, "reaped"),
    "verify-empty": Mutant(verify_empty, "stalled"),
    "row-until-empty": Mutant(row_until_empty, "reaped"),
    "tombstone-short-circuit": Mutant(tombstone_short_circuit, "reaped"),
    "uploader-filter": Mutant(uploader_filter, "flagged"),
    "scan": Mutant(scan, "reaped"),
    "recreate-lock": Mutant(recreate_lock, "beside"),
    "fresh-epoch": Mutant(fresh_epoch, "recreated"),
    "expiry-skew-margin": Mutant(expiry_skew_margin, "skewed"),
    "two-node-reap": Mutant(two_node_reap, "recreated"),
    "producer-fence": Mutant(producer_fence, "zombie"),
    "owner-fence": Mutant(owner_fence, "owners"),
    "segment-before-manifest": Mutant(segment_before_manifest, "owners"),
}
