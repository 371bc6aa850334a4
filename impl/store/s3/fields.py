"""What all calls share: the place they work in, and the fields that many of them have.

What a reply must hold and does not is `BrokenPromise`: guessing would hand a protocol a fact that nobody
stated.
"""

import calendar
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import BrokenPromise

Answer = Mapping[str, Any]
Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket, and the prefix below which our keys live: empty, or ending in a slash."""

    bucket: str
    prefix: str

    def key(self, key: str) -> str:
        return self.prefix + key

    def strip(self, key: str) -> str:
        if not key.startswith(self.prefix):
            raise BrokenPromise(f"asked for keys below {self.prefix!r}, the store listed {key!r}")
        return key[len(self.prefix) :]


def at(place: Place, request: ask.Keyed[Any]) -> Parameters:
    return {"Bucket": place.bucket, "Key": place.key(request.key)}


def condition(when: ask.Condition) -> Parameters:
    if isinstance(when, ask.Absent):
        return {"IfNoneMatch": "*"}
    return {"IfMatch": when.etag} if isinstance(when, ask.Matches) else {}


def versioned(version: str) -> Parameters:
    return {"VersionId": version} if version else {}


def etag_of(answer: Answer, request: ask.Keyed[Any]) -> str:
    etag = str(answer.get("ETag", "")).strip('"')
    if not etag or etag.startswith("W/"):
        raise BrokenPromise(
            f"the reply to {request.kind} {request.key!r} carries "
            f"{'a weak ETag, which a proxy made' if etag else 'no ETag'}; conditions cannot be built on it"
        )
    return etag


def version_of(answer: Answer) -> str:
    """Empty also for "null", which some stores call the only version where none are kept."""
    version = str(answer.get("VersionId") or "")
    return "" if version == "null" else version


def ns_of(moment: datetime | None) -> int:
    if moment is None:
        return 0
    return calendar.timegm(moment.utctimetuple()) * 1_000_000_000 + moment.microsecond * 1000
