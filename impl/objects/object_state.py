"""The values that the server keeps with an object besides its bytes, its type and the user's metadata.

All of it is in `Attributes.extra`, which changes with one call, so that readers see one state:

    CacheControl ... Expires      headers of the response
    Checksum<name>                of the whole object, or of its parts (`ChecksumType`)
    Tags                          as in a query: `a=1&b=2`
    Access                        a canned ACL, if it is not that of the bucket (see `access`)
    LockMode, LockUntil           retention: GOVERNANCE or COMPLIANCE, and until when (ISO 8601)
    LegalHold                     `ON`
    Encryption                    `AES256`, as the client asked for it; the bytes are as they came
    PartSums                      checksums of the parts, in the algorithm of the object's: `AAAA,BBBB`
    Parts                         sizes of the parts of a multipart upload: `8388608*3,17`
    Version                       the store's own (see `impl/store/files/versions`)
"""

import functools
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any
from urllib.parse import parse_qsl, quote

from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.objects.wire.parameters import content_encoding

HEADERS = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "Expires")
CHECKSUMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
LOCKING = ("ObjectLockMode", "ObjectLockRetainUntilDate", "ObjectLockLegalHoldStatus")
GOVERNANCE, COMPLIANCE = "GOVERNANCE", "COMPLIANCE"
PUBLIC, PRIVATE = "public", "private"
AES256 = "AES256"
TAGS_MAX = 10
BUCKET_TAGS_MAX = 50
_TAG = re.compile(r"[\w\s+\-=.:/@]*")
PUBLIC_READ_WRITE, AUTHENTICATED_READ = "public-read-write", "authenticated-read"
ACLS: Mapping[str, str] = {
    **{acl: acl for acl in ("private", "public-read", PUBLIC_READ_WRITE, AUTHENTICATED_READ)},
    **dict.fromkeys(("bucket-owner-full-control", "bucket-owner-read"), "private"),
}
"""Canned ACLs, each with the one that it means where the owner of a bucket owns its objects."""


def written(p: Mapping[str, Any], lock: Mapping[str, Any] | None, now: datetime) -> dict[str, str]:
    """Return the values that a write gives its object; `lock` is the bucket's configuration."""
    found = {name: _header(p[name]) for name in HEADERS if name in p and name != "ContentEncoding"}
    encoding = content_encoding(p)
    if encoding:
        found["ContentEncoding"] = encoding
    if "ServerSideEncryption" in p:
        found["Encryption"] = checked_encryption(p["ServerSideEncryption"])
    if "Tagging" in p:
        found |= kept_tags(tags_in_header(p["Tagging"]))
    return found | _locked(p, lock, now)


def checked_encryption(algorithm: str) -> str:
    if algorithm != AES256:
        refuse(
            "NotImplemented" if algorithm.startswith("aws:") else "InvalidArgument",
            "The encryption method specified is not supported",
            argument="x-amz-server-side-encryption",
        )
    return algorithm


def _header(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def copied(extra: Mapping[str, str], *, headers: bool, tags: bool) -> dict[str, str]:
    """Return the values that a copy inherits: never lock and access, which belong to the write."""
    whole = extra.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT"
    names = {f"Checksum{name}" for name in CHECKSUMS} if whole else set()
    names |= {*HEADERS} if headers else set()
    names |= {"Tags"} if tags else set()
    return {name: text for name, text in extra.items() if name in names}


def described(extra: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a response that represent these values."""
    if not extra:
        return {}
    tags = tags_of(extra)
    return {
        **{name: extra[name] for name in HEADERS if name in extra and name != "Expires"},
        **({"Expires": datetime.fromisoformat(extra["Expires"])} if "Expires" in extra else {}),
        **checksums(extra),
        **encryption(extra),
        **({"TagCount": len(tags)} if tags else {}),
        **({"ObjectLockMode": extra["LockMode"]} if "LockMode" in extra else {}),
        **({"ObjectLockRetainUntilDate": until(extra)} if "LockUntil" in extra else {}),
        **({"ObjectLockLegalHoldStatus": extra["LegalHold"]} if "LegalHold" in extra else {}),
    }


def encryption(extra: Mapping[str, str]) -> dict[str, str]:
    return {"ServerSideEncryption": extra["Encryption"]} if "Encryption" in extra else {}


def checksums(extra: Mapping[str, str]) -> dict[str, str]:
    found = {f"Checksum{name}": extra[f"Checksum{name}"] for name in CHECKSUMS if f"Checksum{name}" in extra}
    return {**found, "ChecksumType": extra.get("ChecksumType", "FULL_OBJECT")} if found else {}


# Tags.


def tags_in_header(text: str) -> dict[str, str]:
    try:  # a word without a value is a tag whose value is empty
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
        if len(pairs) != len(text.split("&")) and text:
            raise ValueError(text)
    except ValueError:
        pairs = [("", ""), ("", "")]
    if len(dict(pairs)) != len(pairs):
        refuse(
            "InvalidArgument",
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters "
            "without tag name duplicates.",
            argument="x-amz-tagging",
            value=text,
        )
    return _checked(dict(pairs), TAGS_MAX, "Object tags cannot be greater than 10")


def tags_in_set(tag_set: Iterable[Mapping[str, str]], *, bucket: bool = False) -> dict[str, str]:
    pairs = [(tag["Key"], tag["Value"]) for tag in tag_set]
    if len(dict(pairs)) != len(pairs):
        refuse("InvalidTag", "Cannot provide multiple Tags with the same key")
    if bucket:
        return _checked(dict(pairs), BUCKET_TAGS_MAX, "Bucket tag count cannot be greater than 50")
    return _checked(dict(pairs), TAGS_MAX, "Object tags cannot be greater than 10")


def _checked(tags: dict[str, str], limit: int, too_many: str) -> dict[str, str]:
    if len(tags) > limit:
        refuse("BadRequest", too_many)
    for key, value in tags.items():
        if not 0 < len(key) <= 128 or not _TAG.fullmatch(key):
            refuse("InvalidTag", "The TagKey you have provided is invalid", tag_key=key)
        if len(value) > 256 or not _TAG.fullmatch(value):
            refuse("InvalidTag", "The TagValue you have provided is invalid", tag_value=value)
        if key.lower().startswith("aws:"):
            refuse("InvalidTag", "System tags cannot be added/updated by requester")
    return tags


def kept_tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {"Tags": "&".join(f"{quote(key)}={quote(value)}" for key, value in tags.items())} if tags else {}


def tags_of(extra: Mapping[str, str]) -> dict[str, str]:
    return dict(parse_qsl(extra.get("Tags", ""), keep_blank_values=True))


def tag_set(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


# Locks.


def _locked(p: Mapping[str, Any], lock: Mapping[str, Any] | None, now: datetime) -> dict[str, str]:
    if lock is None:
        if any(name in p for name in LOCKING):
            refuse_unlocked()
        return {}
    found: dict[str, str] = {}
    mode, date = p.get("ObjectLockMode"), p.get("ObjectLockRetainUntilDate")
    if (mode is None) != (date is None):
        refuse(
            "InvalidArgument",
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
        )
    if mode is not None and date is not None:
        found |= retention(mode, date, now)
    elif lock.get("Mode"):
        days = lock.get("Days") or 365 * lock["Years"]
        found |= retention(lock["Mode"], now + timedelta(days=days), now)
    hold = p.get("ObjectLockLegalHoldStatus")
    return found | (legal_hold(hold) if hold is not None else {})


def refuse_unlocked() -> None:
    refuse("InvalidRequest", "Bucket is missing Object Lock Configuration")


def retention(mode: str, date: datetime, now: datetime) -> dict[str, str]:
    if mode not in (GOVERNANCE, COMPLIANCE):
        refuse(
            "InvalidArgument", "Unknown wormMode directive.", argument="x-amz-object-lock-mode", value=mode
        )
    if date <= now:
        refuse("InvalidArgument", "The retain until date must be in the future!")
    return {"LockMode": mode, "LockUntil": date.astimezone(UTC).isoformat()}


def legal_hold(status: str) -> dict[str, str]:
    if status not in ("ON", "OFF"):
        refuse(
            "InvalidArgument", "Legal Hold must be either of 'ON' or 'OFF'",
            argument="x-amz-object-lock-legal-hold", value=status,
        )  # fmt: skip
    return {"LegalHold": status}


def until(extra: Mapping[str, str]) -> datetime | None:
    return datetime.fromisoformat(extra["LockUntil"]) if "LockUntil" in extra else None


def check_removable(extra: Mapping[str, str], now: datetime, *, bypass: bool) -> None:
    """Raise while a version may not be removed."""
    date = until(extra)
    retained = date is not None and date > now and not (bypass and extra["LockMode"] == GOVERNANCE)
    if retained or extra.get("LegalHold") == "ON":
        refuse("AccessDenied", "Access Denied because object protected by object lock.")


def check_retention(
    extra: Mapping[str, str], wanted: Mapping[str, str], now: datetime, *, bypass: bool
) -> None:
    """Raise unless retention may become `wanted`: it grows, or it is GOVERNANCE and bypassed."""
    date, new = until(extra), until(wanted)
    if date is None or date <= now:
        return
    grows = new is not None and new >= date and wanted["LockMode"] == extra["LockMode"]
    if not grows and not (bypass and extra["LockMode"] == GOVERNANCE):
        refuse("AccessDenied", "Access Denied because object protected by object lock.")


# Parts.


def kept_parts(sizes: Iterable[int]) -> str:
    runs = [(size, len([*run])) for size, run in groupby(sizes)]
    return ",".join(str(size) if count == 1 else f"{size}*{count}" for size, count in runs)


def part_sum(extra: Mapping[str, str], number: int, *, kind: bool = True) -> dict[str, str]:
    """Return the checksum of one part, if it is known."""
    sums = _part_sums(extra.get("PartSums", ""))
    name = next((name for name in checksums(extra) if name != "ChecksumType"), "")
    if not name or not 0 < number <= len(sums):
        return {}
    return {name: sums[number - 1], **({"ChecksumType": extra["ChecksumType"]} if kind else {})}


@functools.lru_cache(maxsize=16)
def _part_sums(text: str) -> list[str]:
    return text.split(",") if text else []


def part_sizes(extra: Mapping[str, str]) -> list[int]:
    """Of an object that was uploaded in parts."""
    sizes: list[int] = []
    for run in filter(None, extra.get("Parts", "").split(",")):
        size, _, count = run.partition("*")
        sizes += [int(size)] * int(count or 1)
    return sizes
