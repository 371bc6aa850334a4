"""All endings of a random program on files, with a loss of power anywhere, by trying every step.

It shares nothing with the world. What survives is computed from the text of the profiles:

strict  Of the operations on a file since its last fsync, any part survives; a byte that was appended may also
        be a zero. Every name has any of the files that it named since the last fsync of its directory.
ext4    A prefix of the changes of names survives. An fsync of a file writes this journal up to the last
        change of a name or of the length of the file. Operations that change the length survive in order,
        with all before them; others in any combination. A rename over another file survives with the writes
        before it.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.trust.oracles.file_programs import FileProgram, Op
from tests.trust.oracles.request_oracle import TooMany, frozen

NO_FILE = 0
TRUNCATE: tuple[int, str] = (-1, "")
Write = tuple[int, str]
"""Offset and text."""


class File(NamedTuple):
    first: str
    """Content before all writes."""
    writes: tuple[Write, ...]
    durable: int
    """Number of writes that no loss of power undoes."""
    journal: int
    """Number of changes of names that an fsync of the file writes."""


class Change(NamedTuple):
    """A change of names in the journal, as one operation."""

    names: tuple[tuple[str, int], ...]
    allocates: tuple[int, int]
    """A file, and the number of its writes that survive with this change."""


class Process(NamedTuple):
    taken: int
    opened: tuple[tuple[int, int, bool] | None, ...]
    """File, position, and True if every write appends."""
    outcomes: tuple[str, ...]
    ended: bool


class State(NamedTuple):
    files: tuple[tuple[int, File], ...]
    names: tuple[tuple[str, int], ...]
    kept: tuple[tuple[str, int], ...]
    """The durable names."""
    named: tuple[tuple[str, frozenset[int]], ...]
    """By name, the files that it named since its directory was flushed."""
    journal: tuple[Change, ...]
    written: int
    """Number of changes of the journal that are durable."""
    folders: tuple[tuple[str, int], ...]
    """By directory, the number of changes that an fsync of it writes."""
    processes: tuple[Process, ...]
    notes: tuple[str, ...]


def after(body: str, write: Write) -> str:
    if write == TRUNCATE:
        return ""
    at, text = write
    return body[:at].ljust(at, "\0") + text + body[at + len(text) :]


def body_of(file: File, count: int) -> str:
    body = file.first
    for write in file.writes[:count]:
        body = after(body, write)
    return body


def live(file: File) -> str:
    return body_of(file, len(file.writes))


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


class FileOracle:
    """Enumerates the states of a program."""

    def __init__(self, program: FileProgram, most: int) -> None:
        self.program = program
        self.most = most
        self.ordered = program.profile == "ext4"

    def endings(self) -> set[Any]:
        start = {name: number for number, name in enumerate(self.program.start, 1)}
        files = {start[name]: File(body, (), 0, 0) for name, body in self.program.start.items()}
        named = {name: frozenset([start.get(name, NO_FILE)]) for name in self.program.names}
        process = Process(0, (), (), False)
        processes = (process,) * len(self.program.processes)
        names = frozen(start)
        state = State(frozen(files), names, names, frozen(named), (), 0, (("", 0), ("d", 0)), processes, ())
        found: set[Any] = set()
        met, waiting = {state}, [state]
        while waiting:
            state = waiting.pop()
            found.update(("lost", files, state.notes) for files in self._left_by(state))
            following = list(self._successors(state))
            if not following:
                found.add(self._ending(state))
            for reached in following:
                if reached not in met:
                    met.add(reached)
                    waiting.append(reached)
            if len(met) + len(found) > self.most:
                raise TooMany
        return found

    def _ending(self, state: State) -> Any:
        files = dict(state.files)
        bodies = frozen({name: live(files[number]) for name, number in state.names})
        return ("ended", bodies, state.notes, tuple(process.outcomes for process in state.processes))

    # Steps.

    def _successors(self, state: State) -> Iterator[State]:
        for index, process in enumerate(state.processes):
            code = self.program.processes[index]
            if process.ended:
                continue
            if process.taken == len(code):
                changed, reached = process._replace(ended=True, opened=()), state
            else:
                reached, opened, outcome = self._done(state, process, code[process.taken])
                changed = Process(process.taken + 1, opened, (*process.outcomes, outcome), False)
            processes = (*state.processes[:index], changed, *state.processes[index + 1 :])
            yield reached._replace(processes=processes)

    def _done(self, state: State, process: Process, op: Op) -> tuple[State, tuple[Any, ...], str]:
        """Return the state after an operation, what the process has open, and the outcome."""
        opened = process.opened
        names = dict(state.names)
        match op:
            case ("open", name, how):
                return self._opened(state, opened, name, how)
            case ("write", number, text) if opened[number]:
                file, at, appends = opened[number]
                body = live(dict(state.files)[file])
                at = len(body) if appends else at
                place = (file, at + len(text), appends)
                return (
                    self._written(state, file, (at, text), grows=at + len(text) > len(body)),
                    (*opened[:number], place, *opened[number + 1 :]),
                    "done",
                )
            case ("fsync", number) if opened[number]:
                return self._synced(state, opened[number][0]), opened, "done"
            case ("rename", source, target):
                if source not in names:
                    return state, opened, "missing"
                if names.get(target) == names[source]:
                    return state, opened, "done"
                moved = ((target, names[source]), (source, NO_FILE))
                over = names[source] if target in names else NO_FILE
                return self._renamed(state, moved, over), opened, "done"
            case ("link", source, target):
                if source not in names or target in names:
                    return state, opened, "exists" if source in names else "missing"
                return self._renamed(state, ((target, names[source]),)), opened, "done"
            case ("unlink", name):
                if name not in names:
                    return state, opened, "missing"
                return self._renamed(state, ((name, NO_FILE),)), opened, "done"
            case ("flush", folder):
                return self._flushed(state, folder), opened, "done"
            case ("note", value):
                return state._replace(notes=tuple(sorted((*state.notes, value)))), opened, "done"
        return state, opened, "done"

    def _opened(
        self, state: State, opened: tuple[Any, ...], name: str, how: str
    ) -> tuple[State, tuple[Any, ...], str]:
        file = dict(state.names).get(name)
        if how == "excl" and file:
            return state, (*opened, None), "exists"
        if how == "over" and not file:
            return state, (*opened, None), "missing"
        if not file:
            file = 1 + max(dict(state.files), default=0)
            files = dict(state.files) | {file: File("", (), 0, 0)}
            state = self._renamed(state._replace(files=frozen(files)), ((name, file),))
        elif how == "trunc" and live(dict(state.files)[file]):
            state = self._written(state, file, TRUNCATE, grows=True)
        return state, (*opened, (file, 0, how == "append")), "done"

    def _written(self, state: State, number: int, write: Write, *, grows: bool) -> State:
        files = dict(state.files)
        file = files[number]
        journal = len(state.journal) if grows else file.journal
        files[number] = file._replace(writes=(*file.writes, write), journal=journal)
        return state._replace(files=frozen(files))

    def _renamed(self, state: State, changes: tuple[tuple[str, int], ...], over: int = NO_FILE) -> State:
        """Return the state after a change of names; `over` is the file that took the name of another."""
        files, names, named = dict(state.files), dict(state.names), dict(state.named)
        folders = dict(state.folders)
        allocates = (over, len(files[over].writes)) if over else (NO_FILE, 0)
        journal = (*state.journal, Change(changes, allocates))
        for name, number in changes:
            names.pop(name, None)
            if number:
                names[name] = number
                files[number] = files[number]._replace(journal=len(journal))
            named[name] |= {number}
            folders[folder_of(name)] = len(journal)
        return state._replace(
            files=frozen(files),
            names=frozen(names),
            named=frozen(named),
            journal=journal,
            folders=frozen(folders),
        )

    def _synced(self, state: State, number: int) -> State:
        if self.ordered:
            state = self._committed(state, dict(state.files)[number].journal)
        return self._kept(state, number, len(dict(state.files)[number].writes))

    def _kept(self, state: State, number: int, count: int) -> State:
        """Return the state in which so many writes of a file are durable."""
        files = dict(state.files)
        files[number] = files[number]._replace(durable=max(count, files[number].durable))
        return state._replace(files=frozen(files))

    def _flushed(self, state: State, folder: str) -> State:
        if self.ordered:
            return self._committed(state, dict(state.folders)[folder])
        names, named = dict(state.names), dict(state.named)
        for name in named:
            if folder_of(name) == folder:
                named[name] = frozenset([names.get(name, NO_FILE)])
        return state._replace(named=frozen(named))

    def _committed(self, state: State, count: int) -> State:
        """Return the state in which so many changes of the journal are durable."""
        kept = dict(state.kept)
        for change in state.journal[state.written : count]:
            self._apply(kept, change)
            if change.allocates[0]:
                state = self._kept(state, *change.allocates)
        return state._replace(kept=frozen(kept), written=max(count, state.written))

    @staticmethod
    def _apply(names: dict[str, int], change: Change) -> None:
        for name, number in change.names:
            names.pop(name, None)
            if number:
                names[name] = number

    # A loss of power.

    def _left_by(self, state: State) -> Iterator[tuple[tuple[str, str], ...]]:
        """Return the files that may be there after a loss of power in this state."""
        files = dict(state.files)
        for names, forced in self._names_left(state):
            used = sorted({number for number in names.values() if number})
            choices = [
                sorted(self._bodies_left(files[n], max(files[n].durable, forced.get(n, 0)))) for n in used
            ]
            for bodies in itertools.product(*choices):
                body = dict(zip(used, bodies, strict=True))
                yield frozen({name: body[number] for name, number in names.items() if number})

    def _names_left(self, state: State) -> Iterator[tuple[dict[str, int], dict[int, int]]]:
        """Return the names after a loss, and the number of writes of each file that survive with them."""
        if not self.ordered:
            names = [name for name, _ in state.named]
            for chosen in itertools.product(*(sorted(numbers) for _, numbers in state.named)):
                yield dict(zip(names, chosen, strict=True)), {}
            return
        kept, forced = dict(state.kept), dict[int, int]()
        yield dict(kept), dict(forced)
        for change in state.journal[state.written :]:
            self._apply(kept, change)
            number, count = change.allocates
            forced[number] = max(count, forced.get(number, 0))
            yield dict(kept), dict(forced)

    def _bodies_left(self, file: File, forced: int) -> set[str]:
        """Return each content that may be left; so many writes survive certainly."""
        states = {(body_of(file, forced), True)}
        for write in file.writes[forced:]:
            found = set()
            for body, whole in states:
                now = after(body, write)
                grows = write == TRUNCATE or len(now) > len(body)
                found.add((body, False))
                if whole or not (self.ordered and grows):
                    found.add((now, whole))
                if not self.ordered and grows and write != TRUNCATE:
                    found.add((after(body, (write[0], "\0" * len(write[1]))), False))
            states = found
        return {body for body, _ in states}
