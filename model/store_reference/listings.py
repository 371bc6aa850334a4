"""Listings: the entries are in order of their names, and a page is what comes after the token."""

from typing import Any

from fencepost.model.store_reference.bucket import Answer, State


def list_objects(
    state: State, prefix: str, after: str, delimiter: str, limit: int, token: str | None
) -> Answer:
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
    """The group of a key in a listing: all up to the first delimiter behind the prefix."""
    head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
    return prefix + head + found if found else ""


def list_versions(state: State, prefix: str, limit: int, token: tuple[str, int] | None) -> Answer:
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


def list_uploads(state: State, prefix: str, limit: int, token: tuple[str, int] | None) -> Answer:
    """By key, and the oldest first."""
    rows = sorted(
        (upload.key, upload.number)
        for upload in state.uploads
        if upload.key.startswith(prefix) and (token is None or (upload.key, upload.number) > token)
    )
    page = tuple(rows[:limit])
    return "done", page, page[-1] if len(rows) > limit else None
