"""Objects that code can reach: those in closures, defaults, containers and modules of the user.

The walk starts at the program and goes through the modules of the user, and through objects of every class.
It does not enter modules and classes of libraries, whose number is large: `places` searches those one level
deep.
"""

import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from fencepost.sim.world.present import is_users, is_users_class

OBJECTS_MAX = 30_000
"""A program that reaches more than this is searched to here."""

identity: Callable[[Any], int] = object.__hash__
"""In the place of `id`, every call of which is an audit event, and the walk makes thousands."""
_CACHED = functools._lru_cache_wrapper
_LOADING = ("__loader__", "__spec__")
"""Names of a module that belong to the import system."""
_ATOMS = frozenset({str, bytes, int, float, bool, complex, type(None), types.CodeType, range, type(...)})


def reachable(root: Any, enter: Callable[[Any], bool] = lambda _: True) -> list[Any]:
    """Return every object that `root` leads to and that `enter` lets in, each once, the nearest first."""
    found: list[Any] = [root]
    _walk(found, enter, OBJECTS_MAX)
    return found


def follow(roots: list[Any], enter: Callable[[Any], bool], most: int) -> list[Any] | None:
    """Return the same from several objects that `enter` lets in; None where it is more than `most`."""
    found = [one for one in roots if type(one) not in _ATOMS and not _closed(one) and enter(one)]
    _walk(found, enter, most)
    return None if len(found) > most else found


def _walk(found: list[Any], enter: Callable[[Any], bool], most: int) -> None:
    libraries = _library_names()
    seen = {identity(one) for one in found}
    sorts: dict[type, _Sort] = {}
    for place in found:  # the list grows behind the loop
        if len(found) > most:
            break
        for child in _children(place, sorts):
            kind = type(child)
            if kind in _ATOMS:
                continue
            name = identity(child)
            if name in seen or name in libraries:
                continue
            seen.add(name)
            sort = sorts.get(kind)
            if sort is None:
                sort = sorts[kind] = _Sort(kind)
            if not (sort.is_special and _closed(child)) and enter(child):
                found.append(child)


class _Sort:
    """Facts about a type, which one walk asks for again and again."""

    __slots__ = ("has_namespace", "is_class", "is_special")

    def __init__(self, kind: type) -> None:
        self.is_class = issubclass(kind, type)
        self.is_special = self.is_class or issubclass(kind, types.ModuleType) or _is_ours(kind)
        """True if the walk may end before an object of the type."""
        self.has_namespace = any("__dict__" in owner.__dict__ for owner in kind.__mro__)


_libraries: tuple[int, frozenset[int]] = (0, frozenset())
"""Number of modules at the last search, and the identities of the namespaces of libraries."""


def _library_names() -> frozenset[int]:
    global _libraries
    if _libraries[0] != len(sys.modules):
        loaded: list[object] = list(sys.modules.values())
        names = frozenset(
            identity(vars(module))
            for module in loaded
            if isinstance(module, types.ModuleType) and not is_users(module)
        )
        _libraries = (len(sys.modules), names)
    return _libraries[1]


def _children(value: Any, sorts: dict[type, _Sort]) -> list[Any]:
    kind = type(value)
    if kind is dict:
        if "__loader__" in value:  # in a test, pytest loads modules: the whole session
            return [one for name, one in value.items() if name not in _LOADING]
        return gc.get_referents(value)
    sort = sorts.get(kind)
    if sort is None:
        sort = sorts[kind] = _Sort(kind)
    if sort.is_class:
        return [*vars(value).values(), *value.__bases__]
    found = _referents_of_cached(value) if kind is _CACHED else gc.get_referents(value)
    own = namespace(value) if sort.has_namespace else None
    return found if own is None else [*found, own]


def _referents_of_cached(function: Any) -> list[Any]:
    """Without the dictionary that the cache keeps: a write to it would corrupt the cache's own links."""
    found = gc.get_referents(function)
    # CPython visits: results, the dictionary, the function, a mark, two types, of which this is the second.
    store = found[len(found) - found[::-1].index(functools._CacheInfo) - 5]
    assert type(store) is dict
    kept = [one for one in found if one is not store]
    for result in store.values():
        kept += gc.get_referents(result) if type(result).__module__ == "functools" else [result]
    return kept


def results_of(function: Any) -> list[Any]:
    """Return the results that a cached function keeps."""
    found = gc.get_referents(function)
    at = len(found) - found[::-1].index(functools._CacheInfo) - 5
    assert type(found[at]) is dict
    # A cache with a limit keeps links: CPython visits the key, the result and the type of each.
    links = [found[i - 1] for i in range(1, at) if getattr(found[i], "__name__", "") == "_lru_list_elem"]
    return links or list(found[at].values())


def _closed(value: Any) -> bool:
    """Return True if the walk ends before it."""
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        return not is_users(value)
    if is_class(value):
        return not is_users_class(value)
    return _is_ours(kind)


def _is_ours(kind: type) -> bool:
    return str(kind.__module__).startswith("fencepost.sim.world")


# No code of the object may run: a proxy would run its target.


def is_class(value: Any) -> bool:
    return issubclass(type(value), type)


def namespace(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object; None when it has none of its own, or computes them."""
    for owner in type(value).__mro__:
        found = owner.__dict__.get("__dict__")
        if found is not None:
            own = found.__get__(value) if type(found) is types.GetSetDescriptorType else None
            return own if type(own) is dict else None
    return None


def slots(value: Any) -> dict[str, Any]:
    """Return the values in the slots of an object, by name."""
    found = {}
    for name, member in _members(type(value)):
        try:
            found[name] = member.__get__(value)
        except AttributeError:
            continue  # nothing was assigned
    return found


_known_members: WeakKeyDictionary[type, list[tuple[str, Any]]] = WeakKeyDictionary()


def _members(kind: type) -> list[tuple[str, Any]]:
    """Return the slots of a class, by name: a class never gets others."""
    found = _known_members.get(kind)
    if found is None:
        found = _known_members[kind] = [
            (name, member)
            for owner in kind.__mro__
            for name, member in (owner.__dict__.items() if "__slots__" in owner.__dict__ else ())
            if type(member) is types.MemberDescriptorType
        ]
    return found
