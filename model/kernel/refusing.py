"""What stands for something but is no value: Python must not answer for it.

Python has an answer to nearly everything. `==` of two objects that say nothing about it compares their
identity, any object is true, any can be printed into a text. An author who writes `if s.queue.is_empty:`
and forgets the brackets would get an action that is always, or never, enabled, and a model that holds for
nothing. So whatever an author can get hold of either computes, state by state, or refuses in one sentence.
"""

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, NoReturn, TypeVar, cast

from fencepost.model.kernel.errors import ModellingMistake

F = TypeVar("F", bound=Callable[..., Any])


class Refusing:
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


class Bound(Refusing, partial):  # type: ignore[type-arg]  # of whatever the method answers
    """A method that waits to be called."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self._refuse()

    def __repr__(self) -> str:
        return f"the method `{self.func.__name__}`"

    def no_value(self) -> str:
        name = self.func.__name__
        return f"`{name}` is asked by calling it, and without the brackets it is no value: write {name}(...)"


class Question:
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


def question(function: F) -> F:
    """Marks a method so that `if s.queue.is_empty:` is refused, where a plain method would be true."""
    return cast(F, Question(function))
