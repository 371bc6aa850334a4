"""Conditions and ranges of requests, as S3 has them (see RFC 9110), and the errors of a store's outcomes."""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.store.requests import ABSENT, ANYTHING, Condition, Matches, Outcome

READ_IF = ("IfMatch", "IfNoneMatch", "IfModifiedSince", "IfUnmodifiedSince")
_READ_IF = frozenset(READ_IF)
COPY_IF = tuple(f"CopySource{name}" for name in READ_IF)


def quoted(etag: str) -> str:
    return f'"{etag}"'


def unquoted(text: str) -> str:
    return text.strip().removeprefix("W/").strip('"')


def condition(p: Mapping[str, Any]) -> Condition:
    """Return the condition of a write: `If-None-Match: *` or `If-Match: <etag>`, not both."""
    absent, matches = p.get("IfNoneMatch"), p.get("IfMatch")
    if absent is not None and (absent.strip() != "*" or matches is not None):
        refuse("NotImplemented", header="If-None-Match")
    if absent is not None:
        return ABSENT
    if matches is None:
        return ANYTHING
    if matches.strip() == "*" or not unquoted(matches):
        refuse("NotImplemented", header="If-Match")
    # A weak ETag matches nothing here (RFC 9110, 13.1.1): no object has one with this beginning.
    weak = "W/" if matches.strip().startswith("W/") else ""
    return Matches(weak + unquoted(matches))


def holds(p: Mapping[str, Any], etag: str, modified_ns: int, start: str = "") -> bool:
    """Return True if the conditions of a read hold, by the precedence of RFC 9110, 13.2.2."""
    second = modified_ns // 10**9
    if start + "IfMatch" in p:
        if not _names(p[start + "IfMatch"], etag):
            return False
    elif start + "IfUnmodifiedSince" in p and second > p[start + "IfUnmodifiedSince"].timestamp():
        return False
    return not start or _is_news(p, etag, second, start)


def _is_news(p: Mapping[str, Any], etag: str, second: int, start: str = "") -> bool:
    if start + "IfNoneMatch" in p:
        return not _names(p[start + "IfNoneMatch"], etag)
    return start + "IfModifiedSince" not in p or second > p[start + "IfModifiedSince"].timestamp()


def check_reading(p: Mapping[str, Any], etag: str, modified_ns: int) -> None:
    """Raise unless the conditions of a read hold."""
    if _READ_IF.isdisjoint(p):
        return
    if not holds(p, etag, modified_ns):
        refuse("PreconditionFailed", condition="If-Match" if "IfMatch" in p else "If-Unmodified-Since")
    if not _is_news(p, etag, modified_ns // 10**9):
        refuse("NotModified", etag=etag)


def _names(text: str, etag: str) -> bool:
    return text.strip() == "*" or etag in {unquoted(part) for part in text.split(",")}


def ends_of(text: str) -> tuple[int | None, int | None] | None:
    """Return the first and the last byte of a `Range`, either of which may be missing.

    None is the whole object: S3 ignores a header that it cannot read.
    """
    found = re.fullmatch(r"bytes=([0-9]{0,18})-([0-9]{0,18})", text.strip()) if text else None
    if found is None or not (found[1] or found[2]):
        return None
    first, last = (int(digits) if digits else None for digits in found.groups())
    return None if first is not None and last is not None and last < first else (first, last)


def range_of(text: str, size: int) -> tuple[int, int] | None:
    """Return the bytes of a `Range` in an object of this size; None for the whole object."""
    ends = ends_of(text)
    if ends is None:
        return None
    first, last = ends
    if first is None:
        start, stop = size - min(last or 0, size), size
    else:
        start, stop = first, size if last is None else min(size, last + 1)
    if start >= size:
        refuse("InvalidRange", range_requested=text, actual_object_size=str(size))
    return start, stop


# Outcomes.


def require_done(outcome: Outcome) -> None:
    """Raise S3's error for an outcome of the store that is not `done`."""
    if outcome is not Outcome.DONE:
        raise error_of(outcome)


def error_of(outcome: Outcome) -> S3Error:
    """Return S3's error for an outcome of the store that is not `done`."""
    condition = _CONDITIONS.get(outcome)
    return S3Error(CODES[outcome], **({"condition": condition} if condition else {}))


CODES = {
    Outcome.EXISTS: "PreconditionFailed",
    Outcome.CHANGED: "PreconditionFailed",
    Outcome.MISSING: "NoSuchKey",
    Outcome.UNCHANGED: "NotModified",
    Outcome.PAST_END: "InvalidRange",
    Outcome.GONE: "NoSuchUpload",
    Outcome.CONFLICT: "ConditionalRequestConflict",
    Outcome.THROTTLED: "SlowDown",
    Outcome.UNKNOWN: "InternalError",
}
_CONDITIONS = {Outcome.EXISTS: "If-None-Match", Outcome.CHANGED: "If-Match"}
