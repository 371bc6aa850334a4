"""Long answers: how many there are, whose they are, and the memory that they and the bodies of requests hold.

A long answer waits for what it sends, or has more than `PIECE` bytes. Its client may read slowly or not at
all, so every server sends it like this:

    places   at most `Limits.answers` at once, of one client at most `client_answers`: else 503, or 429 pieces
    one is handed over after the client took the one before: a connection buffers two of them at most room
    what is sent is in memory once, however many clients get it; all that is in memory for clients is at
             most `memory_bytes`, for one client half of that: else its next part waits
    time     a client that leaves its buffer unread for `write_s`, or takes less than `read_bytes_s`, is cut
    off

A client that is cut off sees a reset within the answer, never an end: it has not got a chunk of length 0, or
the length that was declared. It can ask again for what is missing.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from fencepost.impl.http.limits import ClientGone, Gate, Limits
from fencepost.impl.http.memory import PIECE, Memory, cut
from fencepost.impl.http.refusals import Refusal, to_json

SLICE = 8 * PIECE
"""The bytes that are handed over at once of a body that is in memory as a whole, where its pieces spare
nothing: most of the time that a long answer takes is that of its pieces."""
TURN = 2
"""The number of pieces after which others have their turn, if the client reads as fast as they are sent."""
ABORT = "fencepost.abort"
"""The extension of a scope that resets its connection; only our server has it."""


class Answers:
    """The long answers of a server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.memory = Memory(limits)
        places = replace(limits, requests=limits.answers, client_requests=limits.client_answers)
        self.gate = Gate(places, "long answers")

    async def send_in_pieces(self, scope: Scope, send: Send, pieces: Iterable[Any], size: int) -> None:
        """Send parts of a body, and cut the client off if it takes too little of it. Others follow them."""
        limits = self.limits
        try:
            async with asyncio.timeout(limits.write_s + size / limits.read_bytes_s):
                for number, piece in enumerate(pieces, 1):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if not number % TURN:
                        await asyncio.sleep(0)
        except TimeoutError:
            abort = scope.get("extensions", {}).get(ABORT)
            if abort is not None:
                abort["act"]()
            await asyncio.sleep(0)  # the server learns of it
            raise ClientGone from None


def client_of(scope: Scope) -> str:
    """The address of the client."""
    client = scope.get("client")
    return client[0] if client else ""


class Outgoing:
    """The answer to one request: refused if it is a long one too many, and sent in pieces."""

    def __init__(self, answers: Answers, scope: Scope, send: Send, refused: Callable[[str], object]) -> None:
        self._answers = answers
        self._scope = scope
        self._send = send
        self._refused = refused
        self._start: Message | None = None
        self._held = ExitStack()
        self.status = 0
        self._offered = False
        """The client waits with its body until the server asks for it."""

    def watching(self, receive: Receive) -> Receive:
        """Return `receive` for a client that offers a body.

        If the answer comes before the body was asked for, the client leaves it out, and the connection ends:
        its next request would be taken for the body.
        """
        self._offered = True

        async def received() -> Message:
            self._offered = False
            return await receive()

        return received

    def close(self) -> None:
        self._held.close()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message  # a refusal may take its place
            return
        body = message.get("body", b"")
        more = message.get("more_body", False)
        if self._start is not None:
            start, self._start = self._start, None
            await self._begin(start, is_long=more or len(body) > PIECE)
            if len(body) > PIECE and not more:  # else its server bounds what it has in memory
                room = await self._answers.memory.enter(client_of(self._scope), len(body))
                self._held.callback(room.release)
        if len(body) <= PIECE:
            await self._send(message)
            return
        await self._answers.send_in_pieces(self._scope, self._send, cut(body, SLICE), len(body))
        if not more:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self, start: Message, *, is_long: bool) -> None:
        if is_long:
            try:
                self._held.enter_context(self._answers.gate.enter(client_of(self._scope)))
            except Refusal as refusal:
                self._refused(refusal.kind)
                await self._refuse(refusal)
                raise ClientGone from None
        self.status = start["status"]
        if self._offered:
            start = {**start, "headers": [*start["headers"], (b"connection", b"close")]}
        await self._send(start)

    async def _refuse(self, refusal: Refusal) -> None:
        self.status = refusal.status
        body = to_json(refusal.body())
        headers = {
            **refusal.headers(), "content-type": "application/json", "cache-control": "no-store",
            "content-length": str(len(body)),
        }  # fmt: skip
        raw = [(name.encode(), text.encode()) for name, text in headers.items()]
        await self._send({"type": "http.response.start", "status": refusal.status, "headers": raw})
        await self._send({"type": "http.response.body", "body": body})
