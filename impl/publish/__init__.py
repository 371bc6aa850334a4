"""Publish: many tables, one visible commit. The protocol is in docs/decisions/0010-publish-protocol.md."""

from holdfast.impl.publish.catalog import Catalog, Transaction
from holdfast.impl.publish.compaction import Compacted, compact
from holdfast.impl.publish.drafts import Draft
from holdfast.impl.publish.endings import Published, Unknown
from holdfast.impl.publish.errors import (
    Absent,
    Damaged,
    Dangling,
    Fenced,
    HeadAhead,
    Invalid,
    PublishError,
    StaleView,
    StoreAway,
)
from holdfast.impl.publish.group import GroupCommit
from holdfast.impl.publish.handle import Mode
from holdfast.impl.publish.plan import PublishPlan
from holdfast.impl.publish.safeguards import SAFEGUARDS, STANDARD, Safeguards
from holdfast.impl.publish.snapshots import Snapshot
from holdfast.impl.publish.verify import Verified, verify

__all__ = [
    "SAFEGUARDS",
    "STANDARD",
    "Absent",
    "Catalog",
    "Compacted",
    "Damaged",
    "Dangling",
    "Draft",
    "Fenced",
    "GroupCommit",
    "HeadAhead",
    "Invalid",
    "Mode",
    "PublishError",
    "PublishPlan",
    "Published",
    "Safeguards",
    "Snapshot",
    "StaleView",
    "StoreAway",
    "Transaction",
    "Unknown",
    "Verified",
    "compact",
    "verify",
]
