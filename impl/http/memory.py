"""The memory that a server holds for its clients, and the pieces in which it is sent.

All that is in memory for clients is at most `Limits.memory_bytes`, for one client half of that: what is
beyond it waits.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.refusals import Refusal

PIECE = 32 * 1024
SHARED = ""
"""The client of room that several share: only the limit of all applies."""


class Room:
    """Bytes of memory that are held until `release`."""

    def __init__(self, memory: "Memory", client: str, size: int) -> None:
        self._memory = memory
        self._client = client
        self.size = size

    def resize(self, size: int) -> None:
        """As it turned out: what is larger than expected is held at once."""
        self._memory.hold(self._client, size - self.size)
        self.size = size

    def pass_on(self, size: int) -> "Room":
        """This room, resized, as another: the end of the block that this one belongs to does not release
        it."""
        room = Room(self._memory, self._client, self.size)
        self.size = 0
        room.resize(size)
        return room

    def release(self) -> None:
        self.resize(0)


class Memory:
    """Memory that is held for clients. Only the thread of the event loop uses it."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.memory_bytes
        self._retry_after_s = limits.retry_after_s
        self._clients: Counter[str] = Counter()
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []
        self.held = 0

    @asynccontextmanager
    async def room(self, client: str, size: int, wait_s: float | None = None) -> AsyncIterator[Room]:
        room = await self.enter(client, size, wait_s)
        try:
            yield room
        finally:
            room.release()

    async def enter(self, client: str, size: int, wait_s: float | None = None) -> Room:
        """Wait for so much memory, and hold it. Raises `Refusal` if there is none in time.

        A size above the limit is granted while no other is held.
        """
        if self._fits(client, size) and not any(one[0] == client for one in self._waiting):
            self.hold(client, size)
            return Room(self, client, size)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((client, size, turn))
        try:
            async with asyncio.timeout(wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.hold(client, -size)
            else:
                self._waiting = [one for one in self._waiting if one[2] is not turn]
            if isinstance(error, TimeoutError):
                text = "what is in memory for clients is at its limit"
                raise Refusal("busy", text, retry_after_s=self._retry_after_s) from None
            raise
        return Room(self, client, size)

    def hold(self, client: str, size: int) -> None:
        self.held += size
        self._clients[client] += size
        if not self._clients[client]:
            del self._clients[client]
        if size < 0 and self._waiting:
            self._admit()

    def _fits(self, client: str, size: int) -> bool:
        own = self._clients[client] if client != SHARED else 0
        return self._fits_all(size) and (not own or own + size <= self._most // 2)

    def _fits_all(self, size: int) -> bool:
        return not self.held or self.held + size <= self._most

    def _admit(self) -> None:
        """Grant what fits, in order. A client that waits for its own share keeps no other waiting."""
        left = []
        for place, (client, size, turn) in enumerate(self._waiting):
            if not self._fits_all(size):
                left += self._waiting[place:]
                break
            if turn.done():
                continue
            if self._fits(client, size):
                self.held += size
                self._clients[client] += size
                turn.set_result(None)
            else:
                left.append((client, size, turn))
        self._waiting = left


def cut(body: bytes, size: int = PIECE) -> Iterable[memoryview]:
    """The pieces of a body, none of which is a copy."""
    view = memoryview(body)
    return (view[at : at + size] for at in range(0, len(view), size))
