"""`queue.Queue` and its relatives in audited code."""

import copy
import queue
from collections import deque
from typing import Any

from fencepost.sim.threads.locks import name_of, replaces
from fencepost.sim.threads.waiting import Caller, caller


class _Contents:
    """A queue as a process knows it: one that was made when a module was loaded serves every process anew."""

    def __init__(self, made: Any, now: Caller) -> None:
        self.it = made
        if getattr(made, "_made_by", None) is not now.process.machine:
            self.it = copy.copy(made)
            self.it.queue = copy.copy(made.queue)
        self.unfinished = int(made.unfinished_tasks)


def _contents(now: Caller, made: Any) -> _Contents:
    return now.state(made, lambda: _Contents(made, now))


_real_init = queue.Queue.__init__
real_simple_queue = queue.SimpleQueue


def made(self: Any, maxsize: int = 0) -> None:
    """In the place of `Queue.__init__`."""
    _real_init(self, maxsize)
    now = caller()
    if now is not None:
        self._made_by = now.process.machine
        self._made_as = now.number(type(self).__name__)


@replaces(queue.Queue, "put")
def _put(now: Caller, self: Any, item: Any, block: bool = True, timeout: float | None = None) -> None:
    contents = _contents(now, self)

    def room() -> bool:
        return bool(self.maxsize <= 0 or contents.it._qsize() < self.maxsize)

    if not room() and not block:
        raise queue.Full
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")

    def insert() -> None:
        contents.it._put(item)
        contents.unfinished += 1

    if self.maxsize <= 0:
        insert()
        now.gave("put", name_of(now, self))
    elif not now.wait("put", name_of(now, self), room, timeout=timeout, take=insert):
        raise queue.Full


@replaces(queue.Queue, "get")
def _get(now: Caller, self: Any, block: bool = True, timeout: float | None = None) -> Any:
    it = _contents(now, self).it
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")

    def filled() -> bool:
        return bool(it._qsize() > 0)

    taken: list[Any] = []

    def take() -> bool:
        if filled():
            taken.append(it._get())
        return bool(taken)

    subject = name_of(now, self)
    if block:
        now.wait("get", subject, filled, timeout=timeout, take=take)
    else:
        now.attempt("get", subject, take)
    if not taken:
        raise queue.Empty
    return taken[0]


@replaces(queue.Queue, "task_done")
def _task_done(now: Caller, self: Any) -> None:
    contents = _contents(now, self)
    if contents.unfinished <= 0:
        raise ValueError("task_done() called too many times")
    contents.unfinished -= 1
    if not contents.unfinished:
        now.gave("done", name_of(now, self))


@replaces(queue.Queue, "join")
def _join(now: Caller, self: Any) -> None:
    contents = _contents(now, self)
    now.wait("join", name_of(now, self), lambda: not contents.unfinished)


@replaces(queue.Queue, "qsize")
def _qsize(now: Caller, self: Any) -> int:
    return int(_contents(now, self).it._qsize())


@replaces(queue.Queue, "empty")
def _empty(now: Caller, self: Any) -> bool:
    return not _contents(now, self).it._qsize()


@replaces(queue.Queue, "full")
def _full(now: Caller, self: Any) -> bool:
    return bool(0 < self.maxsize <= _contents(now, self).it._qsize())


class SimpleQueue:
    """In the place of `queue.SimpleQueue`, which is written in C. Code outside of worlds uses a real one."""

    def __init__(self, name: str = "", real: Any = None) -> None:
        now = caller()
        self._name = name or (now.number("SimpleQueue") if now is not None else "SimpleQueue")
        self._real = real

    def _outside(self) -> Any:
        if self._real is None:
            self._real = real_simple_queue()
        return self._real

    def _items(self, now: Caller) -> deque[Any]:
        now.touch(self._name)
        return now.state(self, self._first)

    def _first(self) -> deque[Any]:
        """Items put before the process began."""
        if self._real is None:
            return deque()
        items = [self._real.get_nowait() for _ in range(self._real.qsize())]
        for item in items:
            self._real.put(item)
        return deque(items)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        now = caller()
        if now is None:
            self._outside().put(item)
            return
        self._items(now).append(item)
        now.gave("put", self._name)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        now = caller()
        if now is None:
            return self._outside().get(block, timeout)
        items = self._items(now)
        taken: list[Any] = []

        def take() -> bool:
            if items:
                taken.append(items.popleft())
            return bool(taken)

        if block:
            now.wait("get", self._name, lambda: bool(items), timeout=timeout, take=take)
        else:
            now.attempt("get", self._name, take)
        if not taken:
            raise queue.Empty
        return taken[0]

    def put_nowait(self, item: Any) -> None:
        self.put(item)

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        now = caller()
        return int(self._outside().qsize()) if now is None else len(self._items(now))

    def empty(self) -> bool:
        return not self.qsize()
