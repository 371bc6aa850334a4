"""A request that its sender has given up on, and that may still land.

    late = Late(lock)                    # one for the whole machine: the bound on what is under way
    late = Each(clients, Late(lock))     # or one for each client: pass late=s.late[c]
    late = Each(2, Late(lock))           # or a few: pass late=s.late, the first free one is taken

It holds the content of the request as issued, and nothing of its sender, which may have crashed. An
action of the machine lets it land, at any step from then on:

    @action
    def lands(s) -> None:
        s.late.land()

Landing is enabled where the request would change something now. One that would be refused now stays
under way: the key may come to suit it later. One that never lands needs no step: it is the answer
`request_lost`. While no place is free, no further request can be late; the number of places is the bound.

`only=("create",)` names the operations that can be late, which saves the bits for the others.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from fencepost.model.kernel.language.access import Access, Index
from fencepost.model.kernel.language.columns import Truth, any_of
from fencepost.model.kernel.language.errors import ModellingMistake, must_call, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, Each, Enum, Field, Id, resolve
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import PackedState, Slot
from fencepost.model.kernel.language.views import ArrayAccess
from fencepost.model.store.keys import (
    Key,
    KeyAccess,
    KeyView,
    Part,
    Record,
    RecordAccess,
    View,
    is_own,
    shown,
)
from fencepost.model.store.requests import POSSIBLE, WRITES

DO, MATCH, VERSION = "do", "match", "version"
NOTHING = "nothing"
DELETE_VERSION = "delete-version"
CARRY_MATCH = ("replace", "delete-match")


class LateView(View):
    """A late request inside an action or a property."""

    access: "LateAccess"

    def __getattr__(self, name: str) -> Part:
        if name not in self.access.ways:
            raise ModellingMistake(
                f"`{self.access.name}` carries no '{name}'{suggestion(name, self.access.ways)}; "
                f"there is {names(self.access.ways)}"
            )
        part: Part = self.part(name)
        return part

    @property
    def is_free(self) -> Truth:
        """True where no request waits here."""
        free: Truth = self.part(DO) == NOTHING
        return free

    @must_call
    def land(self) -> None:
        """Let it take effect now, where it would, and be gone."""
        self.frame.narrow_to(~self.is_free)
        key, operations = self.key(), self.access.operations
        waits = [self.part(DO) == operation for operation in operations]
        effects = [self._takes_effect(key, operation) for operation in operations]
        self.frame.narrow_to(any_of(w & e for w, e in zip(waits, effects, strict=True)))
        key.apply(operations[0] if len(operations) == 1 else self.part(DO), self._carried())
        self.clear()

    @must_call
    def clear(self) -> None:
        """Let it be gone without effect."""
        self.access.put(self.frame, self.flat, {DO: NOTHING})

    def hold(
        self, operation: str, key: KeyView, match: Any, content: Mapping[str, Any], version: Any = None
    ) -> None:
        """Take a request in, where nothing waits here."""
        self.access.check(operation, key.access)
        self.frame.narrow_to(self.is_free)
        known = {MATCH: match, VERSION: version, **self.access.places(key.flat)}
        values = {part: value for part, value in known.items() if value is not None}
        self.access.put(self.frame, self.flat, {DO: operation, **values, **content})

    def key(self) -> KeyView:
        """The key that it is for, where something waits."""
        access = self.access
        flat: Index = 0
        for number, extent in enumerate(access.extents):
            flat = flat * extent + self.part(f"at{number}")
        return access.key_access.read(self.frame, flat)

    def _takes_effect(self, key: KeyView, operation: str) -> Truth:
        if operation in CARRY_MATCH:
            return key.takes_effect(operation, self.part(MATCH))
        return key.takes_effect(operation, self.part(VERSION) if operation == DELETE_VERSION else None)

    def _carried(self) -> dict[str, Any]:
        """The content of the request, without its place."""
        return {part: self.part(part) for part in self.access.carried}


class Late(Record[LateView]):
    """A place for one late request to `key`, or to one of the keys in `Each(..., Key(...))`."""

    def __init__(self, key: Field[Any, Any], *, only: Sequence[str] | None = None) -> None:
        self.key = key
        extents = []
        while isinstance(key, Each):
            extents.append(key.extent)
            key = key.element
        if not isinstance(key, Key):
            raise ModellingMistake("Late(key) is for a field declared as Key(...), or as Each of them")
        self.operations = _operations(key, only)
        self._extents: list[AnyExtent] = extents
        self.parts = {DO: Enum(NOTHING, *self.operations)}
        self.parts |= {f"at{number}": Id(extent, nobody=True) for number, extent in enumerate(extents)}
        if any(operation in CARRY_MATCH for operation in self.operations):
            assert key.etag is not None
            self.parts[MATCH] = key.content[key.etag]
        if DELETE_VERSION in self.operations:
            self.parts[VERSION] = Id(key.places, nobody=True)
        if any(operation in WRITES for operation in self.operations):
            self.parts |= key.content

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> "LateAccess":
        way: Access = self.key.access(self.key.name, sizes, slots)
        while isinstance(way, ArrayAccess):
            way = way.element
        assert isinstance(way, KeyAccess)
        extents = tuple(resolve(extent, sizes) for extent in self._extents)
        ways = self.ways(name, sizes, slots)
        return LateAccess(name, ways, self.firsts(sizes), way, extents, self.operations)

    def first(self, sizes: Mapping[str, int]) -> object:
        return Waiting("", (), {})


class Waiting(str):
    """A late request as a counterexample prints it: `nothing`, or `create lock owner=1`."""

    __slots__ = ("parts",)
    parts: Mapping[str, object]

    def __new__(cls, key: str, at: tuple[int, ...], parts: Mapping[str, object]) -> Self:
        operation = str(parts.get(DO, NOTHING))
        words = [operation]
        if operation != NOTHING:
            words.append(key + "".join(f"[{number}]" for number in at))
            if operation in CARRY_MATCH:
                words.append(f"matching {parts[MATCH]}")
            if operation == DELETE_VERSION:
                words.append(f"version {parts[VERSION]}")
            if operation in WRITES:
                words.append(shown({part: value for part, value in parts.items() if not is_own(part)}))
        waiting = super().__new__(cls, " ".join(words))
        waiting.parts = parts
        return waiting


class LateAccess(RecordAccess):
    """The way to one late request."""

    instead = "pass it to a request, as late=s.late, and let it land with s.late.land()"

    def __init__(
        self,
        name: str,
        ways: Mapping[str, Access],
        firsts: Mapping[str, object],
        key_access: KeyAccess,
        extents: tuple[int, ...],
        operations: tuple[str, ...],
    ) -> None:
        super().__init__(name, ways, firsts)
        self.key_access = key_access
        self.extents = extents
        self.operations = operations
        self.carried = tuple(part for part in ways if not is_own(part) or part == VERSION)

    def read(self, frame: Frame, flat: Index) -> LateView:
        return LateView(frame, self, flat)

    def check(self, operation: str, key: KeyAccess) -> None:
        """Refuse a request for another key, or one that `only` left out."""
        if key.name != self.key_access.name:
            raise ModellingMistake(
                f"`{self.name}` is for late requests to `{self.key_access.name}`, not to `{key.name}`"
            )
        if operation not in self.operations:
            raise ModellingMistake(f"`{self.name}` takes only {names(self.operations)}; {operation} is late")

    def places(self, flat: Index) -> dict[str, Index]:
        """The number of a key, one for each `Each` around it."""
        found: dict[str, Index] = {}
        for number in reversed(range(len(self.extents))):
            found[f"at{number}"] = flat % self.extents[number]
            flat = flat // self.extents[number]
        return found

    def decode(self, state: PackedState, flat: int) -> object:
        parts = self.values(state, flat)
        at = tuple(int(str(parts[f"at{number}"])) for number in range(len(self.extents)))
        return Waiting(self.key_access.name, at, parts)

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        parts = value.parts if isinstance(value, Waiting) else value
        if not isinstance(parts, Mapping):
            raise ModellingMistake(f"`{self.name}`: {value!r} is no late request; copy one from a state")
        for part, way in self.ways.items():
            way.encode(state, flat, parts.get(part, self.firsts[part]))


def _operations(key: Key, only: Sequence[str] | None) -> tuple[str, ...]:
    """The operations that can be late for this key."""
    known = [op for op in POSSIBLE if op not in CARRY_MATCH or key.etag is not None]
    if not key.versioned:
        known.remove(DELETE_VERSION)
    if only is None:
        return tuple(op for op in known if op != DELETE_VERSION)
    error = [op for op in only if op not in known]
    if error or isinstance(only, str) or not only:
        raise ModellingMistake(f"only={only!r} must be a tuple of some of {names(known)}")
    if DELETE_VERSION in only and len(only) > 1:
        raise ModellingMistake(
            f"give late {DELETE_VERSION} requests a place of their own: only=('{DELETE_VERSION}',)"
        )
    return tuple(only)
