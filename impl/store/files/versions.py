"""Versions of a key: keep the object that a write or a delete would otherwise destroy.

    <key>                                       the current version: an object as ever
    .fencepost/versions/<key>%01/<name>         one before it, or a delete marker

A name is `<order><mark>`, `<order>null` or one of them with `-marker`: `order` falls from version to version,
so that a folder sorted by names has the newest first. The name is an attribute of its file as well, and so
the current version has one. While a key has no file of its own, its newest entry is a delete marker.

Every change holds the key's lock. It begins by `settle`, and has one step that decides:

    put                           link the current version into the folder; rename the new one to the key
    delete                        make the marker; link the current version into the folder; unlink the key
    remove the current version    rename a link of the one before it to the key, or unlink the key
    remove the newest marker      link the version before it to the key
    remove another                unlink it

Each step is durable before the next begins. An entry that is not older than the current version belongs to a
change that was interrupted before its deciding step, or whose last step is missing. No reader sees it, and
the next change removes it. So a version that was acknowledged has a durable name at every moment, and an
interrupted change either happened or did not.

In a bucket whose versioning is suspended, and for objects that are older than it, the version is `null`: a
key has one of these at most, and a write of it replaces the one before, wherever that is.
"""

import contextlib
import enum
import fcntl
import heapq
import itertools
import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import group_of
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files.attributes import AttributeFiles, Attributes
from fencepost.impl.store.files.disk import FOLDER_FLAGS, Disk
from fencepost.impl.store.files.flush import Flush
from fencepost.impl.store.files.folders import Folders
from fencepost.impl.store.files.internals import Internals
from fencepost.impl.store.files.listing import Lister, Walk
from fencepost.impl.store.files.names import Names
from fencepost.impl.store.files.reading import Opened, Reader
from fencepost.impl.store.files.writing import Draft, Spot, Writer
from fencepost.impl.store.requests import Outcome

FOLDER = "versions"
NULL = "null"
_BEHIND = "\x01/"
"""Between a key and the name of a version. It sorts before everything else that can follow a key."""
_MARKER = "-marker"
_ATTRIBUTE = "Version"
_ORDER_MAX = (1 << 64) - 1
_NAME = re.compile(r"[0-9a-f]{16}(?:null|[0-9a-f]{12,40})(?:-marker)?")
_TRIES = 10


class Keep(enum.StrEnum):
    """The treatment of the version that a write or delete replaces."""

    NOTHING = ""
    ALL = "Enabled"
    NULL = "Suspended"


class Entry(NamedTuple):
    """One version or delete marker of a key, by its name."""

    name: str

    @property
    def version(self) -> str:
        """As clients name it."""
        return NULL if self.null else self.name.removesuffix(_MARKER)

    @property
    def marker(self) -> bool:
        return self.name.endswith(_MARKER)

    @property
    def null(self) -> bool:
        return self.name[16:20] == NULL

    @property
    def moment(self) -> int:
        """Rises from version to version."""
        return _ORDER_MAX - int(self.name[:16], 16)

    def older_than(self, other: "Entry") -> bool:
        return self.name[:16] > other.name[:16]


def _entry(moment: int, mark: str, *, marker: bool = False) -> Entry:
    return Entry(f"{_ORDER_MAX - moment:016x}{mark}{_MARKER if marker else ''}")


def is_version(text: str) -> bool:
    """Return True if the text is a valid version id."""
    return text == NULL or (
        _NAME.fullmatch(text) is not None and not Entry(text).null and not Entry(text).marker
    )


def entry_of(opened: Opened) -> Entry:
    """The entry of an open version. One without a name was written before its bucket kept versions."""
    return Entry(opened.attributes.extra.get(_ATTRIBUTE) or _entry(opened.found.st_mtime_ns, NULL).name)


class _Standing(NamedTuple):
    """The versions of a key, without entries of interrupted changes."""

    current: Entry | None
    before: list[Entry]
    """The newest first."""

    def latest(self) -> int:
        newest = self.current or (self.before[0] if self.before else None)
        return newest.moment if newest else 0


class Held(NamedTuple):
    """One version of a key, or a delete marker."""

    entry: Entry
    found: os.stat_result
    attributes: Attributes


class Page(NamedTuple):
    versions: list[ask.VersionInfo]
    prefixes: list[str]
    more: bool


class Versions:
    def __init__(
        self,
        where: str,
        names: Names,
        internals: Internals,
        attributes: AttributeFiles,
        reader: Reader,
        writer: Writer,
        folders: Folders,
        lister: Lister,
        disk: Disk,
        new_flush: Callable[[int], Flush],
        env: Environment,
    ) -> None:
        self._where = f"{where}/.fencepost/{FOLDER}"
        self._names = names
        self._internals = internals
        self._attributes = attributes
        self._reader = reader
        self._writer = writer
        self._folders = folders
        self._lister = lister
        self._disk = disk
        self._new_flush = new_flush
        self._env = env
        self._known: _Tree | None = None

    def _tree(self) -> "_Tree | None":
        """The folder of versions, if there is one."""
        if self._known is None and self._internals.existing(FOLDER) is not None:
            self._known = self._made_tree()
        return self._known

    def _made_tree(self) -> "_Tree":
        if self._known is None:
            fd = os.open(".", FOLDER_FLAGS, dir_fd=self._internals.folder(FOLDER))
            folders = Folders(self._where, self._names, self._internals, self._new_flush, fd)
            reader = Reader(self._where, self._names, folders, self._attributes, verify_reads=False)
            self._known = _Tree(folders, reader, Lister(self._names, folders, self._internals, reader))
        return self._known

    @property
    def any(self) -> bool:
        """True if the store keeps a version or marker besides the current objects."""
        tree = self._tree()
        return tree is not None and tree.lister.holds_any(tree.folders.root)

    def files(self, key: str) -> Iterator[os.stat_result]:
        """Every file that a key has."""
        tree, found = self._tree(), self._reader.file(key)
        if found is not None:
            yield found
        for entry in self._entries(key):
            found = tree.reader.file(key + _BEHIND + entry.name) if tree is not None else None
            if found is not None:
                yield found

    # Reading.

    @contextlib.contextmanager
    def opened(self, key: str, version: str) -> Iterator[Opened | None]:
        """This version of a key, a delete marker too; the current one if `version` is empty."""
        found = self._reader.hold(key) if not version else self._open(key, version)
        try:
            yield found
        finally:
            if found is not None:
                os.close(found.fd)

    def _open(self, key: str, version: str) -> Opened | None:
        """It moves between its two places while others write: what is missing in both is looked for again."""
        for _ in range(_TRIES):
            current = self._reader.hold(key)
            if current is not None and entry_of(current).version == version:
                return current
            mark = current.mark if current else ""
            if current is not None:
                os.close(current.fd)
            found = self._archived(key, version)
            if found is not None:
                return found
            with self._reader.current(key) as again:
                if mark == (again.mark if again else ""):
                    return None
        return None

    @contextlib.contextmanager
    def noncurrent(self, key: str, version: str) -> Iterator[Opened | None]:
        """A version that is not the current one; None also for what was interrupted."""
        tree = self._tree()
        before = self._standing(key).before if tree is not None else []
        name = next((entry.name for entry in before if entry.version == version), "")
        if tree is None or not name:
            yield None
            return
        with tree.reader.current(key + _BEHIND + name) as found:
            yield found

    def held(self, key: str) -> list[Held]:
        """Everything at a key, the newest first: of one moment, as far as versions come and go."""
        for _ in range(_TRIES):
            standing, held = self._standing(key), []
            everything = [*([standing.current] if standing.current else []), *standing.before]
            for entry in everything:
                with self.opened(key, entry.version) as found:
                    if found is not None:
                        held.append(Held(entry, found.found, found.attributes))
            if len(held) == len(everything) and self._standing(key) == standing:
                return held
        raise Unusable(f"{key!r} in {self._where} keeps changing; try again")

    def walk(self) -> Iterator[tuple[str, str, os.stat_result]]:
        """Every key with a version that is not the current one, or was not to become it."""
        tree = self._tree()
        for path, found in tree.lister.walk() if tree is not None else ():
            key, _, name = path.rpartition(_BEHIND)
            if _NAME.fullmatch(name):
                yield key, Entry(name).version, found

    def flush(self, key: str) -> None:
        """Make the folder of a key's versions durable."""
        tree = self._tree()
        folder = tree.folders.look(key + _BEHIND) if tree is not None else None
        if folder is not None:
            with contextlib.suppress(FileNotFoundError):
                folder.flight().land()

    def _archived(self, key: str, version: str) -> Opened | None:
        tree = self._tree()
        if tree is None:
            return None
        names = [version, version + _MARKER]
        if version == NULL:
            names = [entry.name for entry in self._standing(key).before if entry.null]
        for name in names:
            if _NAME.fullmatch(name):
                found = tree.reader.hold(key + _BEHIND + name)
                if found is not None:
                    return found
        return None

    def latest_marker(self, key: str) -> str:
        """The version of the delete marker that hides a key; empty if it was never there."""
        standing = self._standing(key)
        hidden = standing.current is None and standing.before and standing.before[0].marker
        return standing.before[0].version if hidden else ""

    def find(self, key: str, mark: str) -> str:
        """The version that the write with this mark has made; empty when it is gone."""
        current, before = self._standing(key)
        entries = [*([current] if current else []), *before]
        return next((entry.version for entry in entries if entry.name[16:] == mark), "")

    def _standing(self, key: str) -> _Standing:
        for _ in range(_TRIES):
            with self._reader.current(key) as found:
                current, mark = (entry_of(found), found.mark) if found else (None, "")
            named = found is None or _ATTRIBUTE in found.attributes.extra
            entries = self._entries(key)
            with self._reader.current(key) as again:
                if mark == (again.mark if again else ""):
                    break
        if current is not None and not named:  # written by others: newer than whatever is here
            newest = max((entry.moment for entry in entries), default=0)
            current = _entry(max(current.moment, newest + 1), NULL)
        return _Standing(current, _visible(current, entries))

    def _entries(self, key: str) -> list[Entry]:
        tree = self._tree()
        folder = tree.folders.look(key + _BEHIND) if tree is not None else None
        if folder is None:
            return []
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.fd)
            try:
                return sorted(Entry(name) for name in os.listdir(fd) if _NAME.fullmatch(name))
            finally:
                os.close(fd)
        return []

    # Writing: everything from here to `page` holds the key's lock.

    def history(self, keep: Keep) -> "_History | None":
        return None if keep is Keep.NOTHING else _History(self, keep)

    def number(self, draft: Draft, keep: Keep) -> None:
        """Give the draft the name of its version."""
        mark = NULL if keep is Keep.NULL else draft.attributes.mark
        self._number(draft, _entry(self._env.now_ns(), mark))

    def _number(self, draft: Draft, entry: Entry) -> None:
        extra = {**draft.attributes.extra, _ATTRIBUTE: entry.name}
        draft.attributes = draft.attributes._replace(extra=ask.Metadata(extra))

    def replace(self, spot: Spot, draft: Draft, key: str, keep: Keep) -> Outcome:
        """Give the draft its key; the version that was there stays, unless both are null."""
        standing = self.settle(key)
        mine = Entry(draft.attributes.extra[_ATTRIBUTE])
        if mine.moment <= standing.latest():  # another was quicker, or the clock went back
            self._number(draft, _entry(standing.latest() + 1, mine.name[16:]))
            draft.side = self._attributes.attach(draft.fd, key, draft.attributes)
        kept = self._keeps(standing, keep)
        outcome = self._archive(key, standing.current) if kept and standing.current else Outcome.DONE
        if outcome is Outcome.DONE:
            outcome = self._writer.swap(spot, draft)
        if outcome is Outcome.DONE and keep is Keep.NULL and any(entry.null for entry in standing.before):
            outcome = spot.land()
            if outcome is Outcome.DONE:
                self._forget(key, [entry for entry in standing.before if entry.null])
        return outcome

    def _keeps(self, standing: _Standing, keep: Keep) -> bool:
        return standing.current is not None and (keep is Keep.ALL or not standing.current.null)

    def settle(self, key: str) -> _Standing:
        """Remove entries of interrupted changes, name the current version, return the key's versions."""
        standing = self._standing(key)
        if standing.current is not None:
            with self._reader.current(key) as found:
                assert found is not None, "only a holder of the lock removes it"
                if _ATTRIBUTE not in found.attributes.extra:
                    extra = {**found.attributes.extra, _ATTRIBUTE: standing.current.name}
                    named = found.attributes._replace(extra=ask.Metadata(extra))
                    self._attributes.change(found.fd, found.found, key, named)
        self._forget(key, sorted({*self._entries(key)} - {*standing.before}))
        return standing

    def _archive(self, key: str, entry: Entry) -> Outcome:
        """A second name for the current version, durable."""
        path, name = self._names.place(key)
        folder = self._folders.look(path)
        assert folder is not None, "only a holder of the lock removes the current version"
        draft = Draft(-1, name, folder.fd, Attributes(""), self._attributes)
        with self._spot(key, entry) as spot:
            outcome = self._writer.create(spot, draft)
            return spot.land() if outcome is Outcome.DONE else outcome

    def _spot(self, key: str, entry: Entry) -> Spot:
        path, name = self._names.place(key + _BEHIND + entry.name)
        return Spot(self._made_tree().folders, path, name)

    def _forget(self, key: str, entries: list[Entry]) -> None:
        """Remove files from the folder of versions; side files go with the last name."""
        tree = self._tree()
        folder = tree.folders.look(key + _BEHIND) if tree is not None and entries else None
        if tree is None or folder is None:
            return
        for entry in entries:
            found = tree.reader.found(entry.name, folder)
            if found is not None:
                self._disk.unlink(entry.name, folder.fd)
                self._attributes.forget(found)
        folder.flight().land()
        tree.folders.prune(folder)

    def delete(
        self, key: str, when: ask.Condition, keep: Keep, guard: Callable[[], None] = lambda: None
    ) -> ask.DeleteReply:
        """Hide a key behind a delete marker, unless `guard` raises."""
        with self._internals.key_locked(key):
            refused = self._reader.refusal(key, when)
            if refused is not None:
                return ask.DeleteReply(refused)
            guard()
            standing = self.settle(key)
            moment = max(self._env.now_ns(), standing.latest() + 1)
            mark = self._writer.new_mark()
            marker = _entry(moment, mark if keep is Keep.ALL else NULL, marker=True)
            outcome = self._make_marker(key, marker, mark)
            if outcome is Outcome.DONE and standing.current is not None:
                kept = self._keeps(standing, keep)
                outcome = self._archive(key, standing.current) if kept else Outcome.DONE
                if outcome is Outcome.DONE:
                    outcome = self._writer.unlink(key)
            if outcome is Outcome.DONE and keep is Keep.NULL:
                self._forget(key, [entry for entry in standing.before if entry.null])
            return ask.DeleteReply(outcome, version=marker.version, marker=True)

    def _make_marker(self, key: str, marker: Entry, mark: str) -> Outcome:
        known = Attributes("", mark, extra=ask.Metadata({_ATTRIBUTE: marker.name}))
        with self._spot(key, marker) as spot, self._writer.draft(known, True) as draft:
            self._writer.finish(draft, key)
            outcome = self._writer.create(spot, draft)
            return spot.land() if outcome is Outcome.DONE else outcome

    def remove(self, key: str, version: str, guard: Callable[[Opened], None]) -> ask.DeleteReply:
        """Remove one version for good. `guard` raises when it may not be."""
        with self._internals.key_locked(key):
            standing = self.settle(key)
            everything = [*([standing.current] if standing.current else []), *standing.before]
            found = next((entry for entry in everything if entry.version == version), None)
            if found is None:
                return ask.DeleteReply(Outcome.DONE, version=version)
            with self.opened(key, version) as opened:
                if opened is not None:
                    guard(opened)
            outcome = self._removed(key, found, standing)
            return ask.DeleteReply(outcome, version=version, marker=found.marker)

    def _removed(self, key: str, entry: Entry, standing: _Standing) -> Outcome:
        rest = [other for other in standing.before if other is not entry]
        restored = rest[0] if rest and not rest[0].marker else None
        outcome = Outcome.DONE
        if entry is standing.current:
            outcome = self._restore(key, restored) if restored else self._writer.unlink(key)
        elif standing.current is None and entry is standing.before[0] and restored:
            outcome = self._restore(key, restored)
        if outcome is Outcome.DONE:
            gone = [] if entry is standing.current else [entry]
            self._forget(key, gone + ([restored] if restored and self._stands(key, restored) else []))
        return outcome

    def _stands(self, key: str, entry: Entry) -> bool:
        with self._reader.current(key) as found:
            return found is not None and entry_of(found).name == entry.name

    def _restore(self, key: str, entry: Entry) -> Outcome:
        """Make an older version the current one."""
        tmp = self._internals.folder("tmp")
        tree = self._made_tree()
        folder = tree.folders.look(key + _BEHIND)
        assert folder is not None, "it holds the entry"
        draft_name = f"{entry.name}-{self._writer.new_mark()}"
        with tree.reader.current(key + _BEHIND + entry.name) as found, self._writer.spot(key) as spot:
            assert found is not None, "only a holder of the lock removes it"
            fcntl.flock(found.fd, fcntl.LOCK_EX)  # keeps `sweep` from its second name in tmp
            self._disk.link(entry.name, folder.fd, draft_name, tmp)
            draft = Draft(found.fd, draft_name, tmp, found.attributes, self._attributes)
            try:
                outcome = self._writer.swap(spot, draft)
            finally:
                if not draft.landed:
                    self._disk.unlink(draft_name, tmp)
            return spot.land() if outcome is Outcome.DONE else outcome

    def change(self, key: str, version: str, how: Callable[[Opened], Attributes]) -> Outcome:
        """Replace the attributes of one version by what `how` makes of them, and make them durable."""
        with self._internals.key_locked(key), self.opened(key, version) as found:
            if found is None:
                return Outcome.MISSING
            self._attributes.change(found.fd, found.found, key, how(found))
            return Outcome.DONE

    # Listing.

    def page(self, prefix: str, delimiter: str, after: tuple[str, str], limit: int) -> Page:
        """Versions by key, and the newest first within a key, from behind `after` (a key and one of its
        versions; without a version, the key's versions are passed as a whole)."""
        return self._lister.steadily(lambda: self._page(prefix, delimiter, after, limit))

    def _page(self, prefix: str, delimiter: str, after: tuple[str, str], limit: int) -> Page:
        versions: list[ask.VersionInfo] = []
        groups: list[str] = []
        tree = self._tree()
        walks = [
            Walk(lister, ask.List(prefix, after=after[0]))
            for lister in (self._lister, tree and tree.lister)
            if lister
        ]
        passed = after[0] if delimiter and after[0].endswith(delimiter) else ""
        for key in self._keys(walks, prefix, after):
            group = group_of(key, prefix, delimiter)
            if group:
                if group != passed:
                    if len(versions) + len(groups) >= limit:
                        return Page(versions, groups, True)
                    groups.append(group)
                    passed = group
                    for walk in walks:
                        walk.pass_over(group)
                continue
            rows = self._rows(key, after[1] if key == after[0] else "")
            room = limit - len(versions) - len(groups)
            versions += rows[:room]
            if len(rows) > room:
                return Page(versions, groups, True)
        return Page(versions, groups, False)

    def keys(self, after: str, limit: int, prefix: str = "") -> list[str]:
        """Return keys behind `after` that have a file, in order. None of the files is read: it may be
        damaged."""

        def listed() -> list[str]:
            tree = self._tree()
            listers = [self._lister, *([tree.lister] if tree is not None else [])]
            walks = [Walk(lister, ask.List(prefix, after=after)) for lister in listers]
            return [*itertools.islice(self._keys(walks, prefix, (after, "")), limit)]

        return self._lister.steadily(listed)

    def _keys(self, walks: list[Walk], prefix: str, after: tuple[str, str]) -> Iterator[str]:
        """Every key that has a version, once, in order."""
        first = [after[0]] if after[1] else []
        current, *archived = walks
        rest = [(key for key, _ in current.keys())]  # noqa: SIM118  an iterator, not a dictionary's
        rest += [(key.rpartition(_BEHIND)[0] for key, _ in walk.keys()) for walk in archived]  # noqa: SIM118  the same
        last = None if after[1] else after[0] or None
        for key in heapq.merge(first, *rest):
            if key.startswith(prefix) and (last is None or key > last):
                last = key
                yield key

    def _rows(self, key: str, after: str) -> list[ask.VersionInfo]:
        standing = self._standing(key)
        everything = [*([standing.current] if standing.current else []), *standing.before]
        names = [entry.version for entry in everything]
        start = 0
        if after in names:
            start = names.index(after) + 1
        elif after and after != NULL:
            start = sum(1 for entry in everything if entry.name[:16] <= after[:16])
        rows = []
        for at, entry in [*enumerate(everything)][start:]:
            with self.opened(key, entry.version) as found:
                if found is not None:  # removed meanwhile
                    latest = at == 0 and (entry is standing.current or entry.marker)
                    etag, size = found.attributes.etag, found.found.st_size
                    modified = found.found.st_mtime_ns
                    rows.append(
                        ask.VersionInfo(key, entry.version, latest, entry.marker, etag, size, modified)
                    )
        return rows


class _History(NamedTuple):
    """The `History` that `writing` uses, for one treatment of replaced versions."""

    versions: Versions
    keep: Keep

    def number(self, draft: Draft) -> None:
        self.versions.number(draft, self.keep)

    def replace(self, spot: Spot, draft: Draft, key: str) -> Outcome:
        return self.versions.replace(spot, draft, key, self.keep)

    def version(self, draft: Draft) -> str:
        return Entry(draft.attributes.extra[_ATTRIBUTE]).version

    def find(self, key: str, mark: str) -> str:
        return NULL if self.keep is Keep.NULL else self.versions.find(key, mark)


class _Tree(NamedTuple):
    folders: Folders
    reader: Reader
    lister: Lister


def _visible(current: Entry | None, entries: list[Entry]) -> list[Entry]:
    """The entries before the current version, without what was interrupted."""
    nulls = current is not None and current.null
    found = []
    for entry in entries:
        if (current is None or entry.older_than(current)) and not (entry.null and nulls):
            found.append(entry)
            nulls = nulls or entry.null
    return found
