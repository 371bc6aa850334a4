"""Every object of the target is written once: its content never changes, and its name never comes back.

For files that others refer to by name, records of a log, results, tokens. A process that fails after it wrote
a name again has acknowledged nothing, so that is no violation.
"""

from collections.abc import Hashable, Mapping

from fencepost.properties.promises.observation import CRASH, DELETE, END, WRITE, Observation
from fencepost.properties.promises.promise import Promise


class Once(Promise):
    kind = "once"
    meaning = "every object is written once: its content never changes, and its name never comes back"
    reuses = False
    """True if a name may be used again after it was deleted."""

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._contents: dict[str, tuple[str, str]] = {}
        """By key: the hash of the present content and its writer; an empty hash when it was deleted."""
        self._again: dict[str, tuple[str, str]] = {}
        """By process that has written a name again, and goes on: the key, and the one who had used it."""

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        for key, (_, digest) in objects.items():
            if self.target.holds(key):
                self._contents[key] = (digest, "setup")

    def observe(self, seen: Observation) -> str | None:
        if seen.kind in (END, CRASH):
            again = self._again.pop(seen.process, None)
            if again is not None and seen.kind == END and not seen.failed and seen.strand == seen.process:
                return f"{seen.process} created {again[0]} again, which {again[1]} had used and was deleted"
            return None
        if seen.kind not in (WRITE, DELETE) or not self.target.holds(seen.key):
            return None
        before = self._contents.get(seen.key)
        if seen.kind == DELETE:
            if before is not None:
                self._contents[seen.key] = ("", before[1])
            return None
        self._contents[seen.key] = (seen.digest, seen.process)
        if before is None or before[0] == seen.digest:
            return None
        if not before[0]:
            if seen.acknowledged and not self.reuses:
                self._again[seen.process] = (seen.key, before[1])
            return None
        return f"{seen.strand} overwrote {seen.key}, which {before[1]} had written"

    def state(self) -> Hashable:
        return (tuple(sorted(self._contents.items())), tuple(sorted(self._again.items())))
