"""What publishing costs at most, over every order and every fault: exactly the contract, and flat."""

import functools
from typing import Any

import pytest

from fencepost.impl.publish import STANDARD
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.publish import cost
from fencepost.sim.systems.publish.cost import (
    ALONE,
    CLOSING,
    CRASH,
    OPENING,
    PUBLISH,
    TABLE,
    UNANSWERED,
    Cost,
)
from fencepost.sim.systems.publish.run import ScenarioRun
from fencepost.sim.systems.publish.scenarios import play
from fencepost.sim.world import Budget, World

SCENARIOS = ("skew", "rivals", "joiner", "takeover", "two-tables", "heir")


@functools.cache
def explored(scenario: str, crashes: int = 0, lost: int = 0, **size: int) -> AuditOutcome:
    def program(world: World) -> None:
        play(ScenarioRun(world, STANDARD, **size), scenario, followed=False)

    return audit(
        program,
        budget=Budget(crash=crashes, reply_lost=lost, request_lost=lost),
        steps_max=600,
        minimise_seconds=0.2,
        others=False,
    )


def most(result: AuditOutcome, verb: str) -> Cost:
    counts = result.cost()[verb]
    return Cost(counts["requests"], counts["hops"])


def flat(result: AuditOutcome) -> dict[str, Any]:
    return {verb: (counts["requests"], counts["hops"]) for verb, counts in result.cost().items()}


def test_the_contract_is_reached_by_some_schedule() -> None:
    """A bound that nothing reaches would hide a cost that grows."""
    assert most(explored("gone"), "upsert") == ALONE
    quiet, unanswered = explored("joiner"), explored("joiner", lost=1)
    assert most(quiet, "upsert") == PUBLISH
    assert most(quiet, "opening") == OPENING
    assert most(quiet, "closing") == CLOSING
    assert most(unanswered, "upsert") == PUBLISH.plus(UNANSWERED)
    assert most(unanswered, "opening") == OPENING.plus(UNANSWERED)
    assert most(explored("two-tables"), "append and append") == PUBLISH.plus(TABLE)
    crashed, before = explored("skew", crashes=1), explored("skew")
    assert most(crashed, "append") == most(before, "append").plus(CRASH)
    assert most(crashed, "append").hops == PUBLISH.plus(CRASH).hops


@pytest.mark.parametrize(
    ("scenario", "crashes", "lost"),
    [
        *((scenario, 0, 0) for scenario in SCENARIOS),
        ("skew", 0, 1),
        *(pytest.param(scenario, 0, 1, marks=pytest.mark.slow) for scenario in SCENARIOS[1:]),
    ],
)
def test_no_schedule_costs_more_at_greater_depth_or_beside_more_tables(
    scenario: str, crashes: int, lost: int
) -> None:
    shallow = flat(explored(scenario, crashes, lost))
    assert shallow == flat(explored(scenario, crashes, lost, depth=4))
    assert shallow == flat(explored(scenario, crashes, lost, tables=3))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["skew", "rivals", "joiner", "takeover"])
def test_nor_with_a_crash_and_a_lost_reply(scenario: str) -> None:
    shallow = explored(scenario, 1, 1)
    assert shallow.verdict == "holds", shallow
    assert flat(shallow) == flat(explored(scenario, 1, 1, depth=9, tables=7))


def test_bytes_grow_with_tables_by_what_a_manifest_says_of_them_and_hardly_with_depth() -> None:
    plain, deep, wide = (explored("rivals", **size).cost() for size in ({}, {"depth": 9}, {"tables": 9}))
    assert abs(deep["upsert"]["bytes"] - plain["upsert"]["bytes"]) < 100
    assert wide["upsert"]["bytes"] > plain["upsert"]["bytes"] + 9 * 100


def test_a_cost_above_the_contract_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "PUBLISH", Cost(PUBLISH.requests - 1, PUBLISH.hops))
    result = explored.__wrapped__("joiner")
    assert [counterexample.property for counterexample in result.counterexamples] == ["flat-cost"], result
    assert (
        "upsert took 19 requests and 14 serial hops, and may take 18 and 14"
        in result.counterexamples[0].reason
    )
