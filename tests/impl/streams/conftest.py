import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.memory import MemoryStore


@pytest.fixture
def env() -> SeededEnvironment:
    return SeededEnvironment()


@pytest.fixture
def store(env) -> MemoryStore:
    return MemoryStore(env=env)
