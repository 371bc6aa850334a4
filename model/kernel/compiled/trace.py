"""The expressions that an action or a property computes: the author's text is run on traced columns.

Theory. A path through the text of a machine (see `language.paths`) is a straight line of operations on
columns. So each is run once with `Traced` arrays instead of NumPy arrays; each operation adds an expression,
and NumPy hands its functions over to `Traced` by its own protocols. There are no rows to decide a condition,
so both branches are run, of every condition that the path has not decided yet. The result is a `Program` for
each path of an action, and one for a property, whose paths are joined:

    guards   conditions after which the row is dropped, in their order between the traps
    branches conditions after which the row belongs to another path
    traps    conditions under which this trace does not know what the text does in the row
    values   the words after an action, or the truth of a property

A trap is where the language looks at the content of a column after all: to report an index that is
outside, a sum that does not fit, an empty sequence. The trace goes on as if nothing were found. Where a row
falls into the trap, the caller leaves the rows to the reference, NumPy, which knows: it raises the error, or
finds that there is none. So no message is written twice, and an assumption of the trace is never a verdict.

An operation that is not covered raises `NotCovered`; then the label or the property stays with NumPy. The
types of the results are those of NumPy, for each operation is tried on one element.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.errors import ModelError, ModellingMistake
from fencepost.model.kernel.language.frame import KEPT_TOO_LONG, Frame, Joined
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.language.paths import ExecutionPath

T = TypeVar("T")
_TRIAL = 1 << 32
_BOOL, _I64, _U64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.uint64)
_TYPES = {_BOOL: "bool", _I64: "int64", _U64: "uint64", np.dtype(np.uint8): "uint8"}
_ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "remainder")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift", "bitwise_count")
_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_DTYPES = {name: dtype for dtype, name in _TYPES.items()}
_COVERED = frozenset((*_ARITHMETIC, *_BITS, *_COMPARE, "divmod"))
MOST_DECISIONS = 1 << 5
MOST_PATHS = 1 << 8
"""Of one label or property; beyond that it stays with NumPy, which runs only the paths that have rows."""

MOST_EXPRESSIONS = 1 << 14
"""A label or a property with more of them stays with NumPy: compiling it takes longer than it saves."""


class NotCovered(BaseException):  # no author's `except Exception` may swallow it
    """The text uses what the compiler does not cover."""


@dataclass(eq=False, slots=True)
class Node:
    """One expression: an operation on earlier ones, an input word, or a constant."""

    operation: str
    dtype: str
    arguments: tuple["Node | int", ...]
    number: int


@dataclass
class Program:
    """The computation of a path of a label, or of a property, for one row.

    `checks` are "guard", "trap", or a branch: "if" or "unless", each with a truth.
    """

    checks: list[tuple[str, Node]]
    values: list[Node]
    size: int = 0
    """The number of its expressions."""


class Trace:
    """The expressions of one run of the text; equal ones are one."""

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}
        self.checks: list[tuple[str, Node]] = []
        self.trials: list[Node] = []
        self.paths = 0
        self.failed = ""

    def node(self, operation: str, dtype: "np.dtype[Any]", *arguments: "Node | int") -> Node:
        key = (operation, dtype, *[a.number if isinstance(a, Node) else a for a in arguments])
        found = self._nodes.get(key)
        if found is None:
            if dtype not in _TYPES:
                raise self.not_covered(f"numbers of type {dtype}")
            if len(self._nodes) >= MOST_EXPRESSIONS:
                raise self.not_covered(f"more than {MOST_EXPRESSIONS:,} expressions")
            found = self._nodes[key] = Node(operation, _TYPES[dtype], arguments, len(self._nodes))
        return found

    @property
    def size(self) -> int:
        """The number of expressions."""
        return len(self._nodes)

    def constant(self, value: Any, dtype: "np.dtype[Any]") -> Node:
        return self.node("constant", dtype, int(value))

    def trap(self, where: Node) -> None:
        """Leave the row to the reference where this holds, within the branches that are being computed."""
        for trial in self.trials:
            where = self.node("bitwise_and", _BOOL, trial, where)
        self.checks.append(("trap", where))

    def beside(
        self, model: Model, words: Any, label: Label | None = None, *, read_only: bool = True
    ) -> "TracedFrame":
        """Some words as rows of a model, whose traps belong to the present call."""
        checks = self.checks
        frame = TracedFrame(model, words, label, read_only=read_only)
        frame.checks = self.checks = checks
        return frame

    def not_covered(self, what: str) -> NotCovered:
        self.failed = self.failed or what
        return NotCovered(what)


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array with an entry for each row, while a text is traced."""

    ndim = 1
    size = 1

    def __init__(self, trace: Trace, node: Node) -> None:
        self.trace = trace
        self.node = node
        self.dtype = _DTYPES[node.dtype]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.get("out", (None,))[0]  # of `|=` and the like, which only rename here
        if method != "__call__" or (out is not None and out is not inputs[0]):
            raise self.trace.not_covered(f"numpy.{ufunc.__name__}.{method}")
        return self._compute(ufunc, inputs)

    def _compute(self, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        name = ufunc.__name__
        if name not in _COVERED:
            raise self.trace.not_covered(f"numpy.{name}")
        if name == "divmod":
            return self._compute(np.floor_divide, inputs), self._compute(np.remainder, inputs)
        if name in ("floor_divide", "remainder") and (isinstance(inputs[1], Traced) or inputs[1] < 1):
            raise self.trace.not_covered(f"numpy.{name} by a column")
        result, within = _types_of(ufunc, tuple(map(_type_of, inputs)))
        if name in _ARITHMETIC and result == _BOOL:
            raise self.trace.not_covered(f"numpy.{name} of truths")
        arguments = [self._argument(each, within) for each in inputs]
        return Traced(self.trace, self.trace.node(name, result, *arguments))

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        if function is np.where and len(given) == 3 and not options:
            return self._where(*given)
        if function is np.flatnonzero:
            return Rows(given[0])
        if function is np.atleast_1d or (function is np.broadcast_to and given[1] in (1, (1,))):
            return given[0]
        raise self.trace.not_covered(f"numpy.{function.__name__}")

    def _where(self, condition: Any, one: Any, other: Any) -> Any:
        result = _type_of_where(_type_of(one), _type_of(other))
        parts = (self._argument(condition, _BOOL), *(self._argument(each, result) for each in (one, other)))
        return Traced(self.trace, self.trace.node("where", result, *parts))

    def _argument(self, value: Any, dtype: "np.dtype[Any]") -> Node:
        """The expression of an operand, in the type in which the operation computes."""
        if isinstance(value, Traced):
            if value.dtype == dtype:
                return value.node
            if dtype == _BOOL:
                raise self.trace.not_covered("a number as a truth")
            return self.trace.node("cast", dtype, value.node)
        if type(value) is int and dtype != _BOOL and 0 <= value < 1 << (63 if dtype == _I64 else 64):
            return self.trace.constant(value, dtype)
        constant = np.asarray(value)
        if constant.size != 1 or constant.dtype.kind not in "biu":
            raise self.trace.not_covered(f"a constant of type {constant.dtype} and shape {constant.shape}")
        plain = int(constant.reshape(()))
        if int(np.asarray(plain).astype(dtype)) != plain:
            raise self.trace.not_covered(f"the constant {plain} among numbers of type {dtype}")
        return self.trace.constant(plain, dtype)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self.trace.not_covered("a column turned into an array")

    def __bool__(self) -> bool:
        raise self.trace.not_covered("a branch on the content of a column")

    __len__ = __iter__ = __getitem__ = __int__ = __index__ = __float__ = __array__

    def view(self, dtype: Any) -> "Traced":
        return self.astype(dtype)

    def astype(self, dtype: Any) -> "Traced":
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        if wanted == _BOOL:
            raise self.trace.not_covered("a number as a truth")
        return Traced(self.trace, self.trace.node("cast", wanted, self.node))

    def look_up(self, table: "np.ndarray[Any, Any]") -> "Traced":
        """The entries of a table at these places."""
        place = self.astype(np.int64)
        self.trace.trap(((place < 0) | (place >= len(table))).node)
        entries = [self.trace.constant(each, table.dtype) for each in table.tolist()]
        return Traced(self.trace, self.trace.node("table", table.dtype, place.node, *entries))

    def any(self) -> "Found":
        return Found(self, expected=False)

    def all(self) -> "Found":
        return Found(self, expected=True)

    def min(self) -> "Extreme":
        return Extreme(self, least=True)

    def max(self) -> "Extreme":
        return Extreme(self, least=False)


def _type_of(value: Any) -> Any:
    """The type of an operand, as it decides that of a result: a constant of Python takes the other one's."""
    if isinstance(value, Traced):
        return value.dtype
    return type(value) if isinstance(value, bool | int) else np.asarray(value).dtype


def _sample(kind: Any) -> Any:
    """One value of such a type."""
    return kind(1) if isinstance(kind, type) else np.ones(1, kind)


@cache
def _types_of(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple["np.dtype[Any]", "np.dtype[Any]"]:
    """The type of a result, and the one in which NumPy computes it; an error for what NumPy refuses."""
    samples = [_sample(kind) for kind in kinds]
    result = ufunc(*samples).dtype
    if ufunc.__name__ in _COMPARE:
        return result, np.result_type(*samples)
    return result, (samples[0].dtype if ufunc.__name__ == "bitwise_count" else result)


@cache
def _type_of_where(one: Any, other: Any) -> "np.dtype[Any]":
    found: np.dtype[Any] = np.where(np.zeros(1, np.bool_), _sample(one), _sample(other)).dtype
    return found


class Found:
    """A truth in some row (or in all), which as a condition is expected to find nothing."""

    def __init__(self, truth: Traced, *, expected: bool) -> None:
        self._truth = truth
        self._expected = expected

    def __bool__(self) -> bool:
        self._truth.trace.trap((~self._truth if self._expected else self._truth).node)
        return self._expected


class Rows:
    """The rows where a truth holds: expected to be none."""

    def __init__(self, truth: Any) -> None:
        self._truth = truth

    def __len__(self) -> int:
        return int(bool(self._truth.any()))


class Extreme:
    """The least or the largest entry, to compare with a constant."""

    def __init__(self, column: Traced, *, least: bool) -> None:
        self._column = column
        self._least = least

    def __lt__(self, other: int) -> Found:
        return Found(self._column < other, expected=not self._least)

    def __le__(self, other: int) -> Found:
        return Found(self._column <= other, expected=not self._least)

    def __gt__(self, other: int) -> Found:
        return Found(self._column > other, expected=self._least)

    def __ge__(self, other: int) -> Found:
        return Found(self._column >= other, expected=self._least)


class Words(list[Any]):
    """The words of a batch of states that is traced."""

    shape = (1, 1)

    def part(self, first: int, end: int) -> "Words":
        """Some of the words."""
        return Words(self[first:end])


_OTHERS = np.empty(0, np.int64)
"""The rows of a path that is still to be traced: all there may be."""


def _positive(condition: Node) -> tuple[Node, bool]:
    """A condition without its negations, and whether there is an odd number of them."""
    negated = False
    while condition.operation == "invert" and isinstance(condition.arguments[0], Node):
        condition, negated = condition.arguments[0], not negated
    return condition, negated


class TracedFrame(Frame):
    """The rows of a traced call. Guards are recorded; no row is removed, so old columns stay as they are."""

    is_scoped = True

    def __init__(
        self,
        model: Model,
        words: Any,
        label: Label | None = None,
        *,
        read_only: bool = False,
        path: ExecutionPath | None = None,
    ) -> None:
        super().__init__(model, [[0]] * len(words), label, read_only=read_only, path=path)  # type: ignore[arg-type]  # the length counts
        self.before = words
        self._words = list(words)
        self.trace: Trace = words[0].trace
        self.checks: list[tuple[str, Node]] = []
        self.trace.checks = self.checks

    @staticmethod
    def some_of(words: Any, path: ExecutionPath) -> Any:  # noqa: ARG004  # every path has all rows
        return words

    def first_path(self) -> ExecutionPath:
        return ExecutionPath(1)

    def divide(self, path: ExecutionPath, mask: Any) -> Any:
        node, negated = _positive(mask.node)
        if node.number in path.known:
            return path.known[node.number] is not negated, None
        self.trace.paths += 1
        if self.trace.paths == MOST_PATHS or len(path.decided) == MOST_DECISIONS:
            raise self.trace.not_covered("many paths, or a loop on a column")
        return True, _OTHERS

    def keep(self, path: ExecutionPath, mask: Any, value: bool) -> None:
        self.guarded = True
        node, negated = _positive(mask.node)
        if node.number in path.known:
            return
        path.known[node.number] = value is not negated
        if self.trials:
            taken = mask if value else ~mask
            path.conditions.append(taken)
            self.trace.trials.append(taken.node)
        else:
            self.checks.append(("if" if value is not negated else "unless", node))

    def mask_of(self, rows: Any) -> Any:
        return None

    def rows_of(self, path: ExecutionPath) -> Any:
        if not path.conditions:
            return np.ones(1, np.bool_)
        mask = path.conditions[0]
        for condition in path.conditions[1:]:
            mask = mask & condition
        return mask

    def leave(self, path: ExecutionPath) -> None:
        del self.trace.trials[len(self.trace.trials) - len(path.conditions) :]

    def part(self, model: Model, first: int, end: int, *, read_only: bool) -> Frame:
        words = Words([*self.before][first:end])
        return self.trace.beside(model, words, self.label, read_only=read_only)

    def _narrow(self, mask: Any) -> None:
        if not isinstance(mask, Traced):
            if not mask.all():
                self._stop()
            return
        self.checks.append(("guard", mask.node))

    def narrowed(self, array: Any, epoch: int) -> Any:
        trial = epoch // _TRIAL
        if self.epoch < 0 or (trial and trial not in self.trials):
            raise ModellingMistake(KEPT_TOO_LONG)
        return array

    def where(self, mask: Any, work: Callable[[], T]) -> T:
        if mask is not None and not isinstance(mask, Traced):
            raise self.trace.not_covered("a branch on a constant")
        before = self.epoch, self.read_only
        self.begun_trials += 1
        self.trials.append(self.begun_trials)
        if mask is not None:
            self.trace.trials.append(mask.node)
        self.epoch, self.read_only = self.begun_trials * _TRIAL, True
        try:
            return work()
        finally:
            self.trials.pop()
            if mask is not None:
                self.trace.trials.pop()
            self.epoch, self.read_only = before

    def occurs(self, mask: Any) -> bool:
        return True

    def spread(self, mask: Any, codes: Any) -> Any:
        if not isinstance(mask, Traced):
            return codes
        return np.where(mask, codes, np.zeros(1, codes.dtype))

    def mark_origin(self, marks: Any) -> None:
        raise self.trace.not_covered("s.can(...)")

    def widen(self, count: int) -> Any:
        raise self.trace.not_covered("anything()")

    def origin(self) -> Any:
        raise self.trace.not_covered("the numbers of rows")

    kept_before = origin

    def state_before(self, row: int) -> Any:
        raise self.trace.not_covered("a state as a value")


def paths_of(frame: Frame | None) -> list[TracedFrame]:
    """The paths of a label whose guards some row may pass."""
    if frame is None:
        return []
    parts = frame.parts if isinstance(frame, Joined) else [frame]
    return [part for part in parts if isinstance(part, TracedFrame)]


class Tracer:
    """Traces the labels and the properties of one model."""

    def __init__(self, model: Model) -> None:
        self._model = copy(model)
        self._model.frame_type = TracedFrame

    def label(self, label: Label) -> list[Program]:
        """The programs of the paths of a label whose guards some row may pass."""
        words = self._words(1)[0]
        programs = []
        for checks, after in self._traced(words, lambda: self._after(words, label)):
            words[0].trace.checks = checks
            programs.append(self._program(words, after))
        return programs

    def _after(self, words: Words, label: Label) -> list[tuple[list[tuple[str, Node]], list[Any]]]:
        """The checks and the words after each path of a label."""
        frame = self._model.apply(words, label)  # type: ignore[arg-type]  # they are traced
        return [(part.checks, part.finish()) for part in paths_of(frame)]

    def truth(self, wanted: Property) -> Program:
        """The program of a property of states."""
        words = self._words(1)[0]
        holds = self._traced(words, lambda: Model.holds(self._model, wanted, words))  # type: ignore[arg-type]  # they are traced
        return self._program(words, [holds])

    def step(self, wanted: Property) -> Program:
        """The program of a property of steps: its inputs are the words before, and then those after."""
        before, after = self._words(2)
        holds = self._traced(before, lambda: self._model.holds_between(wanted, before, after))  # type: ignore[arg-type]  # they are traced
        return self._program(before, [holds])

    def _words(self, batches: int) -> list[Words]:
        trace, words, kind = Trace(), self._model.words, _U64
        inputs = [Traced(trace, trace.node("input", kind, n)) for n in range(batches * words)]
        return [Words(inputs[n * words : (n + 1) * words]) for n in range(batches)]

    def _traced(self, words: Words, work: Callable[[], T]) -> T:
        try:
            found = work()
        except ModelError as error:
            # Perhaps a mistake that only rows can reach which never occur: the reference finds out.
            raise NotCovered(str(error)) from None
        if words[0].trace.failed:
            raise NotCovered(words[0].trace.failed)
        return found

    def _program(self, words: Words, values: list[Any]) -> Program:
        trace: Trace = words[0].trace
        nodes = [self._of(trace, value) for value in values]
        return Program(trace.checks, nodes, trace.size)

    @staticmethod
    def _of(trace: Trace, value: Any) -> Node:
        return value.node if isinstance(value, Traced) else trace.constant(value.reshape(-1)[0], value.dtype)
