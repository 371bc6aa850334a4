"""An ordered map: work on several items at a time, and yield the results in the order of the items."""

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, Executor, Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
WAITING_MAX = 1_000
"""Our own limit on items whose turn has not come."""


def in_order(
    items: Iterable[T],
    work: Callable[[T], R],
    *,
    pool: Executor | None = None,
    most: int = 1,
    is_work: Callable[[T], bool] = lambda _: True,
) -> Generator[tuple[T, R], None, None]:
    """Yield each item with its result; work on at most `most` at a time. `is_work` finds the others.

    An iterator that is closed early returns when nothing is worked on any more.
    """
    if pool is None or most == 1:
        for item in items:
            yield item, work(item)
        return
    waiting: deque[tuple[T, Future[R]]] = deque()
    running: deque[Future[R]] = deque()
    try:
        for item in items:
            future: Future[R]
            if is_work(item):
                while len(running) >= most:
                    _settle(running.popleft())
                future = pool.submit(work, item)
                running.append(future)
            else:
                future = Future()
                future.set_result(work(item))
            waiting.append((item, future))
            while waiting and (waiting[0][1].done() or len(waiting) > WAITING_MAX):
                first, result = waiting.popleft()
                yield first, result.result()
        while waiting:
            first, result = waiting.popleft()
            yield first, result.result()
    finally:
        for future in running:
            future.cancel()
        for future in running:
            _settle(future)


def _settle(future: Future[R]) -> None:
    """Wait as the future itself does: in simulated time it is not a thread that waits."""
    with contextlib.suppress(CancelledError):
        future.exception()
