"""The collector deletes files that a compaction has just put into the manifest.

Counterexample (slatedb#1031, from #604 and #1029): files that no manifest lists are garbage, unless a
compaction is still writing them; so compactions publish which files are too young to be judged, and the
collector spares those. It reads the manifest, then this watermark. A compaction finishes between the two
and the next one begins: the manifest that was read does not list its file yet, the watermark that was read
does not protect it any more.

Fixed: the watermark is read first. Why that is enough: a compaction leaves the watermark where it is until
the next one raises it. So a file below the watermark that was read belongs to a compaction that had
finished by then, and the manifest that is read later lists it if any ever will.

Tempting, but incorrect: read it first, but take it away whenever nothing runs. A compaction begins after
"nothing runs" was read, and its file is in no manifest when the collector looks.
"""

import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFEST, WATERMARK = "manifest", "compactions"
IDLE = 1_000_000
"""Nothing runs: no file is too young."""


def file_name(number: int) -> str:
    return f"compacted/{number:04}.sst"


def numbers(body: bytes) -> list[int]:
    found: list[int] = json.loads(body)
    return found


def compact(storage: AnyStorage, idle: Callable[[AnyStorage], None]) -> None:
    """Two compactions: each replaces what the manifest lists by a new file."""
    for number in (2, 3):
        storage.put(WATERMARK, b"%d" % number)
        storage.create(file_name(number), b"rows")
        storage.put(MANIFEST, json.dumps([number]).encode())
        idle(storage)


def clear_watermark(storage: AnyStorage) -> None:
    storage.put(WATERMARK, b"%d" % IDLE)


def leave_watermark(storage: AnyStorage) -> None:
    """The next compaction raises it."""


def read_active(storage: AnyStorage) -> list[int]:
    manifest = storage.get(MANIFEST)
    assert manifest is not None
    return numbers(manifest[0])


def read_watermark(storage: AnyStorage) -> int:
    watermark = storage.get(WATERMARK)
    assert watermark is not None
    return int(watermark[0])


def delete_garbage(storage: AnyStorage, active: list[int], watermark: int) -> None:
    for key in storage.keys("compacted/"):
        number = int(key[-8:-4])
        if number not in active and number < watermark:
            storage.delete(key)


def collect_manifest_first(storage: AnyStorage) -> None:
    active = read_active(storage)
    watermark = read_watermark(storage)
    delete_garbage(storage, active, watermark)


def collect_watermark_first(storage: AnyStorage) -> None:
    watermark = read_watermark(storage)
    active = read_active(storage)
    delete_garbage(storage, active, watermark)


# Properties.


def files_there(view: View) -> str | None:
    listed = numbers(view.get(f"zoo/{MANIFEST}") or b"[]")
    gone = [file_name(number) for number in listed if view.get(f"zoo/{file_name(number)}") is None]
    return f"the manifest lists {' and '.join(gone)}, which is gone" if gone else None


def _program(
    world: World,
    storage: AnyStorage,
    collect: Callable[[AnyStorage], None],
    idle: Callable[[AnyStorage], None],
) -> None:
    storage.put(file_name(1), b"rows")
    storage.put(MANIFEST, b"[1]")
    storage.put(WATERMARK, b"1")
    idle(storage)
    world.spawn(compact, storage, idle, name="compactor", restart=False, may_raise=(Unknown,))
    world.spawn(collect, storage, name="collector", restart=False, may_raise=(Unknown,))
    world.always("every file of the manifest is there", files_there)
    world.sometimes("garbage is collected", lambda view: view.get(f"zoo/{file_name(1)}") is None)


broken, broken_boto3 = on_both(_program, collect_manifest_first, leave_watermark)
fixed, fixed_boto3 = on_both(_program, collect_watermark_first, leave_watermark)
tempting_no_watermark_when_idle, _ = on_both(_program, collect_watermark_first, clear_watermark)
