"""The walk of a bucket: how actions begin, and what looks for all that events have missed.

A walk deletes what is due and leaves what is not. It goes on after a crash at the last page that was done.
When it ends, the cursors of the actions that begin with it are moved back to before its beginning and name
them, each in one write. Only then does the state of the bucket call the actions complete, in one write. An
action that the state calls complete and that a cursor does not name has lost its place, and begins again.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from fencepost.impl.cursor import Cursor
from fencepost.impl.lease import Fenced
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import WHOLE, Item
from fencepost.impl.lifecycle.documents import DAMAGED
from fencepost.impl.lifecycle.engine import Action, Snapshot
from fencepost.impl.lifecycle.expiration import Evaluation
from fencepost.impl.lifecycle.ordered_map import in_order
from fencepost.impl.lifecycle.policy import Degraded, Kind, Mode, decide_mode, scan_every_ns
from fencepost.impl.lifecycle.records import ActionState, BucketState, WalkState, without_beginning
from fencepost.impl.lifecycle.shards import Departed, Shards
from fencepost.impl.lifecycle.target import Unavailable, Unworkable
from fencepost.impl.lifecycle.worker import Failure, Handled, Worker

Served = Mapping[str, Container[str]]
RETURNING = (Degraded.RETENTION_BELOW_HORIZON, Degraded.LOST_LOG)
"""Reasons that end by themselves, once the log reaches back far enough for a walk to begin the action."""


class _Everything:
    """The names in a cursor that cannot be read: its actions keep their places until it is repaired."""

    def __contains__(self, _: object) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Prepared:
    snapshot: Snapshot
    actions: Mapping[str, list[Action]]
    """By bucket."""
    served: Served
    """The names in each cursor."""


class Walks:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.context = worker.context
        self.records = worker.records
        self.timing = worker.timing
        self.shards = Shards(worker)
        self._known: Sequence[str] = ()
        """The shards of the log, as an action that begins sees them."""
        self._departed = Departed()
        """The others that there were."""

    def run(self) -> None:
        """Walk every bucket that needs it. Raise the first error of a bucket after the turns of all."""
        prepared = self.prepare()
        errors: list[Exception] = []
        for bucket in self.worker.target.buckets():
            try:
                self.walk(bucket, prepared)
            except (Unavailable, Unworkable, *DAMAGED) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def prepare(self) -> Prepared:
        """Read the parts that the walks of all buckets share."""
        self._look_at_shards()
        snapshot = self.worker.snapshot()
        served: dict[str, Container[str]] = {}
        for stream in self.worker.streams():
            cursor = Cursor(self.context, stream.key, pace=cursors.PACE)
            try:
                cursor.start()
            except DAMAGED:
                served[stream.key] = _Everything()
            else:
                served[stream.key] = cursor.serves
        by_bucket: dict[str, list[Action]] = {}
        for action in snapshot.actions.values():
            by_bucket.setdefault(action.bucket, []).append(action)
        return Prepared(snapshot, by_bucket, served)

    def _look_at_shards(self) -> None:
        self._known = list(self.worker.log.shards())
        self._departed = self.shards.departed(self._known)

    def walk(self, bucket: str, prepared: Prepared) -> Handled:
        stream = f"walk/{bucket}"
        try:
            if not self.worker.leases.hold(stream):
                return Handled.ELSEWHERE
            if self.worker.is_blocked(stream) and not self._is_readable_again(bucket, prepared.snapshot):
                return Handled.BLOCKED
            if bucket in prepared.snapshot.unreadable:
                raise Unworkable(str(prepared.snapshot.unreadable[bucket]))
            return self._walk(bucket, prepared, stream)
        except Fenced:
            self.worker.leases.lost(stream)
            return Handled.ELSEWHERE
        except (Unavailable, Unworkable, *DAMAGED) as error:
            failure = error if isinstance(error, Failure) else Unworkable(str(error))
            if self.worker.failed(stream, Item(WHOLE, bucket, ""), failure) is Handled.BLOCKED:
                return Handled.BLOCKED
            raise  # a round shows it, and goes on with the next bucket

    def _is_readable_again(self, bucket: str, snapshot: Snapshot) -> bool:
        """Return True, and clear the blocker, if it was of the bucket as a whole and that can be listed now.

        Nothing is passed by that. The blocker of an object stays, for an operator.
        """
        blocker = self.worker.blockers.of(f"walk/{bucket}")
        if blocker is None or blocker.item.name != WHOLE or not self.is_readable(bucket, snapshot):
            return False
        self.worker.blockers.clear(blocker)
        return True

    def is_readable(self, bucket: str, snapshot: Snapshot) -> bool:
        """Return True if the rules and the state of the bucket can be read, and its keys listed."""
        if bucket in snapshot.unreadable:
            return False
        try:
            self.worker.target.page(bucket, "")
        except (Unavailable, Unworkable):
            return False
        return True

    def _walk(self, bucket: str, prepared: Prepared, stream: str) -> Handled:
        enabled = [one for one in prepared.actions.get(bucket, ()) if one.is_enforced]
        state = self._begin(bucket, enabled, prepared.served)
        while state.walk is not None:
            keys = self.worker.target.page(bucket, state.walk.after)
            if not keys:
                self._end(bucket, state.walk, enabled)
                break
            handled = self._visit_all(bucket, keys, prepared.snapshot, stream, state.walk)
            if handled is not Handled.RESOLVED:
                return handled
            state = self._checkpoint(bucket, state.walk, keys[-1])
            if not self.worker.proceed():
                return Handled.STOPPED
        return Handled.RESOLVED

    def _visit_all(
        self, bucket: str, keys: Sequence[str], snapshot: Snapshot, stream: str, walk: WalkState
    ) -> Handled:
        failing = self.worker.blockers.failing(stream)

        def work(key: str) -> Evaluation | Failure:
            return self.look(bucket, key, snapshot)

        results = in_order(keys, work, pool=self.worker.pool, most=self.worker.concurrency)
        with closing(results):
            for key, result in results:
                handled = self._settle(bucket, key, result, stream, walk)
                if handled is not Handled.RESOLVED:
                    return handled
                if self.worker.safeguards.count_cleared(failing is not None and failing <= key):
                    self.worker.blockers.succeeded(stream)
                    failing = None
        return Handled.RESOLVED

    def look(self, bucket: str, key: str, snapshot: Snapshot) -> Evaluation | Failure:
        try:
            return self.worker.expirer.expire(bucket, key, snapshot.of_path(bucket, key))
        except (Unavailable, Unworkable) as error:
            return error

    def _settle(
        self, bucket: str, key: str, result: Evaluation | Failure, stream: str, walk: WalkState
    ) -> Handled:
        if not isinstance(result, Evaluation):
            return self.worker.failed(stream, Item(key, bucket, key), result, walk.began_ns)
        if not result.stale:
            return Handled.RESOLVED
        # The rule may come back; its action must not count this key as done.
        gone = frozenset(str(one.key) for one in result.stale)
        self._change(bucket, lambda state: without_beginning(state, gone))
        return Handled.ANEW

    def _change(self, bucket: str, change: Callable[[BucketState], bool]) -> BucketState:
        """Under the epoch of the lease: a fenced worker changes nothing."""
        epoch = self.worker.safeguards.worker_epoch(self.worker.leases.epoch(f"walk/{bucket}"))
        return self.records.change_bucket(bucket, lambda state: state.fence(epoch) | change(state))

    # Beginning.

    def _begin(self, bucket: str, enabled: list[Action], served: Served) -> BucketState:
        """Begin a walk if one is needed, or return to the one under way; an action of a rule that is gone
        has no state."""
        now_ns = self.context.env.now_ns()

        def change(state: BucketState) -> bool:
            known = {str(one.key) for one in enabled}
            # A paused action keeps the reason why it is left to scans. One that events drove begins anew.
            left = {
                key: one
                for key, one in state.actions.items()
                if key in known or (state.is_paused(key) and one.mode is Mode.SCAN_ONLY)
            }
            for one in enabled:
                left.update(self._gated(one, left.get(str(one.key))))
            is_changed = left != state.actions
            state.actions = left
            new = {str(one.key) for one in enabled if self.begins(one, left.get(str(one.key)), served)}
            is_changed |= state.walk is not None and without_beginning(state, state.walk.beginning - known)
            walk = state.walk
            if walk is not None and new <= walk.beginning:
                return is_changed
            if not new and not self._is_scan_due(state, enabled, now_ns):
                return is_changed
            state.walk = WalkState(now_ns, frozenset(new))
            return True

        return self._change(bucket, change)

    def begins(self, action: Action, state: ActionState | None, served: Served) -> bool:
        if state is None or not state.is_complete:
            return True
        if state.mode is Mode.EVENT_DRIVEN:
            return not self.worker.safeguards.seed_before_activate(self._is_served(action, served))
        # Where the log reaches back far enough again, a walk that begins now sees all that it has not.
        is_proven = self._mode(action, self.context.env.now_ns())[0] is Mode.EVENT_DRIVEN
        returns = state.mode is Mode.SCAN_ONLY and state.reason in RETURNING
        return returns and self.worker.safeguards.returns_by_walk(is_proven)

    def _is_served(self, action: Action, served: Served) -> bool:
        wanted = [
            key for shard in self.worker.log.shards() for key in cursors.keys_of(action, shard, self.timing)
        ]
        return all(cursors.name_of(action) in served.get(key, ()) for key in wanted)

    def _is_scan_due(self, state: BucketState, enabled: list[Action], now_ns: int) -> bool:
        if not enabled or state.walk is not None:
            return False
        last_ns = state.walked_ns or 0
        if last_ns < state.wanted_ns <= now_ns:
            return True
        for action in enabled:
            date_ns = action.rule.expiration_date_ns
            if action.key.kind is Kind.EXPIRATION_DATE and date_ns is not None:
                if now_ns < date_ns:
                    continue
                if last_ns < date_ns:
                    return True
            every_ns = scan_every_ns(action.rule, action.key.kind, self.timing)
            known = state.actions.get(str(action.key))
            if known is not None and known.mode is Mode.SCAN_ONLY and known.reason is Degraded.LOST_LOG:
                every_ns = min(every_ns, self.timing.day_ns)  # until events drive it again
            if now_ns >= last_ns + every_ns:
                return True
        return False

    def _gated(self, action: Action, state: ActionState | None) -> dict[str, ActionState]:
        """An action that events drive is left to scans if the log keeps them for less time now."""
        if state is None or state.mode is not Mode.EVENT_DRIVEN:
            return {}
        kept_ns = self.worker.log.retention_ns
        mode, reason = decide_mode(action.rule, action.key.kind, retention_ns=kept_ns, timing=self.timing)
        return (
            {} if mode is Mode.EVENT_DRIVEN else {str(action.key): replace(state, mode=mode, reason=reason)}
        )

    def _mode(self, action: Action, since_ns: int) -> tuple[Mode, Degraded]:
        """Return the mode of an action whose walk began then: it needs the events of a time before."""
        log, kind = self.worker.log, action.key.kind
        if kind is Kind.ABORT_MPU and not log.has_uploads:
            return Mode.SCAN_ONLY, Degraded.NONE
        begins = [log.begins_ns(shard) for shard in self._known]
        begins_ns = max([*begins, self._departed.until_ns])
        mode, reason = decide_mode(
            action.rule,
            kind,
            retention_ns=log.retention_ns,
            reaches_back_ns=since_ns - begins_ns if begins_ns else None,
            timing=self.timing,
        )
        if mode is Mode.EVENT_DRIVEN and self._departed.is_lost:
            return Mode.SCAN_ONLY, Degraded.LOST_LOG
        return mode, reason

    # Going on and ending.

    def _checkpoint(self, bucket: str, walk: WalkState, last: str) -> BucketState:
        def change(state: BucketState) -> bool:
            if state.walk is None or state.walk.began_ns != walk.began_ns or state.walk.after >= last:
                return False  # another worker is further, or has begun another
            state.walk = replace(state.walk, after=last)
            return True

        return self._change(bucket, change)

    def _end(self, bucket: str, walk: WalkState, enabled: list[Action]) -> None:
        # One may have vanished since the walk began: each counts as there, and gets cursors, or as departed.
        self._look_at_shards()
        beginning = [one for one in enabled if str(one.key) in walk.beginning]
        modes = {str(one.key): self._mode(one, walk.began_ns) for one in beginning}
        driven = [one for one in beginning if modes[str(one.key)][0] is Mode.EVENT_DRIVEN]
        guards = self.worker.safeguards
        rewound = guards.rewind_for_new_only(driven, enabled)
        began_ns = guards.walk_began(walk.began_ns, self.context.env.now_ns())
        cursors.seed(self.context, rewound, self._known, began_ns, self.timing, guards)

        def change(state: BucketState) -> bool:
            if state.walk is None or state.walk.began_ns != walk.began_ns:
                return False
            for key, (mode, reason) in modes.items():
                state.actions[key] = ActionState(mode, reason, is_complete=True)
            state.walk, state.walked_ns = None, walk.began_ns
            return True

        self._change(bucket, change)


def run(worker: Worker) -> None:
    """One pass of everything."""
    Walks(worker).run()
    worker.sweep_all()
    worker.drain()
