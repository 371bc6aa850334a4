"""How much may go wrong, and what a crash takes with it."""

from collections.abc import Iterator, Mapping
from typing import NoReturn

from holdfast.model.kernel.access import Access, Array, CellAccess, Index, PackedState
from holdfast.model.kernel.columns import Number, Truth
from holdfast.model.kernel.errors import ModellingMistake, names, suggestion
from holdfast.model.kernel.extents import AnyExtent, resolve
from holdfast.model.kernel.fields import Cells, Each, Field, Int, Run
from holdfast.model.kernel.frame import Frame
from holdfast.model.kernel.kinds import IntKind
from holdfast.model.kernel.layout import Slot
from holdfast.model.kernel.machine import Machine
from holdfast.model.store.answers import FAULTS


class BudgetView:
    """A budget inside an action."""

    def __init__(self, frame: Frame, access: CellAccess, flat: Index) -> None:
        self._frame = frame
        self._access = access
        self._flat = flat

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

    def spend(self, answer: str | bool = True) -> None:
        """Keep the rows where one more fault fits, and count it; an orderly answer costs nothing."""
        costs = answer in FAULTS if isinstance(answer, str) else answer
        if costs:
            self._frame.narrow_to(self.is_left)
            self._access.write(self._frame, self._flat, self.spent + 1)


class Budget(Field[BudgetView, NoReturn]):
    """At most `most` faults in one run. Counted in the state, so a small number keeps the space small.

    Leave it out where faults need no counting: a lost reply adds no state that is not there anyway.
    """

    def __init__(self, most: AnyExtent) -> None:
        self._spent = Int(0, most)
        self._most = most

    def runs(self, name: str, sizes: Mapping[str, int], shape: tuple[int, ...]) -> list[Run]:
        return self._spent.runs(name, sizes, shape)

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        return self._spent.cells(name, dimensions)

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> Access:
        return _BudgetAccess(self._spent.access(name, sizes, slots))

    def first(self, sizes: Mapping[str, int]) -> object:
        if resolve(self._most, sizes) < 0:
            raise ModellingMistake("a budget is 0 or more")
        return 0


class _BudgetAccess(Access):
    def __init__(self, cell: CellAccess) -> None:
        self._cell = cell

    def read(self, frame: Frame, flat: Index) -> BudgetView:
        return BudgetView(frame, self._cell, flat)

    def write(self, frame: Frame, flat: Index, value: object) -> NoReturn:
        raise ModellingMistake(f"nothing is assigned to the budget `{self._cell.slot.name}`: spend it")

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
