"""The bucket policy that enforces the protocol's assumptions for all principals with access to the bucket.

    json.dumps(bucket_policy("metrics", "prod", gc_role="arn:aws:iam::123456789012:role/ingest-gc"))

It denies, for every principal and over every permission:

- writes below accepted/ and raw-blobs/ without a condition. In a multipart upload only the completing call
  carries one, so the other calls are exempt (`s3:ObjectCreationOperation`). accepted/ is create-only;
  raw-blobs/ also accepts if-match, which a versioned bucket needs for a new version of a blob;
- deletes below accepted/: for all, the garbage collector too (a delete marker would reopen an identity);
- deletes below raw-blobs/: for all but the garbage collector's role;
- copies into either: a copy has no condition, or one that some stores ignore.

Lifecycle rules are not part of a bucket policy: `lifecycle_rules` returns the only safe one.
"""

import re
from typing import Any

from fencepost.impl.ingest.errors import SettingsError
from fencepost.impl.ingest.keys import ACCEPTED

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")
_PARTITION = re.compile(r"aws(-[a-z]+)*")
RAW = "raw-blobs/"

Statement = dict[str, Any]


def bucket_policy(bucket: str, prefix: str = "", *, gc_role: str, partition: str = "aws") -> dict[str, Any]:
    """The policy as a JSON document; `prefix` is the place of the acceptance authority in the bucket."""
    _check(bucket, gc_role, partition)
    base = f"arn:{partition}:s3:::{bucket}/{prefix.strip('/') + '/' if prefix.strip('/') else ''}"
    accepted, raw = f"{base}{ACCEPTED.split('/')[0]}/*", f"{base}{RAW}*"
    return {
        "Version": "2012-10-17",
        "Statement": [
            _deny("AcceptedIsCreateOnly", "s3:PutObject", [accepted], _without("s3:if-none-match")),
            _deny(
                "BlobsAreWrittenWithACondition",
                "s3:PutObject",
                [raw],
                _without("s3:if-none-match", "s3:if-match"),
            ),
            _deny("AcceptedIsNeverDeleted", _DELETES, [accepted]),
            _deny(
                "BlobsAreDeletedByGarbageCollectionOnly",
                _DELETES,
                [raw],
                {"ArnNotEquals": {"aws:PrincipalArn": gc_role}},
            ),
            _deny(
                "NothingIsCopiedIn",
                "s3:PutObject",
                [accepted, raw],
                {"Null": {"s3:x-amz-copy-source": "false"}},
            ),
        ],
    }


def lifecycle_rules(prefix: str = "", *, days: int = 7) -> dict[str, Any]:
    """The only safe lifecycle rule here: it aborts incomplete multipart uploads."""
    if days < 1:
        raise SettingsError(f"days is {days}; uploads may be aborted after 1 day at the earliest")
    base = prefix.strip("/")
    return {
        "Rules": [
            {
                "ID": "abort-incomplete-uploads",
                "Status": "Enabled",
                "Filter": {"Prefix": f"{base}/{RAW}" if base else RAW},
                "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days},
            }
        ]
    }


_DELETES = ["s3:DeleteObject", "s3:DeleteObjectVersion"]


def _without(*headers: str) -> dict[str, Any]:
    return {
        "Null": dict.fromkeys(headers, "true"),
        "Bool": {"s3:ObjectCreationOperation": "true"},
    }


def _deny(name: str, action: str | list[str], resources: list[str], condition: Any = None) -> Statement:
    statement: Statement = {
        "Sid": name,
        "Effect": "Deny",
        "Principal": "*",
        "Action": action,
        "Resource": resources if len(resources) > 1 else resources[0],
    }
    if condition is not None:
        statement["Condition"] = condition
    return statement


def _check(bucket: str, gc_role: str, partition: str) -> None:
    if not _BUCKET.fullmatch(bucket):
        raise SettingsError(
            f"{bucket!r} is not the name of a bucket: 3 to 63 lower-case letters, digits, . and -"
        )
    if not _ROLE.fullmatch(gc_role):
        raise SettingsError(f"{gc_role!r} is not a role; expected arn:aws:iam::<account>:role/<name>")
    if not _PARTITION.fullmatch(partition):
        raise SettingsError(f"{partition!r} is not an AWS partition; expected aws, aws-cn or aws-us-gov")
