"""A file that is replaced as a whole: write another one, flush it, rename it, flush the directory.

Mutants. Without the first flush the name may survive and the content not. Without the second one a save
that was acknowledged may come undone. Writing in place leaves a mixture of two versions after a kill.
"""

import os
from collections.abc import Callable
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, write
from fencepost.sim.world import View, World

OLD, NEW = b"old settings", b"new settings, longer"


def save(world: World, folder: Path, *, flush: bool = True, flush_names: bool = True) -> None:
    write(folder / "settings.tmp", NEW, flush=flush)
    os.replace(folder / "settings.tmp", folder / "settings")
    if flush_names:
        flush_folder(folder)
    world.note("saved")


def save_in_place(world: World, folder: Path) -> None:
    write(folder / "settings", NEW)
    world.note("saved")


def one_version(view: View) -> str | None:
    found = view.file("settings")
    if found not in (OLD, NEW):
        return f"the settings are {found!r}"
    return "a save was acknowledged and is gone" if view.notes("saved") and found != NEW else None


def _saving(world: World, code: Callable[..., None], **options: bool) -> None:
    folder = world.filesystem()
    write(folder / "settings", OLD)
    world.spawn(code, world, folder, name="ann", **options)
    world.spawn((folder / "settings").read_bytes, name="reader")
    world.always("one whole version, and the one that was acknowledged", one_version)


@faulty
def mutant_rename_without_fsync(world: World) -> None:
    _saving(world, save, flush=False)


@faulty
def mutant_folder_not_flushed(world: World) -> None:
    _saving(world, save, flush_names=False)


@faulty
def mutant_in_place(world: World) -> None:
    _saving(world, save_in_place)


@faulty
def fixed(world: World) -> None:
    _saving(world, save)
