"""Every check of the audit of publish can fail: damaged contents and mutants are found."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.exit_codes import Exit
from fencepost.impl.publish import STANDARD, Safeguards
from fencepost.impl.publish.documents import read_manifest
from fencepost.properties.publish.checks import CHECKS, CatalogState, Outcomes
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.tokens import follow, read
from fencepost.sim.systems.publish import SYSTEM
from fencepost.sim.systems.publish.run import MANIFESTS, ScenarioRun, examine, outcomes
from fencepost.sim.systems.publish.scenarios import play
from fencepost.sim.world import Budget
from fencepost.sim.world.view import View
from tests.commands.running import exit_of
from tests.sim.systems.test_publish import explored

Contents = dict[str, bytes]
End = tuple[CatalogState, Outcomes]


def end(scenario: str, change: Callable[[Contents], object] = len, safeguards: Safeguards = STANDARD) -> End:
    """The end of the run without faults, with the store's contents changed by hand."""
    runs: list[ScenarioRun] = []

    def program(world: Any) -> None:
        runs.append(ScenarioRun(world, safeguards))
        play(runs[-1], scenario)

    world = follow(Setting(program, Budget(crash=1, reply_lost=1, request_lost=1)), read("default")).world
    contents = dict(world.bucket.contents())
    change(contents)
    return examine(contents, safeguards), outcomes(runs[-1], View(world.run))


def drop(part: str) -> Callable[[Contents], object]:
    """Take the last object away whose key has this in it."""
    return lambda contents: contents.pop(max(key for key in contents if part in key))


def put_again(contents: Contents) -> None:
    """The newest manifest once more, under the next number: the same plan, twice."""
    newest = read_manifest(contents[max(key for key in contents if "/manifest/" in key)])
    again = dataclasses.replace(newest, id=newest.id + 1)
    contents[f"{MANIFESTS}{again.id:020d}.json"] = again.body()


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_check_accepts_a_good_run(name: str) -> None:
    assert list(CHECKS[name](*end("skew"))) == []
    assert list(CHECKS[name](*end("rivals"))) == []


@pytest.mark.parametrize(
    ("name", "scenario", "change", "says"),
    [
        ("no_lost_write", "rivals", drop("/manifest/"), "was acknowledged, and no manifest holds plan"),
        ("no_phantom", "gone", put_again, "was published 2 times"),
        (
            "atomic_visibility",
            "skew",
            drop("manifest/00000000000000000004.json"),
            "is not the one before it and",
        ),
        ("cleanup_safe", "rivals", drop("/version/"), ""),
        ("cleanup_safe", "rivals", drop("-rows.parquet"), ""),
    ],
)
def test_a_check_rejects_damaged_contents(
    name: str, scenario: str, change: Callable[[Contents], object], says: str
) -> None:
    found = list(CHECKS[name](*end(scenario, change)))
    assert found
    assert says in found[0]


def test_a_part_of_a_plan_is_found() -> None:
    """The scenario whose sidecar holds one table of two, and whose recovery publishes that."""
    result = explored("whole-plan-in-sidecar", seconds=60)
    (counterexample,) = result.counterexamples
    run: list[ScenarioRun] = []

    def program(world: Any) -> None:
        run.append(ScenarioRun(world, SYSTEM.without("whole-plan-in-sidecar")))
        play(run[-1], "two-tables")

    world = follow(
        Setting(program, Budget(crash=1, reply_lost=1, request_lost=1), steps_max=600),
        read(counterexample.token),
    ).world
    found = examine(dict(world.bucket.contents()), run[-1].safeguards)
    seen = list(CHECKS["atomic_visibility"](found, outcomes(run[-1], View(world.run))))
    assert any("one whole plan" in violation for violation in seen)


def test_an_unexplained_head_is_reported_at_once() -> None:
    result = explored("sidecar-before-heads", scenario="rivals", crash=0, reply_lost=0, request_lost=0)
    assert [counterexample.property for counterexample in result.counterexamples] == ["no-wedge"]


def test_it_runs_on_a_real_store_as_well(tmp_path: Path) -> None:
    """What the promises look at is there without a world under control."""
    words = ["audit", "publish", "--set", "scenario=skew", "--store", f"file://{tmp_path}", "--rounds", "2"]
    assert exit_of(*words) == Exit.UNDECIDED
