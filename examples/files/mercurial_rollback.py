"""A repository whose history only grows: a journal remembers its length, to cut off half an append.

As reported of Mercurial (ALICE, OSDI 2014): the journal is not flushed before the history grows, so after a
power loss the history may end in half an entry with no journal that says where to cut. Fixed: the
journal is durable, with its name, before the append; and the append before the journal goes.
"""

import os
from pathlib import Path

from fencepost.examples.files import faulty, flush_folder, read, write
from fencepost.sim.world import View, World


def commit(
    world: World,
    folder: Path,
    *,
    flush_journal: bool = True,
    flush_name: bool = True,
    flush_history: bool = True,
) -> None:
    write(folder / "journal", b"2;", flush=flush_journal)
    if flush_name:
        flush_folder(folder)
    write(folder / "history", b"b;", flush=flush_history, mode="ab")
    (folder / "journal").unlink()
    flush_folder(folder)
    world.note("committed")


def recover(world: World, folder: Path) -> None:
    journal = read(folder / "journal") or b""
    if journal.endswith(b";"):
        os.truncate(folder / "history", int(journal[:-1]))
    world.note("recovered", read(folder / "history"))


def sound(view: View) -> str | None:
    for history in view.notes("recovered"):
        if history not in (b"a;", b"a;b;"):
            return f"the history is {history!r}"
        if view.notes("committed") and history != b"a;b;":
            return "a commit was acknowledged and is gone"
    return None


def _committing(world: World, **options: bool) -> None:
    folder = world.filesystem()
    write(folder / "history", b"a;")
    world.spawn(commit, world, folder, name="hg", **options)
    world.spawn(recover, world, folder, name="recovery", after_power_loss=True)
    world.always("the history is whole", sound)


@faulty
def mutant_journal_not_flushed(world: World) -> None:
    _committing(world, flush_journal=False)


@faulty
def mutant_name_of_the_journal_not_flushed(world: World) -> None:
    _committing(world, flush_name=False)


@faulty
def mutant_history_not_flushed(world: World) -> None:
    _committing(world, flush_history=False)


@faulty
def fixed(world: World) -> None:
    _committing(world)
