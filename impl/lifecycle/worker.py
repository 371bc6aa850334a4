"""The worker of a lifecycle: walks what begins, sweeps the log behind the ages and close behind the clock.

    worker = Worker(context, target, log)
    worker.run()                # one pass of everything; repeat it

A sweep works for the actions that its cursor names, and for no other: an action that is not named yet is set
up by its walk, which moves the cursor back in the same write. A name that has nobody behind it, because its
rule is gone or left to scans, is removed from the cursor before the sweep passes an event, so that the action
begins anew should it come back. Every answer but "resolved" ends the sweep in front of its event.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from fencepost.impl.context import Context
from fencepost.impl.cursor import Cursor
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.engine import Action, Class, Snapshot, State, classify, compile_policies
from fencepost.impl.lifecycle.log import Event, Log
from fencepost.impl.lifecycle.look import Looked, Looker
from fencepost.impl.lifecycle.policy import (
    STANDARD_TIMING,
    Degraded,
    Mode,
    Rule,
    Timing,
    event_log_horizon,
)
from fencepost.impl.lifecycle.records import ActionState, BucketState, Records, cursors_in
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.target import Live, Target, Unavailable, Unworkable

PENDING_MAX = 50_000
TRIES_MAX = 30
TRIES_NS = 4 * 3600 * 10**9
FATAL_TRIES_MAX = 5


class Handled(Enum):
    RESOLVED = "resolved"
    WAIT = "wait"
    """The object's own time is later than the event's, so its age is not reached."""
    RETRY = "retry"
    BLOCKED = "blocked"
    ANEW = "anew"
    """The cursor has to forget a name first."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A cursor, by its key."""

    key: str

    @property
    def delay_ns(self) -> int | None:
        """None close behind the clock."""
        parts = self.key.removeprefix(cursors.FOLDER).split("/")
        return int(parts[1]) if parts[0] == "ages" else None

    @property
    def shard(self) -> str:
        return unquote(self.key.rpartition("/")[2].removesuffix(".json"))


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
        self.safeguards = safeguards
        self.looker = Looker(target, context.env, timing, safeguards)
        self.pending_max = PENDING_MAX
        self._number = 0
        self._pending: Counter[str] = Counter()

    def streams(self) -> list[Stream]:
        """Those of shards that the log has; the cursor of another shard stays as it is."""
        known = set(self.log.shards())
        found = [Stream(key) for key in cursors_in(self.context, cursors.FOLDER)]
        return [stream for stream in found if stream.shard in known]

    def sweep_all(self) -> None:
        for stream in self.streams():
            self.sweep(stream)

    def snapshot(self) -> Snapshot:
        """Of the policies as they are. Who is swept for is up to the cursors, so every action counts as
        complete that is not left to scans."""
        policies: dict[str, list[Rule]] = {}
        states = {}
        for bucket in self.target.buckets():
            policies[bucket] = list(self.target.rules(bucket))
            durable = self.records.bucket(bucket)
            for rule in policies[bucket]:
                for key in rule.actions():
                    mode = durable.mode(key)
                    states[bucket, key] = State(Mode.EVENT_DRIVEN if mode is None else mode, is_complete=True)
        self._number += 1
        return compile_policies(self._number, policies, states, self.timing)

    # Sweeps.

    def sweep(self, stream: Stream) -> Handled:
        """Follow the log from the cursor up to its delay behind the clock, as it is when the sweep begins."""
        if self.is_blocked(stream.key):
            return Handled.BLOCKED
        now_ns = self.context.env.now_ns()
        cursor = Cursor(self.context, stream.key, pace=cursors.PACE)
        snapshot = self._start(stream, cursor)
        self._pass_to(cursor, cursors.before(self.log.begins_ns(stream.shard)))
        back_ns = stream.delay_ns
        if back_ns is None:
            back_ns = self.safeguards.tag_cutoff(self.timing.small_delay_ns, snapshot.delays)
        until_ns = self.safeguards.flush_lag(now_ns - back_ns, self.log.settled_ns(stream.shard))
        handled = Handled.RESOLVED
        if cursor.serves:
            handled = self._follow(stream, cursor, snapshot, until_ns)
        if handled is Handled.RESOLVED:
            self._pass_to(cursor, cursors.before(until_ns + 1))
        if handled is not Handled.ANEW:
            cursor.save()
        return handled

    def _start(self, stream: Stream, cursor: Cursor) -> Snapshot:
        """Read the cursor, rid of all names that it must not pass an event for."""
        while True:
            cursor.start()
            # After the cursor: of the actions that it names none is newer than the snapshot.
            snapshot = self.snapshot()
            active = {cursors.name_of(one): one for group in snapshot.groups.values() for one in group}
            gone = self.unserved(cursor.serves, active)
            is_lost = self.is_lost(cursor.position, self.log.begins_ns(stream.shard))
            if not gone and self.safeguards.loss_degrades(is_lost):
                gone = cursor.serves
                for name in sorted(gone):
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

    def _follow(self, stream: Stream, cursor: Cursor, snapshot: Snapshot, until_ns: int) -> Handled:
        failing = self.records.failing(stream.key)
        after = self.safeguards.whole_positions(self.safeguards.strict_past(cursor.position))
        for event in self.log.events(stream.shard, after, until_ns):
            position = event.position
            cursor.take(position)
            found = self.candidates(stream, snapshot, event)
            wanted = [one for one in found if cursors.name_of(one) in cursor.serves]
            handled = self.attempt(stream, cursor, event, wanted)
            if not self.safeguards.drop_after_block(handled is Handled.RESOLVED):
                return handled
            if self.safeguards.count_cleared(failing == position):
                self.records.clear_failures(stream.key)
            cursor.done(position)
        return Handled.RESOLVED

    def candidates(self, stream: Stream, snapshot: Snapshot, event: Event) -> list[Action]:
        change = event.change
        if stream.delay_ns is None:
            return snapshot.near(change)
        if not self.safeguards.overwrites_are_ages(change):
            return []
        return snapshot.by_age(change.bucket, change.key, stream.delay_ns, is_upload=change.is_upload)

    def attempt(self, stream: Stream, cursor: Cursor, event: Event, wanted: list[Action]) -> Handled:
        try:
            handled, stale = self.handle_event(stream, event, wanted)
        except Unavailable as error:
            return self.failed(stream.key, event.position, str(error), fatal=False)
        except Unworkable as error:
            return self.failed(stream.key, event.position, str(error), fatal=True)
        if stale:
            # The rule may come back; its action must not count this event as passed.
            cursor.forget([cursors.name_of(one) for one in stale])
            return Handled.ANEW
        return handled

    def handle_event(self, stream: Stream, event: Event, wanted: list[Action]) -> tuple[Handled, set[Action]]:
        if not wanted:
            return Handled.RESOLVED, set()
        now_ns = self.context.env.now_ns()
        is_early = stream.delay_ns is not None and event.age_from_ns + stream.delay_ns > now_ns
        if self.safeguards.wait_until_due(is_early):
            return Handled.WAIT, set()
        looked = self.looker.look(event.change.bucket, event.change.key, wanted, event.change.new)
        self.set_aside(event.change.key, self.unawaited(stream, event, looked))
        return Handled.RESOLVED, looked.stale

    def unawaited(self, stream: Stream, event: Event, looked: Looked) -> list[tuple[Action, Live]]:
        """What matches, is not due yet, and may have no event that is still ahead.

        A change of tags comes late. A version that this event is about is looked at for the last time if the
        event is as old as the action needs any; its due time can have become later than that when the
        version that replaced it was removed.
        """
        if stream.delay_ns is None:
            return looked.waiting if classify(event.change) is Class.TAGS else []
        return [
            (action, live)
            for action, live in looked.waiting
            if self.safeguards.wait_until_due(is_about(event, live))
            and event_log_horizon(action.rule, action.key.kind, self.timing) == stream.delay_ns
        ]

    def failed(self, stream: str, item: str, reason: str, *, fatal: bool) -> Handled:
        """Count it; what failed too often becomes a blocker, durably, and waits for an operator."""
        if self.safeguards.no_automatic_skip(self.records.is_quarantined(stream, item)):
            return Handled.RESOLVED
        now_ns = self.context.env.now_ns()
        tries, since_ns = self.records.count_failure(stream, item, now_ns)
        tries = self.safeguards.count_durable(tries)
        is_over = tries >= FATAL_TRIES_MAX if fatal else tries >= TRIES_MAX or now_ns - since_ns >= TRIES_NS
        if not self.safeguards.try_limit(is_over):
            return Handled.RETRY
        if self.safeguards.blocker_before_pause():
            self.records.block(stream, item, reason, now_ns)
        return Handled.BLOCKED

    def is_blocked(self, stream: str) -> bool:
        return self.safeguards.blocker_guards(self.safeguards.one_stream_pauses(self.records, stream))

    # What is left to lists and scans.

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
        """Leave the action to scans, durably. Its cursors forget it in their next sweeps."""

        def change(state: BucketState) -> bool:
            state.actions[str(action.key)] = ActionState(Mode.SCAN_ONLY, reason, is_complete=True)
            return True

        self.records.change_bucket(action.bucket, change)

    def drain(self) -> None:
        """Look again at what is pending; an entry goes when nothing at its key waits any more."""
        self._pending.clear()
        snapshot = self.snapshot()
        actions = {cursors.name_of(one): one for one in snapshot.actions.values() if one.rule.is_enabled}
        stopped: set[str] = set()
        for name, record, key in self.records.pending():
            stream = f"pending/{name}"
            if name not in actions or stream in stopped or self.is_blocked(stream):
                continue
            handled, looked = self._look_again(stream, record, key, actions[name])
            if handled is not Handled.RESOLVED:
                stopped.add(stream)
            elif not looked.waiting and not looked.stale:  # the rule of a stale one may come back
                self.records.remove(record)

    def _look_again(self, stream: str, record: str, key: str, action: Action) -> tuple[Handled, Looked]:
        try:
            return Handled.RESOLVED, self.looker.look(action.bucket, key, [action])
        except Unavailable as error:
            return self.failed(stream, record, str(error), fatal=False), Looked()
        except Unworkable as error:
            return self.failed(stream, record, str(error), fatal=True), Looked()


def is_about(event: Event, live: Live) -> bool:
    new, one = event.change.new, live.version
    return new is not None and (new.mtime_ns, new.size, new.content) == (one.mtime_ns, one.size, live.content)
