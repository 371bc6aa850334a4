"""The keys of a versioned bucket: all versions of an object, and the markers of deletes.

    blob = VersionedKey(3, by=Id(collectors))       # at most three versions in one run

In a versioned bucket every write adds a version, a delete adds a marker, nothing is overwritten. Versions are
numbered in the order they land, and the number is the version id: it never returns. The newest version that
is not gone is the key's object; if it is a marker, the key has no object, and a create-only put succeeds.
Conditions look at nothing else. `delete_version(number)` removes one version for good, and so may bring back
what was under a marker. The number of versions is a bound of the model, and a write beyond it is an overflow,
not a silent end: give the machine a bound on writes, or more versions.
"""

from collections.abc import Mapping
from typing import Any, Self

from fencepost.model.kernel.language.access import Index
from fencepost.model.kernel.language.assigning import overflow
from fencepost.model.kernel.language.choices import Choice, pick
from fencepost.model.kernel.language.columns import Truth, all_of, any_of
from fencepost.model.kernel.language.errors import ModellingMistake, must_call
from fencepost.model.kernel.language.fields import AnyExtent, AnyField, Each, Enum
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import PackedState, Slot
from fencepost.model.kernel.language.numbers import Number, most
from fencepost.model.kernel.language.views import ArrayAccess
from fencepost.model.store.keys import (
    Key,
    KeyAccess,
    KeyView,
    complete,
    late_slot,
    leaves_object,
    neutral,
    shown,
)
from fencepost.model.store.requests import APPLIED, Reply

IS = "is"
FREE, OBJECT, MARKER, GONE = "free", "object", "marker", "gone"


class VersionedKeyView(KeyView):
    """A versioned key inside an action or a property."""

    access: "VersionedAccess"

    @property
    def is_there(self) -> Truth:
        """True where the newest version is an object."""
        return self._is(self.newest) == OBJECT

    @property
    def written(self) -> Number:
        """The number of versions so far, which is the number of the next one."""
        return most(pick(self._is(n) != FREE, n + 1, 0) for n in range(self.access.places))

    @property
    def newest(self) -> Number:
        """The number of the newest version that is not gone; 0 when there is none."""
        return most(pick(self._is(n).is_in(OBJECT, MARKER), n, 0) for n in range(self.access.places))

    @must_call
    def has_version(self, number: "int | Number") -> Truth:
        """True where this version is an object that can still be read by its number."""
        there: Truth = self._is(number) == OBJECT
        return there

    @must_call
    def version(self, number: "int | Number", part: str) -> Any:
        """A part of one version; its first value where that is no object."""
        return self.part(part)[number]

    @must_call
    def any_version(self, **content: Any) -> Truth:
        """True where some version, the newest or not, is an object with these parts."""
        return any_of(
            self.has_version(number) & self._has(number, content) for number in range(self.access.places)
        )

    def current(self, name: str) -> Any:
        return self.part(name)[self.newest]

    def apply(self, operation: "str | Choice", content: Mapping[str, Any]) -> None:
        if isinstance(operation, str) and operation == "delete-version":
            self.part(IS)[content["version"]] = GONE
            self._fill(content["version"], {})
            return
        full = self.written.values() >= self.access.places
        if full.any():
            overflow(
                self.frame, self.access.name, f"beyond its {self.access.places} versions", int(full.argmax())
            )
        number = self.written
        self.part(IS)[number] = pick(leaves_object(operation), OBJECT, MARKER)
        self._fill(number, content)

    @must_call
    def delete_version(self, answer: str = "done", *, number: "int | Number", late: Any = None) -> Reply:
        """Remove one version, or one marker, for good."""
        reply = Reply("delete-version", answer)
        if answer == "late":
            late_slot(late, self.access.name).hold("delete-version", self, None, {}, number)
        elif answer == "done":
            self.frame.narrow_to(self._is(number) != FREE)
        elif answer in APPLIED:
            self.frame.narrow_to(self.takes_effect("delete-version", number))
        if answer in APPLIED:
            self.apply("delete-version", {"version": number})
        return reply

    def takes_effect(self, operation: str, match: Any) -> Truth:
        if operation == "delete-version":
            effect: Truth = self._is(match).is_in(OBJECT, MARKER)
            return effect
        if operation == "delete":
            # Deleting what is not there adds a marker all the same.
            return Truth.constant(True)
        return super().takes_effect(operation, match)

    def _is(self, number: "int | Number") -> Choice:
        state: Choice = self.part(IS)[number]
        return state

    def _has(self, number: int, content: Mapping[str, Any]) -> Truth:
        return all_of(self.version(number, part) == value for part, value in content.items())

    def _fill(self, number: "int | Number", content: Mapping[str, Any]) -> None:
        for part in self.access.content:
            self.part(part)[number] = content.get(part, self.access.firsts[part])


class VersionedKey(Key):
    """One key of a versioned bucket, with at most `versions` versions and markers in one run."""

    versioned = True

    def __init__(self, versions: AnyExtent, /, *, etag: str | None = None, **parts: AnyField) -> None:
        super().__init__(etag=etag, **parts)
        self.places = versions
        self.parts = {IS: Each(versions, Enum(FREE, OBJECT, MARKER, GONE))}
        self.parts |= {part: Each(versions, neutral(field)) for part, field in parts.items()}

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> "VersionedAccess":
        firsts = {part: field.first(sizes) for part, field in self.content.items()}
        return VersionedAccess(name, self.ways(name, sizes, slots), firsts, tuple(self.content), self.etag)

    def first(self, sizes: Mapping[str, int]) -> object:
        return Versions(())


class Versions(str):
    """All versions of a key as a counterexample prints them, oldest first: `by=0, marker, gone, by=1`."""

    __slots__ = ("versions",)
    versions: tuple[Mapping[str, object] | str, ...]

    def __new__(cls, versions: tuple[Mapping[str, object] | str, ...]) -> Self:
        printed = [each if isinstance(each, str) else shown(each) for each in versions]
        found = super().__new__(cls, ", ".join(printed) or "absent")
        found.versions = versions
        return found


class VersionedAccess(KeyAccess):
    """The way to one versioned key."""

    instead = "use a request: create, replace, put, delete or delete_version"

    @property
    def places(self) -> int:
        way = self.ways[IS]
        assert isinstance(way, ArrayAccess)
        return way.extent

    def read(self, frame: Frame, flat: Index) -> VersionedKeyView:
        return VersionedKeyView(frame, self, flat)

    def decode(self, state: PackedState, flat: int) -> object:
        values: dict[str, Any] = self.values(state, flat)
        found: list[Mapping[str, object] | str] = []
        for number, what in enumerate(values[IS]):
            if what == OBJECT:
                found.append({part: values[part][number] for part in self.content})
            elif what != FREE:
                found.append(what)
        return Versions(tuple(found))

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        versions = value.versions if isinstance(value, Versions) else value
        if isinstance(versions, str) or not isinstance(versions, tuple | list) or len(versions) > self.places:
            raise ModellingMistake(
                f"`{self.name}`: {value!r} is no list of at most {self.places} versions, each of them "
                f"'{MARKER}', '{GONE}', or the parts of an object by name"
            )
        for each in versions:
            if not isinstance(each, str):
                complete(each, self.content, f"a version of `{self.name}`")
        rest = self.places - len(versions)
        what = [each if isinstance(each, str) else OBJECT for each in versions]
        self.ways[IS].encode(state, flat, [*what, *[FREE] * rest])
        for part in self.content:
            given = [self.firsts[part] if isinstance(each, str) else each[part] for each in versions]
            self.ways[part].encode(state, flat, [*given, *[self.firsts[part]] * rest])
