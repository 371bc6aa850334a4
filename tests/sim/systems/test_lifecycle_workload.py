"""What the scenarios of lifecycles say is what their runs show; cut to what it takes."""

from typing import Any

import pytest

from fencepost.results import to_json
from fencepost.sim.scenarios import Order, load, perform


def runs(name: str, *sweeps: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = to_json(perform(Order(load(name), sweeps=sweeps, jobs=1)))["runs"]
    return found


def test_a_worker_that_falls_behind_is_left_to_scans_before_events_are_lost() -> None:
    sweeps = ("parameters.day_s=20", "parameters.retention_s=80", "duration=90 s")
    enough, _, too_many, _ = [one["counters"] for one in runs("lifecycle-lag", *sweeps)]
    assert enough["expired"] + enough["left"] > 700
    assert enough["demoted_at_s"] == 0 < enough["lag_most"] < too_many["lag_most"]
    assert too_many["demoted_at_s"] > 20
    assert too_many["log_lost"] == 0
    assert too_many["late_s_most"] > 3 * enough["late_s_most"]


def test_following_costs_the_same_however_many_objects_there_are_and_a_walk_does_not() -> None:
    sweeps = ("depth=1000,11000", "duration=2 d")
    followed, also, walked, more = runs("lifecycle-cost", *sweeps)
    assert followed["counters"]["expired"] > walked["counters"]["expired"] > 50

    def requests(run: dict[str, Any]) -> float:
        return sum(one["count"] * one["requests"] for one in run["operations"].values())

    listings = requests(more) - requests(walked)
    # Of 10,000 objects more: ten listings, in each of two or three walks.
    assert 2 * 10 <= listings <= 3 * 10
    assert abs(requests(also) - requests(followed)) <= 0.6 * listings  # of the walk with which it begins


def test_a_walk_takes_what_its_listings_take_divided_by_its_workers() -> None:
    """As the formula has it, whatever the number of keys; and each object that is due is deleted once."""
    sweeps = ("writers=1,2", "parameters.keys=1e7", "parameters.as_one=10")
    found = [one["counters"] for one in runs("lifecycle-walk", *sweeps)]
    one, two, *_, due, due_of_two = found
    assert (one["lists"], one["expired"]) == (10_001, 0)
    assert one["formula_hours"] == pytest.approx(10_000 * 0.02 / 3600, abs=1e-4)
    assert one["hours"] > two["hours"] > one["hours"] / 2
    assert two["least_share"] > 0.4
    assert due["expired"] == due_of_two["expired"] == 1_000
    assert due["hours"] > one["hours"]
    assert all(0 < each["hours_over"] < 0.15 and each["dollars_over"] < 0.1 for each in found)
