"""Verification: reads everything a branch retains and says what is not as it must be."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from fencepost.impl.publish import keys
from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.contents import Library
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.documents import Manifest
from fencepost.impl.publish.errors import PublishError
from fencepost.impl.store.requests import List


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and every fault as a sentence."""

    manifests: int
    tables: int
    faults: tuple[str, ...]


def verify(catalog: Catalog) -> Verified:
    """Check the chain, every pinned version and fragment, and every edge of the retained manifests."""
    manifests = sorted(catalog.log(), key=lambda manifest: manifest.id)
    # Asked after the log: a cleanup in between explains what it took, and nothing else.
    boundary = catalog.context.chain.boundary.read()
    manifests = [manifest for manifest in manifests if manifest.id > boundary]
    faults = [*_chain(manifests, boundary)]
    # A memory of its own: what the handle remembers may be damaged in the store all the same.
    library = Library(catalog.context)
    for manifest in manifests:
        faults += _tables(catalog.context, manifest, library)
    faults += _heads(catalog.context, catalog.refresh())
    return Verified(len(manifests), sum(len(m.tables) for m in manifests), tuple(dict.fromkeys(faults)))


def _chain(manifests: list[Manifest], boundary: int) -> Iterator[str]:
    if manifests and manifests[0].id != boundary + 1:
        yield f"manifest {boundary + 1} is missing: the first one found is {manifests[0].id}"
    for before, after in itertools.pairwise(manifests):
        if after.id != before.id + 1:
            yield f"manifest {before.id + 1} is missing: the next one found is {after.id}"
        if after.epoch < before.epoch:
            yield f"manifest {after.id} has epoch {after.epoch}, behind {before.epoch} of the one before"
    # An undo may be committed table by table, by different hands: it restores, so that is no harm.
    plans = [manifest.plan for manifest in manifests if manifest.kind != "undo"]
    yield from (f"plan {plan} was published more than once" for plan in plans if plans.count(plan) > 1)


def _tables(context: BranchContext, manifest: Manifest, library: Library) -> Iterator[str]:
    try:
        tables = library.contents(manifest.tables)
    except PublishError as error:
        if context.chain.boundary.read() < manifest.id:  # else a cleanup took it meanwhile, and may
            yield f"manifest {manifest.id}: {error}"
        return
    for table, contents in sorted(tables.items()):
        for column, target in contents.schema.edges:
            if target not in tables:
                yield f"manifest {manifest.id}: {table}.{column} points at table {target}, which is not there"
                continue
            for _, row in sorted(contents.rows.items()):
                key = row[column]
                if key is not None and key not in tables[target].rows:
                    yield f"manifest {manifest.id}: {table}.{column} points at row {key!r} of {target}"


def _heads(context: BranchContext, latest: Manifest) -> Iterator[str]:
    """Heads ahead of the manifest that no sidecar explains."""
    entries = sorted(latest.tables.items())
    prefixes = [keys.versions(entry.location) for _, entry in entries]
    requests = [
        List(prefix, after=keys.version(e.pin)) for prefix, (_, e) in zip(prefixes, entries, strict=True)
    ]
    ahead = context.read_all(requests)
    plans = {plan.id for plan in context.sidecars.all()}
    documents = context.versions([info.key for reply in ahead for info in reply.objects])
    for document in documents:
        fenced = document.epoch < latest.epoch
        dead = document.base is not None and latest.pin(document.table) != document.base
        if not fenced and not dead and (document.undoes or document.plan) not in plans:
            yield (
                f"table {document.table}: version {document.number} by plan {document.plan} stands ahead of "
                "the manifest and has no sidecar; run repair"
            )
