"""What publishing raises, named by who must act.

    PublishError
    ├── Invalid            the caller: the rows or tables do not allow what was asked; nothing was published
    │   ├── Dangling       an edge would point at a row that is not there
    │   └── Absent         there is no such catalog, branch, table or snapshot (any more)
    ├── StaleView          nobody: others were first. Nothing was published, for ever; begin again
    ├── Fenced             another writer took over; final for this handle, open the catalog again to go on
    ├── HeadAhead          whoever runs it: a table's HEAD stands ahead of its manifest; run `repair`
    ├── StoreUnavailable   the outside: the store did not answer; nothing was published
    └── Damaged            somebody altered or removed objects that the catalog needs

"Perhaps published" is not here: it is a result (`Unknown`), because code must act on it.
"""


class PublishError(Exception):
    """The plan was not published and never will be, unless its class says otherwise."""


class Invalid(PublishError):
    """What was asked does not fit the catalog."""


class Dangling(Invalid):
    """An edge would point at a row that is not there: the edge's table and column, and what it holds."""

    def __init__(self, text: str, *, table: str = "", column: str = "", value: object = None) -> None:
        super().__init__(text)
        self.table = table
        self.column = column
        self.value = value


class Absent(Invalid):
    """There is no such thing, or it was cleaned up."""


class StaleView(PublishError):
    """The snapshot that was written against is no longer the newest where it matters. Begin again."""


class Fenced(PublishError):
    """Another writer claimed a later epoch. Final for this handle."""


class HeadAhead(PublishError):
    """A version stands above the pinned one, its plan may be alive, and its sidecar is gone."""


class StoreUnavailable(PublishError):
    """The store did not answer in time, or kept refusing."""


class Damaged(PublishError):
    """An object that a manifest mentions is missing, altered, or cannot be read."""
