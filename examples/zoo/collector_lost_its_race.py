"""The collector fails to take fragments out of the manifest, and deletes them all the same.

Counterexample (chroma#4972): the collector reads the manifest of a log, decides which fragments are no
longer needed, writes a manifest without them on the condition that it is unchanged, and deletes them. A
writer is faster. The write fails with "contention", contention is nothing unusual, and the collector goes
on to the deletes. The manifest lists fragments that are gone.

Fixed: delete only what the manifest, read again, does not list; until then try again. Why that is enough:
fragments have names of their own and enter a manifest once, and every writer starts from the manifest that
it replaces, so what was taken out can never come back.

Tempting, but incorrect: delete first, so that a crash leaves no garbage behind. It leaves a manifest that
lists what is gone.
"""

import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFEST = "log/MANIFEST"


def fragment(number: int) -> str:
    return f"log/fragment-{number}"


def read(storage: AnyStorage) -> tuple[list[int], str]:
    found = storage.get(MANIFEST)
    assert found is not None
    return json.loads(found[0]), found[1]


def swap(storage: AnyStorage, fragments: list[int], etag: str) -> bool:
    return storage.replace(MANIFEST, json.dumps(fragments).encode(), etag)


def write(storage: AnyStorage) -> None:
    """A writer, whose fragment 3 is stored already."""
    fragments, etag = read(storage)
    while not swap(storage, [*fragments, 3], etag):
        fragments, etag = read(storage)


def collect(storage: AnyStorage) -> None:
    fragments, etag = read(storage)
    garbage = [number for number in fragments if number < 2]
    swap(storage, [number for number in fragments if number >= 2], etag)
    for number in garbage:
        storage.delete(fragment(number))


def collect_until_installed(storage: AnyStorage) -> None:
    while True:
        try:
            fragments, etag = read(storage)
            if 1 not in fragments:
                break
            swap(storage, [number for number in fragments if number >= 2], etag)
        except Unknown:
            continue
    storage.delete(fragment(1))


def collect_deleting_first(storage: AnyStorage) -> None:
    fragments, etag = read(storage)
    storage.delete(fragment(1))
    while not swap(storage, [number for number in fragments if number >= 2], etag):
        fragments, etag = read(storage)


# Properties.


def fragments_there(view: View) -> str | None:
    listed: list[int] = json.loads(view.get(f"zoo/{MANIFEST}") or b"[]")
    gone = [fragment(number) for number in listed if view.get(f"zoo/{fragment(number)}") is None]
    return f"the manifest lists {' and '.join(gone)}, which is gone" if gone else None


def collected(view: View) -> bool:
    return view.get(f"zoo/{fragment(1)}") is None


def _program(world: World, storage: AnyStorage, collect: Callable[[AnyStorage], None]) -> None:
    for number in (1, 2, 3):
        storage.put(fragment(number), b"records")
    storage.put(MANIFEST, b"[1, 2]")
    world.spawn(write, storage, name="writer", restart=False, may_raise=(Unknown,))
    world.spawn(collect, storage, name="collector", restart=False, may_raise=(Unknown,))
    world.always("every fragment of the manifest is there", fragments_there)
    world.sometimes("garbage is collected", collected)


broken, broken_boto3 = on_both(_program, collect)
fixed, fixed_boto3 = on_both(_program, collect_until_installed)
tempting_delete_first, _ = on_both(_program, collect_deleting_first)
