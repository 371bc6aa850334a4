"""Reads a result, and replays its counterexamples in the machine."""

import re
from typing import Any

from fencepost.model import Model, Stepper


def verdicts(result: Any) -> dict[str, str]:
    """The properties that do not hold."""
    return {found.name: found.verdict for found in result.properties if found.verdict != "holds"}


def counterexample(result: Any, name: str) -> list[str]:
    """The lines of a counterexample."""
    assert result[name].counterexample is not None
    return result[name].counterexample.lines()


def steps(result: Any, name: str) -> list[str]:
    """The labels of a counterexample, without what they changed."""
    assert result[name].counterexample is not None
    return [re.sub(r"^\d+\. (.*?\))  .*", r"\1", str(step)) for step in result[name].counterexample.steps]


def followed(model: Model, found: Any) -> None:
    """Walk a counterexample in the machine itself, step by step, and judge its end.

    Of a refinement, which two machines walk, this is the walk of the first.
    """

    def own(values: Any) -> dict[str, Any]:
        return {name: value for name, value in values.items() if not name.startswith(f"{found.name}.")}

    stepper = Stepper(model)
    state = before = stepper.state(own(found.counterexample.start))
    assert state in stepper.initial()
    for taken in found.counterexample.steps:
        parameters = ", ".join(f"{name}={value}" for name, value in taken.parameters.items())
        before, state = state, stepper.step(state, stepper.label(f"{taken.action}({parameters})"))
        assert own(taken.changes) == stepper.changes(before, state)
    if found.kind in ("invariant", "step"):
        assert found.name in stepper.broken(state, before)
    elif found.kind == "deadlock":
        assert not stepper.enabled(state)
        assert not stepper.may_end(state)
    elif found.kind == "reachable":
        wanted = next(wanted for wanted in model.properties if wanted.name == found.name)
        assert model.holds(wanted, state.rows()).all()
