"""The meaning of the rules of a bucket: pure functions of a rule, one version of an object, and a time.

A rule of PutBucketLifecycleConfiguration holds several actions: an age of the current version, a date, an age
of noncurrent versions, a number of newer ones, an age of unfinished uploads, the removal of lone delete
markers. Each action has a delay and a state of its own, so everything is kept by `ActionKey`: the hash of its
rule and its kind. The hash is of what the rule does, not of its name, its status or the order of its parts.

    for rule in rules_of(response["Rules"]):                    # as the service model has them
        for key in rule.actions():
            due_ns = due_at(rule, key.kind, version, timing)    # None: it does not apply
            what = evaluate(rule, key.kind, version, now_ns, timing)

An action is due when the age is reached, to the nanosecond; S3 itself rounds up to the next midnight.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Any

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS


class Kind(Enum):
    EXPIRATION_DAYS = "expiration-days"
    EXPIRATION_DATE = "expiration-date"
    NONCURRENT_DAYS = "noncurrent-days"
    NEWER_NONCURRENT = "newer-noncurrent"
    ABORT_MPU = "abort-mpu"
    EXPIRED_DELETE_MARKER = "expired-delete-marker"


class Mode(Enum):
    EVENT_DRIVEN = "event_driven"
    SCAN_AT_DATE = "scan_at_date"
    SCAN_ONLY = "scan_only"
    DISABLED = "disabled"


class Degraded(Enum):
    """Why an action is not, or may soon not be, driven by events."""

    NONE = "NONE"
    LAG_HIGH = "LAG_HIGH"
    PENDING_FULL = "PENDING_FULL"
    DELETE_FAILURES = "DELETE_FAILURES"
    OPERATOR_PAUSED = "OPERATOR_PAUSED"
    RETENTION_BELOW_HORIZON = "RETENTION_BELOW_HORIZON"
    LOST_LOG = "LOST_LOG"


class What(Enum):
    """The kind of deletion of a version."""

    NOTHING = "nothing"
    EXPIRE = "expire"
    """Delete the object; in a versioned bucket, write a delete marker."""
    DELETE_VERSION = "delete-version"
    DELETE_MARKER = "delete-marker"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Timing:
    day_ns: int = DAY_NS
    """The length of a day: tests compress time."""
    small_delay_ns: int = 60 * SECOND_NS
    """The delay behind the clock at which changes of tags and of versions are looked at, in nanoseconds."""
    lookback_ns: int = 3600 * SECOND_NS
    """The time by which an action begins earlier than its delay, and its log must reach back, in ns."""
    scan_every_ns: int | None = None
    """Between two walks of a bucket; None leaves it to the kinds of its actions."""


STANDARD_TIMING = Timing()


@dataclass(frozen=True, order=True, slots=True)
class ActionKey:
    rule_hash: bytes
    kind_name: str

    @property
    def kind(self) -> Kind:
        return Kind(self.kind_name)

    def __str__(self) -> str:
        return f"{self.rule_hash.hex()}/{self.kind_name}"


@dataclass(frozen=True)
class Rule:
    """One rule; an action that it does not have is None or False."""

    name: str = ""
    is_enabled: bool = True
    prefix: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    """Sorted."""
    larger_than: int | None = None
    smaller_than: int | None = None
    expiration_days: int | None = None
    expiration_date_ns: int | None = None
    expired_delete_marker: bool = False
    noncurrent_days: int | None = None
    newer_noncurrent: int | None = None
    abort_days: int | None = None

    @cached_property
    def hash(self) -> bytes:
        """8 bytes that name what the rule does."""
        return hashlib.sha256(_canonical(self)).digest()[:8]

    @property
    def is_predicate_sensitive(self) -> bool:
        """Return True if a change of the tags alone can make an object match."""
        return bool(self.tags)

    def kinds(self) -> tuple[Kind, ...]:
        given = {
            Kind.EXPIRATION_DAYS: self.expiration_days is not None,
            Kind.EXPIRATION_DATE: self.expiration_date_ns is not None,
            Kind.NONCURRENT_DAYS: self.noncurrent_days is not None and self.newer_noncurrent is None,
            Kind.NEWER_NONCURRENT: self.newer_noncurrent is not None,
            Kind.ABORT_MPU: self.abort_days is not None,
            Kind.EXPIRED_DELETE_MARKER: self.expired_delete_marker,
        }
        return tuple(kind for kind, is_given in given.items() if is_given)

    def actions(self) -> tuple[ActionKey, ...]:
        return tuple(ActionKey(self.hash, kind.value) for kind in self.kinds())


def rules_of(structures: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """The rules of a valid configuration, in the structures of the S3 service model."""
    return [_rule(structure) for structure in structures]


def _rule(given: Mapping[str, Any]) -> Rule:
    wanted = given.get("Filter", {"Prefix": given.get("Prefix", "")})
    every = wanted.get("And", wanted)
    tags = [*every.get("Tags", []), *([every["Tag"]] if "Tag" in every else [])]
    expiration = given.get("Expiration", {})
    noncurrent = given.get("NoncurrentVersionExpiration", {})
    date: datetime | None = expiration.get("Date")
    return Rule(
        name=given.get("ID", ""),
        is_enabled=given["Status"] == "Enabled",
        prefix=every.get("Prefix", ""),
        tags=tuple(sorted((tag["Key"], tag["Value"]) for tag in tags)),
        larger_than=every.get("ObjectSizeGreaterThan"),
        smaller_than=every.get("ObjectSizeLessThan"),
        expiration_days=expiration.get("Days"),
        expiration_date_ns=None if date is None else _ns(date),
        expired_delete_marker=expiration.get("ExpiredObjectDeleteMarker", False),
        noncurrent_days=noncurrent.get("NoncurrentDays"),
        newer_noncurrent=noncurrent.get("NewerNoncurrentVersions"),
        abort_days=given.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation"),
    )


def _ns(date: datetime) -> int:
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return round(aware.timestamp()) * SECOND_NS


def _canonical(rule: Rule) -> bytes:
    """Everything that decides what the rule does; each part follows its length, so none can be forged."""
    numbers = (
        rule.larger_than,
        rule.smaller_than,
        rule.expiration_days,
        rule.expiration_date_ns,
        int(rule.expired_delete_marker),
        rule.noncurrent_days,
        rule.newer_noncurrent,
        rule.abort_days,
    )
    parts = [rule.prefix, str(len(rule.tags)), *(text for tag in rule.tags for text in tag)]
    parts += ["" if number is None else str(number) for number in numbers]
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object, or an upload, as the rules look at it."""

    key: str
    version_id: str = ""
    mtime_ns: int = 0
    size: int = 0
    tags: tuple[tuple[str, str], ...] = ()
    is_delete_marker: bool = False
    is_upload: bool = False
    noncurrent_since_ns: int | None = None
    """When the next version was written; None for the current one."""
    newer_since_ns: tuple[int, ...] = ()
    """Of the newer noncurrent versions, the times at which they became that, newest first."""
    is_only: bool = True
    """True if the object has no other version."""


def in_order(versions: Sequence[Version]) -> list[Version]:
    """The versions of one object, newest first, with what depends on their neighbours filled in."""
    filled: list[Version] = []
    since: list[int] = []
    for place, version in enumerate(versions):
        noncurrent = versions[place - 1].mtime_ns if place else None
        filled.append(
            replace(
                version,
                noncurrent_since_ns=noncurrent,
                newer_since_ns=tuple(since),
                is_only=len(versions) == 1,
            )
        )
        if noncurrent is not None:
            since.append(noncurrent)
    return filled


def matches(rule: Rule, version: Version, *, has_tags: bool = True) -> bool:
    """By the filter alone. A delete marker and an upload have neither a size nor tags.

    `has_tags`: without it the tags of the version are not known, and taken to match.
    """
    if not version.key.startswith(rule.prefix):
        return False
    if version.is_delete_marker or version.is_upload:
        return not rule.tags and rule.larger_than is None and rule.smaller_than is None
    if rule.larger_than is not None and version.size <= rule.larger_than:
        return False
    if rule.smaller_than is not None and version.size >= rule.smaller_than:
        return False
    return not has_tags or set(rule.tags) <= set(version.tags)


def due_at(
    rule: Rule, kind: Kind, version: Version, timing: Timing = STANDARD_TIMING, *, has_tags: bool = True
) -> int | None:
    """When the action is to be done, as the object is now; None if it does not apply.

    `has_tags` as in `matches`.
    """
    if not rule.is_enabled or not matches(rule, version, has_tags=has_tags):
        return None
    is_current = version.noncurrent_since_ns is None and not version.is_upload
    match kind:
        case Kind.EXPIRATION_DAYS if is_current and rule.expiration_days is not None:
            # Of delete markers the lone ones are removed, as they would be by ExpiredObjectDeleteMarker.
            applies = version.is_only or not version.is_delete_marker
            return version.mtime_ns + rule.expiration_days * timing.day_ns if applies else None
        case Kind.EXPIRATION_DATE if is_current and not version.is_delete_marker:
            return rule.expiration_date_ns
        case Kind.EXPIRED_DELETE_MARKER if is_current and rule.expired_delete_marker:
            return version.mtime_ns if version.is_delete_marker and version.is_only else None
        case Kind.NONCURRENT_DAYS | Kind.NEWER_NONCURRENT if kind in rule.kinds():
            return _noncurrent_due_at(rule, version, timing)
        case Kind.ABORT_MPU if version.is_upload and rule.abort_days is not None:
            return version.mtime_ns + rule.abort_days * timing.day_ns
        case _:
            return None


def _noncurrent_due_at(rule: Rule, version: Version, timing: Timing) -> int | None:
    """Both conditions: old enough, and behind enough newer noncurrent versions."""
    wanted = rule.newer_noncurrent or 0
    if version.noncurrent_since_ns is None or len(version.newer_since_ns) < wanted:
        return None
    aged = version.noncurrent_since_ns + (rule.noncurrent_days or 0) * timing.day_ns
    # The newer ones became noncurrent after this one; with the oldest `wanted` of them there were enough.
    return max(aged, version.newer_since_ns[-wanted]) if wanted else aged


def evaluate(rule: Rule, kind: Kind, version: Version, now_ns: int, timing: Timing = STANDARD_TIMING) -> What:
    due_ns = due_at(rule, kind, version, timing)
    if due_ns is None or now_ns < due_ns:
        return What.NOTHING
    if version.is_upload:
        return What.ABORT
    if version.noncurrent_since_ns is not None:
        return What.DELETE_VERSION
    return What.DELETE_MARKER if version.is_delete_marker else What.EXPIRE


def min_trigger_age(rule: Rule, kind: Kind, timing: Timing = STANDARD_TIMING) -> int | None:
    """The age at which an event is looked at first; None for a date, which no event drives."""
    match kind:
        case Kind.EXPIRATION_DATE:
            return None
        case Kind.NEWER_NONCURRENT | Kind.EXPIRED_DELETE_MARKER:
            return timing.small_delay_ns
        case _:
            return event_log_horizon(rule, kind, timing)


def event_log_horizon(rule: Rule, kind: Kind, timing: Timing = STANDARD_TIMING) -> int | None:
    """The greatest age at which an event is needed; None for a date."""
    days = {
        Kind.EXPIRATION_DAYS: rule.expiration_days,
        Kind.NONCURRENT_DAYS: rule.noncurrent_days,
        Kind.NEWER_NONCURRENT: rule.noncurrent_days,
        Kind.ABORT_MPU: rule.abort_days,
        Kind.EXPIRED_DELETE_MARKER: 0,
        Kind.EXPIRATION_DATE: None,
    }[kind]
    if kind is Kind.EXPIRATION_DATE:
        return None
    return max((days or 0) * timing.day_ns, timing.small_delay_ns)


def delays(rule: Rule, kind: Kind, timing: Timing = STANDARD_TIMING) -> frozenset[int]:
    """The ages at which the events of an action are looked at.

    A number of newer versions has two: a version that is written makes an older one superfluous at once, and
    itself becomes old later.
    """
    found = {min_trigger_age(rule, kind, timing), event_log_horizon(rule, kind, timing)}
    return frozenset(delay for delay in found if delay is not None)


def decide_mode(
    rule: Rule,
    kind: Kind,
    *,
    retention_ns: int | None = None,
    reaches_back_ns: int | None = None,
    timing: Timing = STANDARD_TIMING,
) -> tuple[Mode, Degraded]:
    """Return the mode of the action, for the time that the log keeps events and the time it reaches back now.

    None is without end, as in a log that is never pruned and older than any object. A log that is young is no
    better than one that was pruned: an object may be older than its first event.
    """
    if not rule.is_enabled:
        return Mode.DISABLED, Degraded.NONE
    horizon_ns = event_log_horizon(rule, kind, timing)
    if horizon_ns is None:
        return Mode.SCAN_AT_DATE, Degraded.NONE
    needed_ns = horizon_ns + timing.lookback_ns
    if any(known is not None and known < needed_ns for known in (retention_ns, reaches_back_ns)):
        return Mode.SCAN_ONLY, Degraded.RETENTION_BELOW_HORIZON
    return Mode.EVENT_DRIVEN, Degraded.NONE


def scan_every_ns(rule: Rule, kind: Kind, timing: Timing = STANDARD_TIMING) -> int:
    """Return the interval of walks, in ns: they find what events miss, or all if none drive the action."""
    day_ns = timing.day_ns
    if timing.scan_every_ns is not None:
        return timing.scan_every_ns
    age_ns = min_trigger_age(rule, kind, timing) or 0
    match kind:
        case Kind.EXPIRATION_DAYS | Kind.NONCURRENT_DAYS:
            return min(max(age_ns, 7 * day_ns), 30 * day_ns)
        case Kind.ABORT_MPU:
            return max(age_ns, day_ns)
        case Kind.EXPIRATION_DATE:
            return day_ns
        case _:
            return 7 * day_ns
