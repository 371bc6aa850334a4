"""The worker of a lifecycle: walks what begins, sweeps the log behind the ages and close behind the clock.

    worker = Worker(context, target, log)
    worker.run()                # one pass of everything; repeat it

A sweep works for the actions that its cursor names, and for no other: an action that is not named yet is set
up by its walk, which moves the cursor back in the same write. If the rule of a name is gone or left to scans,
the name is removed from the cursor before the sweep passes an event. So the action begins anew if it comes
back. Every answer but "resolved" ends the sweep in front of its event.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from enum import Enum
from itertools import islice
from urllib.parse import unquote

from fencepost.impl.context import Context
from fencepost.impl.cursor import Cursor
from fencepost.impl.lease import Fenced
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import WHOLE, Blockers, Item, Stream
from fencepost.impl.lifecycle.documents import DAMAGED, FOLDER
from fencepost.impl.lifecycle.engine import (
    Action,
    Class,
    Snapshot,
    State,
    classify,
    compile_policies,
)
from fencepost.impl.lifecycle.expiration import Evaluation, Expirer
from fencepost.impl.lifecycle.leases import Alone
from fencepost.impl.lifecycle.log import Event, Log
from fencepost.impl.lifecycle.ordered_map import in_order
from fencepost.impl.lifecycle.policy import (
    STANDARD_TIMING,
    ActionKey,
    Degraded,
    Mode,
    Rule,
    Timing,
    event_log_horizon,
)
from fencepost.impl.lifecycle.records import ActionState, BucketState, Pending, Records
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.target import Halted, Live, Target, Unavailable, Unworkable
from fencepost.impl.notifications.messages import UNKNOWN_SIZE

PENDING = f"{FOLDER}pending/"
PENDING_MAX = 50_000
TRIES_MAX = 30
TRIES_NS = 4 * 3600 * 10**9
FATAL_TRIES_MAX = 5
BATCH = 1_000
"""Events that are read at a time."""
CHECKPOINT_S = 5.0
"""Seconds between two saves of the place of a walk."""
CONCURRENCY = 16
"""Objects that are looked at, and deleted, at a time."""

Failure = Unavailable | Unworkable


class Handled(Enum):
    RESOLVED = "resolved"
    WAIT = "wait"
    """The object's own time is later than the event's, so its age is not reached."""
    RETRY = "retry"
    BLOCKED = "blocked"
    ANEW = "anew"
    """The cursor has to forget a name first."""
    STOPPED = "stopped"
    """Its time is over, or the service ends; the next pass goes on."""
    ELSEWHERE = "elsewhere"
    """Another worker has the lease of the stream, or has taken it over."""


class Worker:
    def __init__(
        self,
        context: Context,
        target: Target,
        log: Log,
        timing: Timing = STANDARD_TIMING,
        safeguards: Safeguards = STANDARD,
    ) -> None:
        self.context = context
        self.target = target
        self.log = log
        self.timing = timing
        self.records = Records(context)
        self.blockers = Blockers(context)
        self.safeguards = safeguards
        self.expirer = Expirer(target, context.env, timing, safeguards)
        self.pending_max = PENDING_MAX
        self.leases = Alone()
        self.pool: Executor | None = None
        """Looks at objects one after the other without."""
        self.concurrency = CONCURRENCY
        """The number of objects that are looked at, and deleted, at a time."""
        self.proceed: Callable[[], bool] = lambda: True
        """Called between two items of a stream; False ends the pass."""
        self.checkpoint_s = CHECKPOINT_S
        self.tries_max, self.fatal_tries_max = TRIES_MAX, FATAL_TRIES_MAX
        self.states: dict[str, BucketState] = {}
        """The records of buckets as the last snapshot read them."""
        self._number = 0
        self._compiled: (
            tuple[dict[str, Sequence[Rule]], dict[tuple[str, ActionKey], State], Snapshot] | None
        ) = None
        self._pending: Counter[str] = Counter()

    def beside(self, leases: Alone) -> "Worker":
        """Return a worker with leases of its own for another thread; both count together."""
        other = Worker(self.context, self.target, self.log, self.timing, self.safeguards)
        other.leases, other.expirer = leases, self.expirer
        other.pool, other.concurrency, other.checkpoint_s = self.pool, self.concurrency, self.checkpoint_s
        other.pending_max = self.pending_max
        other.tries_max, other.fatal_tries_max = self.tries_max, self.fatal_tries_max
        return other

    def streams(self) -> list[Stream]:
        """Those of shards that the log has; the cursor of another shard stays as it is."""
        known = set(self.log.shards())
        found = [Stream(key) for key in self.records.keys(cursors.FOLDER)]
        return [stream for stream in found if stream.shard in known]

    def sweep_all(self) -> None:
        for stream in self.streams():
            self.sweep(stream)

    def snapshot(self, buckets: Sequence[str] | None = None) -> Snapshot:
        """Compile the policies as they are, of all buckets or of these.

        Every action that is not left to scans counts as complete: the cursors name those that they are swept
        for.
        """
        policies: dict[str, Sequence[Rule]] = {}
        states: dict[tuple[str, ActionKey], State] = {}
        unreadable: dict[str, Exception] = {}
        if buckets is None:
            self.states = {}
        for bucket in self.target.buckets() if buckets is None else buckets:
            try:
                rules, durable = tuple(self.target.rules(bucket)), self.records.bucket(bucket)
            except (Unavailable, Unworkable, *DAMAGED) as error:
                unreadable[bucket] = error
                self.states.pop(bucket, None)
                continue
            policies[bucket] = rules
            for rule in rules:
                for key in rule.actions():
                    mode = durable.mode(key) or Mode.EVENT_DRIVEN
                    states[bucket, key] = State(mode, is_complete=True, is_paused=durable.is_paused(str(key)))
            self.states[bucket] = durable
        known = self._compiled
        if known is not None and known[:2] == (policies, states):
            return replace(known[2], unreadable=unreadable) if unreadable else known[2]
        self._number += 1
        found = compile_policies(self._number, policies, states, self.timing)
        self._compiled = (policies, states, found) if buckets is None else known
        return replace(found, unreadable=unreadable)

    # Sweeps.

    def sweep(self, stream: Stream, retry: str = "") -> Handled:
        """Follow the log from the cursor up to its delay behind the clock, as it is when the sweep begins.

        `retry`: an operator has this event tried again, at which the stream is blocked; no further.
        """
        try:
            if not retry and self.is_stopped(stream):
                return Handled.BLOCKED
            if not self.leases.hold(stream.key):
                return Handled.ELSEWHERE
            return self._sweep(stream, self.cursor(stream), retry)
        except Fenced:
            self.leases.lost(stream.key)
            return Handled.ELSEWHERE
        except DAMAGED as error:
            # Its own cursor, lease or counts: the stream as a whole cannot be worked on, others can.
            if self.is_blocked(stream.key):
                return Handled.BLOCKED
            return self.failed(stream.key, Item(WHOLE, "", stream.key), Unworkable(str(error)))

    def cursor(self, stream: Stream) -> Cursor:
        epoch = self.safeguards.worker_epoch(self.leases.epoch(stream.key))
        return Cursor(self.context, stream.key, pace=cursors.PACE, epoch=epoch)

    def _sweep(self, stream: Stream, cursor: Cursor, retry: str) -> Handled:
        now_ns = self.context.env.now_ns()
        snapshot = self._start(stream, cursor)
        if not cursor.serves:
            self._pass_to(cursor, cursors.before(self.log.begins_ns(stream.shard)))
        back_ns = stream.delay_ns
        if back_ns is None:
            back_ns = self.safeguards.tag_cutoff(self.timing.small_delay_ns, snapshot.delays)
        until_ns = self.safeguards.flush_lag(now_ns - back_ns, self.log.settled_ns(stream.shard))
        handled = Handled.RESOLVED
        if cursor.serves:
            handled = self._follow(stream, cursor, snapshot, until_ns, retry)
        if handled is Handled.RESOLVED and not retry:
            self._pass_to(cursor, cursors.before(until_ns + 1))
        if handled is not Handled.ANEW:
            cursor.save()
        return handled

    def is_stopped(self, stream: Stream) -> bool:
        """Return True if the stream waits for an operator."""
        if not self.is_blocked(stream.key):
            return False
        blocker = self.blockers.of(stream.key)
        cursor = Cursor(self.context, stream.key)
        cursor.start()
        if blocker is None or blocker.item.name > cursor.position:
            return True
        # A worker that has lost its lease wrote it, after another one had succeeded.
        self.blockers.clear(blocker)
        return False

    def _start(self, stream: Stream, cursor: Cursor) -> Snapshot:
        """Read the cursor, rid of all names that it must not pass an event for."""
        while True:
            cursor.start()
            # After the cursor: of the actions that it names none is newer than the snapshot.
            snapshot = self.snapshot()
            active = {cursors.name_of(one): one for group in snapshot.groups.values() for one in group}
            known = {name for name in cursor.serves if bucket_of(name) in snapshot.unreadable}
            gone = self.unserved(cursor.serves - known, active)
            is_lost = self.is_lost(cursor.position, self.log.begins_ns(stream.shard))
            if not gone and self.safeguards.loss_degrades(is_lost):
                gone = cursor.serves
                for name in sorted(gone - known):  # the others begin anew, as their cursors do not name them
                    self.demote(active[name], Degraded.LOST_LOG)
            if not gone:
                return snapshot
            cursor.forget(gone)

    def unserved(self, names: frozenset[str], active: dict[str, Action]) -> frozenset[str]:
        return names - active.keys()

    def is_lost(self, position: str, begins_ns: int) -> bool:
        return begins_ns > 0 and position < cursors.before(begins_ns)

    def _pass_to(self, cursor: Cursor, position: str) -> None:
        if position > cursor.position:
            cursor.take(position)
            cursor.done(position)

    def _follow(
        self, stream: Stream, cursor: Cursor, snapshot: Snapshot, until_ns: int, retry: str
    ) -> Handled:
        failing = self.blockers.failing(stream.key)
        stopped: list[str] = []
        found = self._found(stream, cursor, snapshot, until_ns, retry, stopped)

        def work(one: tuple[Event, list[Action]]) -> Evaluation | Handled | Failure:
            error = unknown.get(one[0].change.bucket)
            return self._look(stream, *one) if error is None else Unworkable(str(error))

        # The events of a bucket whose rules cannot be read wait as long as the cursor serves it.
        served = {bucket_of(name) for name in cursor.serves}
        unknown = {bucket: error for bucket, error in snapshot.unreadable.items() if bucket in served}
        at_once = self.concurrency
        results = in_order(found, work, pool=self.pool, most=at_once, is_work=lambda one: bool(one[1]))
        with closing(results):
            for (event, wanted), result in results:
                handled = self._settle(stream, cursor, event, wanted, result)
                if not self.safeguards.drop_after_block(handled is Handled.RESOLVED):
                    return handled
                if self.safeguards.count_cleared(failing == event.position):
                    self.blockers.succeeded(stream.key)
                cursor.done(event.position)
        return Handled.STOPPED if stopped else Handled.RESOLVED

    def _found(
        self,
        stream: Stream,
        cursor: Cursor,
        snapshot: Snapshot,
        until_ns: int,
        retry: str,
        stopped: list[str],
    ) -> Iterator[tuple[Event, list[Action]]]:
        """The events in their order, each with the actions that it is looked at for; `stopped` gets the
        position from which events are left for the next pass."""
        after = self.safeguards.whole_positions(self.safeguards.strict_past(cursor.position))
        events = self.log.events(stream.shard, after, until_ns)
        behind = cursor.position
        while True:
            batch = list(islice(events, BATCH))
            # Only now: what the log loses between a check and a read is missing from what was read.
            is_lost = self.is_lost(behind, self.log.begins_ns(stream.shard))
            if self.safeguards.loss_degrades(is_lost):
                stopped.append(behind)  # the next pass finds the cursor before the beginning of the log
                return
            for event in batch:
                if retry and event.position > retry:
                    return
                if not self.proceed():
                    stopped.append(event.position)
                    return
                cursor.take(event.position)
                found = self.candidates(stream, snapshot, event)
                yield event, [one for one in found if cursors.name_of(one) in cursor.serves]
                behind = event.position
            if len(batch) < BATCH:
                return

    def candidates(self, stream: Stream, snapshot: Snapshot, event: Event) -> list[Action]:
        change = event.change
        if stream.delay_ns is None:
            return snapshot.near(change)
        if not self.safeguards.overwrites_are_ages(change):
            return []
        return snapshot.by_age(change.bucket, change.key, stream.delay_ns, is_upload=change.is_upload)

    def _look(self, stream: Stream, event: Event, wanted: list[Action]) -> Evaluation | Handled | Failure:
        """Of several events at a time: whatever it changes besides the object is left to `_settle`."""
        if not wanted:
            return Handled.RESOLVED
        now_ns = self.context.env.now_ns()
        is_early = stream.delay_ns is not None and event.age_from_ns + stream.delay_ns > now_ns
        try:
            looked = self.expirer.expire(event.change.bucket, event.change.key, wanted, event.change.new)
        except (Unavailable, Unworkable) as error:
            return error
        if is_early:
            waits = any(is_about(event, live) for _, live in looked.waiting)
            if not looked.stale and self.safeguards.wait_until_due(waits):
                return Handled.WAIT
            looked.waiting.clear()
        return looked

    def _settle(
        self,
        stream: Stream,
        cursor: Cursor,
        event: Event,
        wanted: list[Action],
        result: Evaluation | Handled | Failure,
    ) -> Handled:
        if isinstance(result, Handled):
            return result
        if not isinstance(result, Evaluation):
            bucket = event.change.bucket
            item = Item(event.position, bucket, event.change.key)
            # Of a bucket whose rules cannot be read, every action may need the event.
            names = {cursors.name_of(one) for one in wanted} or {
                name for name in cursor.serves if bucket_of(name) == bucket
            }

            def hand_over() -> Handled | None:
                """Leave the item to the walk of its bucket, if other actions would wait for it here."""
                if not self.safeguards.hand_over(bool(cursor.serves - names)):
                    return None
                ends = self.safeguards.forget_first(cursor.forget, names)
                return Handled.ANEW if ends else Handled.RESOLVED

            return self.failed(stream.key, item, result, instead=hand_over)
        self.set_aside(event.change.key, self.unawaited(stream, event, result))
        if result.stale:
            # The rule may come back; its action must not count this event as passed.
            cursor.forget([cursors.name_of(one) for one in result.stale])
            return Handled.ANEW
        return Handled.RESOLVED

    def unawaited(self, stream: Stream, event: Event, looked: Evaluation) -> list[tuple[Action, Live]]:
        """Return the versions that match, are not due yet, and may have no event that is still ahead.

        A change of tags comes late. If the event is as old as the action needs any, this is the last look at
        a version that the event is about. The due time of the version can have become later since, when the
        version that replaced it was removed.
        """
        if stream.delay_ns is None:
            return looked.waiting if classify(event.change) is Class.TAGS else []
        return [
            (action, live)
            for action, live in looked.waiting
            if is_about(event, live)
            and event_log_horizon(action.rule, action.key.kind, self.timing) == stream.delay_ns
        ]

    def failed(
        self,
        stream: str,
        item: Item,
        error: Failure,
        since_ns: int = 0,
        instead: Callable[[], Handled | None] = lambda: None,
    ) -> Handled:
        """Count a failure; an item that failed too often gets a durable blocker, and waits for an operator.

        `instead` may leave the item to another stream, durably; it returns None where it does not.

        An item that an operator gave up is passed. A walk passes it only if it was given up since the walk
        began, because keys come again; an item that can never be worked on need not be given up again.
        """
        is_fatal = isinstance(error, Unworkable)
        self.expirer.counters.fail(item.bucket, "unworkable" if is_fatal else "unavailable")
        given_up_ns = self.blockers.quarantined_ns(stream, item.name)
        is_given_up = given_up_ns is not None and (is_fatal or given_up_ns >= since_ns)
        if self.safeguards.no_automatic_skip(is_given_up):
            return Handled.RESOLVED
        if isinstance(error, Halted):
            return Handled.RETRY
        now_ns = self.context.env.now_ns()
        count = self.blockers.count(stream, item, now_ns, fatal=is_fatal, reason=str(error))
        count = self.safeguards.count_durable(count)
        is_over = count.tries >= self.tries_max or now_ns - count.since_ns >= TRIES_NS
        if not self.safeguards.try_limit(is_over or count.fatal >= self.fatal_tries_max):
            return Handled.RETRY
        handed_over = instead()
        if handed_over is not None:
            self.blockers.succeeded(stream)
            return handed_over
        if self.safeguards.blocker_before_pause():
            self.blockers.block(stream, item, str(error), count, now_ns)
        return Handled.BLOCKED

    def is_blocked(self, stream: str) -> bool:
        return self.safeguards.blocker_guards(self.safeguards.one_stream_pauses(self.blockers, stream))

    # Versions that are left to lists and scans.

    def set_aside(self, key: str, waiting: list[tuple[Action, Live]]) -> None:
        """Record these, durably; where the list is full, demote the action instead."""
        for action, live in self.safeguards.pending_first(waiting):
            name = cursors.name_of(action)
            if name not in self._pending:
                self._pending[name] = self.records.pending_count(name)
            is_full = self._pending[name] >= self.pending_max
            if self.safeguards.demotion_first(is_full):
                self.demote(action, Degraded.PENDING_FULL)
            elif not is_full:
                self._pending[name] += self.records.add_pending(name, key, live.version.version_id)

    def demote(self, action: Action, reason: Degraded) -> None:
        """Leave the action to scans, durably. Its cursors forget it in their next sweeps.

        The first reason stays: it is why events are missing. After a loss a walk is wanted at once: nothing
        else looks for objects that became due since the last one.
        """
        now_ns = self.context.env.now_ns()

        def change(state: BucketState) -> bool:
            found = state.actions.get(str(action.key))
            if found is not None and found.is_complete and found.mode is Mode.SCAN_ONLY:
                return False
            state.actions[str(action.key)] = ActionState(Mode.SCAN_ONLY, reason, is_complete=True)
            if reason is Degraded.LOST_LOG:
                state.wanted_ns = max(state.wanted_ns, now_ns)
            return True

        self.records.change_bucket(action.bucket, change)

    def drain(self) -> None:
        for action in self.pending_actions():
            self.drain_one(action)

    def pending_actions(self) -> list[Action]:
        """Those in force that have a pending list."""
        names = {unquote(record.split("/")[3]) for record in self.records.keys(PENDING)}
        if not names:
            return []
        actions = {cursors.name_of(one): one for one in self.snapshot().actions.values() if one.is_enforced}
        return [actions[name] for name in sorted(names & actions.keys())]

    def drain_one(self, action: Action) -> Handled:
        """Look again at what is pending; an entry goes when nothing at its key waits any more."""
        stream = pending_stream(action)
        if self.is_blocked(stream):
            return Handled.BLOCKED
        if not self.leases.hold(stream):
            return Handled.ELSEWHERE
        self._pending.clear()
        failing = self.blockers.failing(stream)
        for entry in self.records.pending(cursors.name_of(action)):
            if not self.proceed():
                return Handled.STOPPED
            handled = self.look_again(action, entry)
            if handled is not Handled.RESOLVED:
                return handled
            if self.safeguards.count_cleared(failing == entry.record):
                self.blockers.succeeded(stream)
        return Handled.RESOLVED

    def look_again(self, action: Action, entry: Pending) -> Handled:
        try:
            looked = self.expirer.expire(action.bucket, entry.key, [action])
        except (Unavailable, Unworkable) as error:
            return self.failed(pending_stream(action), Item(entry.record, action.bucket, entry.key), error)
        if not looked.waiting and not looked.stale:  # the rule of a stale one may come back
            self.records.remove_as_read(entry.record, entry.etag)
        return Handled.RESOLVED


def bucket_of(name: str) -> str:
    """Return the bucket of an action by its name in a cursor."""
    return name.partition("/")[0]


def pending_stream(action: Action) -> str:
    return f"pending/{cursors.name_of(action)}"


def is_about(event: Event, live: Live) -> bool:
    new, one = event.change.new, live.version
    if new is None:
        return False
    if not new.mtime_ns:  # a notification, which may not have all of it
        return new.size in (UNKNOWN_SIZE, one.size) and new.content in ("", live.content)
    return (new.mtime_ns, new.size, new.content) == (one.mtime_ns, one.size, live.content)
