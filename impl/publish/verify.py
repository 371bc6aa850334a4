"""Verification: reads everything a branch retains and reports each fault.

The structural checks are pure functions of what was read (`chain_faults`, `edge_faults`, `is_unexplained`);
audits of the protocol call the same functions.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fencepost.impl.publish import keys
from fencepost.impl.publish.cache import Contents, TableReader
from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.constraints import constraint_faults
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest, Version
from fencepost.impl.publish.errors import PublishError
from fencepost.impl.store.requests import List


@dataclass(frozen=True, slots=True)
class Verified:
    """The counts of what was read, and every fault as a sentence."""

    manifests: int
    tables: int
    faults: tuple[str, ...]


def verify(catalog: Catalog) -> Verified:
    """Check the chain, and each version, fragment, edge and constraint of the retained manifests."""
    manifests = sorted(catalog.log(), key=lambda manifest: manifest.id)
    # Read after the log: a cleanup in between explains what it deleted, and nothing else.
    boundary = catalog.context.chain.boundary.read()
    manifests = [manifest for manifest in manifests if manifest.id > boundary]
    faults = [*chain_faults(manifests, boundary)]
    # A cache of its own: a fragment in the handle's cache may be damaged in the store all the same.
    reader = TableReader(catalog.context)
    for manifest in manifests:
        faults += _table_faults(catalog.context, manifest, reader)
    faults += _head_faults(catalog.context, catalog.refresh())
    return Verified(len(manifests), sum(len(m.tables) for m in manifests), tuple(dict.fromkeys(faults)))


def chain_faults(manifests: Sequence[Manifest], boundary: int) -> Iterator[str]:
    """Holes, falling epochs, and plans published twice, in the manifests after the boundary, by id."""
    if manifests and manifests[0].id != boundary + 1:
        yield f"manifest {boundary + 1} is missing: the first one found is {manifests[0].id}"
    for before, after in itertools.pairwise(manifests):
        if after.id != before.id + 1:
            yield f"manifest {before.id + 1} is missing: the next one found is {after.id}"
        if after.epoch < before.epoch:
            yield f"manifest {after.id} has epoch {after.epoch}, behind {before.epoch} of the one before"
    # Different processes may commit an undo table by table: it restores, so that is no harm.
    plans = [manifest.plan for manifest in manifests if manifest.kind != "undo"]
    yield from (f"plan {plan} was published more than once" for plan in plans if plans.count(plan) > 1)


def edge_faults(tables: Mapping[str, Contents]) -> Iterator[str]:
    """Visible edges that point at a missing table or row, in the tables of one manifest."""
    for table, contents in sorted(tables.items()):
        for column, target in contents.schema.edges:
            if target not in tables:
                yield f"{table}.{column} points at table {target}, which is missing"
                continue
            for _, row in sorted(contents.rows.items()):
                key = row[column]
                if key is not None and key not in tables[target].rows:
                    yield f"{table}.{column} points at row {key!r} of {target}, which is missing"


def is_unexplained(document: Version, latest: Manifest, sidecars: Collection[str]) -> bool:
    """Return True if a version above the pin of `latest` blocks writers and no sidecar explains it.

    `sidecars` are the ids of the plans that have one.
    """
    fenced = document.epoch < latest.epoch
    dead = document.base is not None and latest.pin(document.table) != document.base
    return not fenced and not dead and (document.undoes or document.plan) not in sidecars


def _table_faults(context: BranchContext, manifest: Manifest, reader: TableReader) -> Iterator[str]:
    try:
        tables = reader.contents(manifest.tables)
    except PublishError as error:
        if context.chain.boundary.read() < manifest.id:  # else a cleanup deleted it meanwhile, as it may
            yield f"manifest {manifest.id}: {error}"
        return
    faults = (*edge_faults(tables), *constraint_faults(tables))
    yield from (f"manifest {manifest.id}: {fault}" for fault in faults)


def _head_faults(context: BranchContext, latest: Manifest) -> Iterator[str]:
    # Versions of another branch's lineage block no writer of this one: its first write forks the table.
    owned = [entry for _, entry in sorted(latest.tables.items()) if entry.owner == latest.incarnation]
    pins = [entry.pin for entry in owned]
    above = context.read_all([List(keys.versions(pin.location), after=keys.version(pin)) for pin in pins])
    plans = {plan.id for plan in context.sidecars()}
    for document in context.versions([info.key for reply in above for info in reply.objects]):
        if is_unexplained(document, latest, plans):
            yield (
                f"table {document.table}: version {document.number} by plan {document.plan} is ahead of the "
                "manifest and has no sidecar; run repair"
            )
