"""Files that appear whole or not at all: they are written beside their name, and renamed.

The user decides by the umask which others may read them; a temporary file is its owner's alone. A name of
something else than a file, as /dev/stdout or a pipe, is written to: renaming would put a file in its place.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def _umask() -> int:
    found = os.umask(0o077)  # can only be read by setting it: to the strictest, for the moment
    os.umask(found)
    return found
