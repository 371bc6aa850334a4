"""All runs at once: long and short, the giant among the small, each as if it were alone."""

import numpy as np
import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.model import Model
from fencepost.properties.refinement import OUTSIDE, START, Automaton, Observation
from fencepost.sim.replay.walk import VectorisedWalk
from tests.sim.replay.test_columns import Any3, Everything


def symbols() -> tuple[VectorisedWalk, list[int]]:
    """A walk, and letters for it: up, down, never, and one that there is no room for."""
    automaton = Automaton(Everything(Model(Any3)))

    def symbol(kind: str, mode: str, out_of_bounds: str = "") -> int:
        trace_fields = (("mode", mode),) if mode else ()
        return automaton.symbol(
            Observation("landed", kind, "any", "", "done", (), trace_fields, False, out_of_bounds)
        )

    read = [symbol("put", "good"), symbol("delete", ""), symbol("put", "bad"), symbol("put", "", "plan")]
    return VectorisedWalk(automaton), read


def alone(walk: VectorisedWalk, run: list[int]) -> tuple[int, int, int]:
    state = START
    for place, symbol in enumerate(run):
        before, state = state, walk.automaton.step(state, symbol)
        if state <= OUTSIDE:
            return state, place, before
    return state, -1, -1


@pytest.mark.parametrize("few", [1, 3, 24, 1000])
def test_each_run_ends_as_if_it_were_alone(few: int) -> None:
    walk, (up, down, never, out_of_bounds) = symbols()
    walk.few = few
    draw = SeededEnvironment(5).stream("runs")
    runs = [
        [draw.choice((up, up, down, down, never, out_of_bounds)) for _ in range(draw.randrange(7))]
        for _ in range(60)
    ]
    runs += [
        [up, down] * 6000,
        [up, down] * 5000 + [never],
        [up, down] * 3000 + [up, out_of_bounds] + [down] * 9,
    ]
    whole = np.array([symbol for run in runs for symbol in run])
    lengths = np.array([len(run) for run in runs])
    ends = walk.follow(whole, np.append(0, np.cumsum(lengths)[:-1]), lengths)
    found = list(zip(ends.sets.tolist(), ends.places.tolist(), ends.before.tolist(), strict=True))
    assert found == [alone(walk, run) for run in runs]
    assert found[-3][1] == -1
    assert found[-2][1] == 10000
    assert found[-1][1] == 6001


def test_the_transitions_taken_are_remembered() -> None:
    walk, (take, give, *_) = symbols()
    walk.follow(np.array([take, give, take]), np.array([0, 2]), np.array([2, 1]))
    taken = {(int(one), int(symbol)) for one, symbol in np.argwhere(walk.taken())}
    held = walk.automaton.step(START, take)
    assert taken == {(START, take), (held, give)}
