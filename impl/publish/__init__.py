"""Publish: many tables, one visible commit. The protocol is in docs/decisions/0010-publish-protocol.md."""

from fencepost.impl.publish.catalog import Catalog, Snapshot, Transaction
from fencepost.impl.publish.commit import Published, Unknown
from fencepost.impl.publish.context import Mode
from fencepost.impl.publish.documents import PublishPlan
from fencepost.impl.publish.errors import (
    Absent,
    Conflicted,
    Damaged,
    Dangling,
    Fenced,
    Forgotten,
    HeadAhead,
    Invalid,
    Overdue,
    PublishError,
    StaleView,
    StoreUnavailable,
)
from fencepost.impl.publish.group_commit import GroupCommit
from fencepost.impl.publish.planner import Draft
from fencepost.impl.publish.pressure import Debt, Pressure
from fencepost.impl.publish.safeguards import SAFEGUARDS, STANDARD, Safeguards
from fencepost.impl.publish.verify import verify

__all__ = [
    "SAFEGUARDS",
    "STANDARD",
    "Absent",
    "Catalog",
    "Conflicted",
    "Damaged",
    "Dangling",
    "Debt",
    "Draft",
    "Fenced",
    "Forgotten",
    "GroupCommit",
    "HeadAhead",
    "Invalid",
    "Mode",
    "Overdue",
    "Pressure",
    "PublishError",
    "PublishPlan",
    "Published",
    "Safeguards",
    "Snapshot",
    "StaleView",
    "StoreUnavailable",
    "Transaction",
    "Unknown",
    "verify",
]
