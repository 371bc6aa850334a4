"""The errors of publish. The classes differ by who has to act.

    PublishError
    ├── Invalid            the caller: the rows or tables do not allow the change; nothing was published
    │   ├── Dangling       an edge would point at a missing row
    │   ├── Unchanged      the change leaves every table as it is
    │   ├── Conflicted     two branches changed the same rows
    │   ├── Absent         the catalog, branch, table or snapshot does not exist (any more)
    │   └── Forgotten      a request was perhaps published, and what would show it was cleaned up
    ├── StaleView          the caller: another write was first. Nothing was published, for ever; begin again
    ├── Fenced             another writer took over; final for this handle, reopen the catalog to go on
    ├── HeadAhead          the operator: the HEAD of a table is ahead of its manifest; run `repair`
    ├── StoreUnavailable   the store's operator: no answer; nothing was published
    ├── Overdue            the catalog's operator: too much waits for cleanup; nothing was published
    └── Damaged            the operator: objects that the catalog needs were altered or removed

"Perhaps published" is a result and no exception (`Unknown`), because code must act on it.
"""

from collections.abc import Sequence
from typing import NamedTuple


class PublishError(Exception):
    """The plan was not published and never will be, unless the subclass states otherwise."""


class Invalid(PublishError):
    """The change does not fit the catalog."""


class Unchanged(Invalid):
    """There is nothing to publish."""


class Dangling(Invalid):
    """An edge would point at a missing row: the table and column of the edge, and the value it holds."""

    def __init__(self, text: str, *, table: str = "", column: str = "", value: object = None) -> None:
        super().__init__(text)
        self.table = table
        self.column = column
        self.value = value


class RowConflict(NamedTuple):
    """A row, or a whole table, that two branches changed differently."""

    table: str
    key: object
    """None for the table."""
    what: str


class Conflicted(Invalid):
    """Two branches changed the same rows differently."""

    def __init__(self, theirs: str, ours: str, conflicts: Sequence[RowConflict], count: int) -> None:
        shown = "; ".join(
            f"table {one.table}" + (f", row {one.key!r}" if one.key is not None else "") + f": {one.what}"
            for one in conflicts
        )
        more = f"; and {count - len(conflicts)} more" if count > len(conflicts) else ""
        super().__init__(
            f"branches {ours} and {theirs} conflict: {shown}{more}. Make them equal on both, then merge"
        )
        self.conflicts = tuple(conflicts)
        self.count = count


class Absent(Invalid):
    """It does not exist, or was cleaned up."""


class Forgotten(Invalid):
    """The request may have been published earlier: what would show it was cleaned up."""


class StaleView(PublishError):
    """The snapshot is no longer the newest in a table that the write depends on. Begin again."""


class Fenced(PublishError):
    """Another writer claimed a later epoch. Final for this handle."""


class HeadAhead(PublishError):
    """A version exists above the pinned one, its plan may be alive, and its sidecar is gone."""


class StoreUnavailable(PublishError):
    """The store did not answer in time, or kept refusing."""


class Overdue(PublishError):
    """Too much waits for cleanup. Nothing was published."""


class Damaged(PublishError):
    """An object that a manifest refers to is missing, altered or unreadable."""
