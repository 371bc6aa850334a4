"""A commit that succeeded, and whose files were deleted because its outcome was unknown.

Counterexample (iceberg#2317, ClickHouse#112081): write the data, then commit by creating the next version
of the table's metadata. The commit is applied and its reply lost; whatever is not "done" counts as a lost
race, and the clean-up of a failed insert deletes the data file. The table points at a file that is gone.

Fixed: what is not known is never cleaned up. Read the table: if it lists our file, we are committed; if
not, try to commit again. Why that is enough: the file's name identifies the commit. Versions are created
only if absent, so the one attempt that may still be in flight can win a version or lose it. Either way the
next look at the table shows it. A file that is never committed is left to a collector of orphans.

Tempting, but incorrect (iceberg#3717): look once, and clean up when the commit is not there. A request
whose reply was lost may land after the look; so late landings belong to the faults here.
"""

import contextlib
import json
from collections.abc import Callable

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World
from fencepost.testing import audit

METADATA, FILE = "metadata/", "data/00000.parquet"


def version_name(version: int) -> str:
    return f"{METADATA}v{version}.metadata.json"


def current(storage: AnyStorage) -> tuple[int, list[str]]:
    """The latest version and the data files it lists."""
    versions = storage.keys(METADATA)
    found = storage.get(versions[-1])
    assert found is not None
    return len(versions), json.loads(found[0])["files"]


def add(storage: AnyStorage, *more: str) -> bool:
    """Return True if the next version of the table, with more files, is certainly ours."""
    version, files = current(storage)
    body = json.dumps({"files": [*files, *more]}).encode()
    return storage.create(version_name(version + 1), body)


def commit(storage: AnyStorage, file: str) -> str:
    with contextlib.suppress(Unknown):
        if add(storage, file):
            return "committed"
    storage.delete(file)
    return "conflict"


def commit_after_one_look(storage: AnyStorage, file: str) -> str:
    try:
        if add(storage, file):
            return "committed"
    except Unknown:
        if file in current(storage)[1]:
            return "committed"
    storage.delete(file)
    return "conflict"


def commit_until_known(storage: AnyStorage, file: str) -> str:
    while True:
        with contextlib.suppress(Unknown):
            version, files = current(storage)
            if file in files:
                return "committed"
            storage.create(version_name(version + 1), json.dumps({"files": [*files, file]}).encode())


def set_property(storage: AnyStorage) -> None:
    """Another's commit, which touches no file, and whose loss in a race does no harm."""
    add(storage)


# Properties.


def table(view: View) -> list[str]:
    files: list[str] = json.loads(list(view.contents(f"zoo/{METADATA}").values())[-1])["files"]
    return files


def files_there(view: View) -> str | None:
    gone = [file for file in table(view) if view.get(f"zoo/{file}") is None]
    return f"the table lists {' and '.join(gone)}, which is gone" if gone else None


def reports_true(view: View) -> str | None:
    """A commit that reported success is in the table, and one that reported failure is not."""
    result = view.result("ann")
    if result is None or (result == "committed") == (FILE in table(view)):
        return None
    return f"ann got {result!r}, and the table lists {table(view)}"


def _program(world: World, storage: AnyStorage, commit: Callable[[AnyStorage, str], str]) -> None:
    storage.put(version_name(1), b'{"files": []}')
    storage.put(FILE, b"rows")
    world.spawn(commit, storage, FILE, name="ann", restart=False, may_raise=(Unknown,))
    world.spawn(set_property, storage, name="bob", restart=False, may_raise=(Unknown,))
    world.always("every file of the table is there", files_there)
    world.finally_("reports are true", reports_true)


landing_late = audit(late=1)
broken, broken_boto3 = map(landing_late, on_both(_program, commit))
fixed, fixed_boto3 = map(landing_late, on_both(_program, commit_until_known))
tempting_one_look, _ = map(landing_late, on_both(_program, commit_after_one_look))
