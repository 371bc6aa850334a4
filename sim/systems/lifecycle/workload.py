"""A lifecycle in simulated time: the code of `fencepost.impl.lifecycle` as it ships, objects and state in the
store of the scenario.

    lifecycle         writers write objects that expire after `days` (1). The worker follows the change log
    lifecycle-walks   the same without a log: walks do all the work, one every `walk_s` (a day)

An operation is an object that is written. Maintenance `round` is a round of the worker; it looks at up to
`connections` (16) objects at a time. A look is a HEAD, a deletion another one for its guard and a DELETE; a
walk lists 1,000 keys with a request; reading the log is a GET for every 1,000 events. A day has `day_s`
seconds (86,400), the log keeps `retention_s` (0: all) and is flushed every `flush_s` (30). `depth` objects
are there before the run begins, and match no rule: it is for objects that are not empty, wherever they are.
The worker does nothing for the first `down_s` (0).

Counters:

    expired        objects deleted
    left           objects still to expire at the end of the last round
    late_s_most    the longest time from an object's due time to its deletion, in seconds
    lag_most       the highest lag of a stream, as a share of the retention
    demoted_at_s   the time at which the action was left to scans
    log_lost       1 if events were lost before that
    caught_up_s    the last time at which the worker was more than two rounds behind
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any, TypeVar

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.lifecycle.cursors import before
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.log import Event, NoLog
from fencepost.impl.lifecycle.policy import SECOND_NS, Degraded, Mode, Rule, Timing, Version, What
from fencepost.impl.lifecycle.service import AT_ONCE, Round, Service
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Listed,
    Live,
    Needs,
    Result,
    Standing,
    Unavailable,
    Wanted,
)
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import ANYTHING, Delete, Get, Head, List, ObjectInfo, Outcome, Put
from fencepost.sim.des.drive import Drive, Failed
from fencepost.sim.des.engine import Channel, Engine, Signal
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.simulation import Simulation

T = TypeVar("T")
BUCKET, SHARD, SEGMENT = "bucket", "log", "log/segment"
DATA, NEW = "data/", "new-"
PAGE = 1_000
DEFAULTS = {
    "days": 1, "connections": 16, "day_s": 86_400, "retention_s": 0, "flush_s": 30, "down_s": 0,
    "walk_s": 86_400,
}  # fmt: skip
COUNTERS = ("expired", "left", "late_s_most", "lag_most", "demoted_at_s", "log_lost", "caught_up_s")


class KeptLog:
    """Events in the order of their times, as long as they are kept. Reading a thousand is a request."""

    has_uploads = True

    def __init__(self, simulation: Simulation, retention_s: float, flush_s: float) -> None:
        self._simulation = simulation
        self._store = simulation.store("worker")
        self._env = simulation.env
        self._flush_ns = round(flush_s * SECOND_NS)
        self.retention_ns = round(retention_s * SECOND_NS) or None
        self._events: list[Event] = []
        self._positions: list[str] = []
        simulation.server.bucket.answer(Put(SEGMENT, b"", ANYTHING), 0)

    def add(self, change: Change) -> None:
        event = Event(self._env.now_ns(), len(self._events), change)
        self._events.append(event)
        self._positions.append(event.position)

    def shards(self) -> Sequence[str]:
        return (SHARD,)

    def ends(self, shard: str) -> str | None:
        return None

    def hold(self, needed: Mapping[str, int]) -> None:
        """It is cut by age, whatever its reader needs."""

    def begins_ns(self, shard: str) -> int:
        if self.retention_ns is None:
            return 0
        kept_ns = self._env.now_ns() - self.retention_ns
        return kept_ns if self._events and self._events[0].ts_ns < kept_ns else 0

    def settled_ns(self, shard: str) -> int:
        return self._env.now_ns() - self._flush_ns

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        first = bisect_right(self._positions, max(after, before(self.begins_ns(shard))))
        limit = before(min(until_ns, self.settled_ns(shard)) + 1)
        for place in range(first, len(self._events)):
            if self._positions[place] >= limit:
                return
            if (place - first) % PAGE == 0:
                self._store.send(Get(SEGMENT))
            yield self._events[place]


class StoreTarget:
    """One bucket with one rule, in the store of the scenario."""

    def __init__(self, simulation: Simulation, rule: Rule, delay_ns: int) -> None:
        self._store = simulation.store("worker")
        self._env = simulation.env
        self._rules = (rule,)
        self.late_ns_most = self.expired = 0
        self._delay_ns = delay_ns

    def buckets(self) -> Sequence[str]:
        return (BUCKET,)

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        return self._rules

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        return self._look(key)

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        found = self._list(after, prefix, PAGE)
        return [Listed(info.key.removeprefix(DATA), _standing(info)) for info in found]

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        found = self._list(after, prefix, 1)
        return found[0].key.removeprefix(DATA) if found else None

    def _list(self, after: str, prefix: str, limit: int) -> Sequence[ObjectInfo]:
        place = f"{DATA}{after}" if after else ""
        return self._store.send(List(f"{DATA}{prefix}", after=place, limit=limit)).objects

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return [None] * len(wanted)  # it keeps no versions

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        standing = self._look(key)
        refused = guard(standing)
        if refused is not None:
            return refused
        reply = self._store.send(Delete(f"{DATA}{key}", ANYTHING))
        if reply.outcome is not Outcome.DONE:
            raise Unavailable(f"{key}: {reply.outcome}")
        late_ns = self._env.now_ns() - standing.versions[0].version.mtime_ns - self._delay_ns
        self.late_ns_most = max(late_ns, self.late_ns_most)
        self.expired += 1
        return Result.DONE

    def _look(self, key: str) -> Standing:
        info = self._store.send(Head(f"{DATA}{key}")).info
        return Standing() if info is None else _standing(info)


class Reply(Future[T]):
    """Waited for in simulated time."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._ended = Signal(engine)

    def end(self, work: Callable[[], T]) -> None:
        try:
            self.set_result(work())
        except Exception as error:  # noqa: BLE001 - `result` raises it
            self.set_exception(error)
        self._ended.set()

    def result(self, timeout: float | None = None) -> T:
        self._ended.wait()
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._ended.wait()
        return super().exception()

    def cancel(self) -> bool:
        return False


class Connections(Executor):
    """So many actors, each of which looks at one object at a time."""

    def __init__(self, engine: Engine, drive: Drive, count: int, name: str = "look-") -> None:
        self._engine = engine
        self._drive = drive
        self._idle = [drive.serve(f"{name}{number}", "look", self._act) for number in range(count)]

    def _act(self, item: tuple[Channel, Reply[Any], Callable[[], Any]]) -> None:
        channel, reply, work = item
        reply.end(work)
        self._idle.append(channel)

    def submit(self, fn: Callable[..., T], /, *args: Any, **named: Any) -> Reply[T]:
        reply: Reply[T] = Reply(self._engine)
        if self._drive.over or not self._idle:
            reply.end(lambda: fn(*args, **named))
        else:
            channel = self._idle.pop()
            channel.put((channel, reply, lambda: fn(*args, **named)))
        return reply


class Expiring:
    has_log = True

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        workload = simulation.setup.workload
        self.parameters = {**DEFAULTS, **workload.parameters}
        given = self.parameters
        rule = Rule(larger_than=0, expiration_days=int(given["days"]))
        day_ns = round(given["day_s"] * SECOND_NS)
        self.timing = Timing(day_ns, min(60 * SECOND_NS, day_ns), min(3600 * SECOND_NS, day_ns))
        if not self.has_log:
            self.timing = replace(self.timing, scan_every_ns=round(given["walk_s"] * SECOND_NS))
        self.target = StoreTarget(simulation, rule, int(given["days"]) * day_ns)
        self.log = KeptLog(simulation, given["retention_s"], given["flush_s"]) if self.has_log else None
        context = Context(
            simulation.store("worker"), simulation.env, retry=RetryPolicy("lifecycle", Unavailable)
        )
        self.worker = Worker(context, self.target, self.log or NoLog(), self.timing)
        self.service = Service(self.worker)
        self.action = next(iter(rule.actions()))
        for number in range(workload.depth):
            simulation.server.bucket.answer(
                Put(f"{DATA}old-{number:09d}", b"", ANYTHING), simulation.env.now_ns()
            )
        simulation.counters.update(dict.fromkeys(COUNTERS, 0.0))

    def open(self, number: int) -> "_Writer":
        return _Writer(self, number)

    def spawn_maintenance(self, drive: Drive) -> None:
        count = self.worker.concurrency = int(self.parameters["connections"])
        self.worker.pool = Connections(self.simulation.engine, drive, count)
        for name, (every, every_ns) in self.simulation.setup.workload.maintenance.items():
            if every is not None or every_ns is not None:
                self._every_ns = every_ns or 0
                drive.keep(name, self._round, every=every, every_ns=every_ns)

    def _round(self) -> None:
        now_s = self.simulation.engine.now_ns / 1e9
        if now_s < self.parameters["down_s"]:
            return
        while True:
            found = self.service.round()
            self._count(found)
            if found.failed:
                raise Failed(next(iter(found.failed)))
            if not any(one in AT_ONCE for one in found.handled.values()):
                return

    def _count(self, found: Round) -> None:
        counters, now_s = self.simulation.counters, self.simulation.engine.now_ns / 1e9
        counters["expired"] = float(self.target.expired)
        counters["late_s_most"] = round(self.target.late_ns_most / SECOND_NS, 1)
        counters["left"] = float(
            sum(key.startswith(DATA + NEW) for key in self.simulation.server.bucket.contents())
        )
        shares = [lag.share for lag in found.lags if lag.stream.delay_ns is not None]
        counters["lag_most"] = round(max([counters["lag_most"], *shares]), 2)
        if any(lag.lag_ns > 2 * self._every_ns for lag in found.lags):
            counters["caught_up_s"] = round(now_s, 1)
        state = self.worker.records.bucket(BUCKET).actions.get(str(self.action))
        if self.has_log and state and state.mode is Mode.SCAN_ONLY and not counters["demoted_at_s"]:
            counters["demoted_at_s"] = round(now_s, 1)
            counters["log_lost"] = float(state.reason is Degraded.LOST_LOG)


class Walked(Expiring):
    has_log = False


class _Writer:
    name = "write"

    def __init__(self, system: Expiring, number: int) -> None:
        self._system = system
        self._store = system.simulation.store(f"writer-{number}")

    def act(self, operation: Operation) -> None:
        system = self._system
        (number,) = system.simulation.take(1)
        key, size = f"{NEW}{number:09d}", system.simulation.setup.workload.size
        try:
            reply = self._store.send(Put(f"{DATA}{key}", b"x" * size, ANYTHING))
        except StoreError as error:
            raise Failed(type(error).__name__) from None
        if reply.outcome is not Outcome.DONE:
            raise Failed(reply.outcome.value)
        if system.log is not None:
            now_ns = system.simulation.env.now_ns()
            system.log.add(Change(BUCKET, key, None, Seen(now_ns, size, str(number))))


def _standing(info: ObjectInfo) -> Standing:
    version = Version(info.key.removeprefix(DATA), "", info.modified_ns, info.size)
    return Standing((Live(version, info.etag),))
