"""The properties of lifecycles, each written once: functions of what a store holds and what was observed.

The invariants of the models have the same names. The future of the store is judged on copies, at which a
worker goes on: at first without a routine walk, which would hide what the events have missed. Steps are
judged by the contents of the store before and after each.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle import cursors, walk
from fencepost.impl.lifecycle.policy import Kind, Mode, Rule, delays, matches, rules_of
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.shards import Shards
from fencepost.impl.lifecycle.target import Unavailable
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.lifecycle.stored import (
    BUCKET,
    KEY,
    START_NS,
    TIMING,
    BucketEnvironment,
    Contents,
    Row,
    StoredBucket,
    live,
    ns,
)

SCAN_S = 7 * TIMING.day_ns // 10**9
"""Routine walks are further apart."""
FOLDER = "lifecycle/v1/"
RETRY = RetryPolicy("worker", Unavailable, attempts=3, backoff_s=0.0)
Objects = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of a sweep of a process, from when it began."""

    stream: str
    handled: str
    at_s: int


@dataclass(frozen=True)
class Outcomes:
    passes: Collection[Pass] = ()
    taken: Collection[tuple[str, str]] = ()
    """Of the entries that passes took: the position, and the one that the cursor had when they began."""
    failures: Collection[tuple[str, str]] = ()
    """The key of each look at what cannot be worked on, and what the bucket did: fails or works."""
    named: Collection[tuple[str, str]] = ()
    """Cursors and names of actions whose rules do not change in this run, and whose log loses nothing."""
    tries: int = 2
    """Failures after which an item becomes a blocker."""
    saved: Collection[tuple[str, int, int]] = ()
    """Of the cursors that were written: the key, the revision, and the epoch of the worker."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A cursor as it lies in the store."""

    position: str = ""
    serves: frozenset[str] = frozenset()

    @classmethod
    def read(cls, body: bytes | None) -> "Saved":
        fields = json.loads(body) if body else {}
        return cls(fields.get("position", ""), frozenset(fields.get("serves", [])))


@dataclass
class LifecycleState:
    """The contents of a store of one bucket and its lifecycle, and their future."""

    contents: Objects
    safeguards: Safeguards = STANDARD
    pending_max: int = 50_000
    shards: tuple[str, ...] = ("x",)

    @cached_property
    def bucket(self) -> Contents:
        return Contents.read(self.contents[KEY])

    @cached_property
    def record(self) -> Mapping[str, Any]:
        body = self.contents.get(f"{FOLDER}buckets/{BUCKET}.json")
        return json.loads(body) if body else {"actions": {}, "walk": None}

    @cached_property
    def blockers(self) -> Sequence[Mapping[str, Any]]:
        return [json.loads(body) for key, body in self.contents.items() if "/blockers/" in key]

    @cached_property
    def blocked(self) -> Mapping[str, str]:
        """The item at which each stream waits."""
        return {one["stream"]: one["item"] for one in self.blockers}

    @cached_property
    def pending(self) -> set[tuple[str, str]]:
        """The names of the actions and the keys of the objects."""
        return {
            (unquote(key.split("/")[3]), json.loads(body)["key"])
            for key, body in self.contents.items()
            if key.startswith(f"{FOLDER}pending/")
        }

    @property
    def deletions(self) -> list[dict[str, Any]]:
        return [entry for entry in self.bucket.past if entry["what"] == "deleted"]

    def is_driven(self, rule: Rule) -> bool:
        """The record says that the action is complete and driven by events."""
        mode, _, complete = self.record["actions"].get(str(rule.actions()[0]), ("", "", False))
        return bool(complete) and mode == Mode.EVENT_DRIVEN.value

    def awaited(self) -> Iterator[tuple[Rule, str, Row, bool]]:
        """Yield the objects of actions that events drive, with True if the log still has the event."""
        for rule in rules_of(self.bucket.rules):
            if not rule.is_enabled or Kind.EXPIRATION_DAYS not in rule.kinds() or not self.is_driven(rule):
                continue
            for key, row in self.bucket.objects.items():
                if matches(rule, live(key, row).version) and not row.locked:
                    yield rule, key, row, self._is_in_log(row)

    def _is_in_log(self, row: Row) -> bool:
        return row.event_s >= self.bucket.begins.get(row.shard, 0) and row.shard not in self.bucket.gone

    def is_ahead(self, rule: Rule, key: str, row: Row) -> bool:
        """An event that has the object looked at for the rule is ahead of a cursor, or it is pending."""
        name = name_of(rule)
        (delay_ns,) = delays(rule, Kind.EXPIRATION_DAYS, TIMING)
        places = [(cursors.ages_key(delay_ns, row.shard), row.event_s, row.offset)]
        places += [(cursors.near_key(shard), time_s, offset) for shard, time_s, offset in row.tagged]
        if (name, key) in self.pending:
            return True
        for stream, time_s, offset in places:
            saved = Saved.read(self.contents.get(stream))
            if name not in saved.serves:
                if row.shard not in self.bucket.gone:
                    return True  # the action begins anew
            elif saved.position < cursors.position(ns(time_s), offset):
                return True
        return False

    # The future.

    def _later(self, *, operator: bool, after_s: Sequence[int]) -> Contents:
        """After a worker went on, and users did not; it cannot look at what no operator repaired."""
        store = MemoryStore(env=SeededEnvironment(3, START_NS))
        for key, body in self.contents.items():
            if not (operator and ("/blockers/" in key or "/retries/" in key)):
                store.put(key, body, when=ABSENT)
        bucket = StoredBucket(store, self.shards)
        bucket.refresh()

        def repair(contents: Contents) -> None:
            contents.silent, contents.hidden = [], {}
            contents.poisoned = [] if operator else contents.poisoned
            for row in contents.objects.values():
                row.locked = False

        bucket.act(repair)
        now_s = bucket.known.now_s
        for more_s in after_s:

            def pass_time(contents: Contents, time_s: int = now_s + more_s) -> None:
                contents.now_s = time_s

            bucket.act(pass_time)
            worker = worker_on(store, bucket, self.safeguards)
            worker.pending_max = self.pending_max
            walk.run(worker)
            Shards(worker).look()
        return bucket.refresh()

    @cached_property
    def soon(self) -> Contents:
        return self._later(operator=False, after_s=(0, 1, 2, 5, 6, 7, 10, 11))

    @cached_property
    def later(self) -> Contents:
        return self._later(operator=True, after_s=(0, 5, 6, SCAN_S + 1, SCAN_S + 2))


def worker_on(store: Any, bucket: StoredBucket, safeguards: Safeguards) -> Worker:
    env = BucketEnvironment(SeededEnvironment(3, START_NS), bucket)
    return Worker(Context(store, env, retry=RETRY), bucket, bucket, TIMING, safeguards)


def name_of(rule: Rule) -> str:
    return f"{BUCKET}/{rule.actions()[0]}"


Check = Callable[[LifecycleState, Outcomes], Iterator[str]]
StepCheck = Callable[[Objects, Objects], Iterator[str]]


# Looks and deletions.


def cursor_honest(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    for rule, key, row, in_log in state.awaited():
        if in_log and not state.is_ahead(rule, key, row):
            yield f"the cursors have passed {key}, which {name_of(rule)} has to delete"


def no_silent_loss(state: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    for rule, key, row, in_log in state.awaited():
        if not in_log and not state.is_ahead(rule, key, row):
            yield f"the log has lost the event of {key}, and {name_of(rule)} is still driven by events"
        delay_s = (rule.expiration_days or 0) * TIMING.day_ns // 10**9
        allowed_s = state.bucket.retention_s - delay_s
        for one in outcomes.passes:
            late_s = one.at_s - delay_s - row.event_s
            if one.stream == "lags" and late_s >= 0.95 * allowed_s and state.is_ahead(rule, key, row):
                yield f"the log loses {key} next, and {name_of(rule)} is still driven by events"


def no_early_delete(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    for one in state.deletions:
        if not one["was_due"]:
            yield f"{one['key']} was deleted at {one['at_s']} s, when no rule had it due"


def identity_and_policy(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    for one in state.deletions:
        if one["number"] != one["looked"]:
            yield f"change {one['number']} of {one['key']} was deleted, and {one['looked']} was looked at"
        if one["was_due"] and not one["due"]:
            yield f"{one['key']} was deleted for a rule that is gone"


def lock_respected(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    for one in state.deletions:
        if one["locked"]:
            yield f"{one['key']} was deleted, and was locked"


def on_time(state: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    """An object that was due and had its tag when a sweep close behind the clock began is gone then."""
    small_s = TIMING.small_delay_ns // 10**9
    for one in outcomes.passes:
        if one.handled == "resolved":
            for key in state.bucket.due(one.at_s):
                row = state.bucket.objects[key]
                ripe = [
                    time_s + small_s <= one.at_s
                    for shard, time_s, _ in row.tagged
                    if one.stream == cursors.near_key(shard)
                ]
                if not row.locked and ripe and all(ripe):
                    yield f"{key} was due when a sweep began at {one.at_s} s, and is not deleted"


def returns_by_itself(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    """Once the log reaches back as far as an action needs, and a walk has ended since."""
    back_ns = max(TIMING.day_ns, TIMING.lookback_ns)
    for rule in rules_of(state.bucket.rules):
        (key,) = rule.actions()
        mode, reason, _ = state.record["actions"].get(str(key), ("", "", False))
        walked_ns = state.record.get("walked_ns") or 0
        begins_ns = max((ns(begins_s) for begins_s in state.bucket.begins.values()), default=0)
        (delay_ns,) = delays(rule, Kind.EXPIRATION_DAYS, TIMING)
        needed_ns = begins_ns + delay_ns + back_ns
        if (mode, reason) == ("scan_only", "LOST_LOG") and walked_ns >= needed_ns and not state.bucket.gone:
            yield f"{name_of(rule)} is left to scans, and the log has all that it needs"


def eventually_expired(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    """Soon, where events are followed and nothing is blocked; after a routine walk in any case."""
    driven = [rule for rule in rules_of(state.bucket.rules) if rule.is_enabled]
    scanned = any(mode != Mode.EVENT_DRIVEN.value for mode, _, _ in state.record["actions"].values())
    stopped = state.blocked or state.bucket.poisoned or state.bucket.silent or state.pending_max == 0
    was_locked = any(row.locked for row in state.bucket.objects.values())
    if driven and not (scanned or stopped or was_locked or state.bucket.begins or state.bucket.gone):
        yield from (f"{key} stays due for ever" for key in state.soon.due(state.soon.now_s))
    if not state.bucket.poisoned:
        yield from (f"no walk deletes {key}" for key in state.later.due(state.later.now_s))


def passed_once(_: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    for place, saved in outcomes.taken:
        if place <= saved:
            yield f"a pass that began behind {saved} took {place}"


def one_worker(_: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    latest: dict[str, int] = {}
    for key, revision, epoch in sorted(outcomes.saved):
        if epoch < latest.get(key, 0):
            yield f"revision {revision} of {key} is of epoch {epoch}, after one of {latest[key]}"
        latest[key] = max(epoch, latest.get(key, 0))


# Items that cannot be worked on.


def operator_only_skip(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    failing = {*state.bucket.poisoned, *state.bucket.silent}
    for rule, key, row, in_log in state.awaited():
        if key in failing and in_log and not state.is_ahead(rule, key, row):
            (delay_ns,) = delays(rule, Kind.EXPIRATION_DAYS, TIMING)
            stream = quote(cursors.ages_key(delay_ns, row.shard), safe="")
            if not any(one.startswith(f"{FOLDER}quarantine/{stream}/") for one in state.contents):
                yield f"{key} was passed without being resolved, and no operator gave it up"


def blocker_is_seen(state: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    if not state.blocked:
        for one in outcomes.passes:
            if one.handled == "blocked":
                yield f"{one.stream} pauses, and there is no blocker"


def isolation(state: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    for one in outcomes.passes:
        if one.handled == "blocked" and state.blocked and one.stream not in state.blocked:
            yield f"{one.stream} pauses for the blockers of {', '.join(sorted(state.blocked))}"
    for stream, name in outcomes.named:
        if name not in Saved.read(state.contents.get(stream)).serves:
            yield f"{stream} does not name {name} any more, whose rule nobody changed"


def shared_goes_on(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    """No object stops a sweep for actions that do not concern it."""
    for blocker in state.blockers:
        serves = Saved.read(state.contents.get(blocker["stream"])).serves
        for rule in rules_of(state.bucket.rules):
            if name_of(rule) in serves and not blocker["key"].startswith(rule.prefix):
                yield f"{name_of(rule)} waits for {blocker['key']}, which it does not concern"


def sustained_is_shown(state: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    tried = [one.stream for one in outcomes.passes if one.handled == "retry"]
    for stream in sorted({*tried} - state.blocked.keys()):
        if tried.count(stream) >= outcomes.tries:
            yield f"{stream} has failed {tried.count(stream)} times, and has no blocker"


def blocked_for_cause(state: LifecycleState, outcomes: Outcomes) -> Iterator[str]:
    known = {*_failures(outcomes).values(), 0}
    if state.blocked and max(known) < outcomes.tries:
        yield f"there is a blocker after {max(known)} failures"


def _failures(outcomes: Outcomes) -> dict[str, int]:
    """By key, in a row."""
    found: dict[str, int] = {}
    for key, what in outcomes.failures:
        found[key] = found.get(key, 0) + 1 if what == "fails" else 0
    return found


def always_worked_off(state: LifecycleState, _: Outcomes) -> Iterator[str]:
    """Once an operator has repaired what could not be worked on."""
    if state.blocked or state.bucket.poisoned:
        yield from (f"{key} is left after a repair" for key in state.later.due(state.later.now_s))


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        cursor_honest,
        no_silent_loss,
        no_early_delete,
        identity_and_policy,
        lock_respected,
        on_time,
        eventually_expired,
        returns_by_itself,
        one_worker,
        passed_once,
        operator_only_skip,
        blocker_is_seen,
        isolation,
        shared_goes_on,
        sustained_is_shown,
        blocked_for_cause,
        always_worked_off,
    )
}
"""By the name of the model's property."""


# Steps.


def _moved(before: Objects, after: Objects) -> Iterator[tuple[str, Saved, Saved]]:
    for key, body in after.items():
        if key.startswith(cursors.FOLDER) and before.get(key) != body:
            yield key, Saved.read(before.get(key)), Saved.read(body)


def _walk(contents: Objects) -> tuple[int, frozenset[str]]:
    """When the walk under way began, and the names of the actions that begin with it."""
    record = json.loads(contents.get(f"{FOLDER}buckets/{BUCKET}.json", b"{}"))
    began_ns, beginning, _ = record.get("walk") or (0, [], [])
    return began_ns, frozenset(f"{BUCKET}/{key}" for key in beginning)


def seed_before_activate(before: Objects, after: Objects) -> Iterator[str]:
    """A cursor that begins to name an action is not past the beginning of the walk, less the delay."""
    for key, old, new in _moved(before, after):
        delay = key.removeprefix(cursors.FOLDER).split("/")[1]
        back_ns = max(int(delay), TIMING.lookback_ns) if delay.isdigit() else TIMING.lookback_ns
        began_ns, _ = _walk(before)
        if new.serves - old.serves and new.position > cursors.before(began_ns - back_ns):
            yield f"{key} begins to name {', '.join(new.serves - old.serves)} at {new.position}"


def replays_for_new_only(before: Objects, after: Objects) -> Iterator[str]:
    for key, old, new in _moved(before, after):
        if new.position < old.position and not new.serves & _walk(before)[1]:
            yield f"{key} goes back from {old.position} to {new.position} for no action that begins"


def blocker_stands(before: Objects, after: Objects) -> Iterator[str]:
    for key, old, new in _moved(before, after):
        blocker = f"{FOLDER}blockers/{quote(key, safe='')}.json"
        if blocker in before and blocker in after and new.position > old.position:
            yield f"{key} goes on to {new.position} behind its blocker"


STEPS: Mapping[str, StepCheck] = {
    check.__name__: check for check in (seed_before_activate, replays_for_new_only, blocker_stands)
}
"""The same, of single steps."""
