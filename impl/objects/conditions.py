"""Conditions and ranges of requests, as S3 has them (see RFC 9110)."""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.store.requests import ABSENT, ANYTHING, Condition, Matches

READ_IF = ("IfMatch", "IfNoneMatch", "IfModifiedSince", "IfUnmodifiedSince")
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
    return Matches(unquoted(matches))


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
    if not holds(p, etag, modified_ns):
        refuse("PreconditionFailed")
    if not _is_news(p, etag, modified_ns // 10**9):
        refuse("NotModified", etag=etag)


def _names(text: str, etag: str) -> bool:
    return text.strip() == "*" or etag in {unquoted(part) for part in text.split(",")}


def range_of(text: str, size: int) -> tuple[int, int] | None:
    """The bytes of a `Range`; None for the whole object, as S3 answers a header that it cannot read."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text.strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
        if int(found[2]) == 0:
            start = size
    else:
        start, stop = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None
    if start >= size:
        refuse("InvalidRange", range_requested=text, actual_object_size=str(size))
    return start, stop
