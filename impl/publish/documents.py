"""The JSON documents of a catalog as values: manifests, table versions and publish plans.

A publish plan is the complete intent of one write, before any of it is visible: the pins it depends on
(expectations) and what becomes of each touched table (actions). It goes to JSON and back without loss.

`next_manifest(parent, plan, placed)` and `version_document(plan, action, number)` depend on nothing else:
the bytes do not show who executed a plan, or when. So a plan that recovery rolled forward and a plan that
its writer committed leave the same bytes.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from fencepost.impl.publish.errors import Damaged

FORMAT = 1
HELD_MAX = 16
"""Manifest ids that cleanup keeps for one plan: more than a writer reaches by retries, as a rule."""
JSON = "application/json"
T = TypeVar("T")


def encode(document: Mapping[str, Any]) -> bytes:
    """The only spelling of a document: sorted keys, no spaces, UTF-8, a newline at the end."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def decode(body: bytes, what: str) -> dict[str, Any]:
    """Read a document of this format; `what` names it in errors."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is not JSON ({error}); somebody altered it, restore it from a copy") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Damaged(f"{what} is not a document of format {FORMAT}; read it with the release that wrote it")
    return document


def _parse(body: bytes, what: str, make: Callable[[dict[str, Any]], T]) -> T:
    found = decode(body, what)
    try:
        return make(found)
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{what} lacks or misspells {error}; restore it from a copy") from None


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def digest(body: bytes) -> str:
    """SHA-256 in hexadecimal. A pin contains the digest of the document it points at."""
    return hashlib.sha256(body).hexdigest()


class Pin(NamedTuple):
    """One version of one lineage."""

    location: str
    version: int


class Placed(NamedTuple):
    """The number under which a plan's version document of a table was created, and its digest."""

    version: int
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A table in a manifest. It repeats key and edges so that integrity checks need no further read."""

    location: str
    version: int
    digest: str
    owner: str
    """The branch incarnation that may add to this lineage; other branches fork it."""
    key: str
    edges: tuple[tuple[str, str], ...]
    """(column, table that it points at), in order of the columns."""
    columns: str
    """A hash of the columns' names and types."""

    @property
    def pin(self) -> Pin:
        return Pin(self.location, self.version)

    def to_json(self) -> dict[str, Any]:
        return {**_fields(self), "edges": dict(self.edges)}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> "Entry":
        return Entry(**{**found, "edges": tuple(sorted(found["edges"].items()))})


class MergedBranch(NamedTuple):
    """The last merge of another branch: the number of its manifest, and of ours that merged it."""

    source: int
    at: int


class Recorded(NamedTuple):
    """A request of a client, in the plan and the manifest that carry it out, so that no other does."""

    id: str
    digest: str
    """Of the changes that it asks for."""


class Merges(NamedTuple):
    """The state that a plan merges: incarnation of a branch, number of its manifest, digest of its tables."""

    incarnation: str
    id: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit of a branch: everything a reader or a writer needs to know about the catalog."""

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
    """The id at which keys, edges or columns last changed. Unlike the hash it only rises."""
    tables: Mapping[str, Entry]
    swept_id: int = 0
    swept_horizon: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """The source of a new branch: branch, its incarnation (`of`), id, tables digest."""
    merged: Mapping[str, str] = field(default_factory=dict)
    """By incarnation of a merged branch, the digest of its tables when it was merged last."""
    merged_ids: Mapping[str, MergedBranch] = field(default_factory=dict)
    undoes: str = ""
    requests: tuple[Recorded, ...] = ()

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
                "parent": self.id - 1,
                "writer_epoch": self.epoch,
                **{name: getattr(self, name) for name in _OF_MANIFEST},
                "lineage": {name: getattr(self, name) for name in _OF_LINEAGE},
                **_shown(self.requests),
                "schema": {"hash": self.schema_hash, "since": self.schema_since},
                "tables": {name: entry.to_json() for name, entry in self.tables.items()},
                "swept": {"id": self.swept_id, "horizon": self.swept_horizon},
            }
        )

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> "Manifest":
        fields = {name: found[name] for name in _OF_MANIFEST}
        fields |= {name: found["lineage"][name] for name in _OF_LINEAGE}
        merged_ids = {name: MergedBranch(*pair) for name, pair in fields.pop("merged_ids").items()}
        return Manifest(
            **{**fields, "members": tuple(fields["members"])},
            merged_ids=merged_ids,
            epoch=found["writer_epoch"],
            schema_hash=found["schema"]["hash"],
            schema_since=found["schema"]["since"],
            tables={name: Entry.from_json(entry) for name, entry in found["tables"].items()},
            swept_id=found["swept"]["id"],
            swept_horizon=found["swept"]["horizon"],
            requests=_recorded(found),
        )


_OF_MANIFEST = ("branch", "id", "plan", "kind", "incarnation", "origin", "merged", "merged_ids")
_OF_LINEAGE = ("author", "time_ns", "message", "members", "undoes")


def _shown(requests: tuple[Recorded, ...]) -> dict[str, Any]:
    """Nothing where there are none, as in every commit that no server made."""
    return {"requests": requests} if requests else {}


def _recorded(found: Mapping[str, Any]) -> tuple[Recorded, ...]:
    return tuple(Recorded(*pair) for pair in found.get("requests", ()))


def read_manifest(body: bytes, what: str = "manifest") -> Manifest:
    return _parse(body, what, Manifest.from_json)


def tables_digest(tables: Mapping[str, Entry]) -> str:
    return digest(encode({name: entry.to_json() for name, entry in tables.items()}))[:32]


@dataclass(frozen=True, slots=True)
class Version:
    """The content of a table at one number of its lineage: the schema, and the runs that make up its rows.

    The order of the runs counts: `rows` adds rows and replaces earlier ones with the same keys; `keys`
    removes the rows of all earlier runs with these keys. Few keys are in the run, many in a fragment.
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

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> "Version":
        return Version(
            **{name: found[name] for name in ("table", "location", "plan", "epoch", "undoes", "key")},
            number=found["version"],
            base=Pin(*found["base"]) if found["base"] else None,
            edges=tuple(sorted(found["edges"].items())),
            columns=tuple((name, kind) for name, kind in found["columns"]),
            runs=tuple(found["runs"]),
        )


def read_version(body: bytes, what: str = "version") -> Version:
    return _parse(body, what, Version.from_json)


@dataclass(frozen=True, slots=True)
class Action:
    """The change of one table."""

    table: str
    verbs: tuple[str, ...]
    """append, upsert, overwrite, delete, alter, fork, register, tombstone, restore, rewrite, adopt."""
    base: Pin | None
    """The pin it depends on; None when the table does not exist yet."""
    entry: Entry | None
    """The table's next entry, without version and digest until the head is moved. None drops the table."""
    columns: tuple[tuple[str, str], ...] = ()
    runs: tuple[Mapping[str, Any], ...] = ()

    @property
    def moves_head(self) -> bool:
        return self.entry is not None and "adopt" not in self.verbs

    @property
    def contested(self) -> bool:
        """True if the head belongs to a lineage that other plans extend too."""
        return (
            self.moves_head
            and self.entry is not None
            and self.base is not None
            and self.entry.location == self.base.location
        )

    @property
    def first_number(self) -> int:
        return self.base.version + 1 if self.base else 1

    def pin_at(self, number: int) -> Pin:
        assert self.entry is not None
        return Pin(self.entry.location, number)

    def to_json(self) -> dict[str, Any]:
        return {**_fields(self), "entry": self.entry.to_json() if self.entry else None}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> "Action":
        return Action(
            table=found["table"],
            verbs=tuple(found["verbs"]),
            base=Pin(*found["base"]) if found["base"] else None,
            entry=Entry.from_json(found["entry"]) if found["entry"] else None,
            columns=tuple((name, kind) for name, kind in found["columns"]),
            runs=tuple(found["runs"]),
        )


@dataclass(frozen=True, slots=True)
class PublishPlan:
    id: str
    branch: str
    kind: str
    """init, publish, undo, claim, sweep, branch, merge, delete-branch."""
    author: str
    time_ns: int
    epoch: int
    base: int
    """The id of the manifest it was built on; 0 for none."""
    incarnation: str = ""
    message: str = ""
    members: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    """In order of the tables' names."""
    reads: Mapping[str, Pin] = field(default_factory=dict)
    """Tables that were only read, at the pin they were read."""
    schema_since: int | None = None
    tables_digest: str = ""
    """If set, the parent's tables must be exactly these (fast-forward)."""
    hold: tuple[str, int] | None = None
    """A manifest of a branch that cleanup must retain while this plan's sidecar exists."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    merges: Merges | None = None
    undoes: str = ""
    horizon: str = ""
    requests: tuple[Recorded, ...] = ()

    @property
    def moving(self) -> tuple[Action, ...]:
        return tuple(action for action in self.actions if action.moves_head)

    @property
    def recoverable(self) -> bool:
        """True if the plan writes objects before its manifest, so that it needs a sidecar."""
        return (bool(self.moving) or self.hold is not None) and not self.undoes

    @property
    def contested(self) -> bool:
        """True if the plan extends a lineage that other plans extend too. Once recovery has retired it, it is
        refused on every later manifest: a pin has moved, an epoch was claimed, or a rival has its place."""
        return any(action.contested for action in self.actions)

    @property
    def held_ids(self) -> range:
        """The manifests that cleanup keeps while the plan has its sidecar: the first after its base."""
        return range(self.base + 1, self.base + 1 + HELD_MAX)

    def to_bytes(self) -> bytes:
        actions = [action.to_json() for action in self.actions]
        fields = {name: value for name, value in _fields(self).items() if name != "requests"}
        return encode({"format": FORMAT, **fields, **_shown(self.requests), "actions": actions})

    @staticmethod
    def from_bytes(body: bytes, what: str = "plan") -> "PublishPlan":
        return _parse(body, what, PublishPlan.from_json)

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> "PublishPlan":
        return PublishPlan(
            **{
                **{name: value for name, value in found.items() if name != "format"},
                "members": tuple(found["members"]),
                "actions": tuple(Action.from_json(action) for action in found["actions"]),
                "reads": {table: Pin(*pin) for table, pin in found["reads"].items()},
                "hold": tuple(found["hold"]) if found["hold"] else None,
                "merges": Merges(*found["merges"]) if found["merges"] else None,
                "requests": _recorded(found),
            }
        )


# The objects that a plan makes. Pure: see the top of this module.


def version_document(plan: PublishPlan, action: Action, number: int) -> bytes:
    """The bytes of the version that `action` creates at `number`."""
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
            "base": action.base,
            "verbs": action.verbs,
            "key": action.entry.key,
            "edges": dict(action.entry.edges),
            "columns": action.columns,
            "runs": action.runs,
        }
    )


def next_manifest(parent: Manifest | None, plan: PublishPlan, placed: Mapping[str, Placed]) -> Manifest:
    """The manifest that `plan` makes of `parent`."""
    number = parent.id + 1 if parent else 1
    begins = plan.kind in ("init", "branch")
    tables = dict(parent.tables) if parent and not begins and plan.kind != "delete-branch" else {}
    for action in plan.actions:
        if action.entry is None:
            tables.pop(action.table, None)
        elif action.table in placed:
            tables[action.table] = dataclasses.replace(action.entry, **placed[action.table]._asdict())
        else:
            tables[action.table] = action.entry  # adopted: merge and branch move no head
    schemas = {name: [entry.key, dict(entry.edges), entry.columns] for name, entry in tables.items()}
    schema_hash = digest(encode(schemas))[:32]
    swept = (parent.swept_id, parent.swept_horizon) if parent else (0, "")
    if plan.kind == "sweep":
        swept = (number, plan.horizon)
    merged = dict(parent.merged) if parent and not begins else {}
    merged_ids = dict(parent.merged_ids) if parent and not begins else {}
    if plan.merges is not None:
        merged[plan.merges.incarnation] = plan.merges.digest
        merged_ids[plan.merges.incarnation] = MergedBranch(plan.merges.id, number)
    return Manifest(
        branch=plan.branch,
        id=number,
        plan=plan.id,
        kind=plan.kind,
        epoch=(parent.epoch if parent else 0) + (begins or plan.kind in ("claim", "delete-branch")),
        incarnation=f"{plan.branch}@{number}" if begins or parent is None else parent.incarnation,
        author=plan.author,
        time_ns=plan.time_ns,
        message=plan.message,
        members=plan.members,
        undoes=plan.undoes,
        requests=plan.requests,
        schema_hash=schema_hash,
        schema_since=parent.schema_since if parent and parent.schema_hash == schema_hash else number,
        tables=tables,
        swept_id=swept[0],
        swept_horizon=swept[1],
        origin=plan.origin if begins else parent.origin if parent else {},
        merged=merged,
        merged_ids=merged_ids,
    )
