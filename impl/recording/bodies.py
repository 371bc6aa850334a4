"""The parts of bodies that a recorder may keep: named fields of JSON documents, of chosen keys only.

    json_fields({r"claims/.+": ("state", "attempt")})      state=claimed attempt=2
    json_fields({r"claims/.+": ()})                        json={"attempt":2,"state":"claimed"}

Nothing else of a body is ever written. A field that is not there is left out, and so is everything of a
body that is no JSON object. Spaces in values are written as %20, a percent sign as %25.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.store.events import TraceFields

BODY_BYTES_MAX = 64 << 10
"""The largest body that is read for its fields."""
WHOLE = "json"
"""The trace field that holds a whole document."""


def json_fields(chosen: Mapping[str, Sequence[str]]) -> TraceFields:
    """Return a function that reads the fields of JSON bodies, by patterns of their whole keys.

    No names mean the whole document, as one field. Raises `ValueError` for a pattern or a name that cannot
    be.
    """
    rules = []
    for pattern, names in chosen.items():
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no pattern of keys: {error}") from None
        for name in names:
            if not re.fullmatch(r"[^\s=]+", name):
                raise ValueError(f"{name!r} cannot be the name of a field: leave out spaces and '='")
        rules.append((compiled, tuple(sorted(names))))

    def read(key: str, body: bytes) -> str:
        names = next((names for pattern, names in rules if pattern.fullmatch(key)), None)
        if names is None or len(body) > BODY_BYTES_MAX:
            return ""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(document, dict):
            return ""
        if not names:
            return f"{WHOLE}={_word(document)}"
        return " ".join(f"{name}={_word(document[name])}" for name in names if name in document)

    return read


def _word(value: Any) -> str:
    """A value without spaces."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    )
    return re.sub(r"[\s%]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)
