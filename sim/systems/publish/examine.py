"""What a catalog holds at the end of a run, read from a copy of its objects, and what becomes of it then.

Contents are equal far more often than runs are, so what was found out about them is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.impl.publish import Catalog, Mode, Safeguards, Transaction, verify
from fencepost.impl.publish.documents import Manifest
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.systems.harness import copy_of, once
from fencepost.sim.systems.publish.changes import Tables, knows, person
from fencepost.sim.world.run import START_NS

LATER_NS = 100 * 3600 * 10**9
"""When everything has come to rest: every sidecar is old, whatever the clock of its owner said."""
LAST = 99
"""The keys of the rows that are written last of all."""


@dataclass(frozen=True)
class Chapter:
    """One retained manifest and the rows it shows."""

    manifest: Manifest
    tables: Tables


@dataclass(frozen=True)
class Examined:
    """What was found."""

    chapters: tuple[Chapter, ...]
    """Rising by id."""
    faults: tuple[str, ...]
    """Of the chain, the versions and fragments, the edges."""
    wedged: str
    """Why nobody can write any more without claiming; empty when somebody can."""


@once
def examine(contents: Mapping[str, bytes], safeguards: Safeguards) -> Examined:
    store = copy_of(contents, START_NS + LATER_NS)
    reader = Catalog.open(store, mode=Mode.READ)
    manifests = sorted(reader.log(), key=lambda manifest: manifest.id)
    faults = [fault for fault in verify(reader).faults if "is ahead of" not in fault]
    chapters = []
    for manifest in manifests:
        try:
            rows = reader.snapshot(manifest.id).load()
        except Exception as error:  # noqa: BLE001 - whatever keeps a reader out is what was looked for
            faults.append(f"manifest {manifest.id} cannot be read: {error}")
            continue
        chapters.append(
            Chapter(manifest, {table: {row["id"]: row for row in found} for table, found in rows.items()})
        )
    return Examined(tuple(chapters), tuple(faults), _wedged(store, safeguards))


def _wedged(store: MemoryStore, safeguards: Safeguards) -> str:
    """Join, without claiming, and write to every table: whatever was left behind must not be in the way."""
    try:
        with Catalog.open(store, author="last", mode=Mode.JOIN, safeguards=safeguards) as catalog:
            catalog.write(_last)  # begins again when a plan that was left behind is in its way
            return "" if catalog.snapshot().get("person", LAST) else "what was written last is not there"
    except Exception as error:  # noqa: BLE001 - whatever keeps everybody out is what was looked for
        return f"{type(error).__name__}: {error}"


def _last(transaction: Transaction) -> None:
    transaction.upsert("person", [person(LAST)])
    transaction.upsert("knows", [knows(LAST, LAST, LAST)])
