"""Answers as they leave: JSON, and a refusal as an exception that carries its kind (see `kinds`)."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from fencepost.impl.ingest.service.kinds import KINDS


class Refusal(Exception):
    """The request is answered with this instead."""

    def __init__(self, kind: str, message: str, *, retry_after_s: float = 0, **more: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = KINDS[kind].status
        self.message = message
        self.retry_after_s = retry_after_s
        self.more = more

    def body(self) -> dict[str, Any]:
        return {"error": self.kind, "message": self.message, **self.more}

    def headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.status == 401:
            found["www-authenticate"] = 'Bearer realm="fencepost ingest"'
        if self.retry_after_s:
            found["retry-after"] = str(max(1, round(self.retry_after_s)))
        return found

    def response(self) -> Response:
        return as_json(self.body(), self.status, self.headers())


def as_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        as_bytes(body), status, {"cache-control": "no-store", **(headers or {})}, "application/json"
    )


def as_bytes(body: Any) -> bytes:
    # ASCII, so that a lone surrogate that a client smuggled in cannot break the answer about it.
    return json.dumps(body, ensure_ascii=True, allow_nan=False).encode() + b"\n"
