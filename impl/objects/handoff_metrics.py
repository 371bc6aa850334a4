"""The metrics of handoffs, which the supervisor counts and its servers show."""

import json
from collections.abc import Iterator
from pathlib import Path

from fencepost.impl.http.metrics import Family
from fencepost.impl.objects.owner import HANDOFFS


def families(root: str) -> Iterator[Family]:
    """Yield the metrics of the handoffs of a directory, if there were any."""
    try:
        found = json.loads(Path(root, HANDOFFS).read_text())
        outcomes: dict[tuple[str, ...], float] = {
            (outcome,): float(found[outcome]) for outcome in ("done", "failed")
        }
        seconds = float(found["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    text = "Handoffs since the supervisor began, by outcome."
    yield Family("fencepost_objects_handoffs_total", text, ("outcome",), outcomes)
    text = "The time that the last handoff took; nothing was accepted for a part of it."
    yield Family("fencepost_objects_handoff_seconds", text, (), {(): seconds})
