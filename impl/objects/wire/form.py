"""`POST` of an object by a form of a browser: the fields before the file, the policy, the file.

    --boundary CRLF
    Content-Disposition: form-data; name="key" CRLF CRLF
    value CRLF --boundary ... name="file"; filename="x" CRLF [headers] CRLF content CRLF --boundary--

The fields come first and are small; the file is the last part that is read, and passes through in pieces.
The policy (base64 of JSON) is what the signature covers: it must name every field that a form has, but for
those that carry the signature and those that begin with `x-ignore-`.
"""

import base64
import hashlib
import hmac
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.objects.wire.body import Body
from fencepost.impl.objects.wire.elements import xml_text
from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.objects.wire.signature import ALGORITHM, Secrets, read_scope, signing_key

FIELDS_BYTES_MAX = 20 * 1024 * 2
_HEAD_BYTES_MAX = 8 * 1024
_UNCONDITIONED = frozenset(
    {"x-amz-signature", "awsaccesskeyid", "signature", "policy", "file", "x-amz-algorithm"}
)


def boundary_of(content_type: str) -> bytes | None:
    """Return what separates the parts of a form; None if the request has no form."""
    message = Message()
    message["content-type"] = content_type
    if message.get_content_type() != "multipart/form-data":
        return None
    found = message.get_param("boundary", "")
    if not isinstance(found, str) or not 0 < len(found) <= 200:
        refuse("MalformedPOSTRequest")
    return found.encode("latin-1", "replace")


class Form:
    """The parts of a form as they arrive. `feed` yields the content of the file."""

    def __init__(self, boundary: bytes) -> None:
        self.fields: dict[str, str] = {}
        """By name in lower case, without the file."""
        self.file_name = ""
        self.file_type = ""
        self.in_file = False
        self._mark = b"\r\n--" + boundary
        self._buffer = bytearray(b"\r\n")  # the first boundary has no line before it
        self._at = "start"
        self._name = ""
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        self._buffer += piece
        while True:
            if self._at == "end":
                self._buffer.clear()
                return
            if self._at == "head":
                if not self._head():
                    return
            elif self._at == "file":
                content, ended = self._until_mark()
                if content:
                    yield content
                if not ended:
                    return
                self._at = "end"
            elif not self._field():
                return

    def _field(self) -> bool:
        """Take the text before the next boundary, which is a field's value, or nothing at the start."""
        at = self._buffer.find(self._mark)
        if len(self._buffer) + self._size > FIELDS_BYTES_MAX and (at < 0 or at > FIELDS_BYTES_MAX):
            refuse("MaxPostPreDataLengthExceeded")
        if at < 0:
            return False
        value = bytes(self._buffer[:at])
        if self._at == "value":
            self._size += len(value)
            if self._size > FIELDS_BYTES_MAX:
                refuse("MaxPostPreDataLengthExceeded")
            try:
                self.fields[self._name] = value.decode()
            except UnicodeDecodeError:
                refuse("MalformedPOSTRequest")
        del self._buffer[: at + len(self._mark)]
        self._at = "head"
        return True

    def _head(self) -> bool:
        if self._buffer[:2] == b"--":
            self._at = "end"
            return True
        at = self._buffer.find(b"\r\n\r\n")
        if at < 0:
            if len(self._buffer) > _HEAD_BYTES_MAX:
                refuse("MalformedPOSTRequest")
            return False
        lines = bytes(self._buffer[:at]).decode("utf-8", "replace").split("\r\n")
        del self._buffer[: at + 4]
        headers = {
            name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)
        }
        name, file_name = _disposition(headers.get("content-disposition", ""))
        self._name = name.lower()
        self._size += at
        if self._name == "file":
            self.file_name, self.file_type = file_name, headers.get("content-type", "")
            self._at, self.in_file = "file", True
        elif not self._name or self._name in self.fields:
            refuse("MalformedPOSTRequest")
        else:
            self._at = "value"
        return True

    def _until_mark(self) -> tuple[bytes, bool]:
        at = self._buffer.find(self._mark)
        # A boundary may begin in these last bytes.
        stop = at if at >= 0 else max(0, len(self._buffer) - len(self._mark) + 1)
        content = bytes(self._buffer[:stop])
        del self._buffer[:stop]
        return content, at >= 0

    def finish(self) -> None:
        """Raise unless the whole form arrived."""
        if not self.in_file:
            refuse("InvalidArgument", "POST requires exactly one file upload per request.", argument="file")
        if self._at != "end":
            refuse("IncompleteBody")


def _disposition(text: str) -> tuple[str, str]:
    message = Message()
    message["content-disposition"] = text
    found = [message.get_param(name, "", "content-disposition") for name in ("name", "filename")]
    name, file_name = (one if isinstance(one, str) else one[2] for one in found)
    return name, re.split(r"[/\\]", file_name)[-1]


def headers_of(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with which a `PUT` would store the same object."""
    named = {"acl": "x-amz-acl", "x-amz-acl": "x-amz-acl"}
    return {
        named.get(name, name): text
        for name, text in fields.items()
        if name in _HEADERS or name in named or name.startswith(_PREFIXES)
    }


_HEADERS = frozenset(
    {
        "cache-control", "content-disposition", "content-encoding", "content-language", "content-type",
        "content-md5", "expires",
    }
)  # fmt: skip
_PREFIXES = (
    "x-amz-meta-", "x-amz-checksum-", "x-amz-server-side-encryption", "x-amz-storage-class",
    "x-amz-object-lock-", "x-amz-website-",
)  # fmt: skip


def answer(
    fields: Mapping[str, str], bucket: str, etag: str, location: str
) -> tuple[int, dict[str, str], bytes]:
    """Return the status, headers and body of the response to a form that was stored at `location`."""
    key = fields["key"]
    redirect = fields.get("success_action_redirect") or fields.get("redirect", "")
    if redirect and urlsplit(redirect).scheme in ("http", "https") and redirect.isprintable():
        query = urlencode({"bucket": bucket, "key": key, "etag": etag})
        mark = "&" if urlsplit(redirect).query else "?"
        return 303, {"Location": quote(redirect, safe=_URL) + mark + query}, b""
    status = {"200": 200, "201": 201}.get(fields.get("success_action_status", ""), 204)
    if status != 201:
        return status, {"Location": location}, b""
    names = {"Location": location, "Bucket": bucket, "Key": key, "ETag": etag}
    inside = "".join(f"<{name}>{xml_text(text)}</{name}>" for name, text in names.items())
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<PostResponse>{inside}</PostResponse>'
    return 201, {"Location": location, "Content-Type": "application/xml"}, body.encode()


_URL = "%/:?#[]@!$&'()*+,;=~"


# Policies.


@dataclass(frozen=True)
class Permission:
    """The signer of a policy, and the length of the file that it allows."""

    access_key: str
    least: int = 0
    most: int | None = None

    def check(self, size: int, *, whole: bool = False) -> None:
        """Refuse a file of which this many bytes have arrived."""
        if self.most is not None and size > self.most:
            refuse("EntityTooLarge", proposed_size=str(size), max_size_allowed=str(self.most))
        if whole and size < self.least:
            refuse("EntityTooSmall", proposed_size=str(size), min_size_allowed=str(self.least))


def permission_of(
    fields: Mapping[str, str], bucket: str, secrets: Secrets, now: datetime
) -> Permission | None:
    """Return what the signed policy of a form allows; None for a form without one.

    Refuses a signature that is false, and a policy that has expired or does not hold for these fields.
    """
    policy = fields.get("policy", "")
    if "policy" not in fields:
        if "signature" in fields or "x-amz-signature" in fields:
            refuse("InvalidArgument", "Bucket POST must contain a field named 'policy'.", argument="policy")
        return None
    access_key = _verified(fields, policy, secrets)
    try:
        document = json.loads(base64.b64decode(policy, validate=True))
    except (ValueError, RecursionError):
        refuse("InvalidPolicyDocument", "Invalid Policy: Invalid JSON.")
    if not isinstance(document, dict) or not isinstance(document.get("expiration"), str):
        refuse("InvalidPolicyDocument", "Invalid Policy: Policy missing expiration.")
    conditions = document.get("conditions")
    if not isinstance(conditions, list) or not conditions:
        refuse("InvalidPolicyDocument", "Invalid Policy: Policy missing conditions.")
    if _expiration(document["expiration"]) <= now:
        refuse("AccessDenied", "Invalid according to Policy: Policy expired.")
    return _Checked(fields, bucket, access_key).permission(conditions)


def _verified(fields: Mapping[str, str], policy: str, secrets: Secrets) -> str:
    """Return the access key that signed a policy, by Signature Version 4 or 2."""
    if fields.get("x-amz-algorithm"):
        if fields["x-amz-algorithm"] != ALGORITHM:
            refuse("InvalidArgument", "Only AWS4-HMAC-SHA256 is supported", argument="x-amz-algorithm")
        scope = read_scope(fields.get("x-amz-credential", ""), "InvalidArgument")
        secret = secrets(scope.access_key)
        expected = hmac.digest(signing_key(secret or "", scope), policy.encode(), "sha256").hex()
        return _compared(scope.access_key, secret, expected, fields.get("x-amz-signature", ""))
    for name, shown in (("awsaccesskeyid", "AWSAccessKeyId"), ("signature", "signature")):
        if name not in fields:
            message = f"Bucket POST must contain a field named '{shown}'."
            refuse("InvalidArgument", message, argument=shown)
    secret = secrets(fields["awsaccesskeyid"])
    digest = hmac.digest((secret or "").encode(), policy.encode(), hashlib.sha1)
    return _compared(fields["awsaccesskeyid"], secret, base64.b64encode(digest).decode(), fields["signature"])


def _compared(access_key: str, secret: str | None, expected: str, given: str) -> str:
    if not hmac.compare_digest(expected.encode(), given.encode()) or secret is None:
        refuse("InvalidAccessKeyId" if secret is None else "SignatureDoesNotMatch")
    return access_key


def _expiration(text: str) -> datetime:
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", text):
            raise ValueError(text)
        return datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    except ValueError:
        refuse("InvalidPolicyDocument", f"Invalid Policy: Invalid 'expiration' value: '{text[:80]}'")


@dataclass
class _Checked:
    """The conditions of one policy, each compared with the fields of the form."""

    fields: Mapping[str, str]
    bucket: str
    access_key: str
    named: set[str] = field(default_factory=set)
    least: int = 0
    most: int | None = None

    def permission(self, conditions: list[Any]) -> Permission:
        for condition in conditions:
            if isinstance(condition, dict):
                if len(condition) != 1:
                    refuse("InvalidPolicyDocument", "Invalid Policy: Invalid Simple-Condition.")
                for name, value in condition.items():
                    self._compare("eq", name, value)
            elif isinstance(condition, list) and len(condition) == 3 and isinstance(condition[0], str):
                self._listed(condition)
            else:
                refuse("InvalidPolicyDocument", "Invalid Policy: Invalid Condition.")
        for name in ("bucket", *self.fields):
            if name not in self.named | _UNCONDITIONED and not name.startswith("x-ignore-"):
                refuse("AccessDenied", f"Invalid according to Policy: Extra input fields: {name[:80]}")
        return Permission(self.access_key, self.least, self.most)

    def _listed(self, condition: list[Any]) -> None:
        kind, name, value = condition
        if kind.lower() == "content-length-range":
            sizes = [whole_number(str(one).strip(), 10**15) for one in (name, value)]
            least, most = sizes
            if least is None or most is None:
                refuse("InvalidPolicyDocument", "Invalid Policy: Invalid content-length-range.")
            self.least, self.most = max(self.least, least), min(most, self.most or most)
        elif kind.lower() in ("eq", "starts-with") and isinstance(name, str) and name.startswith("$"):
            self._compare(kind.lower(), name[1:], value)
        else:
            refuse("InvalidPolicyDocument", "Invalid Policy: Invalid Condition.")

    def _compare(self, kind: str, name: str, value: Any) -> None:
        if not isinstance(value, str):
            refuse("InvalidPolicyDocument", "Invalid Policy: Invalid Condition.")
        lower = name.lower()
        self.named.add(lower)
        found = self.bucket if lower == "bucket" else self.fields.get(lower)
        holds = found is not None and (found == value if kind == "eq" else found.startswith(value))
        if kind == "starts-with" and lower == "content-type" and found is not None:
            holds = all(part.strip().startswith(value) for part in found.split(","))
        if not holds:
            refuse(
                "AccessDenied",
                f'Invalid according to Policy: Policy Condition failed: ["{kind}", "${name[:80]}"]',
            )


class FormBody:
    """The file of a form as a body: what else is in the form is not stored."""

    def __init__(self, posted: Form, body: Body, permission: Permission | None, early: list[bytes]) -> None:
        """`early` is what came of the file in the piece in which it began."""
        self._posted = posted
        self._body = body
        self._permission = permission
        self._early = early
        self._size = 0
        self.md5 = body.md5

    def feed(self, piece: bytes) -> Iterator[bytes]:
        early, self._early = self._early, []
        for content in itertools.chain(early, self._posted.feed(piece)):
            self._size += len(content)
            if self._permission is not None:
                self._permission.check(self._size)
            yield from self._body.feed(content)

    def finish(self) -> dict[str, str]:
        self._posted.finish()
        if self._permission is not None:
            self._permission.check(self._size, whole=True)
        return self._body.finish()
