"""Spans of requests, sent to a collector of OpenTelemetry: OTLP over HTTP, as JSON.

A request that names its parent (`traceparent`, https://www.w3.org/TR/trace-context/) belongs to its trace and
is sampled if the parent is; of the others a share is sampled. A span has the method, the path without its
query, the status and the times: no header and no body. Spans wait in memory for the next batch and are
dropped, and counted, while the collector cannot be reached: requests never wait for it.
"""

import http.client
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from fencepost.impl.environment import Environment
from fencepost.impl.http.periodic import Periodic

WAITING_MAX = 4096
BATCH_MAX = 512
INTERVAL_S, TIMEOUT_S = 1.0, 5.0
PATH_MAX = 200
_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SERVER = 2
"""The kind of a span that answers a request."""
_ERROR = 2


class Spans:
    """Sends spans from its making until `close`. Raises ValueError for an endpoint that is no URL."""

    def __init__(self, endpoint: str, rate: float, service: str, env: Environment) -> None:
        url = urlsplit(endpoint)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.username:
            raise ValueError(f"{endpoint!a} is no endpoint; give one as http://localhost:4318")
        self._is_https, self._host, self._port = url.scheme == "https", url.hostname, url.port
        self._path = f"{url.path.rstrip('/')}/v1/traces"
        self._bound = round(rate * (1 << 64))
        self._service = service
        self._env = env
        self._random = env.stream("spans")
        self._waiting: deque[dict[str, Any]] = deque()
        self._dropped = 0
        self._log = logging.getLogger("fencepost.http")
        self._thread = Periodic("spans", self._send, INTERVAL_S)

    def add(
        self, method: str, path: str, status: int, took_s: float, headers: Iterable[tuple[bytes, bytes]]
    ) -> None:
        """Note a request that has just ended, if it is sampled."""
        found = next((value for name, value in headers if name == b"traceparent"), b"")
        parent = _PARENT.fullmatch(found.decode("latin-1"))
        number = self._random.getrandbits(128)
        if not (int(parent[3], 16) & 1 if parent else number & ((1 << 64) - 1) < self._bound):
            return
        if len(self._waiting) >= WAITING_MAX:
            self._dropped += 1
            return
        end_ns = self._env.now_ns()
        self._waiting.append(
            {
                "traceId": parent[1] if parent else f"{number:032x}",
                "spanId": f"{self._random.getrandbits(64) or 1:016x}",
                **({"parentSpanId": parent[2]} if parent else {}),
                "name": method[:20],
                "kind": _SERVER,
                "startTimeUnixNano": str(end_ns - round(took_s * 1e9)),
                "endTimeUnixNano": str(end_ns),
                "attributes": _attributes(
                    {
                        "http.request.method": method[:20],
                        "url.path": path[:PATH_MAX],
                        "http.response.status_code": status,
                    }
                ),
                **({"status": {"code": _ERROR}} if status >= 500 else {}),
            }
        )

    def close(self) -> None:
        self._thread.close()
        self._send(lambda: False)

    def _send(self, stopping: Callable[[], bool]) -> None:
        problem = "too many wait for the collector" if self._dropped else ""
        while self._waiting and not stopping():
            batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
            error = self._post(batch)
            if error:
                self._dropped += len(batch)
                problem = error
                break
        if problem:
            lost, self._dropped = self._dropped, 0
            self._log.warning("%d spans are lost: %s", lost, problem)

    def _connect(self) -> http.client.HTTPConnection:
        make = http.client.HTTPSConnection if self._is_https else http.client.HTTPConnection
        return make(self._host, self._port, timeout=TIMEOUT_S)

    def _post(self, batch: list[dict[str, Any]]) -> str:
        """Send a batch; return why it could not be sent."""
        scope = {"scope": {"name": "fencepost"}, "spans": batch}
        resource = {"attributes": _attributes({"service.name": self._service})}
        body = json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})
        connection = self._connect()
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return f"the collector cannot be reached: {error}"
        finally:
            connection.close()
        return "" if status < 300 else f"the collector answered {status}"


def _attributes(values: Mapping[str, str | int]) -> list[dict[str, Any]]:
    """As OTLP has them in JSON, where a number is a text."""
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in values.items()
    ]
