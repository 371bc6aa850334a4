"""A bucket's lifecycle configuration, checked as S3 checks it, and kept as JSON.

Rules are the structures of the service model. Transitions are refused: there is one storage class here.
"""

import json
from collections.abc import Mapping
from datetime import datetime, time
from typing import Any

from fencepost.impl.objects.object_state import tags_in_set
from fencepost.impl.objects.wire.errors import refuse

RULES_MAX = 1000
ID_CHARACTERS_MAX = 255
NEWER_MAX = 100
_ACTIONS = (
    "Expiration",
    "NoncurrentVersionExpiration",
    "AbortIncompleteMultipartUpload",
    "Transitions",
    "NoncurrentVersionTransitions",
)


def kept_rules(rules: list[dict[str, Any]]) -> str:
    """The configuration as text; raises unless S3 would take it."""
    if not 0 < len(rules) <= RULES_MAX:
        refuse("MalformedXML")
    for rule in rules:
        _check(rule)
    named = [rule["ID"] for rule in rules if rule.get("ID")]
    if len({*named}) != len(named):
        refuse("InvalidArgument", "Rule ID must be unique. Found same ID for more than one rule")
    numbers = (f"rule-{number}" for number in range(1, 2 * RULES_MAX) if f"rule-{number}" not in named)
    kept = [{**rule, "ID": rule.get("ID") or next(numbers)} for rule in rules]
    return json.dumps(kept, default=datetime.isoformat)


def read_rules(text: str) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = json.loads(text)
    for rule in rules:
        if "Date" in rule.get("Expiration", {}):
            rule["Expiration"]["Date"] = datetime.fromisoformat(rule["Expiration"]["Date"])
    return rules


def _check(rule: Mapping[str, Any]) -> None:
    if len(rule.get("ID", "")) > ID_CHARACTERS_MAX:
        refuse("InvalidArgument", f"ID length should not exceed allowed limit of {ID_CHARACTERS_MAX}")
    if rule["Status"] not in ("Enabled", "Disabled") or ("Filter" in rule) == ("Prefix" in rule):
        refuse("MalformedXML")
    if not rule.keys() & {*_ACTIONS}:
        refuse("InvalidRequest", "At least one action needs to be specified in a rule.")
    if rule.keys() & {"Transitions", "NoncurrentVersionTransitions"}:
        refuse(
            "NotImplemented", "There is one storage class; a rule cannot move objects", header="Transition"
        )
    tagged = _check_filter(rule.get("Filter", {}))
    for name, check in _CHECKS.items():
        if name in rule:
            check(rule[name], tagged)


def _check_filter(wanted: Mapping[str, Any]) -> bool:
    """Check the filter; return True if it uses tags."""
    if len(wanted) > 1:
        refuse("MalformedXML")
    every = wanted.get("And", wanted)
    if "And" in wanted and len(every) + max(0, len(every.get("Tags", [])) - 1) < 2:
        refuse("MalformedXML")
    tags = [*every.get("Tags", []), *([every["Tag"]] if "Tag" in every else [])]
    tags_in_set(tags, bucket=True)
    over, under = every.get("ObjectSizeGreaterThan"), every.get("ObjectSizeLessThan")
    if (over is not None and over < 0) or (under is not None and under < 1):
        refuse("InvalidRequest", "The object size of a filter must not be negative")
    if over is not None and under is not None and over >= under:
        refuse("InvalidRequest", "ObjectSizeGreaterThan must be less than ObjectSizeLessThan")
    return bool(tags)


def _check_expiration(wanted: Mapping[str, Any], tagged: bool) -> None:
    if len(wanted.keys() & {"Days", "Date", "ExpiredObjectDeleteMarker"}) != 1:
        refuse("MalformedXML")
    if "Days" in wanted:
        _positive(wanted["Days"], "'Days' for Expiration action must be a positive integer")
    if "Date" in wanted and wanted["Date"].timetz().replace(tzinfo=None) != time():
        refuse("InvalidArgument", "'Date' must be at midnight GMT")
    if "ExpiredObjectDeleteMarker" in wanted and tagged:
        refuse("InvalidRequest", "ExpiredObjectDeleteMarker cannot be specified with Tags.")


def _check_noncurrent(wanted: Mapping[str, Any], tagged: bool) -> None:
    del tagged
    if not wanted.keys() & {"NoncurrentDays", "NewerNoncurrentVersions"}:
        refuse("MalformedXML")
    _positive(
        wanted.get("NoncurrentDays", 1),
        "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer",
    )
    if not 0 < wanted.get("NewerNoncurrentVersions", 1) <= NEWER_MAX:
        refuse(
            "InvalidArgument",
            f"'NewerNoncurrentVersions' for NoncurrentVersionExpiration must be from 1 to {NEWER_MAX}",
        )


def _check_abort(wanted: Mapping[str, Any], tagged: bool) -> None:
    if "DaysAfterInitiation" not in wanted:
        refuse("MalformedXML")
    if tagged:
        refuse("InvalidRequest", "AbortIncompleteMultipartUpload cannot be specified with Tags.")
    _positive(
        wanted["DaysAfterInitiation"],
        "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer",
    )


def _positive(number: int, message: str) -> None:
    if number <= 0:
        refuse("InvalidArgument", message)


_CHECKS = {
    "Expiration": _check_expiration,
    "NoncurrentVersionExpiration": _check_noncurrent,
    "AbortIncompleteMultipartUpload": _check_abort,
}
