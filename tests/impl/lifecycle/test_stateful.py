"""Whatever Hypothesis does to a bucket, its policy, its log and two workers, the oracle agrees.

What fails is shrunk. Histories that are longer, and random, are in `history`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.lifecycle import walk
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.target import Unavailable
from fencepost.impl.lifecycle.worker import Worker
from tests.depth import examples

from .history import KEYS, SCAN, TAG, TIMING, Crash, Faults, History, Requests, S, Violation, some_rules

KEY, PLACES = st.sampled_from(KEYS[:3]), st.integers(0, 2)
REQUESTS = st.none() | st.integers(1, 40)


class TwoWorkers(History):
    """One works each second; the other one takes over at a request of it, and ends before it goes on."""

    def __init__(self, versioned: bool, lag: int, **options: Any) -> None:
        super().__init__(1, Faults(), **options)
        self.lag, self.bucket.is_versioned = lag, versioned
        self.crash_in: int | None = None
        self.rival_in: int | None = None

    def request(self) -> Callable[[], None]:
        if self.rival_in is not None:
            self.rival_in -= 1
            if not self.rival_in:
                self.rival_in = None
                self.round("bob")
        if self.crash_in is not None:
            self.crash_in -= 1
            if not self.crash_in:
                self.crash_in = None
                self.crashes += 1
                raise Crash
        return lambda: None

    def round(self, holder: str) -> None:
        context = Context(
            Requests(self.store, self.request),
            self.env,
            retry=RetryPolicy(holder, RuntimeError, backoff_s=0.0),
        )
        worker = Worker(context, self.bucket, self.log, TIMING, self.safeguards)
        worker.pending_max = self.pending_max
        worker.leases = Leases(context, holder, 0.0)
        walk.run(worker)

    def work(self) -> None:
        self.bucket.before = self.bucket_request
        while True:
            for shard in self.log.shards():
                self.log.flush(shard, self.env.now_ns() - self.lag * S - 1)
            try:
                self.round("ann")
            except (Crash, Unavailable):
                self.is_whole = False
                self.check_cursors()
                continue
            self.is_whole = True
            self.check_cursors()
            self.runs += 1
            return


class Lifecycles(RuleBasedStateMachine):
    safeguards: Safeguards = STANDARD
    always_loses = False
    """Every log loses events, not only some."""

    def __init__(self) -> None:
        super().__init__()
        self.history = TwoWorkers(False, 0)

    @initialize(
        versioned=st.booleans(),
        lag=st.sampled_from((0, 2)),
        room=st.sampled_from((0, 50_000)),
        losses=st.booleans(),
        pick=st.randoms(use_true_random=True),
    )
    def begin(self, versioned: bool, lag: int, room: int, losses: bool, pick: Any) -> None:
        losses |= self.always_loses
        self.history = TwoWorkers(versioned, lag, pending_max=room, losses=losses, safeguards=self.safeguards)
        self.edit(pick)

    # Users.

    @rule(key=KEY, size=st.sampled_from((0, 10)), tags=st.sampled_from(({}, TAG)))
    def write(self, key: str, size: int, tags: dict[str, str]) -> None:
        self.history.bucket.write(key, size, tags)

    @rule(key=KEY)
    def begin_upload(self, key: str) -> None:
        self.history.bucket.begin_upload(key)

    @rule(key=KEY)
    def tag(self, key: str) -> None:
        rows = self.history.bucket.rows.get(key, [])
        if rows and not rows[-1].stored.marker:
            stored = replace(rows[-1].stored, tags={} if rows[-1].stored.tags else TAG)
            self.history.bucket.change(key, [*rows[:-1], replace(rows[-1], stored=stored)])

    @rule(key=KEY)
    def remove(self, key: str) -> None:
        if self.history.bucket.rows.get(key):
            self.history.bucket.remove(key)

    @rule(key=KEY, place=PLACES)
    def remove_version(self, key: str, place: int) -> None:
        rows = self.history.bucket.rows.get(key, [])
        if self.history.bucket.is_versioned and place < len(rows):
            self.history.bucket.remove_version(key, rows[place].stored.version_id)

    @rule(key=KEY, place=PLACES)
    def lock(self, key: str, place: int) -> None:
        rows = self.history.bucket.rows.get(key, [])
        if place < len(rows):
            rows[place] = replace(rows[place], locked=not rows[place].locked, was_locked=True)

    @rule(pick=st.randoms(use_true_random=True))
    def edit(self, pick: Any) -> None:
        self.history.bucket.structures = some_rules(pick, self.history.env.now_ns())

    # The log, time and the workers.

    @precondition(lambda self: self.history.losses)
    @rule(age=st.integers(0, 3))
    def prune(self, age: int) -> None:
        for shard in self.history.log.shards():
            self.history.log.lose_before(shard, self.history.env.now_ns() - age * S)

    @rule(crash_in=REQUESTS, rival_in=REQUESTS)
    def second(self, crash_in: int | None, rival_in: int | None) -> None:
        self.history.crash_in, self.history.rival_in = crash_in, rival_in
        self.history.second()

    @rule(seconds=st.integers(2, 8))
    def seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.history.second()

    def teardown(self) -> None:
        history = self.history
        history.crash_in = history.rival_in = None
        rows = [row for rows in history.bucket.rows.values() for row in rows]
        for found in history.bucket.rows.values():
            found[:] = [replace(row, locked=False) for row in found]
        is_scanned = history.losses or not history.pending_max or any(row.was_locked for row in rows)
        for _ in range(SCAN * is_scanned // S + 12):
            history.second()


def run(machine: type[Lifecycles], count: int, steps: int = 20, **further: Any) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=count, stateful_step_count=steps, deadline=None, derandomize=True, **further
        ),
    )


def test_what_is_deleted_and_when_equals_the_oracle() -> None:
    run(Lifecycles, examples(4, 1_000))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lock", "loss_degrades", "delay_back"])
def test_a_safeguard_that_is_left_out_is_found(name: str) -> None:
    replacement = {"lock": lambda _: False, "loss_degrades": lambda _: False, "delay_back": lambda _: -30 * S}

    class Broken(Lifecycles):
        safeguards = replace(STANDARD, **{name: replacement[name]})
        always_loses = name == "loss_degrades"

    # That it is found is what counts: shrinking takes minutes, and two ways to find it are no other result.
    with pytest.raises(Violation):
        run(Broken, 2_000, 30, phases=[Phase.generate], report_multiple_bugs=False)
