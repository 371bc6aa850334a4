"""Documents in traces without landings: conditional writes are compared with those whose ETags they name."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle.trace_fields import trace_fields
from fencepost.impl.store.events import Event
from fencepost.impl.store.layers import Traced
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.lifecycle.refinement import LifecycleRefinement
from fencepost.properties.refinement import Automaton
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.parts import in_order
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.impl.lifecycle.history import Faults, History


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(Automaton(LifecycleRefinement(streams=20, items=6, whole=1), slots=8))


@pytest.fixture(scope="module")
def run() -> list[Event]:
    """What a recorder shows of a worker that crashes and is raced: no landing."""
    found: list[Event] = []
    history = History(3, Faults(crash=0.01, fail=0.01, act=0.005, race=0.3))
    memory = MemoryStore(env=SeededEnvironment(1))
    store: Any = Traced(memory, found.append, process="w", run="r", trace_fields=trace_fields)
    store.contents = memory.contents
    history.store = store
    history.run(15)
    assert len(found) > 200
    return found


def verdict(judge: Judge, events: list[Event]) -> dict[str, Any]:
    found: dict[str, Any] = judge.verdicts(columns(in_order(table_of(events)))).to_pylist()[0]
    return found


def changed(run: list[Event], place: int, change: Callable[[Event], Event]) -> list[Event]:
    return [change(one) if at == place else one for at, one in enumerate(run)]


def more(name: str, by: int) -> Callable[[Event], Event]:
    """Change a number among the trace fields."""

    def change(event: Event) -> Event:
        def add(found: "re.Match[str]") -> str:
            return f"{name}={int(found[1]) + by:0{len(found[1])}d}"

        return replace(event, trace_fields=re.sub(rf"\b{name}=(\d+)", add, event.trace_fields))

    return change


def swaps(run: list[Event], document: str) -> list[int]:
    """The places of the requests that changed a document of this kind, with an answer."""
    done = {one.op for one in run if one.phase == "response" and one.outcome == "done"}
    return [
        at
        for at, one in enumerate(run)
        if (one.phase, one.kind, one.condition) == ("request", "put", "matches")
        and f"/{document}/" in one.key
        and one.op in done
    ]


def test_an_honest_run_is_accepted(judge: Judge, run: list[Event]) -> None:
    assert verdict(judge, run)["verdict"] == "accepted"


@pytest.mark.parametrize(
    ("document", "name", "by"),
    [
        ("cursors", "revision", 1),
        ("buckets", "revision", 1),
        ("buckets", "revision", -1),
        ("cursors", "revision", -1),
    ],
)
def test_a_value_that_does_not_follow_is_rejected_where_it_is_written(
    judge: Judge, run: list[Event], document: str, name: str, by: int
) -> None:
    for place in swaps(run, document)[-3:]:
        found = verdict(judge, changed(run, place, more(name, by)))
        answer = next(n for n, one in enumerate(run) if one.op == run[place].op and one.phase == "response")
        assert found["verdict"] == "rejected", (document, name, place)
        assert found["seq"] in (run[place].seq, run[answer].seq)


def test_a_cursor_that_is_created_later_than_every_walk_is_rejected(judge: Judge, run: list[Event]) -> None:
    """`reach` is compared with the walks that may have begun by then."""
    place = next(at for at, one in enumerate(run) if "/cursors/" in one.key and one.condition == "absent")
    found = verdict(judge, changed(run, place, more("reach", 10**18)))
    assert found["verdict"] == "rejected"
    assert "late=1" in found["reason"]


def test_what_no_etag_ties_is_not_compared(judge: Judge, run: list[Event]) -> None:
    """A write whose predecessor's answer is lost, or is one of two with this ETag, may have any revision."""
    place = swaps(run, "cursors")[-1]
    spoilt = changed(run, place, more("revision", 1))
    before = [
        at
        for at, one in enumerate(run)
        if one.phase == "response" and one.etag == run[place].etag and one.kind == "put"
    ]
    without = [one for at, one in enumerate(spoilt) if at not in before]
    assert verdict(judge, without)["verdict"] != "rejected"
