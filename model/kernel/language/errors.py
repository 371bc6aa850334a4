"""Errors of a machine, the place in its text where they occur, and objects that refuse to be values.

    ModelError
      ModellingMistake    the author of the machine must act: the text cannot mean what it says
        FieldOverflow     ... an action gave a bounded field a value that it cannot hold
      BadSettings         the caller must act: a size, a safeguard or a bound makes no sense
        NoRoom            ... a directory cannot take what does not fit into memory

Every message gives what was found, where, and what to write instead.

Python has a default answer to nearly every operation: `==` of two plain objects compares their identity,
any object is true, any object can be formatted into a text. An author who writes `if s.queue.is_empty:`
without the brackets would get an action that is always, or never, enabled, and a model that holds for no
reason. So every object that an author can get hold of either computes state by state or raises an error.
"""

import linecache
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast


class ModelError(Exception):
    """The root; catch this one to catch them all."""


class ModellingMistake(ModelError):
    """The machine's own text is wrong: fix the machine."""


class FieldOverflow(ModellingMistake):
    """An action gave a bounded field a value it cannot hold. Never a silent wrap."""

    def __init__(self, message: str, *, action: str, field: str, state: Mapping[str, object]) -> None:
        super().__init__(message)
        self.action = action
        self.field = field
        self.state = state


class BadSettings(ModelError):
    """The machine is fine, what was asked of it is not: fix the call or the command line."""


class NoRoom(BadSettings):
    """The directory for what does not fit into memory is missing, read only, or full."""


def names(known: Iterable[str]) -> str:
    """`a, b, c`, or `none`."""
    return ", ".join(known) or "none"


def suggestion(error: object, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` when a known name is near, else nothing."""
    near = get_close_matches(str(error), list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


F = TypeVar("F", bound=Callable[..., Any])


class NoValue:
    """Refuses what Python would answer by itself."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # it stands for many states, so it is no key

    def no_value(self) -> str:
        """Why this is no value, and what to write instead."""
        raise NotImplementedError

    def _refuse(self) -> NoReturn:
        raise ModellingMistake(self.no_value())

    def __eq__(self, other: object) -> NoReturn:
        self._refuse()

    def __ne__(self, other: object) -> NoReturn:
        self._refuse()

    def __bool__(self) -> NoReturn:
        self._refuse()

    def __str__(self) -> NoReturn:
        self._refuse()

    def __format__(self, how: str) -> NoReturn:
        self._refuse()


class Bound(NoValue, partial):  # type: ignore[type-arg]  # of whatever the method answers
    """A method that waits to be called."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self._refuse()

    def __repr__(self) -> str:
        return f"the method `{self.func.__name__}`"

    def no_value(self) -> str:
        name = self.func.__name__
        return f"`{name}` is asked by calling it, and without the brackets it is no value: write {name}(...)"


class MustCall:
    """A method whose name alone is no value."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.is_replaceable = False
        update_wrapper(cast(Any, self), function)

    def __getattr__(self, name: str) -> Any:
        if "function" not in self.__dict__:
            raise AttributeError(
                name
            )  # being unpickled: a machine of a user's own travels to Spark's workers
        return getattr(self.__dict__["function"], name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self.function
        function = self.function
        if self.is_replaceable:
            function = instance.frame.model.replacements.get(function, function)  # type: ignore[attr-defined]  # only the methods of machines are replaceable
        return Bound(function, instance)


def must_call(function: F) -> F:
    """Marks a method so that `if s.queue.is_empty:` is refused, where a plain method would be true."""
    return cast(F, MustCall(function))


_KERNEL = Path(__file__).parent.parent
_OURS = (f"{_KERNEL}{os.sep}", f"{_KERNEL.parent / 'store'}{os.sep}")
"""Files that are ours: a mistake is shown in the innermost line that is the author's."""

_COLUMNS = re.compile("'(Match|Truth|Number|Choice|Members|Array|Sequence|Bound|_?[A-Za-z]*View)'")
_NOUNS = {
    "Match": "a truth column",
    "Truth": "a truth column",
    "Number": "a number column",
    "Choice": "a name column",
    "Members": "a set column",
    "Array": "an array",
    "Sequence": "a sequence",
    "Bound": "a method",
}


@dataclass(frozen=True)
class FailedGuard:
    """The guard at which the last states fell out."""

    file: str
    line: int
    text: str
    """The statement, on one line."""
    row: int
    """The first of the states that came as far as this guard."""

    def __str__(self) -> str:
        return f"{self.text} ({self.file}:{self.line})"


def locate_guard(stopped: BaseException, row: int) -> FailedGuard:
    """The place in the author's text where `stopped` was raised from."""
    found = _place(stopped)
    if found is None:
        return FailedGuard("", 0, "a condition of the kernel's own", row)
    return FailedGuard(*found, row)


def raise_with_place(error: Exception, where: str) -> NoReturn:
    """Raise a mistake again with its place in the machine's own text, unless it already says the action.

    What Python itself refused, a `len` of a column for example, is the author's mistake as well.
    """
    if isinstance(error, FieldOverflow):
        raise error
    found = _place(error)
    place = f" ({found[0]}:{found[1]}: `{found[2]}`)" if found is not None and found[2] else ""
    said = str(error) if isinstance(error, ModellingMistake) else _by_python(error)
    raise ModellingMistake(f"in {where}{place}: {said}") from error


def author_place() -> str:
    """The line of the author's text that is being run."""
    entry = next(e for e in reversed(traceback.extract_stack()) if not e.filename.startswith(_OURS))
    return f"{Path(entry.filename).name}:{entry.lineno}"


def _place(error: BaseException) -> tuple[str, int, str] | None:
    """File, line and statement, on one line."""
    entries = [
        entry for entry in traceback.extract_tb(error.__traceback__) if not entry.filename.startswith(_OURS)
    ]
    if not entries:
        return None
    last = entries[-1]
    first = last.lineno or 0
    lines = linecache.getlines(last.filename)[first - 1 : last.end_lineno or first]
    return Path(last.filename).name, first, " ".join(" ".join(lines).split())


def _by_python(error: Exception) -> str:
    said = _COLUMNS.sub(lambda name: _NOUNS.get(name[1], "a view of the store"), str(error))
    said = " ".join(said.split())
    return f"Python cannot do this ({type(error).__name__}: {said})"
