"""What writers do to a small graph, as data: asked of the library here, done to plain rows there."""

from collections.abc import Mapping
from typing import Any

from fencepost.impl.publish.catalog import Transaction

Row = dict[str, Any]
Tables = Mapping[str, Mapping[int, Row]]
"""Rows by key, by table."""
Verb = tuple[str, str, tuple[Any, ...]]
"""The verb, the table, and its rows or keys."""
Change = tuple[Verb, ...]

PERSON = {"id": "int64", "name": "string"}
KNOWS = {"id": "int64", "a": "int64", "b": "int64"}
ENDS = {"a": "person", "b": "person"}


def person(id_: int) -> Row:
    return {"id": id_, "name": f"p{id_}"}


def knows(id_: int, a: int, b: int) -> Row:
    return {"id": id_, "a": a, "b": b}


def ask(transaction: Transaction, change: Change) -> None:
    """Say it in the library's verbs."""
    for verb, table, items in change:
        getattr(transaction, verb)(table, items)


def done(tables: Tables, change: Change) -> Tables:
    """What the tables hold after it, by a second opinion that knows nothing of the library."""
    after = {table: dict(rows) for table, rows in tables.items()}
    for verb, table, items in change:
        if verb == "delete":
            for key in items:
                after[table].pop(key, None)
        else:
            after[table].update({row["id"]: row for row in items})
    return after
