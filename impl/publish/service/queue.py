"""The orders that wait for the next group of a branch.

While one group is being committed, orders queue up; when it has ended, all that wait are the next group, up
to a number and a size. There is no timer: a single order is committed at once. An order that has to be
attempted again goes to the front, so that it waits no longer than those that came after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fencepost.impl.publish.commit import Published
from fencepost.impl.publish.service.committer import Again, End, Order

GROUP_MAX = 1000
"""Orders in one group: our own limit, so that one sidecar stays reasonably small."""
GROUP_BYTES_MAX = 32 << 20
"""Bytes of the bodies of its orders; a larger one is a group of its own."""


class Commits(Protocol):
    def attempt(self, orders: Sequence[Order]) -> list[End]: ...

    def pause(self, attempts: int) -> None: ...


@dataclass(eq=False)
class _Waiting:
    order: Order
    size: int
    until: float
    """By the clock of the event loop."""
    end: asyncio.Future[End]
    perhaps: bool = False
    """An attempt may have published the order."""

    def judge(self, end: End) -> End:
        """Return the end of an attempt: after an attempt that perhaps published, no refusal is certain."""
        if isinstance(end, Again):
            self.perhaps = self.perhaps or end.perhaps
        elif self.perhaps and not isinstance(end, Published):
            return Again(str(end), perhaps=True)
        return end


class Queue:
    """Only the thread of the event loop uses it; `in_thread` runs the commits, one group at a time."""

    def __init__(
        self,
        commits: Commits,
        in_thread: Callable[[Callable[[], list[End]]], Awaitable[list[End]]],
        *,
        group_max: int = GROUP_MAX,
        group_bytes: int = GROUP_BYTES_MAX,
    ) -> None:
        self._commits = commits
        self._in_thread = in_thread
        self._group_max = group_max
        self._group_bytes = group_bytes
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None
        self._fruitless = 0
        """Attempts since one that committed something."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return self._task is None

    async def commit(self, order: Order, size: int, wait_s: float) -> End:
        """The end of an order; `Again` once it has been attempted, in vain, until `wait_s` have passed.

        It is attempted to its end even if the caller is cancelled: its client may be gone and ask later.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(order, size, loop.time() + wait_s, loop.create_future())
        self._waiting.append(waiting)
        if self._task is None:
            self._task = loop.create_task(self._work(), name="groups")
        return await asyncio.shield(waiting.end)

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while self._waiting:
                group = self._next_group()
                orders = [waiting.order for waiting in group]
                try:
                    ends = await self._in_thread(lambda orders=orders: self._attempt(orders))  # type: ignore[misc]  # a default that is bound
                except BaseException as error:  # every client of the group learns of a failure of ours
                    for waiting in group:
                        if not waiting.end.done():
                            waiting.end.set_exception(error)
                    if not isinstance(error, Exception):
                        raise
                    continue
                again = []
                for waiting, attempted in zip(group, ends, strict=True):
                    end = waiting.judge(attempted)
                    if isinstance(attempted, Again) and clock() < waiting.until:
                        again.append(waiting)
                    elif not waiting.end.done():
                        waiting.end.set_result(end)
                self._waiting[:0] = again
        finally:
            self._task = None

    def _attempt(self, orders: Sequence[Order]) -> list[End]:
        """In a thread."""
        if self._fruitless:
            self._commits.pause(self._fruitless)
        ends = self._commits.attempt(orders)
        self._fruitless = self._fruitless + 1 if all(isinstance(end, Again) for end in ends) else 0
        return ends

    def _next_group(self) -> list[_Waiting]:
        size = count = 0
        for waiting in self._waiting[: self._group_max]:
            if count and size + waiting.size > self._group_bytes:
                break
            size, count = size + waiting.size, count + 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group
