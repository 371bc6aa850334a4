"""Constraints of tables: at most so many rows with the same values, and edges that cascade.

    txn.limit("person", ["email"])                 unique: at most one row with the same e-mail
    txn.limit("knows", ["src"], at_most=3)         cardinality: at most three edges from the same person
    txn.cascade("knows", "src")                    deleting a person deletes the edges from it

A row with an empty value in one of the columns is not counted. NaN equals NaN here, and 0.0 equals -0.0, as
in a GROUP BY of SQL. Without `cascade`, an edge restricts: removing
the row that it points at is refused. Overwriting a table never cascades.

The constraints are the rows of the table `_constraints`: versioned, forked and merged like other rows.

**Why two writers cannot break a constraint together.** A constraint concerns the rows of one table. A plan
that changes that table moves its head, and commits only on a manifest that has the pin it was made on. Of two
writers of a table, the one that loses the conditional create is stale, and begins again on the rows of the
other. A plan that declares a constraint has read all rows of its table, and moves the head of that table as
well, so a writer that did not know the constraint is stale too. A cascade reads the tables that point at the
removed rows, and the plan pins what it read.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fencepost.impl.publish.cache import Contents
from fencepost.impl.publish.errors import Invalid
from fencepost.impl.publish.schema import Row, Schema

TABLE = "_constraints"
_NAN = float("nan")
"""In place of every NaN: a NaN equals itself only as the same object."""
SCHEMA = Schema(
    (("name", "string"), ("table", "string"), ("columns", "string"), ("at_most", "int64")), "name"
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """At most so many rows of a table with the same values in the columns; or an edge that cascades."""

    table: str
    columns: tuple[str, ...]
    at_most: int | None
    """None for a cascade."""

    @property
    def name(self) -> str:
        return f"{self.table}({','.join(self.columns)}) {'cascades' if self.at_most is None else 'at most'}"

    @property
    def cascades(self) -> bool:
        return self.at_most is None

    def is_of(self, table: str, column: str) -> bool:
        return (self.table, self.columns) == (table, (column,))

    @property
    def row(self) -> Row:
        return {
            "name": self.name,
            "table": self.table,
            "columns": ",".join(self.columns),
            "at_most": self.at_most,
        }

    @staticmethod
    def of(row: Row) -> "Constraint":
        """Read a row of the table; `Invalid` if it is no constraint."""
        columns = tuple((row["columns"] or "").split(","))
        found = Constraint(row["table"] or "", columns, row["at_most"])
        if found.row != row or (found.at_most is not None and found.at_most < 1):
            raise Invalid(f"table {TABLE}: {row!r} is no constraint; declare it with limit or cascade")
        if len(set(columns)) < len(columns) or (found.cascades and len(columns) > 1):
            raise Invalid(f"constraint {found.name}: it names a column twice, or one edge too many")
        return found

    def check_schema(self, schema: Schema | None) -> None:
        """Raise `Invalid` if a table of this schema cannot have the constraint."""
        columns = () if schema is None else [name for name, _ in schema.columns]
        missing = [column for column in self.columns if column not in columns]
        if missing:
            what = "table" if schema is None else f"column {missing[0]!r}"
            raise Invalid(
                f"constraint {self.name}: {self.table} has no such {what} (any more); "
                "remove the constraint in the same transaction, or keep what it needs"
            )
        if self.cascades and schema is not None and self.columns[0] not in dict(schema.edges):
            raise Invalid(
                f"constraint {self.name}: the column is no edge; remove the constraint in the same "
                "transaction, or declare the edge first"
            )

    def broken_by(self, rows: Iterable[Row], added: Iterable[Row] | None = None) -> tuple[object, ...] | None:
        """Return values that too many of `rows` have, or None; only values of the rows `added`, if given."""
        if self.at_most is None:
            return None
        wanted = None if added is None else {self._values(row) for row in added}
        counts = Counter(
            values
            for row in rows
            if None not in (values := self._values(row)) and (wanted is None or values in wanted)
        )
        return next((values for values, count in counts.items() if count > self.at_most), None)

    def _values(self, row: Row) -> tuple[object, ...]:
        return tuple(_NAN if _is_nan(row[column]) else row[column] for column in self.columns)

    def broken_text(self, values: Sequence[object]) -> str:
        which = ", ".join(f"{name} {value!r}" for name, value in zip(self.columns, values, strict=True))
        rows = "row" if self.at_most == 1 else "rows"
        return f"table {self.table}: more than {self.at_most} {rows} with {which}"


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def declared(rows: Iterable[Row]) -> list[Constraint]:
    """Read the rows of the table, in order of their names."""
    return sorted((Constraint.of(row) for row in rows), key=lambda found: found.name)


def constraint_faults(tables: Mapping[str, Contents]) -> Iterator[str]:
    """Constraints that the tables of one manifest break."""
    if TABLE not in tables:
        return
    try:
        for found in declared(tables[TABLE].rows.values()):
            contents = tables.get(found.table)
            found.check_schema(contents.schema if contents else None)
            values = found.broken_by(contents.rows.values()) if contents else None
            if values is not None:
                yield found.broken_text(values)
    except Invalid as error:
        yield str(error)
