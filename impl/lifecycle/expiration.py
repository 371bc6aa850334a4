"""Expiration of one object: fetch it, evaluate every candidate rule on it, delete what is due.

The event that led here has only named the key. The deletion is guarded: in its moment the object must be the
one that was fetched, the rule in force, and the version still due. An object that changed since it was
fetched is fetched and evaluated again, because its change need not have an event that anybody works on.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from fencepost.impl.environment import Environment
from fencepost.impl.lifecycle.engine import Action, Seen
from fencepost.impl.lifecycle.policy import STANDARD_TIMING, Timing, Version, What, due_at, evaluate
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.target import Live, Result, Standing, Target, Unavailable

LOOKS_MAX = 5
"""Our own limit on an object that changes between every fetch and its deletion."""


class Counters:
    """The work of one process since it began, counted by bucket, rule and kind. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.evaluated: Counter[tuple[str, str]] = Counter()
        """Versions that an action applied to, due or not: bucket and rule."""
        self.expired: Counter[tuple[str, str, str]] = Counter()
        """Deletions: bucket, rule and kind of the action."""
        self.locked: Counter[tuple[str, str]] = Counter()
        """Deletions that an object lock prevented: bucket and rule."""
        self.errors: Counter[tuple[str, str]] = Counter()
        """Attempts that failed: bucket, and `unavailable` or `unworkable`."""

    def evaluate(self, action: Action, result: Result | None) -> None:
        """Count a version that the action applies to; without a result it was not due."""
        rule = action.key.rule_hash.hex()
        with self._lock:
            self.evaluated[action.bucket, rule] += 1
            if result is Result.DONE:
                self.expired[action.bucket, rule, action.key.kind_name] += 1
            elif result is Result.SKIPPED_OBJECT_LOCK:
                self.locked[action.bucket, rule] += 1

    def fail(self, bucket: str, kind: str) -> None:
        """Count an attempt that failed."""
        with self._lock:
            self.errors[bucket, kind] += 1


@dataclass(slots=True)
class Evaluation:
    waiting: list[tuple[Action, Live]] = field(default_factory=list)
    """Versions that match and are not due yet."""
    stale: set[Action] = field(default_factory=set)
    """Candidates that are no more in the policy."""
    deleted: int = 0
    locked: int = 0


class Expirer:
    def __init__(
        self,
        target: Target,
        env: Environment,
        timing: Timing = STANDARD_TIMING,
        safeguards: Safeguards = STANDARD,
    ) -> None:
        self.target = target
        self.env = env
        self.timing = timing
        self.safeguards = safeguards
        self.counters = Counters()

    def expire(
        self, bucket: str, key: str, candidates: Iterable[Action], event: Seen | None = None
    ) -> Evaluation:
        """Delete what is due at the key for any candidate.

        Raises the target's errors, and `Unavailable` for an object that keeps changing.
        """
        wanted = list(candidates)
        found = Evaluation()
        for _ in range(LOOKS_MAX):
            standing = self.target.standing(bucket, key)
            found.waiting.clear()
            if not self._work(bucket, key, standing, wanted, found, event):
                return found
        raise Unavailable(f"{bucket}/{key} changed between {LOOKS_MAX} looks and deletions")

    def _work(
        self,
        bucket: str,
        key: str,
        standing: Standing,
        wanted: list[Action],
        found: Evaluation,
        event: Seen | None,
    ) -> bool:
        """Evaluate all versions, oldest first; returns True if the object has changed.

        Oldest first: another version does not count a deleted one as newer.
        """
        again = False
        for live in (*reversed(standing.versions), *standing.uploads):
            version = self._evaluated(live.version, event)
            for action in wanted:
                kind = action.key.kind
                due_ns = due_at(action.rule, kind, version, self.timing)
                if action in found.stale or due_ns is None:
                    continue
                now_ns = self.env.now_ns()
                if due_ns > now_ns:
                    found.waiting.append((action, live))
                    self.counters.evaluate(action, None)
                    continue
                what = evaluate(action.rule, kind, version, now_ns, self.timing)
                result = self.delete(bucket, key, action, live, what, event)
                self.counters.evaluate(action, result)
                if result is Result.STALE_POLICY:
                    found.stale.add(action)
                changed = result in (Result.STALE_IDENTITY, Result.NO_LONGER_ELIGIBLE)
                again = again or self.safeguards.look_again(changed)
                found.locked += result is Result.SKIPPED_OBJECT_LOCK
                if result in (Result.DONE, Result.NOT_FOUND):
                    found.deleted += result is Result.DONE
                    break
        return again

    def _evaluated(self, version: Version, event: Seen | None) -> Version:
        return self.safeguards.live_evaluation(self.safeguards.due_again(version, event), event)

    def delete(
        self,
        bucket: str,
        key: str,
        action: Action,
        looked_at: Live,
        what: What,
        event: Seen | None = None,
    ) -> Result:
        """Delete what was looked at, if it is still due for the action in that moment."""
        guard = DueGuard(self, action, looked_at, what, event)
        return self.target.delete(bucket, key, looked_at.version.version_id, what, guard)

    def allows(self, guard: "DueGuard", standing: Standing) -> Result | None:
        """Return why the deletion is refused, given the versions at the key in its moment."""
        action, looked_at = guard.action, guard.looked_at
        known = standing.uploads if looked_at.version.is_upload else standing.versions
        version_id = looked_at.version.version_id
        live = next((one for one in known if one.version.version_id == version_id), None)
        if live is None:
            return Result.NOT_FOUND
        if not self.safeguards.identity(looked_at, live):
            return Result.STALE_IDENTITY
        in_force = self.safeguards.policy_per_action(action.key, self.target.rules(action.bucket))
        if not self.safeguards.policy(in_force):
            return Result.STALE_POLICY
        if not self._is_due(action, self._evaluated(live.version, guard.event), guard.what):
            return Result.NO_LONGER_ELIGIBLE
        removes = guard.what is not What.EXPIRE or not standing.is_versioned
        if removes and self.safeguards.lock(live.is_locked):
            return Result.SKIPPED_OBJECT_LOCK
        return None

    def _is_due(self, action: Action, version: Version, what: What) -> bool:
        return evaluate(action.rule, action.key.kind, version, self.env.now_ns(), self.timing) is what


@dataclass(frozen=True, slots=True)
class DueGuard:
    """The guard of a deletion for a rule. A target elsewhere sends its parts along."""

    expirer: Expirer
    action: Action
    looked_at: Live
    what: What
    event: Seen | None

    @property
    def day_ns(self) -> int:
        return self.expirer.timing.day_ns

    def __call__(self, standing: Standing) -> Result | None:
        return self.expirer.allows(self, standing)
