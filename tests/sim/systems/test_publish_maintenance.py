"""The audit of maintenance: beside a writer and a reader, in the orders of their steps, it harms neither."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import STANDARD, Catalog, Mode, Published, PublishError, Safeguards
from fencepost.impl.publish import cleanup as cleaning
from fencepost.impl.publish.maintenance import Goals, Maintainer
from fencepost.impl.publish.tables import WorkingTable
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Put
from fencepost.properties.publish import parquet_cache
from fencepost.properties.publish.checks import ENDS, KNOWS, PERSON, person
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.harness import ScenarioEnvironment
from fencepost.sim.systems.publish.run import ScenarioRun, examine
from fencepost.sim.world import Budget, World
from fencepost.sim.world.view import View
from tests.impl.publish.scripted import without

RENAMED = {"id": 1, "name": "new"}
BEFORE = ({"id": 1, "name": "p1"}, {"id": 2, "name": "p2"}, {"id": 3, "name": "p3"})
AFTER = (RENAMED, *BEFORE[1:])


@functools.cache
def contents() -> Mapping[str, bytes]:
    """A catalog whose table of persons has three runs."""
    store = MemoryStore(env=SeededEnvironment(1))
    with Catalog.open(store, author="founder", create=True) as catalog:
        with catalog.transaction() as txn:
            txn.create_table("person", PERSON, key="id")
            txn.create_table("knows", KNOWS, key="id", edges=ENDS)
        for key in (1, 2, 3):
            catalog.write(lambda txn, k=key: txn.append("person", [person(k)]))
    return dict(store.contents())


def program(others: str, safeguards: Safeguards = STANDARD) -> Callable[[World], None]:
    """A maintainer beside a `writer`, a `reader`, or a second maintainer (`maintainer`)."""

    def run(world: World) -> None:
        world.at_end(parquet_cache.install())
        scenario = ScenarioRun(world, safeguards, founded=contents())
        store = world.store()
        for key, body in contents().items():
            store.send(Put(key, body, ABSENT))

        def maintain() -> None:
            env = ScenarioEnvironment(world)
            done = Maintainer(world.store(), env, Goals(keep=1, runs=3), safeguards=safeguards).round()
            world.note("compacted", done.compacted)

        def write() -> None:
            catalog, _ = scenario.warm("ann")
            if isinstance(catalog.write(lambda txn: txn.upsert("person", [RENAMED])), Published):
                world.note("acknowledged", True)
            catalog.close()

        def read() -> None:
            with Catalog.open(world.store(), mode=Mode.READ, safeguards=safeguards) as catalog:
                world.note("read", tuple(catalog.snapshot().rows("person")))

        processes = {"maintainer": maintain, "writer": write, "reader": read}
        world.spawn(maintain, name="maintain", may_raise=(PublishError,), restart=False)
        for number, name in enumerate(others.split()):
            world.spawn(processes[name], name=f"{name}-{number}", may_raise=(PublishError,), restart=False)
        world.finally_("kept", lambda view: fault(view, safeguards))
        world.sometimes("compacted", lambda view: ["main/person"] in view.notes("compacted"))
        if "writer" in others:
            world.sometimes("acknowledged", lambda view: bool(view.notes("acknowledged")))
        if "reader" in others:
            world.sometimes("read", lambda view: bool(view.notes("read")))

    return run


def fault(view: View, safeguards: Safeguards) -> str | None:
    """What is wrong at the end of a run, in words."""
    for rows in view.notes("read"):
        if rows not in (BEFORE, AFTER):
            return f"a reader saw {rows}"
    state = examine(view.contents(""), safeguards)
    if state.faults:
        return state.faults[0]
    if state.wedged:
        return state.wedged
    shown = tuple(state.chapters[-1].tables["person"].get(key) for key in (1, 2, 3))
    if shown not in (BEFORE, AFTER):
        return f"the table is {shown}"
    if view.notes("acknowledged") and shown != AFTER:
        return "an acknowledged commit is not there"
    return None


def explored(
    others: str, mutant: str | None = None, *, schedules: int | None = None, **faults: int
) -> AuditOutcome:
    return audit(
        program(others, without(mutant)),
        budget=Budget(**faults),
        steps_max=600,
        others=False,
        schedules=schedules,
        minimise_seconds=0.2,
    )


@pytest.mark.parametrize("others", ["writer", "reader"])
def test_the_first_orders_hold(others: str) -> None:
    found = explored(others, schedules=40)
    assert found.verdict != "violated", found.findings


@pytest.mark.slow
@pytest.mark.parametrize("others", ["writer", "reader", "maintainer", "writer reader"])
@pytest.mark.parametrize("faults", [{}, {"crash": 1}], ids=["no faults", "a crash"])
def test_many_orders_hold(others: str, faults: dict[str, int]) -> None:
    found = explored(others, schedules=1000, **faults)
    assert found.verdict != "violated", found.findings


def forgets_pins(retained: Any, versions: Any) -> list[str]:
    """Cleanup that takes every version but the newest of a lineage for superseded."""
    newest: dict[str, int] = {}
    for key in versions:
        pin = cleaning.keys.pin_of_version(key)
        newest[pin.location] = max(pin.version, newest.get(pin.location, 0))
    return [
        key for key in versions if (pin := cleaning.keys.pin_of_version(key)).version < newest[pin.location]
    ]


def forgets_a_run(table: WorkingTable) -> None:
    """Compaction that loses a row."""
    rows = table.by_key()
    rows.pop(max(rows), None)
    table.fresh, table.changes = True, dict(rows)
    table._record("rewrite")


@pytest.mark.parametrize(
    ("where", "name", "mutant", "others"),
    [
        (cleaning, "_superseded", forgets_pins, "writer"),
        (WorkingTable, "rewrite", forgets_a_run, "reader"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_maintenance_that_takes_too_much_is_caught(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, mutant: Any, others: str
) -> None:
    monkeypatch.setattr(where, name, mutant)
    assert explored(others, schedules=200).verdict == "violated"
