"""A replicated service that starts a new log file, and acknowledges a transaction when it is in there.

As reported of ZooKeeper (ALICE, OSDI 2014): the log is flushed and the directory in which it was created is
not, so a power loss takes the file with everything that was acknowledged. A record that is half there must
not be read either: it carries its length. Fixed: the directory is flushed when a log is created.
"""

import os
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, read
from fencepost.sim.world import View, World


def serve(world: World, folder: Path, *, flush_name: bool = True, flush_log: bool = True) -> None:
    fd = os.open(folder / "log.2", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    try:
        if flush_name:
            flush_folder(folder)
        for number in (1, 2):
            os.write(fd, b"3:t%02d;" % number)
            if flush_log:
                os.fsync(fd)
            world.note("acknowledged", number)
    finally:
        os.close(fd)


def replay(world: World, folder: Path) -> None:
    found = [part[2:] for part in (read(folder / "log.2") or b"").split(b";")[:-1]]
    world.note("replayed", [int(part[1:]) for part in found if len(part) == 3 and part[:1] == b"t"])


def nothing_lost(view: View) -> str | None:
    for found in view.notes("replayed"):
        lost = [number for number in view.notes("acknowledged") if number not in found]
        if lost:
            return f"transaction {lost[0]} was acknowledged and is gone"
    return None


def _serving(world: World, **options: bool) -> None:
    folder = world.filesystem()
    world.spawn(serve, world, folder, name="server", **options)
    world.spawn(replay, world, folder, name="restarted", after_power_loss=True)
    world.always("no acknowledged transaction is lost", nothing_lost)


@faulty
def mutant_name_of_the_log_not_flushed(world: World) -> None:
    _serving(world, flush_name=False)


@faulty
def mutant_log_not_flushed(world: World) -> None:
    _serving(world, flush_log=False)


@faulty
def fixed(world: World) -> None:
    _serving(world)
