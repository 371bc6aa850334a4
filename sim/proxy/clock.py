"""An event loop that wakes up on time.

asyncio waits with `epoll`, which counts whole milliseconds and is rounded up: a sleep of 20 ms takes up to
21. A proxy that promises 20 ms would add half a millisecond to each on average. An epoll object can itself be
waited for with `select`, which counts microseconds.
"""

import asyncio
import contextlib
import select
import selectors
from typing import Any


def precise_loop() -> asyncio.AbstractEventLoop:
    """A new event loop; the system's usual one where that is precise already."""
    return asyncio.SelectorEventLoop(_Precise()) if _EPOLL else asyncio.new_event_loop()


_EPOLL = hasattr(selectors, "EpollSelector")

if _EPOLL:

    class _Precise(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> Any:
            if timeout is not None and 0 < timeout < 1:
                with contextlib.suppress(InterruptedError):
                    select.select([self.fileno()], [], [], timeout)
                timeout = 0
            return super().select(timeout)
