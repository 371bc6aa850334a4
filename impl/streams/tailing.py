"""Readers of streams: each chunk is read, encoded and held in memory once for all of them.

A reader that waits holds no thread. Readers that wait at one offset for one form are a group. After the
stream has moved, one read serves the group, a batch in each turn of the event loop: no other request waits
for a large group. A task for each stream with readers compares its manifest with the store's every `poll_s`,
because another node may have moved it.

A chunk that is longer than a piece of an answer is kept while a reader gets it, and found by its place in the
stream. `fencepost.impl.http.memory` bounds how much of it is in memory: a read waits until there is room.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.http.memory import SHARED, Memory
from fencepost.impl.streams import shown as showing
from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.node import Node
from fencepost.impl.streams.shown import Form, Key, Shown

InThread = Callable[..., Awaitable[Any]]
BATCH, LONG_BATCH = 64, 8
"""The readers that are served in one turn of the event loop, and those that get more than a piece."""
News = Shown | Exception | None
"""The result of a wait. None: the time is over, or the client has gone."""


@dataclass(eq=False)
class _Group:
    """Readers that wait at one offset for one form."""

    waiting: dict["asyncio.Future[News]", None] = field(default_factory=dict)
    clients: set[str] = field(default_factory=set)
    reading: asyncio.Task[None] | None = None


@dataclass(eq=False)
class Tail:
    """The readers that follow one stream."""

    name: str
    readers: int = 0
    moves: int = 0
    """The number of moves of the stream that this node has seen."""
    groups: dict[tuple[str, Form], _Group] = field(default_factory=dict)
    seen: tuple[str, int] | None = None
    """Incarnation and revision of the oldest manifest that they read after the last move."""
    watch: asyncio.Task[None] | None = None
    now: asyncio.Task[Shown] | None = None
    """A read of the end, which readers share that ask for it meanwhile."""

    def see(self, manifest: Manifest) -> None:
        version = (manifest.incarnation, manifest.revision)
        if self.seen is None:
            self.seen = version
        else:
            self.seen = min(self.seen, version) if self.seen[0] == version[0] else ("", 0)


class Tailing:
    """For one event loop. `closed` returns True once readers are to go, with what they have."""

    def __init__(
        self, node: Node, in_thread: InThread, closed: Callable[[], bool], memory: Memory, *, poll_s: float
    ) -> None:
        self._node = node
        self._in_thread = in_thread
        self._closed = closed
        self._memory = memory
        self._poll_s = poll_s
        self._tails: dict[str, Tail] = {}
        self._long: dict[Key, Shown] = {}
        """Long chunks that are being sent; threads look them up."""
        self._loop: asyncio.AbstractEventLoop | None = None

    # Reads.

    async def read(
        self, name: str, offset: str, form: Form, client: str, wait_s: float | None = None
    ) -> Shown:
        """Return the bytes at the offset; the caller releases them. Waits `wait_s` for room in memory."""
        tail = self._tails.get(name)
        moves = tail.moves if tail is not None else -1
        async with self._memory.room(client, self._node.settings.chunk_bytes, wait_s) as room:
            manifest: Manifest
            found: Shown
            manifest, found = await self._in_thread(self._show, name, offset, form)
            if found.is_long:
                found = self._long.setdefault(found.key, found)
                found.users += 1
                if found.room is None:
                    found.room = room.pass_on(len(found.data))
        if tail is not None and tail.moves == moves:
            tail.see(manifest)
            found.moves = moves
        return found

    def _show(self, name: str, offset: str, form: Form) -> tuple[Manifest, Shown]:
        chunk = showing.read(self._node, name, offset, form)
        key = showing.key_of(name, chunk, form)
        return chunk.manifest, self._long.get(key) or showing.show(key, chunk, form)

    def release(self, found: Shown) -> None:
        if found.is_long:
            found.users -= 1
            if not found.users and found.room is not None:
                found.room.release()
                found.room = None
                del self._long[found.key]

    # Readers that wait.

    @contextmanager
    def following(self, name: str, form: Form, client: str) -> Iterator["Reader"]:
        self._loop = asyncio.get_running_loop()
        tail = self._tails.setdefault(name, Tail(name))
        tail.readers += 1
        if tail.watch is None:
            tail.watch = self._loop.create_task(self._watch(tail))
        reader = Reader(self, tail, form, client)
        try:
            yield reader
        finally:
            reader.stop()
            tail.readers -= 1
            if not tail.readers:
                tail.watch.cancel()
                del self._tails[name]

    def join(self, tail: Tail, at: tuple[str, Form], client: str, known: Shown | None) -> _Group:
        """The group of readers at the offset. It reads, unless nothing has moved since `known` was read."""
        group = tail.groups.get(at)
        is_known = known is not None and known.moves == tail.moves and known.chunk.up_to_date
        if group is None:
            group = tail.groups[at] = _Group()
        elif known is not None:
            is_known = True  # whatever moved since, it reads or has read
        group.clients.add(client)
        if group.reading is None and not is_known:
            self._begin(tail, at, group)
        return group

    def leave(self, tail: Tail, at: tuple[str, Form], group: _Group, turn: "asyncio.Future[News]") -> None:
        group.waiting.pop(turn, None)
        if not group.waiting and group.reading is None and tail.groups.get(at) is group:
            del tail.groups[at]

    def _begin(self, tail: Tail, at: tuple[str, Form], group: _Group) -> None:
        assert self._loop is not None, "somebody follows the stream"
        group.reading = self._loop.create_task(self._fill(tail, at, group))

    async def _fill(self, tail: Tail, at: tuple[str, Form], group: _Group) -> None:
        """Read for a group, and give it what is new."""
        offset, form = at
        while True:
            moves = tail.moves
            payer = next(iter(group.clients)) if len(group.clients) == 1 else SHARED
            found: Shown | Exception
            try:
                found = await self.read(tail.name, offset, form, payer)
            except Exception as error:  # noqa: BLE001 - the readers raise it, or end
                found = error
                break
            if found.has_news or self._closed():
                break
            self.release(found)
            if tail.moves == moves:
                group.reading = None
                if not group.waiting and tail.groups.get(at) is group:
                    del tail.groups[at]
                return
        if tail.groups.get(at) is group:
            del tail.groups[at]
        self._give(list(group.waiting), found, 0)

    def _give(self, turns: "Sequence[asyncio.Future[News]]", found: Shown | Exception, first: int) -> None:
        assert self._loop is not None, "somebody follows the stream"
        end = first + (LONG_BATCH if isinstance(found, Shown) and found.is_long else BATCH)
        for turn in turns[first:end]:
            if not turn.done():
                if isinstance(found, Shown):
                    found.users += 1
                turn.set_result(found)
        if end < len(turns):
            self._loop.call_soon(self._give, turns, found, end)
        elif isinstance(found, Shown):
            self.release(found)

    # Moves.

    def changed(self, name: str) -> None:
        """This node has moved the stream; called by any thread."""
        if self._loop is not None and name in self._tails:
            self._loop.call_soon_threadsafe(self._wake, name)

    def _wake(self, name: str) -> None:
        tail = self._tails.get(name)
        if tail is not None:
            tail.moves += 1
            tail.seen = None
            for at, group in tail.groups.items():
                if group.reading is None:
                    self._begin(tail, at, group)

    async def _watch(self, tail: Tail) -> None:
        """Wake the readers when the stream is not what they have read: another node has moved it."""
        while True:
            await asyncio.sleep(self._poll_s)
            if await self._in_thread(self._look, tail.name) != tail.seen or self._closed():
                self._wake(tail.name)

    def _look(self, name: str) -> tuple[str, int]:
        """Incarnation and revision; -1 if there is nothing to read. To wait for a stream is to use it."""
        try:
            stream = self._node.visible(name)
            self._node.touch(stream)
            manifest = self._node.check_visible(stream)
        except Exception:  # noqa: BLE001 - the readers' own read raises it again, and is answered
            return "", -1
        return manifest.incarnation, manifest.revision


class Reader:
    """One that follows a stream, until `stop`."""

    def __init__(self, tailing: Tailing, tail: Tail, form: Form, client: str) -> None:
        self._tailing = tailing
        self._tail = tail
        self._form = form
        self._client = client
        self._turn: asyncio.Future[News] | None = None
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    async def now(self) -> Shown:
        """The end of the stream, of which nothing is long."""
        tail = self._tail
        if tail.now is None:
            reading = self._tailing.read(tail.name, "now", self._form, self._client)
            tail.now = asyncio.get_running_loop().create_task(reading)
            tail.now.add_done_callback(
                lambda ended: ended.cancelled() or ended.exception()
            )  # if all have gone
        reading_now = tail.now
        try:
            return await asyncio.shield(reading_now)
        finally:
            if tail.now is reading_now:
                tail.now = None

    async def next(self, offset: str, known: Shown | None = None) -> Shown | None:
        """Return the bytes behind the offset, as soon as there are any; the caller releases them.

        `known` is what the reader got last: the offset is behind it. Raises what the read of the stream
        raises.
        """
        if self.stopped:
            return None
        turn = self._turn = asyncio.get_running_loop().create_future()
        at = (offset, self._form)
        group = self._tailing.join(self._tail, at, self._client, known)
        group.waiting[turn] = None
        try:
            found: News = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and isinstance(left := turn.result(), Shown):
                self._tailing.release(left)
            raise
        finally:
            self._tailing.leave(self._tail, at, group, turn)
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        return found
