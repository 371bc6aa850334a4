"""Quirks of other stores: ways in which they answer otherwise than S3, each with its public source.

A quirk changes an operation after its caller was authorized: the parameters that the operation sees, or the
values that it returns. So a client can be tested against the behaviour of a store that it will meet, and
`fencepost probe` finds each of them. A store (`STORES`) is a list of quirks that were reported of it; in all
other respects it answers as S3.
"""

import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.objects.wire.elements import Rows
from fencepost.impl.objects.wire.errors import S3Error, refuse

RACE_S = 0.01
"""The time between the check of a raced condition and the write."""
STALE_S = 1.0
"""The largest age of a delayed listing."""
KEPT_MAX = 1000
"""Listings that are kept."""
_LISTINGS = frozenset({"ListObjects", "ListObjectsV2"})
_CONDITIONS = ("IfMatch", "IfNoneMatch")
_WRITES = frozenset({"PutObject", "CompleteMultipartUpload", "CopyObject", "DeleteObject"})
_VERSIONS = frozenset({"GetBucketVersioning", "PutBucketVersioning", "ListObjectVersions"})
Act = Callable[..., Any]
"""An operation: parameters to values, or to a context where a body is received or sent."""


@dataclass(frozen=True)
class Around:
    """The rest of the server, for a quirk."""

    env: Environment
    etag: Callable[[str, str], str | None]
    """Return the ETag of the object at a bucket and key, None if there is none."""
    listings: "Listings"


Wrap = Callable[[Around, str, Act], Act]
"""Return what answers an operation in place of this."""


@dataclass(frozen=True)
class Quirk:
    text: str
    source: str
    wrap: Wrap = lambda _around, _operation, act: act
    header: Callable[[bytes], bytes] | None = None
    """Change the ETag in the headers of a response."""


class Listings:
    """Listings that were answered lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, Any]] = {}

    def answer(self, request: str, now_ns: int, act: Callable[[], Any]) -> Any:
        """Return the listing of this request that is at most `STALE_S` old, else a new one."""
        with self._lock:
            kept = self._kept.get(request)
        if kept is not None and now_ns - kept[0] < STALE_S * 1e9:
            return kept[1]
        found = act()
        with self._lock:
            while len(self._kept) >= KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[request] = now_ns, found
        return found


def _without(parameters: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name not in names}


def _ignoring(operation: str, *names: str) -> Wrap:
    def wrap(_: Around, asked: str, act: Act) -> Act:
        return (lambda p: act(_without(p, *names))) if asked == operation else act

    return wrap


def _of_puts(changed: Callable[[Around, Mapping[str, Any]], Mapping[str, Any]]) -> Wrap:
    """Change the parameters of a put when its body has a place, not before."""

    def wrap(around: Around, operation: str, act: Act) -> Act:
        if operation != "PutObject":
            return act

        @contextlib.contextmanager
        def put(p: Mapping[str, Any]) -> Iterator[Any]:
            with act(changed(around, p)) as receiving:
                yield receiving

        return put

    return wrap


def _unmatched_quotes(_: Around, p: Mapping[str, Any]) -> Mapping[str, Any]:
    etag = p.get("IfMatch", "")
    return {**p, "IfMatch": f"quoted-{etag.strip(chr(34))}"} if etag.startswith('"') else p


def _created_by_match(around: Around, p: Mapping[str, Any]) -> Mapping[str, Any]:
    is_new = "IfMatch" in p and around.etag(p["Bucket"], p["Key"]) is None
    return _without(p, "IfMatch") if is_new else p


def _missing_as_changed(around: Around, p: Mapping[str, Any]) -> Mapping[str, Any]:
    if "IfMatch" in p and around.etag(p["Bucket"], p["Key"]) is None:
        refuse("PreconditionFailed", condition="If-Match")
    return p


def _checked_early(around: Around, p: Mapping[str, Any]) -> Mapping[str, Any]:
    if not {*_CONDITIONS} & p.keys():
        return p
    etag = around.etag(p["Bucket"], p["Key"])
    if "IfNoneMatch" in p and etag is not None:
        refuse("PreconditionFailed", condition="If-None-Match")
    if "IfMatch" in p:
        if etag is None:
            refuse("NoSuchKey", key=p["Key"])
        if p["IfMatch"].strip('"') != etag:
            refuse("PreconditionFailed", condition="If-Match")
    around.env.sleep(RACE_S)
    return _without(p, *_CONDITIONS)


def _refused(_: Around, operation: str, act: Act) -> Act:
    if operation not in _WRITES:
        return act

    def answer(p: Mapping[str, Any]) -> Any:
        if {*_CONDITIONS} & p.keys():
            refuse("NotImplemented", "A header you provided implies functionality that is not implemented")
        return act(p)

    return answer


def _conflicting(_: Around, operation: str, act: Act) -> Act:
    if operation not in _WRITES:
        return act

    @contextlib.contextmanager
    def renamed() -> Iterator[None]:
        try:
            yield
        except S3Error as error:
            if error.code != "PreconditionFailed":
                raise
            raise S3Error("ConditionalRequestConflict") from error

    @contextlib.contextmanager
    def put(p: Mapping[str, Any]) -> Iterator[Any]:
        with renamed(), act(p) as receiving:
            yield receiving

    @renamed()
    def answer(p: Mapping[str, Any]) -> Any:
        return act(p)

    return put if operation == "PutObject" else answer


def _unversioned(_: Around, operation: str, act: Act) -> Act:
    if operation not in _VERSIONS:
        return act
    return lambda _: refuse("NotImplemented", f"{operation} is not implemented")


def _unordered(_: Around, operation: str, act: Act) -> Act:
    if operation not in _LISTINGS:
        return act

    def mixed(row: tuple[str, ...]) -> bytes:
        return hashlib.sha256(row[0].encode("utf-8", "surrogateescape")).digest()

    def answer(p: Mapping[str, Any]) -> Any:
        values = act(p)
        page: Rows = values["Contents"]
        return {**values, "Contents": page._replace(rows=sorted(page.rows, key=mixed))}

    return answer


def _delayed(around: Around, operation: str, act: Act) -> Act:
    if operation not in _LISTINGS:
        return act

    def answer(p: Mapping[str, Any]) -> Any:
        request = f"{operation} {sorted(p.items())}"
        return around.listings.answer(request, around.env.monotonic_ns(), functools.partial(act, p))

    return answer


QUIRKS: Mapping[str, Quirk] = {
    "put-if-none-match-ignored": Quirk(
        "PutObject ignores If-None-Match: everybody's create wins.",
        "https://github.com/pithings/mountx/issues/19",
        _ignoring("PutObject", "IfNoneMatch"),
    ),
    "put-if-match-ignored": Quirk(
        "PutObject ignores If-Match: a stale update overwrites.",
        "https://github.com/developmentseed/multistore/issues/120",
        _ignoring("PutObject", "IfMatch"),
    ),
    "delete-if-match-ignored": Quirk(
        "DeleteObject ignores If-Match: a stale delete deletes.",
        "https://github.com/rustfs/rustfs/discussions/2602",
        _ignoring("DeleteObject", "IfMatch"),
    ),
    "complete-conditions-ignored": Quirk(
        "CompleteMultipartUpload ignores If-None-Match and If-Match.",
        "https://github.com/ministackorg/ministack/pull/1435",
        _ignoring("CompleteMultipartUpload", *_CONDITIONS),
    ),
    "conditions-refused": Quirk(
        "Writes with If-None-Match or If-Match are answered 501.",
        "https://github.com/lance-format/lance/issues/5614",
        _refused,
    ),
    "conditions-raced": Quirk(
        "PutObject checks its condition, and writes later: two writers may both win.",
        "https://github.com/seaweedfs/seaweedfs/issues/8800",
        _of_puts(_checked_early),
    ),
    "conflict-for-failed": Quirk(
        "A condition that does not hold is answered 409, not 412.",
        "https://docs.coreweave.com/release-notes/ai-object-storage-conditional-writes",
        _conflicting,
    ),
    "quoted-if-match-fails": Quirk(
        "If-Match of PutObject matches an ETag without quotes only, and replies have it with quotes.",
        "https://github.com/slatedb/slatedb/issues/1818",
        _of_puts(_unmatched_quotes),
    ),
    "if-match-creates": Quirk(
        "PutObject with If-Match creates an object that does not exist.",
        "https://github.com/minio/minio/issues/21526",
        _of_puts(_created_by_match),
    ),
    "missing-as-changed": Quirk(
        "PutObject with If-Match on a missing key is answered 412, not 404.",
        "https://github.com/apache/ozone/pull/10010",
        _of_puts(_missing_as_changed),
    ),
    "weak-etags": Quirk(
        "The ETag in headers of replies is weak: W/ before the quotes.",
        "https://github.com/aws/aws-sdk-java/pull/2380",
        header=lambda etag: etag if etag.startswith(b"W/") else b"W/" + etag,
    ),
    "unquoted-etags": Quirk(
        "The ETag in headers of replies has no quotes.",
        "https://opendev.org/openstack/swift/src/branch/master/swift/common/middleware/etag_quoter.py",
        header=lambda etag: etag.strip(b'"'),
    ),
    "listing-unordered": Quirk(
        "A page of a listing is in no order.",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html",
        _unordered,
    ),
    "listing-delayed": Quirk(
        f"A listing shows the bucket as it was, up to {STALE_S:g} s ago.",
        "https://aws.amazon.com/blogs/aws/amazon-s3-update-strong-read-after-write-consistency/",
        _delayed,
    ),
    "versions-missing": Quirk(
        "Versioning is not implemented: neither set, nor read, nor listed.",
        "https://developers.cloudflare.com/r2/api/s3/api/",
        _unversioned,
    ),
}
_IGNORING = (
    "put-if-none-match-ignored",
    "put-if-match-ignored",
    "delete-if-match-ignored",
    "complete-conditions-ignored",
)
_CEPH = ("quoted-if-match-fails", "delete-if-match-ignored", "complete-conditions-ignored")
STORES: Mapping[str, tuple[str, ...]] = {
    "b2": ("conditions-refused",),
    "ceph": _CEPH,
    "coreweave": ("conflict-for-failed",),
    "express": ("listing-unordered",),
    "garage": (*_IGNORING, "versions-missing"),
    "gcs": _IGNORING,
    "minio": ("if-match-creates",),
    "ozone": ("missing-as-changed",),
    "r2": ("versions-missing",),
    "seaweedfs": ("conditions-raced",),
    "spaces": _CEPH,
    "swift": ("unquoted-etags", "listing-delayed"),
}
"""Stores, each with what was reported of it, or of one of its releases."""


def named_quirks(names: list[str], stores: list[str]) -> tuple[str, ...]:
    """Return the names of these quirks and of those of these stores. Raises `ValueError` for unknown ones."""
    for what, given, known in (("quirk", names, QUIRKS), ("store", stores, STORES)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(f"no {what} is called {unknown[0]!r}; known: {', '.join(known)}")
    return tuple(dict.fromkeys([*names, *(name for store in stores for name in STORES[store])]))
