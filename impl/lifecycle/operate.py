"""Operate a lifecycle: list blocked items, let their streams go on, pause, scan, return to events.

    operator = Operator(worker)
    for blocker in operator.blockers(bucket="b"):
        operator.retry(blocker.id)                             # now, and past it if that succeeds
        operator.resume(blocker.id)                            # or in the next pass, with a new count
        operator.quarantine(blocker.id, "lost with disk 7")    # or never: the only way past an item
    operator.pause("migration", bucket="b"); operator.unpause(bucket="b")
    operator.run_now()
    operator.reseed(delay_ns=7 * DAY_NS)

Only `retry` works on objects. Everything is durable when it returns, and a service that runs sees it
within a second.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import WHOLE, Blocker, StreamKind
from fencepost.impl.lifecycle.documents import Fields
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.policy import ActionKey, Degraded, Mode, delays
from fencepost.impl.lifecycle.records import ALL, BucketState, Cadence, Pending
from fencepost.impl.lifecycle.shards import Shards
from fencepost.impl.lifecycle.walk import Walks
from fencepost.impl.lifecycle.worker import Failure, Handled, Worker


class Refused(Exception):
    """The request of the operator is not possible; the message names an alternative."""


@dataclass(frozen=True, slots=True)
class Reseeded:
    """An action that begins anew with the next walk of its bucket."""

    bucket: str
    action: str
    reason: Degraded
    """Why it was left to scans."""


class Operator:
    """`worker` has the leases of the operator's own process, or none."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._records = worker.records
        self._blockers = worker.blockers

    # Blockers.

    def blockers(
        self, kind: StreamKind | None = None, shard: str | None = None, bucket: str | None = None
    ) -> list[Blocker]:
        return [
            one
            for one in self._blockers.every()
            if kind in (None, one.stream.kind)
            and shard in (None, one.stream.shard)
            and bucket in (None, one.item.bucket)
        ]

    def blocker(self, blocker_id: str) -> Blocker:
        for one in self._blockers.every():
            if one.id == blocker_id:
                return one
        raise Refused(f"there is no blocker {blocker_id}; list them")

    def retry(self, blocker_id: str) -> Handled:
        """Work on the item now; if that succeeds the blocker goes, and the stream is past the item.

        A sweep goes on from its cursor up to the item, as other events may be before it since. The walk of a
        bucket goes on by itself, in its next pass.
        """
        blocker = self.blocker(blocker_id)
        stream, leases = blocker.stream, self._worker.leases
        was_held = leases.is_held(stream.key)
        if not leases.hold(stream.key):
            return Handled.ELSEWHERE
        try:
            handled = self._work(blocker)
        finally:
            if not was_held:
                leases.release(stream.key)
        if handled is Handled.RESOLVED:
            self._blockers.clear(blocker)
        else:
            self._blockers.failed_again(
                blocker, f"{blocker.reason}; retried: {handled.value}", self._now_ns()
            )
            self._blockers.succeeded(stream.key)
        return handled

    def ask_for_retry(self, blocker_id: str) -> Blocker:
        """Have the worker that has the stream try the item; returns the blocker as it was before."""
        blocker = self.blocker(blocker_id)
        self._records.retry(blocker_id)
        return blocker

    def outcome_of_retry(self, before: Blocker) -> Handled | None:
        """Return the outcome of the retry of this blocker; None while it was not tried again."""
        now = next((one for one in self._blockers.every() if one.id == before.id), None)
        if now is None:
            return Handled.RESOLVED
        return Handled.BLOCKED if now.tries > before.tries else None

    def _work(self, blocker: Blocker) -> Handled:
        stream, item = blocker.stream, blocker.item
        if stream.kind in (StreamKind.ORIGINAL, StreamKind.PREDICATE):
            return self._worker.sweep(stream, retry=item.name)
        if stream.kind is StreamKind.BOOTSTRAP:
            walks, snapshot = Walks(self._worker), self._worker.snapshot([item.bucket])
            if item.name == WHOLE or item.bucket in snapshot.unreadable:
                is_readable = walks.is_readable(item.bucket, snapshot)
                return Handled.RESOLVED if is_readable else Handled.RETRY
            looked = walks.look(item.bucket, item.key, snapshot.of_path(item.bucket, item.key))
            return Handled.RETRY if isinstance(looked, Failure) else Handled.RESOLVED
        action = self._action(stream.key.removeprefix("pending/"))
        for entry in self._records.pending(cursors.name_of(action)) if action else ():
            if entry.record == item.name:
                return self._worker.look_again(action, entry) if action else Handled.RESOLVED
        return Handled.RESOLVED

    def resume(self, blocker_id: str) -> Blocker:
        """Clear the blocker; the stream stays in front of its item, which it tries again with a new count."""
        blocker = self.blocker(blocker_id)
        self._blockers.clear(blocker)
        self._records.wake()
        return blocker

    def quarantine(self, blocker_id: str, reason: str, author: str = "") -> Blocker:
        """Give up the item, with a record of the decision: the only way past it."""
        if not reason:
            raise Refused("give a reason: it is what is left of the item")
        blocker = self.blocker(blocker_id)
        if blocker.item.name == WHOLE:
            raise Refused(f"{blocker_id} is no single object; repair it ({blocker.reason}), then retry")
        self._blockers.quarantine(blocker, reason, author, self._now_ns())
        self._records.wake()
        return blocker

    def quarantined(self) -> list[Fields]:
        """The records of all decisions."""
        return self._blockers.quarantined()

    # Pending versions.

    def pending(self, bucket: str | None = None) -> Iterator[Pending]:
        for one in self._records.pending():
            if bucket is None or one.action.startswith(f"{bucket}/"):
                yield one

    # Pausing and scanning.

    def pause(self, reason: str, bucket: str | None = None, action: ActionKey | None = None) -> None:
        """Do nothing more for an action, for a bucket, or for all; a pass under way may end first.

        An action that events drove begins anew afterwards, with a walk. After a pause of all it goes on where
        it was, if the log still has that.
        """
        if not reason:
            raise Refused("give a reason: the status shows it")
        if bucket is None:
            self._records.pause_all(reason)
            return

        def change(state: BucketState) -> bool:
            state.paused[ALL if action is None else str(action)] = reason
            return True

        self._change(bucket, change)

    def unpause(self, bucket: str | None = None, action: ActionKey | None = None) -> bool:
        """Returns whether it was paused."""
        if bucket is None:
            was_paused = bool(self._records.control().paused_for)
            self._records.pause_all("")
            return was_paused
        found: list[bool] = []

        def change(state: BucketState) -> bool:
            found.append(state.paused.pop(ALL if action is None else str(action), None) is not None)
            return found[-1]

        self._change(bucket, change)
        return found[-1]

    def set_cadence(self, bucket: str, action: ActionKey | None, cadence: Cadence) -> bool:
        """Have walks begin so for an action of the bucket, or for all that have no cadence of their own; an
        empty cadence is the default again. Returns True if that is a change.

        A walk looks at all rules of its bucket, so one begins as soon as it is time for any action. Walks by
        hand, at a date, after a loss, and those with which actions begin are not delayed.
        """
        rules = self._worker.target.rules(bucket)
        if action is not None and not any(action in rule.actions() for rule in rules):
            raise Refused(f"no rule of {bucket} has the action {action}; `status` lists them")
        name = ALL if action is None else str(action)
        found: list[bool] = []

        def change(state: BucketState) -> bool:
            before = state.cadences.pop(name, Cadence())
            if cadence != Cadence():
                state.cadences[name] = cadence
            found.append(before != cadence)
            return found[-1]

        self._change(bucket, change)
        return found[-1]

    def run_now(self, bucket: str | None = None) -> list[str]:
        """Have the bucket walked, or all; returns which."""
        if paused_for := self._records.control().paused_for:
            raise Refused(f"everything is paused ({paused_for}); end the pause first")
        buckets = [bucket] if bucket is not None else list(self._worker.target.buckets())
        now_ns = self._now_ns()

        def change(state: BucketState) -> bool:
            state.wanted_ns = max(state.wanted_ns, now_ns)
            return True

        for one in buckets:
            self._records.change_bucket(one, change)
        self._records.wake()
        return buckets

    # Returning to events.

    def reseed(
        self,
        *,
        delay_ns: int | None = None,
        bucket: str | None = None,
        is_lost_accepted: bool = False,
        reason: str = "",
        author: str = "",
    ) -> list[Reseeded]:
        """Return actions that were left to scans to events, each by a walk that moves its cursors back.

        Of one delay, or of all. The other actions of the delay look again at what they have passed, once the
        walk ends. Where the log lost events the operator has to accept that, with a reason; then the cursors
        of vanished shards go, and an action returns once it needs nothing that these held.
        """
        chosen = [one for one in self._left_to_scans() if bucket in (None, one[0].bucket)]
        if delay_ns is not None:
            chosen = [one for one in chosen if delay_ns in self._delays(one[0])]
        if not chosen:
            raise Refused("no such action is left to scans; the status shows which are, and why")
        lost = [action for action, why in chosen if why is Degraded.LOST_LOG]
        if lost and not (is_lost_accepted and reason):
            raise Refused(
                f"the log lost events of {len(lost)} of these actions; accept that, with a reason, "
                "or name others"
            )
        self._refuse_blocked([action for action, _ in chosen])
        if lost:
            Shards(self._worker).accept(reason, author)
        done = []
        for action, why in chosen:
            self._change(action.bucket, self._anew(action, why))
            done.append(Reseeded(action.bucket, str(action.key), why))
        return done

    def _left_to_scans(self) -> Iterator[tuple[Action, Degraded]]:
        """Those that an operator may return; what the log is too young for returns by itself."""
        states: dict[str, BucketState] = {}
        for action in self._worker.snapshot().actions.values():
            if action.bucket not in states:
                states[action.bucket] = self._records.bucket(action.bucket)
            state = states[action.bucket].actions.get(str(action.key))
            returns = (Degraded.NONE, Degraded.RETENTION_BELOW_HORIZON)
            if state is not None and state.mode is Mode.SCAN_ONLY and state.reason not in returns:
                yield action, state.reason

    def _anew(self, action: Action, why: Degraded) -> Callable[[BucketState], bool]:
        def change(state: BucketState) -> bool:
            found = state.actions.get(str(action.key))
            if found is None or found.reason is not why:
                return False
            # Scans enforce it until the walk ends.
            state.actions[str(action.key)] = self._worker.safeguards.forced_reseed(found)
            return True

        return change

    def _refuse_blocked(self, actions: list[Action]) -> None:
        blocked = {one.stream.key: one for one in self._blockers.every()}
        for action in actions:
            for shard in self._worker.log.shards():
                for key in cursors.keys_of(action, shard, self._worker.timing):
                    if key in blocked:
                        raise Refused(
                            f"{cursors.name_of(action)} waits behind blocker {blocked[key].id}; "
                            "retry, resume or quarantine it first"
                        )

    # Parts.

    def _delays(self, action: Action) -> frozenset[int]:
        return delays(action.rule, action.key.kind, self._worker.timing)

    def _action(self, name: str) -> Action | None:
        found = self._worker.snapshot().actions.values()
        return next((one for one in found if cursors.name_of(one) == name), None)

    def _change(self, bucket: str, change: Callable[[BucketState], bool]) -> None:
        self._records.change_bucket(bucket, change)
        self._records.wake()

    def _now_ns(self) -> int:
        return self._worker.context.env.now_ns()
