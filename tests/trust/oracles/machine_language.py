"""Pieces of random machines, each with two readings: a text in the modelling language, and plain Python.

Values of the second reading are plain: a record is a tuple of pairs, a sequence a tuple, a bag a sorted
tuple, a set a frozenset, an array a tuple.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Scalar:
    """A Bool, Int, Enum or Id."""

    declaration: str
    values: tuple[Any, ...]
    kind: str
    """bool, number, name, or member (a number that only symmetry may change)."""

    @property
    def first(self) -> Any:
        """The value that a declaration without a start gives."""
        return self.values[0]


@dataclass(frozen=True)
class FlagSet:
    """A set of a few constants, as Flags."""

    declaration: str
    domain: tuple[Any, ...]
    members: bool = False

    first = frozenset[Any]()

    @property
    def values(self) -> tuple[Any, ...]:
        sizes = range(len(self.domain) + 1)
        return tuple(frozenset(chosen) for size in sizes for chosen in combinations(self.domain, size))


@dataclass(frozen=True)
class Rec:
    """A Record."""

    parts: tuple[tuple[str, Scalar], ...]

    @property
    def declaration(self) -> str:
        return f"Record({', '.join(f'{name}={part.declaration}' for name, part in self.parts)})"

    @property
    def first(self) -> Any:
        return tuple((name, part.first) for name, part in self.parts)

    @property
    def values(self) -> tuple[Any, ...]:
        names = [name for name, _ in self.parts]
        return tuple(
            tuple(zip(names, chosen, strict=True))
            for chosen in product(*(part.values for _, part in self.parts))
        )


Value = Scalar | FlagSet | Rec


@dataclass(frozen=True)
class Many:
    """A Seq, Bag, Set or Channel."""

    kind: str
    item: Value
    capacity: int = 0
    lossy: bool = False
    duplicating: bool = False

    @property
    def declaration(self) -> str:
        item = self.item.declaration
        if self.kind == "Set":
            return f"Set({item})"
        if self.kind in ("Seq", "Bag"):
            return f"{self.kind}({self.capacity}, {item})"
        given = f"lossy={self.lossy}, duplicating={self.duplicating}, reordering={self.kind == 'loose'}"
        return f"Channel({self.capacity}, {item}, {given})"

    @property
    def first(self) -> Any:
        return self.of(())

    @property
    def in_order(self) -> bool:
        return self.kind in ("Seq", "ordered")

    def of(self, items: Any) -> Any:
        """Return a value of this type with these items."""
        if self.kind == "Set":
            return frozenset(items)
        return tuple(items) if self.in_order else tuple(sorted(items, key=repr))


@dataclass(frozen=True)
class Array:
    """An Each over numbers."""

    count: int
    element: "Value | Many"
    size: str = ""
    """Name of the size that it is declared with."""

    @property
    def declaration(self) -> str:
        return f"Each({self.size or self.count}, {self.element.declaration})"

    @property
    def first(self) -> Any:
        return (self.element.first,) * self.count


Type = Value | Many | Array


@dataclass
class Env:
    """The values that a text refers to: states by their name in it, and parameters."""

    states: dict[str, dict[str, Any]]
    given: dict[str, Any] = field(default_factory=dict)


class Expr(NamedTuple):
    """An expression."""

    text: str
    value: Callable[[Env], Any]


class Statement(NamedTuple):
    text: str
    run: Callable[[Env], None]


class NotEnabled(Exception):
    """A requirement of an action does not hold."""


@dataclass(frozen=True)
class Place:
    """A field, or an element of an array."""

    field: str
    type: Value | Many
    index: Expr | None = None
    state: str = "s"

    @property
    def text(self) -> str:
        return f"{self.state}.{self.field}" + ("" if self.index is None else f"[{self.index.text}]")

    def value(self, env: Env) -> Any:
        found = env.states[self.state][self.field]
        return found if self.index is None else found[self.index.value(env)]

    def put(self, env: Env, value: Any) -> None:
        state = env.states[self.state]
        if self.index is None:
            state[self.field] = value
            return
        elements = list(state[self.field])
        elements[self.index.value(env)] = value
        state[self.field] = tuple(elements)

    @property
    def expr(self) -> Expr:
        return Expr(self.text, self.value)


def literal(value: Any) -> Expr:
    return Expr(literal_text(value), lambda _: value)


def literal_text(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(map(repr, sorted(value))) + "}" if value else "frozenset()"
    if isinstance(value, tuple):
        return "dict(" + ", ".join(f"{name}={inside!r}" for name, inside in value) + ")"
    return repr(value)


def parameter(name: str) -> Expr:
    return Expr(name, lambda env: env.given[name])


def part(record: Expr, name: str) -> Expr:
    return Expr(f"{record.text}.{name}", lambda env: dict(record.value(env))[name])


def call(template: str, function: Callable[..., Any], *given: Expr) -> Expr:
    """Return an expression of others; the template has a pair of braces for each."""
    texts = [one.text for one in given]
    text = template
    for one in texts:
        text = text.replace("{}", one, 1)
    return Expr(text, lambda env: function(*[one.value(env) for one in given]))


LOGIC: dict[str, Callable[[bool, bool], bool]] = {
    "(({}) & ({}))": lambda a, b: a and b,
    "(({}) | ({}))": lambda a, b: a or b,
    "(({}) ^ ({}))": lambda a, b: a != b,
    "implies({}, {})": lambda a, b: not a or b,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "({} + {})": lambda a, b: a + b,
    "({} - {})": lambda a, b: a - b,
    "({} * {})": lambda a, b: a * b,
    "least([{}, {}])": min,
    "most([{}, {}])": max,
}
QUANTIFIERS: dict[str, Callable[[Any], Any]] = {"any": any, "all": all, "count": sum}


def compared(sign: str, one: Expr, other: Expr) -> Expr:
    return call(f"({{}} {sign} {{}})", COMPARISONS[sign], one, other)


def quantified(kind: str, container: Expr, name: str, test: Expr) -> Expr:
    """Return `container.any(lambda name: test)`, or all, or count."""

    def value(env: Env) -> Any:
        found = []
        for item in container.value(env):
            found.append(test.value(Env(env.states, env.given | {name: item})))
        return QUANTIFIERS[kind](found)

    return Expr(f"{container.text}.{kind}(lambda {name}: {test.text})", value)


def required(test: Expr) -> Statement:
    def run(env: Env) -> None:
        if not test.value(env):
            raise NotEnabled

    return Statement(f"s.require({test.text})", run)


def assigned(place: Place, value: Expr) -> Statement:
    return Statement(f"{place.text} = {value.text}", lambda env: place.put(env, value.value(env)))


def changed(place: Place, operation: str, item: Expr | None, change: Callable[[Any, Any], Any]) -> Statement:
    """Return a call of a method of a container; `change` returns its items after it."""
    container = place.type
    assert isinstance(container, Many)

    def run(env: Env) -> None:
        value = None if item is None else item.value(env)
        place.put(env, container.of(change(tuple(place.value(env)), value)))

    return Statement(f"{place.text}.{operation}({'' if item is None else item.text})", run)
