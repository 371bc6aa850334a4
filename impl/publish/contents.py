"""What a table holds at a version: its runs read in order and folded into rows by key.

Versions and fragments never change, so whatever was read once stays true and is kept.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.impl.environment import Environment
from holdfast.impl.publish import keys
from holdfast.impl.publish.asking import read_all
from holdfast.impl.publish.documents import Entry, Pin, Version, digest, read_version
from holdfast.impl.publish.errors import Damaged, StaleView
from holdfast.impl.publish.fragments import decode_rows
from holdfast.impl.publish.schema import Row, Schema
from holdfast.impl.store.interface import Store
from holdfast.impl.store.requests import Get, Outcome

TABLES_MAX = 1024
"""Lineages kept in memory: our own limit."""
VERSIONS_MAX = 2
"""Versions kept of each: the newest serves writers, the one before readers who began earlier."""


@dataclass(frozen=True, slots=True)
class Contents:
    """One table at one version."""

    schema: Schema
    runs: tuple[Mapping[str, Any], ...]
    rows: Mapping[Any, Row]
    """By key."""


class Library:
    """Reads table versions, in two parallel steps however many there are, and keeps them."""

    def __init__(self, store: Store, env: Environment) -> None:
        self._store = store
        self._env = env
        self._kept: OrderedDict[str, dict[int, Contents]] = OrderedDict()

    def keep(self, pin: Pin, contents: Contents) -> None:
        """Remember what a version holds. A busy table pushes out its own old versions, no other's."""
        versions = self._kept.setdefault(pin.location, {})
        versions[pin.version] = contents
        if len(versions) > VERSIONS_MAX:
            del versions[min(versions)]
        self._kept.move_to_end(pin.location)
        if len(self._kept) > TABLES_MAX:
            self._kept.popitem(last=False)

    def _find(self, pin: Pin) -> Contents | None:
        return self._kept.get(pin.location, {}).get(pin.version)

    def contents(self, entries: Mapping[str, Entry]) -> dict[str, Contents]:
        """What these tables hold, by table."""
        kept = {table: self._find(entry.pin) for table, entry in entries.items()}
        found = {table: contents for table, contents in kept.items() if contents is not None}
        missing = {table: entry for table, entry in entries.items() if table not in found}
        documents = self.documents(missing)
        bodies = self._bodies([path for document in documents.values() for path in document.fragments])
        for table, document in documents.items():
            found[table] = _fold(document, bodies)
            self.keep(missing[table].pin, found[table])
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
        replies = read_all(self._store, self._env, [Get(path) for path in paths])
        gone = [path for path, reply in zip(paths, replies, strict=True) if reply.outcome is Outcome.MISSING]
        if gone:
            raise StaleView(f"{gone[0]} is not there: the snapshot was cleaned up, open a newer one")
        return {path: reply.body for path, reply in zip(paths, replies, strict=True)}


def _fold(document: Version, bodies: Mapping[str, bytes]) -> Contents:
    schema = Schema(document.columns, document.key, document.edges)
    rows: dict[Any, Row] = {}
    for run in document.runs:
        found = _read_run(run, bodies[run["path"]]) if "path" in run else []
        if run["holds"] == "keys":
            for key in run.get("keys") or [row[schema.key] for row in found]:
                rows.pop(key, None)
        else:
            for row in found:
                rows[row[schema.key]] = {name: row.get(name) for name, _ in schema.columns}
    return Contents(schema, document.runs, rows)


def _read_run(run: Mapping[str, Any], body: bytes) -> list[dict[str, Any]]:
    if digest(body)[:32] != run["digest"]:
        raise Damaged(f"{run['path']} is not what was published; restore it from a copy")
    return decode_rows(body, run["path"])
