"""States of a file system after a power loss: all that a persistence profile allows.

The journal of a run keeps what no fsync covers yet: changes of names (with their order), and for each file
its durable content with the operations since. `outcomes` makes every state of the disk that may be found
when power is back. Two profiles say which; docs/decisions/0016 has their sources.

strict  Only what POSIX promises. fsync of a file makes its content and attributes durable, not its name;
        fsync of a directory makes its names durable. Of everything else any part may survive. Every name
        has, independently of all others, any of the files that it named since. Every write of a file may be
        lost, be there up to its middle, or have left only the length (zeros).
ext4    data=ordered with delayed allocation, as mounted by default. Names, attributes and the creation of
        files are one journal in the order of the calls, of which a prefix survives. An fsync writes it up to
        the last operation that changed the size, a name or an attribute of the file; an fdatasync up to the
        last that changed its size. jbd2 commits the transaction of that change. Content of a file that
        is appended or truncated survives in order, up to a page boundary; content that is overwritten in
        place survives in any combination. A rename over an existing file allocates first: where the rename
        survives, so do the writes to the file before it.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fencepost.impl.store.errors import Misuse

PROFILES = ("strict", "ext4")
OUTCOMES_MAX = 4_000
"""States of the disk after one power loss."""
PAGE = 4096

Change = tuple[int, str, int | None]
"""A directory, a name, and the file that it names now, if any."""


class Outcome(NamedTuple):
    """One state of the disk after a power loss."""

    lost: int
    """Number of differences from the state before the loss: the first outcome has lost the least."""
    text: str
    folders: dict[int, dict[str, int]]
    files: dict[int, tuple[bytes, dict[str, bytes]]]


class _Entry(NamedTuple):
    """One operation of the journal."""

    changes: tuple[Change, ...]
    attribute: tuple[int, str, bytes | None] | None
    allocates: tuple[int, int]
    """A file, and how many of the operations on its content must survive with this one."""


class _File(NamedTuple):
    """A file with operations that no fsync covers."""

    body: bytes
    attributes: tuple[tuple[str, bytes], ...]
    operations: tuple[tuple[Any, ...], ...]


_NONE = (0, 0)
Fate = tuple[str, bytes, tuple[tuple[str, bytes], ...]]
"""State of a file: a text for people, its content, its attributes."""


class Journal:
    """The operations that are not durable yet."""

    def __init__(
        self, profile: str, inodes: dict[int, Any], root: int, volatile: frozenset[int] = frozenset()
    ) -> None:
        if profile not in PROFILES:
            raise Misuse(f"no persistence profile is called {profile!r}; there are: {', '.join(PROFILES)}")
        self.ordered = profile == "ext4"
        """True if the order of metadata operations decides what survives."""
        self._inodes = inodes
        self._root = root
        self.volatile = volatile
        """Directories whose names no power loss leaves."""
        self._kept: dict[int, dict[str, int]] = {root: {}}
        """The durable names of each directory."""
        self._entries: list[_Entry] = []
        self._files: dict[int, _File] = {}
        self._durable = 0
        """Number of entries written so far."""
        self._touched: dict[int, tuple[int, int]] = {}
        """By inode, up to which entry an fsync of it writes the journal, and an fdatasync."""
        self._new: set[int] = set()
        """Inodes that no entry names yet."""
        self._state: Any = None

    # Operations.

    def made(self, number: int, *, folder: bool) -> None:
        self._new.add(number)
        if folder:
            self._kept[number] = {}
        self._state = None

    def _touch(self, number: int, *, sized: bool) -> None:
        """An operation that changed an inode belongs to the transaction of the last entry."""
        place = self._durable + len(self._entries)
        self._touched[number] = (place, place if sized else self._touched.get(number, _NONE)[1])

    def names(self, changes: tuple[Change, ...], replaced_by: int | None) -> None:
        """An operation that changed names; `replaced_by` is the file that a rename put over another one."""
        pending = self._files.get(replaced_by or 0)
        allocates = (replaced_by or 0, len(pending.operations)) if pending is not None else _NONE
        lasting = tuple(change for change in changes if change[0] not in self.volatile)
        if lasting:
            self._entries.append(_Entry(lasting, None, allocates))
        for folder, _, number in changes:
            self._touch(folder, sized=False)
            if number is not None:
                self._touch(number, sized=number in self._new)
                self._new.discard(number)
        self._state = None

    def data(self, inode: Any, operation: tuple[Any, ...]) -> None:
        """An operation on the content or the attributes of a file; called before it is done."""
        pending = self._files.get(inode.number)
        if pending is None:
            pending = _File(inode.body, tuple(sorted(inode.attributes.items())), ())
        if self.ordered and operation[0] == "attribute":
            self._entries.append(_Entry((), (inode.number, *operation[1:]), _NONE))
            self._files[inode.number] = pending
            self._touch(inode.number, sized=False)
        else:
            self._files[inode.number] = pending._replace(operations=(*pending.operations, operation))
            if resizes(inode, operation):
                self._touch(inode.number, sized=True)
        self._state = None

    def keep(self, inode: Any, *, data_only: bool = False) -> None:
        """An fsync of a file or a directory returned; with `data_only` an fdatasync."""
        self._state = None
        if self.ordered:
            self._commit(self._touched.get(inode.number, _NONE)[data_only] - self._durable)
        if not inode.folder:
            pending = self._files.pop(inode.number, None)
            if pending is not None:
                self._flushed(inode.number, len(pending.operations))
                attributes = tuple(one for one in pending.operations if one[0] == "attribute" and data_only)
                if attributes or any(
                    one.attribute and one.attribute[0] == inode.number for one in self._entries
                ):
                    self._files[inode.number] = _File(inode.body, pending.attributes, attributes)
        elif not self.ordered and inode.number not in self.volatile:
            self._kept[inode.number] = dict(inode.entries)
            left = [
                entry._replace(changes=tuple(change for change in entry.changes if change[0] != inode.number))
                for entry in self._entries
            ]
            self._entries = [entry for entry in left if entry.changes]

    def _commit(self, count: int) -> None:
        """Write so many entries of the journal."""
        written, self._entries = self._entries[: max(0, count)], self._entries[max(0, count) :]
        self._durable += len(written)
        for place, entry in enumerate(written):
            _apply(self._kept, entry.changes)
            if entry.attribute is not None:
                self._files[entry.attribute[0]] = _with_attribute(
                    self._files[entry.attribute[0]], entry.attribute
                )
            number, operations = entry.allocates
            if operations and number in self._files:
                self._files[number] = _written_back(self._files[number], operations)
                written[place + 1 :] = _after(written[place + 1 :], number, operations)
                self._flushed(number, operations)
        changing = {entry.attribute[0] for entry in self._entries if entry.attribute is not None}
        idle = [n for n, pending in self._files.items() if not pending.operations and n not in changing]
        for number in idle:
            del self._files[number]

    def _flushed(self, number: int, operations: int) -> None:
        """The first operations on a file are durable: entries need not force them any more."""
        self._entries = _after(self._entries, number, operations)

    def keep_everything(self) -> None:
        """Make the present state durable."""
        self._kept = {
            number: {} if number in self.volatile else dict(inode.entries)
            for number, inode in self._inodes.items()
            if inode.folder
        }
        self._entries, self._files, self._state = [], {}, None
        self._touched, self._durable = {}, 0

    def state(self) -> Any:
        """Return everything on which `outcomes` depends, hashable."""
        if self._state is None:
            entries: Any = tuple(self._entries) if self.ordered else self._values()
            live = self._reachable()
            self._state = (
                tuple(
                    [
                        (n, tuple(sorted(names.items())))
                        for n, names in sorted(self._kept.items())
                        if n in live
                    ]
                ),
                entries if self.ordered else tuple(sorted(entries.items())),
                tuple([(n, pending) for n, pending in sorted(self._files.items()) if n in live]),
                tuple(
                    [
                        (n, self._inodes[n].body, tuple(sorted(self._inodes[n].attributes.items())))
                        for n in sorted(live)
                        if n not in self._files and not self._inodes[n].folder
                    ]
                ),
                self._uncommitted() if self.ordered else (),
            )
        return self._state

    def _uncommitted(self) -> Any:
        """Numbers of entries that an fsync and an fdatasync would write, by inode."""
        found = [
            (number, max(0, place - self._durable), max(0, sized - self._durable))
            for number, (place, sized) in sorted(self._touched.items())
        ]
        return tuple([one for one in found if one[1]])

    def _reachable(self) -> set[int]:
        """Return every file and directory that some outcome may show."""
        inside: dict[int, set[int]] = {number: set(names.values()) for number, names in self._kept.items()}
        for entry in self._entries:
            for folder, _, number in entry.changes:
                if number is not None:
                    inside.setdefault(folder, set()).add(number)
        seen, waiting = set(), [self._root]
        while waiting:
            number = waiting.pop()
            if number not in seen:
                seen.add(number)
                waiting += inside.get(number, ())
        return seen

    def _values(self) -> dict[tuple[int, str], tuple[int, ...]]:
        """Files that each changed name may name under the strict profile, 0 for none, the last one first."""
        found: dict[tuple[int, str], list[int]] = {}
        for entry in self._entries:
            for folder, name, number in entry.changes:
                values = found.setdefault((folder, name), [self._kept.get(folder, {}).get(name, 0)])
                values.append(number or 0)
        return {key: (values[-1], *sorted(set(values) - {values[-1]})) for key, values in found.items()}

    # Outcomes.

    def outcomes(self, path_of: Callable[[int], str]) -> list[Outcome]:
        """Return every state of the disk that a power loss may leave now, the most complete first."""
        found: dict[Any, Outcome] = {}
        for lost, text, names, forced, attributes in (
            self._ordered(path_of) if self.ordered else self._strict(path_of)
        ):
            live = _tree(names, self._root)
            files = [number for number in live if number not in names]
            pending = [number for number in files if number in self._files]
            for fates in itertools.product(*(self._fates(n, forced.get(n, 0), attributes) for n in pending)):
                bodies = {n: (fate[1], dict(fate[2])) for n, fate in zip(pending, fates, strict=True)}
                for number in files:
                    if number not in bodies:
                        inode = self._inodes[number]
                        bodies[number] = (inode.body, dict(inode.attributes))
                worse = [
                    f"data of {live[n]} {fate[0]}"
                    for n, fate in zip(pending, fates, strict=True)
                    if fate[0] != "survives"
                ]
                kept = {n: inside for n, inside in names.items() if n in live}
                whole = ", ".join([*text, *worse]) or "everything survives"
                outcome = Outcome(lost + len(worse), whole, kept, bodies)
                key = _key(outcome)
                if key not in found or found[key].lost > outcome.lost:
                    found[key] = outcome
                if len(found) > OUTCOMES_MAX:
                    raise Misuse(
                        f"a power loss here may leave more than {OUTCOMES_MAX:,} states of the disk: too "
                        "much is written without an fsync; audit a smaller program, or with profile='ext4'"
                    )
        return sorted(found.values(), key=lambda outcome: (outcome.lost, outcome.text))

    def _strict(self, path_of: Callable[[int], str]) -> Iterator[Any]:
        values = self._values()
        for chosen in itertools.product(*values.values()):
            names = {number: dict(inside) for number, inside in self._kept.items()}
            text, lost = [], 0
            for (folder, name), options, number in zip(values, values.values(), chosen, strict=True):
                _apply(names, [(folder, name, number or None)])
                if len(options) > 1:
                    survives = number == options[0]
                    lost += not survives
                    text.append(_name_text(path_of(folder) + name, options[0], number))
            yield lost, text, names, {}, None

    def _ordered(self, path_of: Callable[[int], str]) -> Iterator[Any]:
        names = {number: dict(inside) for number, inside in self._kept.items()}
        forced: dict[int, int] = {}
        attributes = {number: dict(pending.attributes) for number, pending in self._files.items()}
        for place in range(len(self._entries) + 1):
            if place:
                entry = self._entries[place - 1]
                _apply(names, entry.changes)
                number, operations = entry.allocates
                forced[number] = max(forced.get(number, 0), operations)
                if entry.attribute is not None:
                    number, name, value = entry.attribute
                    if value is None:
                        attributes[number].pop(name, None)
                    else:
                        attributes[number][name] = value
            lost = self._entries[place:]
            text = [_entry_text(entry, path_of, self._path) for entry in lost]
            copied = {number: dict(inside) for number, inside in names.items()}
            kept = {number: tuple(sorted(found.items())) for number, found in attributes.items()}
            yield len(lost), text, copied, dict(forced), kept

    def _path(self, number: int) -> str:
        return _tree({n: inode.entries for n, inode in self._inodes.items() if inode.folder}, self._root).get(
            number, "a file without a name"
        )

    def _fates(self, number: int, forced: int, attributes: Any) -> Sequence[Fate]:
        """Return the states of the content of a file after a loss, the whole content first."""
        pending = self._files[number]
        kept = pending.attributes if attributes is None else attributes[number]
        states: dict[Any, tuple[str, bool]] = {(pending.body, kept): ("survives", True)}
        for place, operation in enumerate(pending.operations):
            after: dict[Any, tuple[str, bool]] = {}
            for (body, extra), (label, whole) in states.items():
                for fate, one in self._fates_of(operation, (body, extra), whole, place < forced):
                    now = (
                        label
                        if fate == "survives"
                        else fate
                        if label in ("survives", fate)
                        else "is partly lost"
                    )
                    after.setdefault(one, (now, whole and fate == "survives"))
            states = after
            if len(states) > OUTCOMES_MAX:
                break  # refused by the caller
        found = [(label, *state) for state, (label, _) in states.items()]
        return sorted(found, key=lambda fate: fate[0] != "survives")

    def _fates_of(
        self, operation: tuple[Any, ...], state: tuple[bytes, Any], whole: bool, forced: bool
    ) -> Iterator[tuple[str, tuple[bytes, Any]]]:
        """Return the states that one operation may leave; `whole`: every operation before it survived."""
        body, attributes = state
        kind, place, value = (*operation, None)[:3]
        if kind == "attribute":
            changed = {**dict(attributes), place: value}
            yield "survives", (body, tuple(sorted((n, v) for n, v in changed.items() if v is not None)))
            yield "is lost", state
            return
        if kind == "truncate":
            after = body[:place].ljust(place, b"\0")
        else:
            after = body[:place].ljust(place, b"\0") + value + body[place + len(value) :]
        grows = kind == "truncate" or len(after) > len(body)
        if forced or whole or not (self.ordered and grows):
            yield "survives", (after, attributes)
        if forced:
            return
        yield "is lost", state
        if kind == "truncate":
            return
        for fate, piece in self._torn(place, value, grows):
            if whole or not (self.ordered and grows):
                torn = body[:place].ljust(place, b"\0") + piece + body[place + len(piece) :]
                yield fate, (torn, attributes)

    def _torn(self, offset: int, piece: bytes, grows: bool) -> Iterable[tuple[str, bytes]]:
        if self.ordered:
            boundary = (offset // PAGE + 1) * PAGE - offset
            return [("is torn", piece[:boundary])] if boundary < len(piece) else []
        torn = [("is torn", piece[: len(piece) // 2])] if len(piece) > 1 else []
        return [*torn, ("is zeros", bytes(len(piece)))] if grows else torn


def resizes(inode: Any, operation: tuple[Any, ...]) -> bool:
    """Return True if an operation on content, which is not done yet, changes its length."""
    if operation[0] == "truncate":
        return bool(operation[1] != len(inode.body))
    return bool(operation[0] == "write" and operation[1] + len(operation[2]) > len(inode.body))


def _after(entries: list[_Entry], number: int, operations: int) -> list[_Entry]:
    """Entries, when the first operations on a file are durable already."""
    return [
        entry._replace(allocates=(number, max(0, entry.allocates[1] - operations)))
        if entry.allocates[0] == number
        else entry
        for entry in entries
    ]


def _apply(names: dict[int, dict[str, int]], changes: Iterable[Change]) -> None:
    for folder, name, number in changes:
        inside = names.setdefault(folder, {})
        if number is None:
            inside.pop(name, None)
        else:
            inside[name] = number


def _with_attribute(pending: _File, change: tuple[int, str, bytes | None]) -> _File:
    changed: dict[str, bytes | None] = {**dict(pending.attributes), change[1]: change[2]}
    return pending._replace(attributes=tuple(sorted((n, v) for n, v in changed.items() if v is not None)))


def _written_back(pending: _File, operations: int) -> _File:
    """The first operations on the content are durable; those that they wrote before count no more."""
    body = pending.body
    for operation in pending.operations[:operations]:
        kind, place, value = (*operation, None)[:3]
        if kind == "truncate":
            body = body[:place].ljust(place, b"\0")
        else:
            body = body[:place].ljust(place, b"\0") + value + body[place + len(value) :]
    return pending._replace(body=body, operations=pending.operations[operations:])


def _tree(names: dict[int, dict[str, int]], root: int) -> dict[int, str]:
    """Return every inode that can be reached, with a path to it."""
    found = {root: ""}
    waiting = [root]
    while waiting:
        at = waiting.pop()
        for name, number in names.get(at, {}).items():
            if number not in found:
                found[number] = f"{found[at]}/{name}".lstrip("/")
                waiting.append(number)
    return found


def _name_text(path: str, latest: int, number: int) -> str:
    if not latest:
        return f"removal of {path} is lost" if number else f"removal of {path} survives"
    if number == latest:
        return f"directory entry {path} survives"
    return f"directory entry {path} is an older one" if number else f"directory entry {path} is lost"


def _entry_text(entry: _Entry, path_of: Callable[[int], str], path: Callable[[int], str]) -> str:
    if entry.attribute is not None:
        return f"attribute {entry.attribute[1]} of {path(entry.attribute[0])} is lost"
    folder, name, number = entry.changes[0]
    if len(entry.changes) > 1:
        source, old, _ = entry.changes[1]
        return f"rename of {path_of(source)}{old} to {path_of(folder)}{name} is lost"
    verb = "removal of" if number is None else "directory entry"
    return f"{verb} {path_of(folder)}{name} is lost"


def _key(outcome: Outcome) -> Any:
    return (
        tuple(sorted((n, tuple(sorted(inside.items()))) for n, inside in outcome.folders.items())),
        tuple(sorted((n, body, tuple(sorted(found.items()))) for n, (body, found) in outcome.files.items())),
    )
