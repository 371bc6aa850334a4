"""Real runs with one request changed: rejected, or the change is of a kind that the verdict names.

    drop       the request was never sent
    throttle   it was refused
    condition  it was sent unconditionally
    outcome    it found, or did, the opposite
    twice      it was done a second time, at the end
    delete     a stranger deleted, at the end, what it had written

`contradicts` is the naive counterpart: one request after the other, what is known of each object. This fails
if replay accepts a run that contradicts itself there, or any other change that is not listed in `NOT_JUDGED`
with the words by which the verdict names it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from bench.traces import random_choice
from fencepost.impl.store.events import Event
from fencepost.properties.refinement import not_judged
from fencepost.sim.replay.parts import in_order
from fencepost.sim.trace import table_of
from fencepost.sim.trace.columns import events as columns
from tests.trust.test_replay_requests import (
    FULL,
    PLAIN,
    Run,
    changed,
    end_of,
    judge,
    runs,
    then,
    without,
)

WROTE, READ = "put", ("get", "head")
OPPOSITE = {("get", "done"): "missing", ("head", "done"): "missing", ("get", "missing"): "done"}
OPPOSITE |= {("head", "missing"): "done", ("put", "exists"): "done"}
OLDER = "what was there before the run began"
OWED = "whether what is owed happens at all"
NOT_JUDGED = {
    ("drop", "get"): "reads that no rule requires",
    ("drop", "head"): "reads that no rule requires",
    ("drop", "list"): "listings",
    ("drop", "put"): OWED,
    ("drop", "delete"): OWED,
    ("throttle", "put"): OWED,
    ("throttle", "delete"): OWED,
    ("outcome", "get"): OLDER,
    ("outcome", "head"): OLDER,
    ("outcome", "put"): OLDER,
}
"""Changes that may be accepted unless the run contradicts itself. Any other must be rejected."""


@dataclass(frozen=True)
class Mutant:
    """A changed run, and whether the change leaves a behaviour of the protocol."""

    change: str
    request: Event
    outcome: str
    events: Run

    @property
    def is_behaviour(self) -> bool:
        """A sidecar that was retired may be written once more: its writer repeats an unknown create."""
        return self.change == "twice" and self.request.key.startswith("recovery/")


def mutants(run: Run) -> Iterator[Mutant]:
    outcomes = {event.op: event.outcome for event in run if event.phase == "response"}
    seen = set()
    for event in list(run):
        op = event.op
        if op in seen or op not in outcomes:
            continue
        seen.add(op)
        outcome = outcomes[op]
        yield Mutant("drop", event, outcome, without(run, op))
        if event.kind in ("put", "delete") and outcome == "done":
            yield Mutant("throttle", event, outcome, changed(run, op, outcome="throttled"))
        if event.kind == "put":
            yield Mutant("condition", event, outcome, changed(run, op, condition="anything"))
        if (event.kind, outcome) in OPPOSITE:
            other = changed(run, op, outcome=OPPOSITE[event.kind, outcome])
            yield Mutant("outcome", event, outcome, other)
        if event.kind == "put" and outcome == "done":
            again = [replace(one, op=1 + max(outcomes)) for one in run if one.op == op]
            yield Mutant("twice", event, outcome, [*run, *again])
            yield Mutant("delete", event, outcome, then(run, end_of(run, op), "delete", event.key, "done"))


def contradicts(run: Run) -> bool:
    """Whether the landings of a run, in their order, are impossible for a store that loses nothing."""
    there: dict[str, bool] = {}
    for event in run:
        if event.phase != "landed" or event.kind not in ("put", "get", "head", "delete"):
            continue
        known, done = there.get(event.key), event.outcome == "done"
        if event.kind == "delete" and done:
            there[event.key] = False
            continue
        found = (event.kind in READ and done) or event.outcome in ("exists", "changed")
        absent = event.outcome == "missing" or (done and event.condition == "absent")
        if (found and known is False) or (absent and known is True):
            return True
        if found or absent:
            there[event.key] = not (absent and event.kind in READ)
    return False


def judged(system: str, recorded: str, made: list[Mutant]) -> None:
    rows = [
        replace(event, run=f"{number:05d}", seq=seq)
        for number, one in enumerate(made)
        for seq, event in enumerate(one.events)
    ]
    named = "; ".join(not_judged(judge(system).automaton.refinement.request_rules))
    for row in judge(system).verdicts(columns(in_order(table_of(rows)))).to_pylist():
        one = made[int(row["run"])]
        what = f"{one.change} {one.request.kind} {one.request.key} ({one.outcome})"
        if row["verdict"] != "accepted" or one.is_behaviour:
            continue
        words = NOT_JUDGED.get((one.change, one.request.kind), "")
        assert words, f"{what}: accepted"
        assert words in named, f"{what}: accepted, and the verdict does not name it"
        assert recorded == PLAIN or not contradicts(one.events), f"{what}: accepted, and contradicts itself"


@pytest.mark.parametrize("recorded", [FULL, PLAIN])
@pytest.mark.parametrize("system", ["publish", "ingest"])
def test_a_changed_request_is_rejected_or_of_a_kind_that_is_named(system: str, recorded: str) -> None:
    made = list(mutants(list(runs(system, recorded)[0])))
    judged(system, recorded, random_choice(5).sample(made, 15))


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [FULL, PLAIN])
@pytest.mark.parametrize("system", ["publish", "ingest"])
def test_every_changed_request_is_rejected_or_of_a_kind_that_is_named(system: str, recorded: str) -> None:
    for run in runs(system, recorded):
        judged(system, recorded, list(mutants(list(run))))


def test_every_kind_of_change_is_made_and_the_counterpart_sees_contradictions() -> None:
    """Without this a generator that makes nothing would pass."""
    for system in ("publish", "ingest"):
        made = [one for run in runs(system) for one in mutants(list(run))]
        assert {one.change for one in made} >= {"drop", "throttle", "condition", "outcome", "twice", "delete"}
        assert sum(contradicts(one.events) for one in made) > len(made) // 20
        assert not any(contradicts(list(run)) for run in runs(system))
