"""A write-ahead log: a record is appended and flushed, then acknowledged, then applied, then forgotten.

The table is a file of two numbers that are always equal. Recovery applies a record whose checksum fits, and
ignores any other. Mutants, one a flush: the log, its name, the table before the log is emptied; and recovery
that believes a record without its checksum.
"""

import os
import zlib
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, read, write
from fencepost.sim.world import View, World


def record(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body) + body


def body_of(record: bytes, *, check: bool = True) -> bytes | None:
    """The body of a whole record; None of any other."""
    sound = len(record) > 8 and record[:8] == b"%08x" % zlib.crc32(record[8:])
    return record[8:] if sound or (not check and len(record) > 8) else None


def apply(folder: Path, body: bytes, *, flush_table: bool = True) -> None:
    fd = os.open(folder / "table", os.O_WRONLY)
    try:
        for place in (0, 2):
            os.pwrite(fd, body, place)
        if flush_table:
            os.fsync(fd)
    finally:
        os.close(fd)
    write(folder / "log", b"")


def commit(
    world: World,
    folder: Path,
    body: bytes,
    *,
    flush_log: bool = True,
    flush_name: bool = True,
    flush_table: bool = True,
) -> None:
    write(folder / "log", record(body), flush=flush_log)
    if flush_name:
        flush_folder(folder)
    world.note("committed", body)
    apply(folder, body, flush_table=flush_table)


def recover(world: World, folder: Path, *, check: bool = True) -> None:
    body = body_of(read(folder / "log") or b"", check=check)
    if body is not None:
        apply(folder, body)
    world.note("recovered", (folder / "table").read_bytes())


def sound(view: View) -> str | None:
    for table in view.notes("recovered"):
        if table[:2] != table[2:] or table[:2] not in (b"11", b"22"):
            return f"the table is {table!r}"
        if view.notes("committed") and table[:2] != view.notes("committed")[-1]:
            return f"a commit was acknowledged and the table is {table!r}"
    return None


def _logging(world: World, *, check: bool = True, **options: bool) -> None:
    folder = world.filesystem()
    write(folder / "table", b"1111")
    world.spawn(commit, world, folder, b"22", name="ann", **options)
    world.spawn(recover, world, folder, check=check, name="recovery", after_power_loss=True)
    world.always("the table is sound", sound)


@faulty
def mutant_log_not_flushed(world: World) -> None:
    _logging(world, flush_log=False)


@faulty
def mutant_name_of_the_log_not_flushed(world: World) -> None:
    _logging(world, flush_name=False)


@faulty
def mutant_table_not_flushed(world: World) -> None:
    _logging(world, flush_table=False)


@faulty
def mutant_no_checksum(world: World) -> None:
    _logging(world, check=False)


@faulty
def fixed(world: World) -> None:
    _logging(world)
