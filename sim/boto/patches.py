"""All stand-ins, put in place while a world runs and taken away when the last one ends.

A name may have been copied: `from time import sleep` at the top of a module, or `def again(sleep=sleep)`.
So every loaded module is searched for the real thing, once; what it has bound to a name or given as a
default is replaced and put back like the original. A stand-in that is kept by somebody beyond the run (a
module imported during it) does what the real one does.
"""

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.sim.boto import chance, clocks, escapes
from fencepost.sim.boto.present import REAL, _classify

Place = tuple[Any, str, Any, Any]
"""A dictionary, class or function; the name there; the real thing and its stand-in."""

sources: list[Callable[[], Iterator[tuple[Any, str, Any]]]] = [
    clocks.stand_ins,
    chance.stand_ins,
    escapes.stand_ins,
]
_places: list[Place] = []
"""Of names in modules: dictionaries, which are most of them."""
_others: list[Place] = []
_loaded = 0
"""How many modules there were when we searched."""


def apply() -> None:
    """Put every stand-in in its places."""
    if _loaded != len(sys.modules):
        _search()
    for target, name, _, stand_in in _places:
        target[name] = stand_in
    for target, name, _, stand_in in _others:
        _set(target, name, stand_in)


def remove() -> None:
    """Put everything back. What somebody else has bound meanwhile stays."""
    for target, name, real, stand_in in _places:
        if target.get(name) is stand_in:
            target[name] = real
    for target, name, real, stand_in in _others:
        if _get(target, name) is stand_in:
            _set(target, name, real)


def _set(target: Any, name: str, value: Any) -> None:
    if value is _ABSENT:
        delattr(target, name)
    else:
        setattr(target, name, value)


def _get(target: Any, name: str) -> Any:
    if type(target) is dict:
        return target.get(name)
    return vars(target).get(name, _ABSENT) if isinstance(target, type) else getattr(target, name)


_ABSENT = object()


def _search() -> None:
    """Find where everything that has a stand-in is bound."""
    global _loaded
    originals: dict[int, tuple[Any, Any]] = {}
    places: dict[tuple[int, str], Place] = {}
    for source in sources:
        for owner, name, stand_in in source():
            target = vars(owner) if isinstance(owner, types.ModuleType) else owner
            real = _get(target, name)
            places[id(target), name] = (target, name, real, stand_in)
            if real is not _ABSENT and not isinstance(owner, type):
                originals.setdefault(id(real), (real, stand_in))
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType) and _classify(module.__name__) != REAL:
            for place in _copies(module, originals):
                places.setdefault((id(place[0]), place[1]), place)
    _places[:] = [place for place in places.values() if type(place[0]) is dict]
    _others[:] = [place for place in places.values() if type(place[0]) is not dict]
    _loaded = len(sys.modules)


def _copies(module: types.ModuleType, originals: dict[int, tuple[Any, Any]]) -> Iterator[Place]:
    names = vars(module)
    for name, value in list(names.items()):
        found = originals.get(id(value))
        if found is not None and found[0] is value:
            yield names, name, *found
        elif type(value) is types.FunctionType and value.__module__ == module.__name__:
            yield from _defaults(value, originals)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for method in list(vars(value).values()):
                function = method.__func__ if type(method) in (staticmethod, classmethod) else method
                if type(function) is types.FunctionType:
                    yield from _defaults(function, originals)


def _defaults(function: Any, originals: dict[int, tuple[Any, Any]]) -> Iterator[Place]:
    given = function.__defaults__
    if given and any(id(value) in originals for value in given):
        stand_ins = tuple(originals[id(value)][1] if id(value) in originals else value for value in given)
        yield function, "__defaults__", given, stand_ins
    named = function.__kwdefaults__
    if named and any(id(value) in originals for value in named.values()):
        stood = {k: originals[id(v)][1] if id(v) in originals else v for k, v in named.items()}
        yield function, "__kwdefaults__", named, stood
