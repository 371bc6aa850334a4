"""What is derived from an accepted batch: the same objects whoever derives them, and however often.

Every key and every body below is a function of the manifest alone. So the collector that accepted a batch,
the reconciler and the full audit may all write them, in any order, as often as they like: whoever finds
one there finds its own.
"""

from collections.abc import Sequence

from fencepost.impl.environment import Environment
from fencepost.impl.ingest.documents import JSON, Manifest, write
from fencepost.impl.retry import RetryPolicy
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Head, Put

AT_ONCE_MAX = 300
"""Our own limit on requests in one parallel step."""


def derived(manifest: Manifest) -> list[Put]:
    """Its place in the order of acceptance, its reference to the blob, and the blob's place in time."""
    body = manifest.body()
    # The blob may be other batches' too: what is said of it in time is the same for all of an hour.
    blob = write({"schema": "lightmetrics.raw_blob.v1", "frame_sha256": manifest.frame_sha256})
    return [
        Put(manifest.by_time_key, body, ABSENT, JSON),
        Put(manifest.by_blob_key, body, ABSENT, JSON),
        Put(manifest.raw_by_time_key, blob, ABSENT, JSON),
    ]


def derive(store: Store, env: Environment, retry: RetryPolicy, manifests: Sequence[Manifest]) -> int:
    """Have all of it stand. Answers how many objects had been missing."""
    puts = [put for manifest in manifests for put in derived(manifest)]
    return sum(
        retry.ensure_all(store, env, puts[at : at + AT_ONCE_MAX]) for at in range(0, len(puts), AT_ONCE_MAX)
    )


def incomplete(
    store: Store, env: Environment, retry: RetryPolicy, found: Sequence[Manifest]
) -> list[Manifest]:
    """Those that lack something. A look costs a twelfth of a create, and next to nothing is missing."""
    wanted = [Head(put.key) for one in found for put in derived(one)]
    heads = retry.read_all(store, env, wanted)
    there = [head.info is not None for head in heads]
    return [one for at, one in enumerate(found) if not all(there[3 * at : 3 * at + 3])]
