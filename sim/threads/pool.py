"""Thread pools and futures of audited code.

A pool's worker only takes one piece of work after another, so each piece is a thread of its own here, which
begins in the order of submission when fewer than `max_workers` are at work.
"""

import concurrent.futures as futures
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from concurrent.futures._base import (
    CANCELLED,
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    LOGGER,
    PENDING,
    RUNNING,
    DoneAndNotDoneFutures,
)
from typing import Any

from fencepost.sim.threads.locks import name_of, replaces
from fencepost.sim.threads.waiting import Caller, caller
from fencepost.sim.world.process import refuse

NEEDS = "_fencepost_needs"
"""An attribute of work that waits for these futures before all else: so it may as well begin later."""
_ENDED = (CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED)


class _Pool:
    """The work of a pool, in the order of submission."""

    def __init__(self) -> None:
        self.work: list[list[Any]] = []
        """The future, and whether it has begun and ended."""
        self.begun = 0
        self.workers = 0
        """Number of workers that have run the initializer."""
        self.shut = False
        """By this process: a pool of a module is open again in the next run."""

    def may_begin(self, mine: list[Any], most: int) -> bool:
        """Return True if this work is the next, and a worker is free."""
        if mine[0]._state in _ENDED:
            return True
        busy = sum(begun and not ended for _, begun, ended in self.work)
        first = next((one for one in self.work if not one[1] and one[0]._state == PENDING), None)
        return busy < most and first is mine


def _now_running() -> Any:
    now = caller()
    assert now is not None, "work runs in a world"
    return now.process


@replaces(ThreadPoolExecutor, "submit")
def _submit(now: Caller, self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    pool = now.state(self, _Pool)
    if self._shutdown or pool.shut:
        raise RuntimeError("cannot schedule new futures after shutdown")
    future: Future[Any] = Future()
    mine = [future, False, False]
    pool.work.append(mine)

    def work() -> None:
        mine[1] = True
        others(process := _now_running())
        try:
            if not future.set_running_or_notify_cancel():
                return
            try:
                if self._initializer is not None and pool.workers < self._max_workers:
                    pool.workers += 1
                    self._initializer(*self._initargs)
                result = fn(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the future hands it on; a crash ends the thread
                mine[2] = True
                process.finish_silently()
                future.set_exception(error)
            else:
                mine[2] = True
                process.finish_silently()
                future.set_result(result)
        finally:
            mine[2] = True
            others(process)
            if process.crashing:
                # The SDK catches everything, and hands it to those that wait.
                refuse(process)

    def others(process: Any) -> None:
        """More work than workers: who begins and ends decides when the others may begin."""
        running = caller()
        if len(pool.work) > self._max_workers and running is not None and not process.crashing:
            running.touch(name_of(running, self))

    prefix = self._thread_name_prefix
    name = "pool" if prefix.startswith("ThreadPoolExecutor-") else prefix
    needs = getattr(fn, NEEDS, ())
    ready: Callable[[], bool] | None = None
    if len(pool.work) > self._max_workers:
        ready = lambda: pool.may_begin(mine, self._max_workers)  # noqa: E731  # one of two
    elif needs:
        ready = lambda: all(one._state in _ENDED for one in needs)  # noqa: E731  # one of two
    now.start(f"{name}-{len(pool.work)}", work, ready)
    now.gave("submit", f"{name}-{len(pool.work)}")
    return future


@replaces(ThreadPoolExecutor, "shutdown")
def _shutdown(now: Caller, self: Any, wait: bool = True, *, cancel_futures: bool = False) -> None:
    pool = now.state(self, _Pool)
    pool.shut = True
    if cancel_futures:
        for future, _, _ in pool.work:
            future.cancel()
    if wait and not now.process.crashing:
        for future, _, _ in pool.work:
            now.touch(name_of(now, future))
        ended = lambda: all(one[2] or one[0].cancelled() for one in pool.work)  # noqa: E731  # used once
        now.wait("join", name_of(now, self), ended, atomic=True)


@replaces(ThreadPoolExecutor, "map")
def _map(
    now: Caller, self: Any, fn: Callable[..., Any], *iterables: Any, timeout: float | None = None, **_: Any
) -> Iterator[Any]:
    end = None if timeout is None else now.run.clock_ns + round(timeout * 1e9)
    waiting = [self.submit(fn, *args) for args in zip(*iterables, strict=False)]

    def results() -> Iterator[Any]:
        try:
            for future in waiting:
                yield future.result(None if end is None else (end - now.run.clock_ns) / 1e9)
        finally:
            for future in waiting:
                future.cancel()

    return results()


# Futures.


def _end(now: Caller, self: Any, state: str) -> None:
    if self._state == CANCELLED or self._state in (CANCELLED_AND_NOTIFIED, FINISHED):
        raise InvalidStateError(f"{self._state}: {self!r}")
    _close(now, self, state)


def _close(now: Caller, self: Any, state: str) -> None:
    """It has ended: its callbacks run, and those that wait for it may go on."""
    self._state = state
    callbacks, self._done_callbacks = self._done_callbacks, []
    for callback in callbacks:
        _call(callback, self)
    now.gave("settle", name_of(now, self))


def _call(callback: Callable[[Any], None], future: Any) -> None:
    try:
        callback(future)
    except Exception:  # noqa: BLE001 - as the real one does
        LOGGER.exception("exception calling callback for %r", future)


@replaces(Future, "set_result")
def _set_result(now: Caller, self: Any, result: Any) -> None:
    self._result = result
    _end(now, self, FINISHED)


@replaces(Future, "set_exception")
def _set_exception(now: Caller, self: Any, exception: BaseException | None) -> None:
    self._exception = exception
    _end(now, self, FINISHED)


@replaces(Future, "set_running_or_notify_cancel")
def _set_running(now: Caller, self: Any) -> bool:
    if self._state == CANCELLED:
        self._state = CANCELLED_AND_NOTIFIED
        return False
    if self._state != PENDING:
        raise RuntimeError("Future in unexpected state")
    self._state = RUNNING
    return True


@replaces(Future, "cancel")
def _cancel(now: Caller, self: Any) -> bool:
    if self._state in (RUNNING, FINISHED):
        return False
    if self._state == PENDING:
        _close(now, self, CANCELLED)
    return True


@replaces(Future, "cancelled")
def _cancelled(now: Caller, self: Any) -> bool:
    return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)


@replaces(Future, "running")
def _running(now: Caller, self: Any) -> bool:
    return bool(self._state == RUNNING)


@replaces(Future, "done")
def _done(now: Caller, self: Any) -> bool:
    return self._state in _ENDED


@replaces(Future, "add_done_callback")
def _add_done_callback(now: Caller, self: Any, fn: Callable[[Any], None]) -> None:
    if self._state in _ENDED:
        _call(fn, self)
    else:
        self._done_callbacks.append(fn)


def _settled(now: Caller, self: Any, timeout: float | None) -> None:
    if self._state not in _ENDED and not now.wait(
        "result", name_of(now, self), lambda: self._state in _ENDED, timeout=timeout, atomic=timeout is None
    ):
        raise TimeoutError
    if self._state != FINISHED:
        raise CancelledError


@replaces(Future, "result")
def _result(now: Caller, self: Any, timeout: float | None = None) -> Any:
    _settled(now, self, timeout)
    if self._exception is not None:
        try:
            raise self._exception
        finally:
            self = None
    return self._result


@replaces(Future, "exception")
def _exception(now: Caller, self: Any, timeout: float | None = None) -> Any:
    _settled(now, self, timeout)
    return self._exception


FUNCTIONS: dict[str, Callable[..., Any]] = {}


def as_completed(now: Caller, fs: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
    """In the place of `concurrent.futures.as_completed`: in the order in which they ended."""
    end = None if timeout is None else now.run.clock_ns + round(timeout * 1e9)
    left = list(dict.fromkeys(fs))
    while left:
        limit = None if end is None else max(0.0, (end - now.run.clock_ns) / 1e9)
        ended = lambda: any(one._state in _ENDED for one in left)  # noqa: E731  # used once
        if not now.wait("wait", "futures", ended, timeout=limit, atomic=limit is None):
            raise TimeoutError(f"{len(left)} futures unfinished")
        for one in left:
            now.touch(name_of(now, one))
        first = next(one for one in left if one._state in _ENDED)
        left.remove(first)
        yield first


def wait(
    now: Caller, fs: Iterable[Any], timeout: float | None = None, return_when: str = futures.ALL_COMPLETED
) -> Any:
    """In the place of `concurrent.futures.wait`."""
    every = list(dict.fromkeys(fs))

    def enough() -> bool:
        ended = [one for one in every if one._state in _ENDED]
        if return_when == futures.FIRST_COMPLETED and ended:
            return True
        if return_when == futures.FIRST_EXCEPTION and any(one._exception is not None for one in ended):
            return True
        return len(ended) == len(every)

    now.wait("wait", "futures", enough, timeout=timeout, atomic=True)
    for one in every:
        now.touch(name_of(now, one))
    done = {one for one in every if one._state in _ENDED}
    return DoneAndNotDoneFutures(done, set(every) - done)
