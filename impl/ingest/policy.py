"""The bucket policy that enforces the protocol's assumptions for all principals with access to the bucket.

    json.dumps(bucket_policy("metrics", "prod", gc_role="arn:aws:iam::123456789012:role/ingest-gc"))

It denies, for every principal and over every permission:

- writes below accepted/ and raw-blobs/ without a condition. In a multipart upload only the completing call
  carries one, so the other calls are exempt (`s3:ObjectCreationOperation`). accepted/ is create-only;
  raw-blobs/ also accepts if-match, which a versioned bucket needs for a new version of a blob;
- deletes below accepted/: for all, the garbage collector too (a delete marker would reopen an identity);
- deletes below raw-blobs/: for all but the garbage collector's role;
- copies into either: a copy has no condition, or one that some stores ignore.

With `principals` it also allows each role what its work needs, and nothing else; `role_policy` returns the
same for one role, as a policy of IAM:

    role         work                                    below the prefix
    collector    accepts, indexes, rolls up, answers     reads; writes all but the proofs of audits
    auditor      `audit`, `reconcile`, `maintenance`     reads; writes all but batches and decisions
    gc           `gc`                                    reads; deletes blobs, aborts their uploads
    locker       `lock`                                  reads; retains batches and blobs, writes its cursor
    reader       queries, Spark, any other reader        reads

An agent has no role: it talks to collectors. So do operators, or they decide in the role of a collector.

Each role may list the names of the whole bucket: with a condition on the prefix of a listing, S3 answers 403
in place of 404 to the reading of an object that does not exist.

Lifecycle rules are not part of a bucket policy: `lifecycle_rules` returns the only safe one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.impl.ingest.errors import SettingsError
from fencepost.impl.ingest.keys import ACCEPTED

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+")
_PARTITION = re.compile(r"aws(-[a-z]+)*")
RAW = "raw-blobs/"

Statement = dict[str, Any]


READ = ("s3:GetObject", "s3:GetObjectVersion")
WRITE = ("s3:PutObject",)
_UPLOAD = ("s3:PutObject", "s3:AbortMultipartUpload")
_DELETES = ("s3:DeleteObject", "s3:DeleteObjectVersion")
_DERIVED = ("accepted-by-time", "accepted-by-blob", "quarantine-by-blob")
Rights = Mapping[str, Sequence[str]]
"""By a folder below the prefix, the actions that are allowed there beside reading."""
ROLES: Mapping[str, Rights] = {
    "collector": {
        "raw-blobs": _UPLOAD,
        **dict.fromkeys(("accepted", "quarantine", *_DERIVED, "manifests", "rollup", "cursors"), WRITE),
        **dict.fromkeys(("agreement", "resolutions"), WRITE),
        **dict.fromkeys(("rollup-queue", "blocks"), ("s3:PutObject", "s3:DeleteObject")),
    },
    "auditor": {
        **dict.fromkeys((*_DERIVED, "manifests", "rollup", "cursors"), WRITE),
        **dict.fromkeys(("rollup-queue", "audits"), ("s3:PutObject", "s3:DeleteObject")),
    },
    "gc": {
        "raw-blobs": (*_DELETES, "s3:AbortMultipartUpload"),
        **dict.fromkeys(("agreement", "cursors"), WRITE),
    },
    "locker": {
        **dict.fromkeys(("accepted", "raw-blobs"), ("s3:GetObjectRetention", "s3:PutObjectRetention")),
        "cursors": WRITE,
    },
    "reader": {},
}
"""The rights of each role."""
_OF_BUCKET: Mapping[str, Sequence[str]] = {
    "gc": ("s3:ListBucketVersions", "s3:ListBucketMultipartUploads"),
    "locker": ("s3:ListBucketVersions", "s3:GetBucketObjectLockConfiguration"),
}
"""What a role does with the bucket itself, beside listing its names."""


def role_policy(role: str, bucket: str, prefix: str = "", *, partition: str = "aws") -> dict[str, Any]:
    """A policy of IAM that allows a role its work, and nothing else."""
    _check(bucket, None, partition)
    return {"Version": "2012-10-17", "Statement": _allowed(role, bucket, prefix, partition, None)}


def _allowed(role: str, bucket: str, prefix: str, partition: str, principal: str | None) -> list[Statement]:
    if role not in ROLES:
        raise SettingsError(f"{role!r} is no role; choose from {', '.join(ROLES)}")
    whole, base = f"arn:{partition}:s3:::{bucket}", _base(bucket, prefix, partition)
    of_bucket = ["s3:GetBucketVersioning", "s3:ListBucket", *_OF_BUCKET.get(role, ())]
    found: list[Statement] = [
        {"Action": of_bucket, "Resource": whole},
        {"Action": list(READ), "Resource": f"{base}*"},
        *(
            {"Action": list(actions), "Resource": f"{base}{folder}/*"}
            for folder, actions in ROLES[role].items()
        ),
    ]
    own = {"Principal": {"AWS": principal}} if principal else {}
    return [{"Effect": "Allow", **own, **one} for one in found]


def _base(bucket: str, prefix: str, partition: str) -> str:
    return f"arn:{partition}:s3:::{bucket}/{prefix.strip('/') + '/' if prefix.strip('/') else ''}"


def bucket_policy(
    bucket: str,
    prefix: str = "",
    *,
    gc_role: str,
    partition: str = "aws",
    principals: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The policy as a JSON document; `prefix` is the place of the acceptance authority in the bucket.

    `principals`: by role, the ARN that is allowed its work.
    """
    _check(bucket, gc_role, partition)
    for arn in (principals or {}).values():
        _check(bucket, arn, partition)
    base = _base(bucket, prefix, partition)
    allowed = [
        statement
        for role, arn in (principals or {}).items()
        for statement in _allowed(role, bucket, prefix, partition, arn)
    ]
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
            _deny("AcceptedIsNeverDeleted", list(_DELETES), [accepted]),
            _deny(
                "BlobsAreDeletedByGarbageCollectionOnly",
                list(_DELETES),
                [raw],
                {"ArnNotEquals": {"aws:PrincipalArn": gc_role}},
            ),
            _deny(
                "NothingIsCopiedIn",
                "s3:PutObject",
                [accepted, raw],
                {"Null": {"s3:x-amz-copy-source": "false"}},
            ),
            *allowed,
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


def _check(bucket: str, arn: str | None, partition: str) -> None:
    if not _BUCKET.fullmatch(bucket):
        raise SettingsError(
            f"{bucket!r} is not the name of a bucket: 3 to 63 lower-case letters, digits, . and -"
        )
    if arn is not None and not _ROLE.fullmatch(arn):
        raise SettingsError(f"{arn!r} is not a role; expected arn:aws:iam::<account>:role/<name>")
    if not _PARTITION.fullmatch(partition):
        raise SettingsError(f"{partition!r} is not an AWS partition; expected aws, aws-cn or aws-us-gov")
