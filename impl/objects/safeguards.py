"""The protective steps of the server, each a small function with the safeguard's name, in one table.

The code calls these where the step acts. An audit runs the server with a table in which one of them is
replaced by a mutant, and must then find the failure that the safeguard prevents. The first seven are about
the calls and the order of calls of the storage layer: `GuardedDisk` is its `Disk` with this table.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.impl.objects.tables import Entry
from fencepost.impl.store.files import Disk
from fencepost.impl.store.requests import Outcome

P = TypeVar("P")
Look = Callable[[str], Entry | None]
Step = Callable[[], None]
Act = Callable[[], Outcome]
Refusal = Callable[[], Outcome | None]


class Write(ABC, Generic[P]):
    """A change of one key, as its steps."""

    @abstractmethod
    def land(self) -> P:
        """Give the key its new version, durably, and return the answer."""

    @abstractmethod
    def is_applied(self, reply: P) -> bool:
        """Return True if the change happened, or may have happened."""

    @abstractmethod
    def record(self, reply: P | None, look: Look) -> None:
        """Put the result of `look` into the index, with the event of the change, in one transaction."""

    @abstractmethod
    def standing(self, version: str) -> Entry | None:
        """Return the durable entry that the directory has now."""

    @abstractmethod
    def drafted(self, version: str) -> Entry | None:
        """Return the entry after this write if no other write follows."""


def atomic_create(disk: Disk, source: str, source_fd: int, name: str, folder_fd: int) -> None:
    """A create publishes with one call that fails where the name exists."""
    disk.link(source, source_fd, name, folder_fd)


def key_lock(disk: Disk, fd: int) -> None:
    """Every other write holds the lock of its key from the condition to the rename."""
    disk.lock(fd)


def fsync_before_publish(disk: Disk, fd: int) -> None:
    """Content and attributes are durable before a name leads to them."""
    disk.fsync(fd)


def directory_flush(disk: Disk, fd: int) -> None:
    """A name is durable before the write is answered."""
    disk.fsync_folder(fd)


def attributes_before_publish(finish: Step, land: Act) -> Outcome:
    """A file has its attributes before a name leads to it."""
    finish()
    return land()


def condition_under_lock(locked: AbstractContextManager[None], refusal: Refusal, act: Act) -> Outcome:
    """The condition is evaluated after the lock is taken."""
    with locked:
        return refusal() or act()


def index_after_publish(write: Write[P]) -> Look:
    """The index records what the directory shows, not what this write did: another may have come since."""
    return write.standing


def event_after_publish(write: Write[P], look: Look) -> P:
    """Index and event follow the durable change."""
    reply = write.land()
    if write.is_applied(reply):
        write.record(reply, look)
    return reply


def reconcile(differences: Iterable[str]) -> Iterable[str]:
    """The keys to record again, of those whose rows do not equal the directory."""
    return differences


def upload_age(age_s: float) -> float:
    """Return the time in seconds after which an idle upload is garbage."""
    return age_s


def owner_lock(acquire: Step) -> None:
    """A server works in a directory that no other server has."""
    acquire()


def seal_before_begin(prepare: Step, seal: Step, begin: Step) -> None:
    """The incumbent has released the directory before the successor takes it."""
    prepare()
    seal()
    begin()


def resume_on_abort(resume: Step) -> None:
    """After a failed handoff the incumbent serves again."""
    resume()


@dataclass(frozen=True)
class Safeguards:
    """The table. Field names are the safeguards' names with underscores for dashes."""

    atomic_create: Callable[[Disk, str, int, str, int], None] = atomic_create
    key_lock: Callable[[Disk, int], None] = key_lock
    fsync_before_publish: Callable[[Disk, int], None] = fsync_before_publish
    directory_flush: Callable[[Disk, int], None] = directory_flush
    attributes_before_publish: Callable[[Step, Act], Outcome] = attributes_before_publish
    condition_under_lock: Callable[[AbstractContextManager[None], Refusal, Act], Outcome] = (
        condition_under_lock
    )
    index_after_publish: Callable[[Write[P]], Look] = index_after_publish
    event_after_publish: Callable[[Write[P], Look], P] = event_after_publish
    reconcile: Callable[[Iterable[str]], Iterable[str]] = reconcile
    upload_age: Callable[[float], float] = upload_age
    owner_lock: Callable[[Step], None] = owner_lock
    seal_before_begin: Callable[[Step, Step, Step], None] = seal_before_begin
    resume_on_abort: Callable[[Step], None] = resume_on_abort


STANDARD = Safeguards()


class GuardedDisk(Disk):
    """The calls of the storage layer by a table of safeguards."""

    one_call = False

    def __init__(self, disk: Disk, safeguards: Safeguards) -> None:
        self._disk = disk
        self._safeguards = safeguards

    def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._safeguards.atomic_create(self._disk, source, source_fd, name, folder_fd)

    def replace(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._disk.replace(source, source_fd, name, folder_fd)

    def move(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._disk.move(source, source_fd, name, folder_fd)

    def unlink(self, name: str, folder_fd: int) -> None:
        self._disk.unlink(name, folder_fd)

    def lock(self, fd: int) -> None:
        self._safeguards.key_lock(self._disk, fd)

    def fsync(self, fd: int) -> None:
        self._safeguards.fsync_before_publish(self._disk, fd)

    def fsync_folder(self, fd: int) -> None:
        self._safeguards.directory_flush(self._disk, fd)

    def land(self, finish: Step, land: Act) -> Outcome:
        return self._safeguards.attributes_before_publish(finish, land)

    def decide(self, locked: AbstractContextManager[None], refusal: Refusal, act: Act) -> Outcome:
        return self._safeguards.condition_under_lock(locked, refusal, act)


def guarded(disk: Disk, safeguards: Safeguards) -> Disk:
    """The disk itself while every safeguard is in place."""
    return disk if safeguards == STANDARD else GuardedDisk(disk, safeguards)
