"""An inventory report that says what a scenario wants it to say. Files and formats are left out: they decide
nothing but whether a report is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.impl.ingest import Report
from fencepost.impl.ingest.inventory_files import Disk


@dataclass(frozen=True)
class Said(Report):
    """A report by its rows."""

    said: tuple[str, ...] = ()

    def stood(self, prefix: str = "") -> Iterator[str]:
        return (key.removeprefix(prefix) for key in self.said if key.startswith(prefix))


def inventory(said: Sequence[str], began_ns: int) -> Report:
    """A report of a scan that began then."""
    return Said("the report", "bucket", began_ns, "CSV", (), (), Disk(Path()), "", tuple(said))
