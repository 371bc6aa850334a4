"""A version of the manifest is created a second time, by a writer that believes it has committed.

Counterexample (SlateDB's RFC 26, slatedb#355): versions 1, 2, 3 of a manifest, each created only if absent;
the highest counts. A writer that has read version 1 is slow. Others commit 2 and 3, and the collector
deletes what is older than the latest. Version 2 is free again: the slow writer creates it and reports
success. No reader ever finds it.

Fixed: before it deletes, the collector moves a boundary, and a writer reads the boundary after it has
created a version: one that is not beyond it was not committed. Why that is enough: a version can only be
free again after the boundary has passed it, so a writer that creates it again finds the boundary beyond it.

Tempting, but incorrect: keep a few of the old versions. It only takes a few commits more.
"""

import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

MANIFESTS, BOUNDARY = "manifest/", "gc/manifest.boundary"


class Stop(Exception):
    """Somebody else was faster. A writer does not acknowledge what it does not know for certain either."""


def version_name(version: int) -> str:
    return f"{MANIFESTS}{version:020}.manifest"


def latest(storage: AnyStorage) -> tuple[int, list[str]]:
    key = storage.keys(MANIFESTS)[-1]
    found = storage.get(key)
    if found is None:
        raise Stop
    return int(key[-29:-9]), json.loads(found[0])["tables"]


def create(storage: AnyStorage, version: int, tables: list[str]) -> None:
    if not storage.create(version_name(version), json.dumps({"tables": tables}).encode()):
        raise Stop


def create_and_look(storage: AnyStorage, version: int, tables: list[str]) -> None:
    create(storage, version, tables)
    boundary = storage.get(BOUNDARY)
    if boundary is None or int(boundary[0]) >= version:
        raise Stop


def collect(storage: AnyStorage, upto: int) -> None:
    for version in range(1, upto + 1):
        storage.delete(version_name(version))


def collect_behind_boundary(storage: AnyStorage, upto: int) -> None:
    storage.put(BOUNDARY, b"%d" % upto)
    collect(storage, upto)


# The processes.

Create = Callable[[AnyStorage, int, list[str]], None]
Collect = Callable[[AnyStorage, int], None]


def commit(world: World, storage: AnyStorage, create: Create, table: str) -> None:
    version, tables = latest(storage)
    create(storage, version + 1, [*tables, table])
    world.note("committed", table)


def commit_and_collect(
    world: World, storage: AnyStorage, create: Create, collect: Collect, commits: int, keep: int
) -> None:
    """A busy writer, which knows the latest version because it has written it; then the collector."""
    tables: list[str] = []
    for version in range(2, 2 + commits):
        tables.append(f"table {version}")
        create(storage, version, list(tables))
        world.note("committed", tables[-1])
    collect(storage, 1 + commits - keep)


# Properties.


def nothing_lost(view: View) -> str | None:
    known = list(view.contents(f"zoo/{MANIFESTS}").values())
    tables = json.loads(known[-1])["tables"]
    lost = sorted(set(view.notes("committed")) - set(tables))
    return f"{' and '.join(lost)}: committed, and the latest manifest lists {tables}" if lost else None


def _program(
    world: World, storage: AnyStorage, create: Create, collect: Collect, commits: int = 2, keep: int = 1
) -> None:
    storage.put(version_name(1), b'{"tables": []}')
    storage.put(BOUNDARY, b"0")
    for name, process in (
        ("slow", (commit, world, storage, create, "slow table")),
        ("busy", (commit_and_collect, world, storage, create, collect, commits, keep)),
    ):
        world.spawn(*process, name=name, restart=False, may_raise=(Stop, Unknown))
    world.always("no commit is lost", nothing_lost)
    world.sometimes("the slow one commits", lambda view: "slow table" in view.notes("committed"))


broken, broken_boto3 = on_both(_program, create, collect)
fixed, fixed_boto3 = on_both(_program, create_and_look, collect_behind_boundary)
tempting_keep_two, _ = on_both(_program, create, collect, 3, 2)
