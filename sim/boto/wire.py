"""S3 for clients that are not boto3: a request as bytes, its reply as bytes.

A request belongs to S3 if it carries a signature for S3 (in a header or in its query) or a header of S3. So
does one whose host is S3's own, or whose endpoint the program has declared (`world.s3_endpoint`).
Whatever else goes over a connection leads out of the world.

Such clients read the times of modification as text, where no look at them can be noticed; so every reply that
carries one counts as a look (see `sim.world.stamps`), which costs schedules. `configure(stamped=False)` is
for programs that never look.
"""

import re
import sys
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from botocore.utils import parse_timestamp

from fencepost.impl.store.errors import Misuse
from fencepost.sim.boto import buckets, serve
from fencepost.sim.world import stamps, times
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.present import here, surely_here
from fencepost.sim.world.run import RunState

_AWS = re.compile(r"(.+\.)?s3([.-][a-z0-9-]+)*\.amazonaws\.com(\.cn)?(:\d+)?")
_SIGNED = re.compile(r"AWS4-HMAC-SHA256 .*/([a-z0-9-]+)/aws4_request")
_OF_SIGNATURES = frozenset(
    "x-amz-algorithm x-amz-credential x-amz-date x-amz-expires x-amz-signedheaders x-amz-signature "
    "x-amz-security-token x-amz-content-sha256 awsaccesskeyid signature expires".split()
)
_REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 304: "Not Modified", 404: "Not Found"}
_DATED = re.compile(rb"<(?:LastModified|Initiated)>([^<]+)<")


def exchange(sent: bytes, host: str, *, secure: bool) -> bytes:
    """The reply to a request that goes to `host`; nothing when it is lost."""
    try:
        status, headers, body = answer(parse(sent, host, secure=secure))
    except ReadTimeoutError:
        raise TimeoutError("timed out") from None
    except ConnectionClosedError:
        return b""
    return as_bytes(status, headers, body)


def as_bytes(status: int, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}"]
    lines += [f"{name}: {value}" for name, value in {**headers, "Connection": "close"}.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def check(request: Any) -> str:
    """Return the host of S3 in a request, without a bucket in front; raise an escape for other hosts."""
    run = here()
    if run is None:
        raise Misuse(f"{request.method} {request.url} was sent after the run")
    parts = urlsplit(request.url)
    home = _home(run, parts.netloc, request.headers, parse_qsl(parts.query, keep_blank_values=True))
    if home is None:
        raise escape(
            f"{request.method} {request.url}",
            "the world answers S3: declare an endpoint of yours with world.s3_endpoint(URL), "
            "and hand the code a stand-in for anything else",
            sys._getframe(1),
        )
    return home


def answer(request: Any) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; the step of the request."""
    home = check(request)
    buckets.install(surely_here())
    parts = urlsplit(request.url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    plain = urlencode([(name, value) for name, value in query if name.lower() not in _OF_SIGNATURES])
    request.url = parts._replace(query=plain).geturl()
    try:
        status, headers, body = serve.reply(request, home)
    except serve.Unanswered as beyond:
        raise escape(beyond.call, beyond.instead, sys._getframe(1)) from None
    shown = [
        *_DATED.findall(body),
        *(value.encode() for name, value in headers.items() if name == "Last-Modified"),
    ]
    if shown:
        stamps.look()
        for text in shown:
            times.note_stamp(parse_timestamp(text.decode()))
    return status, headers, body


def _home(run: RunState, host: str, headers: dict[str, str], query: list[tuple[str, str]]) -> str | None:
    """Return the host of the service, without a bucket in front, or None if it is not S3."""
    declared = [one for one in run.settings.s3_endpoints if host == one or host.endswith(f".{one}")]
    if declared:
        return str(max(declared, key=len))
    aws = _AWS.fullmatch(host)
    if aws:
        host = ""  # with or without a bucket in front
    signed = _SIGNED.match(headers.get("authorization", ""))
    if signed:
        return host if signed[1] in ("s3", "s3express") else None
    names = {name.lower() for name, _ in query}
    ours = (
        headers.get("authorization", "").startswith("AWS ")
        or names & {"x-amz-signature", "awsaccesskeyid"}
        or any(name.startswith("x-amz-") for name in headers)
        or aws
    )
    return host if ours else None


def parse(sent: bytes, host: str, *, secure: bool) -> Any:
    """A request as `Message` takes it."""
    head, _, body = sent.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.pop("transfer-encoding", "").lower() == "chunked":
        body = _joined(body)
    if not target.startswith("/"):
        parts = urlsplit(target)  # to a proxy
        host, target = parts.netloc, f"{parts.path or '/'}{parts.query and '?' + parts.query}"
    scheme, port = ("https", ":443") if secure else ("http", ":80")
    host = headers.get("host", host).removesuffix(port)
    url = f"{scheme}://{host}{target}"
    return SimpleNamespace(method=method, url=url, headers=headers, body=body)


def _joined(chunked: bytes) -> bytes:
    body, left = b"", chunked
    while left:
        size, _, left = left.partition(b"\r\n")
        count = int(size.partition(b";")[0], 16)
        if not count:
            break
        body, left = body + left[:count], left[count + 2 :]
    return body


def expects(received: bytes | bytearray) -> bool:
    """Return true if the sender waits for `100 Continue` before it sends the body."""
    head, ends, _ = received.partition(b"\r\n\r\n")
    return bool(ends) and b"expect: 100-continue" in head.lower()


def whole(received: bytes | bytearray) -> bool:
    """Return true if a request has arrived with all of its body."""
    head, ends, body = received.partition(b"\r\n\r\n")
    if not ends:
        return False
    lowered = head.lower()
    if b"transfer-encoding: chunked" in lowered:
        return body.endswith(b"0\r\n\r\n") and (body == b"0\r\n\r\n" or b"\r\n0\r\n\r\n" in body)
    length = re.search(rb"\r\ncontent-length: *(\d+)", lowered)
    return len(body) >= (int(length[1]) if length else 0)
