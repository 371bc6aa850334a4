"""Bucket policies: what is evaluated of them, and what is refused when they are set.

A statement has Effect, Principal, Action or NotAction, Resource or NotResource, and conditions by the
operators and keys below. A policy with anything else is refused when it is put (`MalformedPolicy`, with the
reason), so none is stored that would be evaluated in part.

    principal    "*", {"AWS": "*"}, or names: of a named key, its access key, an ARN that ends in `user/NAME`;
                 an account's ARN that ends in `:root` is root
    action       `s3:` and a name, with `*` and `?`
    resource     `arn:aws:s3:::bucket` and `arn:aws:s3:::bucket/key`, with `*` and `?`, of this bucket only
    condition    every operator on one value, with `IfExists`; the keys of `_KEYS`, tags by `.../<name>`

A denial wins over all that is allowed. A condition on a key that a request does not have is false, but true
for an operator that negates, as AWS documents.
"""

import functools
import ipaddress
import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any
from urllib.parse import parse_qsl, unquote

from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.wire.errors import refuse

POLICY_BYTES_MAX = 20 * 1024
_RESOURCE = "arn:aws:s3:::"
_EXISTING, _REQUESTED = "s3:existingobjecttag/", "s3:requestobjecttag/"
_FIELDS = frozenset(
    {"Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition"}
)


class Verdict(Enum):
    NONE = auto()
    ALLOW = auto()
    DENY = auto()


@dataclass(frozen=True)
class Asked:
    """One request, as conditions see it."""

    caller: Caller
    operation: str
    parameters: Mapping[str, Any]
    tags: Callable[[], Mapping[str, str]]
    """Reads the tags of the object that the request is about."""
    now_ns: int = 0

    @property
    def actions(self) -> tuple[str, ...]:
        return actions_of(self.operation, self.parameters)

    @property
    def resource(self) -> str:
        key = self.parameters.get("Key", "")
        return f"{_RESOURCE}{self.parameters['Bucket']}" + (f"/{key}" if key else "")

    def value(self, key: str) -> str | None:
        """Return the value of a condition key, in lower case; None if the request has none."""
        if key.startswith(_EXISTING):
            return _named(self.tags(), key.removeprefix(_EXISTING))
        if key.startswith(_REQUESTED):
            given = dict(parse_qsl(self.parameters.get("Tagging", ""), keep_blank_values=True))
            return _named(given, key.removeprefix(_REQUESTED))
        found = _KEYS[key](self)
        return None if found is None else str(found)


def _named(tags: Mapping[str, str], name: str) -> str | None:
    return next((value for tag, value in tags.items() if tag.lower() == name), None)


_SAME_AS = {
    "HeadObject": "GetObject",
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeleteBucketCors": "PutBucketCORS",
    "GetBucketCors": "GetBucketCORS",
    "PutBucketCors": "PutBucketCORS",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "PutObjectLockConfiguration": "PutBucketObjectLockConfiguration",
}
"""Operations whose action has another name."""
_OF_VERSIONS = frozenset(
    {
        "GetObject", "DeleteObject", "GetObjectTagging", "PutObjectTagging", "DeleteObjectTagging",
        "GetObjectAcl", "PutObjectAcl", "GetObjectAttributes",
    }
)  # fmt: skip


def actions_of(operation: str, p: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the actions, in lower case, that an operation needs."""
    name = _SAME_AS.get(operation, operation)
    if "VersionId" in p and name in _OF_VERSIONS:
        name = name.replace("Object", "ObjectVersion", 1)
    return (f"s3:{name}".lower(),)


# Conditions.


def _parameter(*names: str) -> Callable[[Asked], Any]:
    def value(asked: Asked) -> Any:
        return next((asked.parameters[name] for name in names if name in asked.parameters), None)

    return value


def _source(asked: Asked) -> str | None:
    source = asked.parameters.get("CopySource")
    return None if source is None else unquote(source).removeprefix("/")


_CREATIONS = frozenset({"PutObject", "CopyObject", "CompleteMultipartUpload"})
"""Operations at whose end an object exists; only these carry conditions on it."""


def _arn(caller: Caller) -> str | None:
    """Return the ARN by which a policy names a caller; there is one account, whose number is 0."""
    if caller.is_anonymous:
        return None
    name = min(caller.names - {caller.access_key}, default=caller.access_key)
    return "arn:aws:iam::000000000000:" + ("root" if caller.name == ROOT else f"user/{name}")


_KEYS: Mapping[str, Callable[[Asked], Any]] = {
    "aws:sourceip": lambda asked: asked.caller.origin.address or None,
    "aws:securetransport": lambda asked: str(asked.caller.origin.secure).lower(),
    "aws:referer": lambda asked: asked.caller.origin.referer,
    "aws:useragent": lambda asked: asked.caller.origin.agent,
    "aws:principalarn": lambda asked: _arn(asked.caller),
    "aws:username": lambda asked: min(asked.caller.names - {asked.caller.access_key}, default=None),
    "aws:currenttime": lambda asked: datetime.fromtimestamp(asked.now_ns / 1e9, UTC).isoformat(),
    "aws:epochtime": lambda asked: asked.now_ns // 10**9,
    "s3:prefix": _parameter("Prefix"),
    "s3:delimiter": _parameter("Delimiter"),
    "s3:max-keys": _parameter("MaxKeys"),
    "s3:versionid": _parameter("VersionId"),
    "s3:x-amz-acl": _parameter("ACL"),
    "s3:x-amz-copy-source": _source,
    "s3:x-amz-metadata-directive": _parameter("MetadataDirective"),
    "s3:x-amz-server-side-encryption": _parameter("ServerSideEncryption"),
    "s3:x-amz-storage-class": _parameter("StorageClass"),
    "s3:x-amz-grant-full-control": _parameter("GrantFullControl"),
    "s3:x-amz-grant-read": _parameter("GrantRead"),
    "s3:x-amz-grant-write": _parameter("GrantWrite"),
    "s3:if-match": _parameter("IfMatch"),
    "s3:if-none-match": _parameter("IfNoneMatch"),
    "s3:objectcreationoperation": lambda asked: str(asked.operation in _CREATIONS).lower(),
    "s3:object-lock-mode": _parameter("ObjectLockMode"),
    "s3:object-lock-legal-hold": _parameter("ObjectLockLegalHoldStatus"),
}


def like(pattern: str, text: str) -> bool:
    """Return True if a text matches a pattern with `*` and `?`."""
    return _pattern(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    # Runs of `*` are one: each more would multiply the time of a match.
    parts = re.split(r"(\*+|\?)", pattern)
    texts = (".*" if part[:1] == "*" else "." if part == "?" else re.escape(part) for part in parts)
    return re.compile("".join(texts), re.DOTALL)


def _moment(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+", text) else datetime.fromisoformat(text).timestamp()


def _within(value: str, wanted: str) -> bool:
    return ipaddress.ip_address(value) in ipaddress.ip_network(wanted, strict=False)


def _folded(value: str, wanted: str) -> bool:
    return value.lower() == wanted.lower()


Compare = Callable[[str, str], bool]


def _ordered(parse: Callable[[str], float], how: Callable[[float, float], bool]) -> Compare:
    return lambda value, wanted: how(parse(value), parse(wanted))


_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "Equals": operator.eq,
    "LessThan": operator.lt,
    "LessThanEquals": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanEquals": operator.ge,
}
_OPERATORS: Mapping[str, Compare] = {
    "StringEquals": operator.eq,
    "StringEqualsIgnoreCase": _folded,
    "StringLike": lambda value, wanted: like(wanted, value),
    "ArnEquals": lambda value, wanted: like(wanted, value),
    "ArnLike": lambda value, wanted: like(wanted, value),
    "Bool": _folded,
    "IpAddress": _within,
    **{f"Numeric{name}": _ordered(float, how) for name, how in _ORDERS.items()},
    **{f"Date{name}": _ordered(_moment, how) for name, how in _ORDERS.items()},
}
_NEGATIONS: Mapping[str, str] = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NotIpAddress": "IpAddress",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
}


@dataclass(frozen=True)
class _Condition:
    operator: str
    key: str
    values: tuple[str, ...]
    if_exists: bool

    def holds(self, asked: Asked) -> bool:
        value = asked.value(self.key)
        if self.operator == "Null":
            return any((value is None) == (wanted.lower() == "true") for wanted in self.values)
        negates = self.operator in _NEGATIONS
        if value is None:
            return negates or self.if_exists
        compare = _OPERATORS[_NEGATIONS.get(self.operator, self.operator)]
        return any(_compared(compare, value, wanted) for wanted in self.values) != negates


def _compared(compare: Compare, value: str, wanted: str) -> bool:
    try:
        return compare(value, wanted)
    except ValueError:  # what the client sent is no number, time or address
        return False


@dataclass(frozen=True)
class _Statement:
    allows: bool
    principals: tuple[str, ...]
    actions: tuple[str, ...]
    not_actions: bool
    resources: tuple[str, ...]
    not_resources: bool
    conditions: tuple[_Condition, ...]

    def applies(self, asked: Asked) -> bool:
        return (
            _is_principal(self.principals, asked.caller)
            and any(like(one, action) for one in self.actions for action in asked.actions) != self.not_actions
            and any(like(one, asked.resource) for one in self.resources) != self.not_resources
            and all(condition.holds(asked) for condition in self.conditions)
        )

    @property
    def is_public(self) -> bool:
        """True if it allows something to everybody, from everywhere."""
        bounded = any(
            one.key == "aws:sourceip" and one.operator == "IpAddress" and not one.if_exists
            and all(ipaddress.ip_network(value, strict=False).prefixlen >= 8 for value in one.values)
            for one in self.conditions
        )  # fmt: skip
        return self.allows and "*" in self.principals and not bounded


def _is_principal(principals: tuple[str, ...], caller: Caller) -> bool:
    if "*" in principals:
        return True
    if caller.is_anonymous:
        return False
    for principal in principals:
        path = principal.partition(":user/")[2]
        if principal in caller.names or path.rpartition("/")[2] in caller.names:
            return True
        if principal.startswith("arn:") and principal.endswith(":root") and caller.name == ROOT:
            return True
    return False


@dataclass(frozen=True)
class Policy:
    statements: tuple[_Statement, ...]

    def verdict(self, asked: Asked) -> Verdict:
        applying = [one.allows for one in self.statements if one.applies(asked)]
        return Verdict.NONE if not applying else Verdict.ALLOW if all(applying) else Verdict.DENY

    @property
    def is_public(self) -> bool:
        return any(one.is_public for one in self.statements)


@functools.lru_cache(maxsize=256)
def read_policy(text: str) -> Policy:
    """Return a policy that was checked when it was put."""
    return Policy(tuple(_statement(one, "") for one in _listed(json.loads(text)["Statement"])))


def checked_policy(text: str, bucket: str) -> Policy:
    """Return the policy of a request; refuse one that cannot be evaluated as a whole."""
    if len(text.encode()) > POLICY_BYTES_MAX:
        _malformed(f"The policy has more than {POLICY_BYTES_MAX} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        _malformed("Policies must be valid JSON and the first byte must be '{'")
    if not isinstance(found, dict) or not isinstance(found.get("Statement"), list | dict):
        _malformed("Missing required field Statement")
    if found.keys() - {"Version", "Id", "Statement"}:
        _malformed(f"Unknown field {min(found.keys() - {'Version', 'Id', 'Statement'})}")
    if found.get("Version", "2012-10-17") not in ("2012-10-17", "2008-10-17"):
        _malformed("The policy must contain a valid version string")
    return Policy(tuple(_statement(one, bucket) for one in _listed(found["Statement"])))


def _malformed(reason: str) -> Any:
    refuse("MalformedPolicy", reason)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _statement(given: Any, bucket: str) -> _Statement:
    """Return one statement; `bucket` is empty for a policy that was checked."""
    if not isinstance(given, dict):
        _malformed("A statement must be an object")
    unknown = given.keys() - _FIELDS
    if unknown:
        _malformed(f"{min(unknown)} is not supported")
    if given.get("Effect") not in ("Allow", "Deny"):
        _malformed(f"Invalid effect: {str(given.get('Effect'))[:80]}")
    actions, not_actions = _either(given, "Action")
    resources, not_resources = _either(given, "Resource")
    for one in actions:
        if one != "*" and not re.fullmatch(r"s3:[\w*?]+", one):
            _malformed("Policy has invalid action")
    for one in resources:
        name = one.removeprefix(_RESOURCE).partition("/")[0]
        if bucket and one != "*" and (not one.startswith(_RESOURCE) or not like(name, bucket)):
            _malformed("Policy has invalid resource")
    return _Statement(
        given["Effect"] == "Allow",
        _principals(given.get("Principal")),
        tuple(one.lower() for one in actions),
        not_actions,
        resources,
        not_resources,
        _conditions(given.get("Condition", {})),
    )


def _either(given: Mapping[str, Any], name: str) -> tuple[tuple[str, ...], bool]:
    """Return the texts of a field or of its negation, and whether it is the negation."""
    if (name in given) == (f"Not{name}" in given):
        _malformed(f"Missing required field {name}")
    negated = name not in given
    texts = _texts(given[f"Not{name}" if negated else name], name)
    return texts, negated


def _texts(value: Any, name: str) -> tuple[str, ...]:
    found = _listed(value)
    if not found or not all(isinstance(one, str) and one for one in found):
        _malformed(f"Invalid value of {name}")
    return tuple(found)


def _principals(given: Any) -> tuple[str, ...]:
    if isinstance(given, dict):
        if given.keys() != {"AWS"}:
            _malformed("A principal other than AWS is not supported")
        given = given["AWS"]
    if given is None:
        _malformed("Missing required field Principal")
    found = _texts(given, "Principal")
    for one in found:
        if one != "*" and not re.fullmatch(
            r"[\w.@+=,-]+|arn:[\w-]+:iam::[\w-]*:(root|user/[\w./@+=,$-]+)", one
        ):
            _malformed("Invalid principal in policy")
    return found


def _conditions(given: Any) -> tuple[_Condition, ...]:
    if not isinstance(given, dict):
        _malformed("Invalid Condition")
    found = []
    for operator_, keys in given.items():
        name = operator_.removesuffix("IfExists")
        if name not in {*_OPERATORS, *_NEGATIONS, "Null"}:
            _malformed(f"The condition operator {operator_[:80]} is not supported")
        if not isinstance(keys, dict):
            _malformed("Invalid Condition")
        for key, values in keys.items():
            lower = key.lower()
            if lower not in _KEYS and not lower.startswith((_EXISTING, _REQUESTED)):
                _malformed(f"The condition key {key[:80]} is not supported")
            texts = tuple(_text(one) for one in _listed(values))
            _check_values(name, texts)
            found.append(_Condition(name, lower, texts, operator_ != name))
    return tuple(found)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        _malformed("Invalid value of a condition")
    return str(value)


def _check_values(name: str, texts: tuple[str, ...]) -> None:
    try:
        for text in texts:
            if "IpAddress" in name:
                ipaddress.ip_network(text, strict=False)
            elif name.startswith("Numeric"):
                float(text)
            elif name.startswith("Date"):
                _moment(text)
            elif name in ("Bool", "Null") and text.lower() not in ("true", "false"):
                raise ValueError(text)
    except ValueError:
        _malformed(f"Invalid value of a condition {name}")
