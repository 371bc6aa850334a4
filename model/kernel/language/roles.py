"""Roles: the state of each process, or of each key, as one declaration with named fields.

    class Lease(Machine):
        clients = Size(2)
        client = Role(clients, at=Enum("idle", "holds"), epoch=Int(0, 3), seen=Each(2, Bool()))

        @action(c=among(client, at="idle"))
        def take(s, c: int) -> None:
            me = s.client[c]
            me.at = "holds"
            me.epoch += 1
            me.seen[0] = True

        @invariant
        def one_holds(s) -> Truth:
            return s.client.count(at="holds") <= 1

A role is a grouping, not a record: each of its fields is an array of its own in the packed state
(`client.at`, `client.epoch`), placed as parallel arrays are, so it has their width, their counts and their
speed. A field is anything that an `Each` can hold. Inside an action `s.client[c]` is the member c; its fields
are read and assigned. `any`, `all` and `count` compare the members with values for some fields (a tuple of
values is any of them), or take a function of a member. A role is also a domain of actions and properties:
`@action(c=client)`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from fencepost.model.kernel.language.access import Access, Index
from fencepost.model.kernel.language.assigning import Anything
from fencepost.model.kernel.language.choices import Choice
from fencepost.model.kernel.language.columns import Truth, all_of, any_of, as_truth, describe
from fencepost.model.kernel.language.errors import ModellingMistake, must_call, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, AnyField, Cells, Each, Field, resolve
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import Item, PackedState, Slot
from fencepost.model.kernel.language.numbers import Number, count_of
from fencepost.model.kernel.language.views import Array, ArrayAccess, View, holds_of

if TYPE_CHECKING:
    from fencepost.model.kernel.language.records import Part as PartOfRecord

    class Part(PartOfRecord):
        """A field of a member, to a type checker: it is found by name, so its kind is not known."""

        def __getitem__(self, index: Index | str | Choice) -> "Part": ...
        def __setitem__(self, index: Index | str | Choice, value: Any) -> None: ...
        def __iter__(self) -> Iterator["Part"]: ...
        def is_in(self, *values: Any) -> Truth: ...
        def all(self, value: Any) -> Truth: ...
        def any(self, value: Any) -> Truth: ...
        def count(self, value: Any) -> Number: ...


class Member(View):
    """One member of a role inside an action or a property: its fields by name."""

    __slots__ = ()
    noun = "a member of a role"
    _access: "MemberAccess"

    def __getattr__(self, name: str) -> "Part":
        return cast("Part", self._way(name).read(self._now(), self._flat))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in View.__slots__:
            object.__setattr__(self, name, value)
        else:
            self._way(name).write(self._now(), self._flat, value)

    def _way(self, name: str) -> Access:
        if name.startswith("_"):
            raise AttributeError(name)
        self._access.check([name])
        return self._access.ways[name]


class MemberAccess(Access):
    """The way to the fields of the members of one role."""

    def __init__(self, name: str, ways: Mapping[str, Access], firsts: Mapping[str, object]) -> None:
        self.name = name
        self.ways = ways
        self.firsts = firsts
        """The value with which each field begins."""

    def check(self, given: "list[str]") -> None:
        """Raise an error for a field that the role does not have."""
        for name in given:
            if name not in self.ways:
                raise ModellingMistake(
                    f"`{self.name}` has no field '{name}'{suggestion(name, self.ways)}; "
                    f"its fields are {names(self.ways)}"
                )

    def read(self, frame: Frame, flat: Index) -> Member:
        return Member(frame, self, flat)

    def settle(self, value: Any) -> dict[str, Any]:
        """All fields of a member, read before anything is written."""
        if isinstance(value, Anything):
            return {name: way.settle(value) for name, way in self.ways.items()}
        if isinstance(value, Member):
            value = {name: getattr(value, name) for name in self.ways}
        if not isinstance(value, Mapping) or set(value) != set(self.ways):
            raise ModellingMistake(
                f"a member of `{self.name}` is assigned {describe(value)}: assign its fields, "
                f"{names(self.ways)}, or a dictionary with all of them"
            )
        return {name: way.settle(value[name]) for name, way in self.ways.items()}

    def fill(self, frame: Frame, flat: Index, settled: Any) -> None:
        for name, way in self.ways.items():
            way.fill(frame, flat, settled[name])

    def write(self, frame: Frame, flat: Index, value: Any) -> None:
        settled = self.settle(value)
        frame.replace(self, flat)
        self.fill(frame, flat, settled)

    def reset(self, frame: Frame, flat: Index, fields: "list[str]") -> None:
        """Assign to some fields the values with which they begin."""
        self.check(fields)
        for name in fields:
            self.ways[name].write(frame, flat, self.firsts[name])

    def decode(self, state: PackedState, flat: int) -> Item:
        return Item((name, way.decode(state, flat)) for name, way in self.ways.items())

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        if not isinstance(value, Mapping) or set(value) != set(self.ways):
            raise ModellingMistake(f"a member of `{self.name}` has the fields {names(self.ways)}")
        for name, way in self.ways.items():
            way.encode(state, flat, value[name])


class RoleView(Array[Member, Any]):
    """All members of a role inside an action or a property."""

    __slots__ = ()
    noun = "a role"

    @must_call
    def all(self, condition: Callable[[Member], Truth | bool] | None = None, /, **wanted: Any) -> Truth:
        """True where every member has these values in these fields, or satisfies a condition."""
        return all_of(self._holding(condition, wanted))

    @must_call
    def any(self, condition: Callable[[Member], Truth | bool] | None = None, /, **wanted: Any) -> Truth:
        """True where some member has these values in these fields, or satisfies a condition."""
        return any_of(self._holding(condition, wanted))

    @must_call
    def count(self, condition: Callable[[Member], Truth | bool] | None = None, /, **wanted: Any) -> Number:
        """The number of members that have these values in these fields, or satisfy a condition."""
        return count_of(self._holding(condition, wanted))

    def _holding(self, condition: Any, wanted: Mapping[str, Any]) -> Iterator[Truth | bool]:
        if (condition is None) is not bool(wanted):
            raise ModellingMistake(
                f"a quantifier over `{self._access.name}` takes values of fields, as in .any(at='idle'), or "
                "a function of a member, as in .any(lambda me: me.at == 'idle')"
            )
        for member in self:
            yield has(member, wanted) if wanted else holds_of(condition, member, self._access.name)


def has(member: Member, wanted: Mapping[str, Any]) -> Truth:
    """True where the fields of a member have these values; a tuple is any of its values."""
    return all_of(
        any_of(as_truth(getattr(member, name) == each) for each in _alternatives(value))
        for name, value in wanted.items()
    )


def _alternatives(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


class RoleAccess(ArrayAccess):
    """The way to all members of one role."""

    element: MemberAccess

    def read(self, frame: Frame, flat: Index) -> RoleView:
        return RoleView(frame, self, flat)


class Role(Field[RoleView, Any]):
    """Named fields for each number below `extent`, or for each of these names."""

    def __init__(self, extent: AnyExtent | tuple[str, ...], /, **fields: AnyField) -> None:
        if not fields:
            raise ModellingMistake("a Role needs fields, as in Role(clients, at=Enum(...), epoch=Int(0, 3))")
        for name, field in fields.items():
            if not isinstance(field, Field):
                raise ModellingMistake(
                    f"the field `{name}` of a Role is {describe(field)}: give a field, as in {name}=Bool()"
                )
            if name in _TAKEN or name.startswith("_"):
                raise ModellingMistake(f"`{name}` is part of every member; give the field another name")
        self.names = extent if isinstance(extent, tuple) else ()
        self.extent = len(extent) if isinstance(extent, tuple) else extent
        self.fields = fields

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> RoleAccess:
        ways = {part: field.access(f"{name}.{part}", sizes, slots) for part, field in self.fields.items()}
        firsts = {part: field.first(sizes) for part, field in self.fields.items()}
        return RoleAccess(name, MemberAccess(name, ways, firsts), resolve(self.extent, sizes), self.names)

    def first(self, sizes: Mapping[str, int]) -> object:
        one = Item((part, field.first(sizes)) for part, field in self.fields.items())
        return (one,) * resolve(self.extent, sizes)

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        for part, field in self.fields.items():
            yield from field.cells(f"{name}.{part}", (*dimensions, self.extent))

    def arrays(self, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The arrays in it, by name, with the names of their elements, if any."""
        yield name, self.names
        for part, field in self.fields.items():
            if isinstance(field, Each):
                yield f"{name}.{part}", field.names


_TAKEN = frozenset(name for name in dir(Member) if not name.startswith("_"))


def reset(member: Member, *fields: str) -> None:
    """Begin these fields of a member anew; without names, all of them."""
    if not isinstance(member, Member):
        raise ModellingMistake(
            f"a member of a role is reset, as in reset(s.client[c]), not {describe(member)}"
        )
    access, frame, flat = member._access, member._now(), member._flat  # noqa: SLF001  # of the same module
    access.reset(frame, flat, [*(fields or access.ways)])
