"""Versions of objects, and which of them each process has seen: the memory that most promises share."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.properties.promises.observation import (
    CRASH,
    DELETE,
    END,
    LIST,
    LOOK,
    READ,
    REFUSED,
    SENT,
    WRITE,
    Observation,
)
from fencepost.properties.promises.targets import Target


@dataclass(slots=True)
class Version:
    """One state of a key: an object, or its absence."""

    process: str = ""
    """Its writer; empty for what was there at the beginning."""
    strand: str = ""
    exists: bool = False
    body: bytes | None = None
    digest: str = ""
    acknowledged: bool = True

    def key(self) -> Hashable:
        return (self.process, self.strand, self.exists, self.digest, self.acknowledged)


NOTHING = Version()
Seen = tuple[int, bool]
"""Place of a version in its key's list, and whether the content was read (else it is known otherwise)."""


@dataclass
class History:
    """Versions of the keys of a target, and the knowledge of every strand."""

    target: Target
    versions: dict[str, list[Version]] = field(default_factory=dict)
    """By key, beginning with its absence or with what was there at the beginning."""
    known: dict[tuple[str, str], int] = field(default_factory=dict)
    """By strand and key: the newest version that it has read, looked at, listed or written."""
    read: set[tuple[str, str]] = field(default_factory=set)
    """Strands and keys that were looked at by a request, and not only written."""
    listed: set[tuple[str, str]] = field(default_factory=set)
    """Strand and prefix: keys below that came later did not exist when the strand listed them."""
    first_sent: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By strand, key and content: the version that was known when a refused write sent it first."""
    sent: dict[tuple[str, int], tuple[str, int, bool]] = field(default_factory=dict)
    """By strand and request that may land late: the key, and the version that was known."""

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        for key, (body, digest) in objects.items():
            if self.target.holds(key):
                self.versions[key] = [Version(exists=True, body=body, digest=digest)]

    def of(self, key: str) -> list[Version]:
        """Return the versions of a key, the newest last."""
        found = self.versions.get(key)
        if found is None:
            found = self.versions[key] = [NOTHING]
            for strand, prefix in self.listed:
                if key.startswith(prefix):
                    self.known[strand, key] = 0
                    self.read.add((strand, key))
        return found

    def current(self, key: str) -> Version:
        found = self.versions.get(key)
        return found[-1] if found else NOTHING

    def base(self, seen: Observation) -> tuple[int, bool] | None:
        """Return the version on which a write is based, and if its writer looked at it; None: on none."""
        if seen.late and (seen.strand, seen.number) in self.sent:
            _, known, looked = self.sent[seen.strand, seen.number]
            return None if known < 0 else (known, looked)
        self.of(seen.key)
        place = self.known.get((seen.strand, seen.key))
        if place is None:
            return None
        earlier = self.first_sent.get((seen.strand, seen.key, seen.digest), place)
        return min(place, earlier), (seen.strand, seen.key) in self.read

    def take(self, seen: Observation) -> None:
        """Take up an observation."""
        kind = seen.kind
        if kind in (END, CRASH):
            self._forget(seen.process if kind == CRASH else seen.strand, whole=kind == CRASH)
        elif kind == LIST:
            self._take_list(seen)
        elif not self.target.holds(seen.key):
            return
        elif kind in (WRITE, DELETE):
            versions = self.of(seen.key)
            versions.append(
                Version(seen.process, seen.strand, kind == WRITE, seen.body, seen.digest, seen.acknowledged)
            )
            if not seen.late:
                self.known[seen.strand, seen.key] = len(versions) - 1
            self.sent.pop((seen.strand, seen.number), None)
        elif kind in (READ, LOOK) and seen.acknowledged:
            self.known[seen.strand, seen.key] = len(self.of(seen.key)) - 1
            self.read.add((seen.strand, seen.key))
        elif kind == REFUSED and seen.digest:
            place = self.known.get((seen.strand, seen.key))
            if place is not None:
                self.first_sent.setdefault((seen.strand, seen.key, seen.digest), place)
        elif kind == SENT:
            self.of(seen.key)
            place = self.known.get((seen.strand, seen.key), -1)
            looked = (seen.strand, seen.key) in self.read
            self.sent[seen.strand, seen.number] = (seen.key, place, looked)

    def _take_list(self, seen: Observation) -> None:
        if not seen.acknowledged:
            return
        for key in self._below(seen.key):
            self.known[seen.strand, key] = len(self.versions[key]) - 1
            self.read.add((seen.strand, key))
        self.listed.add((seen.strand, seen.key))

    def _below(self, prefix: str) -> Iterator[str]:
        return (key for key in self.versions if key.startswith(prefix))

    def _forget(self, name: str, *, whole: bool) -> None:
        """Forget what a strand knew, or with `whole` all strands of a process."""

        def gone(strand: str) -> bool:
            return strand == name or (whole and strand.startswith(f"{name}/"))

        self.known = {at: place for at, place in self.known.items() if not gone(at[0])}
        self.read = {at for at in self.read if not gone(at[0])}
        self.listed = {at for at in self.listed if not gone(at[0])}
        self.first_sent = {at: place for at, place in self.first_sent.items() if not gone(at[0])}

    def state(self) -> Hashable:
        """Return the versions from the oldest that some strand may still build on, and who knows which."""
        oldest: dict[str, int] = {}
        for (_, key), place in self.known.items():
            oldest[key] = min(place, oldest.get(key, place))
        for (_, key, _), place in self.first_sent.items():
            oldest[key] = min(place, oldest.get(key, place))
        for key, place, _ in self.sent.values():
            oldest[key] = min(max(place, 0), oldest.get(key, max(place, 0)))
        return (
            tuple(
                (key, tuple(one.key() for one in self.versions[key][place:]))
                for key, place in sorted(oldest.items())
            ),
            tuple(sorted((at, place - oldest[at[1]]) for at, place in self.known.items())),
            tuple(sorted(self.read)),
            tuple(sorted(self.listed)),
            tuple(sorted((at, place - oldest[at[1]]) for at, place in self.first_sent.items())),
            tuple(
                sorted(
                    (at, key, place - oldest[key], looked) for at, (key, place, looked) in self.sent.items()
                )
            ),
        )
