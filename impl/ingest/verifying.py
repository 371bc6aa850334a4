"""Which accepted batches are without their data: by a look at every blob, or by reading and hashing it."""

import hashlib
from collections.abc import Iterator, Sequence

from fencepost.impl.environment import Environment
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.retry import RetryPolicy
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, Head


def without_data(
    store: Store, env: Environment, retry: RetryPolicy, found: Sequence[Manifest], *, deep: bool
) -> Iterator[str]:
    """The keys of the manifests whose blob is missing or of another size; with `deep`, of another hash."""
    if not deep:
        heads = retry.read_all(store, env, [Head(one.raw_blob_key) for one in found])
        for one, head in zip(found, heads, strict=True):
            if head.info is None or head.info.size != one.frame_bytes:
                yield one.key
        return
    for one in found:  # one frame in memory at a time
        reply = retry.read(store, env, Get(one.raw_blob_key))
        if hashlib.sha256(reply.body).hexdigest() != one.frame_sha256:
            yield one.key
