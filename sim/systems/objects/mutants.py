"""The mutants of the object server: for each safeguard a replacement that breaks it, and its scenario."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from fencepost.impl.objects.safeguards import Act, Look, P, Refusal, Step, Write
from fencepost.impl.store.files import Disk
from fencepost.impl.store.requests import Outcome
from fencepost.sim.systems.system import Mutant


def atomic_create(disk: Disk, source: str, source_fd: int, name: str, folder_fd: int) -> None:
    """Look whether the name is there, and rename over whatever came meanwhile."""
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        raise FileExistsError(name)
    aside = f".{Path(source).name}"
    disk.link(source, source_fd, aside, folder_fd)
    disk.replace(aside, folder_fd, name, folder_fd)


def key_lock(_disk: Disk, _fd: int) -> None:
    """Let everybody in."""


def fsync_before_publish(_disk: Disk, _fd: int) -> None:
    """Leave content and attributes to chance."""


def directory_flush(_disk: Disk, _fd: int) -> None:
    """Leave names to chance."""


def attributes_before_publish(finish: Step, land: Act) -> Outcome:
    """Set the attributes when the file has its name."""
    outcome = land()
    if outcome is Outcome.DONE:
        finish()
    return outcome


def condition_under_lock(locked: AbstractContextManager[None], refusal: Refusal, act: Act) -> Outcome:
    """Evaluate the condition before waiting for the lock."""
    refused = refusal()
    with locked:
        return refused or act()


def index_after_publish(write: Write[Any]) -> Look:
    """Record one's own version."""
    return write.drafted


def event_after_publish(write: Write[P], _look: Look) -> P:
    """Record index and event first."""
    write.record(None, write.drafted)
    return write.land()


def reconcile(_differences: Iterable[str]) -> Iterable[str]:
    """Trust the index as it is."""
    return ()


def upload_age(_age_s: float) -> float:
    """Take every upload for garbage that no request uses at this moment."""
    return -1.0


def owner_lock(_acquire: Step) -> None:
    """Work in a directory without its lock."""


def seal_before_begin(prepare: Step, seal: Step, begin: Step) -> None:
    """Begin the successor while the incumbent has the directory."""
    prepare()
    begin()
    seal()


def resume_on_abort(_resume: Callable[[], None]) -> None:
    """Leave the incumbent drained."""


NOTHING_LOST = {"crash": 0, "power_loss": 0}
POWER_LOST = {"crash": 0}
MUTANTS = {
    "atomic-create": Mutant(atomic_create, "creates", NOTHING_LOST),
    "key-lock": Mutant(key_lock, "replaces", NOTHING_LOST),
    "condition-under-lock": Mutant(condition_under_lock, "replaces", NOTHING_LOST),
    "fsync-before-publish": Mutant(fsync_before_publish, "creates", POWER_LOST),
    "attributes-before-publish": Mutant(attributes_before_publish, "creates", NOTHING_LOST),
    "directory-flush": Mutant(directory_flush, "creates", POWER_LOST),
    "index-after-publish": Mutant(index_after_publish, "puts", NOTHING_LOST),
    "event-after-publish": Mutant(event_after_publish, "creates", NOTHING_LOST),
    "reconcile": Mutant(reconcile, "creates", POWER_LOST),
    "upload-age": Mutant(upload_age, "collected", NOTHING_LOST),
    "owner-lock": Mutant(owner_lock, "strangers", NOTHING_LOST),
    "seal-before-begin": Mutant(seal_before_begin, "handoff", NOTHING_LOST),
    "resume-on-abort": Mutant(resume_on_abort, "aborted", NOTHING_LOST),
}
