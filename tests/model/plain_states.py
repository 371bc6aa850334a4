"""What an expression of an author means on one state, in plain Python: the other reading of every column.

A `Plain` stands for one state where a machine's text says `s`. Fields read as the values that `Model.unpack`
gives, with the few words that columns and views have besides what Python gives: `s.queue.is_empty()`,
`s.readers.has(1)`, `s.at.count("outside")`. What is no value at all (a key, a budget, a method that was not
called, `s` itself) supports no operation: using it as a value is a mistake.
"""

from typing import Any

from fencepost.model import Model


def _refuse(self: object, *_: object) -> Any:
    raise TypeError("no value")


class Opaque:
    """Something that is no value: every operation on it is a mistake."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = _refuse
    __str__ = __format__ = __contains__ = __iter__ = __len__ = __setattr__ = _refuse


class Called(Opaque):
    """A method: a value only once it is called."""

    def __init__(self, work: Any) -> None:
        self.__dict__["work"] = work

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.work(*given, **named)


class _Fixed:
    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("read only")


def _where(items: Any, condition: Any) -> list[Any]:
    """The items of which a function of one holds."""
    if not callable(condition):
        raise TypeError("no function")
    return [item for item in items if condition(item)]


def _counted(items: Any, condition: Any = None, **parts: Any) -> int:
    if parts:
        return sum(item.holds(**parts) for item in items)
    return len(_where(items, condition)) if callable(condition) else sum(item == condition for item in items)


def _has(items: Any, item: Any = None, **parts: Any) -> bool:
    return _counted(items, **parts) > 0 if parts else item in list(items)


class PlainArray(_Fixed, list[Any]):
    """All elements, and how many of them are so."""

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | tuple) and list(self) == list(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    all = property(lambda self: Called(lambda value: _counted(self, value) == len(self)))
    any = property(lambda self: Called(lambda value: _counted(self, value) > 0))
    count = property(lambda self: Called(lambda value: _counted(self, value)))  # type: ignore[assignment]


class PlainRecord(_Fixed, dict[str, Any]):
    """The parts, by name or as attributes."""

    __hash__ = None  # type: ignore[assignment]  # as a dictionary

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise TypeError("no such part")
        return self[name]

    def holds(self, **parts: Any) -> bool:
        return all(getattr(self, name) == value for name, value in parts.items())

    matches = property(lambda self: Called(self.holds))
    but = property(lambda self: Called(lambda **parts: PlainRecord({**self, **parts})))


class PlainItems(PlainArray):
    """The items of a bag, in no order, or of a set."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple | frozenset | set) or len(self) != len(other):
            return False
        rest = list(other)
        for item in self:
            if item in rest:
                rest.remove(item)
        return not rest

    is_empty = property(lambda self: Called(lambda: len(self) == 0))
    is_full = property(lambda self: Called(lambda: len(self) == 2))
    size = property(lambda self: Called(lambda: len(self)))
    has = property(lambda self: Called(lambda *item, **parts: _has(self, *item, **parts)))
    count = property(lambda self: Called(lambda *item, **parts: _counted(self, *item, **parts)))  # type: ignore[assignment]
    any = property(lambda self: Called(lambda condition: len(_where(self, condition)) > 0))
    all = property(lambda self: Called(lambda condition: len(_where(self, condition)) == len(self)))
    add = discard = property(lambda self: Called(_refuse))


class PlainSequence(PlainArray):
    """The items; places beyond the last, up to the capacity, read as the item's first value."""

    capacity = 0
    least: Any = None

    @classmethod
    def of(cls, items: tuple[Any, ...], capacity: int, least: Any) -> "PlainSequence":
        made = cls(items)
        made.__dict__.update(capacity=capacity, least=least)
        return made

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and len(self) <= index < self.capacity:
            return self.least
        return list(self)[index]

    length = property(lambda self: len(self))
    first = property(lambda self: self[0])
    last = property(lambda self: self[-1] if len(self) else self.least)
    is_empty = property(lambda self: Called(lambda: len(self) == 0))
    is_full = property(lambda self: Called(lambda: len(self) == self.capacity))
    has = property(lambda self: Called(lambda value: value in list(self)))


class PlainSet(frozenset[Any]):
    """The members."""

    __hash__ = None  # type: ignore[assignment]  # a set that changes

    has = property(lambda self: Called(lambda member: member in self))
    size = property(lambda self: Called(lambda: len(self)))
    is_empty = property(lambda self: Called(lambda: not self))
    within = property(lambda self: Called(lambda other: self <= other))


class PlainName(str):
    """A name."""

    __slots__ = ()
    is_in = property(lambda self: Called(lambda *names: self in names))


class Plain(Opaque):
    """One state of `Everything`."""


def plain(model: Model, state: dict[str, Any]) -> Plain:
    """The state as its author reads it."""
    values: dict[str, Any] = {name: _value(value) for name, value in state.items()}
    for name, capacity, least in (("queue", 2, 0), ("short", 1, 0), ("shifted", 2, 1)):
        values[name] = PlainSequence.of(state[name], capacity, least)
    values["wire"] = PlainSequence.of(
        tuple(map(_value, state["wire"])), 2, PlainRecord(type="ask", src=0, vote=False)
    )
    for name in ("network", "backlog", "heard", "tags"):
        values[name] = PlainItems(map(_value, state[name]))
    values["queues"] = PlainArray(PlainSequence.of(each, 2, "a") for each in state["queues"])
    lock = state["lock"].content
    values["lock"] = Opaque(
        owner=lock["owner"] if lock else -1, is_there=lock is not None, holds=Called(lambda: lock is not None)
    )
    values["late"] = Opaque(is_free=state["late"] == "nothing", land=Called(lambda: None))
    values["faults"] = Opaque(spent=state["faults"], is_left=state["faults"] < 2)
    values["trouble"] = Opaque(is_over=state["trouble"] == "over")
    values |= {
        "idle": Called(lambda: state["flag"]),
        "stay": Called(lambda: None),
        "fine": Called(lambda: True),
    }
    return Plain(**values, slots=model.sizes["slots"])


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return PlainArray(_value(each) for each in value)
    if isinstance(value, dict):
        return PlainRecord({name: _value(part) for name, part in value.items()})
    if isinstance(value, frozenset):
        return PlainSet(value)
    return PlainName(value) if type(value) is str else value


def plain_pick(condition: bool, then: Any, otherwise: Any) -> Any:
    """`pick` on one state."""
    if not isinstance(condition, bool):
        raise TypeError("pick is by a truth")
    return then if condition else otherwise


def plain_case(*branches: tuple[bool, Any], otherwise: Any) -> Any:
    """`case` on one state."""
    value = otherwise
    for condition, then in reversed(branches):
        value = plain_pick(condition, then, value)
    return value


def plain_implies(condition: bool, then: bool) -> bool:
    """`implies` on one state."""
    return plain_pick(condition, plain_pick(then, True, False), True)
