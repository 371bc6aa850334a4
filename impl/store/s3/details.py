"""Read the settings of a bucket and its objects: tags, locks, lifecycle rules.

None of them is a condition of a write, so they are no part of the interface of stores. Errors are those of
`endings`, with the same meaning. A store that does not offer a setting has none of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import botocore.exceptions

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Outcome
from fencepost.impl.store.s3.endings import LIBRARY_ERRORS, ended
from fencepost.impl.store.s3.operations import nanoseconds
from fencepost.impl.store.s3.store import S3Store

_NOT_OFFERED = frozenset({404, 405, 501})
"""Answers to a question for something that is not configured, or not offered."""


class NoAnswer(Exception):
    """The store did not answer; the same question may be answered later."""


@dataclass(frozen=True, slots=True)
class Described:
    etag: str
    size: int
    modified_ns: int
    version: str
    locked_until_ns: int
    """0 where no retention is shown."""
    is_held: bool
    """By a legal hold."""


class Details:
    def __init__(self, store: S3Store, bucket: str) -> None:
        self._store = store
        self._bucket = bucket

    def describe(self, key: str, version: str = "") -> Described | None:
        """Of an object or a version; None when it is not there."""
        found = self._send("head_object", ask.Head(key, version), _named(key, version))
        if found is None:
            return None
        return Described(
            str(found["ETag"]).strip('"'),
            int(found["ContentLength"]),
            nanoseconds(found["LastModified"]),
            str(found.get("VersionId") or ""),
            nanoseconds(found.get("ObjectLockRetainUntilDate")),
            found.get("ObjectLockLegalHoldStatus") == "ON",
        )

    def tags(self, key: str, version: str = "") -> dict[str, str] | None:
        """None when the object is not there."""
        found = self._send(
            "get_object_tagging",
            ask.Head(key, version),
            _named(key, version),
            nothing=("NoSuchTagSet", "NoSuchTagSetError"),
        )
        return None if found is None else {tag["Key"]: tag["Value"] for tag in found.get("TagSet", ())}

    def delete_versions(self, versions: Sequence[tuple[str, str]]) -> list[bool]:
        """Delete these versions, each a key and its version, with one request; True for each that is gone.

        False for the others, and for all where the store does not offer the request or did not answer it.
        """
        named = [{"Key": key, "VersionId": version} for key, version in versions]
        try:
            found = self._of_bucket("delete_objects", Delete={"Objects": named})
        except (NoAnswer, StoreError):
            return [False] * len(versions)
        gone = {(one.get("Key"), one.get("VersionId")) for one in found.get("Deleted", ())}
        return [version in gone for version in versions]

    def retain(self, key: str, version: str, until_ns: int, mode: str) -> bool:
        """Keep a version until a time, or longer if it is kept longer already; False when it is not there.

        `mode` is GOVERNANCE or COMPLIANCE.
        """
        found = self.describe(key, version)
        if found is None or found.locked_until_ns >= until_ns:
            return found is not None
        until = datetime.fromtimestamp(-(-until_ns // 10**9), UTC)  # S3 keeps whole seconds
        retention = {"Mode": mode, "RetainUntilDate": until}
        asked = {**_named(key, version), "Retention": retention}
        return self._send("put_object_retention", ask.Head(key, version), asked) is not None

    def has_locks(self) -> bool:
        """Return True if versions of this bucket can be locked."""
        found = self._of_bucket("get_object_lock_configuration")
        return bool(found.get("ObjectLockConfiguration", {}).get("ObjectLockEnabled") == "Enabled")

    def server(self) -> str:
        """The name that the server gives itself; empty where it gives none."""
        found = self._of_bucket("head_bucket").get("ResponseMetadata", {}).get("HTTPHeaders", {})
        return str(found.get("server", ""))

    def lifecycle(self) -> list[dict[str, Any]]:
        """The rules that the store itself has."""
        rules: list[dict[str, Any]] = self._of_bucket("get_bucket_lifecycle_configuration").get("Rules", [])
        return rules

    def put_lifecycle(self, rules: list[dict[str, Any]]) -> None:
        """Replace the rules that the store itself has; without any, remove them."""
        if rules:
            self._send(
                "put_bucket_lifecycle_configuration", ask.List(), {"LifecycleConfiguration": {"Rules": rules}}
            )
        else:
            self._send("delete_bucket_lifecycle", ask.List(), {})

    def _of_bucket(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        return self._send(operation, ask.List(), parameters, not_offered=True) or {}

    def _send(
        self,
        operation: str,
        request: ask.Request[Any],
        parameters: Mapping[str, Any],
        *,
        nothing: tuple[str, ...] = (),
        not_offered: bool = False,
    ) -> Mapping[str, Any] | None:
        """The answer; None for what is missing, and nothing of what has a code of `nothing`."""
        client = self._store.client()
        try:
            answer: Mapping[str, Any] = getattr(client, operation)(Bucket=self._bucket, **parameters)
            return answer
        except LIBRARY_ERRORS as error:
            # Not chained: an exception of the SDK may show headers.
            failed = error
        if isinstance(failed, botocore.exceptions.ClientError):
            if failed.response.get("Error", {}).get("Code") in nothing:
                return {}
            status = failed.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if not_offered and status in _NOT_OFFERED:
                return {}
        reply = ended(request, failed, self._store.url)
        if reply.outcome is Outcome.MISSING:
            return None
        raise NoAnswer(f"{self._store.url}: {operation}: {reply.detail}")


def _named(key: str, version: str) -> dict[str, str]:
    return {"Key": key, **({"VersionId": version} if version else {})}
