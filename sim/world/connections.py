"""Connections of http.client, answered in process: below urllib3, requests, urllib.request and minio.

`connect` gives a connection a `Wire` in the place of a socket. The bytes written to it are parsed when the
reply is read, which is the one step of the request; so the pools and retries of these libraries are their
own. A request to S3 is answered like the SDK's; any other is an escape, named with its URL. See
`sim.boto.wire`.

The whole body is there when the reply is: a stream that is read later shows the object as it was. A reply
that is cut in the middle of its body is not among the faults: replies are lost as a whole.
"""

import importlib
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.world.present import controlled


class Wire:
    """The socket of a connection of a world."""

    def __init__(self, host: str, secure: bool) -> None:
        self._host = host
        self._secure = secure
        self._sent = bytearray()

    def sendall(self, data: Any, _flags: int = 0) -> None:
        self._sent += data

    def send(self, data: Any, _flags: int = 0) -> int:
        self._sent += data
        return len(data)

    def makefile(self, *_: Any, **__: Any) -> Any:
        return io.BufferedReader(_Reply(self))

    def reply(self) -> bytes:
        """Send what was written: the reply, or nothing when it was lost."""
        if controlled() is None:
            raise Misuse("a connection of a run was used after the run; make another where it is needed")
        from fencepost.sim.boto import wire

        sent, self._sent = bytes(self._sent), bytearray()
        return wire.exchange(sent, self._host, secure=self._secure)

    def settimeout(self, _seconds: float | None) -> None:
        """Time-outs are the world's: a lost reply shows as one where `lost_shows_as` says so."""

    def gettimeout(self) -> None:
        """None: there is no time-out."""

    def setsockopt(self, *_: Any) -> None:
        """There is nothing to set."""

    def shutdown(self, _how: int) -> None:
        """There is nothing to shut down."""

    def close(self) -> None:
        """There is nothing to close."""

    def fileno(self) -> int:
        return -1


class _Reply(io.RawIOBase):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._left: io.BytesIO | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left is None:
            self._left = io.BytesIO(self._wire.reply())
        return self._left.readinto(buffer)


def _connect(real: Callable[[Any], None], *, secure: bool) -> Callable[[Any], None]:
    def replacement(self: Any) -> None:
        if controlled() is None:
            real(self)
            return
        host = getattr(self, "_tunnel_host", None) or self.host
        self.sock = Wire(f"{host}:{getattr(self, '_tunnel_port', None) or self.port}", secure)
        if hasattr(self, "is_verified"):  # urllib3's
            self.is_verified = True

    return replacement


def _send(real: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def replacement(self: Any, data: Any) -> None:
        if controlled() is not None and self.sock is not None and type(self.sock) is not Wire:
            # Opened when a module was loaded: as if the server had closed it meanwhile.
            self.close()
        real(self, data)

    return replacement


def _take(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a connection of its own for every request: a pool of a module serves all processes and runs.

    A pool that blocks lets so many threads of each process have one at a time.
    """

    def replacement(self: Any, timeout: float | None = None) -> Any:
        if controlled() is None or self.pool is None:
            return real(self, timeout)
        if self.block and not _free(self, taking=True, timeout=timeout):
            raise sys.modules["urllib3.exceptions"].EmptyPoolError(self, "Pool is empty")
        return self._new_conn()

    return replacement


def _return(real: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(self: Any, conn: Any) -> None:
        if controlled() is None or self.pool is None:
            real(self, conn)
            return
        if conn is not None:
            conn.close()
        if self.block:
            _free(self, taking=False)

    return replacement


def _free(pool: Any, *, taking: bool, timeout: float | None = None) -> bool:
    """Take one of the connections that a pool may have, or give it back. False when the time-out came."""
    from fencepost.sim.threads.waiting import caller

    now = caller()
    if now is None:
        return True
    free = now.state(("connections", pool), lambda: [int(pool.pool.maxsize)])
    name = f"a connection to {pool.host}"

    def take() -> None:
        free[0] -= 1

    if taking:
        return now.wait("acquire", name, lambda: free[0] > 0, timeout=timeout, take=take)
    free[0] += 1
    now.gave("release", name)
    return True


def _unread(real: Callable[..., Any]) -> Callable[..., Any]:
    """Certificates: nothing is verified here, and reading them takes longer than a run."""

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        return real(self, *args, **kwargs) if controlled() is None else None

    return replacement


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: class and name."""
    if "boto3.session" in sys.modules:
        # It adds its own, also for a program that does not mention it.
        importlib.import_module("fencepost.sim.boto")

    client = sys.modules.get("http.client")
    if client is None:
        return
    yield client.HTTPConnection, "send", _send(client.HTTPConnection.send)
    context = getattr(sys.modules.get("ssl"), "SSLContext", None)
    if context is not None:
        for name in ("load_verify_locations", "load_default_certs"):
            yield context, name, _unread(getattr(context, name))
    pool = getattr(sys.modules.get("urllib3.connectionpool"), "HTTPConnectionPool", None)
    if pool is not None:
        yield pool, "_get_conn", _take(pool._get_conn)
        yield pool, "_put_conn", _return(pool._put_conn)
    for module in (client, sys.modules.get("urllib3.connection")):
        for name in ("HTTPConnection", "HTTPSConnection"):
            kind = getattr(module, name, None)
            if kind is not None and "connect" in vars(kind):
                yield kind, "connect", _connect(kind.connect, secure=name == "HTTPSConnection")
