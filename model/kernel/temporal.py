"""Properties about whole runs: `eventually` and `always_recoverable`.

They need the explored space as a graph rather than as a set. Until they are decided here, their
verdict is `undecided`, with the reason; it is never `holds` by default.
"""

from holdfast.model.kernel.declare import Property
from holdfast.model.kernel.explore import Search
from holdfast.model.kernel.result import PropertyResult


def decide(search: Search, wanted: Property) -> PropertyResult:
    """The verdict on one temporal property over a finished exploration."""
    reason = (
        "properties about whole runs are not checked yet"
        if search.complete
        else f"stopped by {search.stopped_by}"
    )
    return PropertyResult(wanted.name, wanted.kind, "undecided", None, wanted.doc, reason)
