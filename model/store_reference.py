"""What a store does, as a sequential object to step: the second opinion that every backend is held against.

Written from what is recorded of S3, not from any backend; `model` imports nothing that ships. A state is
frozen and can be hashed, an operation and an answer are tuples that say what they are when printed:

    >>> state = State()
    >>> state, answer = step(state, ("put", "k", b"a", ("absent",), "text/plain", ()))
    >>> answer
    ('done', '0cc175b9c0f1b6a831c399e269772661', 0)
    >>> step(state, ("put", "k", b"b", ("absent",), "text/plain", ()))[1]
    ('exists',)

    operation                                                       done, and what it tells
    ("put", key, body, when, content_type, metadata)                etag, version
    ("get", key, start, stop, only_if, unless, version)             body, info
    ("head", key, version)                                          info
    ("delete", key, when, version)                                  version, marker
    ("list", prefix, after, delimiter, limit, token)                objects, prefixes, token
    ("list-versions", prefix, limit, token)                         versions, token
    ("create-upload", key, content_type, metadata)                  upload
    ("upload-part", key, upload, number, body)                      etag
    ("complete-upload", key, upload, parts, when)                   etag, version
    ("abort-upload", key, upload)
    ("list-uploads", prefix, limit, token)                          uploads, token

An info is (key, etag, size, version, content_type, metadata), a listed object its first three, a version
(key, version, latest, marker, etag, size), an upload (key, upload), metadata sorted pairs. Versions and
uploads are numbers counting up from 1; 0 is no version (none asked for, or the bucket keeps none). A
token is the last entry of the page before, or None. Any other outcome stands alone: `exists`, `changed`,
`missing`, `unchanged`, `past-end`, `gone`, `conflict`; `misuse` and `unsupported` are what a backend raises.

It leaves out what is not sequential (conflicts between rivals, throttling, lost replies) and time.
"""

import bisect
import hashlib
from dataclasses import dataclass, replace
from typing import Any

# One key. What a condition can see is only the ETag of what stands there (an ETag is a fingerprint of
# content, and only the current version is consulted), so that is all a checker of histories carries.

Standing = str | None
"""The ETag of the object that stands at a key; `None` when there is none, or a delete marker."""
When = tuple[str] | tuple[str, str]
"""`("anything",)`, `("absent",)` or `("matches", etag)`."""
KeyOperation = tuple[str, When, str] | tuple[str, When] | tuple[str, str | None, str | None]
"""`("write", when, etag)`, `("delete", when)` or `("read", only_if, unless)`."""


def on_key(standing: Standing, operation: KeyOperation) -> tuple[Standing, str]:
    """What stands at the key after `operation`, and the outcome it is told.

    >>> on_key(None, ("write", ("absent",), "e1"))
    ('e1', 'done')
    >>> on_key("e1", ("write", ("absent",), "e2"))
    ('e1', 'exists')
    """
    match operation:
        case ("write", tuple() as when, str() as etag):
            refused = refusal(standing, when)
            return (standing, refused) if refused else (etag, "done")
        case ("delete", tuple() as when):
            refused = refusal(standing, when)
            return (standing, refused) if refused else (None, "done")
        case ("read", only_if, unless):
            return standing, reading(standing, only_if, unless)
    raise ValueError(f"{operation!r} is no operation on a key")


def refusal(standing: Standing, when: When) -> str:
    """Why a write or delete under condition `when` is refused; empty when it is not."""
    match when:
        case ("anything",):
            return ""
        case ("absent",):
            return "" if standing is None else "exists"
        case ("matches", etag):
            if standing is None:
                return "missing"
            return "" if standing == etag else "changed"
    raise ValueError(f"{when!r} is no condition")


def reading(standing: Standing, only_if: object, unless: object) -> str:
    """The outcome of reading a key; `only_if` is looked at first, as HTTP has it."""
    if standing is None:
        return "missing"
    if only_if is not None and standing != only_if:
        return "changed"
    if unless is not None and standing == unless:
        return "unchanged"
    return "done"


# The whole bucket.

Operation = tuple[Any, ...]
Answer = tuple[Any, ...]
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One version of a key: an object, or a delete marker."""

    number: int
    etag: str = ""
    body: bytes = b""
    content_type: str = ""
    metadata: Metadata = ()
    marker: bool = False


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload in the making."""

    number: int
    key: str
    content_type: str
    metadata: Metadata
    stood: int
    """The number of the write that stood at the key when the upload was created, or 0."""
    parts: tuple[tuple[int, str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """A bucket."""

    versioned: bool = False
    part_bytes_min: int = 5 * 1024 * 1024
    """Of every part but the last of an upload."""
    count: int = 0
    """Of all writes and uploads so far: numbers the next."""
    keys: tuple[tuple[str, tuple[Write, ...]], ...] = ()
    """The writes of every key, oldest first, keys in order. Without versions only the last is kept."""
    uploads: tuple[Upload, ...] = ()

    def writes(self, key: str) -> tuple[Write, ...]:
        at = bisect.bisect_left(self.keys, (key,))
        found = self.keys[at : at + 1]
        return found[0][1] if found and found[0][0] == key else ()

    def current(self, key: str) -> Write | None:
        """The object that stands at the key; a delete marker stands for none."""
        writes = self.writes(key)
        return writes[-1] if writes and not writes[-1].marker else None

    def standing(self, key: str) -> Standing:
        current = self.current(key)
        return current.etag if current else None

    def with_writes(self, key: str, writes: tuple[Write, ...]) -> "State":
        others = [entry for entry in self.keys if entry[0] != key]
        if writes:
            bisect.insort(others, (key, writes), key=lambda entry: entry[0])
        return replace(self, keys=tuple(others))

    def version(self, write: Write) -> int:
        return write.number if self.versioned else 0


def step(state: State, operation: Operation) -> tuple[State, Answer]:
    """The state after `operation`, and its answer."""
    match operation:
        case ("put", key, body, when, content_type, metadata):
            return _put(state, key, when, fingerprint(body), body, content_type, metadata)
        case ("get", key, start, stop, only_if, unless, version):
            return state, _get(state, key, (start, stop), only_if, unless, version)
        case ("head", key, version):
            return state, _head(state, key, version)
        case ("delete", key, when, 0):
            return _delete(state, key, when)
        case ("delete", key, _, version):
            return _delete_version(state, key, version)
        case ("list", prefix, after, delimiter, limit, token):
            return state, _list(state, prefix, after, delimiter, limit, token)
        case ("list-versions", prefix, limit, token):
            return state, _list_versions(state, prefix, limit, token)
        case ("list-uploads", prefix, limit, token):
            return state, _list_uploads(state, prefix, limit, token)
        case ("create-upload", key, content_type, metadata):
            return _create_upload(state, key, content_type, metadata)
        case ("upload-part", key, upload, number, body):
            return _upload_part(state, key, upload, number, body)
        case ("complete-upload", key, upload, parts, when):
            return _complete_upload(state, key, upload, parts, when)
        case ("abort-upload", key, upload):
            return _abort_upload(state, key, upload)
    raise ValueError(f"{operation!r} is no operation on a store")


def fingerprint(body: bytes) -> str:
    """The ETag of an object put in one piece."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def fingerprint_of_parts(etags: tuple[str, ...]) -> str:
    """The ETag of an object completed from parts: never that of the same bytes in one piece."""
    return f"{fingerprint(bytes.fromhex(''.join(etags)))}-{len(etags)}"


# Objects.


def _put(
    state: State, key: str, when: When, etag: str, body: bytes, content_type: str, metadata: Metadata
) -> tuple[State, Answer]:
    _, outcome = on_key(state.standing(key), ("write", when, etag))
    if outcome != "done":
        return state, (outcome,)
    state, write = _add(state, key, Write(0, etag, body, content_type, metadata))
    return state, ("done", etag, state.version(write))


def _add(state: State, key: str, write: Write) -> tuple[State, Write]:
    """Let `write` stand at the key, above what stood there when versions are kept."""
    state = replace(state, count=state.count + 1)
    write = replace(write, number=state.count)
    below = state.writes(key) if state.versioned else ()
    return state.with_writes(key, (*below, write)), write


def _find(state: State, key: str, version: int) -> Write | None:
    """The object asked for; delete markers cannot be read."""
    if not version:
        return state.current(key)
    found = [write for write in state.writes(key) if write.number == version and not write.marker]
    return found[0] if found else None


def _get(
    state: State,
    key: str,
    span: tuple[int, int | None],
    only_if: str | None,
    unless: str | None,
    version: int,
) -> Answer:
    if version and not state.versioned:
        return ("unsupported",)
    write = _find(state, key, version)
    outcome = reading(write.etag if write else None, only_if, unless)
    if write is None or outcome != "done":
        return (outcome,)
    if span == (0, None):
        return "done", write.body, _info(state, key, write)
    if span[0] >= len(write.body):
        return ("past-end",)
    return "done", write.body[span[0] : span[1]], _info(state, key, write)


def _head(state: State, key: str, version: int) -> Answer:
    if version and not state.versioned:
        return ("unsupported",)
    write = _find(state, key, version)
    return ("missing",) if write is None else ("done", _info(state, key, write))


def _info(state: State, key: str, write: Write) -> tuple[Any, ...]:
    version = state.version(write)
    return key, write.etag, len(write.body), version, write.content_type, write.metadata


def _delete(state: State, key: str, when: When) -> tuple[State, Answer]:
    """Deleting what is not there is done; where versions are kept it even leaves a marker."""
    _, outcome = on_key(state.standing(key), ("delete", when))
    if outcome != "done":
        return state, (outcome,)
    if not state.versioned:
        return state.with_writes(key, ()), ("done", 0, False)
    state, marker = _add(state, key, Write(0, marker=True))
    return state, ("done", marker.number, True)


def _delete_version(state: State, key: str, version: int) -> tuple[State, Answer]:
    """Removes one version for good, be it there or not; what was below may come to stand."""
    if not state.versioned:
        return state, ("unsupported",)
    writes = state.writes(key)
    marker = any(write.marker for write in writes if write.number == version)
    left = tuple(write for write in writes if write.number != version)
    return state.with_writes(key, left), ("done", version, marker)


# Listings. The entries of a listing are in order of their names, and a page is what comes after the token.


def _list(state: State, prefix: str, after: str, delimiter: str, limit: int, token: str | None) -> Answer:
    entries: dict[str, tuple[Any, ...] | None] = {}
    for key, _ in state.keys:
        write = state.current(key)
        if write is not None and key.startswith(prefix) and key > after:
            group = _group(key, prefix, delimiter)
            entries[group or key] = None if group else (key, write.etag, len(write.body))
    names = [name for name in entries if token is None or name > token]
    page = names[:limit]
    objects = tuple(entry for entry in map(entries.__getitem__, page) if entry is not None)
    prefixes = tuple(name for name in page if entries[name] is None)
    return "done", objects, prefixes, page[-1] if len(names) > limit else None


def _group(key: str, prefix: str, delimiter: str) -> str:
    """What stands for the key in a listing by groups: all up to the first delimiter behind the prefix."""
    head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
    return prefix + head + found if found else ""


def _list_versions(state: State, prefix: str, limit: int, token: tuple[str, int] | None) -> Answer:
    """By key, and the newest first."""
    if not state.versioned:
        return ("unsupported",)
    rows = [
        (key, write.number, write is writes[-1], write.marker, write.etag, len(write.body))
        for key, writes in state.keys
        for write in reversed(writes)
        if key.startswith(prefix)
        and (token is None or key > token[0] or (key == token[0] and write.number < token[1]))
    ]
    page = tuple(rows[:limit])
    return "done", page, page[-1][:2] if len(rows) > limit else None


def _list_uploads(state: State, prefix: str, limit: int, token: tuple[str, int] | None) -> Answer:
    """By key, and the oldest first."""
    rows = sorted(
        (upload.key, upload.number)
        for upload in state.uploads
        if upload.key.startswith(prefix) and (token is None or (upload.key, upload.number) > token)
    )
    page = tuple(rows[:limit])
    return "done", page, page[-1] if len(rows) > limit else None


# Multipart uploads.


def _create_upload(state: State, key: str, content_type: str, metadata: Metadata) -> tuple[State, Answer]:
    current = state.current(key)
    number = state.count + 1
    upload = Upload(number, key, content_type, metadata, current.number if current else 0)
    return replace(state, count=number, uploads=(*state.uploads, upload)), ("done", number)


def _upload_of(state: State, key: str, number: int) -> Upload | None:
    found = [upload for upload in state.uploads if (upload.key, upload.number) == (key, number)]
    return found[0] if found else None


def _without(state: State, upload: Upload) -> State:
    return replace(state, uploads=tuple(other for other in state.uploads if other is not upload))


def _upload_part(state: State, key: str, number: int, part: int, body: bytes) -> tuple[State, Answer]:
    upload = _upload_of(state, key, number)
    if upload is None:
        return state, ("gone",)
    etag = fingerprint(body)
    parts = (*(other for other in upload.parts if other[0] != part), (part, etag, body))
    state = _without(state, upload)
    changed = replace(upload, parts=tuple(sorted(parts)))
    return replace(state, uploads=(*state.uploads, changed)), ("done", etag)


def _complete_upload(
    state: State, key: str, number: int, named: tuple[tuple[int, str], ...], when: When
) -> tuple[State, Answer]:
    upload = _upload_of(state, key, number)
    if upload is None:
        return state, ("gone",)
    bodies = {(part, etag): body for part, etag, body in upload.parts}
    if any(part not in bodies for part in named):
        return state, ("misuse",)
    if any(len(bodies[part]) < state.part_bytes_min for part in named[:-1]):
        return state, ("misuse",)
    refused = refusal(state.standing(key), when) or _outrun(state, upload, when)
    if refused:
        return state, (refused,)
    etag = fingerprint_of_parts(tuple(etag for _, etag in named))
    body = b"".join(bodies[part] for part in named)
    anyway: When = ("anything",)
    return _put(_without(state, upload), key, anyway, etag, body, upload.content_type, upload.metadata)


def _outrun(state: State, upload: Upload, when: When) -> str:
    """Conditional completion remembers what stood there when the upload was created.

    Create-only: what stood then and was deleted since is a conflict, for this upload for good. If-match:
    any write since is a conflict, even of the same bytes. What is not recorded of S3 (a version removed
    since, so that an older one stands there again) takes the stricter answer.
    """
    current = state.current(upload.key)
    same = (current.number if current else 0) == upload.stood
    return "" if same or when == ("anything",) else "conflict"


def _abort_upload(state: State, key: str, number: int) -> tuple[State, Answer]:
    upload = _upload_of(state, key, number)
    return (state, ("gone",)) if upload is None else (_without(state, upload), ("done",))
