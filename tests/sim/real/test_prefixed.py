"""A part of a store is a store: the suite every backend passes, and nothing outside the prefix."""

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.store_behaviour import StoreBehaviour, VersionedStoreBehaviour
from fencepost.sim.probe.scratch import ScratchPrefix
from fencepost.sim.real.prefixed import Prefixed


def part_of(whole: MemoryStore) -> Prefixed:
    for key in ("a", "mine", "mine0", "n", "zoo/k"):
        whole.put(key, b"another's", when=ANYTHING)
    return Prefixed(whole, "mine/", ScratchPrefix(whole, SeededEnvironment()))


class TestPart(StoreBehaviour):
    @pytest.fixture
    def store(self):
        return part_of(MemoryStore())


class TestVersionedPart(VersionedStoreBehaviour):
    @pytest.fixture
    def store(self):
        return part_of(MemoryStore(versioned=True))
