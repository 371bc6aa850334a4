"""Two winners of one marker.

Counterexample (dbtrail#929, #806; Quickwit's documentation warns of the same for its file-backed
metastore): an agent that starts looks whether the marker of the archive is there, and writes its own if
not. Two that start together both see nothing and both write. The last one stays; the first goes on under a
key that no reader will ever look for.

Fixed: create the marker only if absent, and whatever the answer, read it and use its content. Why that is
enough: the marker is created once and never changed, so everybody reads the same.

Tempting, but incorrect: write it, read it back, and use its content. Another may write behind the reading.
"""

from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MARKER = "archive/_partition_key"


def read(storage: AnyStorage) -> str | None:
    found = storage.get(MARKER)
    return None if found is None else found[0].decode()


def ensure(storage: AnyStorage, mine: str) -> str:
    """The partition key to write under."""
    standing = read(storage)
    if standing is not None:
        return standing
    storage.put(MARKER, mine.encode())
    return mine


def ensure_and_verify(storage: AnyStorage, mine: str) -> str:
    while (standing := read(storage)) is None:
        storage.put(MARKER, mine.encode())
    return standing


def ensure_created(storage: AnyStorage, mine: str) -> str:
    while (standing := read(storage)) is None:
        storage.create(MARKER, mine.encode())
    return standing


Ensure = Callable[[AnyStorage, str], str]


def agent(world: World, storage: AnyStorage, ensure: Ensure) -> None:
    while True:
        try:
            key = ensure(storage, f"server={world.me}")
        except Unknown:
            continue
        world.note("writes under", key)
        return


# Properties.


def one_key(view: View) -> str | None:
    keys = sorted(set(view.notes("writes under")))
    return f"agents write under {' and '.join(keys)}" if len(keys) > 1 else None


def _program(world: World, storage: AnyStorage, ensure: Ensure) -> None:
    for name in ("ann", "bob"):
        world.spawn(agent, world, storage, ensure, name=name)
    world.always("all write under one key", one_key)


broken, broken_boto3 = on_both(_program, ensure)
fixed, fixed_boto3 = on_both(_program, ensure_created)
tempting_verify, _ = on_both(_program, ensure_and_verify)
