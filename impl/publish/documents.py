"""The flat JSON documents, as values, and the two functions that make them.

`next_manifest(parent, plan, placed)` and `version_document(plan, action, number)` depend on nothing else:
who executes a plan, and when, does not show in the bytes. That is what makes a plan that was rolled forward
and one that was committed live the same.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.impl.publish.errors import Damaged

if TYPE_CHECKING:
    from fencepost.impl.publish.plan import Action, PublishPlan

FORMAT = 1


def encode(document: Mapping[str, Any]) -> bytes:
    """The one spelling of a document: sorted keys, no spaces, UTF-8, a newline at the end."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def decode(body: bytes, what: str) -> dict[str, Any]:
    """Read a document of ours."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise Damaged(f"{what} is not JSON ({error}); somebody altered it, restore it from a copy") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Damaged(f"{what} is not a document of format {FORMAT}; read it with the release that wrote it")
    return document


def digest(body: bytes) -> str:
    """SHA-256, in hexadecimal: what a pin remembers of the document it points at."""
    return hashlib.sha256(body).hexdigest()


class Pin(NamedTuple):
    """One version of one lineage."""

    location: str
    version: int


class Placed(NamedTuple):
    """Where a plan's version document of a table came to stand."""

    version: int
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What a manifest says of a table. Key and edges are here so that integrity needs no further read."""

    location: str
    version: int
    digest: str
    owner: str
    """The branch incarnation that may add to this lineage; others fork it."""
    key: str
    edges: tuple[tuple[str, str], ...]
    """(column, table that it points at), in order of the columns."""
    columns: str
    """A hash of the columns' names and types."""

    @property
    def pin(self) -> Pin:
        return Pin(self.location, self.version)

    def to_json(self) -> dict[str, Any]:
        return {
            "location": self.location,
            "version": self.version,
            "digest": self.digest,
            "owner": self.owner,
            "key": self.key,
            "edges": dict(self.edges),
            "columns": self.columns,
        }

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> "Entry":
        edges = tuple(sorted(found["edges"].items()))
        return Entry(**{**found, "edges": edges})


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit of a branch: everything a reader or a writer needs to know of the catalog."""

    branch: str
    id: int
    plan: str
    kind: str
    epoch: int
    incarnation: str
    author: str
    time_ns: int
    message: str
    members: tuple[str, ...]
    schema_hash: str
    schema_since: int
    """The id at which keys, edges or columns last changed: unlike the hash it never comes back."""
    tables: Mapping[str, Entry]
    swept_id: int = 0
    swept_horizon: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Where a branch came from: branch, id, tables digest."""
    merged: Mapping[str, str] = field(default_factory=dict)
    """Incarnation of a merged branch: the tables digest that the last merge left."""
    undoes: str = ""

    @property
    def deleted(self) -> bool:
        return self.kind == "delete-branch"

    def pin(self, table: str) -> Pin | None:
        entry = self.tables.get(table)
        return None if entry is None else entry.pin

    def body(self) -> bytes:
        return encode(
            {
                "format": FORMAT,
                "branch": self.branch,
                "id": self.id,
                "parent": self.id - 1,
                "plan": self.plan,
                "kind": self.kind,
                "writer_epoch": self.epoch,
                "incarnation": self.incarnation,
                "lineage": {
                    "author": self.author,
                    "time_ns": self.time_ns,
                    "message": self.message,
                    "members": list(self.members),
                    "undoes": self.undoes,
                },
                "schema": {"hash": self.schema_hash, "since": self.schema_since},
                "tables": {name: entry.to_json() for name, entry in self.tables.items()},
                "swept": {"id": self.swept_id, "horizon": self.swept_horizon},
                "origin": dict(self.origin),
                "merged": dict(self.merged),
            }
        )


def read_manifest(body: bytes, what: str = "manifest") -> Manifest:
    found = decode(body, what)
    try:
        lineage = found["lineage"]
        return Manifest(
            branch=found["branch"],
            id=found["id"],
            plan=found["plan"],
            kind=found["kind"],
            epoch=found["writer_epoch"],
            incarnation=found["incarnation"],
            author=lineage["author"],
            time_ns=lineage["time_ns"],
            message=lineage["message"],
            members=tuple(lineage["members"]),
            undoes=lineage["undoes"],
            schema_hash=found["schema"]["hash"],
            schema_since=found["schema"]["since"],
            tables={name: Entry.from_json(entry) for name, entry in found["tables"].items()},
            swept_id=found["swept"]["id"],
            swept_horizon=found["swept"]["horizon"],
            origin=found["origin"],
            merged=found["merged"],
        )
    except (KeyError, TypeError) as error:
        raise Damaged(f"{what} lacks or misspells {error}; restore it from a copy") from None


def tables_digest(tables: Mapping[str, Entry]) -> str:
    """One word for a whole set of tables."""
    return digest(encode({name: entry.to_json() for name, entry in tables.items()}))[:32]


def _schema_hash(tables: Mapping[str, Entry]) -> str:
    return digest(encode({name: [e.key, dict(e.edges), e.columns] for name, e in tables.items()}))[:32]


def next_manifest(parent: Manifest | None, plan: "PublishPlan", placed: Mapping[str, Placed]) -> Manifest:
    """The manifest that `plan` makes of `parent`. Pure: see the top of this module."""
    number = parent.id + 1 if parent else 1
    tables = dict(parent.tables) if parent else {}
    if plan.kind in ("branch", "delete-branch", "init"):
        tables = {}
    for action in plan.actions:
        entry = action.entry
        if entry is None:
            tables.pop(action.table, None)
        else:
            tables[action.table] = _placed(entry, placed.get(action.table))
    schema_hash = _schema_hash(tables)
    begins = plan.kind in ("init", "branch")
    return Manifest(
        branch=plan.branch,
        id=number,
        plan=plan.id,
        kind=plan.kind,
        epoch=(parent.epoch if parent else 0)
        + (1 if begins or plan.kind in ("claim", "delete-branch") else 0),
        incarnation=f"{plan.branch}@{number}" if begins or parent is None else parent.incarnation,
        author=plan.author,
        time_ns=plan.time_ns,
        message=plan.message,
        members=plan.members,
        undoes=plan.undoes,
        schema_hash=schema_hash,
        schema_since=parent.schema_since if parent and parent.schema_hash == schema_hash else number,
        tables=tables,
        swept_id=number if plan.kind == "sweep" else parent.swept_id if parent else 0,
        swept_horizon=plan.horizon if plan.kind == "sweep" else parent.swept_horizon if parent else "",
        origin=plan.origin if begins else parent.origin if parent else {},
        merged={
            **(parent.merged if parent and not begins else {}),
            **({plan.merges: tables_digest(tables)} if plan.merges else {}),
        },
    )


def _placed(entry: Entry, placed: Placed | None) -> Entry:
    if placed is None:
        return entry  # adopted as it stands: merge and branch move no head
    return Entry(
        entry.location, placed.version, placed.digest, entry.owner, entry.key, entry.edges, entry.columns
    )


@dataclass(frozen=True, slots=True)
class Version:
    """A table's content at one number of its lineage: schema, and the runs that make up its rows.

    Runs are in order: `rows` adds rows, replacing earlier ones with the same keys; `keys` removes the rows
    of all earlier runs with these keys. Few keys stand in the run itself, many in a fragment.
    """

    table: str
    location: str
    number: int
    plan: str
    epoch: int
    undoes: str
    base: Pin | None
    key: str
    edges: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    runs: tuple[Mapping[str, Any], ...]

    @property
    def fragments(self) -> list[str]:
        return [run["path"] for run in self.runs if "path" in run]


def version_document(plan: "PublishPlan", action: "Action", number: int) -> bytes:
    """The bytes of the version that `action` makes at `number`. Pure: see the top of this module."""
    assert action.entry is not None
    return encode(
        {
            "format": FORMAT,
            "table": action.table,
            "location": action.entry.location,
            "version": number,
            "plan": plan.id,
            "epoch": plan.epoch,
            "undoes": plan.undoes,
            "base": list(action.base) if action.base else None,
            "verbs": list(action.verbs),
            "key": action.entry.key,
            "edges": dict(action.entry.edges),
            "columns": [list(column) for column in action.columns],
            "runs": [dict(run) for run in action.runs],
        }
    )


def read_version(body: bytes, what: str = "version") -> Version:
    found = decode(body, what)
    try:
        base = found["base"]
        return Version(
            table=found["table"],
            location=found["location"],
            number=found["version"],
            plan=found["plan"],
            epoch=found["epoch"],
            undoes=found["undoes"],
            base=Pin(*base) if base else None,
            key=found["key"],
            edges=tuple(sorted(found["edges"].items())),
            columns=tuple((name, kind) for name, kind in found["columns"]),
            runs=tuple(found["runs"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{what} lacks or misspells {error}; restore it from a copy") from None
