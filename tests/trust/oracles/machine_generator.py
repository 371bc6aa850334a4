"""Random machines of the modelling language: fields of every kind, actions with parameters, properties.

A `MachineSpec` is data that has two readings, see `machine_language`. `text` writes it as a module.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.trust.oracles.machine_language import (
    ARITHMETIC,
    COMPARISONS,
    LOGIC,
    Array,
    Expr,
    FlagSet,
    Many,
    Place,
    Rec,
    Scalar,
    Statement,
    Type,
    Value,
    assigned,
    call,
    changed,
    compared,
    literal,
    parameter,
    part,
    quantified,
    required,
)

COLOURS = ("red", "green", "blue")
MEMBERS = 3
BOOL = Scalar("Bool()", (False, True), "bool")
COLOUR = Scalar("Enum('red', 'green', 'blue')", COLOURS, "name")
MEMBER = Scalar("Id(members)", tuple(range(MEMBERS)), "member")
PERHAPS = Scalar("Id(members, nobody=True)", (-1, *range(MEMBERS)), "member")
SOME = FlagSet("Flags(members)", tuple(range(MEMBERS)), members=True)
PADDING = Scalar(f"Int(0, {(1 << 61) - 1})", (0, 1, (1 << 61) - 1), "number")
"""A number that makes states wide, of which a few values are used."""
TEMPORAL = ("eventually", "leads_to", "infinitely_often")


def number(first: int, last: int) -> Scalar:
    return Scalar(f"Int({first}, {last})", tuple(range(first, last + 1)), "number")


@dataclass(frozen=True)
class Parameter:
    """Of an action or a property: its declaration, and its values or the field whose items it takes."""

    name: str
    text: str
    values: tuple[Any, ...] = ()
    items_of: str = ""


@dataclass(frozen=True)
class Act:
    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    fault: str = ""
    """loses or duplicates: an action that a channel adds."""


@dataclass(frozen=True)
class Demand:
    """Fairness to an action, to some as one, or to all as one."""

    names: tuple[str, ...]
    together: bool

    @property
    def text(self) -> str:
        return f"together({', '.join(map(repr, self.names))})" if self.together else repr(self.names[0])


@dataclass(frozen=True)
class Claim:
    """A property."""

    kind: str
    name: str
    parameters: tuple[Parameter, ...]
    test: Expr
    when: Expr | None = None
    """Of leads_to: the states that lead to the others."""
    weak: tuple[Demand, ...] = ()
    strong: tuple[Demand, ...] = ()


@dataclass
class MachineSpec:
    fields: dict[str, Type]
    symmetric: bool
    acts: list[Act] = field(default_factory=list)
    starts: list[tuple[Statement, ...]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    may_end: Expr | None = None
    bound: Expr | None = None

    @property
    def text(self) -> str:
        """The machine as a module."""
        lines = [
            "from fencepost.model import *",
            "from fencepost.model import Channel, together",
            "",
            "",
            "class RandomMachine(Machine):",
        ]
        if self.symmetric:
            lines += [f"    members = Size({MEMBERS})", "    symmetric = ('members',)"]
        lines += [f"    {name} = {kind.declaration}" for name, kind in self.fields.items()]
        for act in self.acts:
            if not act.fault:
                lines += _function("action", act.name, act.parameters, [one.text for one in act.statements])
        for number, statements in enumerate(self.starts):
            lines += _function("initial", f"begin{number}", (), [one.text for one in statements])
        for claim in self.claims:
            lines += _claim_text(claim)
        if self.may_end is not None:
            lines += _function("may_end", "over", (), [f"return {self.may_end.text}"])
        if self.bound is not None:
            lines += _function("bound", "within", (), [f"return {self.bound.text}"])
        return "\n".join(lines) + "\n"


def _function(
    decorator: str,
    name: str,
    parameters: tuple[Parameter, ...],
    body: list[str],
    *,
    states: str = "s",
    options: tuple[str, ...] = (),
) -> list[str]:
    given = [*options, *(f"{one.name}={one.text}" for one in parameters)]
    arguments = ", ".join([states, *(one.name for one in parameters)])
    head = f"    @{decorator}" + (f"({', '.join(given)})" if given else "")
    return ["", head, f"    def {name}({arguments}):", *(f"        {line}" for line in body or ["pass"])]


def _claim_text(claim: Claim) -> list[str]:
    states = "before, after" if claim.kind == "step" else "s"
    returned = claim.test.text if claim.when is None else f"{claim.when.text}, {claim.test.text}"
    options = []
    for name, demands in (("fair", claim.weak), ("strong", claim.strong)):
        if demands or (name == "fair" and claim.kind in TEMPORAL):
            options.append(f"{name}=({''.join(f'{demand.text}, ' for demand in demands)})")
    return _function(
        claim.kind,
        claim.name,
        claim.parameters,
        [f"return {returned}"],
        states=states,
        options=tuple(options),
    )


class MachineDraw:
    """Draws a machine."""

    def __init__(self, seed: int, *, symmetric: bool) -> None:
        self.random = Random(seed)
        self.symmetric = symmetric
        self.fields: dict[str, Type] = {}
        self.parameters: dict[str, Scalar] = {}
        """Parameters that expressions may use, with their types."""
        self.items: dict[str, Value] = {}
        self.state = "s"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def machine(self) -> MachineSpec:
        self._draw_fields()
        spec = MachineSpec(self.fields, self.symmetric)
        for at in range(self.random.choice([2, 3, 4] if self.symmetric else [3, 4, 5, 6])):
            spec.acts.append(self._act(f"act{at}"))
        spec.acts += list(self._channel_faults())
        self.parameters, self.items = {}, {}
        if self.chance(0.3) and not self.symmetric:
            spec.starts = [tuple(self._statements(2)) for _ in range(self.random.choice([1, 2]))]
        spec.claims = self._claims([act.name for act in spec.acts])
        self.parameters = {}
        spec.may_end = self._boolean(1) if self.chance(0.5) else None
        spec.bound = self._boolean(1) if self.chance(0.08) else None
        return spec

    # Fields.

    def _scalar(self) -> Scalar:
        if self.symmetric and self.chance(0.3):
            return self.random.choice([MEMBER, PERHAPS])
        first = self.random.choice([0, 0, -1, 1])
        return self.random.choice([BOOL, COLOUR, number(first, first + self.random.choice([1, 2, 3]))])

    def _item(self) -> Value:
        if self.symmetric:
            heard = Rec((("who", MEMBER), ("heard", BOOL)))
            return self.random.choice([MEMBER, heard, heard])
        if self.chance(0.15):
            return FlagSet("Flags(2)", (0, 1))
        small = [BOOL, number(0, 2), COLOUR]
        if self.chance(0.5):
            return Rec((("a", self.random.choice(small)), ("b", BOOL)))
        return self.random.choice(small)

    def _many(self, capacity: int = 2) -> Many:
        kind = self.random.choice(["Seq", "Bag", "Set", "ordered", "loose"])
        lossy, duplicating = (
            (self.chance(0.5), self.chance(0.3)) if kind in ("ordered", "loose") else (False, False)
        )
        return Many(kind, self._item(), capacity, lossy, duplicating)

    def _draw_fields(self) -> None:
        if self.symmetric:
            own = self.random.choice([number(0, 1), BOOL, COLOUR])
            self.fields["own"] = Array(MEMBERS, own, "members")
            choices: list[Type] = [
                PERHAPS,
                SOME,
                Array(MEMBERS, PERHAPS, "members"),
                Array(MEMBERS, SOME, "members"),
                number(0, 1),
                self._many(),
            ]
        else:
            self.fields["n"] = number(0, self.random.choice([1, 2, 3]))
            choices = [
                BOOL,
                COLOUR,
                self._scalar(),
                FlagSet("Flags('u', 'v')", ("u", "v")),
                Rec((("a", self._scalar()), ("b", self._scalar()))),
                self._many(self.random.choice([1, 2, 3])),
                self._many(),
                Array(2, self._scalar()),
                Array(self.random.choice([2, 3]), BOOL),
                Array(2, self._many(1)),
                PADDING,
            ]
        for at, kind in enumerate(self.random.sample(choices, self.random.choice([2, 3, 3]))):
            name = f"f{at}"
            if isinstance(kind, Many) or (isinstance(kind, Array) and isinstance(kind.element, Many)):
                name = f"c{at}"
            self.fields[name] = kind

    # Expressions.

    def _places(self, *kinds: type) -> list[Place]:
        """Return a place of each field that has a value of one of these kinds."""
        found = []
        for name, kind in self.fields.items():
            if isinstance(kind, Array):
                index = self._index(kind)
                if index is not None and isinstance(kind.element, kinds):
                    found.append(Place(name, kind.element, index, self.state))
            elif isinstance(kind, kinds):
                found.append(Place(name, kind, None, self.state))
        return found

    def _index(self, array: Array) -> Expr | None:
        within = [
            name for name, kind in self.parameters.items() if set(kind.values) <= set(range(array.count))
        ]
        within = [
            name for name in within if self.parameters[name].kind == ("member" if array.size else "number")
        ]
        if within and (array.size or self.chance(0.7)):
            return parameter(self.random.choice(within))
        if array.size:
            return None
        if self.chance(0.3) and self.state == "s":
            return call(f"({{}} % {array.count})", lambda at: at % array.count, Place("n", number(0, 3)).expr)
        return literal(self.random.randrange(array.count))

    def _number(self, depth: int) -> Expr | None:
        choices: list[Expr] = [
            place.expr
            for place in self._places(Scalar)
            if place.type.kind == "number" and place.type != PADDING
        ]
        for place in self._places(Many):
            text = "{}.length" if place.type.in_order else "{}.size()"
            choices.append(call(text, len, place.expr))
        choices += [call("{}.size()", len, place.expr) for place in self._places(FlagSet)]
        count = self._quantifier("count")
        if count is not None:
            choices.append(count)
        if not choices:
            return None
        found = self.random.choice(choices)
        if depth and self.chance(0.4):
            other = self._number(depth - 1)
            assert other is not None
            template = self.random.choice(list(ARITHMETIC))
            found = call(template, ARITHMETIC[template], found, other)
        elif depth and self.chance(0.2):
            other = self._number(0)
            assert other is not None
            test = self._boolean(0)
            found = call("pick({}, {}, {})", lambda which, a, b: a if which else b, test, found, other)
        elif depth and self.chance(0.3):
            amount = self.random.choice([1, 2, 3])
            sign, function = self.random.choice(
                [("+", lambda a: a + amount), ("//", lambda a: a // amount), ("%", lambda a: a % amount)]
            )
            found = call(f"({{}} {sign} {amount})", function, found)
        return found

    def _quantifier(self, kind: str) -> Expr | None:
        places = self._places(Many)
        if not places:
            return None
        place = self.random.choice(places)
        test = self._test(parameter("x"), place.type.item)
        return None if test is None else quantified(kind, place.expr, "x", test)

    def _test(self, value: Expr, kind: Value) -> Expr | None:
        """Return a condition on a value."""
        if isinstance(kind, Rec):
            name, inside = self.random.choice(kind.parts)
            found = self._test(part(value, name), inside)
            if found is None or self.chance(0.6):
                return found
            name, inside = self.random.choice(kind.parts)
            other = self._test(part(value, name), inside)
            template = self.random.choice(["(({}) & ({}))", "(({}) | ({}))"])
            return None if other is None else call(template, LOGIC[template], found, other)
        if isinstance(kind, FlagSet):
            if kind.members:
                member = self._member()
                if member is None:
                    return call("{}.is_empty()", lambda some: not some, value)
                return call("{}.has({})", lambda some, one: one in some, value, member)
            if value.text in ("x", "it"):
                return None  # an item of a Set is a constant, which has no methods
            one = self.random.choice(kind.domain)
            return call("{}.has({})", lambda some, one: one in some, value, literal(one))
        if kind.kind == "member":
            member = self._member()
            sign = self.random.choice(["==", "!="])
            if member is not None:
                return compared(sign, value, member)
            return compared(sign, value, literal(-1)) if -1 in kind.values else None
        signs = list(COMPARISONS) if kind.kind == "number" else ["==", "!="]
        given = self._given(kind)
        if given is not None and value.text != "x" and self.chance(0.3):
            return compared(self.random.choice(["==", "!="]), value, given)
        return compared(self.random.choice(signs), value, literal(self.random.choice(kind.values)))

    def _member(self) -> Expr | None:
        names = [name for name, kind in self.parameters.items() if kind.kind == "member"]
        return parameter(self.random.choice(names)) if names else None

    def _given(self, kind: Scalar) -> Expr | None:
        """Return a parameter with values of this type, if there is one."""
        names = [
            name
            for name, given in self.parameters.items()
            if given.kind == kind.kind and set(given.values) <= set(kind.values)
        ]
        return parameter(self.random.choice(names)) if names and kind.kind != "member" else None

    def _has(self) -> Expr | None:
        places = self._places(Many)
        if not places:
            return None
        place = self.random.choice(places)
        item = self._constant(place.type.item)
        if item is None:
            return None
        return call("{}.has({})", lambda items, one: one in items, place.expr, item)

    def _constant(self, kind: Value) -> Expr | None:
        """Return a value of a type that depends on parameters only, as members have to."""
        if isinstance(kind, Rec) and any(inside.kind == "member" for _, inside in kind.parts):
            return self._record(kind, [self._constant(inside) for _, inside in kind.parts])
        if isinstance(kind, Scalar) and kind.kind == "member":
            return self._member()
        return literal(self.random.choice(kind.values))

    def _record(self, kind: Rec, parts: list[Expr | None]) -> Expr | None:
        if None in parts:
            return None
        names = [name for name, _ in kind.parts]
        text = f"dict({', '.join(f'{name}={{}}' for name in names)})"
        return call(
            text, lambda *values: tuple(zip(names, values, strict=True)), *[one for one in parts if one]
        )

    def _boolean(self, depth: int) -> Expr:
        roll = self.random.random()
        if depth and roll < 0.35:
            template = self.random.choice(list(LOGIC))
            return call(template, LOGIC[template], self._boolean(depth - 1), self._boolean(depth - 1))
        if depth and roll < 0.42:
            return call("(~({}))", lambda one: not one, self._boolean(depth - 1))
        found: Expr | None = None
        if roll < 0.55:
            found = self._quantifier(self.random.choice(["any", "all"]))
        elif roll < 0.65:
            found = self._has()
        elif roll < 0.72:
            found = self._fill()
        elif roll < 0.82 and depth:
            left = self._number(depth)
            if left is not None:
                sign = self.random.choice(["==", "<", ">=", "!="])
                found = compared(sign, left, literal(self.random.choice([0, 1, 1, 2])))
        elif self.items and roll < 0.92:
            name = self.random.choice(list(self.items))
            found = self._test(parameter(name), self.items[name])
        return found or self._simple()

    def _fill(self) -> Expr | None:
        places = self._places(Many, FlagSet)
        if not places:
            return None
        place = self.random.choice(places)
        if isinstance(place.type, Many) and place.type.kind != "Set" and self.chance(0.4):
            capacity = place.type.capacity
            return call("{}.is_full()", lambda items: len(items) == capacity, place.expr)
        return call("{}.is_empty()", lambda items: not items, place.expr)

    def _simple(self) -> Expr:
        """Return a test of a place; every machine has one that can be tested."""
        for place in self.random.sample(found := self._places(Scalar, Rec), len(found)):
            test = self._test(place.expr, place.type)
            if test is not None:
                return test
        if self.symmetric:
            array = self.fields["own"]
            assert isinstance(array, Array)
            assert isinstance(array.element, Scalar)
            value = self.random.choice(array.element.values)
            whole = Expr(f"{self.state}.own", lambda env, state=self.state: env.states[state]["own"])
            return call(f"{{}}.any({value!r})", lambda own: value in own, whole)
        raise AssertionError("a machine has a number")

    def _value(self, kind: Value, depth: int) -> Expr | None:
        """Return an expression that may be assigned to this type."""
        if isinstance(kind, Rec):
            return self._record(kind, [self._value(inside, 0) for _, inside in kind.parts])
        if isinstance(kind, FlagSet):
            member = self._member() if kind.members else literal(self.random.choice(kind.domain))
            same = [place for place in self._places(FlagSet) if place.type == kind]
            if not same or member is None:
                return literal(frozenset() if kind.members else self.random.choice(kind.values))
            old = self.random.choice(same).expr
            if self.chance(0.6):
                return call("{}.plus({})", lambda some, one: some | {one}, old, member)
            return call("{}.minus({})", lambda some, one: some - {one}, old, member)
        if kind.kind == "member":
            member = self._member()
            return literal(-1) if -1 in kind.values and (member is None or self.chance(0.3)) else member
        given = self._given(kind)
        if given is not None and self.chance(0.3):
            return given
        if kind.kind == "number" and kind != PADDING and self.chance(0.7):
            found = self._number(depth)
            if found is not None:
                first, count = kind.first, len(kind.values)
                return call(f"(({{}}) % {count} + ({first}))", lambda value: value % count + first, found)
        if kind.kind == "bool" and depth and self.chance(0.6):
            return self._boolean(depth)
        return literal(self.random.choice(kind.values))

    # Actions.

    def _parameters(self) -> tuple[Parameter, ...]:
        self.parameters, self.items = {}, {}
        found = []
        if self.symmetric:
            for name in ["m", "k"][: self.random.choice([1, 1, 2])]:
                found.append(Parameter(name, "members", MEMBER.values))
                self.parameters[name] = MEMBER
        else:
            for name in ["i", "j"][: self.random.choice([0, 1, 1, 2])]:
                kind = self.random.choice([number(0, 1), number(0, 1), number(0, 2), COLOUR])
                text = str(len(kind.values)) if kind.kind == "number" else repr(kind.values)
                found.append(Parameter(name, text, kind.values))
                self.parameters[name] = kind
        sources = [
            name for name, kind in self.fields.items() if isinstance(kind, Many) and kind.kind != "Seq"
        ]
        if sources and self.chance(0.5):
            source = self.random.choice(sources)
            found.append(Parameter("it", source, items_of=source))
            self.items["it"] = self.fields[source].item
        return tuple(found)

    def _act(self, name: str) -> Act:
        parameters = self._parameters()
        statements: list[Statement] = []
        for _ in range(self.random.choice([0, 1, 1, 2] if self.symmetric else [0, 0, 1, 1])):
            statements.append(required(self._boolean(1)))
        for one in parameters:
            if one.items_of and self.chance(0.7):
                statements.append(
                    _remove(Place(one.items_of, self.fields[one.items_of]), parameter(one.name))
                )
        statements += self._statements(self.random.choice([1, 1, 2, 3]))
        return Act(name, parameters, tuple(statements))

    def _statements(self, count: int) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(count):
            containers = self._places(Many)
            if containers and self.chance(0.5):
                found += self._container(self.random.choice(containers))
                continue
            places = self._places(Scalar, FlagSet, Rec)
            if places:
                place = self.random.choice(places)
                value = self._value(place.type, 1)
                if value is not None:
                    found.append(assigned(place, value))
        return found

    def _container(self, place: Place) -> list[Statement]:
        kind = place.type
        assert isinstance(kind, Many)
        item = self._constant(kind.item) if kind.kind == "Set" else self._value(kind.item, 0)
        if item is None:
            return []
        there = required(call("{}.has({})", lambda items, one: one in items, place.expr, item))
        if kind.kind == "Set":
            verb = self.random.choice(["add", "add", "discard", "remove", "clear"])
            if verb == "clear":
                return [changed(place, "clear", None, lambda *_: ())]
            if verb == "add":
                return [changed(place, "add", item, lambda items, one: (*items, one))]
            removed = changed(place, verb, item, lambda items, one: [old for old in items if old != one])
            return [there, removed] if verb == "remove" else [removed]
        capacity = kind.capacity
        room = required(call("(~{}.is_full())", lambda items: len(items) < capacity, place.expr))
        some = required(call("(~{}.is_empty())", lambda items: bool(items), place.expr))
        verbs = {"Seq": ["append", "append", "push_first", "pop_first", "pop_last", "remove", "clear"]}
        verbs |= {"Bag": ["add", "add", "remove", "clear"]}
        verb = self.random.choice(verbs.get(kind.kind, ["send", "send", "remove"]))
        match verb:
            case "append" | "add" | "send":
                return [room, changed(place, verb, item, lambda items, one: (*items, one))]
            case "push_first":
                return [room, changed(place, verb, item, lambda items, one: (one, *items))]
            case "pop_first":
                return [some, changed(place, verb, None, lambda items, _: items[1:])]
            case "pop_last":
                return [some, changed(place, verb, None, lambda items, _: items[:-1])]
            case "clear":
                return [changed(place, verb, None, lambda *_: ())]
        return [there, _remove(place, item)]

    def _channel_faults(self) -> list[Act]:
        found = []
        for name, kind in self.fields.items():
            if isinstance(kind, Many):
                for fault, there in (("loses", kind.lossy), ("duplicates", kind.duplicating)):
                    if there:
                        message = Parameter("m", name, items_of=name)
                        found.append(Act(f"{name}_{fault}", (message,), (), fault))
        return found

    # Properties.

    def _claim_parameters(self) -> tuple[Parameter, ...]:
        self.parameters = {}
        if self.symmetric:
            self.parameters = {"m": MEMBER}
            return (Parameter("m", "members", MEMBER.values),)
        if self.chance(0.3):
            self.parameters = {"i": number(0, 1)}
            return (Parameter("i", "2", (0, 1)),)
        return ()

    def _claims(self, names: list[str]) -> list[Claim]:
        found = []
        for kind, name in (("invariant", "never"), ("invariant", "neither"), ("reachable", "sometimes")):
            found.append(Claim(kind, name, self._claim_parameters(), self._boolean(2)))
        parameters = self._claim_parameters()
        self.state = "before"
        before = self._boolean(1)
        self.state = "after"
        after = self._boolean(1)
        self.state = "s"
        found.append(
            Claim(
                "step", "moves", parameters, call("implies({}, {})", lambda a, b: not a or b, before, after)
            )
        )
        self.parameters = {}
        found.append(Claim("always_recoverable", "back", (), self._boolean(1)))
        for at, kind in enumerate((*TEMPORAL, self.random.choice(TEMPORAL))):
            parameters = self._claim_parameters()
            test = self._boolean(1)
            when = self._boolean(1) if kind == "leads_to" else None
            weak, strong = self._demands(names, [0, 1, 2]), self._demands(names, [0, 0, 1])
            found.append(Claim(kind, f"run{at}", parameters, test, when, weak, strong))
        return found

    def _demands(self, names: list[str], counts: list[int]) -> tuple[Demand, ...]:
        found = []
        for _ in range(self.random.choice(counts)):
            roll = self.random.random()
            if roll < 0.5:
                found.append(Demand((self.random.choice(names),), together=False))
            elif roll < 0.7:
                found.append(Demand((), together=True))
            else:
                count = min(len(names), self.random.choice([1, 2, 3]))
                found.append(Demand(tuple(self.random.sample(names, count)), together=True))
        return tuple(dict.fromkeys(found))


def _remove(place: Place, item: Expr) -> Statement:
    def without(items: Any, one: Any) -> list[Any]:
        left = list(items)
        left.remove(one)
        return left

    return changed(place, "remove", item, without)


def random_machine(seed: int, *, symmetric: bool) -> MachineSpec:
    return MachineDraw(seed, symmetric=symmetric).machine()
