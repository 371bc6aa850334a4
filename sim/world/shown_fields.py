"""The fields of a body that pictures show, for programs that name none: the state that it stands for."""

import json
from typing import Any

FIRST = (
    *("state", "status", "phase", "owner", "holder", "leader", "by", "who", "attempt", "attempts", "epoch"),
    *("term", "version", "seq", "number", "cursor", "count", "value", "complete", "expires", "until", "id"),
)
"""Names of fields that say most, in this order."""
FIELDS_MAX, LENGTH_MAX, TEXT_MAX = 4, 18, 24


def shown_fields(key: str, body: bytes) -> str:
    """Return words `name=value`, sorted by name, as trace fields are."""
    del key
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    return " ".join(sorted(f"{name}={_word(value)}" for name, value in _chosen(found)))


def _chosen(found: Any) -> list[tuple[str, Any]]:
    if isinstance(found, dict):
        plain = {str(name): value for name, value in found.items() if _is_plain(str(name), value)}
        order = {name: at for at, name in enumerate(FIRST)}
        names = sorted(plain, key=lambda name: order.get(name.lower(), len(order)))
        return [(name, plain[name]) for name in names[:FIELDS_MAX]]
    if isinstance(found, list):
        short = [*map(_word, found)]
        return [("items", ",".join(short) if len(",".join(short)) <= LENGTH_MAX else f"{len(found)}")]
    if isinstance(found, str) and len(found) > TEXT_MAX:
        return []
    return [("body", found)] if found != "" else []


def _is_plain(name: str, value: Any) -> bool:
    return name.isidentifier() and isinstance(value, str | int | float | bool | None)


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    text = "_".join(text.split()) or '""'
    return text if len(text) <= LENGTH_MAX else f"{text[: LENGTH_MAX - 1]}…"
