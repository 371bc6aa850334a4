"""Objects in a local directory: the embedded default for production."""

from holdfast.impl.store.files.disk import Disk
from holdfast.impl.store.files.store import FileStore

__all__ = ["Disk", "FileStore"]
