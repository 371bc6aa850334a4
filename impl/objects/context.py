"""The context of the operations of one request: the buckets, the caller, and finding objects."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fencepost.impl.objects import access, acls, object_state
from fencepost.impl.objects.buckets import Buckets, Document
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.wire.conditions import holds
from fencepost.impl.objects.wire.elements import http_date
from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.objects.wire.parameters import copy_source
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.files.versions import NULL, Keep, entry_of, is_version
from fencepost.impl.store.requests import Metadata, ObjectInfo


@dataclass(frozen=True)
class Source:
    """The source of a copy."""

    place: tuple[str, str, str]
    """Bucket, key and the version that was named."""
    info: ObjectInfo
    extra: Metadata
    fd: int
    version: str | None
    """Of the source, where its bucket keeps versions."""


@dataclass(frozen=True)
class Context:
    buckets: Buckets
    caller: Caller
    wait: bool = True
    """True if reading may wait for the disk; otherwise it raises `WouldWait`."""

    def now(self) -> datetime:
        return moment(self.buckets.env.now_ns())

    @contextlib.contextmanager
    def store(self, p: Mapping[str, Any]) -> Iterator[FileStore]:
        with self.buckets.using(p["Bucket"]) as store:
            yield store

    @contextlib.contextmanager
    def reading(self, p: Mapping[str, Any]) -> Iterator[tuple[Opened, str | None]]:
        """The object or version that a request names, and what the response calls the version.

        Its file stays what it is, however slowly it is read; its bucket may be changed or deleted meanwhile.
        A delete marker is refused as S3 refuses it."""
        version = version_of(p)
        with contextlib.ExitStack() as file:
            with self.buckets.entered(p["Bucket"], wait=self.wait) as (store, document):
                found = file.enter_context(store.opened(p["Key"], version, wait=self.wait))
                shown = self._checked(p, store, document, found, version)
            assert found is not None, "checked"
            yield found, shown

    def _checked(
        self, p: Mapping[str, Any], store: FileStore, document: Document, found: Opened | None, version: str
    ) -> str | None:
        """Return what the response calls the version, if the caller may read what was found."""
        if found is None:
            if not self._may_miss(p):
                refuse("AccessDenied")
            raise _missing(store, document, p["Key"], version)
        if self.caller.only_public and not access.may_read(self.caller, document, found.attributes.extra):
            refuse("AccessDenied")
        entry = entry_of(found)
        if entry.marker:
            error = S3Error("MethodNotAllowed", method="GET", resource_type="DeleteMarker")
            error.headers = {
                **_marker_headers(version),
                "Allow": "DELETE",
                "Last-Modified": http_date(moment(found.found.st_mtime_ns)),
            }
            raise error
        return entry.version if document.keep is not Keep.NOTHING else None

    def _may_miss(self, p: Mapping[str, Any]) -> bool:
        """Return True if the caller may learn that an object is missing: who may list its bucket."""
        if self.caller.may_use(p["Bucket"]):
            return True
        listing = {"Bucket": p["Bucket"], "Prefix": p["Key"]}
        return access.Access(self.buckets, self.caller).allows("ListObjectsV2", listing)

    @contextlib.contextmanager
    def source(self, p: Mapping[str, Any]) -> Iterator[Source]:
        """The object that `x-amz-copy-source` names, if the caller may read it."""
        bucket, key, version = copy_source(p)
        named = {"Bucket": bucket, "Key": key, **({"VersionId": version} if version else {})}
        reader = access.authorize(self.buckets, self.caller, "GetObject", named)
        try:
            with replace(self, caller=reader).reading(named) as (found, shown):
                info = found.info(key)
                if not holds(p, info.etag, info.modified_ns, "CopySource"):
                    refuse("PreconditionFailed")
                yield Source((bucket, key, version), info, found.attributes.extra, found.fd, shown)
        except S3Error as error:
            if error.details.get("resource_type") != "DeleteMarker":
                raise
            refuse(
                "InvalidRequest",
                "The source of a copy request may not specifically refer to a delete marker by version id.",
            )

    def written(self, p: Mapping[str, Any], document: Document) -> dict[str, str]:
        """Return the values that the server keeps with an object written with these parameters."""
        if document.encryption and "ServerSideEncryption" not in p:
            p = {**p, "ServerSideEncryption": document.encryption}
        if "ACL" in p:
            access.check_acl_in_use(document, p)
        own = access.kept(acls.checked(p["ACL"]) if "ACL" in p else "", document)
        return object_state.written(p, document.lock, self.now()) | ({"Access": own} if own else {})

    def may_bypass(self, p: Mapping[str, Any]) -> bool:
        """Return True if this request bypasses GOVERNANCE retention, which only root may."""
        if p.get("BypassGovernanceRetention") and self.caller.name != ROOT:
            refuse("AccessDenied")
        return bool(p.get("BypassGovernanceRetention"))


def version_of(p: Mapping[str, Any]) -> str:
    """The version that a request names; empty for the current one."""
    version: str = p.get("VersionId", "")
    if "VersionId" in p and not is_version(version):
        refuse("InvalidArgument", "Invalid version id specified", argument="versionId", value=version)
    return version


def shown_version(version: str) -> str | None:
    """Return how the response to a write names the version it made: only where its bucket keeps it."""
    return None if version == NULL else version or None


def _missing(store: FileStore, document: Document, key: str, version: str) -> S3Error:
    if version and not (version == NULL and document.keep is Keep.NOTHING):
        return S3Error("NoSuchVersion", key=key, version_id=version)
    error = S3Error("NoSuchKey", key=key)
    marker = store.latest_marker(key) if document.keep is not Keep.NOTHING else ""
    if marker:
        error.headers = _marker_headers(marker)
    return error


def _marker_headers(version: str) -> dict[str, str]:
    return {"x-amz-delete-marker": "true", "x-amz-version-id": version}


def copy_bytes(fd: int, start: int, stop: int, write: Callable[[bytes], None]) -> str:
    """Copy a part of a file; returns the MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    while start < stop:
        piece = os.pread(fd, min(_COPY_STEP, stop - start), start)
        if not piece:
            refuse("InternalError")
        digest.update(piece)
        write(piece)
        start += len(piece)
    return digest.hexdigest()


_COPY_STEP = 1 << 20


def moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 1_000_000 / 1000, UTC)
