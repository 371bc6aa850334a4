"""Objects: put, get, head, delete, and what versions make of them."""

import hashlib
from dataclasses import replace
from typing import Any

from fencepost.model.store_reference.bucket import Answer, Metadata, State, Write
from fencepost.model.store_reference.one_key import When, on_key, reading


def put(
    state: State, key: str, when: When, etag: str, body: bytes, content_type: str, metadata: Metadata
) -> tuple[State, Answer]:
    _, outcome = on_key(state.standing(key), ("write", when, etag))
    if outcome != "done":
        return state, (outcome,)
    state, write = _add(state, key, Write(0, etag, body, content_type, metadata))
    return state, ("done", etag, state.version(write))


def _add(state: State, key: str, write: Write) -> tuple[State, Write]:
    """Put `write` at the key, above earlier versions if these are kept."""
    state = replace(state, count=state.count + 1)
    write = replace(write, number=state.count)
    below = state.writes(key) if state.versioned else ()
    return state.with_writes(key, (*below, write)), write


def _find(state: State, key: str, version: int) -> Write | None:
    """The object of a request; delete markers cannot be read."""
    if not version:
        return state.current(key)
    found = [write for write in state.writes(key) if write.number == version and not write.marker]
    return found[0] if found else None


def get(
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


def head(state: State, key: str, version: int) -> Answer:
    if version and not state.versioned:
        return ("unsupported",)
    write = _find(state, key, version)
    return ("missing",) if write is None else ("done", _info(state, key, write))


def _info(state: State, key: str, write: Write) -> tuple[Any, ...]:
    version = state.version(write)
    return key, write.etag, len(write.body), version, write.content_type, write.metadata


def delete(state: State, key: str, when: When) -> tuple[State, Answer]:
    """Deleting what is not there is done; where versions are kept it even leaves a marker."""
    _, outcome = on_key(state.standing(key), ("delete", when))
    if outcome != "done":
        return state, (outcome,)
    if not state.versioned:
        return state.with_writes(key, ()), ("done", 0, False)
    state, marker = _add(state, key, Write(0, marker=True))
    return state, ("done", marker.number, True)


def delete_version(state: State, key: str, version: int) -> tuple[State, Answer]:
    """Remove one version for good, if it is there; the one below may become the object."""
    if not state.versioned:
        return state, ("unsupported",)
    writes = state.writes(key)
    marker = any(write.marker for write in writes if write.number == version)
    left = tuple(write for write in writes if write.number != version)
    return state.with_writes(key, left), ("done", version, marker)


def fingerprint(body: bytes) -> str:
    """The ETag of an object put in one piece."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
