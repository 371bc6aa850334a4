"""The walk of a bucket: how actions begin, and what looks for all that events have missed.

A walk lists what is below the prefixes of rules, deletes what is due and leaves what is not. It has parts,
each a range of keys with a place, which is saved every few seconds: after a crash the walk goes on there. A
walk begins with one part. A worker that finds all parts taken divides one of them and works on the second
half, so any number of workers share a walk. One of them leads it: it begins the walk, and ends it when no
part is left.

When it ends, the cursors of the actions that begin with it are moved back to before its beginning and name
them, each in one write. Only then does the state of the bucket call the actions complete, in one write. An
action that the state calls complete and that a cursor does not name has lost its place, and begins again.
"""

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial

from fencepost.impl.cursor import Cursor
from fencepost.impl.lease import Fenced
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import WHOLE, Item
from fencepost.impl.lifecycle.documents import DAMAGED
from fencepost.impl.lifecycle.engine import Action, Snapshot
from fencepost.impl.lifecycle.expiration import Evaluation
from fencepost.impl.lifecycle.ordered_map import in_order
from fencepost.impl.lifecycle.policy import SECOND_NS, Degraded, Kind, Mode, decide_mode, scan_every_ns
from fencepost.impl.lifecycle.ranges import middle
from fencepost.impl.lifecycle.records import ActionState, BucketState, Part, WalkState, without_beginning
from fencepost.impl.lifecycle.shards import Departed, Shards
from fencepost.impl.lifecycle.target import Listed, Standing, Unavailable, Unworkable
from fencepost.impl.lifecycle.worker import Failure, Handled, Worker

FAILURES = (Unavailable, Unworkable, *DAMAGED)
PARTS_MAX = 64
"""Our own limit on the parts of one walk: they lie in one record."""
Served = Mapping[str, Container[str]]
RETURNING = (Degraded.RETENTION_BELOW_HORIZON, Degraded.LOST_LOG)
"""Reasons that end by themselves, once the log reaches back far enough for a walk to begin the action."""


class _Everything:
    """The names in a cursor that cannot be read: its actions keep their places until it is repaired."""

    def __contains__(self, _: object) -> bool:
        return True


class _Counted(Exception):
    """A failure of the bucket as a whole that was counted at the stream in which it happened."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@dataclass(frozen=True, slots=True)
class Prepared:
    snapshot: Snapshot
    actions: Mapping[str, list[Action]]
    """By bucket."""
    served: Served
    """The names in each cursor."""
    states: Mapping[str, BucketState]
    """The records of buckets."""
    blocked: Container[str]
    """The streams that have a blocker."""


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
            except FAILURES as error:
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
        blocked = {one.stream.key for one in self.worker.blockers.every()}
        return Prepared(snapshot, by_bucket, served, self.worker.states, blocked)

    def _look_at_shards(self) -> None:
        self._known = list(self.worker.log.shards())
        self._departed = self.shards.departed(self._known)

    def walk(self, bucket: str, prepared: Prepared) -> Handled:
        """Begin, work on and end the walk of a bucket; or work on parts of it beside another worker.

        Raise the error of a bucket that cannot be worked on as a whole, until that is blocked.
        """
        stream = stream_of(bucket)
        try:
            return self._walk(bucket, prepared, stream)
        except Fenced:
            self.worker.leases.lost(stream)
            return Handled.ELSEWHERE
        except _Counted as failure:
            raise failure.error from None

    def _walk(self, bucket: str, prepared: Prepared, stream: str) -> Handled:
        if stream not in prepared.blocked and self._is_idle(bucket, prepared):
            return Handled.RESOLVED  # without a lease, which costs writes
        try:
            if not self._is_free(bucket, stream, prepared.snapshot):
                return self._join(bucket, prepared, Handled.BLOCKED)
            if not self.worker.leases.hold(stream):
                return self._join(bucket, prepared, Handled.ELSEWHERE)
            if bucket in prepared.snapshot.unreadable:
                raise Unworkable(str(prepared.snapshot.unreadable[bucket]))
            return self._lead(bucket, prepared)
        except FAILURES as error:
            if not self.worker.leases.is_held(stream):
                raise  # who leads the walk counts its failures
            return self._failed(bucket, stream, error)

    def _failed(self, bucket: str, stream: str, error: Exception) -> Handled:
        """Count a failure of the bucket as a whole; raise it unless the stream is blocked now."""
        failure = error if isinstance(error, Failure) else Unworkable(str(error))
        if self.worker.failed(stream, Item(WHOLE, bucket, ""), failure) is Handled.BLOCKED:
            return Handled.BLOCKED
        raise _Counted(error)  # a round shows it, and goes on with the next bucket

    def _is_free(self, bucket: str, stream: str, snapshot: Snapshot) -> bool:
        """Return True if the stream is not blocked; or if that was for the bucket as a whole, which can be
        listed now. Then the blocker is cleared.

        Nothing is passed by that. The blocker of an object stays, for an operator.
        """
        if not self.worker.is_blocked(stream):
            return True
        blocker = self.worker.blockers.of(stream)
        if blocker is None or blocker.item.name != WHOLE or not self.worker.leases.hold(stream):
            return False
        if not self.is_readable(bucket, snapshot):
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

    def _is_idle(self, bucket: str, prepared: Prepared) -> bool:
        """Return True if no walk is under way or needed, by the record as it was read with the rules."""
        state = prepared.states.get(bucket)
        if state is None or state.walk is not None:
            return False
        enabled = [one for one in prepared.actions.get(bucket, ()) if one.is_enforced]
        return not self._beginning(enabled, prepared.served)(state)

    def _lead(self, bucket: str, prepared: Prepared) -> Handled:
        enabled = [one for one in prepared.actions.get(bucket, ()) if one.is_enforced]
        state = self._begin(bucket, enabled, prepared.served)
        if state.walk is None:
            return Handled.RESOLVED
        handled, walk = self._parts(bucket, state.walk, prepared.snapshot)
        if walk is None or not self.worker.safeguards.every_part(not walk.parts):
            return handled
        self._end(bucket, walk, enabled)
        self.worker.leases.release(stream_of(bucket))  # not renewed until the next walk
        return Handled.RESOLVED

    def _join(self, bucket: str, prepared: Prepared, otherwise: Handled) -> Handled:
        """Work on parts of the walk that another worker leads, if there are any to have."""
        walk = self.records.bucket(bucket).walk
        if walk is None:
            return otherwise

        def read() -> Snapshot:
            return self.worker.snapshot([bucket])

        # A rule that begins with the walk may be newer than the rules that this worker has read.
        snapshot = self.worker.safeguards.rules_after_walk(prepared.snapshot, read)
        if bucket in snapshot.unreadable:
            return otherwise  # without its rules, its objects would be passed
        handled, left = self._parts(bucket, walk, snapshot)
        if left is not None and not left.parts and walk.parts:
            self.records.wake()  # the worker that leads ends the walk
        return handled

    # The parts of a walk.

    def _parts(self, bucket: str, walk: WalkState, snapshot: Snapshot) -> tuple[Handled, WalkState | None]:
        """Work on what no other worker has; returns the walk as it is then, None if it is another one."""
        while (
            part := self._take(bucket, walk, snapshot) or self._divide(bucket, walk, snapshot)
        ) is not None:
            stream = stream_of(bucket, part.start)
            try:
                handled, state = self._walk_part(bucket, walk, part, snapshot)
            except Fenced:
                self.worker.leases.lost(stream)
                return Handled.ELSEWHERE, None
            except FAILURES as error:
                return self._failed(bucket, stream, error), walk
            if state.walk is None or state.walk.began_ns != walk.began_ns:
                return Handled.ANEW, None
            walk = state.walk
            if handled is not Handled.RESOLVED:
                return handled, walk
            if part.start:
                self.worker.leases.release(stream)
        if not walk.parts:
            return Handled.RESOLVED, walk
        is_blocked = any(self.worker.is_blocked(stream_of(bucket, one.start)) for one in walk.parts)
        return (Handled.BLOCKED if is_blocked else Handled.ELSEWHERE), walk

    def _take(self, bucket: str, walk: WalkState, snapshot: Snapshot) -> Part | None:
        for part in walk.parts:
            stream = stream_of(bucket, part.start)
            if self._is_free(bucket, stream, snapshot) and self.worker.leases.hold(stream):
                return part
        return None

    def _divide(self, bucket: str, walk: WalkState, snapshot: Snapshot) -> Part | None:
        """Take over the second half of a part that another worker has, and has not finished for a while."""
        lanes = snapshot.prefixes(bucket)

        def first_behind(text: str) -> str | None:
            found = (self.worker.target.first(bucket, text, lane) for lane in _behind(lanes, text))
            return next((key for key in found if key is not None), None)

        for part in walk.parts if len(walk.parts) < PARTS_MAX else ():
            if part.after == part.start or self.worker.is_blocked(stream_of(bucket, part.start)):
                continue
            half = middle(first_behind, part.after, part.until)
            if half is None:
                continue
            new = Part(half, part.until, half)
            if self._split(bucket, walk, part, new) and self.worker.leases.hold(stream_of(bucket, half)):
                return new
        return None

    def _split(self, bucket: str, walk: WalkState, part: Part, new: Part) -> bool:
        """Record both halves in one write, unless the first worker is already past its own."""
        is_split: list[bool] = []

        def change(state: BucketState, *, is_whole: bool = True) -> bool:
            found = state.walk.part(part.start) if state.walk and self._is_same(state, walk) else None
            is_split.append(found is not None and found.until == part.until and found.after < new.start)
            if not is_split[-1] or found is None or state.walk is None:
                return False
            first = replace(found, until=new.start)
            state.walk = state.walk.with_part(part.start, first, *((new,) if is_whole else ()))
            return True

        def add(state: BucketState) -> bool:
            if state.walk is None:
                return False
            state.walk = replace(state.walk, parts=(*state.walk.parts, new))
            return True

        if self.worker.safeguards.one_write_split(True):
            self.records.change_bucket(bucket, change)
        else:
            self.records.change_bucket(bucket, partial(change, is_whole=False))
            self.records.change_bucket(bucket, add)
        return is_split[-1]

    def _is_same(self, state: BucketState, walk: WalkState) -> bool:
        return state.walk is not None and state.walk.began_ns == walk.began_ns

    def _walk_part(
        self, bucket: str, walk: WalkState, part: Part, snapshot: Snapshot
    ) -> tuple[Handled, BucketState]:
        """Visit the keys of a part, page by page. Its place is saved every few seconds and at the end."""
        stream, env = stream_of(bucket, part.start), self.context.env
        lanes, has_uploads = snapshot.prefixes(bucket), snapshot.has_uploads(bucket)
        failing = self.worker.blockers.failing(stream)
        after, until = part.after, part.until
        saved_ns = env.monotonic_ns()
        while True:
            page, lane = self._page(bucket, after, until, lanes, has_uploads=has_uploads)
            handled = self._visit_all(bucket, page, snapshot, stream, walk, after, lane)
            if handled is Handled.RESOLVED and page:
                after = page[-1].key
            is_over = handled is Handled.RESOLVED and not page
            is_past = handled is Handled.RESOLVED and failing is not None and (is_over or failing <= after)
            if self.worker.safeguards.count_cleared(is_past):
                self.worker.blockers.succeeded(stream)
                failing = None
            if handled is Handled.RESOLVED and not is_over and not self.worker.proceed():
                handled = Handled.STOPPED
            is_due = env.monotonic_ns() - saved_ns >= self.worker.checkpoint_s * SECOND_NS
            if is_over or is_due or handled is not Handled.RESOLVED:
                state = self._checkpoint(bucket, walk, part, after, is_over=is_over)
                found = state.walk.part(part.start) if state.walk and self._is_same(state, walk) else None
                if found is None:
                    return Handled.RESOLVED if handled is Handled.STOPPED else handled, state
                if handled is not Handled.RESOLVED or not self.worker.leases.hold(stream):
                    return handled if handled is not Handled.RESOLVED else Handled.ELSEWHERE, state
                until, saved_ns = found.until, env.monotonic_ns()

    def _page(
        self, bucket: str, after: str, until: str, lanes: Sequence[str], *, has_uploads: bool
    ) -> tuple[Sequence[Listed], str]:
        """The next keys that rules have prefixes of, and the prefix; none at the end of the part."""
        for lane in _behind(lanes, after):
            page = self.worker.target.page(bucket, after, lane, uploads=has_uploads)
            found = [one for one in page if not until or one.key <= until]
            if found or len(found) < len(page):
                return found, lane
        return (), ""

    def _visit_all(
        self,
        bucket: str,
        page: Sequence[Listed],
        snapshot: Snapshot,
        stream: str,
        walk: WalkState,
        after: str,
        lane: str,
    ) -> Handled:
        """Delete what is due on a page, which is the one of this lane behind `after`."""
        expirer = self.worker.expirer
        listed = [(one, expirer.may_delete(one, snapshot.of_path(bucket, one.key))) for one in page]
        wanted = [(one, actions) for one, actions in listed if actions]
        done: set[str] = set()
        with suppress(Unavailable, Unworkable):  # which object it was, a look at each will show
            done = expirer.expire_versions(bucket, wanted, after, lane)

        def work(item: tuple[Listed, list[Action]]) -> Evaluation | Failure:
            one, actions = item
            return self.look(bucket, one.key, actions, one.shown if one.is_look else None)

        left = [item for item in wanted if item[0].key not in done]
        results = in_order(left, work, pool=self.worker.pool, most=self.worker.concurrency)
        with closing(results):
            for (one, _), result in results:
                handled = self._settle(bucket, one.key, result, stream, walk)
                if handled is not Handled.RESOLVED:
                    return handled
        return Handled.RESOLVED

    def look(
        self, bucket: str, key: str, actions: Sequence[Action], listed: Standing | None = None
    ) -> Evaluation | Failure:
        try:
            return self.worker.expirer.expire(bucket, key, actions, listed=listed)
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
        self.records.change_bucket(bucket, lambda state: without_beginning(state, gone))
        return Handled.ANEW

    def _change(self, bucket: str, change: Callable[[BucketState], bool]) -> BucketState:
        """Under the epoch of the lease: a fenced worker changes nothing."""
        epoch = self.worker.safeguards.worker_epoch(self.worker.leases.epoch(stream_of(bucket)))
        return self.records.change_bucket(bucket, lambda state: state.fence(epoch) | change(state))

    # Beginning.

    def _begin(self, bucket: str, enabled: list[Action], served: Served) -> BucketState:
        """Begin a walk if one is needed, or return to the one under way; an action of a rule that is gone
        has no state."""
        return self._change(bucket, self._beginning(enabled, served))

    def _beginning(self, enabled: list[Action], served: Served) -> Callable[[BucketState], bool]:
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

        return change

    def begins(self, action: Action, state: ActionState | None, served: Served) -> bool:
        if state is None or not state.is_complete:
            return True
        if state.mode is Mode.EVENT_DRIVEN:
            return not self.worker.safeguards.seed_before_activate(self._is_served(action, served))
        # Where the log reaches back far enough again, a walk that begins now sees all that it has not.
        if state.mode is not Mode.SCAN_ONLY or state.reason not in RETURNING:
            return False
        is_proven = self._mode(action, self.context.env.now_ns())[0] is Mode.EVENT_DRIVEN
        return self.worker.safeguards.returns_by_walk(is_proven)

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
            cadence = state.cadence(str(action.key))
            every_ns = cadence.every_ns or scan_every_ns(action.rule, action.key.kind, self.timing)
            known = state.actions.get(str(action.key))
            if known is not None and known.mode is Mode.SCAN_ONLY and known.reason is Degraded.LOST_LOG:
                every_ns = min(every_ns, self.timing.day_ns)  # until events drive it again
            if now_ns >= last_ns + every_ns and cadence.is_hour(now_ns):
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

    def _checkpoint(
        self, bucket: str, walk: WalkState, part: Part, after: str, *, is_over: bool
    ) -> BucketState:
        """Save the place of a part, or remove it when it is done. Returns the record as it is then."""
        guards = self.worker.safeguards
        epoch = guards.worker_epoch(self.worker.leases.epoch(stream_of(bucket, part.start)))

        def change(state: BucketState) -> bool:
            if state.walk is None or not guards.same_walk(self._is_same(state, walk)):
                return False
            found = state.walk.part(part.start)
            if found is None:
                return False
            place = replace(found.fenced(epoch), after=max(found.after, after))
            if place == found and not is_over:
                return False
            is_done = is_over or bool(found.until and after >= found.until)
            state.walk = state.walk.with_part(part.start, *(() if is_done else (place,)))
            return True

        return self.records.change_bucket(bucket, change)

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
            if not guards.every_part(not state.walk.parts):
                return False
            for key, (mode, reason) in modes.items():
                state.actions[key] = ActionState(mode, reason, is_complete=True)
            state.walk, state.walked_ns = None, walk.began_ns
            return True

        self._change(bucket, change)


def stream_of(bucket: str, start: str = "") -> str:
    """Return the stream of the walk of a bucket, which leads it and is its first part; or of another part."""
    return f"walk/{bucket}" + (f"/{hashlib.sha256(start.encode()).hexdigest()[:16]}" if start else "")


def _behind(lanes: Sequence[str], text: str) -> list[str]:
    """The prefixes below which there may be keys behind this text."""
    return [lane for lane in lanes if lane > text or text.startswith(lane)]


def run(worker: Worker) -> None:
    """One pass of everything."""
    Walks(worker).run()
    worker.sweep_all()
    worker.drain()
