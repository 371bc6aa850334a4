"""S3's operations on what is kept beside an object: tags, retention, legal hold, ACL.

Each replaces the attributes of one version in place, under the key's lock; the version, its content and its
time of modification stay.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.objects import access, acls, object_state
from fencepost.impl.objects.buckets import Document
from fencepost.impl.objects.context import Context, version_of
from fencepost.impl.objects.wire.conditions import require_done
from fencepost.impl.objects.wire.errors import refuse
from fencepost.impl.store.files.attributes import Attributes
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.requests import Metadata

_AT = ("Bucket", "Key", "VersionId")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "GetObjectTagging": _AT,
    "PutObjectTagging": (*_AT, "Tagging", "ContentMD5"),
    "DeleteObjectTagging": _AT,
    "GetObjectRetention": _AT,
    "PutObjectRetention": (*_AT, "Retention", "BypassGovernanceRetention", "ContentMD5"),
    "GetObjectLegalHold": _AT,
    "PutObjectLegalHold": (*_AT, "LegalHold", "ContentMD5"),
    "GetObjectAcl": _AT,
    "PutObjectAcl": (*_AT, "ACL", "AccessControlPolicy", "ContentMD5"),
}

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Maps the present values to those to replace; a value of "" removes one."""


@dataclass(frozen=True)
class ObjectSettings:
    context: Context

    def get_object_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self.context.reading(p) as (found, version):
            tags = object_state.tags_of(found.attributes.extra)
            return {"TagSet": object_state.tag_set(tags), "VersionId": version}

    def put_object_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._tagged(p, object_state.tags_in_set(p["Tagging"]["TagSet"]))

    def delete_object_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._tagged(p, {})

    def _tagged(self, p: Mapping[str, Any], tags: Mapping[str, str]) -> dict[str, Any]:
        return {"VersionId": self._change(p, lambda _: {"Tags": "", **object_state.kept_tags(tags)})}

    def get_object_retention(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self._require_lock(p)
        with self.context.reading(p) as (found, _):
            extra = found.attributes.extra
        if "LockMode" not in extra:
            refuse("NoSuchObjectLockConfiguration", key=p["Key"])
        return {"Retention": {"Mode": extra["LockMode"], "RetainUntilDate": object_state.until(extra)}}

    def put_object_retention(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self._require_lock(p)
        wanted, now = p.get("Retention", {}), self.context.now()
        modes = (object_state.GOVERNANCE, object_state.COMPLIANCE)
        if ("Mode" in wanted) != ("RetainUntilDate" in wanted) or wanted.get("Mode", modes[0]) not in modes:
            refuse("MalformedXML")
        found = object_state.retention(wanted["Mode"], wanted["RetainUntilDate"], now) if wanted else {}
        bypass = self.context.may_bypass(p)

        def change(extra: Mapping[str, str]) -> Mapping[str, str]:
            object_state.check_retention(extra, found, now, bypass=bypass)
            return {"LockMode": "", "LockUntil": "", **found}

        self._change(p, change)
        return {}

    def get_object_legal_hold(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self._require_lock(p)
        with self.context.reading(p) as (found, _):
            if "LegalHold" not in found.attributes.extra:
                refuse("NoSuchObjectLockConfiguration", key=p["Key"])
            return {"LegalHold": {"Status": found.attributes.extra["LegalHold"]}}

    def put_object_legal_hold(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self._require_lock(p)
        if p.get("LegalHold", {}).get("Status") not in ("ON", "OFF"):
            refuse("MalformedXML")
        self._change(p, lambda _: object_state.legal_hold(p["LegalHold"]["Status"]))
        return {}

    def get_object_acl(self, p: Mapping[str, Any]) -> dict[str, Any]:
        with self.context.reading(p) as (found, _):
            return acls.described(access.acl_of(self._document(p), found.attributes.extra))

    def put_object_acl(self, p: Mapping[str, Any]) -> dict[str, Any]:
        wanted = acls.wanted(p)
        access.check_acl_in_use(self._document(p), p)
        self._change(p, lambda _: {"Access": access.kept(wanted, self._document(p))})
        return {}

    def _require_lock(self, p: Mapping[str, Any]) -> None:
        if self._document(p).lock is None:
            object_state.refuse_unlocked()

    def _document(self, p: Mapping[str, Any]) -> Document:
        return self.context.buckets.document(p["Bucket"])

    def _change(self, p: Mapping[str, Any], change: Change) -> str | None:
        """Replace what is kept of one version; returns its name, where versions have one."""
        with self.context.reading(p) as (_, version):  # refuses what is not there, and delete markers
            pass

        def changed(found: Opened) -> Attributes:
            extra = found.attributes.extra
            merged = {name: text for name, text in {**extra, **change(extra)}.items() if text}
            return found.attributes._replace(extra=Metadata(merged))

        with self.context.store(p) as store:
            named = version or version_of(p)
            require_done(store.change(p["Key"], named, changed))
        return version
