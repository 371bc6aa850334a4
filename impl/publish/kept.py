"""What a process remembers of tables, so that a write reads only what is new to it.

Why anything may be remembered, and for how long. What a table holds is a function of its version's runs, in
their order, and of its columns. A run names its fragment by path and by digest; a path belongs to one plan,
is created once and never again, also not after cleanup; keys that stand in the run are part of its name. So
equal runs are equal rows: for ever, in every lineage, on every branch, whoever wrote them. Nothing here can
become wrong, and nothing has to be forgotten but for room.

A version that is new to us mostly begins with the runs of one that we know: `beginning` finds the longest
such, and only the runs behind it are read. The last runs of the known one may be missing, when a writer took
them into its own (see `runs`) or another branch went another way; so it is remembered what these changed, and
they are taken off again. All that is asked of the runs themselves, never of numbers or of who wrote in
between: an overwrite or a compaction simply does not begin with what we know.

What that asks of whoever writes versions: a column that is dropped takes its values along, because the rows
are written anew (`Sheet.alter`). So rows that are known without a column have nothing in it. A version that
has not all the columns of the known one, or one of another type, is read whole.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.publish import keys
from fencepost.impl.publish.documents import Pin, Version
from fencepost.impl.publish.schema import Row, Schema

LINEAGES_MAX = 1024
"""Lineages kept in memory: our own limit. Those that were not used for longest go first."""
VERSIONS_MAX = 2
"""Versions kept of each: the newest serves writers, another one readers who are somewhere else."""
ROWS_MAX = 2**15
BYTES_MAX = 4 * 2**20
"""Of the last runs of a version so much is remembered one by one: rows, and bytes of their fragments. What
they hold is remembered as the table's rows anyway; this is what they replaced."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one run changed."""

    before: Mapping[Any, Row | None]
    """The rows that were there before it, by the keys that it touches; None where there was none."""
    bytes: int
    """Of its fragment."""


@dataclass(frozen=True, slots=True)
class Contents:
    """One table at one version."""

    schema: Schema
    runs: tuple[Mapping[str, Any], ...]
    rows: Mapping[Any, Row]
    """By key."""
    tail: tuple[Layer, ...] = ()
    """What the last runs changed, as many as are remembered one by one."""

    def cut(self, length: int) -> "Contents":
        """The table after its first `length` runs, when all behind them are remembered one by one."""
        if length == len(self.runs):
            return self
        left = len(self.tail) - (len(self.runs) - length)
        rows = dict(self.rows)
        for layer in reversed(self.tail[left:]):
            for key, was in layer.before.items():
                if was is None:
                    rows.pop(key, None)
                else:
                    rows[key] = self.schema.shape(was)  # a column may have come since
        return Contents(self.schema, self.runs[:length], rows, self.tail[:left])


def last_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """As many of the last as are remembered one by one."""
    rows = size = 0
    for at in range(len(layers) - 1, -1, -1):
        rows, size = rows + len(layers[at].before), size + layers[at].bytes
        if rows > ROWS_MAX or size > BYTES_MAX:
            return tuple(layers[at + 1 :])
    return tuple(layers)


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
            ]
        best = max(known, key=lambda contents: _shared(document, contents), default=None)
        length = _shared(document, best) if best else 0
        return best.cut(length) if best and length else None

    def _used(self, pin: Pin) -> None:
        self._lineages.move_to_end(pin.location)
        self._lineages[pin.location].move_to_end(pin.version)

    def _forget(self, location: str) -> None:
        table = keys.table_of_lineage(location)
        del self._locations[table][location]
        if not self._locations[table]:
            del self._locations[table]


def _shared(document: Version, contents: Contents) -> int:
    """How many of the first runs of `document` have given rows that we can tell from `contents`."""
    certain = len(contents.runs) - len(contents.tail)
    if (
        document.key != contents.schema.key
        or document.runs[:certain] != contents.runs[:certain]
        or not set(contents.schema.columns) <= set(document.columns)
    ):
        return 0
    pairs = zip(document.runs[certain:], contents.runs[certain:], strict=False)  # one may be longer
    return certain + sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
