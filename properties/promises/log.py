"""The objects of the target are a log of numbered records: none lost, none twice, none missing in between.

    log/0000000007.json     the last number of the name is the record's place.

A violation is

- a record that is written over with another content, or whose name is used again after it was deleted by a
  process that then ends well.
- a record that is there twice: a process wrote it again under another number, after the first request had no
  reply or after it was refused by its own record. If bodies are JSON lists their elements are the records,
  and the same one in two objects is there twice.
- a process that is refused by its own record, and fails: it took it for another's.
- at the end of a run: a number that never was, between two that were.
- `reader=NAME`: at the end, the process (a pattern) does not know of a record that was acknowledged and
  exists.
- `rising=FIELD`: the field goes down from one record to the next.
"""

from collections.abc import Hashable, Mapping
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import ClassVar

from fencepost.properties.promises.contents import field_of, records_in
from fencepost.properties.promises.observation import (
    CRASH,
    DELETE,
    END,
    LIST,
    LOOK,
    READ,
    REFUSED,
    WRITE,
    Observation,
)
from fencepost.properties.promises.once import Once
from fencepost.properties.promises.targets import number_in


class Log(Once):
    kind = "log"
    meaning = "numbered records: none is lost or overwritten, none is there twice, none is missing in between"
    options: ClassVar[Mapping[str, str]] = {
        "reader": "name (pattern) of the processes that must know every acknowledged record at the end",
        "rising": "field of the records that must not go down from one number to the next",
        "gaps": "yes: numbers may be left out (default: no)",
        "reuse": "yes: a number may be used again after its record was deleted (default: no)",
    }

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._gaps = self.flag("gaps")
        self.reuses = self.flag("reuse")
        self._writer: dict[str, tuple[str, int]] = {}
        """By key: the process that wrote the record, and its incarnation."""
        self._refused_by_own: dict[str, str] = {}
        """By process: its own record by which its last write was refused."""
        self._bodies: dict[str, bytes | None] = {}
        """By key, of the records that exist."""
        self._ever: set[str] = set()
        self._acknowledged: set[str] = set()
        self._doubtful: set[tuple[str, str, str]] = set()
        """Process, content and key: it wrote or found its own record there, and had no reply that says so."""
        self._written: dict[tuple[str, str], tuple[str, int]] = {}
        """By process and content: where it was written, and in which incarnation."""
        self._knows: dict[str, set[str]] = {}
        """By reader: the keys that it has read, listed or written."""

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        super().begin(objects)
        for key, (body, _) in objects.items():
            if self.target.holds(key):
                self._bodies[key] = body
                self._ever.add(key)

    def observe(self, seen: Observation) -> str | None:
        self._learn(seen)
        if seen.kind in (END, CRASH):
            if seen.kind == CRASH:
                self._knows.pop(seen.process, None)
            own = self._refused_by_own.pop(seen.process, None)
            if own is not None and seen.kind == END and seen.failed:
                return f"{seen.process} was refused by its own record {own}, and failed"
            return super().observe(seen)
        if seen.kind in (WRITE, DELETE, REFUSED) and self.target.holds(seen.key):
            if seen.kind == DELETE:
                self._bodies.pop(seen.key, None)
            elif seen.kind == REFUSED:
                self._refused(seen)
            else:
                twice = self._write(seen)
                return super().observe(seen) or twice
            return super().observe(seen)
        return None

    def _learn(self, seen: Observation) -> None:
        if seen.kind in (READ, LOOK) and self._refused_by_own.get(seen.process) == seen.key:
            del self._refused_by_own[seen.process]
        reader = self.given.get("reader")
        if reader is None or not seen.acknowledged or not fnmatchcase(seen.process, reader):
            return
        knows = self._knows.setdefault(seen.process, set())
        if seen.kind == LIST:
            knows.update(seen.listed)
        elif seen.kind in (READ, LOOK, WRITE) and self.target.holds(seen.key):
            knows.add(seen.key)

    def _refused(self, seen: Observation) -> None:
        self._refused_by_own.pop(seen.process, None)
        body = self._bodies.get(seen.key)
        if seen.outcome in ("exists", "changed") and body is not None and body == seen.body:
            self._doubtful.add((seen.process, seen.digest, seen.key))
            if self._writer.get(seen.key) == (seen.process, seen.incarnation):
                self._refused_by_own[seen.process] = seen.key

    def _write(self, seen: Observation) -> str | None:
        reason = self._twice(seen) if seen.key not in self._bodies else None
        self._bodies[seen.key] = seen.body
        self._ever.add(seen.key)
        self._writer[seen.key] = (seen.process, seen.incarnation)
        self._refused_by_own.pop(seen.process, None)
        if seen.acknowledged:
            self._acknowledged.add(seen.key)
        else:
            self._doubtful.add((seen.process, seen.digest, seen.key))
        self._written[seen.process, seen.digest] = (seen.key, seen.incarnation)
        return reason

    def _twice(self, seen: Observation) -> str | None:
        there = {
            key for process, digest, key in self._doubtful if (process, digest) == (seen.process, seen.digest)
        }
        earlier = self._written.get((seen.process, seen.digest))
        if earlier is not None and earlier[1] != seen.incarnation:
            there.add(earlier[0])
        there = {key for key in there if key in self._bodies and key != seen.key}
        if there and seen.body != b"":
            return f"{seen.process} wrote the record of {min(there)} again as {seen.key}"
        return None

    def finish(self, *, whole: bool) -> str | None:
        return self._repeated() or self._missing() or self._falling() or (self._unknown() if whole else None)

    def _repeated(self) -> str | None:
        where: dict[str, str] = {}
        for key, body in sorted(self._bodies.items()):
            for record in dict.fromkeys(records_in(body)) if body is not None else ():
                if record in where:
                    return f"the record {record} is in {where[record]} and in {key}"
                where[record] = key
        return None

    def _missing(self) -> str | None:
        if self._gaps or any(body is not None and records_in(body) for body in self._bodies.values()):
            return None
        numbers = sorted({number for key in self._ever if (number := number_in(key)) is not None})
        for one, other in pairwise(numbers):
            if other != one + 1:
                return f"there never was a record {one + 1}, between {one} and {other}"
        return None

    def _falling(self) -> str | None:
        name = self.given.get("rising")
        if name is None:
            return None
        before = None
        for key in sorted(self._bodies, key=lambda key: (number_in(key) or 0, key)):
            body = self._bodies[key]
            value = None if body is None else field_of(body, name)
            if value is not None and before is not None and value < before[1]:
                return f"{name} goes back from {before[1]} in {before[0]} to {value} in {key}"
            before = (key, value) if value is not None else before
        return None

    def _unknown(self) -> str | None:
        for reader, knows in sorted(self._knows.items()):
            for key in sorted(self._acknowledged & set(self._bodies)):
                if key not in knows:
                    return f"{key} was acknowledged, and {reader} has ended without having seen it"
        return None

    def state(self) -> Hashable:
        return (
            super().state(),
            tuple(sorted(self._ever)),
            tuple(sorted(self._writer.items())),
            tuple(sorted(self._refused_by_own.items())),
            tuple(sorted(self._acknowledged)),
            tuple(sorted(self._doubtful)),
            tuple(sorted((*at, *where) for at, where in self._written.items())),
            tuple(sorted((name, tuple(sorted(keys))) for name, keys in self._knows.items())),
        )
