"""Points as people write them: one JSON object a line.

    {"name": "cpu.load", "labels": {"host": "a"}, "unix_ns": 1760000000000000000, "value": 0.5}

Without `unix_ns` it is now; `labels` may be missing.
"""

import json
from collections.abc import Iterable

from fencepost.commands.exit_codes import BadRequest
from fencepost.impl.ingest import Identity, Point, encode, read

FIELDS = ("name", "labels", "unix_ns", "value")
_ANY = Identity("any", "any", 0, 0)


def read_points(lines: Iterable[bytes], source: str, now_ns: int) -> list[Point]:
    """All points, or `BadRequest` with the line that is none. Each is tried in a frame, so that what is wrong
    with a point is said now and not by a collector later."""
    found: list[Point] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            point = _point(json.loads(line), now_ns)
            read(encode(_ANY, [point], compress=False))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise BadRequest(f"line {number} of {source} is no point: {error}; nothing was added") from None
        found.append(point)
    return found


def _point(said: object, now_ns: int) -> Point:
    if not isinstance(said, dict):
        raise TypeError('expected an object like {"name": "cpu.load", "value": 0.5}')
    unknown = sorted(set(said) - set(FIELDS))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!a}; known are {', '.join(FIELDS)}")
    name, labels, time = said.get("name"), said.get("labels", {}), said.get("unix_ns", now_ns)
    value = said.get("value")
    if not isinstance(name, str):
        raise TypeError("name is missing or not text")
    if not isinstance(labels, dict) or not all(isinstance(label, str) for label in labels.values()):
        raise TypeError("labels must be an object with texts")
    if not isinstance(time, int) or isinstance(time, bool):
        raise TypeError("unix_ns must be a whole number")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("value is missing or not a number")
    return Point(name, labels, time, float(value))
