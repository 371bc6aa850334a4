"""S3's operations on the configuration of a bucket: versioning, object lock, lifecycle, tags, ACL.

A configuration that is not implemented is answered as S3 answers where it was never set (`NOT_CONFIGURED`,
`DEFAULTS`), because it is never set here; setting it is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.impl.objects import access, acls, object_state
from fencepost.impl.objects.buckets import Buckets, Document
from fencepost.impl.objects.credentials import Caller
from fencepost.impl.objects.lifecycle_rules import kept_rules, read_rules
from fencepost.impl.objects.wire.errors import refuse

NOT_CONFIGURED: Mapping[str, str] = {
    "GetBucketReplication": "ReplicationConfigurationNotFoundError",
    "GetBucketWebsite": "NoSuchWebsiteConfiguration",
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "GetBucketAccelerateConfiguration": {},
    "GetBucketLogging": {},
    "GetBucketNotificationConfiguration": {},
    "GetBucketRequestPayment": {"Payer": "BucketOwner"},
}
KNOWN: Mapping[str, tuple[str, ...]] = {
    "GetBucketVersioning": ("Bucket",),
    "PutBucketVersioning": ("Bucket", "VersioningConfiguration", "ContentMD5"),
    "GetObjectLockConfiguration": ("Bucket",),
    "PutObjectLockConfiguration": ("Bucket", "ObjectLockConfiguration", "ContentMD5"),
    "GetBucketLifecycleConfiguration": ("Bucket",),
    "PutBucketLifecycleConfiguration": (
        "Bucket", "LifecycleConfiguration", "TransitionDefaultMinimumObjectSize",
    ),
    "DeleteBucketLifecycle": ("Bucket",),
    "GetBucketTagging": ("Bucket",),
    "PutBucketTagging": ("Bucket", "Tagging", "ContentMD5"),
    "DeleteBucketTagging": ("Bucket",),
    "GetBucketAcl": ("Bucket",),
    "PutBucketAcl": ("Bucket", "ACL", "AccessControlPolicy", "ContentMD5"),
    **dict.fromkeys((*NOT_CONFIGURED, *DEFAULTS), ("Bucket",)),
}  # fmt: skip
_MINIMUM = "all_storage_classes_128K"
_DAYS_MAX, _YEARS_MAX = 36_500, 100


@dataclass(frozen=True)
class BucketSettings:
    """The configuration of buckets, for one caller."""

    buckets: Buckets
    caller: Caller

    def not_configured(self, operation: str, p: Mapping[str, Any]) -> dict[str, Any]:
        self.buckets.document(p["Bucket"])
        if operation in NOT_CONFIGURED:
            refuse(NOT_CONFIGURED[operation], bucket_name=p["Bucket"])
        return dict(DEFAULTS[operation])

    # Versioning and locks.

    def get_bucket_versioning(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return {"Status": self.buckets.document(p["Bucket"]).versioning or None}

    def put_bucket_versioning(self, p: Mapping[str, Any]) -> dict[str, Any]:
        wanted = p["VersioningConfiguration"]
        if wanted.get("MFADelete", "Disabled") != "Disabled":
            refuse("NotImplemented", header="MfaDelete")
        if "Status" not in wanted:
            refuse("IllegalVersioningConfigurationException")
        if wanted["Status"] not in ("Enabled", "Suspended"):
            refuse("MalformedXML")

        def changed(document: Document) -> Document:
            if document.lock is not None and wanted["Status"] != "Enabled":
                refuse(
                    "InvalidBucketState",
                    "An Object Lock configuration is present on this bucket, so the versioning state cannot "
                    "be changed.",
                )
            return replace(document, versioning=wanted["Status"])

        self.buckets.change_alone(p["Bucket"], changed)
        return {}

    def get_object_lock_configuration(self, p: Mapping[str, Any]) -> dict[str, Any]:
        lock = self.buckets.document(p["Bucket"]).lock
        if lock is None:
            refuse("ObjectLockConfigurationNotFoundError", bucket_name=p["Bucket"])
        rule = {"Rule": {"DefaultRetention": lock}} if lock else {}
        return {"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled", **rule}}

    def put_object_lock_configuration(self, p: Mapping[str, Any]) -> dict[str, Any]:
        wanted = p.get("ObjectLockConfiguration", {})
        if wanted.get("ObjectLockEnabled") != "Enabled":
            refuse("MalformedXML")
        lock = _default_retention(wanted["Rule"]) if "Rule" in wanted else {}

        def changed(document: Document) -> Document:
            if document.versioning != "Enabled":
                refuse(
                    "InvalidBucketState",
                    "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
                )
            return replace(document, lock=lock)

        self.buckets.change_alone(p["Bucket"], changed)
        return {}

    # Lifecycle.

    def get_bucket_lifecycle_configuration(self, p: Mapping[str, Any]) -> dict[str, Any]:
        text = self.buckets.document(p["Bucket"]).lifecycle
        if not text:
            refuse("NoSuchLifecycleConfiguration", bucket_name=p["Bucket"])
        return {"Rules": read_rules(text), "TransitionDefaultMinimumObjectSize": _MINIMUM}

    def put_bucket_lifecycle_configuration(self, p: Mapping[str, Any]) -> dict[str, Any]:
        if p.get("TransitionDefaultMinimumObjectSize", _MINIMUM) != _MINIMUM:
            refuse("NotImplemented", header="x-amz-transition-default-minimum-object-size")
        text = kept_rules(p.get("LifecycleConfiguration", {}).get("Rules", []))
        self.buckets.change(p["Bucket"], lambda document: replace(document, lifecycle=text))
        return {"TransitionDefaultMinimumObjectSize": _MINIMUM}

    def delete_bucket_lifecycle(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self.buckets.change(p["Bucket"], lambda document: replace(document, lifecycle=""))
        return {}

    # Tags and access.

    def get_bucket_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        tags = self.buckets.document(p["Bucket"]).tags
        if not tags:
            refuse("NoSuchTagSet", bucket_name=p["Bucket"])
        return {"TagSet": object_state.tag_set(tags)}

    def put_bucket_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        tags = object_state.tags_in_set(p["Tagging"]["TagSet"], bucket=True)
        self.buckets.change(p["Bucket"], lambda document: replace(document, tags=tags))
        return {}

    def delete_bucket_tagging(self, p: Mapping[str, Any]) -> dict[str, Any]:
        self.buckets.change(p["Bucket"], lambda document: replace(document, tags={}))
        return {}

    def get_bucket_acl(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return acls.described(self.buckets.document(p["Bucket"]).acl or "private")

    def put_bucket_acl(self, p: Mapping[str, Any]) -> dict[str, Any]:
        acl = acls.wanted(p)

        def changed(document: Document) -> Document:
            access.check_acl_in_use(document, p)
            if acl == "private":  # this closes what inherits the access of the bucket, too
                return replace(document, acl="", access="")
            access.check_public_acl(document)
            return replace(document, acl=acl)

        self.buckets.change(p["Bucket"], changed)
        return {}


def _default_retention(rule: Mapping[str, Any]) -> dict[str, Any]:
    wanted = rule.get("DefaultRetention", {})
    periods = wanted.keys() & {"Days", "Years"}
    if wanted.get("Mode") not in (object_state.GOVERNANCE, object_state.COMPLIANCE) or len(periods) != 1:
        refuse("MalformedXML")
    period = wanted[min(periods)]
    if period <= 0:
        refuse("InvalidRetentionPeriod", "Default retention period must be a positive integer value.")
    if period > (_DAYS_MAX if "Days" in wanted else _YEARS_MAX):
        refuse("InvalidArgument", "Default retention period too large.")
    return dict(wanted)
