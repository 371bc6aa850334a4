"""Gives races over HTTP their teeth: every rival's request is sent but for its last byte, then released.

A request that is built, signed and sent after the starting signal spends most of its time in the client;
rivals then reach the store one after another and a race inside of it hides. So the botocore client of
an S3 store leaves this one request to us, through its own `before-send` event. We write the whole message but
its last byte to a connection of our own, wait for the others, and write the last byte. The store reads the
answer as ever. Signing, checksums and the meaning of
the answer stay where they are; neither our client library nor our driver knows.

Where it cannot be done (a store without a client, a proxy, a connection that fails before the release), the
request is sent in the ordinary way after the signal: a race with duller teeth, never a false finding.
"""

import contextlib
import http.client
import io
import os
import socket
import ssl
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Outcome, R, Request

Signal = Callable[[], None]
SECONDS_MAX = 60.0
"""For connecting and for an answer, as botocore's own default."""


class LastByteSync:
    """Sends a store's requests, each held back until a signal."""

    def __init__(self, store: Store, client: Any = None) -> None:
        self._store = store
        self._client = client
        self._local = threading.local()
        if client is not None:
            client.meta.events.register("before-send.s3", self._before_send)

    @classmethod
    def over(cls, store: Store) -> "LastByteSync":
        """The innermost store decides: layers above it only pass requests on."""
        inner = store
        while hasattr(inner, "inner"):
            inner = inner.inner
        client = getattr(inner, "client", None)
        return cls(store, None if client is None else client())

    def send(self, request: Request[R], arrive: Signal) -> R:
        """Answer `request`, applied after `arrive` returned and not before."""
        arrive = _once(arrive)
        if self._client is None or not request.subject:
            arrive()
            return self._store.send(request)
        self._local.arrive = arrive
        try:
            return self._store.send(request)
        except OSError as lost:
            # Our own connection broke after the release: the driver does not know this error.
            return request.ends(Outcome.UNKNOWN, str(lost))
        finally:
            self._local.arrive = None
            arrive()

    def close(self) -> None:
        if self._client is not None:
            self._client.meta.events.unregister("before-send.s3", self._before_send)

    def _before_send(self, request: Any, **_: Any) -> Any:
        """botocore's event: an answer here means that botocore sends nothing."""
        arrive = getattr(self._local, "arrive", None)
        if arrive is None:
            return None
        self._local.arrive = None
        if _proxied(request.url):
            arrive()
            return None
        try:
            message = wire(request)
            connection = _connect(request.url)
        except (OSError, ValueError):
            arrive()
            return None
        with contextlib.closing(connection):
            connection.sendall(message[:-1])
            arrive()
            connection.sendall(message[-1:])
            return _answer(connection, request.method)


def _proxied(url: str) -> bool:
    """Behind a proxy botocore knows the way and we do not."""
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


def _once(arrive: Signal) -> Signal:
    """Arrive on the first call, do nothing on later ones."""
    waiting = [arrive]

    def call() -> None:
        if waiting:
            waiting.pop()()

    return call


def wire(request: Any) -> bytes:
    """The whole message of a prepared request, as it goes over the connection."""
    parts = urlsplit(request.url)
    body = _body(request.body)
    headers = {_text(name): _text(value) for name, value in request.headers.items()}
    names = {name.lower() for name in headers}
    # The body is sent without waiting for `100 Continue`; the header is never part of a signature.
    headers = {name: value for name, value in headers.items() if name.lower() != "expect"}
    if "transfer-encoding" in names:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    elif "content-length" not in names and (body or request.method in ("PUT", "POST")):
        headers["Content-Length"] = str(len(body))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {path} HTTP/1.1"]
    if "host" not in names:
        lines.append(f"Host: {_host(parts)}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _host(parts: Any) -> str:
    """As signed: without the port where it is the scheme's own."""
    ordinary = {"http": 80, "https": 443}.get(parts.scheme)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, ordinary) else f"{host}:{parts.port}"


def _body(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    read: bytes = body.read()
    return read


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    connection = socket.create_connection((host, port), timeout=SECONDS_MAX)
    # Without this the last byte would wait for the acknowledgement of those before it.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if parts.scheme != "https":
        return connection
    context = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE") or None)
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except OSError:
        connection.close()
        raise


def _answer(connection: socket.socket, method: str) -> Any:
    """Return a response as botocore reads it."""
    try:
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        content = response.read()
    except http.client.HTTPException as garbled:
        raise ConnectionError(f"the reply broke off: {garbled!r}") from garbled
    return SimpleNamespace(
        status_code=response.status,
        # Not a dict: servers spell the names of headers as they like.
        headers=response.headers,
        content=content,
        text=content.decode("utf-8", "replace"),
        raw=io.BytesIO(content),
    )
