"""The effect of whole plans on tables in a few lines of plain Python: an independent oracle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Tables = dict[str, dict[Any, dict[str, Any]]]
EDGES = {"knows": {"a": "person", "b": "person"}}


class Refused(Exception):
    """The draft does not fit these tables."""


@dataclass(frozen=True)
class Step:
    """One verb."""

    verb: str
    table: str
    key: int
    a: int = 0
    b: int = 0

    def row(self) -> dict[str, Any]:
        if self.table == "knows":
            return {"id": self.key, "a": self.a or None, "b": self.b or None}
        return {"id": self.key, "name": f"{self.a}{self.b}"}

    def onto(self, draft: Any) -> None:
        match self.verb:
            case "append" | "upsert" | "overwrite":
                getattr(draft, self.verb)(self.table, [self.row()])
            case "delete":
                draft.delete(self.table, [self.key])


def after(tables: Mapping[str, Mapping[Any, Any]], steps: list[Step]) -> Tables:
    """The tables after all of `steps`, or `Refused`."""
    new: Tables = {name: dict(rows) for name, rows in tables.items()}
    for step in steps:
        rows = new[step.table]
        match step.verb:
            case "append":
                if step.key in rows:
                    raise Refused
                rows[step.key] = step.row()
            case "upsert":
                rows[step.key] = step.row()
            case "overwrite":
                new[step.table] = {step.key: step.row()}
            case "delete":
                rows.pop(step.key, None)
    if orphans(new):
        raise Refused
    return new


def orphans(tables: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> list[Any]:
    return [
        row
        for table, edges in EDGES.items()
        for row in tables[table].values()
        for column, target in edges.items()
        if row[column] is not None and row[column] not in tables[target]
    ]
