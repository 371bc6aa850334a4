"""The refinement map of the object server: which actions of the model `objects` its system calls show.

    staged          a request is there: before the run, as the model's replace names what stood then
    linked          `link` gave the key its first file, or found one there
    locked          `flock` of the key's lock
    renamed         `rename` or `unlink` changed what the name of the key leads to
    flushed         `fsync` of the key's directory
    looked          a transaction of the index read what the name of the key leads to
    indexed         a transaction of the index ended: `version` is what it shows since, absent for nothing
    answered        the request was answered
    recovered       what a server found at the key that started after a power loss

Conditions are evaluated by reading, and events go into the outbox with the transaction of the index: both are
hidden, and so are kills and power losses, which what follows them shows. A transaction records what it found
when it looked, although another version may be there when it ends: the model's `update_index` is the look of
a transaction that ends. `w` is the writer, absent for a server that reconciles.
"""

from typing import ClassVar

from fencepost.model import Model, Truth
from fencepost.model.objects import Objects
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
    hidden = ("check_condition", "append_event", "flush_log", "kill", "power_loss", "power_loss_after")

    def __init__(self, writers: int = 3, crashes: int = 3) -> None:
        super().__init__(Model(Objects, {"writers": writers, "crashes": crashes}))
        self.roles = (Role("writer", ("w", "version"), most=writers - 1),)

    def actions(self, seen: Observation) -> Actions:
        w = seen.rank("w")
        match seen.what:
            case "staged":
                return self.does("stage", w=w, kind=seen.trace_field("kind"))
            case "linked":
                # It tries again where the object that prevented it is gone by then.
                return self.does("create", w=w) if seen.done else (*self.does("refuse_create", w=w), *STUTTER)
            case "locked":
                return self.does("take_lock", w=w)
            case "renamed":
                return self.does("rename", w=w)
            case "flushed":
                again = where("nothing is to be flushed", lambda s: s.at[w] != "published", STUTTER)
                return (*self.does("flush_directory", w=w), *again) if w >= 0 else STUTTER
            case "looked":
                return (*self.does("update_index", w=w), *STUTTER) if w >= 0 else STUTTER
            case "indexed":
                step = self.does("update_index", w=w) if w >= 0 else self.does("reconcile")
                shown = where("the index shows it", lambda s: self._is(s, s.index, seen), step)
                if w < 0:
                    return (*shown, *STUTTER)
                looked = where("it has looked before", lambda s: s.at[w] == "indexed", STUTTER)
                if seen.trace_field("kind") == "same":
                    return (*step, *looked)
                return (*shown, *where("the index shows it", lambda s: self._is(s, s.index, seen), looked))
            case "answered":
                if seen.done:
                    return self.does("answer", w=w)
                return where("it is refused", lambda s: s.at[w] == REFUSED, STUTTER)
            case _:
                return where("it stands", lambda s: self._is(s, s.entry, seen), STUTTER)

    def _is(self, s: Objects, version: object, seen: Observation) -> Truth:
        rank = seen.rank("version")
        return version == rank if rank >= 0 else s.is_absent(version)  # type: ignore[arg-type,return-value]  # a number of the model
