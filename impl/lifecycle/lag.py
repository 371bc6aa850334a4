"""The lag of each stream, as a share of the time that the retention of the log leaves it.

An event is lost when it is as old as the log keeps events; a stream looks at it when it is as old as its
delay. So a stream may be behind by the difference of the two. From half of that on its actions are marked
LAG_HIGH; from 0.8 their buckets are scanned at once, beside the events; from 0.95 they are left to scans,
durably, before any event is lost. They return only by `reseed`.

The stream close behind the clock counts for every action that it is swept for: of a rule with tags for their
changes, of every rule for removals, which may make an older version the current one. The lag is the age of
the oldest event that was not looked at, so the stream of a quiet shard has none.
"""

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fencepost.impl.cursor import Cursor
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import WALK, Stream
from fencepost.impl.lifecycle.documents import DAMAGED
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.policy import SECOND_NS, Degraded, Mode
from fencepost.impl.lifecycle.records import BucketState
from fencepost.impl.lifecycle.worker import Worker

WARN_FROM = 0.5
SCAN_FROM = 0.8
DEMOTE_FROM = 0.95
REASONS = (Degraded.NONE, Degraded.LAG_HIGH, Degraded.DELETE_FAILURES)
"""Why an action may soon not be driven by events; of several streams the last one counts."""


@dataclass(frozen=True, slots=True)
class StreamLag:
    stream: Stream
    position: str
    serves: frozenset[str]
    lag_ns: int
    """By how much its oldest event is older than it has to be."""
    allowed_ns: int | None
    """After which that is lost; None without end."""
    is_blocked: bool

    @property
    def share(self) -> float:
        if self.allowed_ns is None:
            return 0.0
        return self.lag_ns / self.allowed_ns if self.allowed_ns > 0 else float(self.lag_ns > 0)

    @property
    def reason(self) -> Degraded:
        if self.is_blocked:
            return Degraded.DELETE_FAILURES
        return Degraded.LAG_HIGH if self.share >= WARN_FROM else Degraded.NONE


class Lags:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._was_fine = False
        self._late: set[str] = set()
        """The keys of the streams that are behind by so much that it was logged."""

    def measure(self) -> list[StreamLag]:
        """Of each stream whose cursor can be read."""
        found = []
        for stream in self._worker.streams():
            with contextlib.suppress(*DAMAGED):
                found.append(self._measure(stream))
        return found

    def _measure(self, stream: Stream) -> StreamLag:
        worker = self._worker
        cursor = Cursor(worker.context, stream.key)
        cursor.start()
        small_ns = worker.timing.small_delay_ns
        delay_ns = small_ns if stream.delay_ns is None else stream.delay_ns
        kept_ns = worker.log.retention_ns
        allowed_ns = None if kept_ns is None else kept_ns - delay_ns
        now_ns = worker.context.env.now_ns()
        lag_ns = max(0, now_ns - delay_ns - int(cursor.saved[:20] or 0))
        found = StreamLag(
            stream, cursor.saved, cursor.serves, lag_ns, allowed_ns, worker.is_blocked(stream.key)
        )
        if found.share < WARN_FROM:
            return found
        # The position alone says how far the reader is, not that anything is unread.
        first = next(iter(worker.log.events(stream.shard, cursor.saved, now_ns - delay_ns)), None)
        lag_ns = 0 if first is None else now_ns - delay_ns - first.ts_ns
        return replace(found, lag_ns=max(0, lag_ns))

    def act(self) -> list[StreamLag]:
        """Measure, and do what follows; returns what was measured."""
        found = self.measure()
        is_fine = all(lag.reason is Degraded.NONE for lag in found)
        if is_fine and self._was_fine:
            return found  # nothing to be marked, nor to be marked no more
        self._was_fine = is_fine
        actions = {cursors.name_of(one): one for one in self._worker.snapshot().actions.values()}
        worst: dict[Action, Degraded] = {}
        for lag in found:
            served = [actions[name] for name in sorted(lag.serves & actions.keys())]
            for action in served:
                worst[action] = max(lag.reason, worst.get(action, Degraded.NONE), key=REASONS.index)
            self._warn(lag)
            if self._worker.safeguards.lag_degrades(lag.share >= DEMOTE_FROM):
                for action in served:
                    self._worker.demote(action, Degraded.LAG_HIGH)
            elif lag.share >= SCAN_FROM:
                self._scan({action.bucket for action in served}, lag.lag_ns)
        blocked = {one.stream.key for one in self._worker.blockers.every()}
        for action in actions.values():
            if f"{WALK}{action.bucket}" in blocked:
                worst[action] = Degraded.DELETE_FAILURES
        self._mark(worst)
        return found

    def _warn(self, lag: StreamLag) -> None:
        """Log once that a stream falls behind, and once that it has caught up."""
        is_late, key = lag.share >= WARN_FROM, lag.stream.key
        if is_late == (key in self._late):
            return
        self._late ^= {key}
        log = logging.getLogger("fencepost.lifecycle")
        if is_late:
            log.warning(
                "%s is %.0f s behind, %.0f %% of what the log leaves it; from %.0f %% on it is left to walks",
                *(key, lag.lag_ns / SECOND_NS, 100 * lag.share, 100 * DEMOTE_FROM),
            )
        else:
            log.warning("%s has caught up", key)

    def _scan(self, buckets: Iterable[str], lag_ns: int) -> None:
        """Have these walked, unless a walk has begun since the stream fell behind."""
        now_ns = self._worker.context.env.now_ns()

        def change(state: BucketState) -> bool:
            began = [state.walked_ns or 0, state.wanted_ns, state.walk.began_ns if state.walk else 0]
            if max(began) >= now_ns - lag_ns:
                return False
            state.wanted_ns = now_ns
            return True

        for bucket in sorted(buckets):
            self._worker.records.change_bucket(bucket, change)

    def _mark(self, worst: dict[Action, Degraded]) -> None:
        """Why actions may soon not be driven by events, of those that are."""
        by_bucket: dict[str, dict[str, Degraded]] = {}
        for action, reason in worst.items():
            by_bucket.setdefault(action.bucket, {})[str(action.key)] = reason
        for bucket, reasons in sorted(by_bucket.items()):

            def change(state: BucketState, reasons: dict[str, Degraded] = reasons) -> bool:
                before = dict(state.actions)
                for key, reason in reasons.items():
                    one = state.actions.get(key)
                    if one is not None and one.mode is Mode.EVENT_DRIVEN:
                        state.actions[key] = replace(one, reason=reason)
                return state.actions != before

            self._worker.records.change_bucket(bucket, change)
