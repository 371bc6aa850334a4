"""The file system as a substrate of the adversary: `world.filesystem()`.

    def program(world):
        root = world.filesystem()
        world.spawn(save, root / "out", b"text")

From here to the end of the run plain `open`, `os`, `pathlib`, `shutil`, `tempfile` and `fcntl.flock` calls on
paths below `root` are answered by a file system in memory, one step each. `files` holds it,
`survival` computes its states after a power loss, `routing` replaces the system's functions, and `handles`
holds the file objects.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.filesystem import routing as _routing  # puts the replacements in place
from fencepost.sim.filesystem.files import Files, check_mount
from fencepost.sim.world.run import RunState

__all__ = ["mount"]


def mount(run: RunState, path: str, profile: str, volatile: Sequence[str] = ()) -> Path:
    """Give `world` an empty file system at `path`, or return the one that it has."""
    found = check_mount(path)
    if run.files is not None:
        if run.files.mount != found:
            raise Misuse(f"this world has its file system at {run.files.mount} already")
        return Path(found)
    if not run.setting_up:
        raise Misuse("the file system is mounted by the program, before any process runs")
    run.mount(Files(run, found, profile, volatile))
    _routing.use(run)
    return Path(found)
