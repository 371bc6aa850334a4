"""Where the rules of buckets are kept and changed, validated as S3 validates them.

A directory of `objects` keeps them in the documents of its buckets, as its server does. For any other store
they are kept beside the state, in `lifecycle/v1/policies/BUCKET.json`: rules that the store itself is given
would be applied by the store, too. A put costs the same however much the bucket holds: actions begin, and
those whose rule is gone end, in the next pass.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from fencepost.impl.lifecycle.documents import Documents, Fields, named
from fencepost.impl.lifecycle.policy import Rule, rules_of
from fencepost.impl.objects.bucket_settings import BucketSettings
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.lifecycle_rules import kept_rules, read_rules
from fencepost.impl.objects.wire.codec import Call, parse_time, read_body
from fencepost.impl.objects.wire.errors import S3Error, refuse
from fencepost.impl.objects.wire.service_model import service_model

_PUT, _BODY = "PutBucketLifecycleConfiguration", "LifecycleConfiguration"
_TRANSITIONS = ("Transitions", "NoncurrentVersionTransitions")
_DELETIONS = frozenset({"Expiration", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"})
Refusal = S3Error
"""The answers of S3 to rules that it refuses, and to a bucket that does not exist."""
Structures = list[dict[str, Any]]
"""Rules as the service model of S3 has them."""


class Policies(Protocol):
    """Its methods raise `Refusal`."""

    def get(self, bucket: str) -> Structures:
        """Those of a bucket; none if it has none."""

    def put(self, bucket: str, rules: Structures) -> None:
        """Replace them; without any, remove them."""

    def revision(self) -> object:
        """Another value after the rules of a bucket were changed by somebody who wakes no service."""


class DirectoryPolicies:
    def __init__(self, buckets: Buckets) -> None:
        self._settings = BucketSettings(buckets, Caller(ROOT))
        self._buckets = buckets

    def revision(self) -> object:
        return self._buckets.documents_changed_ns()

    def get(self, bucket: str) -> Structures:
        try:
            rules: Structures = self._settings.get_bucket_lifecycle_configuration({"Bucket": bucket})["Rules"]
        except S3Error as error:
            if error.code != "NoSuchLifecycleConfiguration":
                raise
            return []
        return rules

    def put(self, bucket: str, rules: Structures) -> None:
        if rules:
            wanted = {"Bucket": bucket, "LifecycleConfiguration": {"Rules": rules}}
            self._settings.put_bucket_lifecycle_configuration(wanted)
        else:
            self._settings.delete_bucket_lifecycle({"Bucket": bucket})


class EndpointPolicies:
    """Of one bucket."""

    def __init__(self, documents: Documents, bucket: str) -> None:
        self._documents = documents
        self._bucket = bucket

    def get(self, bucket: str) -> Structures:
        self._require(bucket)
        fields = self._documents.read(named("policies", bucket))
        return read_rules(fields["rules"]) if fields is not None and fields["rules"] else []

    def put(self, bucket: str, rules: Structures) -> None:
        self._require(bucket)
        text = kept_rules(rules) if rules else ""

        def change(_: Fields | None) -> Fields:
            return {"rules": text}

        self._documents.change(named("policies", bucket), change)

    def revision(self) -> object:
        return None  # who puts them here wakes the services

    def in_force(self) -> Sequence[Rule]:
        return rules_of(self.get(self._bucket))

    def _require(self, bucket: str) -> None:
        if bucket != self._bucket:
            refuse("NoSuchBucket", bucket_name=bucket)


# Texts.


def parse_configuration(body: bytes) -> Structures:
    """The rules of `LifecycleConfiguration` in XML, or of `{"Rules": [...]}` in JSON as the SDKs have it."""
    rules: Structures
    if not body.lstrip().startswith(b"{"):
        rules = read_body(Call(_PUT, {}), body)[_BODY].get("Rules", [])
        return rules
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise S3Error("MalformedXML", f"the configuration is no JSON: {error}") from None
    shape = service_model().operation_model(_PUT).input_shape.members[_BODY]
    rules = _typed(shape, given, "the configuration")["Rules"]
    return rules


def without_transitions(rules: Structures) -> tuple[Structures, list[str]]:
    """Return the rules without what moves objects to another storage class, which no store here has; and the
    names of those that had that, each with what is left out. A rule that does nothing else is left out."""
    kept: Structures = []
    unsupported: list[str] = []
    for number, rule in enumerate(rules, 1):
        left = {name: part for name, part in rule.items() if name not in _TRANSITIONS}
        if left.keys() != rule.keys():
            name = rule.get("ID") or f"rule {number}"
            unsupported += [f"{name}: {part}" for part in _TRANSITIONS if part in rule]
        if left.keys() == rule.keys() or left.keys() & _DELETIONS:
            kept.append(left)
    return kept, unsupported


def format_configuration(rules: Structures) -> dict[str, Any]:
    """As JSON has it, which `parse_configuration` reads."""
    plain: dict[str, Any] = json.loads(json.dumps({"Rules": rules}, default=datetime.isoformat))
    return plain


def _typed(shape: Any, value: Any, where: str) -> Any:
    """The value with the types of the service model; raises for anything that the model does not have."""
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        unknown = value.keys() - shape.members.keys()
        missing = {*shape.required_members} - value.keys()
        if unknown or missing:
            what = f"has no {min(missing)}" if missing else f"has {min(unknown)}, which is unknown"
            raise S3Error("MalformedXML", f"{where} {what}")
        return {name: _typed(shape.members[name], part, name) for name, part in value.items()}
    if kind == "list" and isinstance(value, list):
        return [_typed(shape.member, part, where) for part in value]
    if kind == "timestamp" and isinstance(value, str):
        return parse_time(value)
    plain = {"string": str, "integer": int, "long": int, "boolean": bool}.get(kind)
    if plain is None or type(value) is not plain:
        raise S3Error("MalformedXML", f"{where} is {value!r}, which is no {kind}")
    return value
