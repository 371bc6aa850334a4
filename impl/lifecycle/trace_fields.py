"""What a trace of a worker shows of the bodies that it writes: see `properties/lifecycle/refinement`."""

import json

from fencepost.impl.lifecycle.documents import CURSORS, FOLDER
from fencepost.impl.lifecycle.policy import Mode


def trace_fields(key: str, body: bytes) -> str:
    place = key.partition(FOLDER)[2]
    if not place:
        return ""
    try:
        fields = json.loads(body)
    except ValueError:
        return ""
    if key.partition(CURSORS)[2]:
        generation, leased = ("even", "odd")[fields["generation"] % 2], int("epoch" in fields)
        return f"generation={generation} serves={len(fields.get('serves', []))} leased={leased}"
    if place.startswith("buckets/"):
        walk = fields["walk"]
        driven = sum(mode == Mode.EVENT_DRIVEN.value for mode, _, _ in fields["actions"].values())
        return f"walk={int(walk is not None)} beginning={len(walk[1]) if walk else 0} driven={driven}"
    return f"failed={'again' if fields['tries'] > 1 else 'first'}" if place.startswith("retries/") else ""
