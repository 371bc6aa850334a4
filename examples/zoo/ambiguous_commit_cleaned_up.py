"""A commit that succeeded, and whose files were deleted because nobody knew.

Counterexample (iceberg#2317, ClickHouse#112081): write the data, then commit by creating the next version
of the table's metadata. The commit is applied and its reply lost; whatever is not "done" counts as a lost
race, and the clean-up of a failed insert deletes the data file. The table points at a file that is gone.

Fixed: what is not known is never cleaned up. Read the table: if it lists our file, we are committed; if
not, try to commit again. Why that is enough: the file's name says whose commit it is; versions are created
only if absent, so the one attempt that may still be in flight can win a version or lose it, and either way
the next look at the table tells. A file that is never committed is left to a collector of orphans.

Tempting, but incorrect (iceberg#3717): look once, and clean up when the commit is not there. A request
whose reply was lost may land after the look; so late landings belong to the faults here.
"""

import contextlib
import json
from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import ABSENT, ANYTHING, Outcome, Store
from fencepost.sim.world import View, World
from fencepost.testing import audit

BUCKET, METADATA, FILE = "zoo", "metadata/", "data/00000.parquet"
EMPTY = b'{"files": []}'
ONCE = Config(retries={"total_max_attempts": 1})
"""The fixed program retries by itself, where it knows what a second answer means."""


def version_name(version: int) -> str:
    return f"{METADATA}v{version}.metadata.json"


def snapshot(files: list[str]) -> bytes:
    return json.dumps({"files": files}).encode()


# On the store interface.


def current(store: Store) -> tuple[int, list[str]]:
    """The latest version and the data files it lists."""
    while True:
        listed = store.list(f"{BUCKET}/{METADATA}")
        if listed.done:
            found = store.get(listed.objects[-1].key)
            if found.done:
                return len(listed.objects), json.loads(found.body)["files"]


def commit(store: Store, file: str) -> str:
    version, files = current(store)
    put = store.put(f"{BUCKET}/{version_name(version + 1)}", snapshot([*files, file]), when=ABSENT)
    if put.done:
        return "committed"
    store.delete(f"{BUCKET}/{file}", when=ANYTHING)
    return "conflict"


def commit_after_one_look(store: Store, file: str) -> str:
    version, files = current(store)
    put = store.put(f"{BUCKET}/{version_name(version + 1)}", snapshot([*files, file]), when=ABSENT)
    if put.done or (put.outcome is Outcome.UNKNOWN and file in current(store)[1]):
        return "committed"
    store.delete(f"{BUCKET}/{file}", when=ANYTHING)
    return "conflict"


def commit_until_known(store: Store, file: str) -> str:
    while True:
        version, files = current(store)
        if file in files:
            return "committed"
        store.put(f"{BUCKET}/{version_name(version + 1)}", snapshot([*files, file]), when=ABSENT)


def set_property(store: Store) -> None:
    """Another's commit, which touches no file, and which nobody misses if it loses a race."""
    version, files = current(store)
    store.put(f"{BUCKET}/{version_name(version + 1)}", snapshot(files), when=ABSENT)


# On boto3.


def current_s3(s3: Any) -> tuple[int, list[str]]:
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=METADATA)["Contents"]
    found = s3.get_object(Bucket=BUCKET, Key=listed[-1]["Key"])
    return len(listed), json.load(found["Body"])["files"]


def commit_s3(s3: Any, file: str) -> str:
    version, files = current_s3(s3)
    body = snapshot([*files, file])
    try:
        s3.put_object(Bucket=BUCKET, Key=version_name(version + 1), Body=body, IfNoneMatch="*")
    except ClientError:
        s3.delete_object(Bucket=BUCKET, Key=file)
        return "conflict"
    return "committed"


def commit_s3_until_known(s3: Any, file: str) -> str:
    while True:
        try:
            version, files = current_s3(s3)
            if file in files:
                return "committed"
            body = snapshot([*files, file])
            s3.put_object(Bucket=BUCKET, Key=version_name(version + 1), Body=body, IfNoneMatch="*")
        except HTTPClientError:
            continue
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise


def set_property_s3(s3: Any) -> None:
    with contextlib.suppress(ClientError, HTTPClientError):
        version, files = current_s3(s3)
        body = snapshot(files)
        s3.put_object(Bucket=BUCKET, Key=version_name(version + 1), Body=body, IfNoneMatch="*")


# What must hold.


def table(view: View) -> list[str]:
    files: list[str] = json.loads(list(view.contents(f"{BUCKET}/{METADATA}").values())[-1])["files"]
    return files


def files_there(view: View) -> str | None:
    gone = [file for file in table(view) if view.get(f"{BUCKET}/{file}") is None]
    return f"the table lists {' and '.join(gone)}, which is gone" if gone else None


def reports_true(view: View) -> str | None:
    """A commit that reported success is in the table, and one that reported failure is not."""
    result = view.result("ann")
    if result is None or (result == "committed") == (FILE in table(view)):
        return None
    return f"ann got {result!r}, and the table lists {table(view)}"


def promises(world: World) -> None:
    world.always("every file of the table is there", files_there)
    world.finally_("reports are true", reports_true)


def _on_store(world: World, commit: Callable[[Store, str], str]) -> None:
    store = world.store()
    store.put(f"{BUCKET}/{version_name(1)}", EMPTY, when=ABSENT)
    store.put(f"{BUCKET}/{FILE}", b"rows", when=ABSENT)
    world.spawn(commit, store, FILE, name="ann", restart=False)
    world.spawn(set_property, store, name="bob", restart=False)
    promises(world)


def _on_boto3(world: World, commit: Callable[[Any, str], str], **options: Any) -> None:
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3", **options)
    s3.put_object(Bucket=BUCKET, Key=version_name(1), Body=EMPTY)
    s3.put_object(Bucket=BUCKET, Key=FILE, Body=b"rows")
    world.spawn(commit, s3, FILE, name="ann", restart=False)
    world.spawn(set_property_s3, s3, name="bob", restart=False)
    promises(world)


@audit(late=1)
def broken(world: World) -> None:
    _on_store(world, commit)


@audit(late=1)
def fixed(world: World) -> None:
    _on_store(world, commit_until_known)


@audit(late=1)
def tempting_one_look(world: World) -> None:
    _on_store(world, commit_after_one_look)


@audit(late=1)
def broken_boto3(world: World) -> None:
    _on_boto3(world, commit_s3)


@audit(late=1)
def fixed_boto3(world: World) -> None:
    _on_boto3(world, commit_s3_until_known, config=ONCE)
