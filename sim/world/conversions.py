"""The names `int` and `float` in the modules of the user, while worlds run.

A conversion makes a plain number, which does not remember that it is a time (see `times`). A class written in
C cannot be patched, so the name is bound in the module to a class whose call keeps the sources. Everything it
makes of other arguments is plain, and every number is an instance of it. Only `type(x) is int` can tell the
difference. So a module that mentions `type` or `__class__`, and the name elsewhere than in a call, keeps the
real one.
"""

import dis
import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

from fencepost.sim.world import places, times
from fencepost.sim.world.present import is_users
from fencepost.sim.world.reachable import identity, is_class


class _Name(type):
    """Metaclass of a replacement for the number type that the class inherits from."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.__mro__[1]

    def __hash__(cls) -> int:
        return hash(cls.__mro__[1])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls not in (Whole, Decimal):
            return super().__call__(*args, **kwargs)  # a class of the user's that inherits from it
        real = cls.__mro__[1]
        if len(args) == 1 and not kwargs and isinstance(args[0], times.Tracked):
            return times.converted(args[0], real)
        return times.parsed_number(real(*args, **kwargs))


class Whole(int, metaclass=_Name):
    """Replaces `int`."""


class Decimal(float, metaclass=_Name):
    """Replaces `float`."""


_NAMES: dict[str, Any] = {"int": Whole, "float": Decimal}
for _name, _made in _NAMES.items():
    _made.__name__ = _made.__qualname__ = _name
    _made.__module__ = "builtins"
Whole.from_bytes = int.from_bytes  # type: ignore[method-assign,assignment]  # it makes plain numbers
Decimal.fromhex = float.fromhex  # type: ignore[method-assign,assignment]  # as above


def look(_program: Any, _reached: list[Any]) -> tuple[places.Originals, list[places.Place]]:
    """Return the names to bind in the modules that are loaded."""
    found: list[places.Place] = [
        (names, name, places.ABSENT, _NAMES[name])
        for names, converting in _converting()
        for name in converting
        if name not in names
    ]
    return {}, found


_Converting = list[tuple[dict[str, Any], tuple[str, ...]]]
"""Namespaces of modules, and the names to bind in each."""
_searched: tuple[list[object], _Converting] = ([], [])
"""The modules at the last search, and those of the user that convert."""


def _converting() -> _Converting:
    """Return the user's modules that convert: for every audit, and thousands of modules may be loaded."""
    global _searched
    loaded: list[object] = list(sys.modules.values())
    known, found = _searched
    if len(loaded) != len(known) or not all(map(operator.is_, loaded, known)):
        users = (module for module in loaded if isinstance(module, types.ModuleType) and is_users(module))
        found = [(vars(module), names) for module in users if (names := _convertible(module))]
        _searched = (loaded, found)
    return found


_known: dict[int, tuple[types.ModuleType, tuple[str, ...]]] = {}
"""By identity of a module: the module and the names that can be bound in it."""


def _convertible(module: types.ModuleType) -> tuple[str, ...]:
    """Return the names that the functions of a module call, where no other use shows a difference."""
    kept = _known.get(id(module))
    if kept is None or kept[0] is not module:
        codes = list(_codes(module))
        mentioned = {name for code in codes for name in code.co_names}
        tells_types = not mentioned.isdisjoint({"type", "__class__"})
        names = tuple(
            name
            for name in _NAMES
            if name in mentioned and not (tells_types and any(_uses_otherwise(code, name) for code in codes))
        )
        kept = _known[id(module)] = (module, names)
    return kept[1]


def _codes(module: types.ModuleType) -> Iterator[types.CodeType]:
    """Yield the code of the functions and methods of a module, and of those in them."""
    waiting: list[Any] = list(vars(module).values())
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if identity(value) in seen:
            continue
        seen.add(identity(value))
        if kind is types.CodeType:
            yield value
            waiting += value.co_consts
        elif kind is types.FunctionType and value.__globals__ is vars(module):
            waiting += [value.__code__, *(value.__defaults__ or ()), *(value.__closure__ or ())]
        elif kind in (staticmethod, classmethod):
            waiting.append(value.__func__)
        elif kind is property:
            waiting += [value.fget, value.fset]
        elif kind is types.CellType and value != types.CellType():
            waiting.append(value.cell_contents)
        elif kind is dict:
            waiting += value.values()
        elif kind in (list, tuple):
            waiting += value
        elif is_class(value) and value.__module__ == module.__name__:
            waiting += vars(value).values()


def _uses_otherwise(code: types.CodeType, name: str) -> bool:
    """Return True if code loads a global name and does not call it at once."""
    loads = (
        step for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL" and step.argval == name
    )
    return any(not (step.arg or 0) & 1 for step in loads)


places.lookers.append(look)
