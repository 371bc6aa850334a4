"""Each change of a key's versions under a power loss anywhere: it happened or it did not, whatever survived.

If these fail, a version that was acknowledged is lost, or one that was removed returns beside its successor.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.files.attributes import Attributes, md5
from fencepost.impl.store.files.versions import Keep
from fencepost.impl.store.requests import ANYTHING, Outcome
from fencepost.sim.explore import audit
from fencepost.sim.world import Budget, View, World

POWER = Budget(crash=0, reply_lost=0, request_lost=0, pause=0, power_loss=1, restart=0)
Act = Callable[[FileStore], Outcome]


def put(store: FileStore, body: bytes, keep: Keep = Keep.ALL) -> Outcome:
    with store.incoming("k", ANYTHING, keep) as incoming:
        incoming.write(body)
        return incoming.publish(Attributes(md5(body))).outcome


def rows(store: FileStore) -> list[Any]:
    """What a client can see of a key, without the names of its versions."""
    found: list[Any] = []
    for row in store.versions("k", "", ("", ""), 1000).versions:
        with store.opened("k", row.version) as opened:
            found.append(
                (row.version == "null", row.latest, row.marker, opened and os.pread(opened.fd, 9, 0))
            )
    with store.opened("k") as current:
        return [*found, current and os.pread(current.fd, 9, 0)]


def remove(at: int) -> Act:
    def act(store: FileStore) -> Outcome:
        version = store.versions("k", "", ("", ""), 1000).versions[at].version
        return store.remove_version("k", version, lambda _: None).outcome

    return act


ACTS: dict[str, Act] = {
    "put": lambda store: put(store, b"3"),
    "put-null": lambda store: put(store, b"3", Keep.NULL),
    "delete": lambda store: store.delete_keeping("k", ANYTHING, Keep.ALL).outcome,
    "delete-null": lambda store: store.delete_keeping("k", ANYTHING, Keep.NULL).outcome,
    "remove-newest": remove(0),
    "remove-last": remove(-1),
}
BEFORE: dict[str, list[Act]] = {
    "versions": [lambda store: put(store, b"1"), lambda store: put(store, b"2")],
    "marker": [lambda store: put(store, b"1"), ACTS["delete"]],
    "null": [lambda store: put(store, b"1"), lambda store: put(store, b"n", Keep.NULL)],
}


class StepByStep(Disk):
    """The calls of the store, each by itself."""


class WithoutFolders(StepByStep):
    """No folder is flushed."""

    def fsync_folder(self, fd: int) -> None: ...


class WithoutFiles(StepByStep):
    """No content is flushed."""

    one_call = False

    def fsync(self, fd: int) -> None: ...


def reached(folder: Path, *acts: Act) -> list[Any]:
    with FileStore(folder, disk=StepByStep()) as store:
        assert {one(store) for one in acts} <= {Outcome.DONE}
        return rows(store)


def verdict(real: Path, before: str, act: str, profile: str = "strict", disk: type[Disk] = StepByStep) -> str:
    whole, not_begun = [*BEFORE[before], ACTS[act]], BEFORE[before]
    new = reached(real / "new", *whole), reached(real / "next", *whole, ACTS["put"])
    old = reached(real / "old", *not_begun), reached(real / "again", *not_begun, ACTS["put"])

    def program(world: World) -> None:
        world.share_nothing()
        # When a file was modified decides nothing here. With the clock the schedules are five times as many.
        world.configure(stamped=False, ticks=int(act == "put"))
        root = world.filesystem(profile=profile)
        reached(root / "s", *not_begun)

        def change() -> None:
            world.note("acknowledged", ACTS[act](FileStore(root / "s", disk=disk())).value)

        def look() -> None:
            store = FileStore(root / "s", disk=StepByStep())
            found = rows(store)
            put(store, b"3")
            world.note("found", (found, rows(store)))

        world.spawn(change, name="writer", restart=False)
        world.spawn(look, name="after", after_power_loss=True)
        allowed = {True: [new], False: [old, new]}

        def whole(view: View) -> bool:
            return all(one in allowed[bool(view.notes("acknowledged"))] for one in view.notes("found"))

        world.always("every version", whole)

    return audit(program, budget=POWER).verdict


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["strict", "ext4"])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("act", ACTS)
def test_a_change_happened_or_did_not(tmp_path: Path, before: str, act: str, profile: str) -> None:
    assert verdict(tmp_path, before, act, profile) == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "disk"),
    # A marker is empty, and its name says everything: flushing its file decides nothing.
    [("put", WithoutFolders), ("put", WithoutFiles), ("delete", WithoutFolders)],
)
def test_without_a_flush_a_version_is_lost(tmp_path: Path, act: str, disk: type[Disk]) -> None:
    assert verdict(tmp_path, "versions", act, disk=disk) == "violated"
