"""A worker that runs until it is stopped: walks, sweeps, pending lists, lags, in rounds.

    service = Service(worker)
    service.run(stop=lambda: is_terminating)

    run_together([Service(one, parts=(part,)) for one, part in ...], stop)       # each in a thread of its own

A long walk, a stream that catches up and a full pending list must not wait for each other. So each kind has
rounds of its own where several services run together; they share the threads that look at objects.

A round looks at every shard, bucket, stream and pending list. Each gets a share of time, after which the next
one has its turn; what is left goes on in the next round, which then follows at once. A part that
fails is tried again in the next round; the others have their turns. A round begins every minute, and as soon
as a policy was put or an operator wants something. A cursor is saved every 1,000 events or 5 seconds.

Any number of services may run: of several one at a time has the lease of a stream.
"""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import ParamSpec

from fencepost.impl.cursor import CursorError
from fencepost.impl.lease import Fenced
from fencepost.impl.lifecycle.blockers import Stream, StreamKind
from fencepost.impl.lifecycle.lag import Lags, StreamLag
from fencepost.impl.lifecycle.operate import Operator, Refused
from fencepost.impl.lifecycle.records import Cadence, Control
from fencepost.impl.lifecycle.shards import Shards
from fencepost.impl.lifecycle.target import Unavailable, Unworkable
from fencepost.impl.lifecycle.walk import Walks
from fencepost.impl.lifecycle.worker import Handled, Worker, pending_stream
from fencepost.impl.record import RecordError
from fencepost.impl.store.errors import StoreError

P = ParamSpec("P")
EVERY_S = 60.0
SHARE_S = 20.0
"""Of a round, for one stream, walk or pending list. Leases last for longer."""
MEASURES = 50
"""In the time that the retention of the log leaves the slowest stream, lags are measured so often, however
long a round takes: what falls behind must be left to scans before its events are lost."""
POLL_S = 1.0
"""The interval at which the wishes of an operator are read, in seconds."""
AT_ONCE = (Handled.STOPPED, Handled.ANEW)
"""Results after which the next round begins at once."""


@dataclass
class Round:
    handled: dict[str, Handled] = field(default_factory=dict)
    """By stream."""
    failed: dict[str, str] = field(default_factory=dict)
    """The parts of the round that failed, with the reason; the next round tries again."""
    lags: list[StreamLag] = field(default_factory=list)
    paused_for: str = ""


class Part(Enum):
    """A kind of work that has rounds of its own."""

    READ = "read"
    """The log: sweeps, shards and lags."""
    BOOTSTRAP = "bootstrap"
    """Walks."""
    DRAIN = "drain"
    """Pending lists."""


class Service:
    """`on_round` gets the result of each round; another value of `changed` has the next one begin at once."""

    def __init__(
        self,
        worker: Worker,
        *,
        every_s: float = EVERY_S,
        share_s: float = SHARE_S,
        parts: Collection[Part] = tuple(Part),
        hours: Sequence[int] = (),
        on_round: Callable[[Round], object] = lambda _: None,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self.worker = worker
        self.last = Round()
        """The round that ended last."""
        self._env = worker.context.env
        self._parts = frozenset(parts)
        self._hours = Cadence(hours=tuple(hours))
        self._every_s = every_s
        self._share_s = share_s
        self._on_round = on_round
        self._changed = changed
        self._walks = Walks(worker)
        self._shards = Shards(worker)
        self._lags = Lags(worker)
        self._stop: Callable[[], bool] = lambda: False
        self._control = Control()
        self._looked_ns = self._measured_ns = 0
        self._allowed_ns: int | None = None
        """By how much the stream that may be least behind may be behind."""
        self._seen: object = None
        """`changed` as it was before the round."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Rounds until `stop` is true; then the round under way ends after the items in hand."""
        self._stop = stop
        try:
            while not stop():
                self._on_round(self.round())
                self._wait()
        finally:
            self._try("leases", self.worker.leases.release)

    # A round.

    def round(self) -> Round:
        self.last = Round()
        self._try("rules", self._note_changes)
        self._try("control", self._look)
        self.last.paused_for = self._control.paused_for
        reads = Part.READ in self._parts
        if not self._control.paused_for:
            self._try("retries", self._retry)
            if reads:
                self._try("shards", self._shards.look)
            if Part.BOOTSTRAP in self._parts and self._is_hour():
                self._try("walks", self._walk)
            if reads:
                self._try("streams", self._sweep)
            if Part.DRAIN in self._parts:
                self._try("pending", self._drain)
        if reads:
            # While all are paused too: the log goes on losing its oldest events.
            self._try("lags", self._measure)
        self.worker.expirer.counters.last_tick_ns = self._env.now_ns()
        return self.last

    def _note_changes(self) -> None:
        self._seen = self._changed()

    def _retry(self) -> None:
        """Work on the blocked items that an operator wants to be tried, of this worker's streams."""
        operator = Operator(self.worker)
        for blocker_id in self._control.retries:
            self._try(f"retry {blocker_id}", partial(self._retry_one, operator, blocker_id))

    def _retry_one(self, operator: Operator, blocker_id: str) -> None:
        with suppress(Refused):
            if part_of(operator.blocker(blocker_id).stream) not in self._parts:
                return
            if operator.retry(blocker_id) is Handled.ELSEWHERE:
                return  # the worker that has the lease does it
        self.worker.records.retried(blocker_id)

    def _walk(self) -> None:
        prepared = self._walks.prepare()
        for bucket in self.worker.target.buckets():
            self._turn(f"walk/{bucket}", self._walks.walk, bucket, prepared)

    def _is_hour(self) -> bool:
        """Return True if walks may go on now: always, unless hours of the day were given, in UTC."""
        return self._hours.is_hour(self._env.now_ns())

    def _sweep(self) -> None:
        for stream in self.worker.streams():
            self._turn(stream.key, self.worker.sweep, stream)

    def _drain(self) -> None:
        for action in self.worker.pending_actions():
            self._turn(pending_stream(action), self.worker.drain_one, action)

    def _measure(self) -> None:
        self._measured_ns = self._env.monotonic_ns()
        self.last.lags = self._lags.act()
        allowed = [lag.allowed_ns for lag in self.last.lags if lag.allowed_ns is not None and lag.serves]
        self._allowed_ns = min(allowed, default=None)
        # A stream that serves no action needs no event.
        needed: dict[str, int] = {}
        for lag in self.last.lags:
            if lag.serves:
                ns, shard = int(lag.position[:20] or 0), lag.stream.shard
                needed[shard] = min(ns, needed.get(shard, ns))
        self.worker.log.hold(needed)

    def _turn(self, stream: str, work: Callable[P, Handled], *args: P.args, **named: P.kwargs) -> None:
        share_ns = round(self._share_s * 1e9)
        if self._allowed_ns is not None:
            share_ns = min(share_ns, max(self._allowed_ns // MEASURES, 10**9))
            if self._env.monotonic_ns() - self._measured_ns >= share_ns:
                self._try("lags", self._measure)
        until_ns = self._env.monotonic_ns() + share_ns

        def proceed() -> bool:
            self.worker.leases.renew()
            return self._env.monotonic_ns() < until_ns and self._may_work()

        def turn() -> None:
            self.worker.proceed = proceed
            self.last.handled[stream] = work(*args, **named)

        if self._may_work():
            self._try(stream, turn)

    def _try(self, what: str, work: Callable[[], None]) -> None:
        unavailable = self.worker.context.retry.unavailable
        try:
            work()
        except (Unavailable, Unworkable, unavailable, StoreError, CursorError, RecordError, Fenced) as error:
            self.last.failed[what] = str(error)
        except Exception as error:
            logging.getLogger("fencepost.lifecycle").exception("%s failed", what)
            self.last.failed[what] = f"internal error: {type(error).__name__}: {error}"

    # Between items, and between rounds.

    def _may_work(self) -> bool:
        if self._env.monotonic_ns() - self._looked_ns >= POLL_S * 1e9:
            self._try("control", self._look)
        return not self._stop() and not self._control.paused_for

    def _look(self) -> None:
        self._looked_ns = self._env.monotonic_ns()
        self._control = self.worker.records.control()

    def _wait(self) -> None:
        """Until the next round is due, or wanted."""
        known = self._control.revision, self._seen
        until_ns = self._env.monotonic_ns() + round(self._every_s * 1e9)
        if any(one in AT_ONCE for one in self.last.handled.values()):
            return
        while not self._stop() and (left_ns := until_ns - self._env.monotonic_ns()) > 0:
            self._env.sleep(min(POLL_S, left_ns / 1e9))
            self._try("control", self._look)
            self._try("rules", self._note_changes)
            if (self._control.revision, self._seen) != known:
                return


def part_of(stream: Stream) -> Part:
    """Return the kind of work that a stream belongs to."""
    if stream.kind is StreamKind.BOOTSTRAP:
        return Part.BOOTSTRAP
    return Part.DRAIN if stream.kind is StreamKind.PENDING else Part.READ


def run_together(services: Sequence[Service], stop: Callable[[], bool]) -> None:
    """Run each in a thread, until `stop` is true or one raises; then the others end too, and it is raised."""
    failed: list[BaseException] = []

    def run(service: Service) -> None:
        try:
            service.run(lambda: bool(failed) or stop())
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(one,), name="lifecycle") for one in services[1:]]
    for thread in threads:
        thread.start()
    run(services[0])
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
