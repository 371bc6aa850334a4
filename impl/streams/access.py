"""Access to streams: bearer tokens, and the origins of pages in browsers.

    method   right      beside it
    GET HEAD read       a browser's EventSource can send no header: `?token=` instead, with live=sse only
    PUT      create     a fork: read on its source
    POST     append     also to close
    DELETE   delete

Pages of any origin may read what their browser's user may read. The other methods are for pages of this
server and of the origins that are configured. A browser sends some of these requests without a preflight, so
they are refused by their Origin header; programs send none.
"""

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote_plus

from starlette.requests import Request

from fencepost.impl.http.tokens import Forbidden, Holder, Tokens

RIGHTS = {"GET": "read", "HEAD": "read", "PUT": "create", "POST": "append", "DELETE": "delete"}
SAFE = ("GET", "HEAD", "OPTIONS")
ALL = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Access:
    """Without `tokens` everyone may do everything. `origins` may have `*`."""

    tokens: Tokens[Holder] | None = None
    origins: Collection[str] = ()

    def check(self, request: Request, name: str) -> Holder | None:
        """The holder of the token; raises the refusal of a request."""
        if request.method not in SAFE and not self._is_allowed(request):
            origin = request.headers["origin"][:200]
            raise Forbidden("forbidden", f"pages of {origin!a} may only read; see --cors-origin")
        if self.tokens is None:
            return None
        token = _token_of_query(request)
        holder = self.tokens.known(token) if token else self.tokens.authenticate(request.headers.raw)
        holder.check(RIGHTS[request.method], name)
        return holder

    def _is_allowed(self, request: Request) -> bool:
        origin = request.headers.get("origin")
        own = (f"http://{request.headers.get('host')}", f"https://{request.headers.get('host')}")
        return origin is None or origin in own or origin in self.origins or "*" in self.origins

    def headers(self, request: Request) -> dict[str, str]:
        """Those that tell browsers and caches."""
        allowed = ALL if self.origins and self._is_allowed(request) else SAFE
        vary = ["authorization"] if self.tokens is not None else []
        if self.origins and "*" not in self.origins:
            vary.append("origin")
        found = {"vary": ", ".join(vary)} if vary else {}
        if request.method in allowed:
            found |= {
                "access-control-allow-origin": "*",
                "access-control-allow-methods": ", ".join(allowed),
                "access-control-allow-headers": "*, authorization",
                "access-control-expose-headers": "*",
                "cross-origin-resource-policy": "cross-origin",
            }
        else:
            found["cross-origin-resource-policy"] = "same-origin"
        return found

    @property
    def caching(self) -> str:
        """The Cache-Control of responses with bytes of a stream."""
        return f"{'public' if self.tokens is None else 'private'}, max-age=60, stale-while-revalidate=300"


def _token_of_query(request: Request) -> str:
    """Only as `token=`: another spelling of the name is no token, and every spelling is hidden in logs."""
    query: bytes = request.scope["query_string"]
    if request.method != "GET" or "authorization" in request.headers or b"token=" not in query:
        return ""
    if ("live", "sse") not in parse_qsl(query.decode("latin-1")):
        return ""
    values = [part[6:] for part in query.split(b"&") if part.startswith(b"token=")]
    return unquote_plus(values[0].decode("latin-1")) if len(values) == 1 else ""
