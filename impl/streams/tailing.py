"""Readers that wait for a stream: they hold no thread, and share what they look at.

All who wait at one offset get one chunk, which is read once. A task for each stream with readers compares its
manifest with the store's every `poll_s`, because another node may have moved it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.streams.manifest import Manifest
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
    seen: tuple[str, int] | None = None
    """Incarnation and revision of the oldest manifest that they read after the last move."""
    watch: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()
        self.reads.clear()
        self.seen = None

    def see(self, manifest: Manifest) -> None:
        version = (manifest.incarnation, manifest.revision)
        if self.seen is None:
            self.seen = version
        else:
            self.seen = min(self.seen, version) if self.seen[0] == version[0] else ("", 0)


class Tailing:
    """For one event loop. `closed` returns True once readers are to go, with what they have."""

    def __init__(self, node: Node, in_thread: InThread, closed: Callable[[], bool], *, poll_s: float) -> None:
        self._node = node
        self._in_thread = in_thread
        self._closed = closed
        self._poll_s = poll_s
        self._tails: dict[str, _Tail] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def next(self, name: str, offset: str, wait_s: float) -> Chunk:
        """The chunk at the offset as soon as it has bytes or is the last; an empty one after `wait_s`."""
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + wait_s
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
                # Read `exception` even if no request waits any more: otherwise asyncio reports it.
                failed = ended.cancelled() or ended.exception() is not None
                if tail.reads.get(offset) is ended:
                    del tail.reads[offset]
                    if not failed:
                        tail.see(ended.result().manifest)

            read.add_done_callback(done)
        return await asyncio.shield(read)

    async def _watch(self, name: str, tail: _Tail) -> None:
        """Wake the readers when the stream is not what they have read: another node has moved it."""
        while True:
            await asyncio.sleep(self._poll_s)
            if await self._in_thread(self._look, name) != tail.seen or self._closed():
                tail.wake()

    def _look(self, name: str) -> tuple[str, int]:
        """Incarnation and revision; -1 if there is nothing to read. To wait for a stream is to use it."""
        try:
            stream = self._node.visible(name)
            self._node.touch(stream)
            manifest = self._node.check_visible(stream)
        except Exception:  # noqa: BLE001 - the readers' own read raises it again, and is answered
            return "", -1
        return manifest.incarnation, manifest.revision
