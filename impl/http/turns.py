"""Turns at the processor: long work of one request lets the short work of another one pass.

The threads of a server share one interpreter. Several that compute at once leave the event loop a small share
of it, and a short piece of work waits for all the long ones. With `Turns` one thread at a time computes. It
gives the others that wait their turn after each piece: first come, first served.

    turns = Turns()
    with turns.taken():
        for piece in work:
            do(piece)
            turns.pass_on()
"""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator


class Turns:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: deque[threading.Lock] = deque()
        """The thread whose turn it is, then those that wait; each waits for its own lock."""

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn, and have it within the block."""
        self._wait()
        try:
            yield
        finally:
            self._end()

    def pass_on(self) -> None:
        """Let those that wait take their turns first; called by the thread that has the turn."""
        if len(self._queue) > 1:
            self._end()
            self._wait()

    def _wait(self) -> None:
        own = threading.Lock()
        own.acquire()
        with self._guard:
            self._queue.append(own)
            is_first = len(self._queue) == 1
        if not is_first:
            own.acquire()

    def _end(self) -> None:
        with self._guard:
            self._queue.popleft()
            if self._queue:
                self._queue[0].release()
