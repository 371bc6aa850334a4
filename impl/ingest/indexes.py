"""The index objects that are derived from an accepted batch.

Every key and every body is a function of the manifest alone. So the collector that accepted a batch, the
reconciler and the full audit may all write them, in any order and any number of times: an object that is
already there is the same.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.documents import JSON, Manifest
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Get, Head, Put

AT_ONCE_MAX = 300
"""Our own limit on requests in one parallel step."""

DERIVED = (keys.RAW, keys.BY_BLOB, keys.BY_TIME)
"""The prefixes of blobs and of what is derived from manifests."""

_BY_BLOB = re.compile(re.escape(keys.BY_BLOB) + r"../../([0-9a-f]{64})/(.+)\.json", re.DOTALL)


def derived(manifest: Manifest) -> list[Put]:
    """Its place in the order of acceptance, and its reference to the blob."""
    body = manifest.body()
    return [Put(key, body, ABSENT, JSON) for key in (manifest.by_time_key, manifest.by_blob_key)]


def derive(context: IngestContext, manifests: Sequence[Manifest]) -> int:
    """Create all index objects of these batches; returns how many were missing."""
    puts = [put for manifest in manifests for put in derived(manifest)]
    return sum(context.ensure_all(puts[at : at + AT_ONCE_MAX]) for at in range(0, len(puts), AT_ONCE_MAX))


def incomplete(context: IngestContext, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Those that lack an index object. A HEAD costs a twelfth of a create, and next to nothing is missing."""
    heads = context.read_all([Head(put.key) for one in manifests for put in derived(one)])
    exists = [head.info is not None for head in heads]
    return [one for at, one in enumerate(manifests) if not all(exists[2 * at : 2 * at + 2])]


def without_data(context: IngestContext, manifests: Sequence[Manifest], *, deep: bool) -> Iterator[str]:
    """The keys of the manifests whose blob is missing or of another size; with `deep`, of another hash."""
    if not deep:
        heads = context.read_all([Head(one.raw_blob_key) for one in manifests])
        for one, head in zip(manifests, heads, strict=True):
            if head.info is None or head.info.size != one.frame_bytes:
                yield one.key
        return
    for one in manifests:  # one frame in memory at a time
        reply = context.read(Get(one.raw_blob_key))
        if hashlib.sha256(reply.body).hexdigest() != one.frame_sha256:
            yield one.key


class Indexes:
    """Which accepted batches are complete, from the keys of a listing or an inventory report in any order.

    It keeps of each key what distinguishes it: some 300 bytes of memory a batch. It ignores other keys.
    """

    def __init__(self) -> None:
        self._sha256_of: dict[bytes, bytes] = {}
        """By the digest of an identity: the hash of its batch, from the reverse reference."""
        self._in_time: set[bytes] = set()
        self._blobs: set[bytes] = set()

    def take(self, key: str) -> None:
        """Add an existing key."""
        if key.startswith(keys.RAW):
            parsed = keys.parse_raw(key)
            if parsed is not None:
                self._blobs.add(bytes.fromhex(parsed[0]))
        elif found := _BY_BLOB.fullmatch(key):
            self._sha256_of[keys.identity_digest(found[2])] = bytes.fromhex(found[1])
        elif (digest := keys.identity_of_place(key)) is not None:
            self._in_time.add(digest)

    def complete(self, accepted_key: str) -> bool:
        """Return True if the blob of this batch and all its index objects are among the keys."""
        identity = keys.accepted_digest(accepted_key)
        sha256 = self._sha256_of.get(identity)
        return sha256 is not None and sha256 in self._blobs and identity in self._in_time
