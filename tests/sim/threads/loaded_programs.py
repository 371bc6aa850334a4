"""Processes whose locks, events, queues and locals were made when this module was loaded."""

import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from fencepost.impl.store import ANYTHING

_lock = threading.Lock()
_reentrant = threading.RLock()
_condition = threading.Condition()
_semaphore = threading.Semaphore(1)
_nested = {"locks": [(threading.Lock(), "of a tuple")]}
_of_keys: Any = defaultdict(threading.Lock)
_own = threading.local()
_own.value = "loaded"
_event = threading.Event()
_queue: Any = queue.Queue()
_simple: Any = queue.SimpleQueue()
_simple.put("loaded")
_pool = ThreadPoolExecutor(2)
_shut = ThreadPoolExecutor(1)


class OfClass:
    lock = threading.Lock()


@dataclass
class OfField:
    lock: Any = field(default_factory=threading.Lock)
    count: int = 0


@dataclass(slots=True, frozen=True)
class OfSlot:
    lock: Any = field(default_factory=threading.RLock)


_of_slot = OfSlot()


def _by_default(lock: Any = threading.Lock()) -> Any:  # noqa: B008 - what is tested
    return lock


def _by_keyword(*, lock: Any = threading.RLock()) -> Any:  # noqa: B008 - what is tested
    return lock


_bound = partial(_by_default, threading.Lock())


class _Methods:
    """Uses a lock by methods that were taken from it."""

    def __init__(self, lock: Any) -> None:
        self.take, self.give = lock.acquire, lock.release

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *_: object) -> None:
        self.give()


_methods = _Methods(threading.Lock())
_methods_of_condition = _Methods(threading.Condition())

GUARDS: dict[str, Callable[[], Any]] = {
    "Lock": lambda: _lock,
    "RLock": lambda: _reentrant,
    "Condition": lambda: _condition,
    "Semaphore": lambda: _semaphore,
    "in containers": lambda: _nested["locks"][0][0],
    "defaultdict": lambda: _of_keys["key"],
    "class attribute": lambda: OfClass.lock,
    "slot": lambda: _of_slot.lock,
    "default argument": _by_default,
    "default of a keyword": _by_keyword,
    "argument of partial": _bound,
    "methods": lambda: _methods,
    "methods of a condition": lambda: _methods_of_condition,
}


def excluded(guard: Callable[[], Any], store: Any) -> int:
    """Two threads count under the guard."""
    count = 0

    def add(key: str) -> None:
        nonlocal count
        with guard():
            seen = count
            store.put(key, b"", when=ANYTHING)
            count = seen + 1

    thread = threading.Thread(target=add, args=("a",))
    thread.start()
    add("b")
    thread.join()
    return count


def joined_inside(guard: Callable[[], Any], store: Any) -> None:
    """Waits for a thread that needs the guard."""

    def add() -> None:
        with guard():
            pass

    thread = threading.Thread(target=add)
    thread.start()
    with guard():
        thread.join()


def default_factory(store: Any) -> int:
    """A lock of a field that a dataclass makes in the run."""
    found = OfField()

    def add(key: str) -> None:
        with found.lock:
            seen = found.count
            store.put(key, b"", when=ANYTHING)
            found.count = seen + 1

    thread = threading.Thread(target=add, args=("a",))
    thread.start()
    add("b")
    thread.join()
    return found.count


def event(store: Any, *, early: bool = False) -> bool:
    def work() -> None:
        if early:
            _event.set()
        store.put("a", b"", when=ANYTHING)
        _event.set()

    threading.Thread(target=work).start()
    _event.wait()
    return len(store.list("a").objects) == 1


def items(store: Any, source: Any = None, *, ends: bool = True) -> list[str]:
    def work() -> None:
        source.put("a")
        if ends:
            source.put("end")

    threading.Thread(target=work).start()
    found = []
    while (item := source.get()) != "end":
        found.append(item)
    return found


def from_queue(store: Any, *, ends: bool = True) -> list[str]:
    return items(store, _queue, ends=ends)


def from_simple_queue(store: Any, *, ends: bool = True) -> list[str]:
    return items(store, _simple, ends=ends)


def own(store: Any) -> tuple[Any, Any]:
    """What the other thread sees, and what this one sees afterwards."""
    seen: list[Any] = []

    def work() -> None:
        seen.append(getattr(_own, "value", None))
        _own.value = "other"

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return seen[0], _own.value


class Numbered(threading.local):
    kind = "numbered"

    def __init__(self, first: int) -> None:
        self.number = first

    @property
    def twice(self) -> int:
        return 2 * self.number


_numbered = Numbered(1)
_numbered.number = 5


def own_of_subclass(store: Any, made: Any = None) -> list[Any]:
    it = made() if made is not None else _numbered
    seen: list[Any] = []

    def work() -> None:
        seen.extend([it.kind, it.twice])
        it.number += 10
        seen.append(sorted(vars(it)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return [*seen, it.number]


def own_made_by_the_run(store: Any) -> list[Any]:
    return own_of_subclass(store, lambda: Numbered(1))


def pooled(store: Any) -> int:
    """Counts without a lock, in a pool of the module."""
    count = [0]

    def add(key: str) -> None:
        seen = count[0]
        store.put(key, b"", when=ANYTHING)
        count[0] = seen + 1

    for future in [_pool.submit(add, key) for key in "ab"]:
        future.result()
    return count[0]


class Pair(NamedTuple):
    name: str
    lock: Any


def shuts_its_pool(store: Any) -> Any:
    with _shut as pool:
        return pool.submit(store.put, "a", b"", when=ANYTHING).result().done
