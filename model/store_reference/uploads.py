"""Multipart uploads: parts come in any order and again, and completing puts an object."""

from dataclasses import replace

from fencepost.model.store_reference.bucket import Answer, Metadata, State, Upload
from fencepost.model.store_reference.objects import fingerprint, put
from fencepost.model.store_reference.one_key import When, refusal


def create_upload(state: State, key: str, content_type: str, metadata: Metadata) -> tuple[State, Answer]:
    current = state.current(key)
    number = state.count + 1
    upload = Upload(number, key, content_type, metadata, current.number if current else 0)
    return replace(state, count=number, uploads=(*state.uploads, upload)), ("done", number)


def _upload_of(state: State, key: str, number: int) -> Upload | None:
    found = [upload for upload in state.uploads if (upload.key, upload.number) == (key, number)]
    return found[0] if found else None


def _without(state: State, upload: Upload) -> State:
    return replace(state, uploads=tuple(other for other in state.uploads if other is not upload))


def upload_part(state: State, key: str, number: int, part: int, body: bytes) -> tuple[State, Answer]:
    upload = _upload_of(state, key, number)
    if upload is None:
        return state, ("gone",)
    etag = fingerprint(body)
    parts = (*(other for other in upload.parts if other[0] != part), (part, etag, body))
    state = _without(state, upload)
    changed = replace(upload, parts=tuple(sorted(parts)))
    return replace(state, uploads=(*state.uploads, changed)), ("done", etag)


def complete_upload(
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
    return put(_without(state, upload), key, anyway, etag, body, upload.content_type, upload.metadata)


def _outrun(state: State, upload: Upload, when: When) -> str:
    """Conditional completion remembers the object at the key when the upload was created.

    Create-only: an object that was there then and was deleted since is a conflict, for this upload for good.
    If-match: any write since is a conflict, even of the same bytes. A case that is not recorded of S3 (a
    version was removed since, so that an older one is the object again) takes the stricter answer.
    """
    current = state.current(upload.key)
    same = (current.number if current else 0) == upload.stood
    return "" if same or when == ("anything",) else "conflict"


def abort_upload(state: State, key: str, number: int) -> tuple[State, Answer]:
    upload = _upload_of(state, key, number)
    return (state, ("gone",)) if upload is None else (_without(state, upload), ("done",))


def fingerprint_of_parts(etags: tuple[str, ...]) -> str:
    """The ETag of an object completed from parts: never that of the same bytes in one piece."""
    return f"{fingerprint(bytes.fromhex(''.join(etags)))}-{len(etags)}"
