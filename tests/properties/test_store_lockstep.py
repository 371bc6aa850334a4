"""Every backend in lockstep with the reference; and broken ones, which the machine must catch."""

import unittest

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fencepost.impl.store import Store, open_store
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.memory import MemoryStore
from tests import depth
from tests.properties import broken_stores
from tests.properties.store_lockstep import StoreLockstep
from tests.servers.moto_here import Here


class MemoryLockstep(StoreLockstep):
    part_bytes_min = broken_stores.PART_BYTES_MIN

    def open(self) -> Store:
        return MemoryStore(part_bytes_min=self.part_bytes_min)


class MemoryVersionedLockstep(MemoryLockstep):
    def open(self) -> Store:
        return MemoryStore(versioned=True, part_bytes_min=self.part_bytes_min)


class FilesLockstep(StoreLockstep):
    part_bytes_min = 0

    def open(self) -> Store:
        return FileStore(self.directory(), linger_ms=0)


class MotoLockstep(StoreLockstep):
    deviations = frozenset({"conditional-complete", "gone-uploads", "uploads-listing"})
    server: Here
    versioned = False

    def open(self) -> Store:
        return open_store(self.server.bucket(versioned=self.versioned))


class MotoVersionedLockstep(MotoLockstep):
    deviations = MotoLockstep.deviations | {"markers", "versions-listing", "deleted-groups"}
    versioned = True


def case(machine: type[StoreLockstep], examples: int, steps: int) -> type[unittest.TestCase]:
    made: type[unittest.TestCase] = machine.TestCase
    made.settings = settings(  # type: ignore[attr-defined]
        max_examples=depth.examples(examples), stateful_step_count=steps
    )
    return made


TestMemory = case(MemoryLockstep, 40, 40)
TestMemoryVersioned = case(MemoryVersionedLockstep, 40, 40)
TestFiles = case(FilesLockstep, 15, 30)


@pytest.mark.parametrize("machine", [MotoLockstep, MotoVersionedLockstep])
def test_moto_but_for_its_declared_deviations(machine: type[MotoLockstep], honest_moto: Here) -> None:
    machine.server = honest_moto
    run_state_machine_as_test(
        machine, settings=settings(max_examples=depth.examples(4, 100), stateful_step_count=25)
    )


RARE = (broken_stores.ForgetsWhatStoodThereWhenTheUploadBegan, broken_stores.IfMatchTakesTheEtagBefore)


@pytest.mark.parametrize(
    "broken", [pytest.param(one, marks=[pytest.mark.slow] * (one in RARE)) for one in broken_stores.ALL]
)
def test_a_broken_store_is_caught(broken: type[broken_stores.Broken]) -> None:
    with pytest.raises(AssertionError, match=r"expected .*, the store answered"):
        run_state_machine_as_test(
            machine_of(broken),
            settings=settings(max_examples=2000, stateful_step_count=40, phases=[Phase.generate]),
        )


def machine_of(broken: type[broken_stores.Broken]) -> type[StoreLockstep]:
    class BrokenLockstep(MemoryLockstep):
        def open(self) -> Store:
            return broken()

    return BrokenLockstep


@pytest.mark.slow
def test_the_printed_steps_are_code_to_paste() -> None:
    """A failure that can only be replayed where it was found is half a failure."""
    machine = machine_of(broken_stores.IgnoresIfNoneMatch)
    with pytest.raises(AssertionError) as caught:
        run_state_machine_as_test(machine, settings=settings(max_examples=500, stateful_step_count=20))
    lines = "\n".join(caught.value.__notes__).splitlines()
    steps = [line for line in lines if line.startswith("state")]
    assert (steps[0], steps[-1]) == ("state = BrokenLockstep()", "state.teardown()")
    assert all(step.startswith("state.") for step in steps[1:])
    assert len(steps) <= 6
    with pytest.raises(AssertionError, match=r"expected .'exists',., the store answered PutReply"):
        exec("\n".join(steps), {"BrokenLockstep": machine})
