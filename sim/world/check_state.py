"""Detection of checks that keep state from one call to the next.

A search does not call a check while it repeats the beginning of a run, and it merges runs that reach equal
states. So a check must be a function of what it is given. Its function could keep state in its closure, its
default arguments, its attributes, the globals that it names, and the object that it is bound to. The same
holds for the functions of the user that it calls. `CheckState` takes these values and compares them before
and after a call.

It does not see what a function keeps outside of Python's data: in a file, or in an object of a library.
"""

import dis
import enum
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.world.present import is_library_file

VALUES_MAX = 400
"""Values looked at for one check, so that a large table costs little."""
_PLAIN = (int, float, complex, str, bytes, bool, type(None), enum.Enum, range)


class CheckState:
    """State that one check could keep between two calls."""

    def __init__(self, check: Callable[..., Any]) -> None:
        self._check = check
        self.empty = _is_empty(check)

    def take(self) -> dict[str, Any]:
        """Return the present values by name, as values that can be compared."""
        left = [VALUES_MAX]
        return {name: _frozen(value, left, ()) for name, value in _roots(self._check, set())}

    def compare(self, before: dict[str, Any], property_name: str, when: str) -> None:
        """Raise the error that names the function and what to use instead, if a value changed."""
        for variable, value in self.take().items():
            if before.get(variable, value) != value:
                raise Misuse(
                    f"the check {_name(self._check)} of {property_name!r} keeps state: {variable} changed "
                    f"{when}, but the search repeats and merges runs; declare "
                    f"world.monitor({property_name!r}, state, step) instead, or "
                    f"world.step_property({property_name!r}, check) to compare neighbouring states"
                )


def _is_empty(check: Any) -> bool:
    """Return True if there is nothing to compare; remembered where that depends on the code alone."""
    code = getattr(check, "__code__", None)
    if code is None or check.__closure__ or check.__defaults__ or check.__kwdefaults__ or check.__dict__:
        return not any(True for _ in _roots(check, set()))
    found = _empty.get(code)
    if found is None:
        found = _empty[code] = not any(True for _ in _roots(check, set()))
    return found


_empty: dict[types.CodeType, bool] = {}


def _roots(check: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Named values that a call of `check` can change."""
    if id(check) in seen:
        return
    seen.add(id(check))
    if isinstance(check, functools.partial):
        yield from _values((f"an argument of {_name(check.func)}", value) for value in check.args)
        yield from _values((key, value) for key, value in check.keywords.items())
        yield from _roots(check.func, seen)
    elif isinstance(check, types.MethodType):
        yield from _attributes(check.__self__)
        yield from _roots(check.__func__, seen)
    elif isinstance(check, types.FunctionType):
        if not _is_ours(check.__module__, check.__code__.co_filename):
            yield from _of_function(check, seen)
    elif not isinstance(check, type) and callable(check) and hasattr(check, "__dict__"):
        yield from _attributes(check)
        yield from _roots(type(check).__call__, seen)


def _of_function(function: types.FunctionType, seen: set[int]) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not bound yet
        yield from _followed(name, value, seen)
    for name, value in zip(
        code.co_varnames[code.co_argcount - len(function.__defaults__ or ()) :],
        function.__defaults__ or (),
        strict=False,
    ):
        yield from _followed(name, value, seen)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield from _followed(name, value, seen)
    if function.__dict__ or _stores_attributes(code):
        yield f"an attribute of {_name(function)}", _own_attributes(function)
    namespace = function.__globals__
    for name in _global_names(code):
        if name in namespace:
            yield from _followed(name, namespace[name], seen)


def _own_attributes(function: types.FunctionType) -> dict[str, Any]:
    return {name: value for name, value in function.__dict__.items() if not name.startswith("__")}


@functools.lru_cache(2048)
def _stores_attributes(code: types.CodeType) -> bool:
    return any(step.opname == "STORE_ATTR" for step in dis.get_instructions(code))


def _followed(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    kind = type(value)  # a proxy runs code when its class is looked at
    if issubclass(kind, types.FunctionType | types.MethodType | functools.partial):
        yield from _roots(value, seen)
    elif issubclass(kind, type):
        if not _is_ours(value.__module__, getattr(sys.modules.get(value.__module__), "__file__", None)):
            for attribute, kept in vars(value).items():
                if not attribute.startswith("__") and not callable(kept):
                    yield from _values([(f"{name}.{attribute}", kept)])
    elif not issubclass(kind, types.ModuleType):
        yield from _values([(name, value)])


def _values(named: Any) -> Iterator[tuple[str, Any]]:
    """Without objects of libraries, which have no state that could be compared."""
    for name, value in named:
        if not hasattr(value, "__dict__") or _has_state(value):
            yield name, value


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    if _has_state(owner):
        for name, value in vars(owner).items():
            yield f"{type(owner).__name__}.{name}", value


def _has_state(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, types.GeneratorType) or hasattr(value, "getstate"):
        return True
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return hasattr(value, "__dict__") and not _is_ours(kind.__module__, file)


@functools.lru_cache(2048)
def _is_ours(module: str, file: str | None) -> bool:
    """Return True if code belongs to the harness or a library, which change as they like."""
    if module.startswith(("fencepost.sim.", "fencepost.impl.")):
        return True
    return module in sys.stdlib_module_names or (file is not None and is_library_file(file))


@functools.lru_cache(2048)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    nested = [_global_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return tuple(dict.fromkeys((*code.co_names, *(name for names in nested for name in names))))


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _frozen(value: Any, left: list[int], above: tuple[int, ...]) -> Any:
    """Return a value that is equal as long as nothing in it changed."""
    left[0] -= 1
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if left[0] < 0 or id(value) in above:
        return type(value)
    above = (*above, id(value))
    if isinstance(value, dict):
        return {_key(key): _frozen(item, left, above) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [type(value), *(_frozen(item, left, above) for item in value)]
    if isinstance(value, set | frozenset | bytearray):
        return (type(value), bytes(value) if isinstance(value, bytearray) else {_key(item) for item in value})
    if hasattr(value, "getstate"):  # a generator of random numbers
        return value.getstate()
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return None if frame is None else (frame.f_lasti, _frozen(dict(frame.f_locals), left, above))
    if type(value).__module__ == "itertools":
        return repr(value)
    if type(value).__module__ == "builtins":
        hint = getattr(value, "__length_hint__", None)  # of an iterator
        return (type(value), hint() if hint else None)
    if type(value).__module__ == "collections":
        return (type(value), [_frozen(item, left, above) for item in value])
    if _has_state(value):
        return {name: _frozen(item, left, above) for name, item in vars(value).items()}
    return type(value)


def _key(value: Any) -> Any:
    return value if isinstance(value, (*_PLAIN, tuple)) else id(value)
