"""Active-active acceptance of batches, with nothing shared but a bucket.

The protocol is in docs/decisions/0011-ingest-protocol.md; begin reading at
`python -m pydoc fencepost.impl.ingest.authority`.
"""

from fencepost.impl.ingest.audit import audit_by_report, full_audit
from fencepost.impl.ingest.authority import Accepted, Authority, Conflict, Unavailable, check_batch
from fencepost.impl.ingest.documents import ConflictRecord, Manifest
from fencepost.impl.ingest.errors import (
    FrameError,
    IdentityError,
    IngestError,
    InventoryError,
    Refusal,
    Refused,
    SettingsError,
    StoreUnavailable,
)
from fencepost.impl.ingest.frames import Limits, Point, encode, read
from fencepost.impl.ingest.gc import collect
from fencepost.impl.ingest.inventory import Report, report_at, report_in
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.policy import bucket_policy, lifecycle_rules, role_policy
from fencepost.impl.ingest.reconcile import Reconciler, reconcile_once
from fencepost.impl.ingest.rollups import Rollups, roll_up, totals
from fencepost.impl.ingest.safeguards import SAFEGUARDS, STANDARD, Safeguards
from fencepost.impl.ingest.settings import Settings

__all__ = [
    "SAFEGUARDS",
    "STANDARD",
    "Accepted",
    "Authority",
    "Conflict",
    "ConflictRecord",
    "FrameError",
    "Identity",
    "IdentityError",
    "IngestError",
    "InventoryError",
    "Limits",
    "Manifest",
    "Point",
    "Reconciler",
    "Refusal",
    "Refused",
    "Report",
    "Rollups",
    "Safeguards",
    "Settings",
    "SettingsError",
    "StoreUnavailable",
    "Unavailable",
    "audit_by_report",
    "bucket_policy",
    "check_batch",
    "collect",
    "encode",
    "full_audit",
    "lifecycle_rules",
    "read",
    "reconcile_once",
    "report_at",
    "report_in",
    "role_policy",
    "roll_up",
    "totals",
]
