"""How much may go wrong, and what a crash takes with it.

Two ways to keep faults from being the answer to everything:

    faults = Budget(2)       at most two in one run: a small number keeps the space small
    trouble = Trouble()      any number, until it is over: then the protocol has to recover by itself

Why that matters: `always_recoverable` asks whether *some* way leads to the goal. Where faults never end, the
way may be one that only another lost reply opens. With either of these, there are states in which
nothing more goes wrong, and the goal must be in reach of them as well.

Leave both out where nothing is asked of recovery: a lost reply adds no state that is not there anyway.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Generic, NoReturn, TypeVar

from fencepost.model.kernel.language.access import Access, CellAccess, Index
from fencepost.model.kernel.language.choices import Choice
from fencepost.model.kernel.language.columns import Truth
from fencepost.model.kernel.language.errors import ModellingMistake, NoValue, must_call, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, Cells, Each, Enum, Field, Int, resolve
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import IntKind, PackedState, Slot
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.numbers import Number
from fencepost.model.kernel.language.views import Array
from fencepost.model.store.answers import FAULTS, POSSIBLE

KNOWN = tuple(dict.fromkeys(answer for answers in POSSIBLE.values() for answer in answers))

V = TypeVar("V", bound="OneCellView")


def is_fault(answer: str | bool) -> bool:
    """Whether this is not an orderly answer."""
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
    asks: ClassVar[str]

    def __init__(self, frame: Frame, access: CellAccess, flat: Index) -> None:
        self._frame = frame
        self._access = access
        self._flat = flat

    def no_value(self) -> str:
        return f"`{self._access.slot.name}` is no column: ask for its {self.asks}"

    def __repr__(self) -> str:
        return f"`{self._access.slot.name}` itself"


class BudgetView(OneCellView):
    """A budget inside an action."""

    __slots__ = ()
    instead = "spend it"
    asks = ".spent or .is_left"

    @property
    def spent(self) -> Number:
        column = self._access.read(self._frame, self._flat)
        assert isinstance(column, Number)
        return column

    @property
    def is_left(self) -> Truth:
        """Whether one more fault fits."""
        kind = self._access.kind
        assert isinstance(kind, IntKind)
        return self.spent < kind.most

    @must_call
    def spend(self, answer: str | bool = True) -> None:
        """Keep the rows where one more fault fits, and count it; an orderly answer costs nothing."""
        if is_fault(answer):
            self._frame.narrow_to(self.is_left)
            self._access.write(self._frame, self._flat, self.spent + 1)


class TroubleView(OneCellView):
    """Trouble inside an action."""

    __slots__ = ()
    instead = "it ends, with s.trouble.end()"
    asks = ".is_over"

    @property
    def is_over(self) -> Truth:
        column = self._access.read(self._frame, self._flat)
        assert isinstance(column, Choice)
        return column == "over"

    @must_call
    def may(self, answer: str | bool = True) -> None:
        """Keep the rows where this may still go wrong; an orderly answer always may."""
        if is_fault(answer):
            self._frame.narrow_to(~self.is_over)

    @must_call
    def end(self) -> None:
        """Nothing more goes wrong from now on. An action of the machine says so, at any step it likes."""
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
    def spend(self, answer: str | bool = True) -> None:
        is_fault(answer)


class Budget(_OneCell[BudgetView]):
    """At most `most` faults in one run; None is no bound."""

    def __init__(self, most: AnyExtent | None) -> None:
        super().__init__(Int(0, most or 0), Unlimited if most is None else BudgetView)
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


def restart(s: Machine, member: int | Number, *volatile: str) -> None:
    """A process has crashed and comes back: these fields of `member` begin anew.

    What is not named stays: the store, requests that are under way, and what the process keeps on disk.
    """
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
