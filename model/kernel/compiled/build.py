"""A compiled text as a library: `cc`, and a cache of what it made, one file a text.

The file's name is a digest of the text, of the compiler and of its options, so a file that is there fits. It
is written beside its place and renamed: another process sees all of it or nothing. The cache belongs to the
user: a folder that others may write to, or that cannot be written, is not used, and then the library is made
for this process alone.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

OPTIONS = ("-O1", "-std=c99", "-fwrapv", "-fPIC", "-shared", "-w")


SECONDS_A_BYTE = 2e-6
"""Processor time of the compiler for each byte of a text, about: most models take 0.1 s, one 1.7 s."""


class NoCompiler(Exception):
    """There is none, or it fails."""


class TakesLonger(Exception):
    """The text would take longer to compile than its caller has time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the compiler takes about {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Library:
    """A loaded library, and whether it was in the cache."""

    functions: ctypes.CDLL
    was_cached: bool


def library_of(text: str, within_s: float | None = None) -> Library:
    """Compile a text and load it, or load what was compiled before.

    Raises `TakesLonger` if compiling takes more than `within_s`.
    """
    compiler, version = _compiler()
    name = sha256("\0".join([text, version, *OPTIONS]).encode()).hexdigest()[:40] + ".so"
    folder = _cache_folder()
    if folder is not None and (found := _loaded(folder / name)) is not None:
        return Library(found, was_cached=True)
    if within_s is not None and len(text) * SECONDS_A_BYTE > within_s:
        raise TakesLonger(len(text) * SECONDS_A_BYTE)
    with tempfile.TemporaryDirectory(prefix="fencepost-compiled-") as scratch:
        source, made = Path(scratch, "machine.c"), Path(scratch, name)
        source.write_text(text)
        _run([compiler, *OPTIONS, "-o", str(made), str(source)])
        if folder is not None:
            with suppress(OSError):
                _keep(made, folder / name)
        found = _loaded(made)
    if found is None:
        raise NoCompiler(f"{compiler} made a library that cannot be loaded")
    return Library(found, was_cached=False)


def has_compiler() -> bool:
    """True if there is a compiler."""
    try:
        _compiler()
    except NoCompiler:
        return False
    return True


def _keep(made: Path, to: Path) -> None:
    handle, beside = tempfile.mkstemp(dir=to.parent, suffix=".new")
    try:
        with os.fdopen(handle, "wb") as copy:
            copy.write(made.read_bytes())
        Path(beside).replace(to)
    except OSError:
        Path(beside).unlink(missing_ok=True)
        raise


def _loaded(path: Path) -> ctypes.CDLL | None:
    """The library; None if the file is not there, or is none (a disk that was full, a power loss)."""
    if not path.is_file():
        return None
    with suppress(OSError):
        return ctypes.CDLL(str(path))
    return None


@cache
def _compiler() -> tuple[str, str]:
    """The compiler, and its version."""
    wanted = os.environ.get("CC", "").split()
    for name in wanted[:1] or ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path is not None:
            return path, f"{path} {_run([path, '--version'])}"
    raise NoCompiler(f"there is no C compiler ({wanted[0] if wanted else 'cc, gcc or clang'})")


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # the user's compiler
    except OSError as error:
        raise NoCompiler(f"{command[0]} does not start: {error}") from error
    if done.returncode:
        first = next(iter(done.stderr.splitlines()), "no message")
        raise NoCompiler(f"{command[0]} fails: {first}")
    return done.stdout


def _cache_folder() -> Path | None:
    """The user's cache, if it is safe to load code from it, and is there or can be made."""
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / "fencepost" / "compiled"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):
        return None
    is_own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
    return folder if is_own else None
