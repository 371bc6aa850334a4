"""Write and delete one object.

A write makes an invisible file with its attributes, and makes it durable. Then one system call gives the file
its name, and the folder is flushed:

    attributes -> content -> fsync -> link or rename -> fsync of the folder -> answer

- Create-only uses `link`, which fails if the name is taken: check and change are one call, where a check
  followed by a rename would be a race. It needs no lock: only the holder of a key's lock removes or replaces
  an object, so `link` fails as long as a holder relies on the object at the key.
- Everything else (if-match, last one wins, delete) happens under the key's lock, by `rename` and `unlink`.
  A blind overwrite takes the lock too, or it could slip between another's comparison and its swap. The
  file is written and made durable before the lock is taken, and the folder flushed after it is let go.
- A small create-only write is one call if possible (`together`), and otherwise these steps.

Killed at any moment, the name shows the old file or the new one. When the folder's fsync fails, the write
may or may not survive a power failure, and the answer is `unknown`; so it is when link or rename itself
ends in a way that does not say. A failure before that applied nothing, and `Unusable` is raised.
"""

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, Self

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.files import together
from fencepost.impl.store.files.attributes import ETAG_AT, ETAG_ROOM, AttributeFiles, Attributes, md5
from fencepost.impl.store.files.disk import Disk, close_quietly, surely_not_applied
from fencepost.impl.store.files.flush import Flight
from fencepost.impl.store.files.folders import Folder, Folders
from fencepost.impl.store.files.internals import Internals
from fencepost.impl.store.files.names import Names
from fencepost.impl.store.files.reading import Reader
from fencepost.impl.store.requests import Outcome

_TRIES = 100
"""The number of times that a folder may be removed under a writer before the answer is `throttled`. Each time
another client deleted the last object of that folder at that moment."""


_LOOKS_FIRST_BYTES = 1 << 16
"""A creator looks first when it has more to write than this. For less, looking costs every winner more than
it saves the loser."""
_TAKEN_MAX = 1024

_OPENINGS = itertools.count()
"""Tells two openings in one process apart even when their environments repeat each other."""


class Draft:
    """A file on its way to a key; `Writer.finish` makes content and attributes durable before it lands.

    As a context it is the file without a name: closed in the end, and so gone unless it landed."""

    __slots__ = ("_kept_by", "attributes", "fd", "landed", "moves", "renamed", "side", "source", "source_fd")

    def __init__(
        self, fd: int, source: str, source_fd: int, attributes: Attributes, kept_by: AttributeFiles
    ) -> None:
        self.fd = fd
        self.source = source
        self.source_fd = source_fd
        self.attributes = attributes
        self.side = ""
        self.landed = False
        """True once the file is, or may be, published under its key."""
        self.renamed = False
        """True if the file certainly lost the name that it was made with."""
        self.moves = False
        """Publish by rename, so that the temporary name disappears in the same call."""
        self._kept_by = kept_by

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        close_quietly(self.fd)

    def forget(self) -> None:
        """Remove the side file of a draft that did not land."""
        if self.side and not self.landed:
            self._kept_by.forget_name(self.side)


class Spot:
    """Where an object gets its name: a folder, the name there, and the flush that will be wanted."""

    def __init__(self, folders: Folders, path: str, name: str) -> None:
        self._folders = folders
        self._path = path
        self.name = name
        self.folder = folders.make(path)
        self._kept = self._durable = False
        try:
            self._flight = self.folder.flight()
        except FileNotFoundError:
            self._flight = self._announced()

    def _announced(self) -> Flight:
        for _ in range(_TRIES):
            self.folder = self._folders.remake(self._path)
            with contextlib.suppress(FileNotFoundError):
                return self.folder.flight()
        return self.folder.flight()

    def again(self) -> None:
        """The folder was removed: make it anew."""
        self._flight.cancel()
        self._flight = self._announced()

    def land(self) -> Outcome:
        """Wait until the name is durable."""
        if self._durable:
            return Outcome.DONE
        self._kept = True
        try:
            self._flight.land()
        except OSError:
            return Outcome.UNKNOWN
        self._durable = True
        return Outcome.DONE

    def flush_fd(self) -> int:
        """Return the descriptor through which to flush the folder right after the link.

        Return `CALLER_FLUSHES` if `land` flushes it, because the fsync is shared.
        """
        return self._flight.fd if self._flight.alone else together.CALLER_FLUSHES

    def flushed(self, took_ns: int) -> None:
        """The name is durable already."""
        self._kept = self._durable = True
        self._flight.landed(took_ns / 1e9)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flight.cancel()
        if not self._kept:
            self._folders.prune(self.folder)  # perhaps made for an object that did not come


class History(Protocol):
    """Keeps the version that a write replaces (see `versions`)."""

    def number(self, draft: Draft) -> None:
        """Give a draft its version, before it is made durable."""

    def replace(self, spot: Spot, draft: Draft, key: str) -> Outcome:
        """Give the draft its key. Only while holding the key's lock."""

    def version(self, draft: Draft) -> str: ...

    def find(self, key: str, mark: str) -> str:
        """The version that a write has made; empty when it is gone."""


class Incoming:
    """An object on its way, in pieces; nothing is seen before `publish`, or stays of one that fails."""

    def __init__(
        self,
        writer: "Writer",
        key: str,
        when: ask.Condition,
        spot: Spot,
        draft: Draft,
        history: History | None,
    ) -> None:
        self._writer = writer
        self.key, self.when, self.spot, self.draft, self.history = key, when, spot, draft, history

    @property
    def is_create(self) -> bool:
        """True if one `link` decides; otherwise the key's lock is needed."""
        return _is_create(self.when, self.history)

    def write(self, piece: bytes) -> None:
        self._writer.write(self.draft, piece)

    def publish(self, attributes: Attributes) -> ask.PutReply:
        """Its ETag is the MD5 of what was written; the mark is given here."""
        self.draft.attributes = attributes._replace(mark=self._writer.new_mark())
        return self._writer.land(self)


class Writer:
    def __init__(
        self,
        names: Names,
        folders: Folders,
        internals: Internals,
        attributes: AttributeFiles,
        reader: Reader,
        disk: Disk,
        env: Environment,
    ) -> None:
        self._names = names
        self._folders = folders
        self._internals = internals
        self._attributes = attributes
        self._reader = reader
        self._disk = disk
        self._opening = hashlib.sha256(
            f"{env.new_id()} {os.getpid()} {next(_OPENINGS)}".encode()
        ).hexdigest()[:12]
        self._count = itertools.count()
        self._together = disk.creates and not internals.private  # the call makes files of the usual mode
        self._taken: dict[str, None] = {}
        """Keys that a creator found taken lately. Only ever a reason to look, never an answer."""

    def put(self, request: ask.Put) -> ask.PutReply:
        create = isinstance(request.when, ask.Absent)
        if not create or request.key in self._taken or len(request.body) > _LOOKS_FIRST_BYTES:
            refused = self._reader.refusal(request.key, request.when)
            if refused is not None:  # spares the work; where it is not, it is decided again when it counts
                return request.ends(refused)
        mark = self.new_mark()
        with self.spot(request.key) as spot:
            outcome, etag = None, ""
            compiled = self._together and self._internals.nameless_works
            if create and compiled and len(request.body) <= together.BODY_BYTES_MAX:
                outcome, etag = self._create_together(spot, request, mark)
            if outcome is None:
                etag = md5(request.body)
                known = Attributes(etag, mark, request.content_type, request.metadata)
                outcome = self._put_by_steps(spot, known, request, create)
            if outcome is Outcome.EXISTS:
                # Look before writing the next time: polling for a key to become free should cost no fsync.
                if len(self._taken) >= _TAKEN_MAX:
                    self._taken.clear()
                self._taken[request.key] = None
            return self.settle(spot, etag, outcome)

    def _create_together(self, spot: Spot, request: ask.Put, mark: str) -> tuple[Outcome | None, str]:
        """All steps of a create in one call, and the ETag; None when nothing happened and each is to be done
        by itself."""
        drafts, flush = self._internals.folder("tmp"), spot.flush_fd()
        value = Attributes(ETAG_ROOM, mark, request.content_type, request.metadata).encode()
        failed, error, flush_ns, etag = self._disk.create(
            drafts, spot.folder.fd, spot.name, flush, value, ETAG_AT, request.body
        )
        if not error:
            if flush != together.CALLER_FLUSHES:
                spot.flushed(flush_ns)
            return Outcome.DONE, etag
        return self._ended_early(spot, failed, error), ""

    def _ended_early(self, spot: Spot, failed: int, error: int) -> Outcome | None:
        if failed == together.FLUSH:
            return Outcome.UNKNOWN
        if failed == together.NAME:
            if error == errno.EEXIST:
                return Outcome.EXISTS if _is_object(self._reader.found(spot.name, spot.folder)) else None
            return None if surely_not_applied(error) else Outcome.UNKNOWN
        self._together = not together.hopeless(failed, error)
        return None

    def _put_by_steps(self, spot: Spot, known: Attributes, request: ask.Put, create: bool) -> Outcome:
        with self.draft(known, create) as draft:

            def finish() -> None:
                draft.side = self._attributes.write(draft.fd, request.key, known, request.body)

            arrived = Incoming(self, request.key, request.when, spot, draft, None)
            return self._disk.land(finish, partial(self._name, arrived))

    def _name(self, arrived: Incoming) -> Outcome:
        """Give the draft its key if the condition is met."""
        key = arrived.key
        if arrived.is_create:
            return self.create(arrived.spot, arrived.draft)
        return self._disk.decide(
            self._internals.key_locked(key),
            partial(self._reader.refusal, key, arrived.when),
            partial(self.place, arrived.spot, arrived.draft, key, arrived.history),
        )

    def new_mark(self) -> str:
        """Unique to a write."""
        return f"{self._opening}{next(self._count):x}"

    def spot(self, key: str) -> Spot:
        path, name = self._names.place(key)
        return Spot(self._folders, path, name)

    def is_place(self, key: str, name: str, folder_fd: int) -> bool:
        """Return True if `key` has its file under this name in this folder."""
        path, own = self._names.place(key)
        folder = self._folders.find(path) if name == own else None
        return folder is not None and os.path.samestat(os.fstat(folder.fd), os.fstat(folder_fd))

    def is_lock(self, key: str, fd: int) -> bool:
        """Return True if this descriptor is of the lock of `key`."""
        return self._internals.is_key_lock(key, fd)

    def draft(self, attributes: Attributes, create: bool) -> contextlib.AbstractContextManager[Draft]:
        """Make a new file, which is removed at the end unless it landed; `finish` it before it lands."""
        # A file without a name can only be linked, not renamed over another.
        fd = self._internals.nameless() if create else None
        if fd is None:
            return self._named_draft(attributes)
        return Draft(fd, f"/proc/self/fd/{fd}", fd, attributes, self._attributes)

    @contextlib.contextmanager
    def _named_draft(self, attributes: Attributes) -> Iterator[Draft]:
        with self._internals.draft() as (fd, source):
            draft = Draft(fd, source, self._internals.folder("tmp"), attributes, self._attributes)
            try:
                yield draft
            finally:
                draft.forget()
                if draft.renamed:
                    self._internals.renamed(source)

    @contextlib.contextmanager
    def incoming(self, key: str, when: ask.Condition, history: History | None = None) -> Iterator["Incoming"]:
        """An object that arrives in pieces."""
        with self.spot(key) as spot, self.draft(Attributes(""), _is_create(when, history)) as draft:
            yield Incoming(self, key, when, spot, draft, history)

    def write(self, draft: Draft, piece: bytes) -> None:
        self._disk.write(draft.fd, piece)

    def land(self, arrived: "Incoming") -> ask.PutReply:
        """Publish what has arrived: durable first, then its name, then the folder."""
        draft, history = arrived.draft, arrived.history
        finish = partial(self.finish, draft, arrived.key, history)
        outcome = self._disk.land(finish, partial(self._name, arrived))
        return self.settle(
            arrived.spot, draft.attributes.etag, outcome, history.version(draft) if history else ""
        )

    def place(self, spot: Spot, draft: Draft, key: str, history: History | None) -> Outcome:
        """Give the draft its key, whatever is there. Only while holding the key's lock."""
        return self.swap(spot, draft) if history is None else history.replace(spot, draft, key)

    def finish(self, draft: Draft, key: str, history: History | None = None) -> None:
        """Attach the attributes and make the file durable."""
        if history is not None:
            history.number(draft)
        draft.side = self._attributes.attach(draft.fd, key, draft.attributes)

    def create(self, spot: Spot, draft: Draft) -> Outcome:
        """Give the draft its key unless an object is there."""
        give = self._disk.move if draft.moves else self._disk.link
        for _ in range(_TRIES):
            try:
                give(draft.source, draft.source_fd, spot.name, spot.folder.fd)
            except FileExistsError:
                found = self._reader.found(spot.name, spot.folder)
                if _is_object(found):
                    return Outcome.EXISTS
                if found is not None:
                    self._folders.move_aside(spot.name, spot.folder)
            except FileNotFoundError:
                spot.again()
            except OSError as error:
                return _perhaps(error, draft)
            else:
                draft.landed = True
                return Outcome.DONE
        return Outcome.THROTTLED

    def swap(self, spot: Spot, draft: Draft) -> Outcome:
        """Give the draft its key, whatever is there. Only while holding the key's lock."""
        for _ in range(_TRIES):
            old = self._reader.found(spot.name, spot.folder)
            try:
                self._disk.replace(draft.source, draft.source_fd, spot.name, spot.folder.fd)
            except (IsADirectoryError, FileExistsError):
                self._folders.move_aside(spot.name, spot.folder)
            except FileNotFoundError:
                spot.again()
            except OSError as error:
                return _perhaps(error, draft)
            else:
                draft.landed = draft.renamed = True
                self._attributes.forget(old)
                return Outcome.DONE
        return Outcome.THROTTLED

    def settle(self, spot: Spot, etag: str, outcome: Outcome, version: str = "") -> ask.PutReply:
        """The answer, after the folder's fsync."""
        if outcome is Outcome.DONE:
            outcome = spot.land()
        return (
            ask.PutReply(outcome, etag=etag, version=version)
            if outcome is Outcome.DONE
            else ask.PutReply(outcome)
        )

    def flush(self, key: str) -> None:
        """Make the present state of `key` durable; if its folder is gone, flush the nearest one above."""
        path, _ = self._names.place(key)
        while True:
            folder = self._folders.look(path)
            if folder is not None:
                with contextlib.suppress(FileNotFoundError):
                    folder.flight().land()
                    return
            path = self._names.step(path)[0]

    def delete(self, request: ask.Delete, guard: Callable[[], None] = lambda: None) -> ask.DeleteReply:
        """Unless `guard` raises, which is called while no other changes the key."""
        with self._reader.current(request.key) as opened:
            if opened is None:
                return request.ends(NOTHING_THERE[type(request.when)])
        unlinked = None

        def unlink() -> Outcome:
            nonlocal unlinked
            unlinked = self._unlinked(request.key)
            return Outcome.DONE

        def refusal() -> Outcome | None:
            refused = self._reader.refusal(request.key, request.when)
            if refused is None:
                guard()
            return refused

        outcome = self._disk.decide(self._internals.key_locked(request.key), refusal, unlink)
        if outcome is not Outcome.DONE:
            return request.ends(outcome)
        return request.ends(self._settled(unlinked) or NOTHING_THERE[type(request.when)])

    def unlink(self, key: str) -> Outcome:
        """Remove what is at a key, durably. Only while holding the key's lock."""
        return self._settled(self._unlinked(key)) or Outcome.DONE

    def _unlinked(self, key: str) -> tuple[Folder, Flight, Outcome] | None:
        """Remove an object; None when there is none. The folder is yet to be flushed."""
        path, name = self._names.place(key)
        folder = self._folders.look(path)
        if folder is None:
            return None
        try:
            flight = folder.flight()
        except FileNotFoundError:  # the folder was removed, so it was empty
            return None
        try:
            outcome = self._unlink(name, folder)
        except BaseException:
            flight.cancel()
            raise
        if outcome is None:
            flight.cancel()
            return None
        return folder, flight, outcome

    def _unlink(self, name: str, folder: Folder) -> Outcome | None:
        """Remove an object; None when there is none."""
        old = self._reader.found(name, folder)
        if old is None or stat.S_ISDIR(old.st_mode):
            return None
        try:
            self._disk.unlink(name, folder.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if surely_not_applied(error.errno):
                raise
            return Outcome.UNKNOWN
        self._attributes.forget(old)
        return Outcome.DONE

    def _settled(self, unlinked: tuple[Folder, Flight, Outcome] | None) -> Outcome | None:
        """The end of a delete, durable when it is done; None when nothing was there."""
        if unlinked is None:
            return None
        folder, flight, outcome = unlinked
        if outcome is not Outcome.DONE:
            flight.cancel()
            return outcome
        try:
            flight.land()
        except OSError:
            return Outcome.UNKNOWN
        self._folders.prune(folder)
        return Outcome.DONE


def _is_create(when: ask.Condition, history: History | None) -> bool:
    return isinstance(when, ask.Absent) and history is None


def _is_object(found: os.stat_result | None) -> bool:
    return found is not None and not stat.S_ISDIR(found.st_mode)


NOTHING_THERE = {ask.Anything: Outcome.DONE, ask.Matches: Outcome.MISSING}


def _perhaps(error: OSError, draft: Draft) -> Outcome:
    """The end of a link or rename that failed: raised again when it surely changed nothing."""
    if surely_not_applied(error.errno):
        raise error
    draft.landed = True
    return Outcome.UNKNOWN
