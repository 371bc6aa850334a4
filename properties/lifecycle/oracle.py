"""An oracle that walks the bucket: what the rules delete now, computed from the structures of S3 alone.

It shares nothing with the product: it reads the rules as they were put and the versions as they lie, and
decides for each version and each element of a rule whether S3's documentation has it deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Stored:
    """A version as it lies in the bucket."""

    version_id: str
    mtime_ns: int
    size: int = 0
    tags: Mapping[str, str] | None = None
    marker: bool = False


def due_now(
    rules: Sequence[Mapping[str, Any]],
    objects: Mapping[str, Sequence[Stored]],
    uploads: Mapping[tuple[str, str], int],
    now_ns: int,
    day_ns: int,
) -> set[tuple[str, str, str]]:
    """Return the deletions that are due: expire, delete-version, delete-marker, abort; key; version, upload.

    `objects` has the versions of each key, oldest first; `uploads` when each began, by key and id.
    """
    found: set[tuple[str, str, str]] = set()
    for rule in rules:
        if rule["Status"] == "Enabled":
            for key, versions in objects.items():
                for place in range(len(versions)):
                    found.update(
                        (what, key, versions[place].version_id)
                        for what in _of_version(rule, key, versions, place, now_ns, day_ns)
                    )
            for (key, upload_id), began_ns in uploads.items():
                days = rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation")
                if days is not None and _fits(rule, key, None) and now_ns - began_ns >= days * day_ns:
                    found.add(("abort", key, upload_id))
    return found


def _of_version(
    rule: Mapping[str, Any], key: str, versions: Sequence[Stored], place: int, now_ns: int, day_ns: int
) -> Iterator[str]:
    one = versions[place]
    if not _fits(rule, key, None if one.marker else one):
        return
    expiration = rule.get("Expiration", {})
    if place == len(versions) - 1:
        old = "Days" in expiration and now_ns - one.mtime_ns >= expiration["Days"] * day_ns
        if one.marker:
            if len(versions) == 1 and (old or expiration.get("ExpiredObjectDeleteMarker") is True):
                yield "delete-marker"
        elif old or ("Date" in expiration and now_ns >= _ns(expiration["Date"])):
            yield "expire"
        return
    noncurrent = rule.get("NoncurrentVersionExpiration")
    if noncurrent is not None:
        newer_noncurrent = len(versions) - place - 2
        age_ns = now_ns - versions[place + 1].mtime_ns
        if age_ns >= noncurrent.get("NoncurrentDays", 0) * day_ns and newer_noncurrent >= noncurrent.get(
            "NewerNoncurrentVersions", 0
        ):
            yield "delete-version"


def _fits(rule: Mapping[str, Any], key: str, one: Stored | None) -> bool:
    """Return True if the filter matches; None has neither a size nor tags."""
    conditions = dict(rule.get("Filter", {}))
    conditions.update(conditions.pop("And", {}))
    if not key.startswith(conditions.pop("Prefix", rule.get("Prefix", ""))):
        return False
    if one is None:
        return not conditions
    tags = conditions.get("Tags", []) + ([conditions["Tag"]] if "Tag" in conditions else [])
    return (
        all((one.tags or {}).get(tag["Key"]) == tag["Value"] for tag in tags)
        and one.size > conditions.get("ObjectSizeGreaterThan", -1)
        and one.size < conditions.get("ObjectSizeLessThan", one.size + 1)
    )


def _ns(date: datetime) -> int:
    return int(date.timestamp()) * 10**9
