"""Everything that an object names exists, as long as the object does.

A body names an object by its key, with or without the folder, the bucket or leading zeros, in any text or
number of its JSON, or as a word of its text. `data=` gives the folder of what may be named, and makes the
audit cheaper. A violation is

- a named object that is deleted, or that is created only after it was named.
- a write that names what was deleted.
- at the end of a run in which every process ended well: a body that gives an ETag that a named object had
  and does
  not have any more.
- `grace=SECONDS`: a process follows a name that it has read at most so long ago, and finds nothing.

A `manifest` is the same for the objects that say what belongs to a table, a block or a snapshot, and more: no
update of it is lost (see `register`), of numbered manifests the highest counts, and if bodies name nothing,
as markers do, then what its writer stored beside it before must be there. With `garbage=no` every object of
`data=` is named at the end of a run in which no process crashed.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar

from fencepost.properties.promises.contents import names_in
from fencepost.properties.promises.observation import (
    CHANGES,
    CRASH,
    DELETE,
    END,
    READ,
    WRITE,
    Observation,
)
from fencepost.properties.promises.promise import Promise
from fencepost.properties.promises.register import Register
from fencepost.properties.promises.targets import Target, number_in, without_bucket


class References(Promise):
    kind = "references"
    meaning = "what an object names exists as long as the object does"
    options: ClassVar[Mapping[str, str]] = {
        "data": "the objects that may be named (default: all)",
        "grace": "seconds for which a process that has read a name may still follow it",
    }

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._data = Target(self.given["data"]) if "data" in self.given else None
        self._grace_ns = self.seconds("grace")
        self._bodies: dict[str, bytes] = {}
        """By key, of the objects that name others."""
        self._there: dict[str, str] = {}
        """The other objects that exist, with their ETag."""
        self._gone: set[str] = set()
        """Those that were deleted."""
        self._etags: dict[str, set[str]] = {}
        """By key: the ETags that it had before."""
        self._read: dict[tuple[str, str], int] = {}
        """By strand and name: when it was read last."""

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        for key, (body, _) in objects.items():
            if self.target.holds(key):
                if body is not None:
                    self._bodies[key] = body
            else:
                self._there[key] = ""

    def orders(self, seen: Observation) -> bool:
        if not seen.asked:
            return False
        if self.target.holds(seen.key):
            return True
        return self._is_data(seen.key) and (seen.asked == DELETE or self._data is not None)

    def _is_data(self, key: str) -> bool:
        return not self.target.holds(key) and (self._data is None or self._data.holds(key))

    def names(self, namer: str, body: bytes, key: str) -> bool:
        """Return True if the body of `namer` names the object `key`."""
        words = names_in(body)
        folder = namer.rpartition("/")[0] + "/"
        spelled = {key}
        if key.partition("/")[0] == namer.partition("/")[0]:
            spelled.add(without_bucket(key))  # in the same bucket, or the same folder
        if key.startswith(folder):
            spelled.add(key[len(folder) :])
        # A number alone may count something else.
        if any(not name.isdecimal() and name in words for name in spelled):
            return True
        if self._data is None or not self._data.holds(key):
            return False
        rest = self._data.below(key)
        number = number_in(key)
        plain = rest.partition(".")[0]
        return rest in words or plain in words or (number is not None and str(number) in words)

    def counting(self) -> Iterable[str]:
        """Return the keys of the objects whose names count."""
        return self._bodies

    def _naming(self, key: str) -> str | None:
        return next((one for one in self.counting() if self.names(one, self._bodies[one], key)), None)

    def observe(self, seen: Observation) -> str | None:
        if seen.kind in CHANGES and self.target.holds(seen.key):
            return self._write_names(seen)
        if seen.kind in CHANGES and self._is_data(seen.key):
            return self._change(seen)
        if seen.kind == READ and self._grace_ns is not None:
            return self._follow(seen)
        if seen.kind in (END, CRASH):
            self._read = {at: when for at, when in self._read.items() if at[0] != seen.strand}
        return None

    def _write_names(self, seen: Observation) -> str | None:
        if seen.kind == DELETE:
            self._bodies.pop(seen.key, None)
            return self._dangling(seen)
        if seen.body is None:
            return None
        self._bodies[seen.key] = seen.body
        return self._dangling(seen)

    def _dangling(self, seen: Observation) -> str | None:
        for key in self.counting():
            for gone in sorted(self._gone):
                if self.names(key, self._bodies[key], gone):
                    return f"{key} names {gone}, which was deleted before {seen.process} wrote {seen.key}"
        return None

    def _change(self, seen: Observation) -> str | None:
        naming = self._naming(seen.key)
        if seen.kind == DELETE:
            self._there.pop(seen.key, None)
            self._gone.add(seen.key)
            return f"{seen.process} deleted {seen.key}, which {naming} names" if naming else None
        new = seen.key not in self._there and seen.key not in self._gone
        before = self._there.get(seen.key)
        if before:
            self._etags.setdefault(seen.key, set()).add(before)
        self._there[seen.key] = seen.etag
        self._gone.discard(seen.key)
        if naming and new:
            return f"{naming} named {seen.key} before {seen.process} created it"
        return None

    def _follow(self, seen: Observation) -> str | None:
        if seen.exists and self.target.holds(seen.key) and seen.body is not None and seen.acknowledged:
            for name in names_in(seen.body):
                self._read[seen.strand, name] = seen.t_ns
            return None
        if seen.exists or not self._is_data(seen.key) or self._grace_ns is None:
            return None
        for name in (seen.key, without_bucket(seen.key)):
            when = self._read.get((seen.strand, name))
            if when is not None and seen.t_ns - when < self._grace_ns:
                ago = (seen.t_ns - when) / 1e9
                return f"{seen.process} finds no {seen.key}, whose name it read {ago:.10g} s ago"
        return None

    @property
    def uses_time(self) -> bool:
        return self._grace_ns is not None

    def finish(self, *, whole: bool) -> str | None:
        if not whole:
            return None
        for key in self.counting():
            words = {word.strip('"') for word in names_in(self._bodies[key])}
            for named, etags in sorted(self._etags.items()):
                now = self._there.get(named, "")
                stale = etags & words
                if stale and now not in words and self.names(key, self._bodies[key], named):
                    return f"{key} gives the ETag {min(stale)[:6]} of {named}, which has {now[:6]} now"
        return None

    def state(self) -> Hashable:
        return (
            tuple(sorted(self._bodies.items())),
            tuple(sorted(self._gone)),
            tuple(sorted((key, tuple(sorted(etags))) for key, etags in self._etags.items())),
            tuple(sorted(self._read.items())),
        )


class Manifest(References):
    kind = "manifest"
    meaning = "everything that the manifest names exists, and no acknowledged update of it is lost"
    options: ClassVar[Mapping[str, str]] = {
        **References.options,
        "garbage": "no: everything of data= is named in the end, unless a process crashed (default: yes)",
    }

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._register = Register(target)
        self._keeps_garbage = self.flag("garbage") or "garbage" not in self.given
        self._stored: dict[str, set[str]] = {}
        """By process: what it has stored since it started."""
        self._behind: dict[str, frozenset[str]] = {}
        """By manifest that names nothing: what its writer had stored beside it."""

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        super().begin(objects)
        self._register.begin(objects)

    def counting(self) -> Iterable[str]:
        numbers = {key: number for key in self._bodies if (number := number_in(key)) is not None}
        if len(numbers) < len(self._bodies) or len(numbers) < 2:
            return list(self._bodies)
        return [max(numbers, key=lambda key: (numbers[key], key))]

    def observe(self, seen: Observation) -> str | None:
        if seen.kind == CRASH:
            self._stored.pop(seen.process, None)
        reason = self._mark(seen) if seen.kind in CHANGES else None
        lost = self._register.observe(seen)
        return super().observe(seen) or reason or lost

    def _mark(self, seen: Observation) -> str | None:
        if not self.target.holds(seen.key):
            stored = self._stored.setdefault(seen.process, set())
            if seen.kind == WRITE:
                stored.add(seen.key)
                return None
            stored.discard(seen.key)
            for marker, behind in self._behind.items():
                if seen.key in behind:
                    return f"{seen.process} deleted {seen.key}, which {marker} stands for"
            return None
        self._behind.pop(seen.key, None)
        if seen.kind == DELETE or seen.body is None:
            return None
        folder = seen.key.rpartition("/")[0] + "/"
        beside = {key for key in self._stored.get(seen.process, ()) if key.startswith(folder)}
        if any(self.names(seen.key, seen.body, key) for key in beside):
            return None
        self._behind[seen.key] = frozenset(beside)
        gone = sorted(beside - set(self._there))
        return f"{seen.process} wrote {seen.key}, and its {gone[0]} was deleted before" if gone else None

    def finish(self, *, whole: bool) -> str | None:
        if whole and not self._keeps_garbage and self._data is not None:
            for key in sorted(self._there):
                if self._data.holds(key) and self._naming(key) is None:
                    return f"{key} is there at the end, and no manifest names it"
        return super().finish(whole=whole)

    def state(self) -> Hashable:
        return (
            super().state(),
            self._register.state(),
            tuple(sorted((name, tuple(sorted(keys))) for name, keys in self._stored.items())),
            tuple(sorted((key, tuple(sorted(keys))) for key, keys in self._behind.items())),
        )
