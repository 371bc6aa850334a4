"""Long random runs of several handles, in lockstep with the model, which notices what broken code does."""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import Catalog
from fencepost.impl.store import Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.publish.checks import Check
from fencepost.properties.publish.stateful import PublishStateful
from tests.depth import examples


class InMemory(PublishStateful):
    def open(self) -> Store:
        return MemoryStore(env=SeededEnvironment(11))


class ModelOnly(InMemory):
    checks: ClassVar[Mapping[str, Check]] = {}


TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(max_examples=examples(6, 500), stateful_step_count=20)


def test_code_that_forgets_its_sidecar_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that holds for broken code would be decoration."""
    from tests.impl.publish.scripted import without

    original = Catalog.open

    def mutated(store: Any, **options: Any) -> Catalog:
        return original(store, **{"safeguards": without("sidecar-before-heads"), **options})

    monkeypatch.setattr(Catalog, "open", staticmethod(mutated))
    found = settings(max_examples=20, stateful_step_count=10, phases=[Phase.generate])
    with pytest.raises(AssertionError, match=r"is not possible: .*writer"):
        run_state_machine_as_test(ModelOnly, settings=found)
    with pytest.raises(AssertionError, match=r"no_wedge"):
        run_state_machine_as_test(InMemory, settings=found)
