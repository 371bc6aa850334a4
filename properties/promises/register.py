"""No acknowledged update is lost: a process that replaces or deletes an object has seen what it replaces.

The store keeps every single key linearizable, whatever programs do. The usual mistake of programs is the
read-modify-write: they write on the basis of an older version than the one that they overwrite. Such a write
is a violation when

- it has no condition, and another process or thread has changed the key since the writer's last look at it.
- it has a condition, and what another added to a JSON list or object since is not in it: the ETag was newer
  than the content, because threads share it or because only the ETag was read again.
- it deletes a version of another process that the deleter has not seen.

A process that never looked at the key is no reader, and its writes are free: the last one wins. A write that
leaves in place what the other changed loses nothing. An update whose reply was lost was not acknowledged.
"""

from collections.abc import Hashable, Mapping

from fencepost.properties.promises.contents import lost_changes
from fencepost.properties.promises.history import History, Version
from fencepost.properties.promises.observation import CHANGES, DELETE, WRITE, Observation
from fencepost.properties.promises.promise import Promise


class Register(Promise):
    kind = "register"
    meaning = (
        "no acknowledged update is lost: whoever replaces or deletes an object has seen what it replaces"
    )
    needs_target = False

    def __init__(self, target: str = "", given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self.history = History(self.target)

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        self.history.begin(objects)

    def observe(self, seen: Observation) -> str | None:
        reason = None
        if seen.kind in CHANGES and self.target.holds(seen.key):
            reason = self._lost(seen)
        self.history.take(seen)
        return reason

    def _lost(self, seen: Observation) -> str | None:
        based = self.history.base(seen)
        if based is None:
            return None
        place, looked = based
        versions = self.history.versions[seen.key]
        since = [one for one in versions[place + 1 :] if _is_others(one, seen) and one.acknowledged]
        if not since or not _is_others(versions[-1], seen):
            return None
        base, theirs = versions[place], versions[-1]
        if seen.kind == DELETE:
            if seen.condition == "matches" or not theirs.exists:
                return None
            return f"{seen.strand} deleted {seen.key} in a version of {theirs.strand} that it had not seen"
        if not looked or seen.condition == "absent":
            return None
        if not theirs.exists:
            gone = seen.condition != "matches" and base.exists
            return (
                f"{seen.strand} wrote {seen.key} back, which {theirs.strand} had deleted since it looked"
                if gone
                else None
            )
        lost = _difference(base, theirs, seen)
        return (
            f"{seen.strand} overwrote {lost} that {theirs.strand} had written to {seen.key}" if lost else None
        )

    def state(self) -> Hashable:
        return self.history.state()


def _is_others(version: Version, seen: Observation) -> bool:
    if seen.late:
        return True
    if seen.kind == WRITE:
        return version.strand not in (seen.strand, "")
    return version.process not in (seen.process, "")


def _difference(base: Version, theirs: Version, seen: Observation) -> str:
    """Return what a write loses, in words."""
    conditional = seen.condition == "matches"
    if seen.body is None or theirs.body is None:
        return "" if conditional or seen.digest == theirs.digest else "the version"
    before = base.body if base.exists else None
    return lost_changes(before, theirs.body, seen.body, additions=conditional)
