"""A dataset of many tables in a bucket; each commit is visible whole or not at all.

    from fencepost.catalog import Catalog

    with Catalog.open("s3://bucket/shop", mode="read") as catalog:
        print(catalog.snapshot().scan("order").arrow().num_rows)

The protocol is in docs/decisions/0010-publish-protocol.md. `fencepost catalog` has the same as commands.
"""

from typing import TYPE_CHECKING, Any

from fencepost.impl.publish import (
    Absent,
    Catalog,
    Conflicted,
    Damaged,
    Dangling,
    Debt,
    Fenced,
    Forgotten,
    GroupCommit,
    HeadAhead,
    Invalid,
    Mode,
    Overdue,
    Pressure,
    Published,
    PublishError,
    Snapshot,
    StaleView,
    StoreUnavailable,
    Transaction,
    Unknown,
    verify,
)
from fencepost.impl.publish.trace_fields import trace_fields

if TYPE_CHECKING:
    from fencepost.impl.publish.spark import CatalogSource

__all__ = [
    "Absent",
    "Catalog",
    "CatalogSource",
    "Conflicted",
    "Damaged",
    "Dangling",
    "Debt",
    "Fenced",
    "Forgotten",
    "GroupCommit",
    "HeadAhead",
    "Invalid",
    "Mode",
    "Overdue",
    "Pressure",
    "PublishError",
    "Published",
    "Snapshot",
    "StaleView",
    "StoreUnavailable",
    "Transaction",
    "Unknown",
    "trace_fields",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "CatalogSource":  # needs PySpark
        from fencepost.impl.publish.spark import CatalogSource

        return CatalogSource
    raise AttributeError(f"module 'fencepost.catalog' has no attribute {name!r}")
