"""Locks, conditions, events, semaphores and barriers of audited code.

Locks are classes of their own, because the real ones are written in C. The others are the standard library's,
whose methods are replaced here; outside of a world they are the real ones.
"""

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Any

from fencepost.sim.threads.waiting import Caller, caller


class _Held:
    """State of a lock in one process."""

    __slots__ = ("count", "owner")

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner
        self.count = 0 if owner is None else 1

    def free(self) -> bool:
        return self.owner is None


class Lock:
    """In the place of `threading.Lock()`. Code outside of worlds uses a real one."""

    reentrant = False
    _make_real: Callable[[], Any] = staticmethod(_thread.allocate_lock)

    def __init__(self, name: str, real: Any = None) -> None:
        self.name = name
        self._real = real

    def _outside(self) -> Any:
        if self._real is None:
            self._real = self._make_real()
        return self._real

    def _held(self, now: Caller) -> _Held:
        """One that was held when the process began is held by its main thread."""
        return now.state(self, lambda: _Held(now.process.machine if self._is_held_outside() else None))

    def _is_held_outside(self) -> bool:
        real = self._real
        return real is not None and bool(real._is_owned() if self.reentrant else real.locked())

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        now = caller()
        if now is None:
            return bool(self._outside().acquire(blocking, timeout))
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        held = self._held(now)
        if self.reentrant and held.owner is now.process:
            held.count += 1
            return True

        def take() -> bool:
            if held.owner is not None:
                return False
            held.owner, held.count = now.process, 1
            return True

        if not blocking:
            return now.attempt("try-acquire", self.name, take)
        return now.wait(
            "acquire",
            self.name,
            held.free,
            timeout=None if timeout < 0 else timeout,
            take=take,
            held_by=lambda: held.owner,
        )

    def release(self) -> None:
        now = caller()
        if now is None:
            self._outside().release()
            return
        held = self._held(now)
        if now.process.crashing:
            return
        if held.owner is None or (self.reentrant and held.owner is not now.process):
            raise RuntimeError(
                "cannot release un-acquired lock" if self.reentrant else "release unlocked lock"
            )
        held.count -= 1
        if not held.count:
            held.owner = None
            now.gave("release", self.name)

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def locked(self) -> bool:
        now = caller()
        if now is not None:
            now.touch(self.name)
        return bool(self._outside().locked()) if now is None else self._held(now).owner is not None

    acquire_lock, release_lock, locked_lock = acquire, release, locked

    # Methods for `threading.Condition`.

    def _is_owned(self) -> bool:
        now = caller()
        if now is None:
            return bool(self._outside()._is_owned()) if self.reentrant else self._outside().locked()
        owner = self._held(now).owner
        return owner is now.process if self.reentrant else owner is not None

    def _at_fork_reinit(self) -> None:
        """A world forks nothing."""

    def __repr__(self) -> str:
        return f"<{self.name}>"


class RLock(Lock):
    """In the place of `threading.RLock()`."""

    reentrant = True
    _make_real = staticmethod(threading.RLock)

    def _release_save(self) -> Any:  # of the real class
        return self._outside()._release_save()

    def _acquire_restore(self, kept: Any) -> None:
        self._outside()._acquire_restore(kept)


Real = Callable[..., Any]
METHODS: list[tuple[type, str, Real]] = []
"""Class, name, replacement."""


def replaces(owner: type, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace these methods by the function, which gets the caller and the arguments of the method."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            METHODS.append((owner, name, _replacement(owner, name, function)))
        return function

    return register


def _replacement(owner: type, name: str, function: Callable[..., Any]) -> Real:
    real = getattr(owner, name)

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        now = caller()
        if now is None:
            return real(self, *args, **kwargs)
        return function(now, self, *args, **kwargs)

    method = (owner.__name__, name)
    if method in _CHANGES or method in _LOOKS:
        function = _using(Caller.look if method in _LOOKS else Caller.touch, function)

    replacement.__name__, replacement.__qualname__ = name, getattr(real, "__qualname__", name)
    return replacement


_CHANGES = {
    ("Condition", "wait"),
    ("Condition", "notify"),
    ("Barrier", "wait"),
    ("Barrier", "abort"),
    ("Queue", "task_done"),
    *(("Future", name) for name in ("set_running_or_notify_cancel", "cancel", "add_done_callback")),
}
"""The methods that change an object when they are called, and not only when what they wait for is there."""
_LOOKS = {
    ("Event", "is_set"),
    ("Event", "isSet"),
    *(("Queue", name) for name in ("qsize", "empty", "full")),
    *(("Future", name) for name in ("cancelled", "running", "done", "result", "exception")),
}
"""The methods that only look at an object when they are called."""


def _using(use: Callable[[Caller, str], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Every call of such a method uses the object."""

    def replacement(now: Caller, self: Any, *args: Any, **kwargs: Any) -> Any:
        use(now, name_of(now, self))
        return function(now, self, *args, **kwargs)

    return replacement


def name_of(now: Caller, it: Any) -> str:
    """Return the name of an object of the standard library."""
    found: str = getattr(it, "_made_as", "") or f"{type(it).__name__} of the module"
    return found


_INIT_OF_THREADS = threading.Thread.__init__.__code__


def made_event(self: Any) -> None:
    """In the place of `Event.__init__`."""
    if caller() is not None and sys._getframe(1).f_code is _INIT_OF_THREADS:
        self._flag = False  # no thread waits for it: starting and joining have replacements
    else:
        _make_event(self)


def named(real: Callable[..., None]) -> Callable[..., None]:
    """In the place of `__init__` of a class of the standard library."""

    def replacement(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        now = caller()
        if now is not None:
            self._made_as = now.number(type(self).__name__)

    return replacement


_make_event = named(threading.Event.__init__)


# Conditions.


def _lock_of(now: Caller, condition: Any) -> Lock:
    lock = condition._lock
    if isinstance(lock, Lock):
        return lock
    # Made when a module was loaded.
    kind = Lock if type(lock) is _thread.LockType else RLock
    return now.state(("lock", condition), lambda: kind(f"{name_of(now, condition)}.lock", lock))


class _Waiters:
    def __init__(self) -> None:
        self.waiting: list[list[bool]] = []


@replaces(threading.Condition, "__enter__")
def _enter(now: Caller, self: Any) -> bool:
    return _lock_of(now, self).acquire()


@replaces(threading.Condition, "__exit__")
def _exit(now: Caller, self: Any, *_: object) -> None:
    _lock_of(now, self).release()


@replaces(threading.Condition, "wait")
def _wait(now: Caller, self: Any, timeout: float | None = None) -> bool:
    lock = _lock_of(now, self)
    held = lock._held(now)
    if held.owner is not now.process:
        raise RuntimeError("cannot wait on un-acquired lock")
    waiters = now.state(self, _Waiters)
    me = [False]
    waiters.waiting.append(me)
    count, held.owner = held.count, None
    held.count = 0

    def take() -> None:
        now.touch(lock.name)
        held.owner, held.count = now.process, count

    now.touch(lock.name)
    got = now.wait(
        "wait",
        name_of(now, self),
        lambda: me[0] and held.owner is None,
        timeout=timeout,
        take=take,
        held_by=lambda: held.owner if me[0] else None,
    )
    if not got:
        now.wait("acquire", lock.name, held.free, take=take, held_by=lambda: held.owner)
        if me in waiters.waiting:
            waiters.waiting.remove(me)
    return got


@replaces(threading.Condition, "wait_for")
def _wait_for(now: Caller, self: Any, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
    end = None if timeout is None else now.run.clock_ns + round(timeout * 1e9)
    result = predicate()
    while not result:
        left = None if end is None else (end - now.run.clock_ns) / 1e9
        if left is not None and left <= 0:
            break
        self.wait(left)
        result = predicate()
    return result


@replaces(threading.Condition, "notify")
def _notify(now: Caller, self: Any, n: int = 1) -> None:
    if not _lock_of(now, self)._is_owned():
        raise RuntimeError("cannot notify on un-acquired lock")
    waiters = now.state(self, _Waiters).waiting
    for me in waiters[:n]:
        me[0] = True
    del waiters[:n]


@replaces(threading.Condition, "notify_all", "notifyAll")
def _notify_all(now: Caller, self: Any) -> None:
    self.notify(len(now.state(self, _Waiters).waiting))


# Events.


def _flag(now: Caller, event: Any) -> list[bool]:
    return now.state(event, lambda: [bool(event._flag)])


@replaces(threading.Event, "is_set", "isSet")
def _is_set(now: Caller, self: Any) -> bool:
    return _flag(now, self)[0]


@replaces(threading.Event, "set")
def _set(now: Caller, self: Any) -> None:
    _flag(now, self)[0] = True
    now.gave("set", name_of(now, self))


@replaces(threading.Event, "clear")
def _clear(now: Caller, self: Any) -> None:
    _flag(now, self)[0] = False
    now.gave("clear", name_of(now, self))


@replaces(threading.Event, "wait")
def _wait_event(now: Caller, self: Any, timeout: float | None = None) -> bool:
    flag = _flag(now, self)
    return now.wait("wait", name_of(now, self), lambda: flag[0], timeout=timeout)


# Semaphores.


def _permits(now: Caller, semaphore: Any) -> list[int]:
    return now.state(semaphore, lambda: [int(semaphore._value)])


@replaces(threading.Semaphore, "acquire", "__enter__")
def _acquire(now: Caller, self: Any, blocking: bool = True, timeout: float | None = None) -> bool:
    if not blocking and timeout is not None:
        raise ValueError("can't specify timeout for non-blocking acquire")
    permits = _permits(now, self)

    def take() -> bool:
        if not permits[0]:
            return False
        permits[0] -= 1
        return True

    if not blocking:
        return now.attempt("try-acquire", name_of(now, self), take)
    return now.wait("acquire", name_of(now, self), lambda: permits[0] > 0, timeout=timeout, take=take)


def _most(semaphore: Any) -> int:
    """Return the number of permits of a bounded semaphore."""
    return int(semaphore._initial_value)


def _release(now: Caller, self: Any, n: int = 1) -> None:
    if n < 1:
        raise ValueError("n must be one or more")
    permits = _permits(now, self)
    if isinstance(self, threading.BoundedSemaphore) and permits[0] + n > _most(self):
        raise ValueError("Semaphore released too many times")
    permits[0] += n
    now.gave("release", name_of(now, self))


replaces(threading.Semaphore, "release")(_release)
replaces(threading.BoundedSemaphore, "release")(_release)


@replaces(threading.Semaphore, "__exit__")
def _exit_semaphore(now: Caller, self: Any, *_: object) -> None:
    if not now.process.crashing:
        self.release()


# Barriers.


class _Round:
    """State of a barrier in one process."""

    def __init__(self) -> None:
        self.count = 0
        """Threads that wait."""
        self.number = 0
        """Number of times that the barrier was passed."""
        self.broken = False

    def arrive(self) -> int:
        """Count a thread that arrives; return its index."""
        self.count += 1
        return self.count - 1

    def begin_next(self) -> None:
        self.count = 0
        self.number += 1

    def break_up(self) -> None:
        """Let all waits fail, now and later."""
        self.broken = True

    def has_passed(self, number: int) -> bool:
        return self.number > number


@replaces(threading.Barrier, "wait")
def _wait_barrier(now: Caller, self: Any, timeout: float | None = None) -> int:
    here = now.state(self, _Round)
    if here.broken:
        raise threading.BrokenBarrierError
    mine = here.number
    index = here.arrive()
    if here.count == self._parties:
        try:
            if self._action is not None:
                self._action()
        except BaseException:
            here.break_up()
            raise
        here.begin_next()
        now.gave("pass", name_of(now, self))
        return index
    passed = now.wait(
        "wait",
        name_of(now, self),
        lambda: here.broken or here.has_passed(mine),
        timeout=self._timeout if timeout is None else timeout,
    )
    if not passed or not here.has_passed(mine):
        here.break_up()
        raise threading.BrokenBarrierError
    return index


@replaces(threading.Barrier, "abort")
def _abort(now: Caller, self: Any) -> None:
    now.state(self, _Round).break_up()
    now.gave("abort", name_of(now, self))
