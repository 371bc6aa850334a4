"""Which derived objects are said to stand, and so which accepted batches need a look.

Takes keys in any order, from a listing or from a report, and keeps of each what tells it apart: some 400
bytes of memory a batch. What is not one of our keys is passed over.
"""

import re

from fencepost.impl.ingest import keys

DERIVED = (keys.RAW, keys.BY_BLOB, keys.BY_TIME, keys.RAW_BY_TIME)
"""The prefixes of what matters here."""

_BY_BLOB = re.compile(re.escape(keys.BY_BLOB) + r"../../([0-9a-f]{64})/(.+)\.json", re.DOTALL)
_RAW_BY_TIME = re.compile(re.escape(keys.RAW_BY_TIME) + r".*sha256=([0-9a-f]{64})\.json", re.DOTALL)


_STANDS, _IN_TIME = 1, 2


class Indexes:
    """See the top of this module."""

    def __init__(self) -> None:
        self._sha256_of: dict[bytes, bytes] = {}
        """By the digest of an identity, the hash of its batch, as the reverse reference says."""
        self._in_time: set[bytes] = set()
        self._blobs: dict[bytes, int] = {}
        """By its hash, whether a blob stands and has its place in time."""

    def take(self, key: str) -> None:
        """This key is said to stand."""
        if key.startswith(keys.RAW):
            parsed = keys.parse_raw(key)
            if parsed is not None:
                self._blob(parsed[0], _STANDS)
        elif found := _BY_BLOB.fullmatch(key):
            self._sha256_of[keys.identity_digest(found[2])] = bytes.fromhex(found[1])
        elif (digest := keys.identity_of_place(key)) is not None:
            self._in_time.add(digest)
        elif found := _RAW_BY_TIME.fullmatch(key):
            self._blob(found[1], _IN_TIME)

    def complete(self, accepted_key: str) -> bool:
        """Whether the blob of this batch and everything that is derived from it are said to stand."""
        identity = keys.identity_digest(accepted_key.removeprefix(keys.ACCEPTED).removesuffix(".json"))
        sha256 = self._sha256_of.get(identity)
        if sha256 is None or identity not in self._in_time:
            return False
        return self._blobs.get(sha256) == _STANDS | _IN_TIME

    def _blob(self, sha256: str, what: int) -> None:
        digest = bytes.fromhex(sha256)
        self._blobs[digest] = self._blobs.get(digest, 0) | what
