"""Reading of bodies: which names they hold, which records, and what an update adds to them."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

WORDS = re.compile(r"[^\s,;\"'\[\]{}()<>=]+")


@lru_cache(4096)
def parsed(body: bytes) -> Any:
    """Return the JSON of a body, else its text; None for what is neither."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


@lru_cache(4096)
def names_in(body: bytes) -> frozenset[str]:
    """Return every text and number in a body: the names by which it may refer to other objects."""
    found = parsed(body)
    if isinstance(found, str):
        return frozenset([found.strip(), *WORDS.findall(found)])
    return frozenset(_scalars(found))


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _scalars(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _scalars(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def records_in(body: bytes) -> list[str]:
    """Return the records of a body that is a list, as text that can be compared; else none."""
    found = parsed(body)
    if not isinstance(found, list):
        return []
    return [json.dumps(one, sort_keys=True) for one in found]


def field_of(body: bytes, name: str) -> Any:
    """Return a field of a JSON object; None where there is none."""
    found = parsed(body)
    return found.get(name) if isinstance(found, dict) else None


MISSING = object()


def lost_changes(base: bytes | None, theirs: bytes, mine: bytes, *, additions: bool) -> str:
    """Return what `theirs` changed of `base` and `mine` does not have, in words; empty if there is nothing.

    With `additions` only what was added to lists and objects counts. A body that is no JSON is one value.
    """
    start = MISSING if base is None else parsed(base)
    return _lost(start, parsed(theirs), parsed(mine), "", additions=additions)


def _lost(base: Any, theirs: Any, mine: Any, path: str, *, additions: bool) -> str:
    if theirs == base:
        return ""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        old = base if isinstance(base, dict) else {}
        for name, value in theirs.items():
            here = f"{path}.{name}" if path else str(name)
            if name not in old and name not in mine:
                return f"the new {here} = {_short(value)}"
            if name in mine:
                before = old.get(name, MISSING)
                inner = _lost(before, value, mine[name], here, additions=additions)
                if inner:
                    return inner
        return ""
    if isinstance(theirs, list) and isinstance(mine, list):
        known = base if isinstance(base, list) else []
        gone = [one for one in theirs if one not in known and one not in mine]
        if gone:
            return f"the new {_short(gone[0])}{f' of {path}' if path else ''}"
        return ""
    if additions:
        return ""
    if theirs == mine:
        # Two who count from the same number have counted once.
        counted = isinstance(theirs, int) and isinstance(base, int) and not isinstance(theirs, bool)
        return f"{path or 'the number'} counted from {base} to {theirs} twice" if counted else ""
    return f"{path} = {_short(theirs)}" if path else _short(theirs)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
