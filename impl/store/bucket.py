"""A bucket in memory: what every request does to it, one at a time.

This is the sequential meaning of the interface, with no lock, no clock and no thread of its own:
`MemoryStore` puts a lock around it, the harness steps it directly. It is as strict as S3 where S3's
behaviour is recorded, and takes the stricter answer where it is not.

Surprises of S3 that are kept on purpose:

- Deleting what is not there is `done`; in a versioned bucket it even leaves a delete marker.
- Only the current version is consulted by a condition; a delete marker counts as nothing there.
- A condition on completing an upload compares with the write that the key had when the upload was *created*.
  If-match with the right ETag is a `conflict` if any write has come since, even one of the same bytes.
  Create-only is a `conflict` if the object of that time was deleted since. Either stays so for that upload.
  The answer of S3 when the same upload is then completed without a condition is not recorded anywhere; here
  it is a last-one-wins write like any other, and it succeeds.
- ETags are the MD5 of the content, so the same bytes again restore the ETag.
"""

import bisect
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, cast

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import Misuse, Unsupported
from fencepost.impl.store.requests import Outcome, R, Reply, Request
from fencepost.impl.store.validity import check

PART_BYTES_MIN = 5 * 1024 * 1024
"""S3's own limit on every part but the last."""


@dataclass(slots=True)
class _Write:
    """One version of a key: an object, or a delete marker."""

    number: int
    """Counts all writes to the bucket: tells two writes of the same bytes apart."""
    body: bytes
    etag: str
    modified_ns: int
    content_type: str = ask.BINARY
    metadata: ask.Metadata = ask.NO_METADATA
    marker: bool = False


@dataclass(slots=True)
class _Upload:
    key: str
    started_ns: int
    content_type: str
    metadata: ask.Metadata
    standing: int | None
    """The number of the key's write when the upload was created; None if the key had none."""
    parts: dict[int, tuple[str, bytes]] = field(default_factory=dict)


def fingerprint(body: bytes) -> str:
    """The ETag of an object written in one piece."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def fingerprint_of_parts(etags: list[str]) -> str:
    """The ETag of an object completed from parts."""
    joined = b"".join(bytes.fromhex(etag) for etag in etags)
    return f"{fingerprint(joined)}-{len(etags)}"


class Bucket:
    object_info: type[ask.ObjectInfo] = ask.ObjectInfo
    version_info: type[ask.VersionInfo] = ask.VersionInfo
    upload_info: type[ask.UploadInfo] = ask.UploadInfo
    etag_of: Callable[[bytes], str] = staticmethod(fingerprint)
    answering: ClassVar[Mapping[type, str]] = {
        ask.Put: "_put",
        ask.Get: "_get",
        ask.Head: "_head",
        ask.Delete: "_delete",
        ask.List: "_list",
        ask.ListVersions: "_list_versions",
        ask.CreateUpload: "_create_upload",
        ask.UploadPart: "_upload_part",
        ask.CompleteUpload: "_complete_upload",
        ask.AbortUpload: "_abort_upload",
        ask.ListUploads: "_list_uploads",
    }
    """By kind of request, the method that answers it; its name, because bound methods would be a cycle."""

    def __init__(self, *, versioned: bool = False, part_bytes_min: int = PART_BYTES_MIN) -> None:
        self.versioned = versioned
        self._part_bytes_min = part_bytes_min
        self._writes: dict[str, list[_Write]] = {}
        self._keys: list[str] = []
        self._uploads: dict[str, _Upload] = {}
        self._count = 0

    def answer(self, request: Request[R], now_ns: int) -> R:
        check(request)
        return cast(R, getattr(self, self.answering[type(request)])(request, now_ns))

    def contents(self) -> dict[str, bytes]:
        """Every current object: key to bytes, in key order."""
        found = ((key, self._current(key)) for key in self._keys)
        return {key: write.body for key, write in found if write is not None}

    # Objects.

    def _current(self, key: str) -> _Write | None:
        writes = self._writes.get(key)
        return None if not writes or writes[-1].marker else writes[-1]

    def _put(self, request: ask.Put, now_ns: int) -> ask.PutReply:
        refused = self._refusal(request.key, request.when)
        if refused is not None:
            return request.ends(refused)
        etag = self.etag_of(request.body)
        return self._write(request.key, request.body, etag, now_ns, request.content_type, request.metadata)

    def _refusal(self, key: str, when: ask.Condition) -> Outcome | None:
        current = self._current(key)
        if isinstance(when, ask.Absent):
            return Outcome.EXISTS if current else None
        if isinstance(when, ask.Matches):
            if current is None:
                return Outcome.MISSING
            return None if current.etag == when.etag else Outcome.CHANGED
        return None

    def _write(
        self, key: str, body: bytes, etag: str, now_ns: int, content_type: str, metadata: ask.Metadata
    ) -> ask.PutReply:
        write = self._append(key, _Write(self._next(), body, etag, now_ns, content_type, metadata))
        return ask.PutReply(Outcome.DONE, etag=etag, version=self._version(write))

    def _append(self, key: str, write: _Write) -> _Write:
        writes = self._writes.get(key)
        if writes is None:
            bisect.insort(self._keys, key)
            self._writes[key] = [write]
        elif self.versioned:
            writes.append(write)
        else:
            writes[:] = [write]
        return write

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _version(self, write: _Write) -> str:
        return _identifier("v", write.number) if self.versioned else ""

    def _info(self, key: str, write: _Write) -> ask.ObjectInfo:
        return self.object_info(
            key,
            write.etag,
            len(write.body),
            write.modified_ns,
            self._version(write),
            write.content_type,
            write.metadata,
        )

    def _find(self, key: str, version: str) -> _Write | None:
        if not version:
            return self._current(key)
        self._need_versions()
        found = (write for write in self._writes.get(key, ()) if self._version(write) == version)
        return next((write for write in found if not write.marker), None)

    def _need_versions(self) -> None:
        if not self.versioned:
            raise Unsupported("this bucket keeps no versions; open one that does")

    def _get(self, request: ask.Get, _now_ns: int) -> ask.GetReply:
        write = self._find(request.key, request.version)
        if write is None:
            return request.ends(Outcome.MISSING)
        if request.only_if is not None and request.only_if != write.etag:
            return request.ends(Outcome.CHANGED)
        if request.unless is not None and request.unless == write.etag:
            return request.ends(Outcome.UNCHANGED)
        ranged = request.start > 0 or request.stop is not None
        if ranged and request.start >= len(write.body):
            return request.ends(Outcome.PAST_END)
        body = write.body[request.start : request.stop] if ranged else write.body
        return ask.GetReply(Outcome.DONE, body=body, info=self._info(request.key, write))

    def _head(self, request: ask.Head, _now_ns: int) -> ask.HeadReply:
        write = self._find(request.key, request.version)
        if write is None:
            return request.ends(Outcome.MISSING)
        return ask.HeadReply(Outcome.DONE, info=self._info(request.key, write))

    def _delete(self, request: ask.Delete, now_ns: int) -> ask.DeleteReply:
        if request.version:
            return self._delete_version(request)
        refused = self._refusal(request.key, request.when)
        if refused is not None:
            return request.ends(refused)
        if self.versioned:
            marker = self._append(request.key, _Write(self._next(), b"", "", now_ns, marker=True))
            return ask.DeleteReply(Outcome.DONE, version=self._version(marker), marker=True)
        self._forget(request.key)
        return request.ends(Outcome.DONE)

    def _delete_version(self, request: ask.Delete) -> ask.DeleteReply:
        self._need_versions()
        writes = self._writes.get(request.key, [])
        for at, write in enumerate(writes):
            if self._version(write) == request.version:
                del writes[at]
                if not writes:
                    self._forget(request.key)
                return ask.DeleteReply(Outcome.DONE, version=request.version, marker=write.marker)
        return ask.DeleteReply(Outcome.DONE, version=request.version)

    def _forget(self, key: str) -> None:
        if self._writes.pop(key, None) is not None:
            del self._keys[bisect.bisect_left(self._keys, key)]

    # Listings.

    def _list(self, request: ask.List, _now_ns: int) -> ask.ListReply:
        objects: list[ask.ObjectInfo] = []
        prefixes: list[str] = []
        last = ""
        for key in self._range(request.prefix, max(request.after, request.token)):
            write = self._current(key)
            group = group_of(key, request.prefix, request.delimiter)
            # The page before ended on the token, be it a key or a group whose keys are then done with.
            if write is None or (group and (group <= request.token or prefixes[-1:] == [group])):
                continue
            if len(objects) + len(prefixes) == request.limit:
                return ask.ListReply(Outcome.DONE, "", tuple(objects), tuple(prefixes), last)
            if group:
                prefixes.append(group)
            else:
                objects.append(
                    self.object_info(
                        key, write.etag, len(write.body), write.modified_ns, self._version(write)
                    )
                )
            last = group or key
        return ask.ListReply(Outcome.DONE, "", tuple(objects), tuple(prefixes), "")

    def _range(self, prefix: str, after: str) -> list[str]:
        """The keys with `prefix` that sort behind `after`."""
        start = bisect.bisect_left(self._keys, prefix)
        if after:
            start = max(start, bisect.bisect_right(self._keys, after))
        stop = start
        while stop < len(self._keys) and self._keys[stop].startswith(prefix):
            stop += 1
        return self._keys[start:stop]

    def _list_versions(self, request: ask.ListVersions, _now_ns: int) -> ask.VersionsReply:
        self._need_versions()
        number, key_before = _place(request.token)
        found = [
            self.version_info(
                key=key,
                version=self._version(write),
                latest=write is self._writes[key][-1],
                marker=write.marker,
                etag=write.etag,
                size=len(write.body),
                modified_ns=write.modified_ns,
            )
            for key in self._range(request.prefix, "")
            if key >= key_before
            for write in reversed(self._writes[key])
            if key > key_before or write.number < number
        ]
        page = tuple(found[: request.limit])
        more = len(found) > request.limit
        token = _token(int(page[-1].version.removeprefix("v")), page[-1].key) if more else ""
        return ask.VersionsReply(Outcome.DONE, "", page, token)

    # Multipart uploads.

    def _create_upload(self, request: ask.CreateUpload, now_ns: int) -> ask.UploadReply:
        upload = _identifier("u", self._next())
        current = self._current(request.key)
        self._uploads[upload] = _Upload(
            key=request.key,
            started_ns=now_ns,
            content_type=request.content_type,
            metadata=request.metadata,
            standing=current.number if current else None,
        )
        return ask.UploadReply(Outcome.DONE, upload=upload)

    def _upload(self, key: str, upload: str) -> _Upload | None:
        found = self._uploads.get(upload)
        return found if found is not None and found.key == key else None

    def _upload_part(self, request: ask.UploadPart, _now_ns: int) -> ask.PartReply:
        upload = self._upload(request.key, request.upload)
        if upload is None:
            return request.ends(Outcome.GONE)
        etag = fingerprint(request.body)
        upload.parts[request.number] = (etag, request.body)
        return ask.PartReply(Outcome.DONE, etag=etag)

    def _complete_upload(self, request: ask.CompleteUpload, now_ns: int) -> ask.PutReply:
        upload = self._upload(request.key, request.upload)
        if upload is None:
            return request.ends(Outcome.GONE)
        sizes = {number: (etag, len(body)) for number, (etag, body) in upload.parts.items()}
        check_parts(request, sizes, self._part_bytes_min)
        refused = self._refusal(request.key, request.when) or self._stale(upload, request.when)
        if refused is not None:
            return request.ends(refused)
        del self._uploads[request.upload]
        body = b"".join(upload.parts[number][1] for number, _ in request.parts)
        etag = fingerprint_of_parts([etag for _, etag in request.parts])
        return self._write(request.key, body, etag, now_ns, upload.content_type, upload.metadata)

    def _stale(self, upload: _Upload, when: ask.Condition) -> Outcome | None:
        """A conditional completion loses to whatever happened at the key since the upload was created."""
        current = self._current(upload.key)
        standing = current.number if current else None
        if isinstance(when, ask.Anything) or standing == upload.standing:
            return None
        return Outcome.CONFLICT

    def _abort_upload(self, request: ask.AbortUpload, _now_ns: int) -> Reply:
        if self._upload(request.key, request.upload) is None:
            return request.ends(Outcome.GONE)
        del self._uploads[request.upload]
        return request.ends(Outcome.DONE)

    def _list_uploads(self, request: ask.ListUploads, _now_ns: int) -> ask.UploadsReply:
        number, key_before = _place(request.token)
        after = key_before, _identifier("u", number)
        found = sorted(
            (upload.key, identifier, upload.started_ns)
            for identifier, upload in self._uploads.items()
            if upload.key.startswith(request.prefix) and (upload.key, identifier) > after
        )
        page = tuple(self.upload_info(*row) for row in found[: request.limit])
        more = len(found) > request.limit
        token = _token(int(page[-1].upload.removeprefix("u")), page[-1].key) if more else ""
        return ask.UploadsReply(Outcome.DONE, "", page, token)


def check_parts(
    request: ask.CompleteUpload, parts: Mapping[int, tuple[str, int]], part_bytes_min: int
) -> None:
    """Raise `Misuse` unless the parts named were uploaded (number to etag and size) and are large enough."""
    for number, etag in request.parts:
        if number not in parts or parts[number][0] != etag:
            raise Misuse(f"part {number} with ETag {etag!r} of {request.key!r} was not uploaded")
    for number, _ in request.parts[:-1]:
        if parts[number][1] < part_bytes_min:
            raise Misuse(
                f"part {number} of {request.key!r} has {parts[number][1]} bytes; "
                f"every part but the last needs at least {part_bytes_min}"
            )


def _identifier(letter: str, number: int) -> str:
    """Of a version or an upload: sorts as the numbers do."""
    return f"{letter}{number:012d}"


def _token(number: int, key: str) -> str:
    """Where a page ended: by what it showed last, so that removing earlier entries skips no later ones."""
    return f"{number} {key}"


def _place(token: str) -> tuple[int, str]:
    number, _, key = token.partition(" ")
    return int(number or 0), key


def group_of(key: str, prefix: str, delimiter: str) -> str:
    """The common prefix a listing reports instead of `key`; empty when it reports the key itself."""
    if not delimiter:
        return ""
    at = key.find(delimiter, len(prefix))
    return "" if at < 0 else key[: at + len(delimiter)]
