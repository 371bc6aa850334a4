"""What a process remembers of tables, so that a write reads only what is new to it.

Why anything may be remembered, and for how long. What a table holds is a function of its version's runs, in
their order, and of its columns. A run names its fragment by path and by digest; a path belongs to one plan,
is created once and never again, also not after cleanup; keys that stand in the run are part of its name. So
equal runs are equal rows: for ever, in every lineage, on every branch, whoever wrote them. Nothing here can
become wrong, and nothing has to be forgotten but for room.

A version that is new to us mostly begins with the runs of one that we know: `beginning` finds the longest
such, and only the runs behind it are read. That is asked of the runs themselves, never of numbers or of who
wrote in between: an overwrite, a compaction or an undo that others published, or another branch's way from
the same base, simply does not begin with what we know.

What that asks of whoever writes versions: a column that is dropped takes its values along, because the rows
are written anew (`Sheet.alter`). So rows that are known without a column have nothing in it. A version that
has not all the columns of the known one, or one of another type, is read whole.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.impl.publish import keys
from holdfast.impl.publish.documents import Pin, Version
from holdfast.impl.publish.schema import Row, Schema

LINEAGES_MAX = 1024
"""Lineages kept in memory: our own limit. Those that were not used for longest go first."""
VERSIONS_MAX = 2
"""Versions kept of each: the newest serves writers, another one readers who are somewhere else."""


@dataclass(frozen=True, slots=True)
class Contents:
    """One table at one version."""

    schema: Schema
    runs: tuple[Mapping[str, Any], ...]
    rows: Mapping[Any, Row]
    """By key."""


class Kept:
    """See the top of this module. For several threads: the branches of a catalog share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held over a few lines that send no request
        self._lineages: OrderedDict[str, OrderedDict[int, Contents]] = OrderedDict()
        """By location and number, what was used last at the end."""
        self._locations: dict[str, dict[str, None]] = {}
        """By table, the locations of its lineages that are kept."""

    def keep(self, pin: Pin, contents: Contents) -> None:
        """Remember what a version holds. A busy table pushes out its own old versions, no other's."""
        with self._lock:
            versions = self._lineages.setdefault(pin.location, OrderedDict())
            self._locations.setdefault(keys.table_of_lineage(pin.location), {})[pin.location] = None
            versions[pin.version] = contents
            self._used(pin)
            if len(versions) > VERSIONS_MAX:
                # Not the newest, whoever looks at old ones: the next write begins with it.
                del versions[next(number for number in versions if number != max(versions))]
            if len(self._lineages) > LINEAGES_MAX:
                self._forget(self._lineages.popitem(last=False)[0])

    def find(self, pin: Pin) -> Contents | None:
        with self._lock:
            versions = self._lineages.get(pin.location)
            contents = versions.get(pin.version) if versions else None
            if contents is not None:
                self._used(pin)
            return contents

    def beginning(self, document: Version) -> Contents | None:
        """Of what we know, the most that `document` begins with."""
        with self._lock:
            known = [
                contents
                for location in self._locations.get(document.table, ())
                for contents in self._lineages[location].values()
                if _begins(document, contents)
            ]
        return max(known, key=lambda contents: len(contents.runs), default=None)

    def _used(self, pin: Pin) -> None:
        self._lineages.move_to_end(pin.location)
        self._lineages[pin.location].move_to_end(pin.version)

    def _forget(self, location: str) -> None:
        table = keys.table_of_lineage(location)
        del self._locations[table][location]
        if not self._locations[table]:
            del self._locations[table]


def _begins(document: Version, contents: Contents) -> bool:
    """Whether the rows of `contents` are those of the first runs of `document`."""
    return (
        document.key == contents.schema.key
        and document.runs[: len(contents.runs)] == contents.runs
        and set(contents.schema.columns) <= set(document.columns)
    )
