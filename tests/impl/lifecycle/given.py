"""A bucket whose objects may be poisoned or out of reach, its log, a store for the state, and workers."""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.cursor import Cursor
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.log import MemoryLog
from fencepost.impl.lifecycle.operate import Operator
from fencepost.impl.lifecycle.policy import What
from fencepost.impl.lifecycle.target import (
    WHOLE,
    Guard,
    Halted,
    Needs,
    Result,
    Standing,
    Unavailable,
    Unworkable,
)
from fencepost.impl.lifecycle.walk import Walks
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.store.interface import Store
from fencepost.impl.store.memory import MemoryStore

from .history import BUCKET, DAY, START, TIMING, Bucket, S

EVERYTHING = {"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}


class Down(Exception):
    """The store of the state does not answer."""


@dataclass
class Failing(Bucket):
    poisoned: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    is_down: bool = False
    is_halted: bool = False
    looks: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    lists_looks: bool = False

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        with self.lock:  # several threads may
            return super().delete(bucket, key, version_id, what, guard, needs)

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        self.looks.append(key)
        if self.is_halted:
            raise Halted("no endpoint answers")
        if key in self.poisoned:
            raise Unworkable(f"{key} cannot be read")
        if self.is_down or key in self.unreachable:
            raise Unavailable("the bucket does not answer")
        return super().standing(bucket, key, needs)


class Given:
    def __init__(
        self, *rules: dict[str, Any], shards: Sequence[str] = ("x",), versioned: bool = False
    ) -> None:
        self.env = SeededEnvironment(1, START)
        self.log = MemoryLog(shards)
        self.bucket = Failing(self.env, random.Random(1), self.log, versioned)
        self.bucket.structures = list(rules) or [EVERYTHING]
        self.store = MemoryStore(env=self.env)
        self.worker = self.new_worker()

    def new_worker(self, holder: str = "", store: Store | None = None) -> Worker:
        """Under leases, if it has a name."""
        retry = RetryPolicy("worker", Down, attempts=3, backoff_s=0.0)
        context = Context(store or self.store, self.env, retry=retry)
        worker = Worker(context, self.bucket, self.log, TIMING)
        if holder:
            worker.leases = Leases(context, holder)
        return worker

    @property
    def operator(self) -> Operator:
        return Operator(self.new_worker("operator"))

    def flush(self) -> None:
        for shard in self.log.shards():
            self.log.flush(shard, self.env.now_ns() - 1)

    def work(self, worker: Worker | None = None) -> None:
        """One pass of everything."""
        self.flush()
        one = worker or self.worker
        Walks(one).run()
        one.sweep_all()
        one.drain()

    def works(self, seconds: float, every: float = 1.0) -> None:
        for _ in range(round(seconds / every)):
            self.work()
            self.env.sleep(every)

    def cursor(self, key: str = "") -> Cursor:
        found = Cursor(self.worker.context, key or cursors.ages_key(DAY, "x"))
        found.start()
        return found

    @property
    def keys(self) -> list[str]:
        return sorted(key for key, rows in self.bucket.rows.items() if rows)

    def action(self, rule: int = 0) -> str:
        """The name of the first action of a rule."""
        return f"{BUCKET}/{self.bucket.rules(BUCKET)[rule].actions()[0]}"

    def written(self, *keys: str) -> "Given":
        """These, once the action has begun, a second apart."""
        self.work()
        for key in keys:
            self.env.sleep(1)
            self.bucket.write(key, 1, {})
        return self

    def until(self, is_so: Callable[[], bool], every: float = 1.0, most: int = 60) -> int:
        """Passes until it is so; returns how many."""
        for count in range(most):
            if is_so():
                return count
            self.work()
            self.env.sleep(every)
        raise AssertionError("it never was so")


__all__ = ["BUCKET", "DAY", "EVERYTHING", "START", "TIMING", "Given", "S"]
