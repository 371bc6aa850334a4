"""The collector as a process: listens, serves, and when told to stop finishes what it works on.

On SIGTERM or SIGINT no connection is taken any more, idle ones are closed, requests that are being worked on
are answered, and the process ends by itself. A second SIGINT ends it at once; what hangs after `drain_s`
is cut off. Nothing is lost either way: a batch without an answer is sent again.
"""

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from fencepost.impl.ingest.service.connections import HEADER_BYTES, protocol
from fencepost.impl.ingest.service.limits import Limits

_LOG = logging.getLogger("fencepost.ingest")
_STOPPING = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """uvicorn, ended by a signal without dying of it, and with a word when it listens."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        *,
        told: Callable[[str], None] = lambda _: None,
        on_listening: Callable[[str], None] = lambda _: None,
        on_stopping: Callable[[], None] = lambda: None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol(limits, told, lambda: self.should_exit),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEADER_BYTES,
                timeout_keep_alive=max(1, round(limits.idle_s)),
                timeout_graceful_shutdown=max(1, round(limits.drain_s)),
                ssl_certfile=certificate,
                ssl_keyfile=key,
            )
        )
        self._on_listening = on_listening
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        assert sockets is not None, "it is given the socket it listens on, so that its port is known"
        self._on_listening(address(sockets[0], secure=self.config.is_ssl))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._told_to_stop) for number in _STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _told_to_stop(self, number: int, frame: object) -> None:
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        else:
            self.stop()

    def stop(self) -> None:
        """Finish what is being worked on, and end."""
        self._on_stopping()
        self.should_exit = True


def listener(host: str, port: int) -> socket.socket:
    """A socket that is bound to `host` and `port`; 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay off only where the protocol is named, and an answer leaves in two pieces:
    # with the delay the second waits for the client's acknowledgement of the first, 40 ms.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except BaseException:
        found.close()
        raise
    return found


def address(bound: socket.socket, *, secure: bool = False) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"
