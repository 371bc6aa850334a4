"""AWS Signature Version 4, verified: in a header, in the query of a presigned URL, in the chunks of a body.

A signature is the HMAC-SHA256 of a canonical text of the request, under a key that is derived from the
secret, the day, the region and the service. The server derives the same text from what arrived, so whatever
the client did not sign is not trusted: `host` must be signed, and every `x-amz-*` header too, or somebody in
between could add one.

A body is covered in one of these ways, named by `x-amz-content-sha256` (see `body`):

    a digest                                 the signature covers it; the body is compared with it
    UNSIGNED-PAYLOAD                         not covered (TLS, or a private network)
    STREAMING-AWS4-HMAC-SHA256-PAYLOAD       every chunk is signed, each over the signature before it
    ...-TRAILER                              the same, and headers behind the body, signed or not

Signatures are compared in constant time, and an unknown access key takes the same path as a false signature.
"""

import functools
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.objects.wire.errors import S3Error, refuse

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
STREAMING_SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SKEW = timedelta(minutes=15)
EXPIRES_MAX = 7 * 24 * 3600
_EMPTY = hashlib.sha256(b"").hexdigest()
_UNRESERVED = "-_.~"
_PLAIN, _PLAIN_PATH = (re.compile(f"[{more}0-9A-Za-z_.~-]*").fullmatch for more in ("", "/"))
"""Texts that quoting does not change: nearly all of them, and quoting takes most of the time."""

Secrets = Callable[[str], str | None]
"""The secret key of an access key; None when there is none."""


@dataclass(frozen=True)
class Scope:
    """The scope in which a signature is valid."""

    access_key: str
    day: str
    region: str

    @property
    def text(self) -> str:
        return f"{self.day}/{self.region}/s3/aws4_request"


@dataclass(frozen=True)
class Signed:
    """A verified request: who signed it, and what its body needs to go on."""

    scope: Scope
    moment: str
    signature: str
    key: bytes
    payload: str
    """The value of `x-amz-content-sha256`."""


@dataclass(frozen=True)
class Message:
    """A request without its body. `path` and `query` are decoded; header names are in lower case."""

    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]


def verify(message: Message, secrets: Secrets, now: datetime) -> Signed:
    """The signer of a request; one that is not signed is denied."""
    if not is_signed(message):
        raise S3Error("AccessDenied")
    if "authorization" in message.headers:
        return _verify_header(message, secrets, now)
    return _verify_presigned(message, secrets, now)


def is_signed(message: Message) -> bool:
    """Return true if a request claims to be signed."""
    return "authorization" in message.headers or any(
        name in ("X-Amz-Signature", "X-Amz-Algorithm") for name, _ in message.query
    )


_AUTHORIZATION = re.compile(
    rf"{ALGORITHM}\s+Credential=(?P<credential>[^,\s]+),\s*SignedHeaders=(?P<names>[^,\s]+),"
    r"\s*Signature=(?P<signature>[0-9a-f]{64})\s*"
)


def _verify_header(message: Message, secrets: Secrets, now: datetime) -> Signed:
    headers = message.headers
    found = _AUTHORIZATION.fullmatch(headers["authorization"])
    if found is None:
        refuse("AuthorizationHeaderMalformed")
    scope = read_scope(found["credential"], "AuthorizationHeaderMalformed")
    dated = time_of(headers.get("date", "")) if "x-amz-date" not in headers else None
    moment = f"{dated:%Y%m%dT%H%M%SZ}" if dated is not None else headers.get("x-amz-date", "")
    _check_moment(moment, scope, now)
    payload = headers.get("x-amz-content-sha256")
    if payload is None:
        refuse("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    names = found["names"].split(";")
    return _compare(message, names, payload, secrets, scope, moment, found["signature"])


def _verify_presigned(message: Message, secrets: Secrets, now: datetime) -> Signed:
    code = "AuthorizationQueryParametersError"
    words = dict(message.query)
    if words.get("X-Amz-Algorithm") != ALGORITHM:
        refuse(code, 'X-Amz-Algorithm only supports "AWS4-HMAC-SHA256"')
    scope = read_scope(words.get("X-Amz-Credential", ""), code)
    moment = words.get("X-Amz-Date", "")
    signed_at = _moment(moment)
    seconds = whole_number(words.get("X-Amz-Expires", ""), EXPIRES_MAX, least=1)
    if signed_at is None or seconds is None:
        refuse(code, "X-Amz-Date and X-Amz-Expires must be given, and X-Amz-Expires be at most a week")
    if now > signed_at + timedelta(seconds=seconds):
        refuse("AccessDenied", "Request has expired")
    if now < signed_at - SKEW:
        refuse("AccessDenied", "Request is not valid yet")
    names = words.get("X-Amz-SignedHeaders", "").split(";")
    payload = words.get("X-Amz-Content-Sha256", message.headers.get("x-amz-content-sha256", UNSIGNED))
    rest = [(name, value) for name, value in message.query if name != "X-Amz-Signature"]
    signature = words.get("X-Amz-Signature", "")
    unsigned = Message(message.method, message.path, rest, message.headers)
    return _compare(unsigned, names, payload, secrets, scope, moment, signature)


def _compare(
    message: Message,
    names: Sequence[str],
    payload: str,
    secrets: Secrets,
    scope: Scope,
    moment: str,
    signature: str,
) -> Signed:
    if "host" not in names or any(
        name.startswith("x-amz-") and name not in names for name in message.headers
    ):
        refuse("AccessDenied", "There were headers present in the request which were not signed")
    secret = secrets(scope.access_key)
    key = signing_key(secret or "", scope)
    canonical = canonical_request(message, names, payload)
    expected = sign(key, moment, scope, canonical)
    if not hmac.compare_digest(expected.encode(), signature.encode()) or secret is None:
        refuse("InvalidAccessKeyId" if secret is None else "SignatureDoesNotMatch")
    return Signed(scope, moment, signature, key, payload)


def canonical_request(message: Message, names: Sequence[str], payload: str) -> str:
    words = sorted((_quoted(name), _quoted(value)) for name, value in message.query)
    lines = [f"{name}:{' '.join(message.headers.get(name, '').split())}" for name in names]
    return "\n".join(
        [
            message.method,
            message.path if _PLAIN_PATH(message.path) else quote(message.path, safe="/" + _UNRESERVED),
            "&".join(f"{name}={value}" for name, value in words),
            *lines,
            "",
            ";".join(names),
            payload,
        ]
    )


def _quoted(text: str) -> str:
    return text if _PLAIN(text) else quote(text, safe=_UNRESERVED)


@functools.lru_cache(maxsize=256)
def signing_key(secret: str, scope: Scope) -> bytes:
    """The same for a day: kept, because it is most of what verifying a signature costs."""
    key = f"AWS4{secret}".encode()
    for part in (scope.day, scope.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def sign(key: bytes, moment: str, scope: Scope, canonical: str) -> str:
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return _mac(key, f"{ALGORITHM}\n{moment}\n{scope.text}\n{digest}")


def _mac(key: bytes, text: str) -> str:
    mac = _keyed(key).copy()
    mac.update(text.encode())
    return mac.hexdigest()


@functools.lru_cache(maxsize=256)
def _keyed(key: bytes) -> hmac.HMAC:
    """An HMAC before its text: OpenSSL takes longer to look one up than to compute it."""
    return hmac.new(key, digestmod="sha256")


class Chain:
    """The signatures of the chunks of one body, each over the one before it."""

    def __init__(self, signed: Signed) -> None:
        self._signed = signed
        self._previous = signed.signature

    def check_chunk(self, digest: str, signature: str) -> None:
        """`digest` is the SHA-256 of the chunk's content."""
        self._check("PAYLOAD", f"{_EMPTY}\n{digest}", signature)

    def check_trailer(self, lines: bytes, signature: str) -> None:
        self._check("TRAILER", hashlib.sha256(lines).hexdigest(), signature)

    def _check(self, kind: str, rest: str, signature: str) -> None:
        signed = self._signed
        text = f"{ALGORITHM}-{kind}\n{signed.moment}\n{signed.scope.text}\n{self._previous}\n{rest}"
        if not hmac.compare_digest(_mac(signed.key, text).encode(), signature.encode()):
            refuse("SignatureDoesNotMatch")
        self._previous = signature


def read_scope(credential: str, code: str) -> Scope:
    """Return the scope that a credential names."""
    parts = credential.rsplit("/", 4)
    if len(parts) != 5 or parts[3] != "s3" or parts[4] != "aws4_request" or not parts[0]:
        raise S3Error(code)
    return Scope(*parts[:3])


def time_of(date: str) -> datetime | None:
    """Return the time that a `Date` has; None if it has none. `-0000` is UTC."""
    try:
        found = parsedate_to_datetime(date)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _moment(text: str) -> datetime | None:
    found = _MOMENT(text)
    try:
        if found is None:
            return None
        year, month, day, hour, minute, second = map(int, found.groups())
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:  # no such day or hour
        return None


_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", re.ASCII).fullmatch


def _check_moment(text: str, scope: Scope, now: datetime) -> None:
    moment = _moment(text)
    if moment is None or not text.startswith(scope.day):
        refuse("AccessDenied", "AWS authentication requires a valid x-amz-date header")
    if abs(now - moment) > SKEW:
        refuse("RequestTimeTooSkewed")
