"""Rules for parameters that the service model leaves out: counts, markers, copy sources, lists of parts.

Every function takes the parameters of an operation by their names in the model, and raises `S3Error` for
what S3 refuses.
"""

import base64
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.objects.wire.conditions import unquoted
from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.store.requests import ANYTHING, Condition

P = Mapping[str, Any]
"""Parameters of one operation."""

KEYS_MAX = 1000
"""S3's limit on a page, and on the keys of one `DeleteObjects`."""
KEY_BYTES_MAX = 1024
"""S3's limit on a key in UTF-8."""
PARTS_MAX = 10_000
"""S3's limit on the parts of an upload."""
METADATA_BYTES_MAX = 2048
"""S3's limit on the names and values of a user's metadata."""
SHOWN = tuple(
    f"Response{name}"
    for name in (
        "CacheControl",
        "ContentDisposition",
        "ContentEncoding",
        "ContentLanguage",
        "ContentType",
        "Expires",
    )
)
_SHOWN = frozenset(SHOWN)
_COUNTS = {"MaxKeys": "max-keys", "MaxUploads": "max-uploads", "MaxParts": "max-parts"}
_CONTROL = re.compile("[\x00-\x1f\x7f]")


# Objects.


def content_encoding(p: P) -> str:
    """Return the encoding of the object: `aws-chunked` is only how its body travels."""
    text: str = p.get("ContentEncoding", "")
    if "aws-chunked" not in text:
        return text
    words = (word.strip() for word in text.split(","))
    return ", ".join(word for word in words if word not in ("", "aws-chunked"))


def metadata(p: P) -> Mapping[str, str]:
    """Return the user's metadata."""
    found: Mapping[str, str] = p.get("Metadata", {})
    if found and sum(len(name) + len(text) for name, text in found.items()) > METADATA_BYTES_MAX:
        refuse("MetadataTooLarge")
    return found


def overridden(p: P) -> dict[str, Any]:
    """Return the headers of a read's response that its query replaces."""
    found = [name for name in SHOWN if name in p] if not _SHOWN.isdisjoint(p) else []
    for name in found:
        if _CONTROL.search(str(p[name])):
            refuse("InvalidArgument", "Header value cannot be represented using ISO-8859-1.", argument=name)
    return {name.removeprefix("Response"): p[name] for name in found}


def objects_to_delete(p: P) -> list[Mapping[str, Any]]:
    """Return the entries of a `DeleteObjects`: `Key`, and perhaps `VersionId` and `ETag`."""
    wanted: list[Mapping[str, Any]] = p["Delete"].get("Objects", [])
    if not 0 < len(wanted) <= KEYS_MAX:
        refuse("MalformedXML")
    for one in wanted:
        unknown = one.keys() - {"Key", "VersionId", "ETag"}
        if unknown:
            refuse("NotImplemented", header=min(unknown))
    return wanted


# Copies.


def copy_source(p: P) -> tuple[str, str, str]:
    """Return the bucket, the key and the version (empty for the current one) that a copy reads."""
    text, _, version = p["CopySource"].partition("?versionId=")
    try:
        bucket, _, key = unquote(text, errors="strict").removeprefix("/").partition("/")
    except UnicodeDecodeError:
        refuse("InvalidArgument", "Copy Source must be UTF-8 once it is decoded")
    if not key or not bucket:
        refuse(
            "InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
        )
    return bucket, key, version


def replaces(p: P, directive: str) -> bool:
    """Return true if a copy replaces the metadata, or the tags, instead of copying them."""
    value = p.get(directive, "COPY")
    if value not in ("COPY", "REPLACE"):
        refuse("InvalidArgument", f"Unknown {directive}.", argument=directive, value=value)
    return bool(value == "REPLACE")


def check_changes(p: P, when: Condition) -> None:
    """Raise if a copy would replace an object by itself, unchanged and without a condition."""
    onto_itself = copy_source(p) == (p["Bucket"], p["Key"], "")
    if onto_itself and when == ANYTHING and not replaces(p, "MetadataDirective"):
        refuse(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing "
            "the object's metadata, storage class, website redirect location or encryption attributes.",
        )


def copy_range(p: P, size: int | None = None) -> tuple[int, int | None]:
    """Return the first byte that a copied part reads and the end behind its last; None is the source's end.

    The last byte must exist in the source, if its `size` is known.
    """
    if "CopySourceRange" not in p:
        return 0, None
    found = re.fullmatch(r"bytes=([0-9]{1,18})-([0-9]{1,18})", p["CopySourceRange"])
    if found is None or int(found[1]) > int(found[2]):
        refuse("InvalidArgument", argument="x-amz-copy-source-range", value=p["CopySourceRange"])
    if size is not None and int(found[2]) >= size:
        refuse("InvalidRange", range_requested=p["CopySourceRange"], actual_object_size=str(size))
    return int(found[1]), int(found[2]) + 1


# Uploads.


def part_number(p: P) -> int:
    number: int = p["PartNumber"]
    if not 1 <= number <= PARTS_MAX:
        refuse("InvalidArgument", f"Part number must be an integer between 1 and {PARTS_MAX}, inclusive")
    return number


def completed_parts(p: P) -> tuple[tuple[int, str], ...]:
    """Return the number and the ETag of every part that a completion names, in order."""
    named = p.get("MultipartUpload", {}).get("Parts", [])
    parts = tuple((part.get("PartNumber", 0), unquoted(part.get("ETag", ""))) for part in named)
    if not parts:
        refuse("MalformedXML")
    if any(left[0] > right[0] for left, right in itertools.pairwise(parts)):
        refuse("InvalidPartOrder")
    return tuple({number: (number, etag) for number, etag in parts}.values())  # of one named twice, the last


# Listings.


def page_limit(p: P, name: str) -> int:
    """Return how many entries a page has at most: `MaxKeys`, `MaxUploads` or `MaxParts`."""
    limit: int = p.get(name, KEYS_MAX)
    if limit < 0:
        refuse("InvalidArgument", argument=_COUNTS[name], value=str(limit))
    return min(limit, KEYS_MAX)


def key_encoder(p: P) -> Callable[[str], str]:
    """Return the function that encodes keys as the listing requests it."""
    if "EncodingType" not in p:
        return str
    if p["EncodingType"] != "url":
        refuse("InvalidArgument", "Invalid Encoding Method specified in Request")
    return _quoted


def _quoted(text: str) -> str:
    return quote(text, safe="/")


def token_of(key: str) -> str:
    """Return the continuation token after `key`, encoded so that no client mistakes it for a key."""
    return base64.urlsafe_b64encode(key.encode()).decode()


def key_of(token: str) -> str:
    """Return the key after which a listing continues."""
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except ValueError:
        refuse("InvalidArgument", "The continuation token provided is incorrect")
