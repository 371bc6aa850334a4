"""Opening a branch without knowing anything of it, in two steps of requests.

    1  list the manifests, the sidecars, and the versions of the tables that the caller is going to use
    2  read the newest manifest, the sidecars, and the newest version of each lineage of those tables

The third kind of request is a guess: the manifest decides which version counts, and a guess of another one is
not used. It saves a step where a process opens a branch for one commit.
"""

from collections.abc import Sequence

from fencepost.impl.publish import keys
from fencepost.impl.publish.context import Handle
from fencepost.impl.publish.documents import PublishPlan, read_manifest
from fencepost.impl.store.requests import Get, List, ListReply, Outcome

GUESSES_MAX = 4
"""Lineages of one table whose newest version is read ahead: our own limit."""


def open_branch(handle: Handle, tables: Sequence[str] = ()) -> list[PublishPlan] | None:
    """Find the newest manifest; returns the plans that have a sidecar, or None if there are too many to tell.

    `tables` only makes later reads of these tables faster.
    """
    context, chain = handle.context, handle.context.chain
    listings = [chain.listing(0), List(keys.RECOVERY), *(List(keys.lineages(table)) for table in tables)]
    manifests, sidecars, *versions = context.read_all(listings)
    newest = chain.last(0, manifests)
    if newest is None:
        handle.resolve()  # raises
        return None
    staged = [info.key for info in sidecars.objects]
    guesses = [key for page in versions for key in _newest(page)]
    manifest, boundary, *others = context.read_all(
        [chain.probe(newest), chain.boundary.request(), *map(Get, [*staged, *guesses])]
    )
    if manifest.outcome is Outcome.DONE and newest > chain.boundary.value(boundary)[0]:
        handle.learn([read_manifest(manifest.body, chain.key(newest))])
        handle.check_exists()
    else:
        handle.resolve()  # cleaned up meanwhile
    found = {
        key: reply.body
        for key, reply in zip([*staged, *guesses], others, strict=True)
        if reply.outcome is Outcome.DONE
    }
    handle.reader.ahead = {key: found[key] for key in guesses if key in found}
    if sidecars.next:
        return None
    return [PublishPlan.from_bytes(found[key], key) for key in staged if key in found]


def _newest(page: ListReply) -> list[str]:
    """The newest version of each lineage in a listing of versions; none if that is longer than a page."""
    if page.next:
        return []
    newest = {keys.pin_of_version(info.key).location: info.key for info in page.objects}
    return [*newest.values()][-GUESSES_MAX:]
