"""Valid requests: the same check on every backend, before anything is sent.

S3 takes nearly any UTF-8 as a key. The check refuses the few keys that some store, proxy or file system
would silently turn into another key, because two keys that become one are lost data.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import InvalidType, Misuse

KEY_BYTES_MAX = 1024
"""S3's own limit, counted in UTF-8."""
METADATA_BYTES_MAX = 2048
"""S3's own limit on user metadata, names and values together."""
PAGE_MAX = 1000
"""S3's own limit on one page of a listing."""
PART_NUMBER_MAX = 10_000
"""S3's own limit on the parts of an upload."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_ETAG = re.compile(r"[\x21\x23-\x7e]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")


def check(request: ask.Request[Any]) -> None:
    """Raise `Misuse` when `request` can never make sense."""
    if isinstance(request, ask.Keyed):
        check_key(request.key)
    elif isinstance(request, ask.Listing):
        _check_text(request.prefix, "prefix")
    detail = _DETAILS.get(type(request))
    if detail is not None:
        detail(request)


_valid_keys: set[str] = set()
"""Keys that were found valid: programs use the same ones again and again."""
_VALID_MAX = 10_000


def check_key(key: str) -> None:
    """Raise `Misuse` unless `key` means the same object on every store."""
    if type(key) is str:
        if key in _valid_keys:
            return
        _check_key(key)
        if len(_valid_keys) >= _VALID_MAX:
            _valid_keys.clear()
        _valid_keys.add(key)
    else:
        _check_key(key)


def _check_key(key: str) -> None:
    if not key:
        raise Misuse("the key is empty; every object needs a name")
    _check_text(key, "key")
    if "." in key and not {".", ".."}.isdisjoint(key.split("/")):
        raise Misuse(f"key {key!r} has a segment '.' or '..', which some stores resolve; rename it")


def _check_text(text: str, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidType(f"the {what} is a {type(text).__name__}, expected a str")
    if "\0" in text:
        raise Misuse(f"{what} {text!r} holds a NUL byte, which no store can carry; remove it")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Misuse(f"{what} {text!r} is not valid Unicode (a lone surrogate); decode it properly") from None
    if size > KEY_BYTES_MAX:
        raise Misuse(f"{what} {text[:40]!r}... is {size} bytes in UTF-8, the limit is {KEY_BYTES_MAX}")


def _check_put(request: ask.Put) -> None:
    _check_body(request.body)
    _check_condition(request.when)
    _check_attributes(request.content_type, request.metadata)


def _check_get(request: ask.Get) -> None:
    if request.start < 0 or (request.stop is not None and request.stop <= request.start):
        raise Misuse(f"range {request.start}..{request.stop} of {request.key!r} is empty or negative")
    for etag in (request.only_if, request.unless):
        if etag is not None:
            _check_etag(etag, "a condition on reading")


def _check_delete(request: ask.Delete) -> None:
    _check_condition(request.when)
    if isinstance(request.when, ask.Absent):
        raise Misuse(f"deleting {request.key!r} only if absent makes no sense; use Matches(etag) or ANYTHING")
    if request.version and not isinstance(request.when, ask.Anything):
        raise Misuse("a version that is named needs no condition: delete it with when=ANYTHING")


def _check_page(request: ask.List | ask.ListVersions | ask.ListUploads) -> None:
    if not 1 <= request.limit <= PAGE_MAX:
        raise Misuse(f"a page has 1 to {PAGE_MAX} entries, {request.limit} were asked for")


def _check_part(request: ask.UploadPart) -> None:
    _check_body(request.body)
    if not 1 <= request.number <= PART_NUMBER_MAX:
        raise Misuse(f"part numbers run from 1 to {PART_NUMBER_MAX}, {request.number} was given")


def _check_complete(request: ask.CompleteUpload) -> None:
    _check_condition(request.when)
    numbers = [number for number, _ in request.parts]
    if not numbers:
        raise Misuse(f"completing {request.key!r} names no part; an upload needs at least one")
    if any(left >= right for left, right in itertools.pairwise(numbers)):
        raise Misuse(f"the parts of {request.key!r} must be listed in rising order, found {numbers[:20]}")


def _check_body(body: bytes) -> None:
    if not isinstance(body, bytes):
        raise InvalidType(f"the body is a {type(body).__name__}, expected bytes")


def _check_condition(when: object) -> None:
    if when is ask.ANYTHING or when is ask.ABSENT:
        return
    if not isinstance(when, ask.Absent | ask.Matches | ask.Anything):
        raise Misuse(f"when={when!r} is no condition; say ABSENT, Matches(etag) or ANYTHING")
    if isinstance(when, ask.Matches):
        _check_etag(when.etag, "Matches")


def _check_etag(etag: str, what: str) -> None:
    if etag == "*" or not _ETAG.fullmatch(etag):
        raise Misuse(f"{what} names no ETag: {etag!r}; pass the one a reply gave, without quotes")


def _check_attributes(content_type: str, metadata: Mapping[str, str]) -> None:
    if content_type is not ask.BINARY and not (content_type and _PLAIN.fullmatch(content_type)):
        raise Misuse(f"content type {content_type!r} must be printable ASCII")
    if not metadata:
        return
    for name, value in metadata.items():
        if not _NAME.fullmatch(name):
            raise Misuse(f"metadata name {name!r} must be lower-case letters, digits, '.', '_' and '-'")
        if not _PLAIN.fullmatch(value) or value != value.strip():
            raise Misuse(f"metadata {name!r} must be printable ASCII without outer spaces, not {value!r}")
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise Misuse(f"metadata is {size} bytes, the limit is {METADATA_BYTES_MAX}")


_DETAILS: Mapping[type, Any] = {
    ask.Put: _check_put,
    ask.Get: _check_get,
    ask.Delete: _check_delete,
    ask.List: _check_page,
    ask.ListVersions: _check_page,
    ask.ListUploads: _check_page,
    ask.CreateUpload: lambda request: _check_attributes(request.content_type, request.metadata),
    ask.UploadPart: _check_part,
    ask.CompleteUpload: _check_complete,
}
