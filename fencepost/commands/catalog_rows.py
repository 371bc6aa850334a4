"""`fencepost catalog put`, `delete`, `drop`: what changes rows. Whatever one command changes is one
commit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from fencepost.commands.catalog_files import Rows, read_rows
from fencepost.commands.catalog_open import ended, told, writing
from fencepost.commands.catalog_options import AUTHOR, BRANCH, JSON, MESSAGE, finish
from fencepost.commands.exit_codes import BadRequest
from fencepost.impl.publish import Catalog, Dangling, Snapshot, Transaction
from fencepost.impl.publish.keys import check_name


@dataclass(frozen=True)
class Puts:
    """What `put` was asked: rows by table, and how new tables look."""

    rows: Mapping[str, Rows]
    mode: str
    keys: Mapping[str, str]
    """By table; under the empty name for all others."""
    edges: Mapping[str, Mapping[str, tuple[str, str]]] = field(default_factory=dict)
    """Table to column to (table, key)."""
    add_columns: bool = False

    def change(self, transaction: Transaction) -> None:
        """Everything, in one transaction."""
        there = transaction.snapshot.tables
        for table, rows in self.rows.items():
            make = self._extend if table in there else self._create
            columns = make(transaction, table, rows)
            getattr(transaction, self.mode)(table, rows.as_columns(columns))
        self._check_targets(transaction.snapshot)

    def _extend(self, transaction: Transaction, table: str, rows: Rows) -> dict[str, str]:
        schema = transaction.snapshot.schema(table)
        columns = dict(schema.columns)
        key = self.keys.get(table) or (self.keys.get("") if len(self.rows) == 1 else None)
        if key and key != schema.key:
            raise BadRequest(f"table {table} has the key {schema.key}, not {key}; leave out --key")
        _need_key(rows, schema.key, table)
        for name in rows.columns if self.add_columns else ():
            if name not in columns:
                columns[name] = rows.kinds[name]
                transaction.add_column(table, name, rows.kinds[name])
        for column, (target, _) in self.edges.get(table, {}).items():
            if (column, target) not in schema.edges:
                transaction.add_edge(table, column, target)
        return columns

    def _create(self, transaction: Transaction, table: str, rows: Rows) -> dict[str, str]:
        key = self.keys.get(table) or self.keys.get("", "")
        if not key:
            raise BadRequest(f"table {table} is new: say which column is its key, as in --key {table}=id")
        _need_key(rows, key, table)
        columns = {name: rows.kinds[name] for name in rows.columns}
        if columns[key] not in ("int64", "string"):
            if rows.rows:
                raise BadRequest(f"{rows.path}: key {key} is {columns[key]}; a key is int64 or string")
            columns[key] = "string"
        edges = {column: target for column, (target, _) in self.edges.get(table, {}).items()}
        for column, target in edges.items():
            # An edge has the type of the key it points at, even when no row says so yet.
            columns[column] = self._key_kind(transaction.snapshot, target) or columns.get(column, "string")
        transaction.create_table(table, columns, key=key, edges=edges)
        return columns

    def _key_kind(self, snapshot: Snapshot, target: str) -> str | None:
        if target in snapshot.tables:
            schema = snapshot.schema(target)
            return dict(schema.columns)[schema.key]
        rows = self.rows.get(target)
        key = self.keys.get(target) or self.keys.get("", "")
        return rows.kinds.get(key) if rows else None

    def _check_targets(self, snapshot: Snapshot) -> None:
        for table, edges in self.edges.items():
            for column, (target, key) in edges.items():
                if target in snapshot.tables:
                    stands = snapshot.schema(target).key
                else:
                    stands = self.keys.get(target) or self.keys.get("", "")
                if key != stands and (target in snapshot.tables or target in self.rows):
                    raise BadRequest(
                        f"edge {table}.{column}: the key of table {target} is {stands}, not {key}"
                    )

    def explain(self, error: Dangling) -> str:
        """The refusal, with the row of the file that it is about."""
        rows = self.rows.get(error.table)
        if rows is None:
            return str(error)
        pairs = zip(rows.rows, rows.places, strict=True)
        places = [place for row, place in pairs if str(row.get(error.column)) == str(error.value)]
        return f"{places[0]}: {error}" if places else str(error)


def _need_key(rows: Rows, key: str, table: str) -> None:
    if key not in rows.columns:
        raise BadRequest(f"{rows.path} has no column {key!r}, which is the key of table {table}")
    for row, place in zip(rows.rows, rows.places, strict=True):
        if row.get(key) is None:
            raise BadRequest(f"{place}: the key {key} is empty")


@click.command("put", short_help="Write files into tables, all of them in one commit.")
@click.argument("url")
@click.argument("files", metavar="TABLE=FILE...", nargs=-1)
@BRANCH
@click.option(
    "--mode", type=click.Choice(["append", "upsert", "overwrite"]), default="append", show_default=True
)
@click.option("--key", "keys", metavar="[TABLE=]COLUMN", multiple=True, help="Key column of new tables.")
@click.option(
    "--edge", "edges", metavar="[TABLE.]COLUMN=TABLE.KEY", multiple=True, help="The column holds keys of it."
)
@click.option("--add-columns", is_flag=True, help="Add the columns that a file has and its table lacks.")
@AUTHOR
@MESSAGE
@JSON
@told
def put(
    url: str,
    files: tuple[str, ...],
    branch: str,
    mode: str,
    keys: tuple[str, ...],
    edges: tuple[str, ...],
    add_columns: bool,
    author: str | None,
    message: str,
    json_file: str | None,
) -> int:
    """Write the rows of FILE (.csv, .jsonl, .parquet) into TABLE, for every pair given, in one commit.

    A table that is not there is made: name its --key. append refuses keys that are there, upsert replaces
    their rows, overwrite replaces all rows.
    """
    rows = _read(files)
    puts = Puts(rows, mode, _keys(keys, rows), _edges(edges, rows), add_columns)
    counts = {table: len(found.rows) for table, found in rows.items()}
    with writing(url, author, branch) as catalog:
        try:
            code, found = _write(catalog, puts.change, url, message)
        except Dangling as error:
            raise BadRequest(puts.explain(error)) from error
    told_rows = ", ".join(f"{table} {count}" for table, count in counts.items())
    text = f"published as manifest {found['manifest']}: {mode} {told_rows}" if found["published"] else ""
    return finish(
        {"url": url, "branch": branch, **found, "mode": mode, "rows": counts}, text, json_file, code
    )


def _write(
    catalog: Catalog, change: Callable[[Transaction], Any], url: str, message: str
) -> tuple[int, dict[str, Any]]:
    return ended(catalog.write(change, message=message), url, catalog.branch)


def _read(files: Sequence[str]) -> dict[str, Rows]:
    if not files:
        raise BadRequest("name what to write, as in: fencepost catalog put URL person=people.csv --key id")
    named: dict[str, str] = {}
    for pair in files:
        table, equals, path = pair.partition("=")
        if not equals or not path:
            raise BadRequest(f"{pair!r} must read TABLE=FILE, as in person=people.csv")
        if table in named:
            raise BadRequest(f"table {table} is given twice; put its rows in one file")
        named[check_name(table, "table")] = path
    rows = {table: read_rows(path) for table, path in named.items()}
    for found in rows.values():
        for column in found.columns:
            check_name(column, f"{found.path}: column")
    return rows


def _keys(options: Sequence[str], rows: Mapping[str, Rows]) -> dict[str, str]:
    keys: dict[str, str] = {}
    for option in options:
        table, _, column = option.rpartition("=")
        if (table and table not in rows) or table in keys or not column:
            raise BadRequest(
                f"--key {option}: write TABLE=COLUMN, once for a table that is put, or COLUMN alone"
            )
        keys[table] = column
    return keys


def _edges(options: Sequence[str], rows: Mapping[str, Rows]) -> dict[str, dict[str, tuple[str, str]]]:
    edges: dict[str, dict[str, tuple[str, str]]] = {}
    for option in options:
        source, equals, target = option.partition("=")
        table, _, column = source.rpartition(".")
        points_at, dot, key = target.rpartition(".")
        if not (equals and column and dot and points_at and key):
            raise BadRequest(f"--edge {option} must read [TABLE.]COLUMN=TABLE.KEY, as in knows.a=person.id")
        owners = [table] if table else [name for name, found in rows.items() if column in found.columns]
        if len(owners) != 1 or owners[0] not in rows:
            raise BadRequest(
                f"--edge {option}: name the table that is put and holds the column, as in knows.a=person.id"
            )
        if column not in rows[owners[0]].columns:
            raise BadRequest(f"--edge {option}: {rows[owners[0]].path} has no column {column!r}")
        edges.setdefault(owners[0], {})[column] = (points_at, key)
    return edges


@click.command("delete", short_help="Remove rows by their keys.")
@click.argument("url")
@click.argument("table")
@click.argument("keys", metavar="KEY...", nargs=-1)
@BRANCH
@AUTHOR
@MESSAGE
@JSON
@told
def delete(
    url: str,
    table: str,
    keys: tuple[str, ...],
    branch: str,
    author: str | None,
    message: str,
    json_file: str | None,
) -> int:
    """Remove the rows of TABLE with these keys. Rows that others point at stay, and are named."""
    if not keys:
        raise BadRequest(f"name the keys to remove, as in: fencepost catalog delete {url} {table} 17 18")
    with writing(url, author, branch) as catalog:
        snapshot = catalog.snapshot()
        wanted = _typed(snapshot, table, keys)
        missing = [str(key) for key in wanted if snapshot.get(table, key) is None]
        if missing:
            raise BadRequest(f"table {table} has no row {', '.join(missing)}; nothing was removed")
        code, found = _write(catalog, lambda txn: txn.delete(table, wanted), url, message)
    text = f"published as manifest {found['manifest']}: removed {len(wanted)}" if found["published"] else ""
    return finish({"url": url, "branch": branch, **found, "removed": len(wanted)}, text, json_file, code)


def _typed(snapshot: Snapshot, table: str, keys: Sequence[str]) -> list[Any]:
    schema = snapshot.schema(table)
    if dict(schema.columns)[schema.key] == "string":
        return list(dict.fromkeys(keys))
    try:
        return list(dict.fromkeys(int(key) for key in keys))
    except ValueError:
        raise BadRequest(f"keys of table {table} are whole numbers; found {', '.join(keys)}") from None


@click.command("drop", short_help="Remove a table.")
@click.argument("url")
@click.argument("table")
@BRANCH
@AUTHOR
@MESSAGE
@JSON
@told
def drop(url: str, table: str, branch: str, author: str | None, message: str, json_file: str | None) -> int:
    """Remove TABLE with all its rows. Earlier manifests still show it until cleanup."""
    with writing(url, author, branch) as catalog:
        code, found = _write(catalog, lambda txn: txn.drop_table(table), url, message)
    text = f"published as manifest {found['manifest']}: dropped {table}" if found["published"] else ""
    return finish({"url": url, "branch": branch, **found, "table": table}, text, json_file, code)


COMMANDS = (put, delete, drop)
