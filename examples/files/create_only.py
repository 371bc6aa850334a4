"""Two writers create one name, and exactly one of them may succeed.

The mutant looks whether the name is there and renames its file to it: both find nothing, and the second one
replaces what the first one acknowledged. Fixed: `link` fails where the name exists. A second mutant forgets
to flush the directory before it acknowledges.
"""

import os
from collections.abc import Callable
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, write
from fencepost.sim.world import View, World


def create(world: World, folder: Path, name: str, *, flush_names: bool = True) -> None:
    write(folder / f"{name}.tmp", name.encode())
    try:
        os.link(folder / f"{name}.tmp", folder / "out")
    except FileExistsError:
        return
    if flush_names:
        flush_folder(folder)
    world.note("created", name)


def check_then_rename(world: World, folder: Path, name: str) -> None:
    write(folder / f"{name}.tmp", name.encode())
    if (folder / "out").exists():
        return
    os.rename(folder / f"{name}.tmp", folder / "out")
    flush_folder(folder)
    world.note("created", name)


def one_winner(view: View) -> str | None:
    winners, found = view.notes("created"), view.file("out")
    if len(winners) > 1:
        return f"{' and '.join(winners)} both created it"
    return (
        f"{winners[0]} created it, and it holds {found!r}"
        if winners and found != winners[0].encode()
        else None
    )


def _creating(world: World, code: Callable[..., None], **options: bool) -> None:
    folder = world.filesystem()
    for name in ("ann", "bob"):
        world.spawn(code, world, folder, name, name=name, **options)
    world.always("one winner, and its file stays", one_winner)


@faulty
def mutant_check_then_rename(world: World) -> None:
    _creating(world, check_then_rename)


@faulty
def mutant_folder_not_flushed(world: World) -> None:
    _creating(world, create, flush_names=False)


@faulty
def fixed(world: World) -> None:
    _creating(world, create)
