"""The compiled policies of all buckets: which actions an event of the log is looked at for, and when.

A snapshot is made of the rules of every bucket and the states of their actions, and has a number that
rises. Events are routed to an action only while its state says that it is complete and driven by events.
All actions of one delay are swept together, so a sweep reads the log once for each delay, not once for each
rule. For example

    snapshot = compile_policies(1, {"bucket": rules}, states)
    for delay_ns in snapshot.delays:                # one pass each, this far behind the clock
        for change in log:
            if classify(change) is Class.AGE:
                candidates = snapshot.by_age(change.bucket, change.key, delay_ns)
    near = snapshot.near(change)                    # one pass close behind the clock

The near pass follows changes of tags, and removals. A removal can make an older version the current one,
whose own event was passed while it was not, or leave a delete marker alone. A candidate is only what is to
be evaluated, on the object as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from fencepost.impl.lifecycle.policy import (
    STANDARD_TIMING,
    ActionKey,
    Kind,
    Mode,
    Rule,
    Timing,
    delays,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A version as an event of the log has it. That of a notification has no time, and may lack the rest."""

    mtime_ns: int
    size: int
    content: str
    """Another content has another name: an ETag, or the file."""
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """An event of the log: the content of a key, or of one of its versions, before and after."""

    bucket: str
    key: str
    old: Seen | None
    new: Seen | None
    is_upload: bool = False
    """A multipart upload that began."""


class Class(Enum):
    AGE = "age"
    """Something was written: an age begins."""
    TAGS = "tags"
    REMOVAL = "removal"
    IRRELEVANT = "irrelevant"


def classify(change: Change) -> Class:
    """Return the kind of the event. Where content and tags both changed, the content decides."""
    old, new = change.old, change.new
    if new is None:
        return Class.IRRELEVANT if old is None else Class.REMOVAL
    if old is None or (old.mtime_ns, old.size, old.content) != (new.mtime_ns, new.size, new.content):
        return Class.AGE
    return Class.IRRELEVANT if set(old.tags) == set(new.tags) else Class.TAGS


@dataclass(frozen=True, slots=True)
class State:
    """The durable state of an action, as far as routing depends on it."""

    mode: Mode
    is_complete: bool
    """Its first walk has ended, and its cursors are set."""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    bucket: str
    key: ActionKey
    rule: Rule = field(repr=False)
    is_active: bool
    """Events are routed to it."""
    is_paused: bool = False
    """By an operator: nothing is done for it."""

    @property
    def is_enforced(self) -> bool:
        return self.rule.is_enabled and not self.is_paused


class PrefixIndex:
    """Actions by their prefixes: a lookup costs a step for each length that a prefix has."""

    def __init__(self) -> None:
        self._by_prefix: dict[str, list[Action]] = {}
        self._lengths: list[int] = []

    def add(self, action: Action) -> None:
        prefix = action.rule.prefix
        if prefix not in self._by_prefix:
            self._by_prefix[prefix] = []
            self._lengths = sorted({len(known) for known in self._by_prefix})
        self._by_prefix[prefix].append(action)

    @property
    def prefixes(self) -> list[str]:
        return sorted(self._by_prefix)

    def matching(self, key: str) -> list[Action]:
        found: list[Action] = []
        for length in self._lengths:
            if length > len(key):
                break
            found += self._by_prefix.get(key[:length], ())
        return found


@dataclass(frozen=True)
class Snapshot:
    number: int
    actions: Mapping[tuple[str, ActionKey], Action]
    groups: Mapping[int, tuple[Action, ...]]
    """By delay, the active actions whose events are looked at when they are that old."""
    dates: tuple[Action, ...]
    _by_delay: Mapping[tuple[str, int], PrefixIndex]
    _near: Mapping[str, PrefixIndex]
    _all: Mapping[str, PrefixIndex]
    unreadable: Mapping[str, Exception] = field(default_factory=dict)
    """By bucket, why its rules or its state cannot be read: what to do in it is not known."""

    @property
    def delays(self) -> tuple[int, ...]:
        return tuple(sorted(self.groups))

    def by_age(self, bucket: str, key: str, delay_ns: int, *, is_upload: bool = False) -> list[Action]:
        """The active actions of this delay that an event of the ages is looked at for."""
        index = self._by_delay.get((bucket, delay_ns))
        found = index.matching(key) if index else []
        return [action for action in found if (action.key.kind is Kind.ABORT_MPU) == is_upload]

    def near(self, change: Change) -> list[Action]:
        """The active actions that a change of tags, or a removal, is looked at for at once."""
        kind = classify(change)
        if kind not in (Class.TAGS, Class.REMOVAL) or change.is_upload or change.bucket not in self._near:
            return []
        found = self._near[change.bucket].matching(change.key)
        if kind is Class.REMOVAL:
            return found
        assert change.new is not None
        tags = set(change.new.tags)
        # Tags that come later have an event of their own.
        return [action for action in found if action.rule.tags and set(action.rule.tags) <= tags]

    def of_path(self, bucket: str, key: str) -> list[Action]:
        """For a walk: every action but the disabled and the paused, whatever drives it."""
        return self._all[bucket].matching(key) if bucket in self._all else []

    def prefixes(self, bucket: str) -> list[str]:
        """For a walk: the prefixes of actions that `of_path` finds, in order; none begins another."""
        found: list[str] = []
        for prefix in self._all[bucket].prefixes if bucket in self._all else ():
            if not found or not prefix.startswith(found[-1]):
                found.append(prefix)
        return found

    def has_uploads(self, bucket: str) -> bool:
        """Return True if `of_path` may have an action for uploads."""
        return any(
            action.bucket == bucket and action.key.kind is Kind.ABORT_MPU and action.is_enforced
            for action in self.actions.values()
        )

    def has(self, bucket: str, key: ActionKey) -> bool:
        """Return True if the action is in the policy: a deletion for another one is stale."""
        return (bucket, key) in self.actions


def compile_policies(
    number: int,
    policies: Mapping[str, Sequence[Rule]],
    states: Mapping[tuple[str, ActionKey], State],
    timing: Timing = STANDARD_TIMING,
) -> Snapshot:
    """The snapshot of this number. An action without a state has not had its first walk."""
    # Of two rules that do the same, the enabled one counts.
    actions = {
        (bucket, key): _action(bucket, key, rule, states.get((bucket, key)))
        for bucket, rules in policies.items()
        for rule in sorted(rules, key=lambda one: one.is_enabled)
        for key in rule.actions()
    }
    groups: dict[int, list[Action]] = {}
    by_delay: dict[tuple[str, int], PrefixIndex] = {}
    near: dict[str, PrefixIndex] = {}
    every: dict[str, PrefixIndex] = {}
    for action in actions.values():
        if action.is_enforced:
            every.setdefault(action.bucket, PrefixIndex()).add(action)
        if not action.is_active:
            continue
        if action.key.kind is not Kind.ABORT_MPU:
            near.setdefault(action.bucket, PrefixIndex()).add(action)
        for delay_ns in delays(action.rule, action.key.kind, timing):
            groups.setdefault(delay_ns, []).append(action)
            by_delay.setdefault((action.bucket, delay_ns), PrefixIndex()).add(action)
    return Snapshot(
        number=number,
        actions=actions,
        groups={delay_ns: tuple(found) for delay_ns, found in groups.items()},
        dates=_dated(actions.values()),
        _by_delay=by_delay,
        _near=near,
        _all=every,
    )


def _action(bucket: str, key: ActionKey, rule: Rule, state: State | None) -> Action:
    if state is None:
        return Action(bucket, key, rule, is_active=False)
    is_driven = rule.is_enabled and state.is_complete and state.mode is Mode.EVENT_DRIVEN
    return Action(bucket, key, rule, is_driven and not state.is_paused, state.is_paused)


def _dated(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions at dates, in the order of these."""
    found = [one for one in actions if one.key.kind is Kind.EXPIRATION_DATE and one.is_enforced]
    return tuple(sorted(found, key=lambda one: (one.rule.expiration_date_ns or 0, one.bucket, one.key)))
