"""Locks, queues and locals that were made before the run: when a module was loaded, or by the set-up.

Those that are written in C wait in the interpreter, where no world can let another thread go on. So each one
that the program reaches is replaced while worlds run. The state of the replacement is kept with the process
that uses it (see `waiting`): every process of every run begins with the state that the real one had.

Where one lies in something that cannot be changed (a named tuple, a set, an object written in C) the audit
is refused with its place: it would not be noticed that threads exclude each other.
"""

import _thread
import gc
import queue
import threading
import types
from collections.abc import Callable
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.threads.locals import local_of, of_subclasses, real_local
from fencepost.sim.threads.locks import Lock, RLock
from fencepost.sim.threads.queues import SimpleQueue, real_simple_queue
from fencepost.sim.threads.waiting import caller
from fencepost.sim.world import places
from fencepost.sim.world.present import STEP, classify
from fencepost.sim.world.reachable import identity, is_class, namespace, reachable
from fencepost.sim.world.run import RunState

_MAKERS: dict[type, Callable[[str, Any], Any]] = {
    _thread.LockType: Lock,
    type(threading.RLock()): RLock,
    real_simple_queue: SimpleQueue,
    real_local: lambda _, real: local_of(real),
}
_OURS = (threading.Condition, queue.Queue)
"""Of the standard library: users acquire the locks of these."""


def look(program: Any, _reached: list[Any]) -> tuple[places.Originals, list[places.Place]]:
    """By identity, the objects that are replaced with their replacements; and the methods that are."""
    found = reachable(program, _is_entered)
    names = _names(found) if any(type(one) in _MAKERS for one in found) else {}
    replacements: places.Originals = {}
    for one in found:
        make = _MAKERS.get(type(one))
        if make is not None:
            kept = _made.get(identity(one))
            if kept is None or kept[0] is not one:
                kept = _made[identity(one)] = (one, make(names.get(identity(one), type(one).__name__), one))
            replacements[identity(one)] = kept
    _refuse_others(found, replacements, names)
    methods = [
        (owner, name, vars(owner).get(name, places.ABSENT), replacement)
        for owner, name, replacement in of_subclasses()
    ]
    return replacements, methods


_made: places.Originals = {}
"""A replacement is the same in every audit: a module that is loaded in a run may copy it from another."""


def _is_entered(value: Any) -> bool:
    """Locks of the harness, of the SDK and of loggers are never held where a thread can stop."""
    kind = type(value)
    return (
        issubclass(kind, _OURS)
        or is_class(value)
        or kind in _MAKERS
        or (classify(str(kind.__module__)) == STEP and not str(kind.__module__).startswith("_pytest"))
    )


def _names(found: list[Any]) -> dict[int, str]:
    """Return the names that the code gives to locks, each name once."""
    names: dict[int, str] = {}
    counts: dict[str, int] = {}
    for target in found:
        for name, value in places.bindings(target):
            if type(value) in _MAKERS and identity(value) not in names:
                owner = f"{target.__qualname__}." if is_class(target) else ""
                text = f"{owner}{name}" if isinstance(name, str) else type(value).__name__
                counts[text] = counts.get(text, 0) + 1
                names[identity(value)] = text if counts[text] == 1 else f"{text}-{counts[text]}"
    return names


_KNOWN = (*places.WRAPPERS, types.FunctionType, types.FrameType, types.MethodType)
"""Types that refer to a lock and are made anew, or are searched in another way."""


def _refuse_others(found: list[Any], replacements: places.Originals, names: dict[int, str]) -> None:
    if not replacements:
        return
    for target in found:
        if type(target) in _KNOWN or identity(target) in replacements:
            continue
        held = [one for one in gc.get_referents(target) if identity(one) in replacements]
        if held:
            # From Python 3.13 on, an object refers to the values of its namespace beside the namespace.
            own = (namespace(target) or {}).values()
            bound = {identity(value) for value in (*own, *(value for _, value in places.bindings(target)))}
            for one in held:
                if identity(one) not in bound:
                    raise Misuse(
                        f"a {type(target).__qualname__} of {_module_of(found, target)} has a "
                        f"{type(one).__qualname__}{_called(names, one)} that was made before the run, and it "
                        "cannot be replaced there: make it when the process runs, or keep it in a variable"
                    )


def _called(names: dict[int, str], one: Any) -> str:
    return f" ({names[identity(one)]})" if identity(one) in names else ""


def _module_of(found: list[Any], target: Any) -> str:
    """Return the module, or the class, that has a name for it."""
    for place in found:
        for name, value in places.bindings(place):
            if value is target and isinstance(name, str):
                module = place.get("__name__") if type(place) is dict else getattr(place, "__module__", None)
                return f"{module or type(place).__qualname__} ({name})"
    return "the program"


def name_of_new(run: RunState, kind: str) -> str:
    """Return the name of one that a thread makes, or the set-up of the program."""
    now = caller()
    if now is not None:
        return now.number(kind)
    return run.name_lock(kind)
