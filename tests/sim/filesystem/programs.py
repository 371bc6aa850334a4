"""Random programs on files, small and nasty: a few names that collide, directories that come and go."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost.sim.world import View, World

Code = list[tuple[str, str]]

NAMES = ["a", "b", "d/x"]
ON_NAMES = [
    "save",
    "append",
    "create",
    "read",
    "size",
    "unlink",
    "rename",
    "link",
    "durable",
    "overwrite",
    "attribute",
    "if-there",
]
OTHERS = [
    ("mkdir", "d"),
    ("rmdir", "d"),
    ("list", ""),
    ("list", "d"),
    ("sync", ""),
    ("sync", "d"),
    ("locked", "lock"),
    ("try", "lock"),
    ("share", "lock"),
    ("note", "one"),
]
WATCHES = ["nothing", "file", "all files", "notes", "ends"]


def interpret(world: World, root: Path, who: int, code: Code) -> list[Any]:
    """Run straight-line code; return everything that was learnt, so that endings distinguish orders."""
    seen: list[Any] = []
    for verb, name in code:
        try:
            seen.append(_do(world, root, who, verb, name, seen))
        except OSError as error:
            seen.append(error.errno)
    return seen


def _do(world: World, root: Path, who: int, verb: str, name: str, seen: list[Any]) -> Any:
    path = root / name
    other = root / ("b" if name == "a" else "a")
    body = repr((who, seen)).encode()
    match verb:
        case "save":
            path.write_bytes(body)
        case "append":
            with path.open("ab") as file:
                file.write(f"+{who}".encode())
        case "overwrite":
            with path.open("rb+", buffering=0) as raw:
                raw.write(f"<{who}>".encode())
        case "create":
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        case "durable":
            with path.open("wb", buffering=0) as raw:
                raw.write(body)
                os.fsync(raw.fileno())
        case "read":
            return path.read_bytes()
        case "if-there":
            if not path.exists():
                other.write_bytes(body)
        case "size":
            return path.stat().st_size, path.stat().st_nlink
        case "unlink":
            path.unlink()
        case "rename":
            path.rename(other)
        case "link":
            os.link(path, other)
        case "attribute":
            os.setxattr(path, "user.who", b"%d" % who)
            return os.getxattr(path, "user.who")
        case "mkdir":
            path.mkdir()
        case "rmdir":
            path.rmdir()
        case "list":
            return sorted(os.listdir(path))
        case "sync":
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        case "locked" | "try" | "share":
            fd = os.open(path, os.O_CREAT | os.O_RDWR)
            try:
                how = {"try": fcntl.LOCK_EX | fcntl.LOCK_NB, "share": fcntl.LOCK_SH | fcntl.LOCK_NB}
                fcntl.flock(fd, how.get(verb, fcntl.LOCK_EX))
                return os.listdir(root)
            finally:
                os.close(fd)
        case "note":
            world.note(name, who)
    return None


def look_around(root: Path) -> Any:
    """What is found when power is back."""
    return {
        str(folder): {name: (Path(folder) / name).read_bytes() for name in names}
        for folder, _, names in sorted(os.walk(root))
    }


def program_of(
    codes: list[Code],
    watch: str,
    profile: str = "strict",
    *,
    promise: bool = False,
    volatile: bool = False,
    after_crash: bool = False,
) -> Callable[[World], None]:
    def program(world: World) -> None:
        world.configure(ticks=0)  # no step looks at a time
        root = world.filesystem(profile=profile, volatile=["d"] if volatile else [])
        (root / "a").write_bytes(b"first")
        (root / "d").mkdir()
        if volatile:
            (root / "d/x").write_bytes(b"draft")
        for who, code in enumerate(codes):
            world.spawn(interpret, world, root, who, code, name=f"p{who}", restart=not volatile)
        world.spawn(look_around, root, name="after", after_power_loss=True)
        if after_crash:
            world.spawn(look_around, root, name="after a crash", restart=False, after_crash=True)
        if promise:
            world.share_nothing()
        if watch == "file":
            world.always("file", lambda view: view.file("b") is None or view.file("a") != b"first")
        elif watch == "all files":
            world.always("all files", few_files)
        elif watch == "notes":
            world.always("notes", lambda view: len(view.notes("one")) < 2 or view.file("a"))
        elif watch == "ends":
            world.always("ends", lambda view: "p1" not in view.results() or "p0" in view.results())

    return program


def few_files(view: View) -> bool:
    return len([path for path in view.files() if path != "lock"]) < 3
