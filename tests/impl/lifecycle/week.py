"""Three buckets that live for days while everything around them fails, in simulated time.

    week = Week(seed=1)
    week.run(days=7)                    # raises `Violation`
    week.samples, week.spans            # lags, requests and ages over time; when what failed

The workers are those that ship: services under leases, which reach the buckets by two endpoints. Each request
takes time. The store decides about a deletion by its own clock, as an object server does; the clocks of the
workers and the times of objects differ from it. At each deletion, and after each tick, the oracle of
`properties/lifecycle` is compared with what lies in the buckets.

An object may stay due only while nothing could delete it. So the time that counts against the bound of a
bucket is that of ticks in which one worker ended a round, and none of the bucket's objects was unreadable.
"""

import errno
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.impl.lifecycle.blockers import Blockers
from fencepost.impl.lifecycle.endpoints import UNHEALTHY_S, Endpoints
from fencepost.impl.lifecycle.expiration import DueGuard, Expirer
from fencepost.impl.lifecycle.leases import LASTS_S, Leases
from fencepost.impl.lifecycle.log import MemoryLog
from fencepost.impl.lifecycle.policy import Degraded, Mode, Rule, Timing, What
from fencepost.impl.lifecycle.records import Records
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.service import AT_ONCE, Round, Service
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Listed,
    Needs,
    Result,
    Standing,
    Target,
    Unavailable,
    Unworkable,
    Wanted,
)
from fencepost.impl.lifecycle.worker import FATAL_TRIES_MAX, Worker
from fencepost.impl.store.files.disk import unusable
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Put, R, Request

from .history import START, TAG, Bucket, Crash, Faults, History, Requests, S, Violation

HOUR_S = 3600
DAY_S = 24 * HOUR_S
REQUEST_S = 0.02
SKEW_S = 240
"""The most by which the clock of a worker, or the time of an object, differs from the store's clock."""
TICK_S = 300
FOUND_TICKS = 3
"""In so many rounds whatever is due near the clock is found."""
REPAIR_TICKS = 4
"""After a repair: a retry, the rest of a walk, and what begins anew behind it."""
RETURN_DAYS = 5
"""A rule has 3 days at most, for which the log has to reach back; and walks follow, one each day."""
NAMES = ("builds", "logs", "archive")
FRESH = 0.7
"""The share of changes that write a new key."""
KEYS_KEPT = 40
YOUNG = 5
"""Changes of each bucket before its first walk."""
LOSS_DAYS = 3
"""Between two losses of the log: for a day after each, walks find what events should have."""
KINDS = ("workers", "endpoints", "disk", "objects", "log", "clocks")
"""The faults, as `Week.spans` names them."""


def _rule(prefix: str = "", *, tag: bool = False, **actions: Any) -> dict[str, Any]:
    parts = {"Prefix": prefix, "Tags": [{"Key": "t", "Value": "1"}]} if tag else {"Prefix": prefix}
    return {"Status": "Enabled", "Filter": {"And": parts} if tag else parts, **actions}


RULES: Sequence[Sequence[dict[str, Any]]] = (
    (_rule(Expiration={"Days": 1}),),
    (_rule("a/", Expiration={"Days": 1}), _rule("b/", Expiration={"Days": 2})),
    (_rule(Expiration={"Days": 3}), _rule(tag=True, Expiration={"Days": 1})),
    (
        _rule(Expiration={"Days": 2}, NoncurrentVersionExpiration={"NoncurrentDays": 1}),
        _rule(AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}),
    ),
    (_rule("a/", tag=True, Expiration={"Days": 2}), _rule("b/", Expiration={"Days": 1})),
)


class Skewed(Environment):
    """A clock that differs from another one; everything else is as there."""

    def __init__(self, inner: Environment) -> None:
        self.inner = inner
        self.skew_s = 0

    def now_ns(self) -> int:
        return self.inner.now_ns() + self.skew_s * S

    def monotonic_ns(self) -> int:
        return self.inner.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        self.inner.sleep(seconds)

    def stream(self, actor: str) -> random.Random:
        return self.inner.stream(actor)


@dataclass
class Site(Bucket):
    """A bucket of an object server, some of whose objects cannot be read."""

    poisoned: set[str] = field(default_factory=set)
    lists_looks: bool = False
    clock: Environment | None = None
    """The store's; `env` is that of the objects' times."""

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        self._check(key)
        return super().standing(bucket, key, needs)

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        found = super().page(bucket, after, prefix, uploads=uploads)
        return [replace(one, shown=None) if one.key in self.poisoned else one for one in found]

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        self._check(key)
        return super().delete(bucket, key, version_id, what, guard, needs)

    def _check(self, key: str) -> None:
        if key in self.poisoned:
            raise Unworkable(f"{key} cannot be read")

    def add(self, key: str, old: Any, new: Any, *, is_upload: bool = False) -> tuple[str, str]:
        ours, self.env = self.env, self.clock or self.env  # type: ignore[assignment]  # of the log, any clock
        try:
            return super().add(key, old, new, is_upload=is_upload)
        finally:
            self.env = ours


class Life(History):
    """One of the buckets: its users, and the oracle's part."""

    keys = ("a/0",)

    def __init__(self, week: "Week", name: str, number: int) -> None:
        super().__init__(f"{week.seed}/{name}", week.chances, losses=True)
        self.week, self.timing, self.env, self.log = week, week.timing, week.env, week.log
        self.store = week.store
        self.clock = Skewed(week.env)
        self.bucket = Site(
            self.clock,  # type: ignore[arg-type]  # any clock will do
            self.random,
            self.log,
            is_versioned=bool(number % 2),
            name=name,
            clock=self.env,
            on_delete=self.deleted,
            race=self.race,
        )
        self.bucket.structures = list(RULES[number + 1])
        self.written = 0
        self.able_ns = 0
        """For how long something could be deleted."""
        self.repaired_tick = -REPAIR_TICKS
        self.checked_ns = self.env.now_ns()
        """The time of the last comparison: objects that were not due then became due later."""
        self.late_ns = 0
        """The longest time for which something deleted since the last sample can have been due."""

    @property
    def site(self) -> Site:
        assert isinstance(self.bucket, Site)
        return self.bucket

    def act(self, key: str = "") -> None:
        """A user changes the bucket: most often, writes a new object."""
        self.clock.skew_s = self.random.randint(-60, SKEW_S) if self.week.is_skewed else 0
        if not key and self.random.random() < FRESH:
            self.written += 1
            key = f"{self.random.choice('ab')}/{self.written:06d}"
            self.keys = (*self.keys, key)[-KEYS_KEPT:]
            self.bucket.write(key, 1, self.random.choice(({}, TAG)))
        else:
            super().act(key)

    def new_rules(self) -> list[dict[str, Any]]:
        return list(self.random.choice(RULES))

    def edit(self) -> None:
        self.bucket.structures = self.new_rules()

    def deleted(self, what: str, key: str, version_id: str) -> None:
        known = self.due_since.get(((what, key, version_id), self.number(key, version_id)))
        since_ns = self.checked_ns if known is None else known[0]
        self.late_ns = max(self.late_ns, self.env.now_ns() - since_ns)
        super().deleted(what, key, version_id)

    def is_able(self) -> bool:
        return not self.site.poisoned and self.week.tick - self.repaired_tick >= REPAIR_TICKS

    def check_due(self) -> None:
        now_ns = self.env.now_ns()
        objects = [(one, self.number(one[1], one[2])) for one in self.due()]
        since = self.checked_ns, self.able_ns
        self.due_since = {one: self.due_since.get(one, since) for one in objects}
        self.checked_ns = now_ns
        for (one, _), (since_ns, able_ns) in self.due_since.items():
            times = (now_ns, since_ns), (self.able_ns, able_ns)
            if self.able_ns - able_ns > self.bound_ns(*one):
                hours, able = ((to - since) / S / HOUR_S for to, since in times)
                raise Violation(
                    f"{self.bucket.name}: {one} has been due for {hours:.2f} h; a worker could delete it in "
                    f"{able:.2f} h of these"
                )

    def bound_ns(self, what: str, key: str, version_id: str) -> int:
        """The documented delay: by events; each day after a loss; by a walk for what events cannot know."""
        week, row = self.week, self.row(key, version_id)
        found = week.timing.small_delay_ns + (SKEW_S + self.lag + FOUND_TICKS * week.tick_s) * S
        # A sweep that buckets share goes past an unreadable object only after its tries.
        known = self.due_since.get(((what, key, version_id), self.number(key, version_id)))
        found += week.incidents_since(known[0] if known else 0) * FATAL_TRIES_MAX * week.tick_s * S
        states = week.records.bucket(self.bucket.name).actions.values() if week.losses else ()
        left = {one.reason for one in states if one.mode is Mode.SCAN_ONLY}
        if left - {Degraded.LOST_LOG} or (row is not None and row.was_locked):
            return found + 7 * week.timing.day_ns
        # The walk that returns an action looks at what becomes due later by events again.
        return found + (week.timing.day_ns if left or week.is_returning() else 0)


class Server:
    """The buckets as one store, which decides about deletions by its own clock."""

    def __init__(self, week: "Week") -> None:
        self._week = week
        self._expirer = Expirer(self, week.env, week.timing, week.safeguards)

    def _site(self, bucket: str) -> Site:
        return self._week.lives[bucket].site

    def buckets(self) -> Sequence[str]:
        return NAMES

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        return self._site(bucket).rules(bucket)

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        return self._site(bucket).standing(bucket, key, needs)

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        return self._site(bucket).page(bucket, after, prefix, uploads=uploads)

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        return self._site(bucket).first(bucket, after, prefix)

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        assert isinstance(guard, DueGuard)
        ours = replace(guard, expirer=self._expirer)
        return self._site(bucket).delete(bucket, key, version_id, what, ours, needs)

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return [None] * len(wanted)


class Endpoint:
    """A way to the server, which may be down. Each request takes time, and is a place for faults."""

    def __init__(self, week: "Week", inner: Target) -> None:
        self._week = week
        self._inner = inner
        self.is_down = False

    def _through(self, kind: str, send: Callable[[], Any]) -> Any:
        after = self._week.request(kind)
        if self.is_down:
            raise Unavailable("the endpoint does not answer")
        found = send()
        after()
        return found

    def buckets(self) -> Sequence[str]:
        return self._inner.buckets()  # configured, as for a bucket that a URL names

    def rules(self, bucket: str, age_s: float = 0.0) -> Sequence[Rule]:
        return self._through("rules", lambda: self._inner.rules(bucket, age_s))

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        return self._through("look", lambda: self._inner.standing(bucket, key, needs))

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        return self._through("list", lambda: self._inner.page(bucket, after, prefix, uploads=uploads))

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        return self._through("list", lambda: self._inner.first(bucket, after, prefix))

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        return self._through(
            "delete", lambda: self._inner.delete(bucket, key, version_id, what, guard, needs)
        )

    def delete_versions(
        self, bucket: str, wanted: Sequence[Wanted], after: str, prefix: str = ""
    ) -> Sequence[Result | None]:
        return self._inner.delete_versions(bucket, wanted, after, prefix)


class Disk(Layer):
    """The store of the state, which may be full: then a directory answers writes with this error."""

    is_full = False

    def send(self, request: Request[R]) -> R:
        if self.is_full and isinstance(request, Put):
            raise unusable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "the state", request.subject)
        return self.inner.send(request)

    def send_all(self, requests: Sequence[Request[Any]]) -> list[Any]:
        return [self.send(request) for request in requests]


@dataclass
class Process:
    """A worker; a process that was killed is followed by one of another name."""

    clock: Skewed
    service: Service | None = None
    is_busy: bool = False
    down_until: int = 0
    """The tick at which it begins again."""


@dataclass(frozen=True)
class Sample:
    """The hour that ended at this time."""

    hour: float
    lag_s: dict[str, float]
    """The most that a stream was behind, by its kind: `ages` and `near`."""
    requests: dict[str, int]
    late_s: float
    """For how long the object that waited longest can have been due when it was deleted."""
    due: int
    """Objects that were due at the end of it."""
    objects: int
    deleted: int


class Week:
    def __init__(
        self,
        seed: int,
        *,
        day_s: int = DAY_S,
        tick_s: int = TICK_S,
        acts: float = 0.35,
        faults: Sequence[str] = KINDS,
        safeguards: Safeguards = STANDARD,
    ) -> None:
        """Users change each bucket `acts` times a tick; `faults` are the kinds that happen. Faults last for
        shares of a day, whose length is `day_s`."""
        self.seed, self.day_s, self.tick_s, self.safeguards = seed, day_s, tick_s, safeguards
        self.timing = Timing(day_ns=day_s * S, small_delay_ns=60 * S, lookback_ns=HOUR_S * S)
        self.random = random.Random(f"week/{seed}")
        self.env = SeededEnvironment(seed, START)
        self.log = MemoryLog(("x", "y"))
        self.store = MemoryStore(env=self.env)
        self.disk = Disk(self.store)
        self.context = Context(self.disk, self.env, retry=RetryPolicy("check", RuntimeError))
        self.records = Records(self.context)
        self.chances = Faults(race=0.02)
        self.lives = {name: Life(self, name, number) for number, name in enumerate(NAMES)}
        self._acts = acts
        server = Server(self)
        self.endpoints = [Endpoint(self, server) for _ in range(2)]
        self.processes = [Process(Skewed(self.env)) for _ in range(2)]
        self.tick = self.depth = self.crashes = self.taken_over = 0
        self.incidents: list[tuple[Life, int, int | None]] = []
        """The buckets with unreadable objects, each with when that began, and ended."""
        self.losses: list[int] = []
        """When the log lost its beginning."""
        self.is_skewed = self.is_calm = False
        self.kills_every = self.pauses_every = 0
        """A worker is killed, or paused, at one of so many requests."""
        self.sent: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self.spans: list[tuple[str, float, float]] = []
        """Kinds of faults, with the hours between which they happened."""
        self.worst_late_s = 0.0
        self._kinds = frozenset(faults)
        self._lags: dict[str, float] = {}
        self._sampled = (0.0, 0)
        self._wants_retry = False
        self._quiet_ticks = 0
        """Since when no worker was killed and the log lost nothing."""

    # A request of a worker.

    def request(self, kind: str = "state") -> Callable[[], None]:
        """Before a request: time passes, others act. Returns what comes after it."""
        self.sent[kind] += 1
        self.env.sleep(REQUEST_S)
        if self.is_calm:
            return _nothing
        pick = self.random.random
        if pick() < 0.001:
            self.random.choice(list(self.lives.values())).act()
        if self.pauses_every and self.depth == 1 and pick() < 1 / self.pauses_every:
            self.env.sleep(LASTS_S + 10)
            self.taken_over += 1
            self._flush()
            for process in self.processes:
                self.round_of(process)
        if self.kills_every and pick() < 1 / self.kills_every:
            self.crashes += 1
            if pick() < 0.5:
                raise Crash
            return _crash
        return _nothing

    def round_of(self, process: Process) -> Round | None:
        """Have a worker make its rounds; returns the last one, None if it was killed, or is at work."""
        if process.is_busy or self.tick < process.down_until:
            return None
        service = process.service = process.service or self.started(process)
        process.is_busy = True
        self.depth += 1
        try:
            found = service.round()
            while any(one in AT_ONCE for one in found.handled.values()) and not found.failed:
                found = service.round()
        except Crash:
            process.service = None
            process.down_until = self.tick + self.random.choice((0, 1, 1, 6))
            return None
        finally:
            process.is_busy = False
            self.depth -= 1
        if broken := [why for why in found.failed.values() if "internal error" in why]:
            raise Violation(f"a round failed: {broken}")
        return found

    def started(self, process: Process) -> Service:
        store = Requests(self.disk, self.request)
        clock = process.clock
        context = Context(store, clock, retry=RetryPolicy("worker", Unavailable, attempts=3))
        target = Endpoints(self.endpoints, clock)
        worker = Worker(context, target, self.log, self.timing, self.safeguards)
        worker.leases = Leases(context, f"worker-{self.env.new_id()}")
        return Service(worker)

    # Time passes.

    def run(self, days: float) -> None:
        """Live for so many days with faults, then without until everything that was due is gone."""
        plan = self._planned(days)
        for life in self.lives.values():
            for _ in range(YOUNG):
                life.act()
        ticks = round(days * self.day_s / self.tick_s)
        while self.tick < ticks:
            for at, fault in plan:
                if at == self.tick:
                    fault()
            for life in self.lives.values():
                for _ in range(int(self._acts) + (self.random.random() < self._acts % 1)):
                    life.act()
            self.work()
        self._heal()
        # Hours are short enough between two rounds for what only walks find.
        self.tick_s = max(self.tick_s, self.day_s // 24)
        ends_ns = self.env.now_ns() + 12 * self.timing.day_ns
        while any(life.due(in_ns=4 * self.timing.day_ns) for life in self.lives.values()):
            if self.env.now_ns() > ends_ns:
                raise Violation(f"not deleted: {[life.due() for life in self.lives.values()]}")
            self.work()
        self._sample()

    def work(self) -> None:
        """One tick: each worker has its rounds, then everything is compared with the oracle."""
        ends_ns = self.env.monotonic_ns() + self.tick_s * S
        self._flush()
        self._retry()
        is_healthy = not self.disk.is_full and not all(one.is_down for one in self.endpoints)
        is_whole = False
        for process in self.random.sample(self.processes, len(self.processes)):
            found = self.round_of(process)
            if found is not None:
                self._note(found)
                is_whole |= is_healthy and not found.failed
        self.env.sleep(max(0, ends_ns - self.env.monotonic_ns()) / S)
        for life in self.lives.values():
            if is_whole and life.is_able():
                life.able_ns += self.tick_s * S
            life.check_due()
        self._quiet_ticks = self._quiet_ticks + 1 if is_whole and not self.kills_every else 0
        self.tick += 1
        if self.hour >= self._sampled[0] + 1:
            self._sample()
            for life in self.lives.values():
                if self._quiet_ticks >= FOUND_TICKS and life.is_able():
                    life.is_whole = True
                    life.check_cursors()

    @property
    def hour(self) -> float:
        return self.env.monotonic_ns() / S / HOUR_S

    def _flush(self) -> None:
        for shard in self.log.shards():
            self.log.flush(shard, self.env.now_ns() - self.random.randint(0, 2) * S - 1)

    def _note(self, found: Round) -> None:
        for lag in found.lags:
            kind = "near" if lag.stream.delay_ns is None else "ages"
            self._lags[kind] = max(self._lags.get(kind, 0.0), lag.lag_ns / S)

    def _sample(self) -> None:
        deleted = sum(life.deletions for life in self.lives.values())
        late_s = max(life.late_ns for life in self.lives.values()) / S
        self.worst_late_s = max(self.worst_late_s, late_s)
        self.samples.append(
            Sample(
                round(self.hour, 2),
                dict(self._lags),
                dict(self.sent),
                late_s,
                sum(len(life.due_since) for life in self.lives.values()),
                sum(len(rows) for life in self.lives.values() for rows in life.bucket.rows.values()),
                deleted - self._sampled[1],
            )
        )
        for life in self.lives.values():
            life.late_ns = 0
        self._lags.clear()
        self.sent.clear()
        self._sampled = math.floor(self.hour), deleted

    def incidents_since(self, since_ns: int) -> int:
        """Return how many buckets had unreadable objects at some time since, or shortly before."""
        slack_ns = REPAIR_TICKS * self.tick_s * S
        return sum(ended is None or ended + slack_ns >= since_ns for _, _, ended in self.incidents)

    def is_returning(self) -> bool:
        """Return True as long after a loss as an action may be left to walks, or have returned just now."""
        return any(self.env.now_ns() - one < RETURN_DAYS * self.timing.day_ns for one in self.losses)

    # Faults.

    def _planned(self, days: float) -> list[tuple[int, Callable[[], None]]]:
        """Each kind of fault about once a day, at random times, for minutes or hours."""
        plan: list[tuple[int, Callable[[], None]]] = []
        ticks = round(days * self.day_s / self.tick_s)
        for life in self.lives.values():
            plan += [(self.random.randrange(ticks), life.edit) for _ in range(round(days))]
        each: dict[str, Callable[[int], list[tuple[int, Callable[[], None]]]]] = {
            "workers": self._workers_killed,
            "endpoints": self._endpoints_down,
            "disk": self._disk_full,
            "objects": self._objects_unreadable,
            "log": self._log_pruned,
            "clocks": self._clocks_skewed,
        }
        for kind in KINDS:
            every = LOSS_DAYS if kind == "log" else 1
            times = max(1, round(days / every)) if kind in self._kinds else 0
            for number in range(times):
                at = round((number + 0.15 + 0.7 * self.random.random()) * ticks / times)
                plan += each[kind](at)
        return plan

    def _span(self, kind: str, at: int, hours: float) -> int:
        """Note a fault of so many hours of a day of 24; returns the tick at which it ends."""
        hours *= self.day_s / DAY_S
        self.spans.append((kind, at * self.tick_s / HOUR_S, at * self.tick_s / HOUR_S + hours))
        return at + max(1, round(hours * HOUR_S / self.tick_s))

    def _workers_killed(self, at: int) -> list[tuple[int, Callable[[], None]]]:
        ends = self._span("workers", at, self.random.uniform(2, 8))

        def begin() -> None:
            self.kills_every, self.pauses_every = 60, 80

        def end() -> None:
            self.kills_every = self.pauses_every = 0

        return [(at, begin), (ends, end)]

    def _endpoints_down(self, at: int) -> list[tuple[int, Callable[[], None]]]:
        """One after the other, both at the same time in between."""
        third = max(1, (self._span("endpoints", at, self.random.uniform(1, 4)) - at) // 3)

        def change(*down: bool) -> Callable[[], None]:
            def work() -> None:
                for endpoint, is_down in zip(self.endpoints, down, strict=True):
                    endpoint.is_down = is_down

            return work

        states = (change(True, False), change(True, True), change(False, True), change(False, False))
        return [(at + number * third, state) for number, state in enumerate(states)]

    def _disk_full(self, at: int) -> list[tuple[int, Callable[[], None]]]:
        def change(is_full: bool) -> Callable[[], None]:
            return lambda: setattr(self.disk, "is_full", is_full)

        return [(at, change(True)), (self._span("disk", at, self.random.uniform(0.5, 3)), change(False))]

    def _objects_unreadable(self, at: int) -> list[tuple[int, Callable[[], None]]]:
        life = self.random.choice(list(self.lives.values()))

        def begin() -> None:
            keys = [key for key, rows in life.bucket.rows.items() if rows]
            life.site.poisoned = set(self.random.sample(keys, min(3, len(keys))))
            self.incidents.append((life, self.env.now_ns(), None))

        return [
            (at, begin),
            (self._span("objects", at, self.random.uniform(3, 12)), lambda: self._repair(life)),
        ]

    def _repair(self, life: Life) -> None:
        """Make the objects of a bucket readable; an operator has every blocker tried again."""
        life.site.poisoned = set()
        life.repaired_tick = self.tick
        now_ns = self.env.now_ns()
        self.incidents = [
            (one, began_ns, now_ns if one is life and ended_ns is None else ended_ns)
            for one, began_ns, ended_ns in self.incidents
        ]
        self._wants_retry = True

    def _retry(self) -> None:
        """As an operator does, once the disk has room for the wish."""
        if self._wants_retry and not self.disk.is_full:
            self._wants_retry = False
            for blocker in Blockers(self.context).every():
                self.records.retry(blocker.id)
            for life in self.lives.values():
                if not life.site.poisoned:
                    life.repaired_tick = max(life.repaired_tick, self.tick)

    def _log_pruned(self, at: int) -> list[tuple[int, Callable[[], None]]]:
        def lose() -> None:
            age_s = self.random.choice((0.005, 0.25, 1.25)) * self.day_s
            for shard in self.log.shards():
                self.log.lose_before(shard, self.env.now_ns() - round(age_s * S))
            self.losses.append(self.env.now_ns())
            self._quiet_ticks = 0

        self._span("log", at, 0.2)
        return [(at, lose)]

    def _clocks_skewed(self, at: int) -> list[tuple[int, Callable[[], None]]]:
        skews = [self.random.randint(-SKEW_S, SKEW_S) for _ in self.processes]

        def change(skewed: Sequence[int], is_skewed: bool) -> Callable[[], None]:
            def work() -> None:
                self.is_skewed = is_skewed
                for process, skew_s in zip(self.processes, skewed, strict=True):
                    process.clock.skew_s = skew_s

            return work

        ends = self._span("clocks", at, self.random.uniform(3, 10))
        return [(at, change(skews, True)), (ends, change([0] * len(skews), False))]

    def _heal(self) -> None:
        self.is_calm = True
        self.is_skewed = self.disk.is_full = False
        self.kills_every = self.pauses_every = 0
        for endpoint in self.endpoints:
            endpoint.is_down = False
        for process in self.processes:
            process.clock.skew_s = 0
        self.env.sleep(UNHEALTHY_S)
        for life in self.lives.values():
            life.is_calm = True
            self._repair(life)
            for rows in life.bucket.rows.values():
                rows[:] = [replace(row, locked=False) for row in rows]


def _nothing() -> None: ...


def _crash() -> None:
    raise Crash
