"""Readers that wait for a stream: they hold no thread, and share what they look at.

All who wait at one offset get one chunk, which is read once. A task for each stream with readers compares its
manifest with the store's every `poll_s`, because another node may have moved it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.streams.node import Node
from fencepost.impl.streams.stream import Chunk

InThread = Callable[..., Awaitable[Any]]


@dataclass(eq=False)
class _Tail:
    """The waiting readers of one stream."""

    readers: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once, when the stream has moved; the next wait is for another event."""
    reads: dict[str, asyncio.Future[Chunk]] = field(default_factory=dict)
    """By offset: those under way that began after the last move."""
    watch: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()
        self.reads.clear()


class Tailing:
    """For one event loop. `closed` returns True once readers are to go, with what they have."""

    def __init__(self, node: Node, in_thread: InThread, closed: Callable[[], bool], *, poll_s: float) -> None:
        self._node = node
        self._in_thread = in_thread
        self._closed = closed
        self._poll_s = poll_s
        self._tails: dict[str, _Tail] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def next(self, name: str, offset: str, patience_s: float) -> Chunk:
        """The chunk at the offset as soon as it has bytes or is the last; an empty one after `patience_s`."""
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + patience_s
        tail = self._tails.setdefault(name, _Tail())
        tail.readers += 1
        if tail.watch is None:
            tail.watch = asyncio.ensure_future(self._watch(name, tail))
        try:
            while True:
                moved = tail.moved
                chunk = await self._read(tail, name, offset)
                left_s = until - self._loop.time()
                if chunk.body or chunk.closed or left_s <= 0 or self._closed():
                    return chunk
                offset = chunk.manifest.offset(chunk.end)
                try:
                    async with asyncio.timeout(left_s):
                        await moved.wait()
                except TimeoutError:
                    continue
        finally:
            tail.readers -= 1
            if not tail.readers:
                tail.watch.cancel()
                del self._tails[name]

    def changed(self, name: str) -> None:
        """This node has moved the stream; called by any thread."""
        if self._loop is not None and name in self._tails:
            self._loop.call_soon_threadsafe(self._wake, name)

    def _wake(self, name: str) -> None:
        if name in self._tails:
            self._tails[name].wake()

    async def _read(self, tail: _Tail, name: str, offset: str) -> Chunk:
        read = tail.reads.get(offset)
        if read is None:
            read = asyncio.ensure_future(self._in_thread(self._node.read_from, name, offset))
            tail.reads[offset] = read

            def done(ended: asyncio.Future[Chunk]) -> None:
                if tail.reads.get(offset) is ended:
                    del tail.reads[offset]
                if not ended.cancelled():
                    ended.exception()  # it may be that nobody waits any more

            read.add_done_callback(done)
        return await asyncio.shield(read)

    async def _watch(self, name: str, tail: _Tail) -> None:
        """Wake the readers when the stream is not what it was: this node or another has moved it."""
        seen: Any = None
        while True:
            await asyncio.sleep(self._poll_s)
            found = await self._in_thread(self._look, name)
            if found != seen or self._closed():
                seen = found
                tail.wake()

    def _look(self, name: str) -> Any:
        """The ETag of the manifest; or why there is nothing to read. To wait for a stream is to use it."""
        try:
            stream = self._node.visible(name)
            self._node.touch(stream)
        except Exception as error:  # noqa: BLE001 - the readers' own read raises it again, and is answered
            return f"{error}"
        return stream.known.etag
