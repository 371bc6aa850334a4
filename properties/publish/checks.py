"""The properties of publish, each written once: functions of a catalog's objects and the outcomes observed.

Audits and the Hypothesis machine call them with the contents of a bucket. They leave to the product's own
`verify` what it can check. The model's invariants have the same names
(tests/properties/publish/test_checks.py).

    state = CatalogState(store.contents())
    for name, check in CHECKS.items(): assert not list(check(state, outcomes)), name

The clients write a small graph: tables `person` and `knows`, whose edges point at persons.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import STANDARD, Catalog, Mode, Safeguards, Transaction, verify
from fencepost.impl.publish.documents import Manifest
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore

PERSON = {"id": "int64", "name": "string"}
KNOWS = {"id": "int64", "a": "int64", "b": "int64"}
ENDS = {"a": "person", "b": "person"}
FOUNDER = "founder"
"""The author of the commits before the clients."""
AT_REST_NS = 100 * 3600 * 10**9
"""So much later every sidecar is old, whatever the clock of its owner shows."""
LAST = 99
"""The key of the rows that are written last of all."""

Row = Mapping[str, Any]
Tables = Mapping[str, Mapping[int, Row]]
"""Rows by key, by table."""
Verb = tuple[str, str, tuple[Any, ...]]
"""The verb, the table, and its rows or keys."""
Change = tuple[Verb, ...]
"""The verbs of one plan."""


def person(id_: int) -> Row:
    return {"id": id_, "name": f"p{id_}"}


def knows(id_: int, a: int, b: int) -> Row:
    return {"id": id_, "a": a, "b": b}


def add_to_draft(transaction: Transaction, change: Change) -> None:
    for verb, table, items in change:
        if verb == "count":
            rows = {row["id"]: row for row in transaction.read(table)}
            transaction.upsert(table, [_counted(rows[key]) for key in items])
        else:
            getattr(transaction, verb)(table, items)


def _counted(row: Row) -> Row:
    """The verb `count` reads a row, and writes it with a longer name."""
    return {**row, "name": f"{row['name']}+"}


def apply(tables: Tables, change: Change) -> Tables:
    """The tables after the change, computed without the library."""
    after = {table: dict(rows) for table, rows in tables.items()}
    for verb, table, items in change:
        if verb == "delete":
            for key in items:
                after[table].pop(key, None)
        elif verb == "count":
            after[table].update({key: _counted(after[table][key]) for key in items})
        else:
            after[table].update({row["id"]: row for row in items})
    return after


@dataclass(frozen=True)
class Answer:
    """The outcome that a client learned of its plan: acked, refused (a clean error) or unknown."""

    message: str
    outcome: str
    plan: str = ""


@dataclass(frozen=True)
class Outcomes:
    """The observations of clients and recovery in a run."""

    changes: Mapping[str, Change]
    """The changes that clients published, by message."""
    answers: Collection[Answer] = ()
    undone: Collection[str] = ()
    """Plans that recovery promised never to make visible."""
    fenced_commits: Collection[str] = ()
    """Manifests that a process created although it was fenced."""


@dataclass(frozen=True)
class Chapter:
    """One retained manifest and the rows it shows."""

    manifest: Manifest
    tables: Tables


@dataclass
class CatalogState:
    """The content of a catalog, and the reason why no writer can go on, if any. Computed on first use."""

    contents: Mapping[str, bytes]
    safeguards: Safeguards = STANDARD
    now_ns: int = AT_REST_NS
    known: Mapping[int, Chapter] = field(default_factory=dict)
    """Chapters that were read before, by manifest id; also those that a cleanup deleted since."""

    def _store(self) -> MemoryStore:
        store = MemoryStore(env=SeededEnvironment(2, self.now_ns))
        for key, body in self.contents.items():
            store.put(key, body, when=ABSENT)
        return store

    @cached_property
    def _read(self) -> tuple[tuple[Chapter, ...], tuple[str, ...]]:
        reader = Catalog.open(self._store(), mode=Mode.READ)
        # A head ahead of its manifest is no fault by itself: `no_wedge` judges it.
        faults = [fault for fault in verify(reader).faults if "is ahead of" not in fault]
        chapters = dict(self.known)
        for manifest in sorted(reader.log(), key=lambda manifest: manifest.id):
            if manifest.id in chapters and chapters[manifest.id].manifest == manifest:
                continue
            try:
                rows = reader.snapshot(manifest.id).load()
            except Exception as error:  # noqa: BLE001 - whatever keeps a reader out is what the check looks for
                faults.append(f"manifest {manifest.id} cannot be read: {error}")
                continue
            tables = {table: {row["id"]: row for row in found} for table, found in rows.items()}
            chapters[manifest.id] = Chapter(manifest, tables)
        return tuple(chapters[id_] for id_ in sorted(chapters)), tuple(faults)

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        """Rising by id."""
        return self._read[0]

    @property
    def faults(self) -> tuple[str, ...]:
        """In the chain, the versions and fragments, and the edges, as `verify` reports them."""
        return self._read[1]

    @cached_property
    def wedged(self) -> str:
        """Return the reason why no writer can go on without a claim; empty if one can.

        Joins without claiming, and writes to every table.
        """
        try:
            with Catalog.open(
                self._store(), author="last", mode=Mode.JOIN, safeguards=self.safeguards
            ) as catalog:
                catalog.write(_write_last)  # retries when a leftover plan is in its way
                return "" if catalog.snapshot().get("person", LAST) else "what was written last is not there"
        except Exception as error:  # noqa: BLE001 - whatever keeps every writer out is what the check looks for
            return f"{type(error).__name__}: {error}"

    def published(self, message: str) -> list[Manifest]:
        shown = (chapter.manifest for chapter in self.chapters)
        return [manifest for manifest in shown if message in messages(manifest)]


def messages(manifest: Manifest) -> tuple[str, ...]:
    """Of the drafts that were published by it, in their order."""
    return (manifest.members or (manifest.message,)) if manifest.kind == "publish" else ()


def _write_last(transaction: Transaction) -> None:
    transaction.upsert("person", [person(LAST)])
    transaction.upsert("knows", [knows(LAST, LAST, LAST)])


Check = Callable[[CatalogState, Outcomes], Iterator[str]]


def no_lost_write(state: CatalogState, outcomes: Outcomes) -> Iterator[str]:
    oldest = state.chapters[0].manifest.id if state.chapters else 0
    for answer in outcomes.answers:
        if answer.outcome != "acked":
            continue
        if oldest == 1 and not state.published(answer.message):
            yield f"{answer.message!r} was acknowledged, and no manifest holds plan {answer.plan}"
        elif oldest > 1 and not _is_shown(state, outcomes.changes[answer.message]):
            yield f"{answer.message!r} was acknowledged, and after the cleanup it is not there"


def _is_shown(state: CatalogState, change: Change) -> bool:
    """Return True if the newest tables hold the written rows. Needs runs that write each row once."""
    newest = state.chapters[-1].tables
    return all(
        row["id"] in newest[table]
        for verb, table, rows in change
        if verb not in ("delete", "count")
        for row in rows
    )


def no_phantom(state: CatalogState, outcomes: Outcomes) -> Iterator[str]:
    for message in outcomes.changes:
        times = len(state.published(message))
        if times > 1:
            yield f"{message!r} was published {times} times"
    for answer in outcomes.answers:
        shown = state.published(answer.message)
        if answer.outcome == "refused" and shown:
            yield f"{answer.message!r} ended in a clean error, and manifest {shown[0].id} shows it"
    for chapter in state.chapters:
        manifest = chapter.manifest
        unknown = [message for message in messages(manifest) if message not in outcomes.changes]
        if unknown and manifest.author != FOUNDER:
            yield f"manifest {manifest.id} shows {unknown[0]!r}, which nobody published"


def atomic_visibility(state: CatalogState, outcomes: Outcomes) -> Iterator[str]:
    for before, after in itertools.pairwise(state.chapters):
        manifest = after.manifest
        if manifest.author == FOUNDER:
            continue
        changes = [outcomes.changes.get(message, ()) for message in messages(manifest)]
        change = tuple(itertools.chain.from_iterable(changes))
        if after.tables != apply(before.tables, change):
            yield (
                f"manifest {manifest.id} ({manifest.kind} {manifest.message!r}) is not the one before it and "
                "one whole plan"
            )


def live_writer(_: CatalogState, outcomes: Outcomes) -> Iterator[str]:
    for answer in outcomes.answers:
        if answer.outcome == "acked" and answer.plan in outcomes.undone:
            yield f"recovery undid {answer.message!r} as a dead writer's, and it was acknowledged"


def fenced(_: CatalogState, outcomes: Outcomes) -> Iterator[str]:
    yield from outcomes.fenced_commits


def referential_integrity(state: CatalogState, _: Outcomes) -> Iterator[str]:
    yield from (fault for fault in state.faults if "points at" in fault)


def cleanup_safe(state: CatalogState, _: Outcomes) -> Iterator[str]:
    yield from (fault for fault in state.faults if "points at" not in fault)


def no_wedge(state: CatalogState, _: Outcomes) -> Iterator[str]:
    if state.wedged:
        yield f"at the end nobody can write without claiming: {state.wedged}"


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        no_lost_write,
        no_phantom,
        referential_integrity,
        atomic_visibility,
        live_writer,
        cleanup_safe,
        no_wedge,
        fenced,
    )
}
"""By the name of the model's invariant."""
