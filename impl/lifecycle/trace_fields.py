"""The trace fields of the documents that a worker writes: see `properties/lifecycle/refinement`.

    cursors/...    epoch=3 generation=4 leased=1 names=1f0c position=17-3 reach=17 revision=9 serves=2 stream=
    buckets/...    beginning=1 begins=1f0c began=17 driven=2 drives=88a1 epoch=3 left=0009f3 revision=9 walk=1
    retries/...    failing=I revision=2 tries=2
    blockers/...   blocked=I
    pending/...    revision=1, as every other document that has one

Sets are shown by their sizes (`serves`, `beginning`, `driven`) and fingerprints (`names`, `begins`,
`drives`). `reach` is the time of the position and the delay of the cursor: the earliest time at which a walk
may have begun for which the cursor is early enough. `left` is the length of the ranges of keys that a walk
has not done, in hexadecimal digits: a key is a number of so many bytes.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from fencepost.impl.lifecycle.documents import CURSORS, FOLDER
from fencepost.impl.lifecycle.policy import Mode

KEY_BYTES = 16
"""The length of the part of a key that counts in a trace."""


def trace_fields(key: str, body: bytes) -> str:
    """Return the trace fields of a document; none for an object that is no document of a lifecycle."""
    _, folder, place = key.partition(FOLDER)
    if not place:
        return ""
    try:
        fields = json.loads(body)
    except ValueError:
        return ""
    kind = place.partition("/")[0]
    shown: dict[str, object] = {}
    if kind == "cursors":
        shown = _of_cursor(f"{folder}{place}", fields)
    elif kind == "buckets":
        shown = _of_bucket(fields)
    elif kind == "retries":
        shown = {"tries": fields["tries"], "failing": quote(fields["item"], safe="")}
    elif kind == "blockers":
        shown = {"blocked": quote(fields["item"], safe="")}
    if "revision" in fields:
        shown["revision"] = fields["revision"]
    return " ".join(f"{name}={value}" for name, value in sorted(shown.items()))


def _of_cursor(key: str, fields: Mapping[str, Any]) -> dict[str, object]:
    delay = key.removeprefix(CURSORS).split("/")[1]
    position, names = fields["position"], fields.get("serves", [])
    return {
        "serves": len(names),
        "names": fingerprint(names),
        "position": position or "-",
        "reach": int(position[:20] or 0) + (int(delay) if delay.isdecimal() else 0),
        "generation": fields["generation"],
        "epoch": fields.get("epoch", 0),
        "leased": int("epoch" in fields),
        "stream": quote(key, safe=""),
    }


def _of_bucket(fields: Mapping[str, Any]) -> dict[str, object]:
    driven = [key for key, (mode, _, _) in fields["actions"].items() if mode == Mode.EVENT_DRIVEN.value]
    began_ns, beginning, parts = fields["walk"] or (None, [], [])
    shown: dict[str, object] = {"walk": int(fields["walk"] is not None), "beginning": len(beginning)}
    if began_ns is not None:
        shown |= {"begins": fingerprint(beginning), "began": began_ns}
        left = sum(_end(until) - _number(after) for _, until, after, _ in parts)
        shown["left"] = f"{left:0{2 * KEY_BYTES + 2}x}"
    shown |= {"driven": len(driven), "drives": fingerprint(driven), "epoch": fields.get("epoch", 0)}
    return shown


def _number(key: str) -> int:
    return int.from_bytes(key.encode()[:KEY_BYTES].ljust(KEY_BYTES, b"\0"))


def _end(until: str) -> int:
    return _number(until) if until else 256**KEY_BYTES


def fingerprint(names: Iterable[str]) -> str:
    """Return a short text that is equal for equal sets, and hardly ever for others."""
    return hashlib.sha256(json.dumps(sorted(names)).encode()).hexdigest()[:8]
