"""Parallel workers rewrite one manifest, and its cursor goes back.

Counterexample (arkflow#1192): each worker that has stored a segment reads the manifest, moves the cursor
on, and writes the manifest back without a condition. One that has read early writes late: the cursor is
where it was before the other moved it, and after a restart events are processed that had been processed
before.

Fixed: write on the condition that the manifest is what was read, and start again from what it is now. Why
that is enough: a manifest is only ever replaced by one that was computed from it, so the cursor only rises.
An attempt whose reply was lost is repeated from a fresh reading, which does nothing if it had landed.

Tempting, but incorrect: keep the manifest that was computed and only refresh the token: see
`retried_contention`.
"""

import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFEST = "stream/manifest.json"
EMPTY = b'{"cursor": 0, "segments": []}'


def sealed(body: bytes, segment: int) -> bytes:
    """The manifest after one more segment."""
    manifest = json.loads(body)
    manifest["cursor"] = max(manifest["cursor"], segment * 100)
    manifest["segments"] = sorted({*manifest["segments"], segment})
    return json.dumps(manifest).encode()


def read(storage: AnyStorage) -> tuple[bytes, str]:
    found = storage.get(MANIFEST)
    assert found is not None
    return found


def seal(storage: AnyStorage, segment: int) -> None:
    storage.put(MANIFEST, sealed(read(storage)[0], segment))


def seal_from_what_is(storage: AnyStorage, segment: int) -> None:
    while True:
        try:
            body, etag = read(storage)
            if storage.replace(MANIFEST, sealed(body, segment), etag):
                return
        except Unknown:
            continue


# Properties.

Seal = Callable[[AnyStorage, int], None]


def work(world: World, storage: AnyStorage, seal: Seal, segment: int) -> None:
    seal(storage, segment)
    world.note("sealed", segment)


def cursor_rises(view: View) -> str | None:
    manifest = json.loads(view.get(f"zoo/{MANIFEST}") or EMPTY)
    missing = [segment for segment in view.notes("sealed") if segment not in manifest["segments"]]
    if not missing:
        return None
    return f"segments {missing} were sealed, and the manifest is at {manifest['cursor']} without them"


def _program(world: World, storage: AnyStorage, seal: Seal) -> None:
    storage.put(MANIFEST, EMPTY)
    for segment in (1, 2):
        worker = f"worker-{segment}"
        world.spawn(work, world, storage, seal, segment, name=worker, restart=False, may_raise=(Unknown,))
    world.always("the cursor never goes back", cursor_rises)


broken, broken_boto3 = on_both(_program, seal)
fixed, fixed_boto3 = on_both(_program, seal_from_what_is)
