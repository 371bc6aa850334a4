"""A part of a store is a store: the suite every backend passes, and nothing outside the prefix."""

import pytest

from holdfast.impl.environment import SeededEnvironment
from holdfast.impl.store import ANYTHING
from holdfast.impl.store.memory import MemoryStore
from holdfast.properties.store_behaviour import StoreBehaviour, VersionedStoreBehaviour
from holdfast.sim.probe.ground import Ground
from holdfast.sim.real.prefixed import Prefixed


def part_of(whole: MemoryStore) -> Prefixed:
    for key in ("a", "mine", "mine0", "n", "zoo/k"):
        whole.put(key, b"another's", when=ANYTHING)
    return Prefixed(whole, "mine/", Ground(whole, SeededEnvironment()))


class TestPart(StoreBehaviour):
    @pytest.fixture
    def store(self):
        return part_of(MemoryStore())


class TestVersionedPart(VersionedStoreBehaviour):
    @pytest.fixture
    def store(self):
        return part_of(MemoryStore(versioned=True))
