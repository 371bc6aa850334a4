"""Authorization: who may do what, decided at each request from what its bucket and its object say now.

    root            everything
    the bucket      the access key with the name of a bucket: everything in it but creating and deleting it
    a holder        a named key of the tokens file: the rights it was granted below prefixes of /bucket/key
    everybody       objects that are public, and what a bucket policy allows

A bucket policy (see `policies`) adds to these rights, and its denials win over all of them, also over root's;
only the policy itself stays within root's reach, so that no bucket is locked for ever.

An object inherits the access of its bucket unless it has one of its own. Nothing is resolved when an object
is written: closing a bucket closes what inherits, and the closing (`Document.closings`) outdates every
`public` that an object in it was given before. So nothing that was open before a closing is open after it.
Public access blocks close at the same place: they are looked at when an object is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from fencepost.impl.http.tokens import Holder
from fencepost.impl.objects.buckets import Buckets, Document
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.object_state import (
    AUTHENTICATED_READ,
    PRIVATE,
    PUBLIC,
    PUBLIC_READ_WRITE,
    tags_of,
)
from fencepost.impl.objects.policies import Asked, Verdict, read_policy
from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.store.files.disk import WouldWait

IGNORE_ACLS, BLOCK_ACLS = "IgnorePublicAcls", "BlockPublicAcls"
BLOCK_POLICY, RESTRICT = "BlockPublicPolicy", "RestrictPublicBuckets"
OWNER_ID = "fencepost"
ENFORCED = "BucketOwnerEnforced"
BLOCKS = (BLOCK_ACLS, IGNORE_ACLS, BLOCK_POLICY, RESTRICT)

_POLICY = frozenset({"GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy", "GetBucketPolicyStatus"})
_OF_ROOT = frozenset({"CreateBucket", "DeleteBucket"})
_BY_ACCESS = frozenset({"GetObject", "HeadObject"})
"""Operations that are open to everybody on an object that is public."""
_READS = frozenset(
    {
        "GetObject", "HeadObject", "GetObjectAttributes", "GetObjectTagging", "GetObjectAcl",
        "GetObjectRetention", "GetObjectLegalHold",
    }
)  # fmt: skip
_LISTS = frozenset({"ListObjects", "ListObjectsV2", "ListObjectVersions", "ListMultipartUploads"})
_LOOKS = frozenset({"HeadBucket", "GetBucketLocation", "GetBucketVersioning"})
_WRITES = frozenset({"PutObject", "CopyObject", "CompleteMultipartUpload"})
_UPLOADS = frozenset(
    {"CreateMultipartUpload", "UploadPart", "UploadPartCopy", "AbortMultipartUpload", "ListParts"}
)
"""Steps before an object is written: they need either right to write."""
_CHANGES = frozenset(
    {
        "PutObjectTagging", "DeleteObjectTagging", "PutObjectAcl", "PutObjectRetention", "PutObjectLegalHold",
    }
)  # fmt: skip


def authorize(
    buckets: Buckets, caller: Caller, operation: str, p: Mapping[str, Any], *, wait: bool = True
) -> Caller:
    """Return the caller as which the operation goes on, or refuse it.

    The result may be restricted to public objects (`only_public`). Without `wait`, `WouldWait` is raised
    where the disk would have to be waited for.
    """
    if operation == "ListBuckets":
        if caller.is_anonymous:
            refuse("AccessDenied")
        return caller
    if operation == "CreateBucket":
        if caller.name != ROOT:
            _refuse_creating(buckets, caller, p["Bucket"])
        return caller
    document = buckets.document(p["Bucket"], wait=wait)
    if p.get("ExpectedBucketOwner", OWNER_ID) != OWNER_ID:
        refuse("AccessDenied")
    by_key = document.policy or caller.holder is not None or document.acl == PUBLIC_READ_WRITE
    if operation == "DeleteObjects" and by_key:
        return caller  # each key is authorized by itself
    verdict = _verdict(buckets, document, caller, operation, p, wait)
    if verdict is Verdict.DENY and not (caller.name == ROOT and operation in _POLICY):
        refuse("AccessDenied")
    owns = caller.name == ROOT or (caller.may_use(p["Bucket"]) and operation not in _OF_ROOT)
    if owns or verdict is Verdict.ALLOW or _grants(caller.holder, operation, p):
        return caller
    if _opens(document, caller, operation):
        return caller
    if operation not in _BY_ACCESS:
        refuse("AccessDenied")
    return replace(caller, only_public=True)


def _refuse_creating(buckets: Buckets, caller: Caller, bucket: str) -> NoReturn:
    if not caller.is_anonymous and any(name == bucket for name, _ in buckets.all()):
        refuse("BucketAlreadyExists")
    refuse("AccessDenied")


def acl_of(document: Document, extra: Mapping[str, str]) -> str:
    """Return the canned ACL in force of an object that has these values in this bucket."""
    if _ignores_acls(document):
        return "private"
    return own_acl(document, extra) or ("public-read" if document.access == PUBLIC else "private")


def own_acl(document: Document, extra: Mapping[str, str]) -> str:
    """Return the canned ACL that an object has of its own: empty if it inherits the access of its bucket."""
    acl, _, closings = extra.get("Access", "").partition(":")
    if acl == PRIVATE:
        return "private"
    if int(closings or 0) != document.closings:
        return ""
    return "public-read" if acl == PUBLIC else acl


def is_public(document: Document, extra: Mapping[str, str]) -> bool:
    """Return True if everybody may read an object that has these values in this bucket."""
    return acl_of(document, extra) in ("public-read", PUBLIC_READ_WRITE)


def may_read(caller: Caller, document: Document, extra: Mapping[str, str]) -> bool:
    """Return True if the ACL of an object lets a caller read it."""
    acl = acl_of(document, extra)
    return is_public(document, extra) or (acl == AUTHENTICATED_READ and not caller.is_anonymous)


def kept(acl: str, document: Document) -> str:
    """Return the value that an object keeps for a canned ACL of its own: one that opens it holds until the
    next closing."""
    if acl in ("", "private"):
        return acl and PRIVATE
    check_public_acl(document)
    name = PUBLIC if acl == "public-read" else acl
    return f"{name}:{document.closings}" if document.closings else name


def check_public_acl(document: Document) -> None:
    """Refuse to open something by an ACL where the bucket forbids that."""
    if document.ownership == ENFORCED:
        refuse("AccessControlListNotSupported")
    if BLOCK_ACLS in document.block:
        refuse("AccessDenied", "The public access block of this bucket refuses public ACLs.")


def check_acl_in_use(document: Document, p: Mapping[str, Any]) -> None:
    """Refuse an ACL where the bucket has the ownership `ENFORCED`, unless it grants control to its owner."""
    if document.ownership == ENFORCED and p.get("ACL") != "bucket-owner-full-control":
        refuse("AccessControlListNotSupported")


def _ignores_acls(document: Document) -> bool:
    return IGNORE_ACLS in document.block or document.ownership == ENFORCED


def with_access(document: Document, access: str) -> Document:
    """Return the document of a bucket that is opened, or closed with everything that is in it."""
    if access == PUBLIC:
        check_public_acl(document)
        return replace(document, access=PUBLIC)
    return replace(document, access="", acl="", closings=document.closings + 1)


# ACLs of buckets.


def _opens(document: Document, caller: Caller, operation: str) -> bool:
    """Return True if the ACL of the bucket allows an operation to everybody, or to all who signed."""
    if not document.acl or _ignores_acls(document):
        return False
    if operation in _LISTS or operation == "HeadBucket":
        return document.acl != AUTHENTICATED_READ or not caller.is_anonymous
    return document.acl == PUBLIC_READ_WRITE and operation in _ACL_WRITES


_ACL_WRITES = _WRITES | _UPLOADS | {"DeleteObject"}


# Rights of holders.


def _grants(holder: Holder | None, operation: str, p: Mapping[str, Any]) -> bool:
    """Return True if the grants of a named key allow an operation."""
    if holder is None:
        return False
    bucket = f"/{p['Bucket']}"
    path = f"{bucket}/{p.get('Key', '')}"
    if operation in _READS:
        return holder.may("read", path)
    if operation in _LISTS:
        return holder.may_list(f"{bucket}/{p.get('Prefix', '')}")
    if operation in _LOOKS:
        return is_known_to(holder, p["Bucket"])
    if operation in _WRITES:
        return all(holder.may(right, path) for right in rights_to_write(p))
    if operation in _UPLOADS:
        return holder.may("create", path) or holder.may("append", path)
    if operation in _CHANGES:
        return holder.may("append", path)
    return operation == "DeleteObject" and holder.may("delete", path)


def is_known_to(holder: Holder, bucket: str) -> bool:
    """Return True if a named key has a right at something in a bucket."""
    return any(f"{prefix}/".startswith(f"/{bucket}/") or prefix == "/" for prefix, _ in holder.grants)


def rights_to_write(p: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the rights that a write needs: it may make the object, and it may replace one."""
    if p.get("IfNoneMatch", "").strip() == "*":
        return ("create",)
    return ("append",) if "IfMatch" in p else ("create", "append")


# Policies.


def _verdict(
    buckets: Buckets, document: Document, caller: Caller, operation: str, p: Mapping[str, Any], wait: bool
) -> Verdict:
    if not document.policy:
        return Verdict.NONE
    policy = read_policy(document.policy)
    asked = Asked(caller, operation, p, _tags(buckets, p, wait), buckets.env.now_ns())
    found = policy.verdict(asked)
    if found is Verdict.ALLOW and RESTRICT in document.block and policy.is_public:
        return Verdict.NONE
    return found


def _tags(buckets: Buckets, p: Mapping[str, Any], wait: bool) -> Callable[[], Mapping[str, str]]:
    """Return what reads the tags of the object that a request is about."""

    def tags() -> Mapping[str, str]:
        if not wait:
            raise WouldWait
        with (
            buckets.using(p["Bucket"]) as store,
            store.opened(p.get("Key", ""), p.get("VersionId", "")) as found,
        ):
            return {} if found is None else tags_of(found.attributes.extra)

    return tags


@dataclass(frozen=True)
class Access:
    """Authorization of one caller, for operations that read another object or several keys."""

    buckets: Buckets
    caller: Caller

    def allows(self, operation: str, p: Mapping[str, Any]) -> bool:
        try:
            caller = replace(self.caller, only_public=False)
            return not authorize(self.buckets, caller, operation, p).only_public
        except S3Error as error:
            if error.code != "AccessDenied":
                raise
            return False
