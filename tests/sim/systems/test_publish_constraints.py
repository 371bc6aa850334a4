"""The audit of constraints: in every order of two writers' steps, no visible state breaks one of them."""

import functools
from collections.abc import Mapping
from typing import Any

import pytest

from fencepost.impl.publish import STANDARD, Catalog, Published, PublishError, Safeguards, verify
from fencepost.impl.publish.tables import WorkingTable
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Put
from fencepost.properties.publish import parquet_cache
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.harness import copy_of
from fencepost.sim.systems.publish.run import ScenarioRun
from fencepost.sim.world import Budget, World
from fencepost.sim.world.view import View
from tests.impl.publish.scripted import without
from tests.impl.publish.test_constraints import RACES, founded


@functools.cache
def contents(race: str) -> Mapping[str, bytes]:
    return dict(founded(*RACES[race][2]).contents())


def program(race: str, safeguards: Safeguards = STANDARD) -> Any:
    """Two writers that joined before the first step, each with one half of the race."""

    def run(world: World) -> None:
        world.at_end(parquet_cache.install())
        scenario = ScenarioRun(world, safeguards, founded=contents(race))
        store = world.store()
        for key, body in contents(race).items():
            store.send(Put(key, body, ABSENT))

        def writer(number: int) -> None:
            catalog, _ = scenario.warm(f"writer-{number}")
            draft = catalog.draft()
            RACES[race][number](draft)
            if isinstance(catalog.publish(draft), Published):
                world.note("published", number)

        for number in (0, 1):
            world.spawn(writer, number, name=f"writer-{number}", may_raise=(PublishError,), restart=False)
        world.finally_("constraints", kept)
        world.sometimes("first", lambda view: 0 in view.notes("published"))
        world.sometimes("second", lambda view: 1 in view.notes("published"))

    return run


def kept(view: View) -> str | None:
    """The first constraint or edge that a retained manifest breaks."""
    found = faults(tuple(sorted(view.contents("").items())))
    return found[0] if found else None


@functools.cache
def faults(stored: tuple[tuple[str, bytes], ...]) -> tuple[str, ...]:
    with Catalog.open(copy_of(dict(stored)), mode="read") as catalog:
        return tuple(fault for fault in verify(catalog).faults if "is ahead of the manifest" not in fault)


def explored(race: str, mutant: str | None = None, **faults: int) -> AuditOutcome:
    return audit(
        program(race, without(mutant)),
        budget=Budget(**faults),
        steps_max=400,
        others=False,
        minimise_seconds=0.2,
    )


@pytest.mark.slow
@pytest.mark.parametrize("race", RACES)
def test_no_order_of_two_writers_breaks_a_constraint(race: str) -> None:
    """Explored to the end, and each of the two writers is the first in some order."""
    found = explored(race)
    assert found.verdict == "holds", found.findings


def test_a_declaration_that_does_not_move_its_table_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a writer that does not know the limit commits the row that breaks it."""
    monkeypatch.setattr(WorkingTable, "alter", lambda *_, **__: None)
    found = explored("declared meanwhile")
    assert found.verdict == "violated"
    assert "constraints" in str(found.counterexamples[0])


@pytest.mark.slow
def test_a_limit_rests_on_the_head_of_its_table_too() -> None:
    """Both writers move one table. Without the check of winners, one of them still finds a rival's head."""
    assert explored("unique", "shared-head").verdict == "holds"
