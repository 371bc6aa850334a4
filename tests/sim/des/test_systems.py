"""Our own protocols in simulated time: they keep their word under every fault, and runs repeat."""

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import full_audit
from fencepost.impl.publish import Catalog, Mode, verify
from fencepost.impl.store.events import Event
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ABSENT
from fencepost.sim.des import (
    ClientModel,
    Faults,
    Lognormal,
    Profile,
    Setup,
    Simulation,
    StoreModel,
    Workload,
    simulate,
)
from fencepost.sim.des.simulate import perform
from fencepost.sim.systems.publish import workload as publishing
from tests.sim.des.parts import MS

FAR = StoreModel(latency=Profile(Lognormal(20 * MS, 80 * MS)))
ROUGH = Faults(
    reply_lost=0.02,
    request_lost=0.02,
    late=0.02,
    late_by_ns=500 * MS,
    conflict=0.03,
    throttled=0.05,
    crashes_per_hour=300,
    restart_ns=100 * MS,
    skew_ns=50 * MS,
)
PATIENT = ClientModel(timeout_ns=400 * MS, in_flight=16)


def standing(simulation: Simulation) -> MemoryStore:
    """What the run left, as a store."""
    store = MemoryStore(env=SeededEnvironment(9))
    for key, body in simulation.server.bucket.contents().items():
        store.put(key, body, when=ABSENT)
    return store


@pytest.mark.parametrize("system", ["publish", "group"])
def test_a_calm_run_publishes_every_row_once(system: str) -> None:
    simulation = Simulation(Setup(Workload(system, writers=4, tables=4, operations=60), FAR))
    result = perform(simulation)
    done = result.operations["publish"].count
    assert done + sum(result.failed.values()) == 60
    with Catalog.open(standing(simulation), mode=Mode.READ) as catalog:
        rows = [
            row["id"] for table in range(4) for row in catalog.snapshot().rows(f"t{table}") if row["id"] >= 0
        ]
    assert len(rows) == len(set(rows)) == done
    if system == "group":
        assert done == 60, "nobody loses a race in a group"
        assert result.operations["publish"].requests < 7, "members share their requests"


@pytest.fixture
def acknowledged(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The identifiers of rows whose publish was answered with success."""
    found: set[int] = set()
    draw, act = publishing.Rows.next, publishing._Publisher.act

    def next_(rows: Any) -> Any:
        table, rows.drawn = draw(rows)
        return table, rows.drawn

    def acts(publisher: Any, operation: Any) -> None:
        act(publisher, operation)
        found.update(row["id"] for row in publisher._rows.drawn)

    monkeypatch.setattr(publishing.Rows, "next", next_)
    monkeypatch.setattr(publishing._Publisher, "act", acts)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_rough_weather_no_published_row_is_lost(seed: int, acknowledged: set[int]) -> None:
    """Crashes, lost answers, late landings, 409 and 503 at once: what was acknowledged stands."""
    setup = Setup(Workload("publish", writers=3, tables=2, operations=40), FAR, PATIENT, ROUGH, seed=seed)
    simulation = Simulation(setup)
    result = perform(simulation)
    assert result.faults.keys() >= {"reply_lost", "late", "throttled", "crash"}
    store = standing(simulation)
    with Catalog.open(store, mode=Mode.CLAIM) as catalog:
        rows = {row["id"] for table in range(2) for row in catalog.snapshot().rows(f"t{table}")}
        assert len(acknowledged) == result.operations["publish"].count > 20
        assert acknowledged <= rows
        assert not verify(catalog).faults


@pytest.mark.parametrize("seed", [1, 2])
def test_in_rough_weather_every_accepted_batch_stands(seed: int) -> None:
    workload = Workload(
        "ingest",
        writers=4,
        operations=150,
        maintenance={"reconcile": (None, 2000 * MS), "audit": (50, None), "collect": (None, 3000 * MS)},
        parameters={"horizon_s": 3.0},
    )
    simulation = Simulation(Setup(workload, FAR, PATIENT, replace(ROUGH, skew_ns=5 * MS), seed=seed))
    result = perform(simulation)
    store = standing(simulation)
    accepted = [key for key in store.contents() if key.startswith("accepted/v1/")]
    assert len(accepted) >= result.counters["accepted"] >= 100
    audited = full_audit(store, store.env)
    assert not audited.missing
    assert {"accept", "follow-up", "reconcile"} <= result.operations.keys()


def test_equal_setups_give_equal_results_and_another_seed_another() -> None:
    setup = Setup(Workload("publish", writers=3, tables=2, operations=30), FAR, PATIENT, ROUGH, seed=5)
    assert simulate(setup) == simulate(setup)
    assert simulate(replace(setup, seed=6)) != simulate(setup)


def test_adding_a_writer_changes_no_draw_of_the_others() -> None:
    """Each writer's latencies are its own: the first requests of writer 1 take what they took."""

    def first(writers: int, name: str = "writer-1") -> list[tuple[int, str]]:
        events: list[Event] = []
        simulate(Setup(Workload("ingest", writers=writers, operations=20), FAR), sink=events.append)
        mine = [event for event in events if event.process == name and event.phase == "response"]
        asked = {event.op: event.t_ns for event in events if event.phase == "request"}
        return [(event.t_ns - asked[event.op], event.kind) for event in mine[:10]]

    alone, among_five = first(1), first(5)
    assert len(among_five) >= 8
    assert alone[: len(among_five)] == among_five
    assert first(5, "writer-2")[:4] != among_five[:4], "and no two have the same"


def test_events_tell_the_life_of_every_request() -> None:
    events: list[Event] = []
    faults = Faults(reply_lost=0.1, request_lost=0.1, late=0.1, late_by_ns=100 * MS)
    setup = Setup(Workload("publish", writers=2, operations=20), FAR, PATIENT, faults)
    simulate(setup, sink=events.append, run="r1")
    assert [event.seq for event in events] == list(range(len(events)))
    assert all(a.t_ns <= b.t_ns for a, b in itertools.pairwise(events))
    phases: dict[int, list[Event]] = {}
    for event in events:
        phases.setdefault(event.op, []).append(event)
    shapes = Counter("-".join(event.phase for event in life) for life in phases.values())
    assert set(shapes) <= {
        "request-landed-response",
        "request-response",
        "request-response-landed",
    }
    assert all(shapes.values()), shapes
    assert len(shapes) == 3
    for life in phases.values():
        assert len({(event.process, event.kind, event.key) for event in life}) == 1
        response = next(event for event in life if event.phase == "response")
        if "landed" not in [event.phase for event in life]:
            assert response.outcome == "unknown"
    assert any("plan=" in event.trace_fields for event in events), "trace fields of our documents, for replay"


def test_a_window_makes_groups_larger_and_publishes_slower() -> None:
    def run(window_ns: int) -> Any:
        workload = Workload(
            "group", writers=50, arrival="poisson", rate=50, operations=200, window_ns=window_ns
        )
        return simulate(Setup(workload, FAR)).operations["publish"]

    without, with_ = run(0), run(1000 * MS)
    assert with_.count == without.count == 200
    assert with_.requests < without.requests
    assert with_.p50 > without.p50


def test_crashes_come_as_often_as_they_should() -> None:
    faults = Faults(crashes_per_hour=600, restart_ns=1000 * MS)
    workload = Workload("ingest", writers=10, duration_ns=60_000 * MS, think_ns=200 * MS)
    result = simulate(Setup(workload, FAR, ClientModel(), faults))
    assert 60 <= result.faults["crash"] <= 140, "ten writers, ten a minute each"
    assert 0 < result.failed["accept: crashed"] < result.faults["crash"], "some were thinking"


def test_skewed_clocks_are_off_for_good_and_by_about_so_much() -> None:
    simulation = Simulation(
        Setup(Workload("ingest", writers=40, operations=40), FAR, faults=Faults(skew_ns=100 * MS))
    )
    perform(simulation)
    skews = sorted(actor.skew_ns for actor in simulation.engine.actors if actor.name.startswith("writer"))
    assert skews[0] < -50 * MS
    assert skews[-1] > 50 * MS
    assert max(abs(skew) for skew in skews) < 500 * MS


def test_compaction_bounds_what_a_described_path_reads() -> None:
    from fencepost.sim.des.expressions import expression
    from fencepost.sim.des.paths import Counter as Grows
    from fencepost.sim.des.paths import Maintenance, Path, Step

    path = Path(
        "p",
        counters={"fragments": Grows()},
        steps=(Step("scan", count=expression("fragments"), parallel=True), Step("append", kind="put")),
        maintenance={
            "merge": Maintenance((Step("one", kind="put"),), {"fragments": expression("fragments - 1")})
        },
    )

    def run(every: int | None) -> Any:
        workload = Workload(
            "described", path=path, operations=100, depth=10, maintenance={"merge": (every, None)}
        )
        return simulate(Setup(workload, FAR))

    never, often = run(None), run(10)
    assert never.operations["write"].requests == 1 + 10 + 99 / 2
    assert never.counters == {"fragments": 110.0, "fragments_max": 110.0}
    assert often.operations["write"].requests < 15
    assert often.operations["merge"].count == 10
    assert often.counters["fragments_max"] <= 24


@pytest.mark.parametrize("system", ["publish", "group", "ingest"])
@pytest.mark.parametrize(
    "faults",
    [
        Faults(throttled=1.0),
        Faults(request_lost=1.0),
        Faults(reply_lost=0.5),
        Faults(late=0.5, late_by_ns=500 * MS),
        Faults(conflict=1.0),
        Faults(throttled=0.5, crashes_per_hour=2000, restart_ns=MS),
    ],
    ids=lambda faults: next(name for name in faults.__slots__ if getattr(faults, name)),
)
def test_the_worst_weather_ends_in_a_result(system: str, faults: Faults) -> None:
    """Operations and openings that fail are counted; none of it brings the simulation down."""
    if system == "group":
        # Scenarios refuse crashes here: who crashes takes all who share its handle along.
        faults = replace(faults, crashes_per_hour=0)
    maintenance = {"reconcile": (None, 1000 * MS), "audit": (5, None)} if system == "ingest" else {}
    workload = Workload(system, writers=3, tables=2, operations=12, maintenance=maintenance)
    result = simulate(Setup(workload, FAR, PATIENT, faults))
    name = "accept" if system == "ingest" else "publish"
    done = result.operations[name].count if name in result.operations else 0
    assert done + sum(count for why, count in result.failed.items() if why.startswith(name)) <= 12
    assert result.failed or done == 12
    if faults.throttled == 1.0 or faults.request_lost == 1.0:
        assert done == 0


def test_a_client_that_asks_again_spares_its_operations_the_trouble() -> None:
    faults = Faults(throttled=0.2)
    workload = Workload("ingest", writers=4, operations=100, follow_up=False)
    plain, patient = (
        simulate(Setup(workload, FAR, ClientModel(attempts=attempts), faults)) for attempts in (1, 5)
    )
    assert patient.operations["accept"].p99 <= plain.operations["accept"].p99
    assert patient.outcomes["put throttled"] > 20, "the retries are in simulated time, and counted"
    assert patient.operations["accept"].serial_hops > 2


def test_what_grows_while_maintenance_is_under_way_stays() -> None:
    """Merging takes what it read: fragments that were appended meanwhile are left for the next pass."""
    from fencepost.sim.des.expressions import expression
    from fencepost.sim.des.paths import Counter as Grows
    from fencepost.sim.des.paths import Maintenance, Path, Step

    slow = Step("slow", kind="put", count=expression(50))
    path = Path(
        "p",
        counters={"fragments": Grows()},
        steps=(Step("append", kind="put"),),
        maintenance={"merge": Maintenance((slow,), {"fragments": expression("fragments - 1")}, every=10)},
    )
    result = simulate(Setup(Workload("described", path=path, operations=12), FAR))
    assert result.counters["fragments"] == 12 - 9
