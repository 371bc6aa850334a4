"""Sequential processes: a list of steps, one a label, and a program counter that the machine keeps.

    class Peterson(Machine):
        sides = Size(2)
        side = Process(p=sides)             # one program for each side; Process() is a single one
        wants = Each(sides, Bool())

        @side.step
        def raise_flag(s, p):               # the first step is where a process begins
            s.wants[p] = True

        @side.step
        def wait(s, p):                     # goes on with the next step in the text
            s.require(~s.wants[1 - p])

        @side.step(then="raise_flag")       # or with the one that is named
        def leave(s, p):
            s.wants[p] = False

Each step is an action of its name: it may happen where the process is at it. A step that assigns the counter
goes there instead: `s.side[p] = pick(s.wants[1 - p], "wait", "leave")`. After the last step a process is
`done`. The counter is a field, an Enum of the steps and `done`: `s.side[p] == "wait"`, `s.side.any("wait")`.

As everywhere, only a `@may_end` allows an end: write one where all processes are done.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, overload

from fencepost.model.kernel.language.access import Access, Index
from fencepost.model.kernel.language.declare import action, check_statements
from fencepost.model.kernel.language.errors import ModellingMistake, names, suggestion
from fencepost.model.kernel.language.fairness import Together, together
from fencepost.model.kernel.language.fields import AnyExtent, Cells, Each, Enum, Field
from fencepost.model.kernel.language.layout import Slot

F = TypeVar("F", bound=Callable[..., Any])
DONE = "done"


class Process(Field[Any, Any]):
    """A program of labelled steps, one counter for each value of its parameter, or a single one."""

    def __init__(self, **parameter: AnyExtent) -> None:
        if len(parameter) > 1:
            raise ModellingMistake(f"a Process has one parameter or none, not {names(parameter)}")
        self._parameter = dict(parameter)
        self.then: dict[str, str | None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """No names: the counters are numbered, as in an `Each` of numbers."""
        return ()

    @property
    def is_many(self) -> bool:
        """True if it has a parameter."""
        return bool(self._parameter)

    @overload
    def step(self, function: F, /) -> F: ...
    @overload
    def step(self, /, *, then: str) -> Callable[[F], F]: ...
    def step(self, function: Any = None, /, *, then: str | None = None) -> Any:
        """One step of the program: an action of this name, where the counter is at it."""
        if function is None:
            return partial(self._step, then=then)
        return self._step(function, then)

    def _step(self, function: F, then: str | None) -> F:
        check_statements(function)
        label = function.__name__
        if label in self.then or label == DONE:
            raise ModellingMistake(f"`{label}` is already a step of this process: give each step a name")
        self.then[label] = then

        @wraps(function)
        def run(s: Any, **given: Any) -> Any:
            at = next((given[name] for name in self._parameter), None)
            counter = getattr(s, self.name)
            s.require((counter if at is None else counter[at]) == label)
            returned = function(s, **given)
            jumped = [flat for name, flat in s.frame.jumped if name == self.name]
            if any(not isinstance(flat, int) for flat in jumped):
                raise ModellingMistake(
                    f"`{label}` assigns s.{self.name}[...] at a column: assign the counter of one process"
                )
            if (0 if at is None else at) not in jumped:
                if at is None:
                    setattr(s, self.name, self._next(label))
                else:
                    getattr(s, self.name)[at] = self._next(label)
            return returned

        return action(**self._parameter)(run)  # type: ignore[return-value]  # it is called as the function is

    def fairly(self) -> Together:
        """In `fair=`: no process stops where it could go on. Write it below the steps."""
        by = next(iter(self._parameter), "")
        return together(*self.then, by=by)

    def _next(self, label: str) -> str:
        """Where a step goes that does not say."""
        then = self.then[label]
        if then is not None:
            if then not in (*self.then, DONE):
                raise ModellingMistake(
                    f"`{label}` goes on with '{then}', which is no step of `{self.name}`"
                    f"{suggestion(then, self.then)}; the steps are {names(self.then)} and {DONE}"
                )
            return then
        labels = [*self.then, DONE]
        return labels[labels.index(label) + 1]

    def _counter(self) -> Field[Any, Any]:
        if not self.then:
            raise ModellingMistake(
                f"`{self.name}` is a process without steps: write @{self.name}.step above one"
            )
        for label in self.then:
            self._next(label)  # an error for an unknown one
        counter: Field[Any, Any] = Enum(*self.then, DONE)
        for extent in self._parameter.values():
            counter = Each(extent, counter)
        return counter

    def access(self, name: str, sizes: Mapping[str, int], slots: Mapping[str, Slot]) -> Access:
        made = self._counter().access(name, sizes, slots)
        return _Watched(name, made) if not self.is_many else _watch_elements(name, made)

    def first(self, sizes: Mapping[str, int]) -> object:
        return self._counter().first(sizes)

    def cells(self, name: str, dimensions: tuple[AnyExtent, ...]) -> Iterator[Cells]:
        return self._counter().cells(name, dimensions)


def _watch_elements(name: str, array: Any) -> Access:
    array.element = _Watched(name, array.element)
    made: Access = array
    return made


class _Watched(Access):
    """A counter: a write of the author is a jump."""

    def __init__(self, name: str, inner: Access) -> None:
        self.name = name
        self._inner = inner

    def read(self, frame: Any, flat: Index) -> Any:
        return self._inner.read(frame, flat)

    def write(self, frame: Any, flat: Index, value: Any) -> None:
        frame.jumped.append((self.name, flat))
        self._inner.write(frame, flat, value)

    def decode(self, state: Any, flat: int) -> object:
        return self._inner.decode(state, flat)

    def encode(self, state: list[int], flat: int, value: Any) -> None:
        self._inner.encode(state, flat, value)
