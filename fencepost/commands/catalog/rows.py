"""`fencepost catalog get`, `put`, `delete`, `drop`: rows. One command makes one commit."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from fencepost.commands.catalog.conditions import parse_condition
from fencepost.commands.catalog.files import FORMATS, Rows, plain_rows, read_rows, render, write_out
from fencepost.commands.catalog.group import (
    AT,
    AUTHOR,
    BRANCH,
    MESSAGE,
    TABLE,
    committed,
    reading,
    subcommand,
    writing,
)
from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.operating import Result
from fencepost.impl.publish import Catalog, Dangling, Draft, Snapshot, Transaction
from fencepost.impl.publish.keys import check_name


@subcommand(
    "get",
    "Read a table.",
    TABLE,
    BRANCH,
    AT,
    click.option(
        "--format", "shape", type=click.Choice(FORMATS), help="[default: table, or by --out's ending]"
    ),
    click.option("--out", metavar="FILE", help="Write this file, whole or not at all."),
)
def get(url: str, table: str, branch: str, at: int | None, shape: str | None, out: str | None) -> Result:
    """Print TABLE, in order of its key, or write it to a file."""
    if out is not None:
        folder = Path(out).absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK) or Path(out).is_dir():
            raise BadRequest(f"cannot write {out}: name a file in an existing folder that you may write to")
    ending = (out or "").rpartition(".")[2]
    chosen = shape or (ending if ending in FORMATS else "table")
    if chosen == "parquet" and out is None:
        raise BadRequest("Parquet is for programs, not for the terminal; give --out FILE")
    with reading(url, branch) as catalog:
        snapshot = catalog.snapshot(at)
        rows = snapshot.rows(table)
        schema = snapshot.schema(table)
    if out is not None or click.get_current_context().params["json_file"] != "-":
        write_out(render(schema.columns, rows, chosen), out)
    found = {
        "branch": branch,
        "manifest": snapshot.id,
        "table": table,
        "key": schema.key,
        "columns": dict(schema.columns),
        "edges": dict(schema.edges),
        "rows": plain_rows(rows),
    }
    return Result(found, f"{len(rows)} rows" if out else "")


@dataclass(frozen=True)
class Puts:
    """The rows that `put` writes, by table, and the shape of new tables."""

    rows: Mapping[str, Rows]
    mode: str
    keys: Mapping[str, str]
    """Key columns by table; the entry of the empty name applies to all other tables."""
    edges: Mapping[str, Mapping[str, tuple[str, str]]] = field(default_factory=dict)
    """Table to column to (table, key)."""
    add_columns: bool = False

    def change(self, transaction: Transaction) -> None:
        """Put everything in one transaction."""
        existing = transaction.snapshot.tables
        for table, rows in self.rows.items():
            make = self._extend if table in existing else self._create
            columns = make(transaction, table, rows)
            getattr(transaction, self.mode)(table, rows.as_columns(columns))
        self._check_targets(transaction.snapshot)

    def _extend(self, transaction: Transaction, table: str, rows: Rows) -> dict[str, str]:
        schema = transaction.snapshot.schema(table)
        columns = dict(schema.columns)
        key = self.keys.get(table) or (self.keys.get("") if len(self.rows) == 1 else None)
        if key and key != schema.key:
            raise BadRequest(f"table {table} has the key {schema.key}, not {key}; leave out --key")
        _check_keys(rows, schema.key, table)
        for name in rows.columns if self.add_columns else ():
            if name not in columns:
                columns[name] = rows.kinds[name]
                transaction.add_column(table, name, rows.kinds[name])
        for column, (target, _) in self.edges.get(table, {}).items():
            if (column, target) not in schema.edges:
                transaction.add_edge(table, column, target)
        return columns

    def _create(self, transaction: Transaction, table: str, rows: Rows) -> dict[str, str]:
        key = self._new_key(table)
        if not key:
            raise BadRequest(f"table {table} is new: name the column of its key, as in --key {table}=id")
        _check_keys(rows, key, table)
        columns = {name: rows.kinds[name] for name in rows.columns}
        if columns[key] not in ("int64", "string"):
            if rows.rows:
                raise BadRequest(f"{rows.path}: key {key} is {columns[key]}; a key is int64 or string")
            columns[key] = "string"
        edges = {column: target for column, (target, _) in self.edges.get(table, {}).items()}
        for column, target in edges.items():
            # An edge has the type of the key it points at, even when no row shows it yet.
            columns[column] = self._key_kind(transaction.snapshot, target) or columns.get(column, "string")
        transaction.create_table(table, columns, key=key, edges=edges)
        return columns

    def _new_key(self, table: str) -> str:
        return self.keys.get(table) or self.keys.get("", "")

    def _key_kind(self, snapshot: Snapshot, target: str) -> str | None:
        if target in snapshot.tables:
            schema = snapshot.schema(target)
            return dict(schema.columns)[schema.key]
        rows = self.rows.get(target)
        return rows.kinds.get(self._new_key(target)) if rows else None

    def _check_targets(self, snapshot: Snapshot) -> None:
        for table, edges in self.edges.items():
            for column, (target, key) in edges.items():
                if target not in snapshot.tables and target not in self.rows:
                    continue
                known = target in snapshot.tables
                actual = snapshot.schema(target).key if known else self._new_key(target)
                if key != actual:
                    raise BadRequest(
                        f"edge {table}.{column}: the key of table {target} is {actual}, not {key}"
                    )

    def explain(self, error: Dangling) -> str:
        """The error, with the row of the file that caused it."""
        rows = self.rows.get(error.table)
        if rows is None:
            return str(error)
        pairs = zip(rows.rows, rows.places, strict=True)
        places = [place for row, place in pairs if str(row.get(error.column)) == str(error.value)]
        return f"{places[0]}: {error}" if places else str(error)


def _check_keys(rows: Rows, key: str, table: str) -> None:
    if key not in rows.columns:
        raise BadRequest(f"{rows.path} has no column {key!r}, which is the key of table {table}")
    for row, place in zip(rows.rows, rows.places, strict=True):
        if row.get(key) is None:
            raise BadRequest(f"{place}: the key {key} is empty")


@subcommand(
    "put",
    "Write files into tables, all of them in one commit.",
    click.argument("files", metavar="TABLE=FILE...", nargs=-1),
    BRANCH,
    click.option(
        "--mode", type=click.Choice(["append", "upsert", "overwrite"]), default="append", show_default=True
    ),
    click.option("--key", "keys", metavar="[TABLE=]COLUMN", multiple=True, help="Key column of new tables."),
    click.option(
        "--edge",
        "edges",
        metavar="[TABLE.]COLUMN=TABLE.KEY",
        multiple=True,
        help="The column holds keys of it.",
    ),
    click.option("--add-columns", is_flag=True, help="Add the columns that a file has and its table lacks."),
    AUTHOR,
    MESSAGE,
)
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
) -> Result:
    """Write the rows of FILE (.csv, .jsonl, .parquet) into TABLE, for every pair given, in one commit.

    A missing table is created: name its --key. append refuses existing keys, upsert replaces their rows,
    overwrite replaces all rows.
    """
    rows = _read(files)
    puts = Puts(rows, mode, _keys(keys, rows), _edges(edges, rows), add_columns)
    counts = {table: len(found.rows) for table, found in rows.items()}
    with writing(url, author, branch, tables=list(rows)) as catalog:
        ahead = Draft()
        for table in rows:
            getattr(ahead, mode)(table, [])
        catalog.read_ahead(ahead)
        try:
            result = catalog.write(puts.change, message=message)
        except Dangling as error:
            raise BadRequest(puts.explain(error)) from error
    written = ", ".join(f"{table} {count}" for table, count in counts.items())
    return committed(
        result,
        url,
        branch,
        lambda id_: f"published as manifest {id_}: {mode} {written}",
        mode=mode,
        rows=counts,
    )


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
                f"--edge {option}: name the table that is put and has the column, as in knows.a=person.id"
            )
        if column not in rows[owners[0]].columns:
            raise BadRequest(f"--edge {option}: {rows[owners[0]].path} has no column {column!r}")
        edges.setdefault(owners[0], {})[column] = (points_at, key)
    return edges


@subcommand(
    "delete",
    "Remove rows by their keys, or by what they hold.",
    TABLE,
    click.argument("keys", metavar="[KEY...]", nargs=-1),
    BRANCH,
    click.option(
        "--where",
        "conditions",
        metavar="CONDITION",
        multiple=True,
        help="Remove the rows that fit all conditions: born<1900, name=Ada, name!= (has a value).",
    ),
    click.option("--cascade", is_flag=True, help="Remove the rows whose edges point at removed rows, too."),
    AUTHOR,
    MESSAGE,
)
def delete(
    url: str,
    table: str,
    keys: tuple[str, ...],
    branch: str,
    conditions: tuple[str, ...],
    cascade: bool,
    author: str | None,
    message: str,
) -> Result:
    """Remove the rows of TABLE with these keys, or those that fit --where. A row that an edge points at is
    refused, and named, unless --cascade removes the rows with such edges.
    """
    if bool(keys) == bool(conditions):
        raise BadRequest(
            f"name the keys to remove: fencepost catalog delete {url} {table} 17 18; or --where CONDITION"
        )
    removed: dict[str, list[Any]] = {}

    def change(txn: Transaction) -> None:
        schema = txn.snapshot.schema(table)
        if conditions:
            fits = [parse_condition(text, schema) for text in conditions]
            found = txn.delete_where(table, lambda row: all(fit(row) for fit in fits), cascade=cascade)
        else:
            wanted = _typed(txn.snapshot, table, keys)
            missing = [str(key) for key in wanted if txn.snapshot.get(table, key) is None]
            if missing:
                raise BadRequest(f"table {table} has no row {', '.join(missing)}; nothing was removed")
            found = txn.delete_where(table, lambda row: row[schema.key] in wanted, cascade=cascade)
        if not found:
            raise BadRequest(f"no row of table {table} fits {' and '.join(conditions)}; nothing was removed")
        removed.clear()
        removed.update(found)

    with writing(url, author, branch, tables=[table]) as catalog:
        _read_ahead(catalog, table, cascade=cascade)
        result = catalog.write(change, message=message)
    count = len(removed[table])
    others = ", ".join(f"{len(gone)} of {name}" for name, gone in removed.items() if name != table)
    text = f"removed {count}" + (f", and {others}" if others else "")
    return committed(
        result,
        url,
        branch,
        lambda id_: f"published as manifest {id_}: {text}",
        removed=count,
        removed_by_table={name: len(gone) for name, gone in removed.items()},
    )


def _read_ahead(catalog: Catalog, table: str, *, cascade: bool) -> None:
    """Read at once what removing rows of `table` needs; with `cascade`, of all tables that it reaches."""
    tables = catalog.snapshot().manifest.tables
    ahead, reached = Draft(), [table]
    for target in reached:
        ahead.delete(target, [])
        if cascade:
            pointing = (name for name, entry in tables.items() if any(to == target for _, to in entry.edges))
            reached += [name for name in pointing if name not in reached]
    catalog.read_ahead(ahead)


def _typed(snapshot: Snapshot, table: str, keys: Sequence[str]) -> list[Any]:
    schema = snapshot.schema(table)
    if dict(schema.columns)[schema.key] == "string":
        return list(dict.fromkeys(keys))
    try:
        return list(dict.fromkeys(int(key) for key in keys))
    except ValueError:
        raise BadRequest(f"keys of table {table} are whole numbers; found {', '.join(keys)}") from None


@subcommand("drop", "Remove a table.", TABLE, BRANCH, AUTHOR, MESSAGE)
def drop(url: str, table: str, branch: str, author: str | None, message: str) -> Result:
    """Remove TABLE with all its rows. Earlier manifests still show it until cleanup."""
    with writing(url, author, branch, tables=[table]) as catalog:
        ahead = Draft()
        ahead.drop_table(table)
        catalog.read_ahead(ahead)
        result = catalog.write(lambda txn: txn.drop_table(table), message=message)
    return committed(
        result, url, branch, lambda id_: f"published as manifest {id_}: dropped {table}", table=table
    )
