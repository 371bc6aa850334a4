"""What a table holds at a version: its runs read in order and folded into rows by key.

Only runs that are new to this process are read: `kept` says what is remembered, and why it may be.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.context import Context
from fencepost.impl.publish import keys
from fencepost.impl.publish.documents import Entry, Pin, Version, digest, read_version
from fencepost.impl.publish.errors import Damaged, StaleView
from fencepost.impl.publish.fragments import decode_rows
from fencepost.impl.publish.kept import Contents, Kept, Layer, last_layers
from fencepost.impl.publish.schema import Row, Schema
from fencepost.impl.store.requests import Get, Outcome


class Library:
    """Reads table versions, in two parallel steps however many there are, and keeps them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept = Kept()

    def keep(self, pin: Pin, contents: Contents) -> None:
        """Remember what a version holds, which was read or written."""
        self._kept.keep(pin, contents)

    def contents(self, entries: Mapping[str, Entry]) -> dict[str, Contents]:
        """What these tables hold, by table."""
        kept = {table: self._kept.find(entry.pin) for table, entry in entries.items()}
        found = {table: contents for table, contents in kept.items() if contents is not None}
        missing = {table: entry for table, entry in entries.items() if table not in found}
        documents = self.documents(missing)
        known = {table: self._kept.beginning(document) for table, document in documents.items()}
        bodies = self._bodies(
            [path for table, document in documents.items() for path in _unread(document, known[table])]
        )
        for table, document in documents.items():
            found[table] = _fold(document, known[table], bodies)
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
        replies = self._context.read_all([Get(path) for path in paths])
        gone = [path for path, reply in zip(paths, replies, strict=True) if reply.outcome is Outcome.MISSING]
        if gone:
            raise StaleView(f"{gone[0]} is not there: the snapshot was cleaned up, open a newer one")
        return {path: reply.body for path, reply in zip(paths, replies, strict=True)}


def _behind(document: Version, known: Contents | None) -> Sequence[Mapping[str, Any]]:
    """The runs that are new to us."""
    return document.runs[len(known.runs) :] if known else document.runs


def _unread(document: Version, known: Contents | None) -> list[str]:
    return [run["path"] for run in _behind(document, known) if "path" in run]


def _fold(document: Version, known: Contents | None, bodies: Mapping[str, bytes]) -> Contents:
    schema = Schema(document.columns, document.key, document.edges)
    rows = _known_rows(schema, known) if known else {}
    layers = list(known.tail) if known else []
    for run in _behind(document, known):
        body = bodies[run["path"]] if "path" in run else b""
        layers.append(Layer(_put_on(schema, rows, run, body), len(body)))
    return Contents(schema, document.runs, rows, last_layers(layers))


def _put_on(
    schema: Schema, rows: dict[Any, Row], run: Mapping[str, Any], body: bytes
) -> dict[Any, Row | None]:
    """Do to `rows` what the run says; what was there before."""
    found = _read_run(run, body) if "path" in run else []
    before: dict[Any, Row | None] = {}
    if run["holds"] == "keys":
        for key in run.get("keys") or [row[schema.key] for row in found]:
            before.setdefault(key, rows.pop(key, None))
    else:
        for row in found:
            before.setdefault(row[schema.key], rows.get(row[schema.key]))
            rows[row[schema.key]] = schema.shape(row)
    return before


def _known_rows(schema: Schema, known: Contents) -> dict[Any, Row]:
    """A copy of its own, so that what is remembered stays as it is; the rows themselves are shared."""
    if schema.columns == known.schema.columns:
        return dict(known.rows)
    return {key: schema.shape(row) for key, row in known.rows.items()}


def _read_run(run: Mapping[str, Any], body: bytes) -> list[dict[str, Any]]:
    if digest(body)[:32] != run["digest"]:
        raise Damaged(f"{run['path']} is not what was published; restore it from a copy")
    return decode_rows(body, run["path"])
