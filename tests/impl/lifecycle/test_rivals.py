"""Several services at once, each paused at any request while others run, equal the oracle too.

Leases last for no time, so that every pass takes over what another one has begun, and fences it. Shards join,
depart when they were read, and vanish.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.cursor import Cursor
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.documents import named
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.policy import Mode, Rule
from fencepost.impl.lifecycle.records import Records
from fencepost.impl.lifecycle.service import Service
from fencepost.impl.lifecycle.worker import Worker

from .history import BUCKET, SCAN, TIMING, Crash, Faults, History, Requests, S, Violation

ROUGH = Faults(crash=0.002, fail=0.002, act=0.003, race=0.2)


class Rivals(History):
    def __init__(self, seed: int, faults: Faults, rivals: float = 0.02, **options: Any) -> None:
        super().__init__(seed, faults, **options)
        self.rivals = rivals
        self.depth = 0
        self.taken_over = 0
        self.joined = 0
        self.vanished: set[str] = set()

    def request(self) -> Callable[[], None]:
        if self.depth == 1 and self.random.random() < self.rivals:
            self.taken_over += 1
            self.round()
        return super().request()

    def round(self) -> bool:
        """Of a new process; returns whether it came to its end."""
        self.depth += 1
        try:
            store = Requests(self.store, self.request)
            retry = RetryPolicy("worker", RuntimeError, attempts=3, backoff_s=0.0)
            context = Context(store, self.env, retry=retry)
            worker = Worker(context, self.bucket, self.log, TIMING, self.safeguards)
            worker.pending_max = self.pending_max
            worker.leases = Leases(context, f"{self.env.new_id()}", 0.0)
            result = Service(worker).round()
            if unexpected := [why for why in result.failed.values() if "does not answer" not in why]:
                raise Violation(f"failed: {unexpected}")
            return not result.failed
        except Crash:
            return False
        finally:
            self.depth -= 1

    def work(self) -> None:
        self.bucket.before = self.bucket_request
        self.phase = "round"
        while True:
            for shard in self.log.shards():
                self.log.flush(shard, self.env.now_ns() - self.random.randint(0, self.lag) * S - 1)
            self.is_whole = self.round()
            self.check_cursors()
            if self.is_whole:
                self.runs += 1
                return
            if self.random.random() < 0.3 and not self.is_calm:
                return

    def second(self) -> None:
        self.change_shards()
        super().second()

    def change_shards(self) -> None:
        pick = self.random
        writers = self.log.writers()
        if self.is_calm or pick.random() > 0.1:
            return
        closed = [shard for shard in self.log.shards() if shard not in writers]
        kind = pick.choice(("join", "depart", "vanish"))
        if kind == "join" and len(self.log.shards()) < 4:
            self.joined += 1
            self.log.open(f"s{self.joined}")
        elif kind == "depart" and len(writers) > 1:
            self.log.close(pick.choice(writers))
        elif kind == "vanish" and closed and all(self.is_noted(one) for one in self.cursors_of(closed[0])):
            self.vanished.add(closed[0])
            self.log.vanish(closed[0])

    def cursors_of(self, shard: str) -> list[Cursor]:
        context = Context(self.store, self.env, retry=RetryPolicy("check", RuntimeError))
        keys = [key for key in self.store.contents() if key.startswith(cursors.FOLDER)]
        found = [Cursor(context, key) for key in keys if key.endswith(f"/{shard}.json")]
        for cursor in found:
            cursor.start()
        return found

    def is_noted(self, cursor: Cursor) -> bool:
        fields = Records(cursor.context).read(named("drained", cursor.key))
        return fields is not None and fields["position"] <= cursor.saved

    def _check_cursor(self, cursor: Cursor, rule: Rule, is_pending: bool) -> None:
        # The cursors of a shard that vanished stay until a round has looked.
        if cursor.key.rpartition("/")[2].removesuffix(".json") not in self.vanished:
            for rows in self.bucket.rows.values():
                rows[:] = [
                    replace(one, place=("", "")) if one.place[0] in self.vanished else one for one in rows
                ]
            super()._check_cursor(cursor, rule, is_pending)

    def bound_ns(self, what: str, key: str, version_id: str) -> int:
        context = Context(self.store, self.env, retry=RetryPolicy("check", RuntimeError))
        states = Records(context).bucket(BUCKET).actions.values()
        if any(one.mode is Mode.SCAN_ONLY for one in states):
            return SCAN + 2 * S
        return super().bound_ns(what, key, version_id)


def run(seed: int, seconds: int = 40, **options: Any) -> Rivals:
    history = Rivals(seed, ROUGH, **options)
    try:
        history.run(seconds)
    except Violation as error:
        raise Violation(f"seed {seed}: {error}") from error
    return history


def test_a_few_histories_of_several_services_equal_the_oracle() -> None:
    done = [run(seed, 16) for seed in (0, 3, 4, 5, 9)]
    assert sum(one.taken_over for one in done) > 5
    assert sum(one.joined for one in done) > 0
    assert sum(one.deletions for one in done) > 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_many_histories_of_several_services_equal_the_oracle(part: int) -> None:
    done = [run(seed) for seed in range(20 * part, 20 * part + 20)]
    assert any(one.vanished for one in done)
