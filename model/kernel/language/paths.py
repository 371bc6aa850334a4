"""Run-time choice in plain Python: `if`, `while`, `and`, `or` and `not` on columns.

    if s.votes == s.members:
        s.decision = "commit"
    elif s.voted_no:
        s.decision = "abort"

Theory. A column has a truth value for each row, and Python's `if` needs one for all. So a function is run
once for each *path* through it. Its first path takes all rows. Where a condition differs among them, the path
goes on with the rows where it is true, and the others are kept with the decisions so far. When the path has
ended, the function is run again for these rows, from their state before, and takes the other branch there.
Every row takes exactly one path, so the result is that of the same text with `pick`. A branch that no row
takes is not run. (The compiled engine has no rows: it runs both branches, see `compiled.trace`.)

An action assigns on its way, so its paths end with it. A computation that only reads is run path by path on
its own: a property, a definition that returns a value, a function in a branch of `pick`, `case` or `implies`.
Its results are joined by rows: two definitions with four paths each are eight runs, not sixteen. It begins
like any other code; its first condition that differs among the rows restarts it path by path (`Restart`). If
it assigns, requires, or gives what cannot be joined, such as an array, its conditions are those of the action
around it.

Nearly all definitions never decide on a column, so none pays for it before one does: the first decision in a
definition marks it, and begins the whole call again. From then on it is run as a computation of its own.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from dis import get_instructions
from functools import partial
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fencepost.model.kernel.language.choices import Choice, chosen, pick
from fencepost.model.kernel.language.columns import Column, Truth, describe
from fencepost.model.kernel.language.errors import ModellingMistake
from fencepost.model.kernel.language.numbers import Number

if TYPE_CHECKING:
    from fencepost.model.kernel.language.frame import Frame
    from fencepost.model.kernel.language.layout import I64, Mask

T = TypeVar("T")

MOST_PATHS = 1 << 12
"""Paths of one call: a limit of time only."""

MOST_DECISIONS = 1 << 10
"""Decisions of one path: a loop with more of them probably has no end."""


class Restart(BaseException):  # not an error: the function begins again, path by path
    """A computation met its first condition that differs among the rows."""

    def __init__(self, scope: "Scope | None") -> None:
        self.scope = scope
        """The computation; None for the whole call, after a definition was marked."""


class NotJoined(Exception):
    """A computation assigns, or its results cannot be joined by rows."""


@dataclass(eq=False, slots=True)
class Scope:
    """A computation that may restart, until it has written."""

    writes: int


@dataclass(eq=False, slots=True)
class ExecutionPath:
    """One path through a function: its rows, and the decisions to follow before it opens others."""

    before: int
    """The number of rows in the batch."""
    rows: "I64 | None" = None
    """The numbers of those that take the path; None for all."""
    decided: list[bool] = field(default_factory=list)
    taken: int = 0
    open: "list[ExecutionPath]" = field(default_factory=list)
    """The paths that branch off it, with the rows that it left to them."""
    base: int = 0
    """Narrowings of the frame before the path."""
    trials: int = 0
    conditions: list[Any] = field(default_factory=list)
    """Of a traced path: its decided conditions."""
    known: dict[int, bool] = field(default_factory=dict)
    """Of a traced path: the decisions, by the number of a condition that is not negated."""

    def decide(self, frames: "tuple[Frame, ...]", mask: Any) -> bool:
        """The branch to take. Keeps its rows, and opens a path for the others."""
        frame = frames[0]
        if len(frame.trials) != self.trials:
            raise ModellingMistake(
                "an `if` in the function of a branch chooses between values: truths, numbers, names, sets or "
                "records; move it out of the function"
            )
        if self.taken < len(self.decided):
            value = self.decided[self.taken]
        else:
            if len(self.decided) == MOST_DECISIONS:
                raise ModellingMistake(
                    f"{frame.doing()} decides more than {MOST_DECISIONS:,} conditions on one path: a loop on "
                    "a column must end, in every state; use `for` with a constant number of rounds"
                )
            value, others = frame.divide(self, mask)
            if others is not None:
                self.open.append(ExecutionPath(self.before, others, [*self.decided, not value]))
            self.decided.append(value)
        self.taken += 1
        for each in frames:
            each.keep(self, mask, value)
        return value


def check_count(frame: "Frame", paths: int) -> None:
    """Raise an error if a call has too many paths."""
    if paths >= MOST_PATHS:
        raise ModellingMistake(
            f"{frame.doing()} has more than {MOST_PATHS:,} paths: every `if` on a column may double them; "
            "move the body of a loop into a definition that returns a value, or write pick(...), any_of(...) "
            "or all_of(...)"
        )


class Branching:
    """The paths of one call. Its frames lose their rows together: those before and after a step."""

    __slots__ = ("frames", "path", "scope")

    def __init__(self, frames: "tuple[Frame, ...]", path: ExecutionPath | None = None) -> None:
        self.frames = frames
        self.path = path
        """The path of the call, or of the computation in it that is run path by path; None until then."""
        self.scope: Scope | None = None
        """The innermost computation that may restart."""

    def decide(self, mask: Any) -> bool:
        """The branch that the present path takes."""
        if not self.frames[0].is_scoped and _marks_definition():
            raise Restart(None)
        scope = self.scope
        if scope is not None and scope.writes == self.frames[0].writes:
            raise Restart(scope)
        if self.path is None:
            frame = self.frames[0]
            if frame.is_property:
                raise ModellingMistake(
                    "an `if` on a column belongs into an action, a property, or a definition that they call"
                )
            self.path = frame.first_path()
        return self.path.decide(self.frames, mask)

    def computed(self, work: Callable[[], T], join: "Join | None" = None) -> T:
        """The result of a computation, joined by rows if it takes several paths.

        `join` takes the frame, and for each path its rows and its result on all rows.
        """
        outer = self.scope
        scope = self.scope = Scope(self.frames[0].writes)
        try:
            return work()
        except Restart as restart:
            if restart.scope is not scope:
                raise
        finally:
            self.scope = outer
        try:
            return self._joined(work, join or _join)
        except NotJoined as reason:
            if outer is None and self.path is None and self.frames[0].is_property:
                raise ModellingMistake(str(reason)) from None
            return work()

    def defined(self, definition: Callable[[], Any]) -> Any:
        """The result of a definition; True and False become columns, for `~`, `&` and `|`."""
        result = self.computed(definition)
        return Truth.constant(result) if isinstance(result, bool) else result

    def number(self, definition: Callable[[], Any]) -> Any:
        """The result of a definition; a whole number becomes a column."""
        result = self.computed(definition)
        return Number.constant(result) if type(result) is int else result

    def where(self, mask: Any, work: Callable[[], T]) -> T:
        """The result of `work` on the rows of a mask only."""
        for frame in reversed(self.frames):
            work = _on_rows(frame, mask, work)
        return work()

    def _joined(self, work: Callable[[], T], join: "Join") -> T:
        frame = self.frames[0]
        outer = self.path, self.scope
        waiting = [ExecutionPath(frame.size)]
        found: list[tuple[Any, Any]] = []
        try:
            while waiting:
                check_count(frame, len(found))
                path = waiting.pop()
                self.path, self.scope = path, None
                found.append(self.where(frame.mask_of(path.rows), partial(self._along, path, work)))
                waiting += path.open
        finally:
            self.path, self.scope = outer
        try:
            joined: T = join(frame, found)
        except ModellingMistake as mistake:
            raise NotJoined(str(mistake)) from None
        return joined

    def _along(self, path: ExecutionPath, work: Callable[[], Any]) -> tuple[Any, Any]:
        """The rows that took a path, and the result on them, spread over all rows."""
        frame = self.frames[0]
        path.base, path.trials = frame.narrowings, len(frame.trials)
        try:
            value = work()
            mask = frame.rows_of(path)
            return mask, _spread(frame, mask, value)
        finally:
            frame.leave(path)


def _on_rows(frame: "Frame", mask: Any, work: Callable[[], T]) -> Callable[[], T]:
    return lambda: frame.where(mask, work)


class Marker:
    """A constant that is its own value, on all paths or on none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


Join = Callable[["Frame", list[tuple[Any, Any]]], Any]


def columns_of_path(frame: "Frame", value: Any) -> Any:
    """The result of a path with columns in place of their codes."""
    if isinstance(value, _Codes):
        return value.of(frame)
    if isinstance(value, tuple | list):
        return type(value)(columns_of_path(frame, each) for each in value)
    if isinstance(value, dict):
        return {name: columns_of_path(frame, each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: columns_of_path(frame, getattr(value, each.name)) for each in fields(value)}
        )
    return value


@dataclass(frozen=True)
class _Codes:
    """A column during the joining: its codes on all rows, of which those of one path count."""

    column: type[Column]
    kind: Any
    codes: Any
    reach: int | None
    """Of numbers: see `Number.reach`."""

    def of(self, frame: "Frame") -> Column:
        if issubclass(self.column, Truth):
            return Truth.of(frame, self.codes)
        column = self.column(frame, self.kind, self.codes)
        if isinstance(column, Number) and self.reach is not None:
            column.keep_reach(self.reach)
        return column


def _spread(frame: "Frame", mask: Any, value: Any) -> Any:
    """The value, its columns spread over all rows."""
    if isinstance(value, Column):
        reach = value.reach() if isinstance(value, Number) else None
        return _Codes(type(value), value.kind, frame.spread(mask, value.codes()), reach)
    if isinstance(value, tuple | list):
        return type(value)(_spread(frame, mask, each) for each in value)
    if isinstance(value, dict):
        return {name: _spread(frame, mask, each) for name, each in value.items()}
    if value is None or isinstance(value, bool | int | str | frozenset | Marker):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: _spread(frame, mask, getattr(value, each.name)) for each in fields(value)}
        )
    raise _not_joined(value)


def _not_joined(value: object) -> NotJoined:
    return NotJoined(
        f"an `if` on a column chooses {describe(value)}: what is chosen for some rows is a truth, a number, "
        "a name, a set or a record"
    )


def _join(frame: "Frame", found: list[tuple["Mask", Any]]) -> Any:
    """The results of all paths as one."""
    values = [value for _, value in found]
    first = values[0]
    if any(type(value) is not type(first) for value in values) or isinstance(first, _Codes):
        return _picked(frame, found)
    if isinstance(first, tuple | list):
        if any(len(value) != len(first) for value in values):
            raise NotJoined("an `if` on a column chooses between tuples of different lengths")
        columns = ([(mask, value[i]) for mask, value in found] for i in range(len(first)))
        return type(first)(_join(frame, each) for each in columns)
    if isinstance(first, dict):
        if any(value.keys() != first.keys() for value in values):
            raise NotJoined("an `if` on a column chooses between dictionaries with different keys")
        return {name: _join(frame, [(mask, value[name]) for mask, value in found]) for name in first}
    if is_dataclass(first) and not isinstance(first, type):
        parts = {
            each.name: [(mask, getattr(value, each.name)) for mask, value in found] for each in fields(first)
        }
        return replace(first, **{name: _join(frame, part) for name, part in parts.items()})
    if not all(value == first for value in values):
        return _picked(frame, found)
    return chosen(frame, first) if isinstance(first, str) else first


def _picked(frame: "Frame", found: list[tuple["Mask", Any]]) -> Any:
    (_, last), *others = [
        (mask, value.of(frame) if isinstance(value, _Codes) else value) for mask, value in reversed(found)
    ]
    for mask, value in others:
        for each in (value, last):
            if not isinstance(each, Column | bool | int | str | frozenset):
                raise _not_joined(each)
        last = pick(Truth.of(frame, mask), value, last)
    return chosen(frame, last) if isinstance(last, Choice | str) else last


def may_branch(function: Callable[..., Any]) -> bool:
    """True if a function returns a value and may decide on a column in its own text."""
    while isinstance(function, partial):
        function = function.func
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return False
    _need_of(code)
    return _NEEDS[id(code)][1]


def is_computed(function: Callable[..., Any], frame: "Frame") -> bool:
    """True if the result of a function needs work: it has decided before, or returns True or False.

    A trace has no rows that would decide, so there every function that may branch is one.
    """
    need = _need_of(function.__code__)
    return need == _BRANCHES or (need == _PERHAPS and frame.is_scoped)


def may_be_computed(function: Callable[..., Any]) -> bool:
    """True if `is_computed` may be true."""
    return _need_of(function.__code__) != _PLAIN


_PLAIN, _PERHAPS, _BRANCHES = range(3)
_NEEDS: dict[int, tuple[int, bool, CodeType]] = {}
"""The needs of the result of a text, and whether it may branch; by identity, as texts are large."""


def _need_of(code: CodeType) -> int:
    known = _NEEDS.get(id(code))
    if known is None:
        returned = set() if code.co_flags & CO_GENERATOR else _returned(code)
        decides = bool(returned - {None}) and any(_decides(each) for each in _codes_in(code))
        need = _BRANCHES if returned & {True, False} else _PERHAPS if decides else _PLAIN
        known = _NEEDS[id(code)] = need, decides, code
    return known[0]


def _marks_definition() -> bool:
    """Mark the innermost text that may branch and is running, if it is not marked yet."""
    caller: FrameType | None = sys._getframe(3)  # noqa: SLF001  # the author's text, which is running
    while caller is not None:
        code = caller.f_code
        if id(code) in _NEEDS and (need := _need_of(code)) != _PLAIN:
            _NEEDS[id(code)] = _BRANCHES, True, code
            return need == _PERHAPS
        caller = caller.f_back
    return False


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _decides(code: CodeType) -> bool:
    if not _BUILTINS.isdisjoint(code.co_names):
        return True
    operations = (each.opname for each in get_instructions(code))
    return any(
        name in _TESTS or ("JUMP" in name and "_IF_" in name and "NONE" not in name) for name in operations
    )


_BUILTINS = frozenset({"any", "all", "max", "min", "sorted", "bool"})
_TESTS = ("UNARY_NOT", "CONTAINS_OP")


def _returned(code: CodeType) -> set[bool | str | None]:
    """The values that a text returns: None, True, False, or "another value"."""
    found: set[bool | str | None] = set()
    before: bool | str | None = "another value"
    for instruction in get_instructions(code):
        is_plain = instruction.argval is None or isinstance(instruction.argval, bool)
        value = instruction.argval if is_plain else "another value"
        if instruction.opname == "RETURN_VALUE":
            found.add(before)
        elif instruction.opname == "RETURN_CONST":
            found.add(value)
        before = value if instruction.opname == "LOAD_CONST" else "another value"
    return found


def refuse_write() -> NoReturn:
    """A computation that is run path by path writes: its conditions belong to the action."""
    raise NotJoined("a computation assigns or requires")
