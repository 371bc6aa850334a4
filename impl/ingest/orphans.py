"""Whether anything refers to a blob, found out without any index: the frame itself says whose it is.

A frame names its batch, and a batch has one key below accepted/ and, with its hash, one below quarantine/.
So whoever holds the frame can ask for the only two objects that may ever refer to it. Asked at a time when no
further reference can come (`gc-age`), the answer is the truth and needs no audit. It costs the reading of
the blob, which is why a listing of references comes first.
"""

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.impl.ingest import keys
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.documents import Manifest
from fencepost.impl.ingest.errors import Damaged, FrameError
from fencepost.impl.ingest.frames import read
from fencepost.impl.ingest.identity import Identity
from fencepost.impl.ingest.rollups import ANY_SIZE
from fencepost.impl.store.requests import Get, GetReply, Head


class Found(enum.Enum):
    """What is known of one blob."""

    ORPHAN = "orphan"
    REFERENCED = "referenced"
    UNKNOWN = "unknown"
    """It is no frame, or not the one it is named by, or what may refer to it cannot be read: keep it."""


@dataclass(frozen=True, slots=True)
class Named:
    """A blob by its key, hash and version."""

    key: str
    sha256: str
    version: str


def looked_up(context: IngestContext, blobs: Sequence[Named]) -> list[Found]:
    """What is known of each."""
    return [_judged(context, blob, _identity(context, blob)) for blob in blobs]


def _identity(context: IngestContext, blob: Named) -> Identity | None:
    """Whose batch it is; None when it does not say, or is not what its name promises."""
    reply = context.retry.read(context.store, context.env, Get(blob.key, version=blob.version))
    if reply.info is None or hashlib.sha256(reply.body).hexdigest() != blob.sha256:
        return None
    try:
        return read(reply.body, ANY_SIZE).identity
    except FrameError:
        return None


def _judged(context: IngestContext, blob: Named, identity: Identity | None) -> Found:
    if identity is None:
        return Found.UNKNOWN
    key = keys.accepted_key(identity)
    wanted = [Get(key), Head(keys.conflict_key(identity, blob.sha256))]
    manifest, conflict = context.retry.read_all(context.store, context.env, wanted)
    if conflict.info is not None:
        return Found.REFERENCED
    return _by_manifest(manifest, key, blob.sha256)


def _by_manifest(reply: GetReply, key: str, sha256: str) -> Found:
    if reply.info is None:
        return Found.ORPHAN
    try:
        manifest = Manifest.read(reply.body, key)
    except Damaged:
        return Found.UNKNOWN
    return Found.REFERENCED if manifest.frame_sha256 == sha256 else Found.ORPHAN
