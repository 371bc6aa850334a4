"""Replayed expressions give the successors of the reference, row by row, and the truth of properties."""

from typing import Any

import numpy as np
import pytest

from fencepost.model import Int, Machine, Model, action
from fencepost.model.kernel.compiled import tape
from fencepost.model.kernel.compiled.tape import Tapes
from fencepost.properties.publish import PublishRefinement
from fencepost.sim.systems import SYSTEMS
from fencepost.sim.systems.system import load

STATES = 60
"""States of a level that go on: the first ones in the order of their words."""


class Branching(Machine):
    """Each state takes its own branch of two conditions."""

    a = Int(0, 7)
    b = Int(0, 7)

    @action
    def moves(s) -> None:
        s.require(s.b < 7)
        if s.a < 3:
            s.a = s.a + 1
        else:
            s.b = s.b + 1
            if s.b == 2:
                s.a = 1

    @action(to=(0, 5))
    def jumps(s, to: int) -> None:
        if s.a != to:
            s.a = to
        s.require(s.b > 0)


def models() -> dict[str, Any]:
    found = {name: lambda name=name: load(SYSTEMS[name].refinement)().model for name in SYSTEMS}
    branching = {"branching": lambda: Model(Branching)}
    return {**found, **branching, "publish": lambda: PublishRefinement(2, 1).model}


@pytest.mark.parametrize("name", list(models()))
def test_all_labels_and_properties_of_a_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "RUNS", 0)
    model: Model = models()[name]()
    tapes, level, fired = Tapes(model), model.initial(), 0
    labels = [label for number, label in enumerate(model.labels) if number < 150 or number % 9 == 0]
    for _ in range(8 if name == "branching" else 3):
        found = [level]
        for label in labels:
            expected, replayed = model.successors(level, label), tapes.successors(level, label)
            assert np.array_equal(expected.origin, replayed.origin), label
            assert np.array_equal(expected.states, replayed.states), label
            found.append(expected.states)
            fired += bool(len(expected.origin))
        for each in model.properties:
            if each.kind.judged.name == "STATES":
                assert np.array_equal(model.holds(each, level), tapes.holds(each, level, each.name))
        level = np.unique(np.concatenate(found, axis=1), axis=1)
        level = level[:, :: max(1, level.shape[1] // STATES)]
    assert fired > 4
    assert not any(one is None for one in tapes._tapes.values()), "nothing is left to the reference"
