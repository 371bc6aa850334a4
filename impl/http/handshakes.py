"""TLS: a connection is one of HTTP once its handshake is complete, and has a place from the start.

By itself asyncio ends a handshake after 60 seconds, and counts it nowhere: clients that begin thousands of
them would have thousands of open files. Here each counts among the unfinished heads, see `places`, and ends
after `header_s`. While all other connections work on requests there is no place: then the handshake has
`linger_s`, and the client reads why it is refused.
"""

import asyncio
import ssl
from collections.abc import Callable

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.places import Places
from fencepost.impl.http.sockets import reset


def context_of(certificate: str, key: str | None) -> ssl.SSLContext:
    """The context of a server with this certificate. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


class Handshake(asyncio.Protocol):
    """Hands the connection over to `protocol` after the handshake."""

    def __init__(
        self,
        protocol: asyncio.Protocol,
        places: Places,
        limits: Limits,
        count_refused: Callable[[str], object],
        context: ssl.SSLContext,
    ) -> None:
        self._protocol = protocol
        self._places = places
        self._limits = limits
        self._count_refused = count_refused
        self._context = context
        self._received = bytearray()
        """The bytes that came with the end of the handshake."""
        self._is_at_end = False
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # of a socket
        transport.pause_reading()  # nothing is read before the handshake begins
        self._transport = transport
        host = (transport.get_extra_info("peername") or ("",))[0]
        has_place = self._places.enter(self, str(host))
        if not has_place:
            self._places.end(self)
        limit_s = self._limits.header_s if has_place else self._limits.linger_s
        self._task = asyncio.get_running_loop().create_task(self._shake(limit_s), name="TLS handshake")

    def data_received(self, data: bytes) -> None:
        self._received += data

    def eof_received(self) -> None:
        self._is_at_end = True

    def evict(self, *, is_idle: bool) -> None:
        """End, because another connection needs the place of this one; there is no way to say so."""
        self._count_refused("busy")
        self.abort()

    def abort(self) -> None:
        self._places.leave(self)
        self._task.cancel()
        reset(self._transport)

    async def _shake(self, limit_s: float) -> None:
        try:
            secure = await asyncio.get_running_loop().start_tls(
                self._transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=limit_s,
                ssl_shutdown_timeout=self._limits.write_s,
            )
        except OSError:  # no TLS, too slow, or gone
            secure = None
        finally:
            self._places.leave(self)
        if secure is None or secure.is_closing():
            return
        assert isinstance(secure, asyncio.Transport)
        secure.set_protocol(self._protocol)
        self._protocol.connection_made(secure)
        if self._received:
            self._protocol.data_received(bytes(self._received))
        if self._is_at_end:
            self._protocol.eof_received()
