"""`threading.local` in audited code: each thread of a world has attributes of its own.

All threads of a world run in one thread of the operating system, for which the real class keeps one set of
attributes. So `Local` takes its place, and the methods here take the place of those of its subclasses, which
cannot change their base. As in production, the main thread has what was assigned before the process began,
and every other thread begins with a call of `__init__`.
"""

import gc
import threading
from collections.abc import Iterator
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.threads.waiting import Caller, caller, outer_frame
from fencepost.sim.world.present import STEP, classify, controlled, kind_of

real_local = threading.local
_ABSENT = object()


class Local:
    """In the place of `threading.local`."""

    __slots__ = ("__dict__", "__weakref__", "_made_with")

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Local and (controlled() is None or kind_of(outer_frame()) != STEP):
            return real_local(*args, **kwargs)
        made = object.__new__(cls)
        object.__setattr__(made, "_made_with", (args, kwargs))
        _begin(made)
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        """As the real one: arguments are for subclasses."""

    def __getattribute__(self, name: str) -> Any:
        now = caller()
        return object.__getattribute__(self, name) if now is None else _get(now, self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        now = caller()
        object.__setattr__(self, name, value) if now is None else _set(now, self, name, value)

    def __delattr__(self, name: str) -> None:
        now = caller()
        object.__delattr__(self, name) if now is None else _delete(now, self, name)


def local_of(real: Any) -> Local:
    """In the place of a plain `threading.local` that was made before the run."""
    made = object.__new__(Local)
    object.__setattr__(made, "_made_with", ((), {}))
    object.__getattribute__(made, "__dict__").update(_outside(real))
    return made


def _outside(it: Any) -> dict[str, Any]:
    """Return the attributes outside of worlds."""
    owner = object if isinstance(it, Local) else real_local
    found: dict[str, Any] = owner.__getattribute__(it, "__dict__")
    return found


def _key(it: Any) -> tuple[Any, ...]:
    return (real_local, id(it))


def _begin(it: Any) -> None:
    """It was made by this thread, which calls `__init__` next."""
    now = caller()
    if now is not None:
        now.state(_key(it), lambda: (it,))  # keeps it, so that the number stays its own
        now.state((*_key(it), now.process), dict[str, Any])


def _mine(now: Caller, it: Any) -> dict[str, Any]:
    """Return the attributes that this thread sees."""
    machine = now.process.machine
    key = (*_key(it), now.process)
    found: dict[str, Any] | None = None if machine.sync is None else machine.sync.get(key)
    if found is not None:
        return found
    made_here = machine.sync is not None and _key(it) in machine.sync
    first = now.process is machine and not made_here
    mine = now.state(key, lambda: dict(_outside(it)) if first else {})
    now.state((*_key(it), "kept"), lambda: (it,))
    if not first and type(it).__init__ not in (object.__init__, Local.__init__):
        args, kwargs = _made_with(it)
        type(it).__init__(it, *args, **kwargs)
    return mine


def _made_with(it: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(it, Local):
        found: tuple[tuple[Any, ...], dict[str, Any]] = object.__getattribute__(it, "_made_with")
        return found
    # CPython visits: the class, the arguments, the named ones if there are any, a dictionary of its own.
    held = gc.get_referents(it)
    args = next((one for one in held if type(one) is tuple), ())
    named = [one for one in held if type(one) is dict]
    return args, named[0] if len(named) > 1 else {}


def _of_class(it: Any, name: str) -> Any:
    return next((vars(owner)[name] for owner in type(it).__mro__ if name in vars(owner)), _ABSENT)


def _get(now: Caller, it: Any, name: str) -> Any:
    """As `object.__getattribute__` does."""
    if name == "__dict__":
        return _mine(now, it)
    found = _of_class(it, name)
    kind = type(found)
    if found is not _ABSENT and (hasattr(kind, "__set__") or hasattr(kind, "__delete__")):
        return kind.__get__(found, it, type(it))
    mine = _mine(now, it)
    if name in mine:
        return mine[name]
    if found is _ABSENT:
        raise AttributeError(f"{type(it).__name__!r} object has no attribute {name!r}", name=name, obj=it)
    return kind.__get__(found, it, type(it)) if hasattr(kind, "__get__") else found


def _set(now: Caller, it: Any, name: str, value: Any) -> None:
    found = _of_class(it, name)
    if found is not _ABSENT and hasattr(type(found), "__set__"):
        type(found).__set__(found, it, value)
    else:
        _mine(now, it)[name] = value


def _delete(now: Caller, it: Any, name: str) -> None:
    found = _of_class(it, name)
    if found is not _ABSENT and hasattr(type(found), "__delete__"):
        type(found).__delete__(found, it)
        return
    try:
        del _mine(now, it)[name]
    except KeyError:
        raise AttributeError(name) from None


# Subclasses of the real one.


def _getattribute(self: Any, name: str) -> Any:
    now = caller()
    return real_local.__getattribute__(self, name) if now is None else _get(now, self, name)


def _setattr(self: Any, name: str, value: Any) -> None:
    now = caller()
    real_local.__setattr__(self, name, value) if now is None else _set(now, self, name, value)


def _delattr(self: Any, name: str) -> None:
    now = caller()
    real_local.__delattr__(self, name) if now is None else _delete(now, self, name)


def _new(real: Any) -> Any:
    def replacement(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = real(cls, *args, **kwargs)
        _begin(made)
        return made

    return staticmethod(replacement)


def of_subclasses() -> Iterator[tuple[type, str, Any]]:
    """Yield the replacements of the subclasses of audited code: class, name, replacement."""
    for owner in real_local.__subclasses__():
        if classify(owner.__module__) != STEP:
            continue
        for name, replacement in (
            ("__getattribute__", _getattribute),
            ("__setattr__", _setattr),
            ("__delattr__", _delattr),
        ):
            if name in vars(owner):
                raise Misuse(
                    f"the threading.local {owner.__module__}.{owner.__qualname__} has a {name} of its own, "
                    "which a world cannot control"
                )
            yield owner, name, replacement
        yield owner, "__new__", _new(owner.__new__)
