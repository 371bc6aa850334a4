"""Random programs on files, as data, and their interpreter on plain system calls.

("open", name, how)     how: trunc, append, excl, or over; the descriptors are numbered from 0
("write", number, text) one letter
("fsync", number)
("rename", name, name)  ("link", name, name)  ("unlink", name)
("flush", folder)       an fsync of a directory
("note", value)
"""

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fencepost.sim.world import World

Op = tuple[Any, ...]
FLAGS = {
    "trunc": os.O_CREAT | os.O_TRUNC,
    "append": os.O_CREAT | os.O_APPEND,
    "excl": os.O_CREAT | os.O_EXCL,
    "over": 0,
}


@dataclass(frozen=True)
class FileProgram:
    """Processes, the files that are there at first, and the persistence profile."""

    processes: tuple[tuple[Op, ...], ...]
    start: dict[str, str]
    names: tuple[str, ...]
    profile: str


def random_program(seed: int) -> FileProgram:
    draw = Random(seed)
    nested = draw.random() < 0.3
    names = ("a", "b", *(["d/a"] if nested else ["c"] if draw.random() < 0.4 else []))
    count = draw.choice([1, 1, 2])
    lengths = [3, 4, 5, 6] if count == 1 else [2, 3]
    folders = ["", "d"] if nested else [""]
    processes = tuple(_random_code(draw, draw.choice(lengths), names, folders) for _ in range(count))
    start = {name: draw.choice(["", "0", "01"]) for name in names if draw.random() < 0.5}
    return FileProgram(processes, start, names, draw.choice(["strict", "ext4"]))


def _random_code(draw: Random, length: int, names: tuple[str, ...], folders: list[str]) -> tuple[Op, ...]:
    code: list[Op] = []
    opened = 0
    for _ in range(length):
        chance = draw.random()
        if not opened or chance < 0.15:
            code.append(("open", draw.choice(names), draw.choice(list(FLAGS))))
            opened += 1
        elif chance < 0.45:
            code.append(("write", draw.randrange(opened), draw.choice("xyzw")))
        elif chance < 0.62:
            code.append(("fsync", draw.randrange(opened)))
        elif chance < 0.72:
            code.append(("rename", draw.choice(names), draw.choice(names)))
        elif chance < 0.80:
            code.append(("unlink", draw.choice(names)))
        elif chance < 0.86:
            code.append(("link", draw.choice(names), draw.choice(names)))
        elif chance < 0.95:
            code.append(("flush", draw.choice(folders)))
        else:
            code.append(("note", draw.choice("mn")))
    return tuple(code)


def run(world: World, root: Path, code: tuple[Op, ...]) -> tuple[str, ...]:
    """Run the operations of one process; return an outcome of each."""
    opened: list[int | None] = []
    outcomes = []
    for op in code:
        try:
            _do(world, root, op, opened)
        except FileNotFoundError:
            outcomes.append("missing")
        except FileExistsError:
            outcomes.append("exists")
        else:
            outcomes.append("done")
    return tuple(outcomes)


def _do(world: World, root: Path, op: Op, opened: list[int | None]) -> None:
    match op:
        case ("open", name, how):
            opened.append(None)
            opened[-1] = os.open(root / name, os.O_RDWR | FLAGS[how])
        case ("write", number, text):
            descriptor = opened[number]
            if descriptor is not None:
                os.write(descriptor, text.encode())
        case ("fsync", number):
            descriptor = opened[number]
            if descriptor is not None:
                os.fsync(descriptor)
        case ("rename", source, target):
            (root / source).rename(root / target)
        case ("link", source, target):
            os.link(root / source, root / target)
        case ("unlink", name):
            (root / name).unlink()
        case ("flush", folder):
            descriptor = os.open(root / folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        case ("note", value):
            world.note("notes", value)


def declared(program: FileProgram, world: World) -> None:
    """Set a world up to run this program, and to lose its power."""
    world.configure(ticks=0)
    root = world.filesystem(profile=program.profile)
    (root / "d").mkdir()
    for name, body in program.start.items():
        (root / name).write_bytes(body.encode())
    for number, code in enumerate(program.processes):
        world.spawn(run, world, root, code, name=f"p{number}", restart=False)
    world.spawn(lambda: None, name="after", after_power_loss=True)


def ending_of(program: FileProgram, world: World) -> Any:
    """Return the files and the notes; without a loss of power, also the outcomes of all operations."""
    files = world.files.bodies("")[0]
    found = tuple(sorted((name, body.decode()) for name, body in files.items()))
    notes = tuple(sorted(value for _, value in world.noted.get("notes", ())))
    *processes, after = world.processes
    if after.state == "done":
        return ("lost", found, notes)
    return ("ended", found, notes, tuple(process.result for process in processes))
