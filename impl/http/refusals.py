"""Every response that is not a plain success: its kind, its status, and the advice to the client.

The kind is for programs and never changes; the message is for people: the cause, the place, the remedy.

    {"error": "body_too_large", "message": "the body has more than 8388608 bytes; send smaller batches"}

The last column of a table of kinds is the advice to a client that must not lose what it sends:

    retry    later, perhaps at another server: the request may still succeed
    park     set the request aside and alert an operator: it will never succeed as it is
    stop     every request would be refused for the same reason: the configuration must change first
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Then = Literal["retry", "park", "stop"]


@dataclass(frozen=True, slots=True)
class Kind:
    status: int
    then: Then
    summary: str


COMMON: Mapping[str, Kind] = {
    "bad_request": Kind(400, "park", "The request cannot be parsed."),
    "unauthenticated": Kind(401, "stop", "The bearer token is missing or unknown."),
    "not_found": Kind(404, "stop", "The address does not exist."),
    "method_not_allowed": Kind(405, "stop", "The address does not support the method."),
    "too_slow": Kind(408, "retry", "The request did not arrive in time."),
    "length_required": Kind(411, "park", "The request has neither a length nor a chunked body."),
    "body_too_large": Kind(413, "park", "The body is larger than this server accepts."),
    "unsupported_encoding": Kind(415, "park", "The body is encoded, or has another content type."),
    "too_many_requests": Kind(429, "retry", "This client has too many requests in flight."),
    "internal": Kind(500, "retry", "The server failed; its log has the reason."),
    "busy": Kind(503, "retry", "The server has too many requests or connections open."),
    "draining": Kind(503, "retry", "The server is about to stop."),
    "store_unavailable": Kind(
        503, "retry", "The store does not answer, or the outcome of a write is unknown."
    ),
}


class Refusal(Exception):
    """Ends a request with this response. A server with more kinds extends the class by its own table."""

    kinds: ClassVar[Mapping[str, Kind]] = COMMON

    def __init__(self, kind: str, message: str, *, retry_after_s: float = 0, **more: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = self.kinds[kind].status
        self.message = message
        self.retry_after_s = retry_after_s
        self.more = more

    def body(self) -> dict[str, Any]:
        return {"error": self.kind, "message": self.message, **self.more}

    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self.status == 401:
            headers["www-authenticate"] = 'Bearer realm="fencepost"'
        if self.retry_after_s:
            headers["retry-after"] = str(max(1, round(self.retry_after_s)))
        return headers


def to_json(body: Any) -> bytes:
    # ASCII, so that a lone surrogate that a client smuggled in cannot break the response about it.
    return json.dumps(body, ensure_ascii=True, allow_nan=False).encode() + b"\n"
