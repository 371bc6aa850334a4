"""Pages of listings: entries in, the values of a response out.

A listing of objects is paged by its store. Uploads, and the versions of the audited world, come whole and are
cut here, because S3's markers name an entry and a store's count.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from fencepost.impl.objects.wire.conditions import quoted
from fencepost.impl.objects.wire.elements import MIXED, Rows, iso_moment
from fencepost.impl.objects.wire.parameters import key_encoder, page_limit, token_of
from fencepost.impl.store.bucket import group_of

P = Mapping[str, Any]
STANDARD = {"StorageClass": "STANDARD"}


class ObjectEntry(NamedTuple):
    key: str
    modified_ns: int
    etag: str
    size: int


class VersionEntry(NamedTuple):
    key: str
    version: str
    latest: bool
    modified_ns: int
    marker: bool
    """True for a delete marker, which has neither ETag nor size."""
    etag: str
    size: int

    @property
    def tie(self) -> str:
        return self.version


class UploadEntry(NamedTuple):
    key: str
    upload: str
    started_ns: int

    @property
    def tie(self) -> str:
        return self.upload


class PartEntry(NamedTuple):
    number: int
    etag: str
    size: int
    modified_ns: int
    checksums: Mapping[str, str]


# Pages of whole listings.


class Tied(Protocol):
    """An entry of a listing in which several entries have the same key."""

    @property
    def key(self) -> str: ...
    @property
    def tie(self) -> str: ...


E = TypeVar("E", bound=Tied)


class Page(NamedTuple):
    entries: Sequence[Any]
    groups: list[str]
    more: bool
    last: tuple[str, str]
    """The markers after which the next page begins: a key and its tie, or a group and nothing."""


def cut(entries: Sequence[E], p: P, limit: int, after: tuple[str, str]) -> Page:
    """Return the page after the markers `after`; entries are in the order of their keys.

    A page begins behind the entry that the markers name. Where that entry is gone, it begins with the first
    that sorts behind the markers.
    """
    prefix, delimiter = p.get("Prefix", ""), p.get("Delimiter", "")
    passed = _passed(entries, after)
    shown: list[E] = []
    groups: list[str] = []
    last = ("", "")
    for entry in entries[passed:]:
        group = group_of(entry.key, prefix, delimiter)
        if group and (group in groups or group == after[0]):
            continue
        if len(shown) + len(groups) >= limit:
            return Page(shown, groups, limit > 0, last)
        if group:
            groups.append(group)
            last = (group, "")
        else:
            shown.append(entry)
            last = (entry.key, entry.tie)
    return Page(shown, groups, False, last)


def _passed(entries: Sequence[E], after: tuple[str, str]) -> int:
    key, tie = after
    if not key:
        return 0
    if tie:
        for at, entry in enumerate(entries):
            if (entry.key, entry.tie) == after:
                return at + 1
    beyond = ((entry.key, entry.tie) > after if tie else entry.key > key for entry in entries)
    return next((at for at, is_beyond in enumerate(beyond) if is_beyond), len(entries))


# Values of responses.


def objects(p: P, entries: Sequence[ObjectEntry], groups: Sequence[str], *, more: bool, owner: Any) -> P:
    """Return the values that `ListObjects` and `ListObjectsV2` have in common."""
    text = key_encoder(p)
    rows = [
        (text(key), iso_moment(modified_ns), quoted(etag), str(size))
        for key, modified_ns, etag, size in entries
    ]
    same = STANDARD if owner is None else {**STANDARD, "Owner": owner}
    return {
        **about(p, page_limit(p, "MaxKeys"), groups),
        "IsTruncated": more,
        "Contents": Rows(("Key", "LastModified", "ETag", "Size"), rows, same),
    }


def objects_v2(p: P, page: P, following: str) -> P:
    """Return the values of `ListObjectsV2`; the next page, if there is one, begins after `following`."""
    return {
        **page,
        "KeyCount": len(page["Contents"].rows) + len(page["CommonPrefixes"]),
        "ContinuationToken": p.get("ContinuationToken"),
        "NextContinuationToken": token_of(following) if following else None,
        "StartAfter": key_encoder(p)(p["StartAfter"]) if "StartAfter" in p else None,
    }


def objects_v1(p: P, page: P, following: str) -> P:
    """Return the values of `ListObjects`; see `objects_v2`."""
    text = key_encoder(p)
    return {
        **page,
        "Prefix": p.get("Prefix", ""),  # which the SDK does not decode here
        "Marker": text(p.get("Marker", "")),
        "NextMarker": text(following) if following else None,
    }


def versions(p: P, entries: Sequence[VersionEntry], groups: Sequence[str], *, owner: Any) -> P:
    """Return the values of `ListObjectVersions` but for its end; see `ended`."""
    text = key_encoder(p)
    mixed: list[tuple[str, P]] = []
    for entry in entries:
        shown = {
            "Key": text(entry.key),
            "VersionId": entry.version,
            "IsLatest": entry.latest,
            "Owner": owner,
            "LastModified": iso_moment(entry.modified_ns),
        }
        if not entry.marker:
            shown |= {"ETag": quoted(entry.etag), "Size": entry.size, **STANDARD}
        mixed.append(("DeleteMarkers" if entry.marker else "Versions", shown))
    return {
        **about(p, page_limit(p, "MaxKeys"), groups),
        "KeyMarker": text(p.get("KeyMarker", "")),
        "VersionIdMarker": p.get("VersionIdMarker", ""),
        MIXED: mixed,
    }


def uploads(p: P, page: Page, *, owner: Any) -> P:
    """Return the values of `ListMultipartUploads`."""
    text = key_encoder(p)
    shown = [
        {
            "Key": text(entry.key),
            "UploadId": entry.upload,
            "Initiated": iso_moment(entry.started_ns),
            "Owner": owner,
            "Initiator": owner,
            **STANDARD,
        }
        for entry in page.entries
    ]
    common = about(p, page_limit(p, "MaxUploads"), page.groups)
    return {
        **{name: value for name, value in common.items() if name not in ("Name", "MaxKeys")},
        "Bucket": p["Bucket"],
        "MaxUploads": common["MaxKeys"],
        "KeyMarker": text(p.get("KeyMarker", "")),
        "UploadIdMarker": p.get("UploadIdMarker", ""),
        "Uploads": shown,
        **ended(p, page.more, page.last, "NextUploadIdMarker"),
    }


def ended(p: P, more: bool, last: tuple[str, str], next_tie: str) -> P:
    """Return the values that tell how a page ends: the markers of the next one, if there is one."""
    key, tie = last
    return {
        "IsTruncated": more,
        "NextKeyMarker": key_encoder(p)(key) if more else None,
        next_tie: tie if more and tie else None,
    }


def parts(p: P, entries: Sequence[PartEntry], *, owner: Any) -> P:
    """Return the values of `ListParts`, of all parts of the upload those that the parameters select."""
    limit, after = page_limit(p, "MaxParts"), p.get("PartNumberMarker", 0)
    rest = [entry for entry in entries if entry.number > after]
    page = rest[:limit]
    shown = [
        {
            "PartNumber": entry.number,
            "LastModified": iso_moment(entry.modified_ns),
            "ETag": quoted(entry.etag),
            "Size": entry.size,
            **entry.checksums,
        }
        for entry in page
    ]
    return {
        "Bucket": p["Bucket"],
        "Key": p["Key"],
        "UploadId": p["UploadId"],
        "PartNumberMarker": after,
        "NextPartNumberMarker": page[-1].number if page else 0,
        "MaxParts": limit,
        "IsTruncated": len(rest) > len(page),
        "Parts": shown,
        "Owner": owner,
        "Initiator": owner,
        **STANDARD,
    }


def about(p: P, limit: int, groups: Sequence[str]) -> P:
    """Return what a page repeats of its request, and its groups."""
    text = key_encoder(p)
    return {
        "Name": p["Bucket"],
        "Prefix": text(p.get("Prefix", "")),
        "Delimiter": text(p["Delimiter"]) if p.get("Delimiter") else None,
        "MaxKeys": limit,
        "EncodingType": p.get("EncodingType"),
        "CommonPrefixes": [{"Prefix": text(group)} for group in groups],
    }
