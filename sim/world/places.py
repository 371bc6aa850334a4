"""Where clocks, randomness, sockets and threads are bound to names, and what is put there while worlds run.

A name may have been copied: `from time import sleep` at the top of a module, or `def again(sleep=sleep)`. So
every loaded module is searched for the real thing, one level deep, once. Besides, everything that the program
reaches is searched however deep it lies: a class, a dictionary, a closure, an object that keeps its clock.
After a run the originals are restored. A replacement that outlives the run (in a module imported during it)
behaves like the real one.

Putting all of this in place takes longer than a small run, so a search holds it from run to run.
"""

import _frozen_importlib
import functools
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fencepost.sim.world import connections, escapes, present, replacements
from fencepost.sim.world.present import REAL, classify, is_users
from fencepost.sim.world.reachable import identity, is_class, reachable, slots
from fencepost.sim.world.run import RunState

Place = tuple[Any, Any, Any, Any]
"""A dictionary, list, class, function, cell or object; the name there; the real thing and its replacement."""

sources: list[Callable[[], Iterator[tuple[Any, str, Any]]]] = [
    *replacements.SOURCES,
    escapes.replacements,
    connections.replacements,
]

lookers: list[Callable[[Any, list[Any]], tuple["Originals", list[Place]]]] = []
"""Each finds the objects that need a replacement of their own, and other places to replace something in.

It is called with a program, and with everything that the program reaches.
"""

removers: list[Callable[[], None]] = []
"""Called when the replacements are taken away."""

_known: dict[tuple[int, str], Place] = {}
"""Everything that has a replacement, where it is defined."""
_of_modules: list[Place] = []
"""Of names in modules: dictionaries, which are most of them."""
_others: list[Place] = []
_of_program: list[Place] = []
_searched = (0, 0)
"""Numbers of modules and sources at the last search."""
_applied = False
_holders = 0


def enter(run: RunState, program: Any) -> None:
    """`world` is in control of this thread, until it leaves."""
    present.push(run)
    if not _applied or _searched != _now():
        apply(program)


def leave(run: RunState) -> None:
    present.drop(run)
    if _applied and not _holders and not present.anybody():
        _remove()


@contextmanager
def held(program: Any) -> Iterator[None]:
    """Keep the replacements in place for a search; between its worlds they call the originals."""
    global _holders
    _holders += 1
    try:
        if not _applied:
            apply(program)
        yield
    finally:
        _holders -= 1
        if not _holders and not present.anybody():
            _remove()


def apply(program: Any = None) -> None:
    """Put every replacement in its places."""
    global _applied
    if _applied and _searched == _now():
        return
    if _searched != _now():
        _restore([*_of_modules, *_others])  # what is found must be the real things
        _search()
    if not _applied:
        _of_program.extend(_kept(program))
    _applied = True
    _put()


def _put() -> None:
    for target, name, _, replacement in _of_modules:
        target[name] = replacement
    for target, name, _, replacement in (*_others, *_of_program):
        set_binding(target, name, replacement)


_real_load = _frozen_importlib._find_and_load  # type: ignore[attr-defined]  # the stubs leave it out
_loading = False


def _load(name: str, import_: Any) -> Any:
    """A module is loaded with the real things: extension modules accept no other classes.

    Bindings in what was loaded are replaced at once: a process may import its SDK in the middle of a run.
    """
    global _loading
    if not _applied or _loading:
        return _real_load(name, import_)
    _loading, known = True, set(sys.modules)
    _restore([*_of_modules, *_others, *_of_program])
    try:
        return _real_load(name, import_)
    finally:
        loaded = [sys.modules[found] for found in sys.modules.keys() - known]
        if not all(map(is_users, loaded)):
            _search()
        for module in filter(is_users, loaded):
            _of_program.extend(_kept(module))
        _loading = False
        _put()


def _loader() -> Iterator[tuple[Any, str, Any]]:
    yield _frozen_importlib, "_find_and_load", _load


def _remove() -> None:
    global _applied
    _applied = False
    _restore([*_of_modules, *_others, *_of_program])
    _of_program.clear()
    for remove in removers:
        remove()


def _restore(places: list[Place]) -> None:
    """Put the real things back, except where other code has bound something meanwhile."""
    for target, name, real, replacement in places:
        if _get(target, name) is replacement:
            set_binding(target, name, real)


sources.append(_loader)


def _now() -> tuple[int, int]:
    return len(sys.modules), len(sources)


ABSENT = object()
_MAPPINGS = frozenset({dict, defaultdict, OrderedDict})


class Attribute(str):
    """Of an object whose other names are keys."""

    __slots__ = ()


def set_binding(target: Any, name: Any, value: Any) -> None:
    if value is ABSENT and type(target) is dict:
        del target[name]
    elif value is ABSENT:
        delattr(target, name)
    elif type(name) is Attribute:
        setattr(target, name, value)
    elif type(target) in _MAPPINGS:
        dict.__setitem__(target, name, value)
    elif type(name) is int:
        target[name] = value
    elif type(target) is functools.partial:
        func, args = (value, target.args) if name == "func" else (target.func, value)
        state = (func, args, target.keywords, vars(target))
        target.__setstate__(state)  # type: ignore[attr-defined]  # the stubs leave it out
    elif isinstance(target, type | types.FunctionType | types.CellType):
        setattr(target, name, value)
    else:
        object.__setattr__(target, name, value)  # also where the class forbids it


def _get(target: Any, name: Any) -> Any:
    try:
        if type(name) is not Attribute and (type(name) is int or type(target) in _MAPPINGS):
            return target[name]
        return vars(target).get(name, ABSENT) if isinstance(target, type) else getattr(target, name)
    except (LookupError, AttributeError, ValueError):
        return ABSENT


def _search() -> None:
    """Find where the modules bind everything that has a replacement."""
    global _searched
    for source in sources:
        for owner, name, replacement in source():
            target = vars(owner) if isinstance(owner, types.ModuleType) else owner
            if (identity(target), name) not in _known:
                _known[identity(target), name] = (target, name, _get(target, name), replacement)
    originals = _originals()
    places = dict(_known)
    loaded: list[object] = list(sys.modules.values())
    for module in loaded:
        if isinstance(module, types.ModuleType) and classify(module.__name__) != REAL:
            for place in _copies(module, originals):
                places.setdefault((identity(place[0]), place[1]), place)
    _of_modules[:] = [place for place in places.values() if type(place[0]) is dict]
    _others[:] = [place for place in places.values() if type(place[0]) is not dict]
    _searched = _now()


Originals = dict[int, tuple[Any, Any]]
"""By identity, the real thing and its replacement."""


def _originals() -> Originals:
    return {
        identity(real): (real, replacement)
        for target, _, real, replacement in _known.values()
        if real is not ABSENT and not isinstance(target, type)
    }


def _copies(module: types.ModuleType, originals: Originals) -> Iterator[Place]:
    names = vars(module)
    for name, value in list(names.items()):
        found = originals.get(identity(value))
        if found is not None and found[0] is value:
            yield names, name, *found
        elif type(value) is types.FunctionType and value.__module__ == module.__name__:
            yield from _defaults(value, originals)
        elif is_class(value) and value.__module__ == module.__name__:
            for method in list(vars(value).values()):
                function = method.__func__ if type(method) in (staticmethod, classmethod) else method
                if type(function) is types.FunctionType:
                    yield from _defaults(function, originals)


def _defaults(function: Any, originals: Originals) -> Iterator[Place]:
    given = function.__defaults__
    if given and any(identity(value) in originals for value in given):
        yield function, "__defaults__", given, _replaced(given, originals)
    named = function.__kwdefaults__
    if named and any(identity(value) in originals for value in named.values()):
        stood = {k: originals[identity(v)][1] if identity(v) in originals else v for k, v in named.items()}
        yield function, "__kwdefaults__", named, stood


def _replaced(values: Any, originals: Originals) -> Any:
    return tuple(originals[identity(value)][1] if identity(value) in originals else value for value in values)


# Objects that the program reaches.


def _kept(program: Any) -> list[Place]:
    """Where objects that the program reaches keep a real thing."""
    originals = _originals()
    more: list[Place] = []
    everything = reachable(program)
    for look in lookers:
        made, others = look(program, everything)
        originals |= made
        more += others
    found = [one for one in everything if identity(one) not in originals]
    wrapped = [one for one in found if type(one) in WRAPPERS]
    size = -1
    while size != len(originals):  # a tuple in a tuple takes another round
        size = len(originals)
        for value in wrapped:
            replacement = None if identity(value) in originals else WRAPPERS[type(value)](value, originals)
            if replacement is not None:
                originals[identity(value)] = (value, replacement)
    done = {(identity(target), name) for target, name, _, _ in (*_of_modules, *_others, *_of_program)}
    return more + [
        (target, name, value, _fitting(target, originals[identity(value)][1]))
        for target in found
        for name, value in (list(target.items()) if type(target) is dict else bindings(target))
        if identity(value) in originals and (identity(target), name) not in done
    ]


def _builtin(value: Any, originals: Originals) -> Any:
    """`datetime.now` and its like are made anew whenever they are looked up."""
    owner = originals.get(identity(getattr(value, "__self__", None)))
    if owner is not None:
        return getattr(owner[1], value.__name__, None)
    return replacements.of_method(getattr(value, "__self__", None), value.__name__)


def _tuple(value: Any, originals: Originals) -> Any:
    return _replaced(value, originals) if any(identity(one) in originals for one in value) else None


def _static(value: Any, originals: Originals) -> Any:
    found = originals.get(identity(value.__func__))
    return None if found is None else type(value)(found[1])


WRAPPERS: dict[type, Callable[[Any, Originals], Any]] = {
    types.BuiltinFunctionType: _builtin,
    tuple: _tuple,
    staticmethod: _static,
}


def bindings(target: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the names of what an object holds and lets be replaced."""
    kind = type(target)
    if kind in _MAPPINGS or is_class(target):
        yield from list(vars(target).items() if is_class(target) else dict.items(target))
        if kind is defaultdict:
            yield Attribute("default_factory"), target.default_factory
    elif kind in (list, deque):
        yield from enumerate(target)
    elif kind is types.FunctionType:
        yield "__defaults__", target.__defaults__
    elif kind is types.CellType:
        try:
            yield "cell_contents", target.cell_contents
        except ValueError:
            return
    elif kind is functools.partial:
        yield "func", target.func
        yield "args", target.args
    else:
        yield from slots(target).items()


def _fitting(target: Any, replacement: Any) -> Any:
    """In a class a Python function would become a method, which a clock written in C does not."""
    function = is_class(target) and isinstance(replacement, types.FunctionType)
    return staticmethod(replacement) if function else replacement
