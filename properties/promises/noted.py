"""Promises about what processes noted or returned, and about objects that must go in the end.

agree=TOPIC    all notes of the topic are equal; without a value, one process notes
kept=TOPIC     what was noted is found at the end, as a name or record, in the objects of `in=` (or all)
report=KEY     a process that returned True has written what stands there at the end; one that returned
               False has not, unless it had no reply
gone=dirty/    at the end no such object is left; it must also go where processes run for ever
"""

from collections.abc import Hashable, Mapping
from typing import ClassVar

from fencepost.properties.promises.contents import names_in
from fencepost.properties.promises.observation import CHANGES, END, NOTE, WRITE, Observation
from fencepost.properties.promises.promise import Promise
from fencepost.properties.promises.targets import Target


class Agree(Promise):
    kind = "agree"
    meaning = "all notes of the topic are equal; without a value, one process notes it"
    topic_target = True

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._topic = target
        self._first: tuple[str, str] | None = None

    def observe(self, seen: Observation) -> str | None:
        if seen.kind != NOTE or seen.key != self._topic:
            return None
        value = seen.process if seen.value in (None, True) else repr(seen.value)
        if self._first is None:
            self._first = (seen.process, value)
        elif self._first[1] != value:
            return f"{self._first[0]} noted {self._topic}: {self._first[1]}, and {seen.process} {value}"
        return None

    def state(self) -> Hashable:
        return self._first


class Kept(Promise):
    kind = "kept"
    meaning = "what was noted under the topic is found in the objects at the end"
    options: ClassVar[Mapping[str, str]] = {"in": "the objects that must hold it (default: all)"}
    topic_target = True

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._topic = target
        self._where = Target(self.given.get("in", ""))
        self._noted: dict[str, str] = {}
        self._bodies: dict[str, bytes] = {}

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        self._bodies = {
            key: body for key, (body, _) in objects.items() if body is not None and self._where.holds(key)
        }

    def observe(self, seen: Observation) -> str | None:
        if seen.kind == NOTE and seen.key == self._topic:
            value = seen.process if seen.value in (None, True) else str(seen.value)
            self._noted.setdefault(value, seen.process)
        elif seen.kind in CHANGES and self._where.holds(seen.key):
            if seen.kind == WRITE and seen.body is not None:
                self._bodies[seen.key] = seen.body
            else:
                self._bodies.pop(seen.key, None)
        return None

    def finish(self, *, whole: bool) -> str | None:
        del whole
        for value, process in sorted(self._noted.items()):
            if not any(_holds(body, value) for body in self._bodies.values()):
                where = f" of {self._where.text}" if self._where.text else ""
                return f"{process} noted {self._topic}: {value!r}, and no object{where} holds it"
        return None

    def state(self) -> Hashable:
        return tuple(sorted(self._noted.items()))


def _holds(body: bytes, value: str) -> bool:
    return value in names_in(body) or (not value.isdecimal() and value.encode() in body)


class Report(Promise):
    kind = "report"
    meaning = (
        "what stands there at the end is of a process that returned True, and of none that returned False"
    )

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._writers: dict[str, tuple[str, bool]] = {}
        """By key: the writer of the present content, and if the writer had a reply."""
        self._results: dict[str, bool] = {}

    def observe(self, seen: Observation) -> str | None:
        if (
            seen.kind == END
            and seen.strand == seen.process
            and isinstance(seen.value, bool)
            and not seen.failed
        ):
            self._results[seen.process] = seen.value
        elif seen.kind in CHANGES and self.target.holds(seen.key):
            if seen.kind == WRITE:
                self._writers[seen.key] = (seen.process, seen.acknowledged)
            else:
                self._writers.pop(seen.key, None)
        return None

    def finish(self, *, whole: bool) -> str | None:
        del whole
        writers = {process for process, _ in self._writers.values()}
        for process, result in sorted(self._results.items()):
            if result and process not in writers:
                others = " and ".join(sorted(writers)) or "nobody"
                return f"{process} returned True, and what stands there is of {others}"
            if not result and (process, True) in self._writers.values():
                return f"{process} returned False, and what stands there is its own"
        return None

    def state(self) -> Hashable:
        return (tuple(sorted(self._writers.items())), tuple(sorted(self._results.items())))


class Gone(Promise):
    kind = "gone"
    meaning = "no such object is left at the end, also where processes run for ever"

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._left: set[str] = set()

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        self._left = {key for key in objects if self.target.holds(key)}

    @property
    def is_open(self) -> bool:
        """True if there is such an object now."""
        return bool(self._left)

    def observe(self, seen: Observation) -> str | None:
        if seen.kind in CHANGES and self.target.holds(seen.key):
            (self._left.add if seen.kind == WRITE else self._left.discard)(seen.key)
        return None

    def finish(self, *, whole: bool) -> str | None:
        return f"{min(self._left)} is left at the end" if whole and self._left else None

    def state(self) -> Hashable:
        return ()
