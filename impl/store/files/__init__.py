"""Objects in a local directory: the embedded default for production."""

from fencepost.impl.store.files.disk import Disk
from fencepost.impl.store.files.store import FileStore

__all__ = ["Disk", "FileStore"]
