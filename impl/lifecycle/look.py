"""One look at an object: fetch what stands at its key, evaluate every candidate on that, delete what is due.

The event that led here has only named the key. What is deleted is what was looked at, for a rule that is in
force, and still due: a guard holds that in the moment of the deletion. An object that changed since the look
is looked at again, because its change need not have an event that anybody works on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fencepost.impl.environment import Environment
from fencepost.impl.lifecycle.engine import Action, Seen
from fencepost.impl.lifecycle.policy import STANDARD_TIMING, Timing, Version, What, due_at, evaluate
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.tally import Tally
from fencepost.impl.lifecycle.target import Live, Result, Standing, Target, Unavailable

LOOKS_MAX = 5
"""Our own limit on an object that changes between every look and its deletion."""


@dataclass(slots=True)
class Looked:
    waiting: list[tuple[Action, Live]] = field(default_factory=list)
    """What matches and is not due yet."""
    stale: set[Action] = field(default_factory=set)
    """The candidates that are no more in the policy."""
    deleted: int = 0
    locked: int = 0


class Looker:
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
        self.tally = Tally()

    def look(self, bucket: str, key: str, candidates: Iterable[Action], event: Seen | None = None) -> Looked:
        """Raises what the target raises, and `Unavailable` for an object that does not stand still."""
        wanted = list(candidates)
        looked = Looked()
        for _ in range(LOOKS_MAX):
            standing = self.target.standing(bucket, key)
            looked.waiting.clear()
            if not self._work(bucket, key, standing, wanted, looked, event):
                return looked
        raise Unavailable(f"{bucket}/{key} changed between {LOOKS_MAX} looks and deletions")

    def _work(
        self,
        bucket: str,
        key: str,
        standing: Standing,
        wanted: list[Action],
        looked: Looked,
        event: Seen | None,
    ) -> bool:
        """Returns whether to look again. Oldest first: what is deleted is not counted as newer by another."""
        again = False
        for live in (*reversed(standing.versions), *standing.uploads):
            version = self._evaluated(live.version, event)
            for action in wanted:
                kind = action.key.kind
                due_ns = due_at(action.rule, kind, version, self.timing)
                if action in looked.stale or due_ns is None:
                    continue
                now_ns = self.env.now_ns()
                if due_ns > now_ns:
                    looked.waiting.append((action, live))
                    self.tally.looked(action, None)
                    continue
                what = evaluate(action.rule, kind, version, now_ns, self.timing)
                result = self._delete(bucket, key, action, live, what, event)
                self.tally.looked(action, result)
                if result is Result.STALE_POLICY:
                    looked.stale.add(action)
                changed = result in (Result.STALE_IDENTITY, Result.NO_LONGER_ELIGIBLE)
                again = again or self.safeguards.look_again(changed)
                looked.locked += result is Result.SKIPPED_OBJECT_LOCK
                if result in (Result.DONE, Result.NOT_FOUND):
                    looked.deleted += result is Result.DONE
                    break
        return again

    def _evaluated(self, version: Version, event: Seen | None) -> Version:
        return self.safeguards.live_evaluation(self.safeguards.due_again(version, event), event)

    def _delete(
        self, bucket: str, key: str, action: Action, looked_at: Live, what: What, event: Seen | None
    ) -> Result:
        version_id = looked_at.version.version_id

        def guard(standing: Standing) -> Result | None:
            known = standing.uploads if looked_at.version.is_upload else standing.versions
            live = next((one for one in known if one.version.version_id == version_id), None)
            if live is None:
                return Result.NOT_FOUND
            if not self.safeguards.identity(looked_at, live):
                return Result.STALE_IDENTITY
            in_force = self.safeguards.policy_per_action(action.key, self.target.rules(bucket))
            if not self.safeguards.policy(in_force):
                return Result.STALE_POLICY
            if not self._is_due(action, self._evaluated(live.version, event), what):
                return Result.NO_LONGER_ELIGIBLE
            removes = what is not What.EXPIRE or not standing.is_versioned
            if removes and self.safeguards.lock(live.is_locked):
                return Result.SKIPPED_OBJECT_LOCK
            return None

        return self.target.delete(bucket, key, version_id, what, guard)

    def _is_due(self, action: Action, version: Version, what: What) -> bool:
        return evaluate(action.rule, action.key.kind, version, self.env.now_ns(), self.timing) is what
