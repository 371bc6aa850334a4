"""moto's HTTP server in a thread of this process, honest, and with faults on request.

moto checks a condition and then writes, with no lock between: two racing creates can both succeed. One
lock around its application makes every request atomic. The request's body is read outside of the lock,
or a slow sender would hold up everybody and hide the races that tests are after.

Faults are what a network and a busy store do: `lose_reply` applies the request and closes the
connection; `answer` sends another reply in place of moto's, after it was applied or without applying it.
"""

import contextlib
import io
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from tests.servers.endpoint import Endpoint


@dataclass(frozen=True)
class Fault:
    """What happens to the next request that `wanted` picks."""

    wanted: Callable[[Mapping[str, Any]], bool]
    apply: bool = True
    status: str = ""
    """The status line sent instead; empty closes the connection without a reply."""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HonestApp:
    """A WSGI application that lets one request at a time into the one it wraps."""

    def __init__(self, app: Any) -> None:
        self.faults: deque[Fault] = deque()
        self.served: list[str] = []
        """METHOD PATH?QUERY of every request, in the order they were let in."""
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        environ["wsgi.input"] = io.BytesIO(_body(environ))
        environ["wsgi.input_terminated"] = True
        with self._lock:
            query = environ.get("QUERY_STRING", "")
            self.served.append(
                f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}{'?' * bool(query)}{query}"
            )
            fault = self._due(environ)
            if fault is None:
                return self._through(environ, start_response)
            if fault.apply:
                self._through(environ, lambda *_: None)
        return _fail(fault, environ, start_response)

    def _due(self, environ: dict[str, Any]) -> Fault | None:
        if self.faults and self.faults[0].wanted(environ):
            return self.faults.popleft()
        return None

    def _through(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        answer = self._app(environ, start_response)
        try:
            return list(answer)
        finally:
            getattr(answer, "close", lambda: None)()


def _body(environ: dict[str, Any]) -> bytes:
    if environ.get("wsgi.input_terminated"):
        return environ["wsgi.input"].read()
    return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


def _fail(fault: Fault, environ: dict[str, Any], start_response: Any) -> list[bytes]:
    if not fault.status:
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError("the test lost this reply")
    headers = {"Content-Type": "application/xml", "Content-Length": str(len(fault.body)), **fault.headers}
    start_response(fault.status, list(headers.items()))
    return [fault.body]


class QuietHandler(MotoRequestHandler):
    """Says nothing: a test's output belongs to the test."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the name it overrides
        pass


class Here(Endpoint):
    """The honest server in this process, and its faults."""

    def __init__(self, address: str, app: HonestApp) -> None:
        super().__init__(address)
        self.app = app

    def lose_reply(self, method: str = "PUT", *, apply: bool = True) -> None:
        """The next request with this method is applied (or not), and its connection closed."""
        self.app.faults.append(Fault(lambda environ: environ["REQUEST_METHOD"] == method, apply))

    def answer(
        self,
        status: str,
        body: bytes = b"",
        *,
        method: str = "PUT",
        apply: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """The next request with this method is answered like this (`status` as in "503 Slow Down")."""
        self.app.faults.append(
            Fault(lambda environ: environ["REQUEST_METHOD"] == method, apply, status, body, headers or {})
        )


def moto_app() -> Any:
    """moto's application for all services, as it ships: not honest."""
    return DomainDispatcherApplication(create_backend_app)


@contextlib.contextmanager
def moto_in_thread() -> Iterator[Here]:
    """An honest moto in this process. All of them share moto's state: make buckets of your own."""
    app = HonestApp(moto_app())
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    server.log = lambda *_: None  # type: ignore[method-assign] # nor do moto's own tracebacks
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="moto")
    thread.start()
    try:
        yield Here(f"http://127.0.0.1:{server.server_port}", app)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
