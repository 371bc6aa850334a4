"""Errors of a machine, where they occur in its text, and objects that raise instead of being values.

    ModelError
      ModellingMistake    fix the machine: its text has no meaning
        FieldOverflow     ... an action gave a bounded field a value that it cannot hold
      BadSettings         fix the call: a size, a safeguard or a bound makes no sense
        NoRoom            ... a directory cannot take what does not fit into memory

Every message gives what was found, where, and what to write instead.

Python has a default for nearly every operation: `==` of two plain objects compares their identity, any
object is true, any object can be formatted into a text. An author who writes `if s.queue.is_empty:` without
the brackets would get an action that is always, or never, enabled, and a model that proves nothing. So every
object that an author can get hold of either computes state by state or raises an error (`NoValue`).
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

F = TypeVar("F", bound=Callable[..., Any])


class ModelError(Exception):
    """The root; catch this one to catch them all."""


class ModellingMistake(ModelError):
    """The text of the machine is incorrect: fix the machine."""


class FieldOverflow(ModellingMistake):
    """An action gave a bounded field a value that it cannot hold. Never a silent wrap."""

    def __init__(self, message: str, *, action: str, field: str, state: Mapping[str, object]) -> None:
        super().__init__(message)
        self.action = action
        self.field = field
        self.state = state


class BadSettings(ModelError):
    """The machine is fine, the settings of the run are not: fix the call or the command line."""


class NoRoom(BadSettings):
    """The directory for what does not fit into memory is missing, read only, or full."""


def names(known: Iterable[str]) -> str:
    """`a, b, c`, or `none`."""
    return ", ".join(known) or "none"


def missing_return(returned: object) -> str:
    """A hint for a function of the author that returned None."""
    return ": is a `return` missing?" if returned is None else ""


def suggestion(unknown: object, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` when a known name is near, else nothing."""
    near = get_close_matches(str(unknown), list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


class NoValue:
    """An object whose comparison, truth and text are errors unless a subclass defines them."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # it holds many states, so it is no key

    def no_value(self) -> str:
        """Why this is no value, and what to write instead."""
        raise NotImplementedError

    def _raise(self, *_: object) -> NoReturn:
        raise ModellingMistake(self.no_value())

    def __bool__(self) -> bool:
        self._raise()

    __eq__ = __ne__ = __str__ = __format__ = _raise


class Bound(NoValue, partial):  # type: ignore[type-arg]  # of whatever the method returns
    """A method of an object, before its call."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self._raise()

    def __repr__(self) -> str:
        return f"the method `{self.func.__name__}`"

    def no_value(self) -> str:
        name = self.func.__name__
        return f"`{name}` is a method, and without brackets it is no value: write {name}(...)"


class BoundDefinition(Bound):
    """A definition with an `if`, or that returns True or False, before its call: see `paths.Branching`."""

    __slots__ = ()

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.args[0].frame.branching.defined(partial(self.func, *self.args, *given, **named))


class BoundNumber(Bound):
    """A replacement of a definition that is declared to return a Number: a plain number becomes one."""

    __slots__ = ()

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.args[0].frame.branching.number(partial(self.func, *self.args, *given, **named))


class MustCall:
    """The descriptor of `must_call`; a machine's method may also be replaced (see `declare.without`)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.is_replaceable = False
        self.is_computed: Callable[[Callable[..., Any], Any], bool] | None = None
        """Of a definition of a machine whose result may need work: the test for it, see `paths`."""
        self.is_computed_off: Callable[[Callable[..., Any], Any], bool] | None = None
        """The same for what replaces it while a safeguard is off."""
        update_wrapper(cast(Any, self), function)

    def __getattr__(self, name: str) -> Any:
        if "function" not in self.__dict__:  # while Spark's workers unpickle a machine
            raise AttributeError(name)
        return getattr(self.__dict__["function"], name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.function
        function, is_computed = self.function, self.is_computed
        if self.is_replaceable:
            function = instance.frame.model.replacements.get(function, function)
            if function is not self.function:
                is_computed = self.is_computed_off
                if _returns_number(self.function):
                    return BoundNumber(function, instance)
        if is_computed is not None and is_computed(function, instance.frame):
            return BoundDefinition(function, instance)
        return Bound(function, instance)


def _returns_number(function: Callable[..., Any]) -> bool:
    declared = getattr(function, "__annotations__", {}).get("return")
    return getattr(declared, "__name__", declared) == "Number"


def must_call(function: F) -> F:
    """Make `if s.queue.is_empty:` an error, where a plain method would be true."""
    return cast(F, MustCall(function))


_KERNEL = Path(__file__).parent.parent
_OURS = (f"{_KERNEL}{os.sep}", f"{_KERNEL.parent / 'store'}{os.sep}")
"""Our own files: the place of a mistake is the innermost line outside of them, the author's."""

_NOUNS = {
    "Match": "a truth column",
    "Truth": "a truth column",
    "Number": "a number column",
    "Choice": "a name column",
    "Members": "a set column",
    "Recorded": "a record column",
    "Array": "an array",
    "Sequence": "a sequence",
    "BagView": "a bag",
    "SetView": "a set",
    "Bound": "a method",
}
_CLASS = re.compile(rf"'({'|'.join(_NOUNS)}|\w*View)'")


@dataclass(frozen=True)
class FailedGuard:
    """The guard that the last rows did not pass."""

    file: str
    line: int
    text: str
    """The statement, on one line."""
    row: int
    """The first of the states that reached this guard."""

    def __str__(self) -> str:
        return f"{self.text} ({self.file}:{self.line})"


def locate_guard(stopped: BaseException, row: int, otherwise: tuple[str, int, str] | None) -> FailedGuard:
    """The place in the author's text where `stopped` was raised."""
    found = _place(stopped) or otherwise
    if found is None:
        return FailedGuard("", 0, "a condition of the kernel's own", row)
    return FailedGuard(*found, row)


def raise_with_place(error: Exception, where: str) -> NoReturn:
    """Raise an error again with its place in the machine's text; an overflow already names the action.

    An error of Python itself, as for `len` of a column, is the author's mistake as well.
    """
    if isinstance(error, FieldOverflow):
        raise error
    found = _place(error)
    place = f" ({found[0]}:{found[1]}: `{found[2]}`)" if found is not None and found[2] else ""
    message = str(error) if isinstance(error, ModellingMistake) else _python_message(error)
    raise ModellingMistake(f"in {where}{place}: {message}") from error


def author_place() -> str:
    """The line of the author's text that is running."""
    entry = next(e for e in reversed(traceback.extract_stack()) if not e.filename.startswith(_OURS))
    return f"{Path(entry.filename).name}:{entry.lineno}"


def _place(error: BaseException) -> tuple[str, int, str] | None:
    """File, line and statement, on one line."""
    entries = [e for e in traceback.extract_tb(error.__traceback__) if not e.filename.startswith(_OURS)]
    if not entries:
        return None
    last = entries[-1]
    first = last.lineno or 0
    lines = linecache.getlines(last.filename)[first - 1 : last.end_lineno or first]
    if lines and lines[0].rstrip().endswith(":"):
        lines = lines[:1]  # an `if` without its branches
    return Path(last.filename).name, first, " ".join(" ".join(lines).split())


def _python_message(error: Exception) -> str:
    text = _CLASS.sub(lambda name: _NOUNS.get(name[1], "a view of the store"), str(error))
    return f"Python cannot do this ({type(error).__name__}: {' '.join(text.split())})"
