"""The outcome of a request, what its sender learns of it, and how many faults one run may have.

The tuples are domains for the parameter `answer` of an action, joined as the protocol needs them:
`@action(c=clients, answer=(*CREATE, "conflict", *UNKNOWN))`. Two ways keep faults from explaining everything:

    faults = Budget(2)       at most two in one run: a small number keeps the space small
    trouble = Trouble()      any number, until it is over: then the protocol has to recover by itself

`always_recoverable` checks whether *some* way leads to the goal. Where faults never end, that way may be one
that only another lost reply opens. With either of these, there are states after which no further fault
occurs, and the goal must be in reach of them as well. Leave both out where the model claims nothing about
recovery: a lost reply adds no state that is not there anyway.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar

from fencepost.model.kernel.language.access import Access, CellAccess, Index
from fencepost.model.kernel.language.choices import Choice
from fencepost.model.kernel.language.columns import Truth
from fencepost.model.kernel.language.errors import ModellingMistake, NoValue, must_call, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, Cells, Each, Enum, Field, Int, resolve
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import IntKind, PackedState, Slot
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.numbers import Number
from fencepost.model.kernel.language.roles import Member, reset
from fencepost.model.kernel.language.views import Array

CREATE = ("done", "exists")
"""Answers to a create-only put without a fault."""
REPLACE = ("done", "changed", "missing")
"""The same of an if-match put, and of an if-match delete."""
PUT = ("done",)
"""The same of an unconditional put."""
DELETE = ("done",)
"""The same of an unconditional delete."""
NOT_NOW = ("conflict", "throttled")
"""409 and 503: not applied, the sender knows it, a retry makes sense."""
UNKNOWN = ("reply_lost", "request_lost", "late")
"""The sender gets no answer: applied, not applied, or not applied yet."""
FAULTS = (*NOT_NOW, *UNKNOWN)
"""Everything that is not an orderly answer."""

REFUSED = ("exists", "changed", "missing")
APPLIED = ("done", "reply_lost")

POSSIBLE = {
    "create": (*CREATE, *FAULTS),
    "replace": (*REPLACE, *FAULTS),
    "put": (*PUT, "throttled", *UNKNOWN),
    "delete": (*DELETE, "throttled", *UNKNOWN),
    "delete-match": (*REPLACE, *FAULTS),
    "delete-version": (*DELETE, "throttled", *UNKNOWN),
}
"""Every operation with all that may become of it."""

WRITES = ("create", "replace", "put")
CONDITIONAL = ("create", "replace", "delete-match")


WORDS = ("done", *REFUSED, *NOT_NOW, "unknown")
"""Every reply that a sender can get."""


class Reply(str):
    """The sender's view of an outcome: done, exists, changed, missing, conflict, throttled or unknown.

    It is the same for all rows of the action, so plain Python may branch on it: `if reply == "done"`.
    """

    __slots__ = ("applied",)
    applied: bool
    """True if the request has taken effect. The sender may not know: for ghost fields only."""

    def __new__(cls, operation: str, answer: str) -> Self:
        known = POSSIBLE[operation]
        if answer not in known:
            raise ModellingMistake(
                f"{operation} is never answered {answer!r}{suggestion(answer, known)}; "
                f"what may become of it: {names(known)}"
            )
        reply = super().__new__(cls, "unknown" if answer in UNKNOWN else answer)
        reply.applied = answer in APPLIED
        return reply

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and other not in WORDS:
            raise ModellingMistake(
                f"no reply is {other!r}{suggestion(other, WORDS)}; the replies are {names(WORDS)}"
            )
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def to(self, *, refused: Any = None, **follows: Any) -> Any:
        """The value for this reply; `refused` is exists, changed and missing."""
        if self in follows:
            return follows[self]
        if refused is not None and self in REFUSED:
            return refused
        given = [*follows, *(["refused"] if refused is not None else [])]
        raise ModellingMistake(
            f"the reply may be '{self}', which has no value here; write "
            f".to({self}=..., ...) (there is: {names(given)})"
        )


KNOWN = tuple(dict.fromkeys(answer for answers in POSSIBLE.values() for answer in answers))

V = TypeVar("V", bound="OneCellView")


def is_fault(answer: str | bool) -> bool:
    """True if this is not an orderly answer."""
    if not isinstance(answer, str):
        return answer
    if answer not in KNOWN:
        raise ModellingMistake(
            f"{answer!r} is nothing that becomes of a request{suggestion(answer, KNOWN)}: is it a fault? "
            f"Give one of {names(KNOWN)}, or True"
        )
    return answer in FAULTS


class OneCellView(NoValue):
    """One cell inside an action, with words of its own instead of an assignment."""

    __slots__ = ("_access", "_flat", "_frame")
    instead: ClassVar[str]
    queries: ClassVar[str]

    def __init__(self, frame: Frame, access: CellAccess, flat: Index) -> None:
        self._frame = frame
        self._access = access
        self._flat = flat

    def no_value(self) -> str:
        return f"`{self._access.slot.name}` is no column: use its {self.queries}"

    def __repr__(self) -> str:
        return f"`{self._access.slot.name}` itself"


class BudgetView(OneCellView):
    """A budget inside an action."""

    __slots__ = ()
    instead = "spend it"
    queries = ".spent or .is_left"

    @property
    def spent(self) -> Number:
        column = self._access.read(self._frame, self._flat)
        assert isinstance(column, Number)
        return column

    @property
    def is_left(self) -> Truth:
        """True where one more fault fits."""
        kind = self._access.kind
        assert isinstance(kind, IntKind)
        return self.spent < kind.most

    @must_call
    def spend(self, answer: str | bool | Truth = True) -> None:
        """Keep the rows where one more fault fits, and count it; an orderly answer costs nothing.

        A condition costs where it holds.
        """
        if isinstance(answer, Truth):
            self._frame.narrow_to(self.is_left | ~answer)
            self._access.write(self._frame, self._flat, self.spent + answer)
        elif is_fault(answer):
            self._frame.narrow_to(self.is_left)
            self._access.write(self._frame, self._flat, self.spent + 1)


class TroubleView(OneCellView):
    """Trouble inside an action."""

    __slots__ = ()
    instead = "it ends, with s.trouble.end()"
    queries = ".is_over"

    @property
    def is_over(self) -> Truth:
        column = self._access.read(self._frame, self._flat)
        assert isinstance(column, Choice)
        return column == "over"

    @must_call
    def may(self, answer: str | bool = True) -> None:
        """Keep the rows where this fault may still occur; an orderly answer always may."""
        if is_fault(answer):
            self._frame.narrow_to(~self.is_over)

    @must_call
    def end(self) -> None:
        """No fault occurs from now on. An action of the machine calls it, at any step."""
        self._frame.narrow_to(~self.is_over)
        self._access.write(self._frame, self._flat, "over")


class _OneCell(Field[V, NoReturn], Generic[V]):
    """A cell that is read as a view."""

    def __init__(self, cell: Enum | Int, view: type[OneCellView]) -> None:
        self._cell = cell
        self._view = view

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        return self._cell.cells(name, dimensions)

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> Access:
        return _OneCellAccess(self._cell.access(name, sizes, slots), self._view)

    def first(self, sizes: Mapping[str, int]) -> object:
        return self._cell.first(sizes)


class Unlimited(BudgetView):
    """A budget that counts nothing."""

    __slots__ = ()

    @must_call
    def spend(self, answer: str | bool | Truth = True) -> None:
        if not isinstance(answer, Truth):
            is_fault(answer)


class Budget(_OneCell[BudgetView]):
    """At most `most` faults in one run; None is no bound."""

    def __init__(self, most: AnyExtent | None) -> None:
        super().__init__(Int(0, 0 if most is None else most), Unlimited if most is None else BudgetView)
        self._most = most

    def first(self, sizes: Mapping[str, int]) -> object:
        if self._most is not None and resolve(self._most, sizes) < 0:
            raise ModellingMistake("a budget is 0 or more")
        return 0


class Trouble(_OneCell[TroubleView]):
    """Any number of faults, until it is over."""

    def __init__(self) -> None:
        super().__init__(Enum("lasts", "over"), TroubleView)


class _OneCellAccess(Access):
    def __init__(self, cell: CellAccess, view: type[OneCellView]) -> None:
        self._cell = cell
        self._view = view

    def read(self, frame: Frame, flat: Index) -> OneCellView:
        return self._view(frame, self._cell, flat)

    def write(self, frame: Frame, flat: Index, value: object) -> NoReturn:
        raise ModellingMistake(f"nothing is assigned to `{self._cell.slot.name}`: {self._view.instead}")

    def decode(self, state: PackedState, flat: int) -> object:
        return self._cell.decode(state, flat)

    def encode(self, state: list[int], flat: int, value: object) -> None:
        self._cell.encode(state, flat, value)


def restart(s: Machine | Member, member: "int | Number | str" = 0, *volatile: str) -> None:
    """A process has crashed and comes back: these fields of `member` begin anew.

        restart(s.writer[w])                    # all fields of a member of a role
        restart(s.writer[w], "at", "kind")      # some of them
        restart(s, w, "at", "kind")             # of arrays with one element for each process

    Everything else stays: the store, requests that are under way, and the disk of the process.
    """
    if isinstance(s, Member):
        reset(s, *((member,) if isinstance(member, str) else ()), *volatile)
        return
    assert not isinstance(member, str)
    model = s.frame.model
    for name in volatile:
        field = model.fields.get(name)
        if not isinstance(field, Each):
            arrays = sorted(model.arrays)
            raise ModellingMistake(
                f"restart resets fields declared with Each, one element for each process; '{name}' is "
                f"none{suggestion(name, arrays)}; there are {names(arrays)}"
            )
        first = field.first(model.sizes)
        assert isinstance(first, tuple)
        array: Array[object, object] = model.access[name].read(s.frame, 0)
        array[member] = first[0]
