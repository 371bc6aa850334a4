"""Files that appear whole or not at all, and input that is a file.

A file that appears whole is written beside its name, and renamed.

The user decides by the umask which others may read them; a temporary file is its owner's alone. A name of
something else than a file, as /dev/stdout or a pipe, is written to: renaming would put a file in its place.

Input that somebody else prepared can be a pipe or a device, which would block a reader or never end. Such a
name is refused; where a pipe makes sense, a command reads standard input as `-`.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, body: bytes) -> None:
    """Have `path` hold `body`, or what it held before and an OSError."""
    with replaced(path) as temporary:
        temporary.write_bytes(body)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of `path` when all went well."""
    if path.exists() and not path.is_file():
        yield path
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file to read. An OSError for everything else, without waiting for a pipe's writer."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(handle, "rb")


def read_text(path: Path) -> str:
    """Return the text of a regular file; OSError or UnicodeDecodeError when it has none."""
    with open_file(path) as file:
        return file.read().decode("utf-8")


def _umask() -> int:
    found = os.umask(0o077)  # can only be read by setting it: to the strictest, for the moment
    os.umask(found)
    return found
