"""The audit of the ingest library: it holds, it sees every broken safeguard, and its own eyes are tested."""

import dataclasses
from typing import Any

import pytest

from fencepost.commands.systems import find_system
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import SAFEGUARDS, STANDARD, gc, keys, maintenance, roll_up
from fencepost.impl.ingest.documents import ConflictRecord
from fencepost.impl.ingest.gc import Found
from fencepost.impl.ingest.maintenance import Search, Searched
from fencepost.impl.ingest.safeguards import FIELDS
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.ingest.checks import CHECKS, Answer, Outcomes
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.harness import once
from fencepost.sim.systems.ingest import SYSTEM
from fencepost.sim.systems.ingest import run as scenario_run
from fencepost.sim.systems.ingest.batches import FIRST, OTHER
from fencepost.sim.systems.ingest.run import ScenarioRun, examine, too_expensive
from fencepost.sim.systems.ingest.scenarios import SCENARIOS, SMALL
from fencepost.sim.world import Budget
from fencepost.sim.world.settings import START_NS
from fencepost.testing import FAULTS, request_of

COUNTEREXAMPLES = {
    "identity-bound-to-agent": "no-forgery",
    "create-only-manifest": "one-acceptance",
    "blob-before-manifest": "gc-safe",
    "compare-after-412": "truthful-duplicate",
    "409-proves-nothing": "truthful-duplicate",
    "read-back-on-unknown": "one-acceptance",
    "effects-after-create": "effects-once",
    "reconcile": "effects-eventually",
    "new-upload-on-multipart-409": "answered",
    "gc-age": "ack-durable",
    "gc-audit-before-trust": "gc-safe",
    "gc-quarantine-refs": "gc-safe",
    "gc-stalled-writer": "ack-durable",
    "gc-stalled-writer-duplicate": "ack-durable",
    "gc-stalled-writer-generation": "ack-durable",
    "gc-stalled-writer-version": "ack-durable",
    "cursor-overlap": "cursor-honest",
    "repair-before-acknowledge": "acknowledged-repaired",
    "mark-late": "acknowledged-counted",
    "mark-what-exists": "acknowledged-counted",
    "search-late-places": "effects-unattended",
}
"""What breaks first without each safeguard."""
LONG = {"parts", "rollups", "slow", "slow-versioned"}
"""To their ends, with a crash and a lost response, these take minutes or more."""


def explored(
    mutant: str | None = None, seconds: float | None = None, schedules: int | None = None, **parameters: Any
) -> AuditOutcome:
    system = find_system("ingest", mutant)
    faults = {name: parameters.pop(name) for name in FAULTS if name in parameters}
    request = request_of(system.function, system.options, parameters, "ingest")
    budget = Budget(**{**(system.options.faults or {}), **faults})
    # Short counterexamples are for people; here they would only take time.
    limits = {"seconds": seconds, "schedules": schedules, "minimise_seconds": 0.2}
    return audit(request.program, budget=budget, steps_max=600, others=False, **limits)


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ("parts", "slow"))) for name in SCENARIOS],
)
def test_every_order_without_faults_holds(scenario: str) -> None:
    # An impostor is turned away before any request: only a fault makes a second run there.
    result = explored(
        scenario=scenario,
        crash=0,
        reply_lost=int(scenario == "impostor"),
        request_lost=int(scenario == "impostor"),
    )
    assert result.verdict == "holds", result


def test_the_cost_of_accepting_is_reported() -> None:
    """Two serial requests for a first acceptance, two more for a duplicate, two parallel ones after it."""
    cost = explored(scenario="retry", crash=0, reply_lost=0, request_lost=0).cost()
    (accept,), (follow_up,) = cost["accept"]["faults"], cost["follow up"]["faults"]
    assert (accept["requests"], accept["hops"]) == (4, 4)
    assert (accept["requests_median"], accept["hops_median"]) == (2, 2)
    assert (follow_up["requests"], follow_up["hops"]) == (2, 1)


def test_an_attempt_that_costs_more_than_its_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the requests of an attempt do not reach its answer, and flat-cost holds of anything."""
    bounds = {**scenario_run.COST, "accepted": (1, 1)}
    monkeypatch.setattr(scenario_run, "COST", bounds)
    result = explored(scenario="retry", crash=0, reply_lost=0, request_lost=0)
    (found,) = result.counterexamples
    assert found.property == "flat-cost"
    assert found.reason == "to answer accepted took 2 requests and 2 serial hops"


def test_a_retry_with_a_crash_at_every_step_holds() -> None:
    result = explored(scenario="retry", reply_lost=0, request_lost=0)
    assert result.verdict == "holds", result
    assert result.coverage.faults["crash"] > 30
    assert {("put", "done"), ("put", "exists"), ("head", "done")} <= result.coverage.outcomes.keys()


def test_a_late_landing_in_a_versioned_bucket_holds() -> None:
    """No bound on landing is assumed there: the same schedules that a plain bucket has to be excused."""
    result = explored(scenario="slow-versioned", crash=0, reply_lost=0, request_lost=0, late=1, schedules=300)
    assert not result.counterexamples, result


def test_a_plain_bucket_needs_bounded_landing_and_a_versioned_one_does_not() -> None:
    """A request that lands hours after its sender looked at the clock: bounded-landing excludes that."""
    plain = explored(scenario="slow", bounded=False, crash=0, reply_lost=0, request_lost=0)
    assert [counterexample.property for counterexample in plain.counterexamples] == ["ack-durable"], plain
    versioned = explored(scenario="slow-versioned", bounded=False, crash=0, reply_lost=0, request_lost=0)
    assert versioned.verdict == "holds", versioned


@pytest.mark.parametrize("fault", ["conflict", "throttled", "duplicated", "late"])
def test_other_faults_hold(fault: str) -> None:
    result = explored(scenario="retry", crash=0, reply_lost=0, request_lost=0, **{fault: 1})
    assert result.verdict == "holds", result


def test_every_safeguard_has_its_mutant_and_its_counterexample() -> None:
    assert set(SYSTEM.mutant_table) == set(SAFEGUARDS) == set(COUNTEREXAMPLES) == set(FIELDS)
    assert {name.replace("-", "_") for name in COUNTEREXAMPLES.values()} <= set(CHECKS)
    assert set(SMALL) <= set(SCENARIOS)


@pytest.mark.parametrize("mutant", sorted(set(COUNTEREXAMPLES) - {"blob-before-manifest"}))
def test_a_mutant_is_found(mutant: str) -> None:
    result = explored(mutant, seconds=60)
    assert [counterexample.property for counterexample in result.counterexamples] == [
        COUNTEREXAMPLES[mutant]
    ], result


def test_a_report_that_is_trusted_like_an_audit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage collection that believes a report, and one that looks and believes whatever it sees."""
    result = explored("gc-audit-before-trust", scenario="reported", seconds=60)
    assert [counterexample.property for counterexample in result.counterexamples] == ["ack-durable"], result
    monkeypatch.setattr(gc._Collector, "_check", lambda *_: Found.ORPHAN)
    result = explored(scenario="reported", crash=0, reply_lost=0, request_lost=0, seconds=60)
    assert [counterexample.property for counterexample in result.counterexamples] == ["lockstep"], (
        result
    )  # the model is the first to see


@pytest.mark.parametrize("forgets", ["late places", "the hour", "the end"])
def test_a_search_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch, forgets: str) -> None:
    """A batch in no index must reach its rollup as well, whichever process dies, and without an operator."""
    # The cache holds the states of a search that forgets nothing.
    monkeypatch.setattr(scenario_run, "examine", once(examine.__wrapped__))  # type: ignore[attr-defined]  # by functools
    if forgets == "late places":
        monkeypatch.setattr(Search, "_is_in_time", lambda *_: True)
    elif forgets == "the hour":
        monkeypatch.setattr(maintenance, "mark_hour", lambda *_: None)
    else:
        monkeypatch.setattr(Search, "step", lambda *_: Searched())
    result = explored(scenario="searched", reply_lost=0, request_lost=0, seconds=60)
    assert [counterexample.property for counterexample in result.counterexamples] == ["effects-unattended"], (
        result
    )


@pytest.mark.slow
def test_a_blob_without_waiting_for_its_reply_is_found() -> None:
    result = explored("blob-before-manifest", seconds=60)
    assert [counterexample.property for counterexample in result.counterexamples] == [
        COUNTEREXAMPLES["blob-before-manifest"]
    ], result


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - LONG))
def test_a_crash_and_a_lost_reply_hold_to_the_end(scenario: str) -> None:
    result = explored(scenario=scenario)
    assert result.verdict == "holds", result


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(LONG))
def test_a_part_of_the_long_scenarios_holds(scenario: str) -> None:
    result = explored(scenario=scenario, seconds=30)
    assert not result.counterexamples, result


# The eyes themselves: what each property would see.


MANIFEST = FIRST.manifest(age_s=0.0, key=FIRST.raw_key())
GOOD = {MANIFEST.key: MANIFEST.body(), MANIFEST.raw_blob_key: FIRST.body}
ANSWER = Answer(
    "accepted", str(FIRST.identity), FIRST.sha256, MANIFEST.attempt, frozenset({FIRST.sha256}), False, 2, 2, 0
)
RECORD = ConflictRecord(
    *("agent-a", "boot-1", 10, 19),
    accepted_manifest_key=MANIFEST.key,
    accepted_raw_blob_key=MANIFEST.raw_blob_key,
    accepted_frame_sha256=FIRST.sha256,
    submitted_raw_blob_key=OTHER.raw_key(),
    submitted_frame_sha256=OTHER.sha256,
    observed_at_unix_ns=1,
    collector_id="ann",
)
REFUSED = dataclasses.replace(ANSWER, what="conflict", sha256=OTHER.sha256)
LIVE = (str(FIRST.identity), FIRST.sha256, "ann", True)


def seen(name: str, contents: dict[str, bytes], *answers: Answer, live: list[Any] | None = None) -> list[str]:
    if name == "flat_cost":
        run = ScenarioRun(world=None)  # type: ignore[arg-type] - the contract does not need the world
        return list(too_expensive(run, answers))
    return list(CHECKS[name](examine(contents, STANDARD), Outcomes(answers, live or [], [FIRST])))


@pytest.mark.parametrize("name", [*CHECKS, "flat_cost"])
def test_a_check_accepts_a_good_run(name: str) -> None:
    again = dataclasses.replace(ANSWER, what="duplicate", requests=4, hops=4)
    assert not seen(name, GOOD, ANSWER, again, live=[LIVE])


@pytest.mark.parametrize(
    ("name", "contents", "answers", "live"),
    [
        ("one_acceptance", GOOD, [ANSWER, ANSWER], []),
        ("never_reopened", GOOD, [dataclasses.replace(ANSWER, attempt="another")], []),
        ("ack_durable", {}, [ANSWER], []),
        ("ack_durable", {MANIFEST.key: MANIFEST.body()}, [ANSWER], []),
        ("ack_durable", {**GOOD, MANIFEST.raw_blob_key: OTHER.body}, [ANSWER], []),
        ("truthful_duplicate", GOOD, [dataclasses.replace(ANSWER, what="duplicate", saw=frozenset())], []),
        ("truthful_conflict", GOOD, [dataclasses.replace(ANSWER, what="conflict")], []),
        ("no_early_effect", GOOD, [ANSWER], [(*LIVE[:3], False)]),
        ("no_early_effect", GOOD, [dataclasses.replace(ANSWER, early=True)], []),
        ("effects_once", GOOD, [ANSWER], [LIVE, LIVE]),
        ("answered", GOOD, [], []),
        ("answered", GOOD, [ANSWER, dataclasses.replace(ANSWER, what="unavailable")], []),
        ("gc_safe", {MANIFEST.key: MANIFEST.body()}, [], []),
        ("gc_safe", {**GOOD, RECORD.key: RECORD.body()}, [], []),
        ("no_forgery", GOOD, [dataclasses.replace(ANSWER, sender="agent-b")], []),
        ("conflict_durable", GOOD, [dataclasses.replace(ANSWER, what="conflict")], []),
        ("conflict_durable", {**GOOD, RECORD.key: RECORD.body()}, [REFUSED], []),
        ("flat_cost", GOOD, [dataclasses.replace(ANSWER, requests=3)], []),
        ("flat_cost", GOOD, [dataclasses.replace(ANSWER, hops=3)], []),
    ],
)
def test_a_check_rejects_a_bad_run(name: str, contents: Any, answers: list[Answer], live: list[Any]) -> None:
    assert seen(name, contents, *answers, live=live)


def test_a_batch_that_is_counted_twice_is_found() -> None:
    store = MemoryStore(env=SeededEnvironment(1, START_NS))
    for key, body in {**GOOD, MANIFEST.by_time_key: MANIFEST.body()}.items():
        store.put(key, body, when=ABSENT)
    roll_up(store, store.env)
    assert not seen("effects_once", dict(store.contents()), ANSWER)
    (entry,) = (key for key in store.contents() if key.startswith(keys.ROLLED))
    (chunk,) = (key for key in store.contents() if key.startswith(keys.ROLLUP))
    other = chunk.replace(".lmrollup", "0.lmrollup")
    store.put(other, store.contents()[chunk], when=ABSENT)
    again = store.contents()[entry].replace(chunk.encode(), other.encode())
    store.put(entry.replace("1.json", "2.json"), again, when=ABSENT)
    assert seen("effects_once", dict(store.contents()), ANSWER)


def test_the_examination_changes_nothing() -> None:
    before = dict(GOOD)
    examine(GOOD, STANDARD)
    assert before == GOOD
