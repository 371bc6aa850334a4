"""A lock file: the process that creates it with O_EXCL may work, and removes it when done.

The lock protects a counter. A process that is killed leaves the file behind, so no process works until an
operator removes it: safe, and not always live. Mutants. Looking first and creating then lets two in. A
counter that is not flushed before the lock is given back loses an increment that was acknowledged.
"""

import os
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, write
from fencepost.sim.world import View, World


def acquire(lock: Path) -> bool:
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def acquire_if_absent(lock: Path) -> bool:
    if lock.exists():
        return False
    lock.touch()
    return True


def count(world: World, folder: Path, name: str, *, exclusive: bool = True, flush: bool = True) -> None:
    lock = folder / "lock"
    if not (acquire if exclusive else acquire_if_absent)(lock):
        return
    before = int((folder / "counter").read_bytes())
    write(folder / f"counter.{name}", b"%d" % (before + 1), flush=flush)
    os.replace(folder / f"counter.{name}", folder / "counter")
    if flush:
        flush_folder(folder)
    world.note("counted", name)
    lock.unlink()


def nothing_lost(view: View) -> str | None:
    counted, found = view.notes("counted"), view.file("counter") or b""
    if not found.isdigit():
        return f"the counter is {found!r}"
    return f"{len(counted)} increments, and the counter is {found!r}" if int(found) < len(counted) else None


def _counting(world: World, **options: bool) -> None:
    folder = world.filesystem()
    write(folder / "counter", b"0")
    for name in ("ann", "bob"):
        world.spawn(count, world, folder, name, name=name, **options)
    world.always("no increment is lost", nothing_lost)


@faulty
def mutant_looks_first(world: World) -> None:
    _counting(world, exclusive=False)


@faulty
def mutant_counter_not_flushed(world: World) -> None:
    _counting(world, flush=False)


@faulty
def fixed(world: World) -> None:
    _counting(world)
