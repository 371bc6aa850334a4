"""Find, make, move and remove the folders of a store while other writers use them.

The rules that make this safe without a lock on the common path:

1. A folder of keys is known by its inode, not by its name. At any moment at most one folder represents a
   path, under its natural name or under its second one (`names`). Only the holder of the lock `TREE` makes
   a folder, or moves one from its natural to its second name; it never moves back.
2. A lookup tries the natural name first and the second one after. If both are missing, there was a moment
   in between without such a folder: a folder leaves its second name only when it is removed, and only an
   empty folder can be removed.
3. A name is made in a folder through the folder's descriptor. If the folder was moved meanwhile, it is
   still the right one; if it was removed, the system refuses (a removed folder takes no names) and the
   writer looks again. So removing an empty folder needs no lock, and cannot lose a racing creator's object.
4. A descriptor may be kept: a name found through it is valid. If a name is *not* found, look it up again
   from the root, because the folder may have been removed and made anew.
5. An object is durable only when every folder above it is. The first write through a folder
   therefore flushes all its parents, even if another writer made it.

Symbolic links are never followed below the root.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files.disk import FOLDER_FLAGS, close_quietly
from fencepost.impl.store.files.flush import Flight, Flush
from fencepost.impl.store.files.internals import TREE, Internals
from fencepost.impl.store.files.names import FOLDER, Names

_KNOWN_MAX = 64
"""Folders kept open, to stay far from a process's limit of open files."""


_TRIES = 100
"""The number of attempts to make a folder that other writers remove because it is empty."""


class Folder:
    """An open folder. Its descriptor is closed with the last reference."""

    __slots__ = ("_flush", "anchored", "fd", "name", "parent", "path")

    def __init__(self, fd: int, path: str, name: str, parent: "Folder | None", flush: Flush | None) -> None:
        self.fd = fd
        self.path = path
        self.name = name
        """Under which it was found in its parent; it may have moved since."""
        self.parent = parent
        self._flush = flush
        """None where nothing is ever written through it."""
        self.anchored = parent is None
        """True if the folder and all its parents are durable."""

    def flight(self) -> Flight:
        """A flush of this folder that will be wanted soon."""
        assert self._flush is not None, "opened to be listed only"
        return self._flush.announce()

    def __del__(self, _close: Callable[[int], None] = close_quietly) -> None:
        _close(self.fd)


class Folders:
    def __init__(
        self, root: str, names: Names, internals: Internals, new_flush: Callable[[int], Flush], root_fd: int
    ) -> None:
        self._where = root
        self._names = names
        self._internals = internals
        self._new_flush = new_flush
        self.root = Folder(root_fd, "", "", None, new_flush(root_fd))
        self._root_stat = os.fstat(root_fd)
        self._known: dict[str, Folder] = {"": self.root}

    def find(self, path: str) -> Folder | None:
        """The folder, perhaps one that was removed since: only what is found in it counts."""
        return self._known.get(path) or self.look(path)

    def look(self, path: str) -> Folder | None:
        """The folder as it is now, or None."""
        if not path:
            if not os.path.samestat(os.stat(self._where), self._root_stat):
                raise FileNotFoundError(errno.ENOENT, "the root directory was replaced")
            return self.root
        parent = self.look(self._names.step(path)[0])
        return None if parent is None else self._look_in(parent, path)

    def _look_in(self, parent: Folder, path: str) -> Folder | None:
        """The same where its parent was found just now."""
        _, name, movable = self._names.step(path)
        for candidate in (name, name + FOLDER) if movable else (name,):
            fd = self.open(candidate, parent)
            if fd is not None:
                return self._kept(fd, path, candidate, parent)
        return None

    def known(self, path: str) -> Folder | None:
        return self._known.get(path)

    def open(self, name: str, parent: Folder) -> int | None:
        """Return the descriptor of a folder; None if there is none, or the name is a file's."""
        try:
            return os.open(name, FOLDER_FLAGS, dir_fd=parent.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
        self.refuse_link(name, parent)
        return None

    def refuse_link(self, name: str, parent: Folder) -> None:
        """Raise when `name` is a symbolic link."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=parent.fd, follow_symlinks=False).st_mode):
                raise Unusable(
                    f"{self._where} holds a symbolic link at {parent.path + name!r}; "
                    "it could lead outside, remove it"
                )

    def _kept(self, fd: int, path: str, name: str, parent: Folder) -> Folder:
        known = self._known.get(path)
        if known is not None and os.path.samestat(os.fstat(known.fd), os.fstat(fd)):
            close_quietly(fd)
            known.name = name
            return known
        found = self._known[path] = Folder(fd, path, name, parent, self._new_flush(fd))
        while len(self._known) > _KNOWN_MAX:
            with contextlib.suppress(KeyError, RuntimeError):  # another thread may be making room too
                del self._known[next(path for path in self._known if path)]
        return found

    def make(self, path: str) -> Folder:
        """The folder, made when it is missing, and durable with all its parents."""
        folder = self._known.get(path)
        if folder is not None and folder.anchored:
            return folder
        return self.remake(path)

    def remake(self, path: str) -> Folder:
        """Like `make`, but trusts nothing that was found before."""
        for left in reversed(range(_TRIES)):
            try:
                folder = self.look(path)
                if folder is None:
                    with self._internals.locked(TREE):
                        folder = self._made(path)
                self._anchor(folder)
            except FileNotFoundError:  # a parent was empty and removed meanwhile
                if not left:
                    raise
            else:
                return folder
        raise AssertionError("the last try returns or raises")

    def _made(self, path: str) -> Folder:
        if not path:
            return self.look(path) or self.root
        parent_path, name, movable = self._names.step(path)
        parent = self._made(parent_path)
        folder = self._look_in(parent, path)
        if folder is not None:
            return folder
        try:
            os.mkdir(name, dir_fd=parent.fd)
        except FileExistsError:  # an object, or it was made by somebody who is none of us
            if movable:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name + FOLDER, dir_fd=parent.fd)
        folder = self._look_in(parent, path)
        if folder is None:
            self._refuse_file(name + FOLDER if movable else name, parent)
            raise FileNotFoundError(errno.ENOENT, "removed by somebody who found it empty")
        return folder

    def _refuse_file(self, name: str, parent: Folder) -> None:
        """Raise if a file has the name that only a folder of the store may have."""
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=parent.fd, follow_symlinks=False).st_mode):
                raise Unusable(
                    f"{self._where} has a file at {parent.path + name!r} where a folder belongs; remove it"
                )

    def _anchor(self, folder: Folder) -> None:
        if folder.anchored or folder.parent is None:
            return
        self._anchor(folder.parent)
        folder.parent.flight().land()
        folder.anchored = True

    def move_aside(self, name: str, parent: Folder) -> None:
        """Free the natural name of a folder for an object."""
        with self._internals.locked(TREE):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent.fd)
                return
            with contextlib.suppress(NotADirectoryError, FileNotFoundError):
                self._move(name, parent)
                parent.flight().land()

    def _move(self, name: str, parent: Folder) -> None:
        if self._internals.moves() % 2 == 0:  # else a mover died between its two counts
            self._internals.count_move()
        try:
            fd = os.open(name, FOLDER_FLAGS, dir_fd=parent.fd)
            close_quietly(fd)
            os.rename(name, name + FOLDER, src_dir_fd=parent.fd, dst_dir_fd=parent.fd)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise Unusable(
                f"{self._where} has folders {parent.path + name!r} and {parent.path + name + FOLDER!r}; "
                "somebody else made one of them: move its files into the other"
            ) from None
        finally:
            self._internals.count_move()

    def prune(self, folder: Folder) -> None:
        """Remove the folder and its parents as far as they are empty."""
        while folder.parent is not None:
            try:
                os.rmdir(folder.name, dir_fd=folder.parent.fd)
            except OSError:
                return
            if self._known.get(folder.path) is folder:
                self._known.pop(folder.path, None)
            folder = folder.parent

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """No folder moves meanwhile."""
        with self._internals.locked(TREE):
            if self._internals.moves() % 2:
                self._internals.count_move()
            yield
