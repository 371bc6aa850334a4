"""One run of a scenario: a bucket whose lifecycle has begun, a worker or two, and users who change it.

The bucket, with its log and its clock, is one object of the store (see `properties/lifecycle/stored`); the
state of the lifecycle lies beside it, as it ships. Time passes by what users do. A worker does not start
again after a crash: what it left is judged as it lies, and on copies at which another one goes on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.context import Context
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lease import Fenced
from fencepost.impl.lifecycle import cursors, walk
from fencepost.impl.lifecycle.blockers import Stream
from fencepost.impl.lifecycle.lag import Lags
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.operate import Operator
from fencepost.impl.lifecycle.policy import delays, rules_of
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.shards import Shards
from fencepost.impl.lifecycle.target import Unavailable
from fencepost.impl.lifecycle.trace_fields import trace_fields
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Get, Outcome, Put, Request
from fencepost.properties.lifecycle.checks import (
    CHECKS,
    RETRY,
    STEPS,
    LifecycleState,
    Outcomes,
    Pass,
    Saved,
    name_of,
    worker_on,
)
from fencepost.properties.lifecycle.refinement import LifecycleRefinement
from fencepost.properties.lifecycle.stored import (
    BUCKET,
    KEY,
    START_NS,
    TIMING,
    BucketEnvironment,
    Contents,
    StoredBucket,
    found_in,
)
from fencepost.sim.systems.harness import ScenarioEnvironment, declare, once
from fencepost.sim.systems.lockstep import Lockstep, Readers, cached
from fencepost.sim.world import View, World

TRIES = 2
"""Failures after which an item becomes a blocker."""
NEAR = "near"
Change = Callable[[Contents], None]
Structure = dict[str, Any]


def rule(days: int, *, prefix: str = "", tag: bool = False) -> Structure:
    parts: Structure = {"Prefix": prefix, **({"Tags": [{"Key": "t", "Value": "1"}]} if tag else {})}
    return {"Status": "Enabled", "Filter": {"And": parts}, "Expiration": {"Days": days}}


def delay_of(structure: Structure) -> int:
    (found,) = rules_of([structure])
    (delay_ns,) = delays(found, found.kinds()[0], TIMING)
    return delay_ns


def ages(structure: Structure, shard: str = "x") -> str:
    return cursors.ages_key(delay_of(structure), shard)


class _Recorder(Layer):
    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.sent: list[tuple[Request[Any], Any]] = []

    def send(self, request: Request[Any]) -> Any:
        reply = self.inner.send(request)
        self.sent.append((request, reply))
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return [self.send(request) for request in requests]


class Watched(Layer):
    """The store of one worker: what it read of its cursors last."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.position = ""
        self.saved: Callable[[str, bytes], None] = lambda _key, _body: None

    def send(self, request: Request[Any]) -> Any:
        reply = self.inner.send(request)
        if isinstance(request, Put) and request.key.startswith(cursors.FOLDER):
            if reply.outcome is Outcome.DONE:
                self.saved(request.key, request.body)
            return reply
        if isinstance(request, Get) and request.key.startswith(cursors.FOLDER) and reply.info is not None:
            self.position = Saved.read(reply.body).position
        return reply


COVERED = {"streams": 2, "names": 1, "buckets": 1, "items": 1}
"""The bound at which transitions are counted. A run that leaves it counts up to there. The bound of replay
has too many states to be explored."""
READERS: Readers[None] = Readers(
    lambda _: LifecycleRefinement(whole=1), lambda: LifecycleRefinement(**COVERED, whole=1)
)
_fields = cached(trace_fields)
Founding = tuple[Mapping[str, bytes], Sequence[tuple[Request[Any], Any]]]
"""The contents of the store, and the requests that led there."""
_FOUNDED: dict[tuple[str, str], Founding] = {}
"""Settings, by scenario and variant."""


Step = Change | str
"""A change of the bucket, or something that a worker does, see `perform`."""


def perform(worker: Worker, what: str) -> str:
    """`walk`, `begin a walk`, `sweep`, `shards`, `lags`, `reseed`; or the key of a cursor, for a sweep of
    it. `divide` a part of a walk, `take a part` for another worker; `begin anew`, without a page."""
    walks = walk.Walks(worker)
    match what:
        case "divide" | "take a part":
            found = worker.records.bucket(BUCKET).walk
            if found is not None and what == "divide":
                walks._divide(BUCKET, found, worker.snapshot())  # noqa: SLF001  a part of a walk
            elif found is not None and found.parts:
                Leases(worker.context, "another", 1000.0).hold(walk.stream_of(BUCKET, found.parts[-1].start))
        case "begin anew":
            prepared = walks.prepare()
            if worker.leases.hold(walk.stream_of(BUCKET)):
                with suppress(Fenced):
                    walks._begin(BUCKET, prepared.actions[BUCKET], prepared.served)  # noqa: SLF001  as above
        case "walk":
            walk.Walks(worker).run()
        case "begin a walk":
            worker.proceed = lambda: False
            walk.Walks(worker).run()
            worker.proceed = lambda: True
        case "sweep":
            worker.sweep_all()
        case "shards":
            Shards(worker).look()
        case "lags":
            Lags(worker).act()
        case "reseed":
            Operator(worker).reseed(is_lost_accepted=True, reason="an audit")
        case _:
            return worker.sweep(Stream(what)).value
    return "resolved"


def _limited(worker: Worker, pending_max: int) -> Worker:
    worker.pending_max, worker.tries_max, worker.fatal_tries_max = pending_max, TRIES, TRIES
    worker.checkpoint_s = 0.0
    return worker


@dataclass
class ScenarioRun:
    world: World
    scenario: str
    safeguards: Safeguards = STANDARD
    followed: bool = True
    shards: tuple[str, ...] = ("x",)
    pending_max: int = 50_000
    fresh_log: bool = False
    notes_failures: bool = False
    notes_taken: bool = False
    lease_s: float | None = None
    """Of the leases of workers, if they have any."""
    retention_s: int = 0
    failed_before: tuple[tuple[str, str], ...] = ()
    """Failures of the setting."""
    named: list[tuple[str, str]] = field(default_factory=list)
    etag: str = ""
    begun: Contents = field(default_factory=Contents)

    # The setting.

    def found(self, rules: Sequence[Structure], *steps: Step, variant: str = "") -> None:
        """A bucket under these rules, which are followed since 0 s, after these steps. A scenario that has
        several settings names each `variant`."""
        place = self.scenario, variant
        if place not in _FOUNDED:
            _FOUNDED[place] = self._found(rules, steps)
        contents, sent = _FOUNDED[place]
        if self.followed and isinstance(self.world, World):
            lockstep = Lockstep(READERS.of(None), self.world.findings, _fields, lambda *_: None)
            for request, reply in sent:
                refused = lockstep.landed("before", 0, request, reply)
                assert refused is None, refused
            self.world.follow("lockstep", lockstep)
        for key, body in contents.items():
            reply = self.world.store().put(key, body, when=ABSENT)
            self.etag = reply.etag if key == KEY else self.etag
        self.begun = Contents.read(contents[KEY])

    def _found(self, rules: Sequence[Structure], steps: Sequence[Step]) -> Founding:
        inner = MemoryStore(env=SeededEnvironment(1, START_NS))
        store = _Recorder(inner)
        found_in(store, Contents(rules=list(rules), retention_s=self.retention_s))
        bucket = StoredBucket(store, self.shards)
        bucket.refresh()
        for step in ("walk", *steps):
            if isinstance(step, str):
                perform(_limited(worker_on(store, bucket, STANDARD), self.pending_max), step)
            else:
                bucket.act(step)
        return dict(inner.contents()), store.sent

    def keeps(self, structure: Structure) -> None:
        """Declare that this rule does not change, and that the log loses none of its events."""
        (found,) = rules_of([structure])
        self.named += [(ages(structure, shard), name_of(found)) for shard in self.shards]

    # Processes.

    def bucket(self) -> StoredBucket:
        return StoredBucket(self.world.store(), self.shards, fresh_log=self.fresh_log)

    def user(self, *changes: Change, name: str = "user") -> None:
        def act() -> None:
            bucket = self.bucket()
            bucket.known, bucket._etag = self.begun, self.etag  # noqa: SLF001  as the setting left it
            for change in changes:
                bucket.act(change)

        self.world.spawn(act, name=name, restart=False)

    def new_worker(self, holder: str = "") -> Worker:
        bucket = self.bucket()
        store = Watched(self.world.store())
        env = BucketEnvironment(ScenarioEnvironment(self.world), bucket)
        worker = Worker(Context(store, env, retry=RETRY), bucket, bucket, TIMING, self.safeguards)
        _limited(worker, self.pending_max)
        if self.lease_s is not None:
            leases = Leases(worker.context, holder or self.world.me, self.lease_s)
            worker.leases = leases

            def saved(key: str, body: bytes) -> None:
                if not leases.is_held(key):
                    return  # the end of a walk moves cursors back without their leases
                self.world.note("saved", (key, json.loads(body)["revision"], leases.epoch(key)))

            store.saved = saved
        if self.notes_failures:
            bucket.failed = lambda key, what: self.world.note("failed", (key, what))
        if self.notes_taken:
            bucket.took = lambda _, place: self.world.note("taken", (place, store.position))
        bucket.refresh()
        return worker

    def does(self, worker: Worker, what: str) -> None:
        bucket = worker.target
        assert isinstance(bucket, StoredBucket)
        if what == "refresh":
            bucket.refresh()
            return
        at_s = bucket.known.now_s
        handled = perform(worker, what)
        if what.startswith(cursors.FOLDER) or what == "lags":
            self.world.note("pass", Pass(what, handled, at_s))

    def late_joiner(self, change: Change) -> None:
        """A worker reads the rules; a user changes them, another worker begins a walk, the first joins."""

        def work() -> None:
            try:
                worker, leader = self.new_worker("late"), self.new_worker("leader")
                walks = walk.Walks(worker)
                # Without records of buckets: as if it had seen an earlier walk, which is over by then.
                prepared = replace(walks.prepare(), states={})
                self.bucket().act(change)
                for one in (leader, worker):
                    self.does(one, "refresh")
                self.does(leader, "begin a walk")
                walks.walk(BUCKET, prepared)
            except Unavailable:
                return

        self.world.spawn(work, name="worker", restart=False)

    def worker(self, *what: Step, name: str = "worker") -> None:
        """One that does these in turn; between them a user changes the bucket."""

        def work() -> None:
            try:
                worker = self.new_worker()
                for one in what:
                    if isinstance(one, str):
                        self.does(worker, one)
                    else:
                        self.bucket().act(one)
            except Unavailable:
                return

        self.world.spawn(work, name=name, restart=False)

    # Verdicts.

    def outcomes(self, view: View) -> Outcomes:
        return Outcomes(
            tuple(view.notes("pass")),
            tuple(tuple(one) for one in view.notes("taken")),
            (*self.failed_before, *(tuple(one) for one in view.notes("failed"))),
            tuple(self.named),
            TRIES,
            tuple(tuple(one) for one in view.notes("saved")),
        )

    def declare_checks(self) -> None:
        key = (self.safeguards, self.pending_max, self.shards)
        declare(self.world, CHECKS, lambda view: examine(view.contents(""), key), self.outcomes)
        for name, check in STEPS.items():
            self.world.step_property(name.replace("_", "-"), _judged(check))


def _judged(check: Callable[..., Any]) -> Callable[[View, View], str | None]:
    def judge(before: View, after: View) -> str | None:
        folder = "lifecycle/"
        return next(check(before.contents(folder), after.contents(folder)), None)

    return judge


@once
def examine(contents: Mapping[str, bytes], key: tuple[Safeguards, int, tuple[str, ...]]) -> LifecycleState:
    safeguards, pending_max, shards = key
    return LifecycleState(contents, safeguards, pending_max, shards)
