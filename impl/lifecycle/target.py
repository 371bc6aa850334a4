"""The buckets that a lifecycle works in: the versions at a key, and their deletion under a guard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


class Target(Protocol):
    """Its methods raise `Unavailable` and `Unworkable`."""

    def buckets(self) -> Sequence[str]: ...

    def rules(self, bucket: str) -> Sequence[Rule]:
        """Those in force now; none for a bucket that is gone."""

    def standing(self, bucket: str, key: str) -> Standing: ...

    def page(self, bucket: str, after: str) -> Sequence[str]:
        """Keys behind `after` that have a version or an upload, in order; none at the end."""

    def delete(self, bucket: str, key: str, version_id: str, what: What, guard: Guard) -> Result:
        """Delete unless the guard refuses; nothing changes the version between guard and deletion."""
