"""A hole in the log: a number that is marked complete, and no entry under it.

Counterexample (delta-rs#2452): to commit, write the entry under a temporary name, reserve the next number
by a record that names it, copy it to the number, mark the record complete. A process that meets an incomplete
record finishes it. Here the copy fails, and the clean-up of a failed commit deletes the temporary object.
The next one takes "temporary object missing" for "already copied", and marks the record complete.

Fixed: the reservation is the commit; nothing behind it is ever undone. The temporary object is deleted when
the record is complete and not before, and "missing" is believed only when the entry exists under its
number. Why that is enough: numbers and entries are created only if absent and never deleted.

Tempting, but incorrect (what delta-rs did): on failure take the reservation back, then delete the temporary
object. The copy that failed may have landed, or another may have finished it in the meantime: a commit that
was reported as failed is in the log.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from fencepost.examples.storage import AnyStorage, Unknown, on_both
from fencepost.sim.world import View, World

RECORD, ENTRY, TEMPORARY = "lock-table/1", "_delta_log/1.json", "_delta_log/.tmp/ann.json"
OURS = b'{"add": "part-ann.parquet"}'


def read_record(storage: AnyStorage) -> tuple[bool, str] | None:
    """Return True if the record is complete, and its ETag."""
    found = storage.get(RECORD)
    return None if found is None else (json.loads(found[0])["complete"], found[1])


def reserve(storage: AnyStorage) -> None:
    storage.create(TEMPORARY, OURS)
    storage.create(RECORD, json.dumps({"temporary": TEMPORARY, "complete": False}).encode())


def complete(storage: AnyStorage, etag: str) -> None:
    storage.replace(RECORD, json.dumps({"temporary": TEMPORARY, "complete": True}).encode(), etag)


def repair(storage: AnyStorage, *, looks: bool = False) -> None:
    """Finish the commit of the process that reserved the number."""
    record = read_record(storage)
    if record is None or record[0]:
        return
    entry = storage.get(TEMPORARY)
    if entry is not None:
        storage.create(ENTRY, entry[0])
    elif looks and storage.get(ENTRY) is None:
        raise AssertionError("reserved, and neither a temporary object nor an entry")
    complete(storage, record[1])


repair_and_look = partial(repair, looks=True)
Repair = Callable[[AnyStorage], None]


def commit(storage: AnyStorage, repair: Repair) -> str:
    reserve(storage)
    try:
        repair(storage)
    except Unknown:
        storage.delete(TEMPORARY)
        return "failed"
    storage.delete(TEMPORARY)
    return "committed"


def commit_or_take_back(storage: AnyStorage, repair: Repair) -> str:
    reserve(storage)
    try:
        repair(storage)
    except Unknown:
        record = read_record(storage)
        if record is not None and not record[0] and storage.delete_if(RECORD, record[1]):
            storage.delete(TEMPORARY)
            return "failed"
    return "committed"


def commit_for_good(storage: AnyStorage, repair: Repair) -> str:
    reserve(storage)
    while True:
        try:
            repair(storage)
            storage.delete(TEMPORARY)
        except Unknown:
            continue
        return "committed"


# Properties.


def no_hole(view: View) -> str | None:
    record = view.get(f"zoo/{RECORD}")
    if record is None or not json.loads(record)["complete"] or view.get(f"zoo/{ENTRY}") is not None:
        return None
    return "number 1 is complete, and the log has no entry 1"


def report_true(view: View) -> str | None:
    result = view.result("ann")
    if result is None or (result == "committed") == (view.get(f"zoo/{ENTRY}") == OURS):
        return None
    return f"ann got {result!r}, and entry 1 holds {view.get(f'zoo/{ENTRY}')!r}"


def _program(
    world: World, storage: AnyStorage, commit: Callable[[AnyStorage, Repair], str], repair: Repair
) -> None:
    world.spawn(commit, storage, repair, name="ann", restart=False, may_raise=(Unknown,))
    world.spawn(repair, storage, name="next", restart=False, may_raise=(Unknown,))
    world.always("no hole in the log", no_hole)


def _reporting(world: World, *arguments: Any) -> None:
    _program(world, *arguments)
    world.finally_("the report is true", report_true)


broken, broken_boto3 = on_both(_program, commit, repair)
fixed, fixed_boto3 = on_both(_reporting, commit_for_good, repair_and_look)
tempting_take_back, _ = on_both(_reporting, commit_or_take_back, repair_and_look)
