"""Random small machines, each with two readings: the kernel's columns and plain Python.

A `Spec` is data. `machine()` writes it as a Machine class; `starts()` and `successors()` read it
state by state with dictionaries and `if`, sharing nothing with the kernel. Whatever the kernel claims
about a machine can be compared with the naive reading.

State as the naive reading sees it: a tuple of (field, value) pairs, in the order of the fields, with
the same values that `Model.unpack` gives.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from fencepost.model import (
    Bool,
    Each,
    Enum,
    Int,
    Machine,
    Truth,
    action,
    always_recoverable,
    eventually,
    infinitely_often,
    initial,
    invariant,
    leads_to,
    may_end,
    pick,
    reachable,
    together,
)

NAMES = ("red", "green", "blue")
LENGTH = 2
ANY = "any"  # in `fair`: one demand for all actions
PADDING = 61  # bits of each of the two fields that make a state wide

State = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Cell:
    """A plain field, or an element of the array `row`: by a constant, or by the number field `n`."""

    field: str
    index: int | None = None
    by_column: bool = False

    def get(self, values: dict[str, Any]) -> Any:
        if self.field != "row":
            return values[self.field]
        return values["row"][values["n"] % LENGTH if self.by_column else self.index]

    def put(self, values: dict[str, Any], value: Any) -> None:
        if self.field != "row":
            values[self.field] = value
            return
        row = list(values["row"])
        row[values["n"] % LENGTH if self.by_column else self.index] = value
        values["row"] = tuple(row)

    def column(self, s: Any) -> Any:
        if self.field != "row":
            return getattr(s, self.field)
        return s.row[s.n % LENGTH if self.by_column else self.index]

    def assign(self, s: Any, value: Any) -> None:
        if self.field != "row":
            setattr(s, self.field, value)
        else:
            s.row[s.n % LENGTH if self.by_column else self.index] = value


@dataclass(frozen=True)
class Literal:
    """`cell == value`, or `!=`."""

    cell: Cell
    value: Any
    equal: bool

    def true(self, values: dict[str, Any]) -> bool:
        return (self.cell.get(values) == self.value) is self.equal

    def column(self, s: Any) -> Truth:
        cell = self.cell.column(s)
        return cell == self.value if self.equal else cell != self.value


@dataclass(frozen=True)
class Condition:
    """All of some literals, or any of them."""

    literals: tuple[Literal, ...]
    conjunction: bool

    def true(self, values: dict[str, Any]) -> bool:
        join = all if self.conjunction else any
        return join(literal.true(values) for literal in self.literals)

    def column(self, s: Any) -> Truth:
        first, *others = [literal.column(s) for literal in self.literals]
        for other in others:
            first = first & other if self.conjunction else first | other
        return first

    def decided(self, s: Any) -> bool:
        """The condition in plain Python, which stops at the first literal that decides it."""
        join = all if self.conjunction else any
        return join(literal.column(s) for literal in self.literals)


@dataclass(frozen=True)
class Assignment:
    """`cell := value`, `cell := source`, or for numbers `cell := (source + plus) mod size`."""

    cell: Cell
    value: Any = None
    source: Cell | None = None
    plus: int = 0

    def run(self, values: dict[str, Any], size: int) -> None:
        value = self.value if self.source is None else self.source.get(values)
        self.cell.put(values, (value + self.plus) % size if self.plus else value)

    def write(self, s: Any, size: int) -> None:
        self.cell.assign(s, self._new(s, size))

    def write_where(self, s: Any, size: int, where: Truth) -> None:
        """The same in some rows only."""
        self.cell.assign(s, pick(where, self._new(s, size), self.cell.column(s)))

    def _new(self, s: Any, size: int) -> Any:
        value = self.value if self.source is None else self.source.column(s)
        return (value + self.plus) % size if self.plus else value


@dataclass(frozen=True)
class Branch:
    """`if condition: then else: otherwise`, written with `if` or, in `write_where`, with `pick`."""

    condition: Condition
    then: "tuple[Statement, ...]"
    otherwise: "tuple[Statement, ...]"

    def run(self, values: dict[str, Any], size: int) -> None:
        for statement in self.then if self.condition.true(values) else self.otherwise:
            statement.run(values, size)

    def write(self, s: Any, size: int) -> None:
        for statement in self.then if self.condition.decided(s) else self.otherwise:
            statement.write(s, size)

    def write_where(self, s: Any, size: int, where: Truth) -> None:
        holds = self.condition.column(s)
        for statement in self.then:
            statement.write_where(s, size, where & holds)
        for statement in self.otherwise:
            statement.write_where(s, size, where & ~holds)


Statement = Assignment | Branch


@dataclass(frozen=True)
class Act:
    """Guards one after the other, then statements one after the other; perhaps repeated for a parameter."""

    guards: tuple[Condition, ...]
    assignments: tuple[Statement, ...]
    with_parameter: bool


@dataclass(frozen=True)
class Spec:
    """A machine as data. `goal` serves any property, `end` says which states may end."""

    size: int
    actions: tuple[Act, ...]
    first: tuple[Any, ...]
    second_start: bool
    wide: bool
    goal: Condition
    end: Condition
    fair: tuple[str, ...]
    strong: tuple[str, ...] = ()
    cause: Condition | None = None

    def starts(self) -> list[State]:
        f, n, colour, row = self.first
        begun = [(("f", f), ("n", n), ("colour", colour), ("row", row))]
        if self.second_start:
            begun.append((("f", not f), ("n", n), ("colour", colour), ("row", row)))
        padding = (("left", 1 << 60), ("right", 12345)) if self.wide else ()
        return [(*start, *padding) for start in begun]

    def successors(self, state: State) -> list[tuple[str, State]]:
        found = []
        for number, act in enumerate(self.actions):
            for k in range(2) if act.with_parameter else [None]:
                values = dict(state)
                if not all(guard.true(values) for guard in act.guards):
                    continue
                for assignment in act.assignments:
                    assignment.run(values, self.size)
                if k is not None:
                    Cell("row", k).put(values, k)
                label = f"act{number}()" if k is None else f"act{number}(k={k})"
                found.append((label, tuple(values.items())))
        return found

    def machine(self, *, picked: bool = False) -> type[Machine]:
        """The same machine for the kernel, with every kind of property on `goal`.

        Run-time choice is written with `if`, or with `pick`.
        """
        f, n, colour, row = self.first
        text: dict[str, Any] = {
            "f": Bool(start=f),
            "n": Int(0, self.size - 1, start=n),
            "colour": Enum(*NAMES, start=colour),
            "row": Each(LENGTH, Int(0, self.size - 1)),
        }
        if self.wide:
            text["left"] = Int(0, (1 << PADDING) - 1, start=1 << 60)
            text["right"] = Int(0, (1 << PADDING) - 1, start=12345)

        def begin(s: Any, other: bool) -> None:
            if other:
                s.f = ~s.f
            for index, value in enumerate(row):
                s.row[index] = value

        text["begin"] = initial(other=(False, True) if self.second_start else (False,))(begin)
        for number, act in enumerate(self.actions):
            text[f"act{number}"] = self._action(number, act, picked)
        goal, end = self.goal, self.end
        kinds = {
            "never": (invariant, lambda s: ~goal.column(s)),
            "sometimes": (reachable, lambda s: goal.column(s)),
            "in_the_end": (
                eventually(fair=[together() if f == ANY else f for f in self.fair]),
                lambda s: goal.column(s),
            ),
            "recoverable": (always_recoverable, lambda s: goal.column(s)),
            "ends": (may_end, lambda s: end.column(s)),
        }
        for name, (decorator, function) in kinds.items():
            function.__name__ = name
            text[name] = decorator(function)
        return type("RandomMachine", (Machine,), text)

    def machine_of_runs(self) -> type[Machine]:
        """The same machine, with the properties of runs that `strong` and `cause` are for."""
        goal, cause = self.goal, self.cause
        assert cause is not None
        fairness = {
            name: [together() if f == ANY else f for f in entries]
            for name, entries in (("fair", self.fair), ("strong", self.strong))
        }
        text = {
            "in_the_end": eventually(**fairness)(lambda s: goal.column(s)),
            "again": infinitely_often(**fairness)(lambda s: goal.column(s)),
            "follows": leads_to(**fairness)(lambda s: (cause.column(s), goal.column(s))),
        }
        return type("RandomMachineOfRuns", (self.machine(),), text)

    def _action(self, number: int, act: Act, picked: bool) -> Any:
        def run(s: Any, k: int | None = None) -> None:
            for guard in act.guards:
                s.require(guard.column(s))
            for assignment in act.assignments:
                if picked:
                    assignment.write_where(s, self.size, Truth.constant(True))
                else:
                    assignment.write(s, self.size)
            if k is not None:
                s.row[k] = k

        run.__name__ = f"act{number}"
        return action(k=2)(run) if act.with_parameter else action(run)


@dataclass(frozen=True)
class Naive:
    """What a plain breadth-first search finds."""

    depth_of: dict[State, int]
    edges: list[tuple[State, str, State]]


def naive_search(spec: Spec) -> Naive:
    """Every reachable state with its distance, and every edge, one at a time."""
    depth_of = dict.fromkeys(spec.starts(), 0)
    edges = []
    waiting = deque(depth_of)
    while waiting:
        state = waiting.popleft()
        for label, after in spec.successors(state):
            edges.append((state, label, after))
            if after not in depth_of:
                depth_of[after] = depth_of[state] + 1
                waiting.append(after)
    return Naive(depth_of, edges)


@st.composite
def specs(draw: st.DrawFn, *, branches: bool = False) -> Spec:
    """A random machine of at most a few hundred states; with `branches` its actions have `if`."""
    size = draw(st.integers(2, 4))
    numbers = st.integers(0, size - 1)
    in_row = st.builds(lambda i, by: Cell("row", i, by), st.integers(0, LENGTH - 1), st.booleans())
    number_cells = st.one_of(st.just(Cell("n")), in_row)
    values = {"f": st.booleans(), "colour": st.sampled_from(NAMES)}

    def literals() -> st.SearchStrategy[Literal]:
        flags = [st.builds(Literal, st.just(Cell(n)), v, st.booleans()) for n, v in values.items()]
        return st.one_of(*flags, st.builds(Literal, number_cells, numbers, st.booleans()))

    conditions = st.builds(Condition, st.lists(literals(), min_size=1, max_size=3).map(tuple), st.booleans())
    assignments = st.one_of(
        st.builds(Assignment, st.just(Cell("f")), st.booleans()),
        st.builds(Assignment, st.just(Cell("colour")), st.sampled_from(NAMES)),
        st.builds(Assignment, number_cells, numbers),
        st.builds(Assignment, number_cells, source=number_cells, plus=st.integers(0, size - 1)),
    )

    def branched(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Branch]:
        block = st.lists(inner, max_size=2).map(tuple)
        return st.builds(Branch, conditions, block, block)

    statements = assignments
    if branches:
        statements = st.one_of(assignments, branched(st.one_of(assignments, branched(assignments))))
    acts = st.builds(
        Act,
        st.lists(conditions, max_size=2).map(tuple),
        st.lists(statements, max_size=3).map(tuple),
        st.booleans(),
    )
    actions = tuple(draw(st.lists(acts, min_size=1, max_size=4)))
    named = [f"act{i}" for i in range(len(actions))]
    some = st.lists(st.sampled_from(named), unique=True)
    fair = draw(st.one_of(some, st.just([ANY]), st.just(named), some.map(lambda names: [ANY, *names])))
    return Spec(
        size=size,
        actions=actions,
        first=(
            draw(st.booleans()),
            draw(numbers),
            draw(st.sampled_from(NAMES)),
            (draw(numbers), draw(numbers)),
        ),
        second_start=draw(st.booleans()),
        wide=draw(st.booleans()),
        goal=draw(conditions),
        end=draw(conditions),
        fair=tuple(fair),
    )


@st.composite
def specs_of_runs(draw: st.DrawFn) -> Spec:
    """A random machine with strong fairness and a cause."""
    spec = draw(specs())
    named = [f"act{i}" for i in range(len(spec.actions))]
    literals = [
        Literal(Cell(field), value, equal)
        for field, values in (("f", (False, True)), ("colour", NAMES), ("n", range(spec.size)))
        for value in values
        for equal in (True, False)
    ]
    return replace(
        spec,
        strong=tuple(draw(st.lists(st.sampled_from([*named, ANY]), max_size=2, unique=True))),
        cause=Condition(tuple(draw(st.lists(st.sampled_from(literals), min_size=1, max_size=2))), True),
    )
