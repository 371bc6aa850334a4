"""A table while a transaction works on it: what the snapshot pins, and what has changed since.

Changes lie over the pinned rows as a layer of their own, so that a draft can be tried on a copy and thrown
away for little, however large the table is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.publish.documents import Entry
from fencepost.impl.publish.errors import Absent, Invalid
from fencepost.impl.publish.kept import Contents
from fencepost.impl.publish.schema import Row, Schema


@dataclass
class Sheet:
    """See the top of this module. `schema` is None while the table is not there."""

    table: str
    entry: Entry | None
    base: Contents | None
    schema: Schema | None
    fresh: bool = False
    """All rows are in `layer`: created, overwritten or rewritten; nothing of the pinned runs remains."""
    layer: dict[Any, Row | None] = field(default_factory=dict)
    """Key to row, or to None where the row went."""
    verbs: tuple[str, ...] = ()

    @staticmethod
    def of(table: str, entry: Entry | None, contents: Contents | None) -> "Sheet":
        return Sheet(table, entry, contents, contents.schema if contents else None)

    def copy(self) -> "Sheet":
        return replace(self, layer=dict(self.layer))

    def there(self) -> Schema:
        if self.schema is None:
            raise Absent(f"there is no table {self.table!r}; create it first")
        return self.schema

    def get(self, key: Any) -> Row | None:
        if key in self.layer:
            return self.layer[key]
        return None if self.fresh or self.base is None else self.base.rows.get(key)

    def rows(self) -> Iterator[Row]:
        if not self.fresh and self.base is not None:
            yield from (row for key, row in self.base.rows.items() if key not in self.layer)
        yield from (row for row in self.layer.values() if row is not None)

    def keyed(self) -> dict[Any, Row]:
        self.there()
        # Copied and then changed: a commit costs this for every row of the table, so it had better be quick.
        keyed = dict(self.base.rows) if self.base is not None and not self.fresh else {}
        for key, row in self.layer.items():
            if row is None:
                keyed.pop(key, None)
            else:
                keyed[key] = row
        return keyed

    # The verbs.

    def create(self, schema: Schema) -> None:
        if self.schema is not None:
            raise Invalid(f"there is a table {self.table!r} already; drop it first or choose another name")
        self.schema, self.fresh, self.layer = schema, True, {}
        self._did("register")

    def add(self, rows: tuple[Row, ...], verb: str) -> list[Row]:
        schema = self.there()
        added = [schema.check_row(self.table, row) for row in rows]
        if verb == "append":
            seen: set[Any] = set()
            for row in added:
                key = row[schema.key]
                if key in seen or self.get(key) is not None:
                    raise Invalid(f"table {self.table} has a row {key!r} already; upsert replaces rows")
                seen.add(key)
        if added:
            self.layer.update((row[schema.key], row) for row in added)
            self._did(verb)
        return added

    def overwrite(self, rows: tuple[Row, ...]) -> tuple[list[Row], list[Any]]:
        before = self.keyed()
        self.fresh, self.layer = True, {}
        self._did("overwrite")
        added = self.add(rows, "append") if rows else []
        return added, [key for key in before if key not in self.layer]

    def delete(self, keys: tuple[Any, ...]) -> list[Any]:
        self.there()
        gone = [key for key in dict.fromkeys(keys) if self.get(key) is not None]
        for key in gone:
            if self.fresh:
                del self.layer[key]
            else:
                self.layer[key] = None
        if gone:
            self._did("delete")
        return gone

    def drop(self) -> list[Any]:
        gone = list(self.keyed())
        self.schema, self.fresh, self.layer = None, True, {}
        self._did("tombstone")
        return gone

    def alter(self, schema: Schema, *, rewrite: bool = False) -> None:
        """Another schema over the same rows. Dropping a column rewrites, or its values would come back."""
        if rewrite:
            self.rewrite()
        names = [name for name, _ in schema.columns]
        self.schema = schema
        if self.base is not None and not self.fresh:
            added = [name for name in names if all(name != old for old, _ in self.base.schema.columns)]
            if added:
                rows = {key: {**row, **dict.fromkeys(added)} for key, row in self.base.rows.items()}
                self.base = replace(self.base, rows=rows)
        self.layer = {
            key: None if row is None else {name: row.get(name) for name in names}
            for key, row in self.layer.items()
        }
        self._did("alter")

    def rewrite(self) -> None:
        rows = self.keyed()
        self.fresh, self.layer = True, dict(rows)
        self._did("rewrite")

    def _did(self, verb: str) -> None:
        if verb not in self.verbs:
            self.verbs = (*self.verbs, verb)
