"""Runs of the systems with one answer changed: what continuity adds to the model.

    etag        a read returns another ETag, in its landing and its answer
    stale       a read returns an ETag that the object had earlier
    body        a read returns the ETag that was written and another body
    condition   a write that was done names another ETag in its condition
    missing     a read of an object finds none
    created     a create that was refused is done

Each change of a request about an object that the run shows elsewhere contradicts another request, so it is
found; `known` says which. A model alone sees few of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pytest

from bench.traces import random_choice
from fencepost.impl.store.events import Event
from fencepost.properties.refinement import Automaton
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.parts import in_order
from fencepost.sim.systems import SYSTEMS
from fencepost.sim.systems.system import load
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.trust.recorded import FORMS, Run, as_recorded, runs, scenarios
from tests.trust.test_replay_continuity import judged

TRACED = tuple(name for name in SYSTEMS if name != "objects")
"""Systems whose audits send requests to a store; `objects` is a store."""
CHANGES = ("etag", "stale", "body", "condition", "missing", "created")


def quick(system: str) -> tuple[str, ...]:
    """The scenarios of a quick test."""
    return scenarios(system)[:5]


@dataclass(frozen=True)
class Mutant:
    change: str
    key: str
    events: Run


def mutants(run: Run) -> Iterator[Mutant]:
    """Every change of a request that contradicts another one of the same object."""
    for at, event in enumerate(run):
        if event.phase != "response":
            continue
        request = next((one for one in run[:at] if _is_request(one, event)), None)
        if request is None:
            continue
        if not _is_plain(run, event.key):
            continue
        others = [
            one.etag for one in run if one.key == event.key and one.op != event.op and one.phase == "response"
        ]
        if event.kind in ("get", "head") and event.outcome == "done" and event.etag in others:
            if not _may_be_an_attempt(run, event):
                yield _changed("etag", run, event, etag="another")
            earlier = _earlier(run, at)
            if earlier:
                yield _changed("stale", run, event, etag=earlier, hash="")
            if event.kind == "get" and event.hash and _is_shown(run, event):
                yield _changed("body", run, event, hash="0" * 16)
            if _is_certain(run, at):
                yield _changed("missing", run, event, outcome="missing", etag="", hash="")
        if request.condition == "matches" and event.outcome == "done" and request.etag in others:
            changed = [replace(one, etag="another") if one is request else one for one in run]
            yield Mutant("condition", event.key, changed)
        if request.condition == "absent" and event.outcome == "exists" and _is_certain(run, at):
            yield _changed("created", run, event, outcome="done", etag="another")


def _is_plain(run: Run, key: str) -> bool:
    """All versions are one object, and each write of it took effect once, as the trace shows."""
    mine = [one for one in run if one.key == key]
    if any(one.version for one in mine if one.phase == "request"):
        return False
    writes = [one for one in mine if one.kind in ("put", "complete-upload", "delete")]
    if any(one.phase == "landed" for one in run):
        return True
    answers = [one.outcome for one in writes if one.phase == "response"]
    return answers == ["done"] * len([one for one in writes if one.phase == "request"])


def _may_be_an_attempt(run: Run, event: Event) -> bool:
    """The SDK sent a write twice, and the attempt that was not answered was read.

    Then the read shows an ETag that no answer has. That attempt landed before the other one, or late, after
    it. Either way a deletion lies between them, which may be sent before the read ends: one that is, or a run
    in which the order of processes is unknown.
    """
    apart = len({one.seq for one in run}) < len(run)
    mine = [one for one in run if one.key == event.key]
    before = mine if apart else mine[: mine.index(event)]
    return any(one.kind == "delete" for one in before)


def _is_request(one: Event, event: Event) -> bool:
    own = (event.op, event.process, event.incarnation)
    return one.phase == "request" and (one.op, one.process, one.incarnation) == own


def _changed(change: str, run: Run, event: Event, **values: str) -> Mutant:
    def is_answer(one: Event) -> bool:
        own = (event.op, event.process, event.incarnation, event.outcome)
        return one.phase != "request" and (one.op, one.process, one.incarnation, one.outcome) == own

    return Mutant(change, event.key, [replace(one, **values) if is_answer(one) else one for one in run])  # type: ignore[arg-type]  # names of columns of text


def _settled(run: Run, at: int) -> list[Event]:
    """The answers about the object of an event before its request, if nothing else is open on the object."""
    event = run[at]
    asked = next(place for place, one in enumerate(run) if _is_request(one, event))
    mine = [one for one in run if one.key == event.key and one.phase in ("request", "response")]
    if any(one.outcome in ("unknown", "") for one in mine if one.phase == "response"):
        return []
    answered = {(one.op, one.process, one.incarnation) for one in mine if one.phase == "response"}
    if any((one.op, one.process, one.incarnation) not in answered for one in mine):
        return []
    if any(one.key == event.key for one in run[asked + 1 : at] if one.op != event.op):
        return []
    return [one for one in run[:asked] if one.key == event.key and one.phase == "response"]


def _is_certain(run: Run, at: int) -> bool:
    """The same process found or wrote the object before, and no request removes it or repeats."""
    event = run[at]
    if any(one.kind == "delete" and one.key == event.key for one in run):
        return False
    return any(
        one.outcome == "done" and one.etag and one.process == event.process
        for one in _settled(run, at)
        if one.incarnation == event.incarnation
    )


def _earlier(run: Run, at: int) -> str:
    """An ETag that the object no longer had: the same process overwrote it, once and for all."""
    event = run[at]
    written = [one for one in _settled(run, at) if one.kind == "put" and one.outcome == "done"]
    own = [one for one in written if (one.process, one.incarnation) == (event.process, event.incarnation)]
    if len(own) < 2 or len(written) > len(own) or len({one.etag for one in own}) < len(own):
        return ""
    return own[-2].etag


def _is_shown(run: Run, event: Event) -> bool:
    """Another request shows the hash that belongs to the ETag of an event."""
    return any(
        one.kind == "get"
        and one.etag == event.etag
        and one.hash
        and one.key == event.key
        and one.op != event.op
        for one in run
        if one.phase == "response"
    )


def accepted(made: list[Mutant]) -> list[Mutant]:
    """The mutants without a finding."""
    rows = [replace(event, run=f"{number:05d}") for number, one in enumerate(made) for event in one.events]
    found = {int(one["run"]) for one in judged(rows).findings}
    return [one for number, one in enumerate(made) if number not in found]


@lru_cache
def judge(system: str) -> Judge:
    return Judge(Automaton(load(SYSTEMS[system].refinement)(), slots=8))


def accepted_by_model(system: str, made: list[Mutant]) -> int:
    rows = [
        replace(event, run=f"{number:05d}", seq=seq)
        for number, one in enumerate(made)
        for seq, event in enumerate(one.events)
    ]
    verdicts: list[Any] = judge(system).verdicts(columns(in_order(table_of(rows))))["verdict"].to_pylist()
    return verdicts.count("accepted")


def made_of(system: str, form: str, count: int, names: tuple[str, ...]) -> list[Mutant]:
    found = []
    for scenario in names:
        for run in runs(system, scenario, count):
            found += mutants(as_recorded(run, form))
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", TRACED)
def test_changed_answers_are_found(system: str, form: str) -> None:
    made = made_of(system, form, 2, quick(system))
    chosen = random_choice(3).sample(made, min(30, len(made)))
    assert chosen, "some request can be changed"
    assert [(one.change, one.key) for one in accepted(chosen)] == []


@pytest.mark.slow
def test_every_kind_of_change_is_made() -> None:
    for form in FORMS:
        made = [one for system in TRACED for one in made_of(system, form, 4, scenarios(system))]
        assert {one.change for one in made} >= set(CHANGES) - (
            {"created", "stale"} if form != "landed" else set()
        )


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", TRACED)
def test_every_changed_answer_is_found(system: str, form: str) -> None:
    made = made_of(system, form, 6, scenarios(system))
    for start in range(0, len(made), 500):
        assert [(one.change, one.key) for one in accepted(made[start : start + 500])] == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", TRACED)
def test_runs_of_the_systems_are_continuous(system: str, form: str) -> None:
    rows = [
        event
        for scenario in quick(system)
        for run in runs(system, scenario, 2)
        for event in as_recorded(run, form)
    ]
    found = judged(rows)
    assert (found.findings, found.undecided, found.other_etags) == ([], 0, 0)
    assert found.judged > found.requests // 2


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("system", TRACED)
def test_more_runs_of_the_systems_are_continuous(system: str, form: str) -> None:
    for scenario in scenarios(system):
        rows = [event for run in runs(system, scenario, 60, 1) for event in as_recorded(run, form)]
        found = judged(rows)
        assert (found.findings, found.undecided) == ([], 0)
