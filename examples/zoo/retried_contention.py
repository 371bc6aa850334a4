"""A lost race is retried like a passing fault, and the winner's entry disappears.

Counterexample (chroma#4888): the storage layer repeats what fails, and a failed precondition is a failure
like any other. But the manifest to be written was computed before the race was lost. Here the repetition
takes care to use the ETag of the moment, so that the condition holds at last: what the winner had added is
not in it.

Fixed: a failed precondition leaves the storage layer, and goes back to where the manifest is computed. Why
that is enough: every manifest that is written then contains all of the one that it replaces, and an entry
that is there already is not added again, so a lost reply does no harm.

Tempting, but incorrect: let the loser go on at once when the manifest holds its entry, and else write what
it has. It looks only for its own entry, not for the other's.
"""

import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFEST = "log/manifest/MANIFEST"


def with_entry(body: bytes, entry: str) -> bytes:
    entries: list[str] = json.loads(body)
    return json.dumps(entries if entry in entries else [*entries, entry]).encode()


def read(storage: AnyStorage) -> tuple[bytes, str]:
    found = storage.get(MANIFEST)
    assert found is not None
    return found


def put_with_retries(storage: AnyStorage, body: bytes, etag: str) -> None:
    """Write the manifest, whatever gets in the way."""
    while not storage.replace(MANIFEST, body, etag):
        _, etag = read(storage)


def append(storage: AnyStorage, entry: str) -> None:
    body, etag = read(storage)
    put_with_retries(storage, with_entry(body, entry), etag)


def append_looking_for_own(storage: AnyStorage, entry: str) -> None:
    body, etag = read(storage)
    new = with_entry(body, entry)
    while not storage.replace(MANIFEST, new, etag):
        body, etag = read(storage)
        if entry in json.loads(body):
            return


def append_from_what_is(storage: AnyStorage, entry: str) -> None:
    while True:
        try:
            body, etag = read(storage)
            if storage.replace(MANIFEST, with_entry(body, entry), etag):
                return
        except Unknown:
            continue


# Properties.

Append = Callable[[AnyStorage, str], None]


def write(world: World, storage: AnyStorage, append: Append) -> None:
    append(storage, world.me)
    world.note("appended", world.me)


def nothing_lost(view: View) -> str | None:
    entries = json.loads(view.get(f"zoo/{MANIFEST}") or b"[]")
    lost = [entry for entry in view.notes("appended") if entry not in entries]
    return f"the entry of {' and '.join(lost)} was appended, and the manifest is {entries}" if lost else None


def each_once(view: View) -> bool:
    entries = json.loads(view.get(f"zoo/{MANIFEST}") or b"[]")
    return len(entries) == len(set(entries))


def _program(world: World, storage: AnyStorage, append: Append) -> None:
    storage.put(MANIFEST, b"[]")
    for name in ("ann", "bob"):
        world.spawn(write, world, storage, append, name=name, restart=False, may_raise=(Unknown,))
    world.always("no appended entry is lost", nothing_lost)
    world.always("no entry is there twice", each_once)


broken, broken_boto3 = on_both(_program, append)
fixed, fixed_boto3 = on_both(_program, append_from_what_is)
tempting_look_for_own, _ = on_both(_program, append_looking_for_own)
