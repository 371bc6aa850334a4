"""Stores that lie over HTTP, for rivals in processes of their own: moto behind an application that
tampers with what goes in. All but the lie is honest (see `tests.servers.moto_here`)."""

import contextlib
import io
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from werkzeug.serving import make_server

from tests.servers.endpoint import Endpoint
from tests.servers.moto_here import HonestApp, QuietHandler, _body, moto_app

BETWEEN_S = 0.003
"""Between check and write."""
STALE_S = 0.2
"""How old a cached listing gets."""


class LyingApp:
    """Calls `lie` with the request and the honest application."""

    def __init__(self, lie: Callable[["LyingApp", dict[str, Any], Any], Any]) -> None:
        self.honest = HonestApp(moto_app())
        self.cache: dict[str, tuple[float, Any]] = {}
        self._lie = lie

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        body = _body(environ)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["wsgi.input_terminated"] = True
        return self._lie(self, environ, start_response)

    def head(self, environ: dict[str, Any]) -> tuple[str, dict[str, str]]:
        """What stands at the key of this request: status and headers."""
        answer_parts: list[Any] = []
        conditions = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
        asked = {name: value for name, value in environ.items() if name not in conditions}
        asked |= {
            "REQUEST_METHOD": "HEAD",
            "wsgi.input": io.BytesIO(),
            "CONTENT_LENGTH": "0",
            "QUERY_STRING": "",
        }
        self.honest(asked, lambda status, headers, *_: answer_parts.extend([status, dict(headers)]))
        return answer_parts[0], answer_parts[1]


def ignores_if_none_match(app: LyingApp, environ: dict[str, Any], start_response: Any) -> Any:
    environ.pop("HTTP_IF_NONE_MATCH", None)
    return app.honest(environ, start_response)


def checks_then_acts(app: LyingApp, environ: dict[str, Any], start_response: Any) -> Any:
    if "HTTP_IF_NONE_MATCH" in environ and app.head(environ)[0].startswith("404"):
        time.sleep(BETWEEN_S)
        del environ["HTTP_IF_NONE_MATCH"]
    return app.honest(environ, start_response)


def loses_updates(app: LyingApp, environ: dict[str, Any], start_response: Any) -> Any:
    wanted = environ.get("HTTP_IF_MATCH")
    if wanted is not None and app.head(environ)[1].get("ETag", "").strip('"') == wanted.strip('"'):
        time.sleep(BETWEEN_S)
        del environ["HTTP_IF_MATCH"]
    return app.honest(environ, start_response)


def lists_stale(app: LyingApp, environ: dict[str, Any], start_response: Any) -> Any:
    query = environ.get("QUERY_STRING", "")
    if environ["REQUEST_METHOD"] != "GET" or "list-type=2" not in query:
        return app.honest(environ, start_response)
    cached = app.cache.get(query)
    if cached is None or time.monotonic() - cached[0] > STALE_S:
        answer_parts: list[Any] = []
        body = app.honest(environ, lambda *answer: answer_parts.extend(answer))
        cached = app.cache[query] = (time.monotonic(), (answer_parts, body))
    answer_parts, body = cached[1]
    start_response(*answer_parts)
    return body


@contextlib.contextmanager
def lying_endpoint(lie: Callable[[LyingApp, dict[str, Any], Any], Any]) -> Iterator[Endpoint]:
    """An endpoint in this process that lies like this."""
    server = make_server("127.0.0.1", 0, LyingApp(lie), threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="lying moto")
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
