"""Directory stores that are faulty on purpose, each in one way that a test must catch."""

import contextlib
import os
import time

from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.files.internals import Internals


class BySteps(Disk):
    """Not broken: a system without the compiled part that creates in one call."""


class NoXattrs(Disk):
    """Not broken: a file system without extended attributes."""

    def set_attribute(self, fd, value):
        raise OSError(95, "Operation not supported")

    def get_attribute(self, fd):
        return None


class CheckThenRename(Disk):
    """Looks whether the name is free, then renames over it: two creators can both win."""

    def link(self, source, source_fd, name, folder_fd):
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder_fd)
            raise FileExistsError(17, "File exists")
        between = f"{name}-{os.getpid()}-{time.monotonic_ns()}"
        super().link(source, source_fd, between, folder_fd)
        os.rename(between, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)


class InPlace(Disk):
    """Overwrites the old file instead of replacing it: a kill leaves half of both."""

    def replace(self, source, source_fd, name, folder_fd):
        with os.fdopen(os.open(source, os.O_RDONLY, dir_fd=source_fd), "rb") as file:
            body, attributes = file.read(), self.get_attribute(file.fileno())
        if attributes is None:  # not an object
            return super().replace(source, source_fd, name, folder_fd)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666, dir_fd=folder_fd)
        self.set_attribute(fd, attributes)
        for at in range(0, len(body), 4096):
            os.write(fd, body[at : at + 4096])
        os.close(fd)
        return None


class AttributesLast(Disk):
    """Attaches the attributes after the name is given: a kill in between leaves an object without them."""

    def __init__(self):
        self.waiting = {}

    def set_attribute(self, fd, value):
        self.waiting[os.fstat(fd).st_ino] = value

    def replace(self, source, source_fd, name, folder_fd):
        super().replace(source, source_fd, name, folder_fd)
        self._attach(name, folder_fd)

    def link(self, source, source_fd, name, folder_fd):
        super().link(source, source_fd, name, folder_fd)
        self._attach(name, folder_fd)

    def _attach(self, name, folder_fd):
        fd = os.open(name, os.O_RDWR, dir_fd=folder_fd)
        value = self.waiting.pop(os.fstat(fd).st_ino, None)
        if value is not None:
            time.sleep(0.0005)
            super().set_attribute(fd, value)
        os.close(fd)


class NoFolderFsync(Disk):
    """Answers before the name is durable."""

    def fsync_folder(self, fd):
        pass


class NoFileFsync(Disk):
    """Gives the name before the content is durable."""

    one_call = False

    def fsync(self, fd):
        pass


@contextlib.contextmanager
def _unlocked(self, key):
    yield


VARIANTS = {
    "by-steps": BySteps,
    "check-then-rename": CheckThenRename,
    "in-place": InPlace,
    "attributes-last": AttributesLast,
    "side-files": NoXattrs,
}


def open_variant(root, variant="", **options):
    """A store of one of the variants above; `no-lock` has no mutual exclusion, `` is sound."""
    if variant == "no-lock":
        Internals.key_locked = _unlocked
    return FileStore(root, disk=VARIANTS.get(variant, Disk)(), **options)
