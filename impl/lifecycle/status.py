"""The status of a lifecycle: each bucket and action, each cursor with its lag, blockers, pending versions.

Everything is read from the state, so any process can show it, whether a service runs or not.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.impl.cursor import Cursor
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import Blocker, Stream
from fencepost.impl.lifecycle.documents import DAMAGED
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.policy import SECOND_NS, Mode, Rule, scan_every_ns
from fencepost.impl.lifecycle.records import ALL, BucketState, Cadence, WalkState
from fencepost.impl.lifecycle.worker import Worker


@dataclass(frozen=True)
class CursorStatus:
    """One for each delay and shard, and one close behind the clock for each shard."""

    key: str
    stream: str
    """`original`, behind the clock by a delay, or `predicate`, close behind it."""
    delay_s: float
    shard: str
    position_ns: int
    """The time of the last event that is resolved."""
    lag_s: float
    """The time by which it is behind the events that it should have resolved, in seconds."""
    serves: tuple[str, ...]
    """The actions that it is swept for, as BUCKET/ACTION."""
    blocker: str | None = None


@dataclass(frozen=True)
class ActionStatus:
    action: str
    """The hash of its rule, and its kind."""
    rule: str
    """The name of the rule."""
    mode: str
    """`event_driven`, `scan_at_date`, `scan_only` or `disabled`."""
    reason: str
    """Why it is not driven by events, or may soon not be; NONE where nothing is the matter."""
    is_complete: bool
    """Its first walk has ended."""
    lag_s: float
    pending: int
    """Versions that began to match late, and wait until they are due."""
    cursors: tuple[str, ...]
    paused_for: str | None = None
    walk_every_s: float = 0.0
    """The time between two walks that nothing else makes necessary, in seconds."""
    walk_hours: tuple[int, ...] = ()
    """Hours of the day, in UTC, in which these begin; all if there is none."""
    is_cadence_chosen: bool = False
    """An operator chose when these begin."""


@dataclass(frozen=True)
class WalkStatus:
    """The walk of a bucket that is under way."""

    began_ns: int
    after: str
    """The last key before which all are done."""
    beginning: int
    """Actions that are complete when it ends."""
    parts: int = 1
    """Ranges of keys that are left, of which each worker has another one."""


@dataclass(frozen=True)
class BucketStatus:
    name: str
    rules: int
    actions: tuple[ActionStatus, ...]
    blockers: tuple[str, ...]
    walk: WalkStatus | None = None
    walked_ns: int | None = None
    """When the last walk that ended began."""
    paused_for: str | None = None
    unreadable: str | None = None
    """Why its rules or its state cannot be read."""


@dataclass(frozen=True)
class BlockerStatus:
    """An item at which a stream waits for an operator."""

    id: str
    stream: str
    key: str
    """Of the stream: a cursor, a walk, a pending list."""
    item: str
    bucket: str
    object: str
    reason: str
    tries: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Status:
    store: str
    now_ns: int
    buckets: tuple[BucketStatus, ...]
    cursors: tuple[CursorStatus, ...]
    blockers: tuple[BlockerStatus, ...]
    quarantined: int
    """Items that operators gave up."""
    has_log: bool
    """True if events drive actions; otherwise walks do all work."""
    log_begins_ns: int | None = None
    """The log has everything since then; left out where it has all that ever happened."""
    paused_for: str | None = None
    retried: tuple[BlockerStatus, ...] = ()
    """Items that failed and are tried again; each may become a blocker."""


def blocker_status(one: Blocker) -> BlockerStatus:
    stream, item = one.stream, one.item
    about = one.reason, one.tries, one.first_ns, one.last_ns
    return BlockerStatus(one.id, stream.kind.value, stream.key, item.name, item.bucket, item.key, *about)


def status_of(worker: Worker, store: str, bucket: str | None = None) -> Status:
    """Return the status of all buckets, or of one."""
    found = [_cursor_status(worker, stream) for stream in worker.streams()]
    every = [blocker_status(one) for one in worker.blockers.every()]
    actions: dict[str, list[Action]] = {}
    snapshot = worker.snapshot()
    for action in snapshot.actions.values():
        actions.setdefault(action.bucket, []).append(action)
    names = [name for name in worker.target.buckets() if bucket in (None, name)]
    lags = {one.key: one.lag_s for one in found}
    begins = [worker.log.begins_ns(shard) for shard in worker.log.shards()]
    return Status(
        store,
        worker.context.env.now_ns(),
        tuple(
            _unreadable(name, snapshot.unreadable[name], every)
            if name in snapshot.unreadable
            else _bucket_status(worker, name, actions.get(name, []), lags, every)
            for name in names
        ),
        tuple(found),
        tuple(every),
        len(worker.blockers.quarantined()),
        bool(begins),
        max(begins, default=0) or None,
        worker.records.control().paused_for or None,
        tuple(blocker_status(one) for one in worker.blockers.retried()),
    )


def _unreadable(name: str, error: Exception, blockers: list[BlockerStatus]) -> BucketStatus:
    ids = tuple(one.id for one in blockers if one.bucket == name)
    return BucketStatus(name, 0, (), ids, unreadable=str(error))


def _cursor_status(worker: Worker, stream: Stream) -> CursorStatus:
    cursor = Cursor(worker.context, stream.key, pace=cursors.PACE)
    with contextlib.suppress(*DAMAGED):  # its stream is blocked, with the reason
        cursor.start()
    now_ns = worker.context.env.now_ns()
    delay_ns = worker.timing.small_delay_ns if stream.delay_ns is None else stream.delay_ns
    until_ns = min(now_ns - delay_ns, worker.log.settled_ns(stream.shard))
    position_ns = int(cursor.position.partition("-")[0] or 0)
    blocker = worker.blockers.of(stream.key)
    return CursorStatus(
        stream.key,
        stream.kind.value,
        delay_ns / SECOND_NS,
        stream.shard,
        position_ns,
        max(0, until_ns - position_ns) / SECOND_NS if cursor.serves else 0.0,
        tuple(sorted(cursor.serves)),
        None if blocker is None else blocker.id,
    )


def _bucket_status(
    worker: Worker,
    name: str,
    actions: list[Action],
    lags: Mapping[str, float],
    blockers: list[BlockerStatus],
) -> BucketStatus:
    state = worker.records.bucket(name)
    walk = state.walk
    return BucketStatus(
        name,
        len(worker.target.rules(name)),
        tuple(_action_status(worker, action, state, lags) for action in sorted(actions, key=_order)),
        tuple(one.id for one in blockers if one.bucket == name),
        None if walk is None else _walk_status(walk),
        state.walked_ns,
        state.paused.get(ALL),
    )


def _walk_status(walk: WalkState) -> WalkStatus:
    after = min((part.after for part in walk.parts), default="")
    return WalkStatus(walk.began_ns, after, len(walk.beginning), len(walk.parts))


def _order(action: Action) -> tuple[str, str]:
    return action.rule.name, action.key.kind_name


def _action_status(
    worker: Worker, action: Action, state: BucketState, lags: Mapping[str, float]
) -> ActionStatus:
    durable = state.actions.get(str(action.key))
    mode, reason, is_complete = _expected(action.rule), "NONE", False
    if durable is not None and action.rule.is_enabled:
        mode, reason, is_complete = durable.mode.value, durable.reason.value, durable.is_complete
    shards = worker.log.shards()
    keys = [key for shard in shards for key in cursors.keys_of(action, shard, worker.timing)]
    paused_for = state.paused.get(str(action.key), state.paused.get(ALL))
    cadence = state.cadence(str(action.key))
    is_driven = mode == Mode.EVENT_DRIVEN.value
    return ActionStatus(
        str(action.key),
        action.rule.name,
        mode,
        "OPERATOR_PAUSED" if paused_for else reason,
        is_complete,
        max((lags.get(key, 0.0) for key in keys), default=0.0) if is_driven else 0.0,
        worker.records.pending_count(cursors.name_of(action)),
        tuple(keys) if is_driven else (),
        paused_for,
        (cadence.every_ns or scan_every_ns(action.rule, action.key.kind, worker.timing)) / SECOND_NS,
        cadence.hours,
        cadence != Cadence(),
    )


def _expected(rule: Rule) -> str:
    """Of an action that no walk has begun."""
    return Mode.SCAN_ONLY.value if rule.is_enabled else Mode.DISABLED.value
