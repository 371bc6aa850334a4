"""The spool against a model: adding, sending, parking, settling, failing disks and restarts in any order."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest.service import spool as spool_module
from fencepost.impl.ingest.service.spool import Batch, Spool, SpoolError, SpoolFull
from tests.depth import examples

BYTES_MAX = 40


class Spools(RuleBasedStateMachine):
    """`waiting` and `parked` are the expected contents; `named` has every identity so far."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.waiting: dict[str, bytes] = {}
        self.parked: dict[str, bytes] = {}
        self.named: set[tuple[str, int]] = set()
        self.starts = 0
        self.open()

    def open(self) -> None:
        self.starts += 1
        self.spool = Spool(self.folder, "agent-a", env=SeededEnvironment(self.starts), bytes_max=BYTES_MAX)

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.spool.close()
            shutil.rmtree(self.folder)

    @rule(count=st.integers(1, 3), body=st.binary(max_size=15))
    def add(self, count: int, body: bytes) -> None:
        full = sum(map(len, [*self.waiting.values(), *self.parked.values()])) + len(body) > BYTES_MAX
        try:
            batch = self.spool.add(count, lambda start, end: self.made(start, end, body))
        except SpoolFull:
            assert full
        else:
            assert not full
            self.waiting[batch.name] = body

    @rule(at=st.sampled_from(["fsync", "rename", "folder"]), body=st.binary(max_size=5))
    def add_to_a_failing_disk(self, at: str, body: bytes) -> None:
        """The batch may exist or not; if it does, it is whole, and no number repeats."""
        with pytest.MonkeyPatch.context() as patch:
            if at == "folder":
                patch.setattr(spool_module, "_flush_folder", failing)
            elif at == "fsync":
                patch.setattr(spool_module.os, "fsync", failing)
            else:
                patch.setattr(Path, "rename", failing)
            try:
                self.spool.add(1, lambda start, end: self.made(start, end, body))
            except SpoolFull:
                return
            except SpoolError:
                pass
        self.restart()
        found = {batch.name for batch in self.all_waiting()}
        for name in found - set(self.waiting):
            self.waiting[name] = body

    def made(self, start: int, end: int, body: bytes) -> bytes:
        for number in range(start, end + 1):
            assert (self.spool.boot_id, number) not in self.named
            self.named.add((self.spool.boot_id, number))
        return body

    @precondition(lambda self: self.waiting)
    @rule()
    def send(self) -> None:
        batch = self.first()
        self.spool.done(batch)
        del self.waiting[batch.name]

    @precondition(lambda self: self.waiting)
    @rule()
    def park(self) -> None:
        batch = self.first()
        self.spool.park(batch, {"why": batch.name})
        self.parked[batch.name] = self.waiting.pop(batch.name)

    @precondition(lambda self: self.parked)
    @rule(data=st.data(), again=st.booleans())
    def settle(self, data: Any, again: bool) -> None:
        batch = data.draw(st.sampled_from(self.spool.parked()))
        assert self.spool.why(batch) == {"why": batch.name}
        body = self.parked.pop(batch.name)
        if again:
            self.spool.requeue(batch)
            self.waiting[batch.name] = body
        else:
            self.spool.drop(batch)

    @rule()
    def restart(self) -> None:
        self.spool.close()
        self.open()

    def first(self) -> Batch:
        batch = self.spool.first()
        assert batch is not None
        assert batch.name == min(self.waiting), "the oldest first"
        return batch

    def all_waiting(self) -> list[Batch]:
        return list(self.spool._waiting.values())

    @invariant()
    def as_the_model_says(self) -> None:
        if not hasattr(self, "spool"):
            return
        assert {batch.name: self.spool.frame(batch) for batch in self.all_waiting()} == self.waiting
        assert {batch.name: self.spool.frame(batch) for batch in self.spool.parked()} == self.parked
        assert self.spool.bytes_used == sum(map(len, [*self.waiting.values(), *self.parked.values()]))
        assert not list((self.folder / "drafts").iterdir())


def failing(*_: object) -> None:
    raise OSError(28, "No space left on device")


TestSpools = Spools.TestCase
TestSpools.settings = settings(
    max_examples=examples(8, 100), stateful_step_count=20
)  # each step waits for the disk
