"""The bucket of a world, whose names of versions and uploads no order of requests can change.

`Bucket` numbers versions and uploads from one counter, so two writes to different keys would get other
version names in the other order and no longer commute. In `WorldBucket` the number comes from the request:
the process that issued it, and its number in that process. Numbers are only ever compared for equality, and
the order within a key is the order of landing, so nothing else changes.
"""

from functools import lru_cache
from typing import Any

from fencepost.impl.store.bucket import Bucket, fingerprint
from fencepost.impl.store.requests import BINARY
from fencepost.sim.world import modified, stamps

_fingerprint_of_small = lru_cache(4096)(fingerprint)


def fingerprint_again(body: bytes) -> str:
    """Return the ETag of a body; runs repeat the same small ones."""
    return _fingerprint_of_small(body) if len(body) <= 256 else fingerprint(body)


class WorldBucket(Bucket):
    """A bucket that numbers versions and uploads by the ticket of the request."""

    ticket = 0
    """Number of the request that lands."""
    object_info = modified.WatchedObject
    version_info = modified.WatchedVersion
    upload_info = modified.WatchedUpload
    etag_of = staticmethod(fingerprint_again)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._shown: dict[str, Any] = {}
        """By key: what can be learnt of it; computed at the first use after a change."""

    def answer_again(self, request: Any, now_ns: int) -> Any:
        """Answer a request that was found valid before."""
        if type(self) is not WorldBucket:
            return self.answer(request, now_ns)  # a subclass does more
        return getattr(self, self.answering[type(request)])(request, now_ns)

    def take_ticket(self, ticket: int) -> None:
        """Set the number of the next request."""
        self.ticket = ticket

    def _next(self) -> int:
        return self.ticket

    def _append(self, key: str, write: Any) -> Any:
        self._shown.pop(key, None)
        return super()._append(key, write)

    def _forget(self, key: str) -> None:
        self._shown.pop(key, None)
        super()._forget(key)

    def _delete_version(self, request: Any) -> Any:
        self._shown.pop(request.key, None)
        return super()._delete_version(request)

    def state(self) -> tuple[Any, ...]:
        """Return everything a request could ever learn from the bucket, hashable."""
        if self._uploads:
            uploads = tuple((name, *_pending(upload)) for name, upload in sorted(self._uploads.items()))
            objects = tuple((key, *map(_shown, self._writes[key])) for key in self._keys)
            numbers = tuple(write.number for key in self._keys for write in self._writes[key])
            return (objects, numbers, uploads)
        shown = self._shown
        found = []
        for key in self._keys:
            one = shown.get(key)
            if one is None:
                writes = self._writes[key]
                one = shown[key] = (
                    key,
                    *map(_shown, writes),
                    *(write.number for write in writes if self.versioned),
                )
            found.append(one)
        return tuple(found)

    def body(self, key: str) -> bytes | None:
        """Return the current body at `key`."""
        write = self._current(key)
        return None if write is None else write.body

    def etag(self, key: str) -> str:
        """Return the current ETag at `key`; empty when there is no object."""
        write = self._current(key)
        return "" if write is None or write.body is None else str(write.etag)

    def modified_ns(self, key: str) -> int:
        """When the object at `key` landed; 0 when there is none."""
        stamps.matter()
        write = self._current(key)
        return 0 if write is None else int(write.modified_ns)

    def backdate(self, key: str, by_ns: int) -> None:
        """Make the object at `key` older; before the run, and in scenarios without sleeps."""
        self._writes[key][-1].modified_ns -= by_ns
        self._shown.pop(key, None)

    def bodies(self, prefix: str) -> dict[str, bytes]:
        """Return the current bodies below `prefix`, in key order."""
        found = ((key, self._current(key)) for key in self._range(prefix, ""))
        return {key: write.body for key, write in found if write is not None}


def _shown(write: Any) -> tuple[Any, ...]:
    if write.content_type == BINARY and not write.metadata:
        return (write.etag, write.marker, write.modified_ns)
    return (write.etag, write.marker, write.modified_ns, write.content_type, write.metadata)


def _pending(upload: Any) -> tuple[Any, ...]:
    parts = tuple(sorted((number, etag) for number, (etag, _) in upload.parts.items()))
    return (
        upload.key,
        upload.started_ns,
        upload.standing,
        upload.content_type,
        upload.metadata,
        parts,
    )
