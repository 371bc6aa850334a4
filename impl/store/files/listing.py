"""List keys in order, a page at a time, from the folders that can hold keys of the page.

Keys are ordered by their bytes in UTF-8, which is the order of their code points. In a folder, an object
sorts as its name and a folder as its name with the slash behind it, so that walking entries in that order
yields keys in order. A folder is entered only when keys in it can start with the prefix and sort behind
the page before. With the delimiter "/", a folder that is one group is not walked at all: it is enough
that something is in it. Each folder that is entered is read whole, because systems return names unordered.

An object that exists from before the request until after it is always found: a listing during which a
folder moved to its second name begins again. The listing leaves out files whose names are not the canonical
spelling of a key, symbolic links, everything that is neither file nor folder, and folders without objects.
"""

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import group_of
from fencepost.impl.store.files.disk import FOLDER_FLAGS, close_quietly
from fencepost.impl.store.files.folders import Folder, Folders
from fencepost.impl.store.files.internals import Internals
from fencepost.impl.store.files.names import FOLDER, INTERNAL, MORE, Names
from fencepost.impl.store.files.reading import Reader
from fencepost.impl.store.requests import Outcome

R = TypeVar("R")
_TRIES = 3
"""After so many listings in which a folder moved, moving has to wait for us."""


class _Entry(NamedTuple):
    text: str
    """The part of the key that this entry adds; for a folder it ends with a slash."""
    folder: bool
    name: str
    holder: Folder
    """The folder it is in on disk."""


class Lister:
    def __init__(self, names: Names, folders: Folders, internals: Internals, reader: Reader) -> None:
        self._names = names
        self._folders = folders
        self._internals = internals
        self._reader = reader

    def page(self, request: ask.List) -> ask.ListReply:
        return self.steadily(lambda: Walk(self, request).reply())

    def steadily(self, act: Callable[[], R]) -> R:
        """The result of a listing during which no folder moved."""
        for _ in range(_TRIES):
            moves = self._internals.moves()
            if moves % 2:
                break
            found = act()
            if self._internals.moves() == moves:
                return found
        with self._folders.still():
            return act()

    def walk(self) -> Iterator[tuple[str, os.stat_result]]:
        """All keys with what the system says of their files. Repeated when a folder moved meanwhile."""
        for _ in range(_TRIES):
            moves = self._internals.moves()
            root = self.start("")
            if root is not None:
                yield from self._below(root, "")
            if moves % 2 == 0 and self._internals.moves() == moves:
                return
        with self._folders.still():
            root = self.start("")
            if root is not None:
                yield from self._below(root, "")

    def _below(self, folder: Folder, path: str) -> Iterator[tuple[str, os.stat_result]]:
        folders = []
        for entry in self._scan(folder, ()):
            if entry.folder:
                folders.append(entry)
                continue
            found = self._reader.found(entry.name, entry.holder)
            if found is not None and stat.S_ISREG(found.st_mode):
                yield path + entry.text, found
        for entry in folders:
            inner = self.enter(entry.name, entry.holder, "")
            if inner is not None:
                yield from self._below(inner, path + entry.text)

    def info(self, key: str, entry: _Entry) -> ask.ObjectInfo | None:
        """Return an object's row of a listing; None if the object is gone by now."""
        opened = self._reader.open(entry.name, entry.holder, key)
        if opened is None:
            return None
        close_quietly(opened.fd)
        return ask.ObjectInfo(key, opened.attributes.etag, opened.found.st_size, opened.found.st_mtime_ns)

    def start(self, prefix: str) -> Folder | None:
        """The deepest folder that holds all keys with this prefix."""
        return self._folders.look(prefix[: prefix.rfind("/") + 1])

    def entries(self, folder: Folder) -> list[_Entry]:
        """Return the entries of a folder in key order."""
        return sorted(self._scan(folder, ()), key=lambda entry: entry.text)

    def _scan(self, folder: Folder, before: tuple[str, ...]) -> Iterator[_Entry]:
        # A descriptor of its own: the position in a folder belongs to the descriptor, which threads share.
        fd = os.open(".", FOLDER_FLAGS, dir_fd=folder.fd)
        try:
            with os.scandir(fd) as scan:
                for found in scan:
                    yield from self._entry(found, folder, before)
        except FileNotFoundError:
            return
        finally:
            close_quietly(fd)

    def _entry(self, found: "os.DirEntry[str]", folder: Folder, before: tuple[str, ...]) -> Iterator[_Entry]:
        name = found.name
        if found.is_file(follow_symlinks=False):
            text = self._names.text((*before, name))
            if text is not None:
                yield _Entry(text, False, name, folder)
        elif found.is_dir(follow_symlinks=False) and name != INTERNAL:
            if name.endswith(MORE):
                rest = self.enter(name, folder, "")
                if rest is not None:
                    yield from self._scan(rest, (*before, name.removesuffix(MORE)))
                return
            text = self._names.text((*before, name.removesuffix(FOLDER)))
            if text is not None:
                yield _Entry(text + "/", True, name, folder)

    def enter(self, name: str, parent: Folder, path: str) -> Folder | None:
        """A folder for this listing only; None when it is gone by now."""
        fd = self._folders.open(name, parent)
        return None if fd is None else Folder(fd, path, name, parent, None)

    def holds_any(self, folder: Folder) -> bool:
        """Return True if there is an object in the folder or below it."""
        below: list[_Entry] = []
        for entry in self._scan(folder, ()):
            if not entry.folder:
                return True
            below.append(entry)
        return any(
            inner is not None and self.holds_any(inner)
            for inner in (self.enter(entry.name, entry.holder, "") for entry in below)
        )


class Walk:
    """The keys of one listing, from the page before it on."""

    def __init__(self, lister: Lister, request: ask.List) -> None:
        self._lister = lister
        self._request = request
        self._after = max(request.after, request.token)
        grouped = bool(request.delimiter) and request.token.endswith(request.delimiter)
        self._done_with = request.token if grouped else ""
        """A group that was reported: its keys are not wanted any more."""

    def reply(self) -> ask.ListReply:
        objects: list[ask.ObjectInfo] = []
        prefixes: list[str] = []
        last = ""
        for key, entry in self.keys():
            if len(objects) + len(prefixes) == self._request.limit:
                return ask.ListReply(Outcome.DONE, "", tuple(objects), tuple(prefixes), last)
            group = group_of(key, self._request.prefix, self._request.delimiter)
            if group:
                prefixes.append(group)
                self.pass_over(group)
            else:
                info = self._lister.info(key, entry)
                if info is None:
                    continue
                objects.append(info)
            last = group or key
        return ask.ListReply(Outcome.DONE, "", tuple(objects), tuple(prefixes), "")

    def pass_over(self, group: str) -> None:
        """Go on behind the keys that start with `group`."""
        self._done_with = group

    def keys(self) -> Iterator[tuple[str, _Entry]]:
        prefix = self._request.prefix
        folder = self._lister.start(prefix)
        if folder is not None:
            yield from self._walk(folder, prefix[: prefix.rfind("/") + 1])

    def _walk(self, folder: Folder, path: str) -> Iterator[tuple[str, _Entry]]:
        """The keys in a folder that belong on this page or behind it, in order."""
        for entry in self._lister.entries(folder):
            key = path + entry.text
            if self._done_with and key.startswith(self._done_with):
                continue
            if not entry.folder:
                if key.startswith(self._request.prefix) and (not self._after or key > self._after):
                    yield key, entry
            elif self._enters(key):
                inner = self._lister.enter(entry.name, entry.holder, key)
                if inner is None:
                    continue
                if not self._is_group(key):
                    yield from self._walk(inner, key)
                elif self._lister.holds_any(inner):
                    yield key, entry

    def _enters(self, path: str) -> bool:
        """Return True if keys that start with `path` can have the prefix and follow the previous page."""
        prefix = self._request.prefix
        if not (path.startswith(prefix) or prefix.startswith(path)):
            return False
        return path > self._after or self._after.startswith(path)

    def _is_group(self, path: str) -> bool:
        """Return True if all keys in this folder are listed as one group."""
        return (
            self._request.delimiter == "/"
            and group_of(path, self._request.prefix, "/") == path
            and path > self._after
            and path.startswith(self._request.prefix)
        )
