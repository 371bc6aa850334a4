"""S3's operations on what a bucket says about requests to it: policy, public access block, ownership, CORS,
default encryption.

Each is checked when it is set and kept in the bucket's document; what cannot be evaluated is refused then.
`access` evaluates the first three, `wire/cors` the fourth.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.impl.objects import access
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import Caller
from fencepost.impl.objects.object_state import AES256
from fencepost.impl.objects.policies import checked_policy, read_policy
from fencepost.impl.objects.wire.cors import checked_rules
from fencepost.impl.objects.wire.errors import refuse

OWNERSHIPS = ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter")
_PUT = ("Bucket", "ContentMD5")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "GetBucketPolicy": ("Bucket",),
    "GetBucketPolicyStatus": ("Bucket",),
    "PutBucketPolicy": (*_PUT, "Policy", "ConfirmRemoveSelfBucketAccess"),
    "DeleteBucketPolicy": ("Bucket",),
    "GetPublicAccessBlock": ("Bucket",),
    "PutPublicAccessBlock": (*_PUT, "PublicAccessBlockConfiguration"),
    "DeletePublicAccessBlock": ("Bucket",),
    "GetBucketOwnershipControls": ("Bucket",),
    "PutBucketOwnershipControls": (*_PUT, "OwnershipControls"),
    "DeleteBucketOwnershipControls": ("Bucket",),
    "GetBucketCors": ("Bucket",),
    "PutBucketCors": (*_PUT, "CORSConfiguration"),
    "DeleteBucketCors": ("Bucket",),
    "GetBucketEncryption": ("Bucket",),
    "PutBucketEncryption": (*_PUT, "ServerSideEncryptionConfiguration"),
    "DeleteBucketEncryption": ("Bucket",),
}


def checked_ownership(ownership: str) -> str:
    if ownership not in OWNERSHIPS:
        refuse("MalformedXML")
    return ownership


@dataclass(frozen=True)
class BucketRules:
    buckets: Buckets
    caller: Caller

    def _change(self, p: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        self.buckets.change(p["Bucket"], lambda document: replace(document, **fields))
        return {}

    # Policy.

    def get_bucket_policy(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return {"Policy": self._policy(p)}

    def _policy(self, p: Mapping[str, Any]) -> str:
        policy = self.buckets.document(p["Bucket"]).policy
        if not policy:
            refuse("NoSuchBucketPolicy", bucket_name=p["Bucket"])
        return policy

    def get_bucket_policy_status(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return {"PolicyStatus": {"IsPublic": read_policy(self._policy(p)).is_public}}

    def put_bucket_policy(self, p: Mapping[str, Any]) -> dict[str, Any]:
        policy = checked_policy(p["Policy"], p["Bucket"])
        if policy.is_public and access.BLOCK_POLICY in self.buckets.document(p["Bucket"]).block:
            refuse("AccessDenied", "The public access block of this bucket refuses public policies.")
        return self._change(p, policy=p["Policy"])

    def delete_bucket_policy(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._change(p, policy="")

    # Public access block and ownership.

    def get_public_access_block(self, p: Mapping[str, Any]) -> dict[str, Any]:
        document = self.buckets.document(p["Bucket"])
        if not document.has_block:
            refuse("NoSuchPublicAccessBlockConfiguration", bucket_name=p["Bucket"])
        return {"PublicAccessBlockConfiguration": {name: name in document.block for name in access.BLOCKS}}

    def put_public_access_block(self, p: Mapping[str, Any]) -> dict[str, Any]:
        wanted = p.get("PublicAccessBlockConfiguration", {})
        block = [name for name in access.BLOCKS if wanted.get(name)]
        return self._change(p, block=block, has_block=True)

    def delete_public_access_block(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._change(p, block=[], has_block=False)

    def get_bucket_ownership_controls(self, p: Mapping[str, Any]) -> dict[str, Any]:
        ownership = self.buckets.document(p["Bucket"]).ownership
        if not ownership:
            refuse("OwnershipControlsNotFoundError", bucket_name=p["Bucket"])
        return {"OwnershipControls": {"Rules": [{"ObjectOwnership": ownership}]}}

    def put_bucket_ownership_controls(self, p: Mapping[str, Any]) -> dict[str, Any]:
        rules = p["OwnershipControls"]["Rules"]
        if len(rules) != 1:
            refuse("MalformedXML")
        ownership = checked_ownership(rules[0]["ObjectOwnership"])
        if ownership == access.ENFORCED and self.buckets.document(p["Bucket"]).acl:
            refuse("InvalidBucketAclWithObjectOwnership")
        return self._change(p, ownership=ownership)

    def delete_bucket_ownership_controls(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._change(p, ownership="")

    # CORS.

    def get_bucket_cors(self, p: Mapping[str, Any]) -> dict[str, Any]:
        cors = self.buckets.document(p["Bucket"]).cors
        if not cors:
            refuse("NoSuchCORSConfiguration", bucket_name=p["Bucket"])
        return {"CORSRules": json.loads(cors)}

    def put_bucket_cors(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._change(p, cors=json.dumps(checked_rules(p["CORSConfiguration"]["CORSRules"])))

    def delete_bucket_cors(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._change(p, cors="")

    # Default encryption.

    def get_bucket_encryption(self, p: Mapping[str, Any]) -> dict[str, Any]:
        encryption = self.buckets.document(p["Bucket"]).encryption
        if not encryption:
            refuse("ServerSideEncryptionConfigurationNotFoundError", bucket_name=p["Bucket"])
        rule = {
            "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": encryption},
            "BucketKeyEnabled": False,
        }
        return {"ServerSideEncryptionConfiguration": {"Rules": [rule]}}

    def put_bucket_encryption(self, p: Mapping[str, Any]) -> dict[str, Any]:
        rules = p["ServerSideEncryptionConfiguration"]["Rules"]
        if len(rules) != 1:
            refuse("MalformedXML")
        rule = rules[0]
        wanted = rule.get("ApplyServerSideEncryptionByDefault", {})
        others = rule.keys() - {"ApplyServerSideEncryptionByDefault", "BucketKeyEnabled"}
        if others or wanted.get("SSEAlgorithm") != AES256 or "KMSMasterKeyID" in wanted:
            refuse("NotImplemented", "The only default encryption is AES256 (SSE-S3)")
        return self._change(p, encryption=AES256)

    def delete_bucket_encryption(self, p: Mapping[str, Any]) -> dict[str, Any]:
        return self._change(p, encryption="")
