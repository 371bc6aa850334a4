"""The rows of tables at a version: runs read in order and folded by key, through a cache.

Why caching is sound without invalidation. The rows of a version are a function of its runs, in their order,
and of its columns. A run names its fragment by path and digest; a path belongs to one plan and is created
once and never again, also not after cleanup; keys without a fragment are a part of the run. So equal runs
are equal rows: for ever, in every lineage, on every branch, from every writer. Entries are dropped for room
only.

A new version mostly begins with the runs of a cached one: `Cache.beginning` finds the longest such beginning,
and only the runs after it are read. The last runs of the cached version may be missing in the new one, when a
writer merged them into its own (see `tables`) or another branch diverged. So the cache records what these
last runs changed and can take them off again. It compares the runs themselves, never numbers or writers: an
overwrite or a compaction simply does not begin with a cached version.

This requires of writers that dropping a column drops its values, which is why a drop rewrites the rows
(`WorkingTable.alter`). So rows cached without a column have nothing in it. A version that lacks a column of
the cached one, or has it with another type, is read whole.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.context import Context
from fencepost.impl.publish import keys
from fencepost.impl.publish.documents import Entry, Pin, Version, digest, read_version
from fencepost.impl.publish.errors import Damaged, StaleView
from fencepost.impl.publish.schema import Row, Schema, decode_rows
from fencepost.impl.store.requests import Get, Outcome

LINEAGES_MAX = 1024
"""Lineages in memory: our own limit. The least recently used are dropped first."""
VERSIONS_MAX = 2
"""Cached versions per lineage: the newest for writers, another one for readers of an older snapshot."""
ROWS_MAX = 2**15
BYTES_MAX = 4 * 2**20
"""Bounds, in rows and in bytes of fragments, of the last runs whose changes are recorded one by one. The rows
themselves are cached anyway; this is what they replaced."""

Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """The changes of one run."""

    before: Mapping[Any, Row | None]
    """The rows before it, by the keys that it touches; None where there was none."""
    bytes: int
    """Of its fragment."""


@dataclass(frozen=True, slots=True)
class Contents:
    """One table at one version."""

    schema: Schema
    runs: tuple[Run, ...]
    rows: Mapping[Any, Row]
    """By key."""
    tail: tuple[Layer, ...] = ()
    """The changes of the last runs, as many as are recorded one by one."""

    def cut(self, length: int) -> "Contents":
        """The table after its first `length` runs. The changes of all later runs must be recorded."""
        if length == len(self.runs):
            return self
        left = len(self.tail) - (len(self.runs) - length)
        rows = dict(self.rows)
        for layer in reversed(self.tail[left:]):
            for key, before in layer.before.items():
                if before is None:
                    rows.pop(key, None)
                else:
                    rows[key] = self.schema.shape(before)  # a column may have been added since
        return Contents(self.schema, self.runs[:length], rows, self.tail[:left])

    def shared_runs(self, document: Version) -> int:
        """Return how many of the first runs of `document` give rows that these contents lead to."""
        certain = len(self.runs) - len(self.tail)
        if (
            document.key != self.schema.key
            or document.runs[:certain] != self.runs[:certain]
            or not set(self.schema.columns) <= set(document.columns)
        ):
            return 0
        pairs = zip(document.runs[certain:], self.runs[certain:], strict=False)  # one may be longer
        return certain + sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def last_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """As many of the last layers as fit the bounds."""
    rows = size = 0
    for at in range(len(layers) - 1, -1, -1):
        rows, size = rows + len(layers[at].before), size + layers[at].bytes
        if rows > ROWS_MAX or size > BYTES_MAX:
            return tuple(layers[at + 1 :])
    return tuple(layers)


class Cache:
    """See the top of this module. Thread-safe: the branches of a catalog share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held over a few lines that send no request
        self._lineages: OrderedDict[str, OrderedDict[int, Contents]] = OrderedDict()
        """By location and number, the least recently used first."""
        self._locations: dict[str, dict[str, None]] = {}
        """By table, the locations of its cached lineages."""

    def put(self, pin: Pin, contents: Contents) -> None:
        """Cache a version that was read or written. A busy table evicts its own versions, no other's."""
        with self._lock:
            versions = self._lineages.setdefault(pin.location, OrderedDict())
            self._locations.setdefault(keys.table_of_lineage(pin.location), {})[pin.location] = None
            versions[pin.version] = contents
            self._used(pin)
            if len(versions) > VERSIONS_MAX:
                # Never the newest, even while old ones are read: the next write begins with it.
                del versions[next(number for number in versions if number != max(versions))]
            if len(self._lineages) > LINEAGES_MAX:
                self._forget(self._lineages.popitem(last=False)[0])

    def find(self, pin: Pin) -> Contents | None:
        with self._lock:
            contents = self._lineages.get(pin.location, OrderedDict()).get(pin.version)
            if contents is not None:
                self._used(pin)
            return contents

    def beginning(self, document: Version) -> Contents | None:
        """The longest beginning of `document` that can be derived from a cached version."""
        with self._lock:
            cached = [
                contents
                for location in self._locations.get(document.table, ())
                for contents in self._lineages[location].values()
            ]
        best = max(cached, key=lambda contents: contents.shared_runs(document), default=None)
        length = best.shared_runs(document) if best else 0
        return best.cut(length) if best and length else None

    def _used(self, pin: Pin) -> None:
        self._lineages.move_to_end(pin.location)
        self._lineages[pin.location].move_to_end(pin.version)

    def _forget(self, location: str) -> None:
        table = keys.table_of_lineage(location)
        del self._locations[table][location]
        if not self._locations[table]:
            del self._locations[table]


class TableReader:
    """Reads table versions through a cache, in two parallel steps whatever their number."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.cache = Cache()
        self.ahead: dict[str, bytes] = {}
        """Objects by key that were read before it was certain that they are needed."""

    def contents(self, entries: Mapping[str, Entry]) -> dict[str, Contents]:
        """The contents of these tables, by table."""
        cached = {table: self.cache.find(entry.pin) for table, entry in entries.items()}
        found = {table: contents for table, contents in cached.items() if contents is not None}
        missing = {table: entry for table, entry in entries.items() if table not in found}
        documents = self.documents(missing)
        known = {table: self.cache.beginning(document) for table, document in documents.items()}
        new = {}
        for table, document in documents.items():
            begun = known[table]
            new[table] = document.runs[len(begun.runs) if begun else 0 :]
        bodies = self._bodies([run["path"] for runs in new.values() for run in runs if "path" in run])
        for table, document in documents.items():
            found[table] = _fold(document, known[table], new[table], bodies)
            self.cache.put(missing[table].pin, found[table])
        return found

    def documents(self, entries: Mapping[str, Entry]) -> dict[str, Version]:
        """The version documents that entries pin, each checked against its pin."""
        paths = {table: keys.version(entry.pin) for table, entry in entries.items()}
        bodies = self._bodies(list(paths.values()))
        for table, entry in entries.items():
            if digest(bodies[paths[table]]) != entry.digest:
                raise Damaged(f"{paths[table]} is not what the manifest pins; restore it from a copy")
        return {table: read_version(bodies[path], path) for table, path in paths.items()}

    def _bodies(self, paths: Sequence[str]) -> dict[str, bytes]:
        found = {path: self.ahead.pop(path) for path in paths if path in self.ahead}
        missing = [path for path in paths if path not in found]
        replies = self.context.read_all([Get(path) for path in missing])
        for path, reply in zip(missing, replies, strict=True):
            if reply.outcome is Outcome.MISSING:
                raise StaleView(f"{path} is missing: the snapshot was cleaned up, open a newer one")
            found[path] = reply.body
        return found


def _fold(
    document: Version, known: Contents | None, new: Sequence[Run], bodies: Mapping[str, bytes]
) -> Contents:
    schema = Schema(document.columns, document.key, document.edges)
    rows = _copy_of_rows(schema, known) if known else {}
    layers = list(known.tail) if known else []
    for run in new:
        body = bodies[run["path"]] if "path" in run else b""
        layers.append(Layer(_apply_run(schema, rows, run, body), len(body)))
    return Contents(schema, document.runs, rows, last_layers(layers))


def _copy_of_rows(schema: Schema, known: Contents) -> dict[Any, Row]:
    """A copy, because cached contents never change; the copies share the rows."""
    if schema.columns == known.schema.columns:
        return dict(known.rows)
    return {key: schema.shape(row) for key, row in known.rows.items()}


def check_fragment(run: Run, body: bytes) -> None:
    """Raise `Damaged` unless these are the bytes that the run names."""
    if digest(body)[:32] != run["digest"]:
        raise Damaged(f"{run['path']} is not what was published; restore it from a copy")


def _apply_run(schema: Schema, rows: dict[Any, Row], run: Run, body: bytes) -> dict[Any, Row | None]:
    """Change `rows` as the run does; returns the rows before."""
    found: list[dict[str, Any]] = []
    if "path" in run:
        check_fragment(run, body)
        found = decode_rows(body, run["path"])
    before: dict[Any, Row | None] = {}
    if run["holds"] == "keys":
        for key in run.get("keys") or [row[schema.key] for row in found]:
            before.setdefault(key, rows.pop(key, None))
    else:
        for row in found:
            before.setdefault(row[schema.key], rows.get(row[schema.key]))
            rows[row[schema.key]] = schema.shape(row)
    return before
