"""A version of the manifest is created a second time, by a writer that believes it has committed.

Counterexample (SlateDB's RFC 26, slatedb#355): versions 1, 2, 3 of a manifest, each created only if absent;
the highest counts. A writer that has read version 1 is slow. Others commit 2 and 3, and the collector
deletes what is older than the latest. Version 2 is free again: the slow writer creates it and reports
success. Nobody ever reads it.

Fixed: before it deletes, the collector moves a boundary, and a writer reads the boundary after it has
created a version: one that is not beyond it was not committed. Why that is enough: a version can only be
free again after the boundary has passed it, so whoever creates it again sees that.

Tempting, but incorrect: keep a few of the old versions. It only takes a few commits more.
"""

import json
from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ABSENT, ANYTHING, Store
from fencepost.sim.world import View, World

BUCKET, BOUNDARY = "zoo", "gc/manifest.boundary"
ONCE = Config(retries={"total_max_attempts": 1})
"""No writer retries: it does not acknowledge what it does not know for certain."""


class Stop(Exception):
    """Somebody else was faster, or nobody knows."""


def version_name(version: int) -> str:
    return f"manifest/{version:020}.manifest"


def manifest(tables: list[str]) -> bytes:
    return json.dumps({"tables": tables}).encode()


# On the store interface.


def latest(store: Store) -> tuple[int, list[str]]:
    listed = store.list(f"{BUCKET}/manifest/")
    found = store.get(listed.objects[-1].key) if listed.done else None
    if found is None or not found.done:
        raise Stop
    return int(listed.objects[-1].key[-29:-9]), json.loads(found.body)["tables"]


def create(store: Store, version: int, tables: list[str]) -> None:
    if not store.put(f"{BUCKET}/{version_name(version)}", manifest(tables), when=ABSENT).done:
        raise Stop


def create_and_look(store: Store, version: int, tables: list[str]) -> None:
    create(store, version, tables)
    boundary = store.get(f"{BUCKET}/{BOUNDARY}")
    if not boundary.done or int(boundary.body) >= version:
        raise Stop


def collect(store: Store, upto: int) -> None:
    for version in range(1, upto + 1):
        store.delete(f"{BUCKET}/{version_name(version)}", when=ANYTHING)


def collect_behind_boundary(store: Store, upto: int) -> None:
    if not store.put(f"{BUCKET}/{BOUNDARY}", b"%d" % upto, when=ANYTHING).done:
        raise Stop
    collect(store, upto)


# On boto3.


def latest_s3(s3: Any) -> tuple[int, list[str]]:
    key = s3.list_objects_v2(Bucket=BUCKET, Prefix="manifest/")["Contents"][-1]["Key"]
    found = s3.get_object(Bucket=BUCKET, Key=key)
    return int(key[-29:-9]), json.load(found["Body"])["tables"]


def create_s3(s3: Any, version: int, tables: list[str]) -> None:
    s3.put_object(Bucket=BUCKET, Key=version_name(version), Body=manifest(tables), IfNoneMatch="*")


def create_s3_and_look(s3: Any, version: int, tables: list[str]) -> None:
    create_s3(s3, version, tables)
    if int(s3.get_object(Bucket=BUCKET, Key=BOUNDARY)["Body"].read()) >= version:
        raise Stop


def collect_s3(s3: Any, upto: int) -> None:
    for version in range(1, upto + 1):
        s3.delete_object(Bucket=BUCKET, Key=version_name(version))


def collect_s3_behind_boundary(s3: Any, upto: int) -> None:
    s3.put_object(Bucket=BUCKET, Key=BOUNDARY, Body=str(upto))
    collect_s3(s3, upto)


# The processes.


def commit(world: World, store: Any, latest: Any, create: Any, table: str) -> None:
    version, tables = latest(store)
    create(store, version + 1, [*tables, table])
    world.note("committed", table)


def commit_and_collect(
    world: World, store: Any, create: Any, collect: Callable[[Any, int], None], commits: int, keep: int
) -> None:
    """A busy writer, which knows the latest version because it has written it; then the collector."""
    tables: list[str] = []
    for version in range(2, 2 + commits):
        tables.append(f"table {version}")
        create(store, version, list(tables))
        world.note("committed", tables[-1])
    collect(store, 1 + commits - keep)


# What must hold.


def nothing_lost(view: View) -> str | None:
    known = list(view.contents(f"{BUCKET}/manifest/").values())
    tables = json.loads(known[-1])["tables"]
    lost = sorted(set(view.notes("committed")) - set(tables))
    return f"{' and '.join(lost)}: committed, and the latest manifest lists {tables}" if lost else None


def _program(world: World, store: Any, calls: tuple[Any, Any, Any], commits: int = 2, keep: int = 1) -> None:
    latest, create, collect = calls
    failures = (Stop, ClientError, HTTPClientError)
    world.spawn(
        commit, world, store, latest, create, "slow table", name="slow", restart=False, may_raise=failures
    )
    world.spawn(
        commit_and_collect,
        *(world, store, create, collect, commits, keep),
        name="busy",
        restart=False,
        may_raise=failures,
    )
    world.always("no commit is lost", nothing_lost)
    world.sometimes("the slow one commits", lambda view: "slow table" in view.notes("committed"))


def _on_store(world: World, calls: tuple[Any, Any, Any], **sizes: int) -> None:
    store = world.store()
    store.put(f"{BUCKET}/{version_name(1)}", manifest([]), when=ABSENT)
    store.put(f"{BUCKET}/{BOUNDARY}", b"0", when=ABSENT)
    _program(world, store, calls, **sizes)


def _on_boto3(world: World, calls: tuple[Any, Any, Any]) -> None:
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3", config=ONCE)
    s3.put_object(Bucket=BUCKET, Key=version_name(1), Body=manifest([]))
    s3.put_object(Bucket=BUCKET, Key=BOUNDARY, Body="0")
    _program(world, s3, calls)


def broken(world: World) -> None:
    _on_store(world, (latest, create, collect))


def fixed(world: World) -> None:
    _on_store(world, (latest, create_and_look, collect_behind_boundary))


def tempting_keep_two(world: World) -> None:
    _on_store(world, (latest, create, collect), commits=3, keep=2)


def broken_boto3(world: World) -> None:
    _on_boto3(world, (latest_s3, create_s3, collect_s3))


def fixed_boto3(world: World) -> None:
    _on_boto3(world, (latest_s3, create_s3_and_look, collect_s3_behind_boundary))
