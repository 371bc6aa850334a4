"""Referential integrity: no visible edge points at a missing row.

Adding rows with edges looks at the tables they point at; removing rows looks at every table that points
here. Both are decisions on what was read, so the plan pins what was read, and the commit looks again.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.impl.publish.errors import Dangling
from fencepost.impl.publish.safeguards import Safeguards
from fencepost.impl.publish.schema import Row


def check_outbound(
    table: str,
    edges: Iterable[tuple[str, str]],
    rows: Iterable[Row],
    targets: Mapping[str, Mapping[Any, Row]],
) -> None:
    """Every edge of `rows` finds its row. `targets`: the rows by table."""
    edges = tuple(edges)
    for row in rows:
        for column, target in edges:
            value = row[column]
            if value is not None and value not in targets[target]:
                raise Dangling(
                    f"table {table}, column {column}: {target} has no row {value!r}; "
                    "add that row in the same transaction or before it",
                    table=table,
                    column=column,
                    value=value,
                )


def check_inbound(
    safeguards: Safeguards,
    table: str,
    removed: Iterable[Any],
    sources: Iterable[tuple[str, str, Iterable[Row]]],
) -> None:
    """No edge points at a removed row. `sources`: (table, column, its rows), for every edge to `table`."""
    pointed_at = {
        row[column]: f"{source}.{column}"
        for source, column, rows in sources
        for row in rows
        if row[column] is not None
    }
    found = safeguards.inbound_check_on_removal(list(removed), pointed_at)
    if found is not None:
        raise Dangling(
            f"row {found!r} of table {table} cannot go: {pointed_at[found]} points at it; "
            "remove or change those rows in the same transaction"
        )
