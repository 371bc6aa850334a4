"""A database with a rollback journal: what is overwritten is copied away first, and copied back by recovery.

In the shape of SQLite's journal, whose missing flush of the directory is among the vulnerabilities that ALICE
(OSDI 2014) reports: the name of the journal may be lost while the half-written database is not. Mutants,
one a flush: the journal, its name, the database before the journal is removed, the removal before
the commit is acknowledged.
"""

import os
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, read, write
from fencepost.sim.world import View, World

OLD, NEW = b"1111", b"2222"


def overwrite(folder: Path, pages: bytes, *, flush: bool = True) -> None:
    fd = os.open(folder / "database", os.O_WRONLY)
    try:
        os.pwrite(fd, pages[:2], 0)
        os.pwrite(fd, pages[2:], 2)
        if flush:
            os.fsync(fd)
    finally:
        os.close(fd)


def transact(
    world: World,
    folder: Path,
    *,
    flush_journal: bool = True,
    flush_name: bool = True,
    flush_database: bool = True,
    flush_removal: bool = True,
) -> None:
    write(folder / "journal", OLD + b"!", flush=flush_journal)
    if flush_name:
        flush_folder(folder)
    overwrite(folder, NEW, flush=flush_database)
    (folder / "journal").unlink()
    if flush_removal:
        flush_folder(folder)
    world.note("committed")


def recover(world: World, folder: Path) -> None:
    journal = read(folder / "journal") or b""
    if journal.endswith(b"!"):  # it is whole
        overwrite(folder, journal[:-1])
        (folder / "journal").unlink()
    world.note("recovered", read(folder / "database"))


def sound(view: View) -> str | None:
    for found in view.notes("recovered"):
        if found not in (OLD, NEW):
            return f"the database holds {found!r}, a part of a transaction"
        if view.notes("committed") and found != NEW:
            return "a transaction was acknowledged and is undone"
    return None


def _transacting(world: World, **options: bool) -> None:
    folder = world.filesystem()
    write(folder / "database", OLD)
    world.spawn(transact, world, folder, name="ann", **options)
    world.spawn(recover, world, folder, name="recovery", after_power_loss=True)
    world.always("all of a transaction or nothing", sound)


@faulty
def mutant_journal_not_flushed(world: World) -> None:
    _transacting(world, flush_journal=False)


@faulty
def mutant_name_of_the_journal_not_flushed(world: World) -> None:
    _transacting(world, flush_name=False)


@faulty
def mutant_database_not_flushed(world: World) -> None:
    _transacting(world, flush_database=False)


@faulty
def mutant_removal_not_flushed(world: World) -> None:
    _transacting(world, flush_removal=False)


@faulty
def fixed(world: World) -> None:
    _transacting(world)
