"""The refinement map of the object server: the system calls as actions of the machine `ObjectsObserved`.

The events are notes, named after the calls:

    staged          a request is there: before the run, as a replace names the version of that time
    linked          `link` gave the key its first file, or found one there
    locked          `flock` of the key's lock
    renamed         `rename` or `unlink` changed what the name of the key leads to
    flushed         `fsync` of the key's directory
    looked          a transaction of the index read what the name of the key leads to
    indexed         a transaction of the index ended: `version` is what it shows since, absent for nothing
    answered        the request was answered
    recovered       what a server found at the key that started after a power loss

A condition is evaluated by reading, and power is lost between two calls: both are hidden, and what follows
them shows them. A transaction records what it found when it looked, although another version may be there
when it ends: the machine's `indexed` is the look of a transaction that ends. `w` is the writer, absent for a
server that reconciles.
"""

from typing import ClassVar

from fencepost.model import Model, Number, Truth
from fencepost.model.objects_observed import ObjectsObserved
from fencepost.properties.refinement import (
    STUTTER,
    Actions,
    Keys,
    Observation,
    Refinement,
    Role,
    where,
)

REFUSED = "refused"


def trace_fields(key: str, body: bytes) -> str:  # noqa: ARG001  the signature of a system
    """The bodies of objects are their owners' own."""
    return ""


class ObjectsRefinement(Refinement):
    keys: ClassVar[tuple[Keys, ...]] = ()
    trace_fields = ("kind",)
    notes = frozenset(
        {"staged", "linked", "locked", "renamed", "flushed", "looked", "indexed", "answered", "recovered"}
    )
    hidden = ("refused", "power_lost", "power_lost_after")

    def __init__(self, writers: int = 3) -> None:
        super().__init__(Model(ObjectsObserved, {"writers": writers}))
        self.roles = (Role("writer", ("w", "version"), most=writers - 1),)

    def actions(self, seen: Observation) -> Actions:
        w = seen.rank("w")
        match seen.what:
            case "staged":
                return self.does("staged", w=w, kind=seen.trace_field("kind"))
            case "linked":
                # It tries again where the object that prevented it is gone by then.
                refused = (*self.does("create_refused", w=w), *STUTTER)
                return self.does("created", w=w) if seen.done else refused
            case "locked":
                return self.does("locked", w=w)
            case "renamed":
                return self.does("renamed", w=w)
            case "flushed":
                again = where("nothing is to be flushed", lambda s: s.writer[w].at != "published", STUTTER)
                return (*self.does("flushed", w=w), *again) if w >= 0 else STUTTER
            case "looked":
                return (*self.does("indexed", w=w), *STUTTER) if w >= 0 else STUTTER
            case "indexed":
                step = self.does("indexed", w=w) if w >= 0 else self.does("reconciled")
                shown = where("the index shows it", lambda s: self._is(s, s.index, seen), step)
                if w < 0:
                    return (*shown, *STUTTER)
                looked = where("it has looked before", lambda s: s.writer[w].at == "indexed", STUTTER)
                if seen.trace_field("kind") == "same":
                    return (*step, *looked)
                return (*shown, *where("the index shows it", lambda s: self._is(s, s.index, seen), looked))
            case "answered":
                if seen.done:
                    return self.does("acknowledged", w=w)
                return where("it is refused", lambda s: s.writer[w].at == REFUSED, STUTTER)
            case _:
                return where("it is the current version", lambda s: self._is(s, s.entry, seen), STUTTER)

    def _is(self, s: ObjectsObserved, version: Number, seen: Observation) -> Truth:
        rank = seen.rank("version")
        return version == rank if rank >= 0 else s.is_absent(version)
