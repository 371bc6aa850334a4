"""The buckets that a lifecycle works in: the versions at a key, and their deletion under a guard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from fencepost.impl.lifecycle.policy import Rule, Version, What


class Unavailable(Exception):
    """The store does not answer now; the same request may succeed later."""


class Halted(Unavailable):
    """Nothing was sent, because nothing answers: no attempt at this object."""


class Unworkable(Exception):
    """This object cannot be worked on, now or later, until somebody repairs it."""


@dataclass(frozen=True, slots=True)
class Live:
    """A version, a delete marker or an upload, as the store has it."""

    version: Version
    content: str = ""
    """As in `engine.Seen`."""
    is_locked: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        """The part that must not change between a look and the deletion. Neighbours are evaluated anew."""
        one = self.version
        return one.version_id, one.mtime_ns, one.size, self.content, one.tags, one.is_delete_marker


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything at a key, of one moment."""

    versions: tuple[Live, ...] = ()
    """Newest first, as `policy.in_order` fills them in; without its uploads."""
    uploads: tuple[Live, ...] = ()
    is_versioned: bool = False
    """Expiring the object hides it behind a delete marker."""
    now_ns: int | None = field(default=None, compare=False)
    """A time that the clock of the store has reached; None if the clock of the worker is the store's."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A key as a page of a walk lists it."""

    key: str
    shown: Standing | None = None
    """The versions as the listing shows them, without tags and locks; None if these may not be all."""
    is_look: bool = True
    """True if what is shown can be compared with a look: it has the contents."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The parts of a standing that the rules of a look depend on; a target may leave out the others."""

    versions: bool = True
    tags: bool = True
    uploads: bool = True


WHOLE = Needs()


class Result(Enum):
    """Of an attempt to delete."""

    DONE = "DONE"
    NOT_FOUND = "NOT_FOUND"
    STALE_IDENTITY = "STALE_IDENTITY"
    STALE_POLICY = "STALE_POLICY"
    NO_LONGER_ELIGIBLE = "NO_LONGER_ELIGIBLE"
    SKIPPED_OBJECT_LOCK = "SKIPPED_OBJECT_LOCK"


Guard = Callable[[Standing], Result | None]
"""Refuses a deletion, given the versions at the key in that moment."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The deletion of one noncurrent version."""

    key: str
    version_id: str
    guard: Guard


class Target(Protocol):
    """Its methods raise `Unavailable` and `Unworkable`."""

    def buckets(self) -> Sequence[str]: ...

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        """Those in force now, or at most `age_s` seconds ago; none for a bucket that is gone."""

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing: ...

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        """Keys below `prefix` and behind `after` that have a version or an upload, in order; none at the end.

        Without `uploads` a key that has nothing else may be left out.
        """

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        """The first key below `prefix` and behind `after` with a version; None if there is none, or if the
        bucket does not list keys in the order of their bytes."""

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        """Delete unless the guard refuses; nothing changes the version between guard and deletion."""

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        """Delete noncurrent versions of a page, many at a time; None for each to be deleted by itself."""
