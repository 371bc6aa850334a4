"""The bucket of a world: the reference semantics, with names for versions that do not depend on the order.

`Bucket` numbers versions and uploads from one counter, so two writes to different keys would get other
version names in the other order and no longer commute. Here the number comes from the request: which
process issued it, and as its how-manieth. Numbers are only ever compared for equality, order within a
key is the order of landing, so nothing else changes.
"""

from typing import Any

from holdfast.impl.store.bucket import Bucket


class WorldBucket(Bucket):
    """`ticket` is set before every request that lands."""

    ticket = 0

    def _next(self) -> int:
        return self.ticket

    def state(self) -> tuple[Any, ...]:
        """Everything a request could ever learn from the bucket, hashable."""
        numbered = self.versioned or bool(self._uploads)
        objects = tuple(
            (key, tuple(_shown(write, numbered) for write in self._writes[key])) for key in self._keys
        )
        if not self._uploads:
            return objects
        uploads = tuple((name, *_pending(upload)) for name, upload in sorted(self._uploads.items()))
        return (objects, uploads)

    def body(self, key: str) -> bytes | None:
        write = self._current(key)
        return None if write is None else write.body

    def bodies(self, prefix: str) -> dict[str, bytes]:
        found = ((key, self._current(key)) for key in self._range(prefix, ""))
        return {key: write.body for key, write in found if write is not None}


def _shown(write: Any, numbered: bool) -> tuple[Any, ...]:
    return (
        write.etag,
        write.marker,
        write.modified_ns,
        write.content_type,
        write.metadata,
        write.number if numbered else 0,
    )


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
