"""Expiration of one object: match rules to it, fetch it, evaluate every candidate rule, delete what is due.

The event that led here has only named the key. The deletion is guarded: in its moment the object must be the
one that was fetched, the rule in force, and the version still due. An object that changed since it was
fetched is fetched and evaluated again, because its change need not have an event that anybody works on.

A walk has a listing of the object. An action that nothing listed can be due for has no part in the look, and
an object without actions is not looked at: `may_delete`. Noncurrent versions of many objects are deleted
together, under the same guard, on versions that were listed once more: `expire_versions`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fencepost.impl.environment import Environment
from fencepost.impl.lifecycle.engine import Action, Seen
from fencepost.impl.lifecycle.policy import STANDARD_TIMING, Kind, Timing, Version, What, due_at, evaluate
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Listed,
    Live,
    Needs,
    Result,
    Standing,
    Target,
    Unavailable,
    Wanted,
)

LOOKS_MAX = 5
"""Our own limit on an object that changes between every fetch and its deletion."""
RULES_AGE_S = 1.0
"""The age up to which a guard may know the rules: it costs a request a second, not one for each deletion."""
Candidates = Sequence[tuple[Listed, Sequence[Action]]]
"""Keys, each with the actions that may delete there."""


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
        self.busy = 0
        """Objects that are worked on now."""
        self.last_tick_ns: int | None = None
        """The end of the last round of any kind."""
        self.on_delete: Callable[[float], object] = lambda _: None
        """Called with the seconds of each attempt to delete."""

    def evaluate(self, action: Action, result: Result | None) -> None:
        """Count a version that the action applies to; without a result it was not due."""
        rule = action.key.rule_hash.hex()
        with self._lock:
            self.evaluated[action.bucket, rule] += 1
            if result is Result.DONE:
                self.expired[action.bucket, rule, action.key.kind_name] += 1
            elif result is Result.SKIPPED_OBJECT_LOCK:
                self.locked[action.bucket, rule] += 1

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count an object as worked on, during the block."""
        with self._lock:
            self.busy += 1
        try:
            yield
        finally:
            with self._lock:
                self.busy -= 1

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

    def may_delete(self, listed: Listed, candidates: Sequence[Action]) -> list[Action]:
        """Return the candidates for which something listed at the key may be due now; counts the others."""
        shown = listed.shown
        if shown is None:
            return list(candidates)
        now_ns, found = self._now_ns(shown), []
        for action in candidates:
            due = [
                due_ns
                for live in (*shown.versions, *shown.uploads)
                if (due_ns := due_at(action.rule, action.key.kind, live.version, self.timing, has_tags=False))
                is not None
            ]
            if self.safeguards.listed_due(any(due_ns <= now_ns for due_ns in due)):
                found.append(action)
            elif not action.rule.tags:
                for _ in due:
                    self.counters.evaluate(action, None)
        return found

    def expire(
        self,
        bucket: str,
        key: str,
        candidates: Iterable[Action],
        event: Seen | None = None,
        listed: Standing | None = None,
    ) -> Evaluation:
        """Delete what is due at the key for any candidate.

        The first look is `listed`, if a walk gives that and no rule needs tags.

        Raises the target's errors, and `Unavailable` for an object that keeps changing.
        """
        wanted = list(candidates)
        needs = needs_of(wanted)
        first = None if needs.tags else listed
        found = Evaluation()
        for _ in range(LOOKS_MAX):
            with self.counters.working():
                standing = first or self.target.standing(bucket, key, needs)
                first = None
                found.waiting.clear()
                if not self._work(bucket, key, standing, wanted, found, event):
                    return found
        raise Unavailable(f"{bucket}/{key} changed between {LOOKS_MAX} looks and deletions")

    def expire_versions(self, bucket: str, candidates: Candidates, after: str, prefix: str) -> set[str]:
        """Delete noncurrent versions that are due, many with one request; returns the keys that are done.

        `candidates` are of the page below `prefix` and behind `after`.

        A key is left to `expire` if anything else is due there, if a rule needs its tags, or if a version was
        not deleted. The guard of a deletion gets the versions as the target lists them anew.
        """
        wanted: list[Wanted] = []
        actions: list[Action] = []
        left: set[str] = set()
        for listed, candidate in candidates:
            due = self._due_versions(listed.shown, candidate)
            if due is None:
                left.add(listed.key)
            for action, live in due or ():
                guard = DueGuard(self, action, live, What.DELETE_VERSION, None)
                wanted.append(Wanted(listed.key, live.version.version_id, guard))
                actions.append(action)
        results = self.target.delete_versions(bucket, wanted, after, prefix) if wanted else ()
        for one, action, result in zip(wanted, actions, results, strict=True):
            if result is None:
                left.add(one.key)
            else:
                self.counters.evaluate(action, result)
        return {listed.key for listed, _ in candidates} - left

    def _due_versions(
        self, shown: Standing | None, candidates: Sequence[Action]
    ) -> list[tuple[Action, Live]] | None:
        """The noncurrent versions that are due, each with an action; None if more has to be done."""
        if shown is None or any(action.rule.tags for action in candidates):
            return None
        now_ns, found = self._now_ns(shown), []
        for live in (*shown.versions, *shown.uploads):
            for action in candidates:
                what = evaluate(action.rule, action.key.kind, live.version, now_ns, self.timing)
                if what is What.NOTHING:
                    continue
                if what is not What.DELETE_VERSION:
                    return None
                found.append((action, live))
                break
        return found

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
                now_ns = self._now_ns(standing)
                if due_ns > now_ns:
                    found.waiting.append((action, live))
                    self.counters.evaluate(action, None)
                    continue
                what = evaluate(action.rule, kind, version, now_ns, self.timing)
                result = self.delete(bucket, key, action, live, what, event, needs_of(wanted))
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
        needs: Needs = WHOLE,
    ) -> Result:
        """Delete what was looked at, if it is still due for the action in that moment."""
        guard = DueGuard(self, action, looked_at, what, event)
        began_ns = self.env.monotonic_ns()
        result = self.target.delete(bucket, key, looked_at.version.version_id, what, guard, needs)
        self.counters.on_delete((self.env.monotonic_ns() - began_ns) / 1e9)
        return result

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
        rules = self.target.rules(action.bucket, RULES_AGE_S)
        in_force = self.safeguards.policy_per_action(action.key, rules)
        if not self.safeguards.policy(in_force):
            return Result.STALE_POLICY
        version = self._evaluated(live.version, guard.event)
        what = evaluate(action.rule, action.key.kind, version, self._now_ns(standing), self.timing)
        if what is not guard.what:
            return Result.NO_LONGER_ELIGIBLE
        removes = guard.what is not What.EXPIRE or not standing.is_versioned
        if removes and self.safeguards.lock(live.is_locked):
            return Result.SKIPPED_OBJECT_LOCK
        return None

    def _now_ns(self, standing: Standing) -> int:
        """The earlier one of the worker's time and the store's: a fast clock deletes nothing early."""
        now_ns = self.env.now_ns()
        return now_ns if standing.now_ns is None else min(now_ns, standing.now_ns)


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


def needs_of(actions: Collection[Action]) -> Needs:
    """Return what a look has to show for these actions."""
    kinds = {action.key.kind for action in actions}
    has_tags = any(action.rule.tags for action in actions)
    return Needs(bool(kinds - {Kind.ABORT_MPU}), has_tags, Kind.ABORT_MPU in kinds)
