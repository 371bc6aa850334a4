"""What probing a directory leaves besides objects: the store's own bookkeeping, and the folder itself.

A directory store keeps locks and its format in a folder of its own and makes the directory it is given.
Where neither was there before, and nothing but that bookkeeping is there afterwards, both go again.
"""

import contextlib
import shutil
from pathlib import Path

from fencepost.impl.store.files.names import INTERNAL
from fencepost.impl.store.interface import Store


class Footprint:
    """Remembers what stood in the way before the probe came."""

    def __init__(self, store: Store) -> None:
        path = getattr(store, "path", None) if store.url.startswith("file:") else None
        self._path = Path(path) if path else None
        self._was_a_store = self._path is not None and (self._path / INTERNAL).exists()
        self._made = self._missing(self._path) if self._path else []

    @staticmethod
    def _missing(path: Path) -> list[Path]:
        """The folders that will have to be made, innermost first."""
        return [folder for folder in (path, *path.parents) if not folder.exists()]

    def remove(self) -> None:
        """Take away what was made; whatever somebody put there meanwhile stays, and so does its folder."""
        if self._path is None or self._was_a_store or not self._path.is_dir():
            return
        if any(entry.name != INTERNAL for entry in self._path.iterdir()):
            return
        shutil.rmtree(self._path / INTERNAL, ignore_errors=True)
        with contextlib.suppress(OSError):
            for folder in self._made:
                folder.rmdir()
