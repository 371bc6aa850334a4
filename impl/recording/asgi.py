"""The access log of a server in the schema of events: an ASGI application, recorded.

A request is recorded when its body has arrived, before the application can act on the last piece of it, and
the answer before its last piece is sent. So the moment at which the request took effect is between both.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fencepost.impl.recording.http import Exchange, HttpRecording

BODY_BYTES_MAX = 8 << 20
"""The longest body that is hashed."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def recorded(application: Application, recording: HttpRecording) -> Application:
    """Return the application with every exchange recorded."""

    async def call(scope: Message, receive: Receive, send: Send) -> None:
        exchange = _Recorded(recording, scope)
        await application(scope, exchange.receiving(receive), exchange.sending(send))

    return call


class _Recorded:
    """One exchange on its way."""

    def __init__(self, recording: HttpRecording, scope: Message) -> None:
        self._recording, self._scope = recording, scope
        self._headers: dict[str, str] = {}
        for raw_name, value in scope["headers"]:
            name, text = raw_name.decode("latin-1").lower(), value.decode("latin-1")
            self._headers[name] = f"{self._headers[name]},{text}" if name in self._headers else text
        self._exchange: Exchange | None = None
        self._has_begun = False
        self._status = 0
        self._answer: dict[str, str] = {}
        self._body = bytearray()
        self._is_long = False
        if not {"content-length", "transfer-encoding"} & self._headers.keys():
            self._begin(b"")

    def _begin(self, body: bytes | None) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        client = self._scope.get("client") or ("",)
        raw_path = self._scope["raw_path"].split(b"?")[0].decode("latin-1")
        target = f"{raw_path}?{self._scope['query_string'].decode('latin-1')}"
        self._exchange = self._recording.begin(self._scope["method"], target, self._headers, body, client[0])

    def receiving(self, receive: Receive) -> Receive:
        kept = bytearray()

        async def take() -> Message:
            message = await receive()
            if self._has_begun or message["type"] != "http.request":
                return message
            kept.extend(message.get("body", b""))
            if len(kept) > BODY_BYTES_MAX:
                self._begin(None)
            elif not message.get("more_body"):
                self._begin(bytes(kept))
            return message

        return take

    def sending(self, send: Send) -> Send:
        async def give(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._begin(None)  # it is refused before its body has arrived
                self._status = message["status"]
                pairs = message.get("headers", ())
                self._answer = {
                    name.decode("latin-1").lower(): text.decode("latin-1") for name, text in pairs
                }
            elif message["type"] == "http.response.body":
                self._take(message)
            await send(message)

        return give

    def _take(self, message: Message) -> None:
        if self._exchange is None:
            return
        if self._exchange.wants_body and not self._is_long:
            self._body += message.get("body", b"")
            self._is_long = len(self._body) > BODY_BYTES_MAX
        if not message.get("more_body"):
            body = None if self._is_long else bytes(self._body)
            self._exchange.end(self._status, self._answer, body)
            self._exchange = None
