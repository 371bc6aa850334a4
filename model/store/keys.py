"""The keys of the store as fields: absent, or an object of a few parts (`versions` has their history).

    lock = Key(owner=Id(clients), take=Int(0, 3), etag="take")

The state of a key is one bit for "there" and the bits of its parts; where no object is, every part has its
first value, so that equal situations are equal states. To the kernel each part is a field of its own, named
`lock.owner`, with cells, kinds and dimensions that symmetry can see. Inside an action `s.lock` is a view:
`s.lock.is_there`, `s.lock.owner` (a number that names a member is -1 where no object is),
`s.lock.holds(owner=c)`, and the requests. A request takes its `answer` first, a plain string and usually a
parameter of the action; it keeps the rows where that can be the answer. So every label writes constants, and
a counterexample shows the store's answers.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from fencepost.model.kernel.language.access import Access, Index
from fencepost.model.kernel.language.choices import Choice, pick
from fencepost.model.kernel.language.columns import Truth, all_of
from fencepost.model.kernel.language.errors import ModellingMistake, NoValue, must_call, names, suggestion
from fencepost.model.kernel.language.fields import (
    AnyExtent,
    AnyField,
    Bool,
    Cells,
    Each,
    Field,
    Id,
    Seq,
)
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import EnumKind, PackedState, Slot
from fencepost.model.kernel.language.numbers import least
from fencepost.model.kernel.language.views import Array
from fencepost.model.kernel.report.counterexample import format_value
from fencepost.model.store.requests import APPLIED, CONDITIONAL, WRITES, Reply

R = TypeVar("R")

if TYPE_CHECKING:
    from fencepost.model.kernel.language.records import Part as PartOfRecord

    class Part(PartOfRecord):
        """A part of an object, which may be an array."""

        def __getitem__(self, index: Index) -> "Part": ...

else:
    Part = Any


class Record(Field[R, NoReturn]):
    """Parts by name; nothing is assigned to it as a whole."""

    parts: dict[str, AnyField]

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        for part, field in self.parts.items():
            yield from field.cells(f"{name}.{part}", dimensions)

    def ways(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> dict[str, Access]:
        """The way to each part."""
        return {part: field.access(f"{name}.{part}", sizes, slots) for part, field in self.parts.items()}

    def firsts(self, sizes: Mapping[str, int]) -> dict[str, object]:
        """The value of each part where no object is."""
        return {part: field.first(sizes) for part, field in self.parts.items()}


class RecordAccess(Access):
    """The way to all parts of one record."""

    instead = "use its methods"

    def __init__(self, name: str, ways: Mapping[str, Access], firsts: Mapping[str, object]) -> None:
        self.name = name
        self.ways = ways
        self.firsts = firsts

    def write(self, frame: Frame, flat: Index, value: Any) -> NoReturn:
        raise ModellingMistake(f"nothing is assigned to `{self.name}` itself: {self.instead}")

    def values(self, state: PackedState, flat: int) -> dict[str, object]:
        """The plain values of all parts."""
        return {part: way.decode(state, flat) for part, way in self.ways.items()}

    def put(self, frame: Frame, flat: Index, values: Mapping[str, Any]) -> None:
        """Write every part: those given, and the others to their first value."""
        for part, way in self.ways.items():
            way.write(frame, flat, values.get(part, self.firsts[part]))


class View(NoValue):
    """A record inside an action: a place in the present rows."""

    frame: Frame
    access: RecordAccess
    flat: Index

    def __init__(self, frame: Frame, access: RecordAccess, flat: Index) -> None:
        # Past `__setattr__`, which is the author's.
        here = self.__dict__
        here["frame"], here["access"], here["flat"] = frame, access, flat

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ModellingMistake(f"nothing is assigned to `{self.access.name}.{name}`: {self.access.instead}")

    def part(self, name: str) -> Any:
        """One part as a column, or as an array."""
        return self.access.ways[name].read(self.frame, self.flat)

    def no_value(self) -> str:
        return f"`{self.access.name}` is no column: compare one of its parts"

    def __repr__(self) -> str:
        return f"`{self.access.name}` itself"


def neutral(field: AnyField) -> AnyField:
    """The field as a part of something that may be absent: an Id without a member is -1 then."""
    if isinstance(field, Id) and not field.nobody:
        return Id(field.extent, nobody=True)
    return field


def complete(given: Mapping[str, object], wanted: Mapping[str, object], what: str) -> None:
    """Refuse a content that has not exactly the parts that are wanted."""
    for part in given:
        if part not in wanted:
            raise ModellingMistake(
                f"{what} has no part '{part}'{suggestion(part, wanted)}; its parts are {names(wanted)}"
            )
    missing = [part for part in wanted if part not in given]
    if missing:
        raise ModellingMistake(f"{what} needs a value for {names(missing)}")


THERE = "there"
RESERVED = frozenset({THERE, "answer", "match", "late", "version", "do", "is", "frame", "access", "flat"})
"""Names that mean something else in a request, a view or a late request."""


class Standing(str):
    """The object at a key, as a counterexample prints it: `absent`, or `owner=0 take=2`."""

    __slots__ = ("content",)
    content: Mapping[str, object] | None

    def __new__(cls, content: Mapping[str, object] | None) -> Self:
        standing = super().__new__(cls, "absent" if content is None else shown(content))
        standing.content = content
        return standing


def shown(content: Mapping[str, object]) -> str:
    """The parts of an object in a few words."""
    return " ".join(f"{part}={format_value(value)}" for part, value in content.items()) or "there"


class KeyView(View):
    """A key inside an action or a property."""

    access: "KeyAccess"
    ignores_conditions = False
    """Conditional writes land over any object: a change of a machine, see `kernel.breaking`."""

    @must_call
    def without_condition(self) -> Self:
        """Return the same key, whose store ignores the conditions of writes."""
        view = type(self)(self.frame, self.access, self.flat)
        view.__dict__["ignores_conditions"] = True
        return view

    def __getattr__(self, name: str) -> Part:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.access.content:
            known = [*self.access.content, "is_there", "holds", *_REQUESTS]
            raise ModellingMistake(
                f"`{self.access.name}` has no part or request '{name}'{suggestion(name, known)}; "
                f"its parts are {names(self.access.content)}; its requests are {names(_REQUESTS)}"
            )
        part: Part = self.current(name)
        return part

    @property
    def is_there(self) -> Truth:
        """True where an object is at the key."""
        there: Truth = self.part(THERE)
        return there

    def current(self, name: str) -> Any:
        """A part of the object at the key; its first value where there is none."""
        return self.part(name)

    @must_call
    def holds(self, **content: Any) -> Truth:
        """True where the object at the key has these values in these parts."""
        for name in content:
            if name not in self.access.content:
                complete(content, self.access.content, f"`{self.access.name}`")
        return all_of([self.is_there, *(self.current(name) == value for name, value in content.items())])

    # The requests.

    @must_call
    def create(self, answer: str, *, late: Any = None, **content: Any) -> Reply:
        """Put, only where no object is (If-None-Match: *)."""
        return self._send("create", answer, None, late, content)

    @must_call
    def replace(self, answer: str, *, match: Any, late: Any = None, **content: Any) -> Reply:
        """Put, only over the object whose ETag is `match` (If-Match)."""
        return self._send("replace", answer, match, late, content)

    @must_call
    def put(self, answer: str = "done", *, late: Any = None, **content: Any) -> Reply:
        """Put, over any object: the last one wins."""
        return self._send("put", answer, None, late, content)

    @must_call
    def delete(self, answer: str = "done", *, match: Any = None, late: Any = None) -> Reply:
        """Delete any object, or with `match` only the one with this ETag."""
        return self._send("delete" if match is None else "delete-match", answer, match, late, None)

    @must_call
    def assign(self, other: "KeyView", **parts: Any) -> None:
        """Copy the object at `other`, with these parts changed: for renaming states, not for protocols."""
        values = {name: other.part(name) for name in self.access.ways}
        self.access.put(self.frame, self.flat, values | parts)

    def _send(
        self, operation: str, answer: str, match: Any, late: Any, content: Mapping[str, Any] | None
    ) -> Reply:
        reply = Reply(operation, answer)
        if content is not None:
            complete(content, self.access.content, f"the object at `{self.access.name}`")
        if answer == "late":
            late_slot(late, self.access.name).hold(operation, self, match, content or {})
        elif answer not in ("request_lost", "conflict", "throttled"):
            self.frame.narrow_to(self._may_answer(operation, answer, match))
            if answer in APPLIED:
                self.apply(operation, content or {})
        return reply

    def _may_answer(self, operation: str, answer: str, match: Any) -> Truth:
        """Where this can be the answer of an operation that reaches the store."""
        if answer == "exists":
            return self.is_there
        if answer == "missing":
            return ~self.is_there
        if answer == "changed":
            return self.is_there & ~self._matches(match)
        if operation in CONDITIONAL or (operation == "delete" and answer == "reply_lost"):
            # Deleting what is not there answers "done"; without that answer it equals "request_lost".
            lands = operation != "delete" and self.ignores_conditions
            return Truth.constant(True) if lands else self.takes_effect(operation, match)
        return Truth.constant(True)

    def takes_effect(self, operation: str, match: Any) -> Truth:
        """True where the operation would change the object, if it landed now."""
        if operation == "create":
            return ~self.is_there
        if operation == "put":
            return Truth.constant(True)
        if operation == "delete":
            return self.is_there
        return self.is_there & self._matches(match)

    def apply(self, operation: str | Choice, content: Mapping[str, Any]) -> None:
        """Let a request take effect in every row that is left; the operation may differ from row to row."""
        self.access.put(self.frame, self.flat, {THERE: leaves_object(operation), **content})

    def _matches(self, match: Any) -> Truth:
        if self.access.etag is None:
            raise ModellingMistake(
                f"`{self.access.name}` has no ETag to match: name the part that stands for it, "
                f"as in Key(..., etag='count'); its parts are {names(self.access.content)}"
            )
        same = self.current(self.access.etag) == match
        assert isinstance(same, Truth)
        return same


class Key(Record[KeyView]):
    """One key. The keyword arguments are the parts of its objects; `etag` names the part that a
    condition compares, the only part if there is but one.
    """

    versioned = False
    places: AnyExtent = 1
    """The largest number of its versions."""

    def __init__(self, *, etag: str | None = None, **parts: AnyField) -> None:
        self.etag = etag_of(parts, etag)
        self.content = {part: neutral(field) for part, field in parts.items()}
        self.parts = {THERE: Bool(), **self.content}

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> "KeyAccess":
        firsts = self.firsts(sizes)
        return KeyAccess(name, self.ways(name, sizes, slots), firsts, tuple(self.content), self.etag)

    def first(self, sizes: Mapping[str, int]) -> object:
        return Standing(None)


class KeyAccess(RecordAccess):
    """The way to one key."""

    instead = "use a request: create, replace, put or delete"

    def __init__(
        self,
        name: str,
        ways: Mapping[str, Access],
        firsts: Mapping[str, object],
        content: tuple[str, ...],
        etag: str | None,
    ) -> None:
        super().__init__(name, ways, firsts)
        self.content = dict.fromkeys(content)
        self.etag = etag

    def read(self, frame: Frame, flat: Index) -> KeyView:
        return KeyView(frame, self, flat)

    def decode(self, state: PackedState, flat: int) -> object:
        values = self.values(state, flat)
        return Standing(values if values.pop(THERE) else None)

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        content = content_of(value, self.name)
        if content is not None:
            complete(content, self.content, f"the object at `{self.name}`")
        values = {**self.firsts, **(content or {}), THERE: content is not None}
        for part, way in self.ways.items():
            way.encode(state, flat, values[part])


def etag_of(parts: Mapping[str, AnyField], etag: str | None) -> str | None:
    """The part that represents the ETag."""
    taken = [part for part in parts if is_own(part) or hasattr(KeyView, part)]
    if taken:
        raise ModellingMistake(f"a key's part cannot be called {names(taken)}: the name is taken")
    if etag is None:
        return next(iter(parts)) if len(parts) == 1 else None
    if etag not in parts:
        raise ModellingMistake(
            f"etag='{etag}' is no part of the key{suggestion(etag, parts)}; its parts are {names(parts)}"
        )
    if isinstance(parts[etag], Each | Seq | Record):
        raise ModellingMistake(f"etag='{etag}' must be a part of one cell, which a condition can compare")
    return etag


def leaves_object(operation: str | Choice) -> Truth | bool:
    """True if an object is at the key once the operation has taken effect."""
    if isinstance(operation, str):
        return operation in WRITES
    assert isinstance(operation.kind, EnumKind)
    return operation.is_in(*(write for write in WRITES if write in operation.kind.options))


def is_own(part: str) -> bool:
    """True if the name is one that keys and late requests give to parts themselves."""
    return part in RESERVED or (part.startswith("at") and part[2:].isdigit())


def content_of(value: object, name: str) -> Mapping[str, object] | None:
    """The parts in what someone wrote for a key: `"absent"`, a mapping, or what `unpack` gave."""
    if isinstance(value, Standing):
        return value.content
    if value == "absent":
        return None
    if isinstance(value, Mapping):
        return value
    raise ModellingMistake(f"`{name}`: {value!r} is neither 'absent' nor the parts of an object by name")


def late_slot(late: Any, name: str) -> Any:
    """The place for a late request: the one given, or the first free one of an array."""
    if isinstance(late, Array) and len(late) and hasattr(late[0], "hold"):
        last = len(late) - 1
        return late[least(pick(each.is_free, number, last) for number, each in enumerate(late))]
    if not hasattr(late, "hold"):
        raise ModellingMistake(
            f"a late request for `{name}` needs a place where it waits: declare late = Late({name}) and "
            "pass late=s.late"
        )
    return late


_REQUESTS = ("create", "replace", "put", "delete")
