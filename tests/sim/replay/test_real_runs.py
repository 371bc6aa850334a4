"""Real libraries under the adversary: accepted as columns, and rejected where they were spoilt."""

from functools import partial
from typing import Any

import pytest

from bench.mutations import mutations
from bench.traces import copies, driven
from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store.events import Event
from fencepost.properties.ingest import IngestRefinement
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton
from fencepost.sim.explore import Random, Setting
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.parts import in_order
from fencepost.sim.systems.ingest.scenarios import program
from fencepost.sim.trace import events_of, table_of
from fencepost.sim.trace.columns import events as columns
from fencepost.sim.trace.grouping import learn_links, named
from fencepost.sim.world import Budget, World
from fencepost.sim.world.trace import events


class _Kept(Random):
    """Runs of ingest, as events."""

    runs: list[list[Event]]

    def _after(self, world: World, ended: bool) -> None:
        super()._after(world, ended)
        world.show_bodies(trace_fields)
        self.runs.append(events(world, f"run-{len(self.runs)}"))


def accepting(scenario: str, count: int) -> list[list[Event]]:
    search = _Kept(
        Setting(partial(program, scenario=scenario), Budget(crash=1, reply_lost=1, request_lost=1, late=1))
    )
    search.runs = []
    search.explore(lambda done: done.schedules >= count)
    assert not search.failures
    return search.runs


@pytest.fixture(scope="module")
def publishing() -> list[list[Event]]:
    return driven(6, ("skew", "takeover"))


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(Automaton(PublishRefinement(2, 2)))


def verdicts(judge: Judge, runs: list[list[Event]]) -> list[dict[str, Any]]:
    table = in_order(table_of(event for run in runs for event in run))
    rows: list[dict[str, Any]] = judge.verdicts(columns(table)).to_pylist()
    return rows


def test_publish_is_accepted_and_so_is_every_copy(publishing: list[list[Event]], judge: Judge) -> None:
    assert {row["verdict"] for row in verdicts(judge, publishing)} == {"accepted"}
    sets, symbols = len(judge.automaton), len(judge.automaton.symbols)
    table = table_of(event for run in publishing for event in run)
    for copy in copies(table, 3):
        assert {event.run for event in events_of(copy)}.isdisjoint(run[0].run for run in publishing)
        assert set(judge.verdicts(columns(in_order(copy)))["verdict"].to_pylist()) == {"accepted"}
    assert (len(judge.automaton), len(judge.automaton.symbols)) == (sets, symbols), "names are no news"


def test_what_was_spoilt_is_rejected_at_what_builds_on_it(
    publishing: list[list[Event]], judge: Judge
) -> None:
    made = {}
    for number, run in enumerate(publishing[::3]):
        for place, one in enumerate(mutations(run)):
            if one.sure:
                name = f"{number:02d}-{place:02d}"
                made[name] = one
    spoilt = [[_renamed(event, name) for event in one.events] for name, one in made.items()]
    rows = verdicts(judge, spoilt)
    assert len(rows) >= 10
    for row in rows:
        assert row["verdict"] == "rejected", (made[row["run"]].kind, made[row["run"]].what)
        assert row["seq"] in made[row["run"]].right


def _renamed(event: Event, run: str) -> Event:
    return Event(**{**{name: getattr(event, name) for name in event.__dataclass_fields__}, "run": run})


@pytest.mark.parametrize("scenario", ["retry", "conflict"])
def test_ingest_is_accepted_identity_by_identity(scenario: str) -> None:
    judge = Judge(Automaton(IngestRefinement()))
    for run in accepting(scenario, 6):
        table = table_of(run)
        own, _ = named(IngestRefinement.runs, table, learn_links(IngestRefinement.runs, [table]))
        rows = judge.verdicts(columns(in_order(own))).to_pylist()
        assert rows
        assert {row["verdict"] for row in rows} == {"accepted"}
        early = [event for event in run if not (event.key.startswith("raw-blobs") and event.kind == "put")]
        found_verdicts = {
            row["verdict"]
            for row in judge.verdicts(
                columns(
                    in_order(
                        named(
                            IngestRefinement.runs,
                            table_of(early),
                            learn_links(IngestRefinement.runs, [table]),
                        )[0]
                    )
                )
            ).to_pylist()
        }
        assert found_verdicts == {"rejected"}, "a manifest without a blob"
