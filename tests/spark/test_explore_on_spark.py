"""Exploration on Spark answers what exploration in this process answers: verdicts, counts and
counterexamples."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.model import Each, Int, Machine, Size, Truth, action, check, step
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.model.objects import Objects
from fencepost.model.swap_counter import SwapCounter
from fencepost.model.textbook.two_phase import TwoPhase
from fencepost.results import to_json
from fencepost.sim.spark import SparkEngine

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


class Wide(Machine):
    """A user's own, of two words, that gets stuck and decreases although its property forbids it."""

    cells = Size(2, most=3)
    big = Each(cells, Int(0, 1 << 40))

    @action(c=cells)
    def grow(s, c: int) -> None:  # noqa: N805 - s is the states
        s.require(s.big[c] < 1 << 12)
        s.big[c] = s.big[c] * 8 + 1

    @action(c=cells)
    def shrink(s, c: int) -> None:  # noqa: N805 - s is the states
        s.require(s.big[c] == 585)
        s.big[c] = s.big[c] - 512

    @step
    def rises(before, after: "Wide") -> Truth:  # noqa: N805 - before is the states
        return after.big[0] >= before.big[0]


def plain(result: Any) -> dict[str, Any]:
    """All of a result but how long it took and how much it held."""
    found = to_json(result)
    for row in found["properties"]:
        row.get("proof", {}).pop("seconds", None)
    return {key: value for key, value in found.items() if key not in ("seconds", "peak_bytes", "provenance")}


CASES: dict[str, tuple[type[Machine], dict[str, Any]]] = {
    "liveness": (SwapCounter, {}),
    "a user's own, of two words": (Wide, {"keep_going": True}),
    "a broken invariant": (CreateOnlyLock, {"without": ["number-the-takes"]}),
    "a broken step property": (CreateOnlyLock, {"without": ["conflict-proves-nothing"]}),
    "every violation": (CreateOnlyLock, {"without": ["create-only"], "keep_going": True, "max_depth": 6}),
    "symmetry": (TwoPhase, {"symmetry": True}),
    "a bound": (TwoPhase, {"max_states": 50}),
    "a refinement": (Objects, {"sizes": {"writers": 2}}),
    "a refinement that is violated": (Objects, {"sizes": {"writers": 2}, "without": ["key-lock"]}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_answer(session: Any, tmp_path: Path, name: str) -> None:
    machine, options = CASES[name]
    here = check(machine, **options)
    there = check(machine, **options, explore=SparkEngine(session, tmp_path))
    if name == "a bound":  # which is looked at after each level here, and within levels there
        assert (there.verdict, there.stopped_by) == (here.verdict, here.stopped_by)
    else:
        assert plain(there) == plain(here)
