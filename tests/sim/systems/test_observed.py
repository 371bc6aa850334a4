"""Every system has an observed machine: its model refines it, and replay judges runs by it.

If these fail, what `fencepost check` proves of a system and what `fencepost replay` judges by are two
machines with nothing between them.
"""

import pytest

from fencepost.commands.models import SHIPPED
from fencepost.model import Machine, Model
from fencepost.sim.systems import SYSTEMS, load

OF_DOCUMENTS = {"lifecycle": {"named_by_walks", "driven_by_walks"}}
"""Properties that only the documents have, by system: the models have no record of a walk."""


def machines(name: str) -> tuple[type[Machine], type[Machine], type[Machine]]:
    """The model of a system, its observed machine, and the machine that replay maps into."""
    system = SYSTEMS[name]
    assert system.observed, f"{name} has no observed machine"
    return load(system.model), load(system.observed), load(system.refinement)().model.machine


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_model_refines_the_observed_machine(name: str) -> None:
    model, observed, _ = machines(name)
    links = [each.refines for each in Model(model).properties if each.kind.explores]
    assert [link.machine for link in links] == [observed]


@pytest.mark.parametrize("name", SYSTEMS)
def test_replay_judges_by_the_observed_machine(name: str) -> None:
    """Or by a subclass, which adds hidden steps and windows."""
    _, observed, replayed = machines(name)
    assert issubclass(replayed, observed)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_observed_machine_states_properties_of_the_model(name: str) -> None:
    """Under their names, so that a verdict can say which of them it covers. It can be checked by its name."""
    model, observed, _ = machines(name)
    stated = {each.name for each in Model(observed).properties if each.kind.is_safe_so_far}
    refining = SYSTEMS[name].refining()
    known = {each.name for machine in refining for each in Model(machine).properties}
    assert model in refining
    assert stated & known
    assert stated - known == OF_DOCUMENTS.get(name, set())
    assert SHIPPED[f"{name}-observed"] == SYSTEMS[name].observed


def test_a_verdict_names_the_properties_that_it_covers() -> None:
    stated, others = SYSTEMS["objects"].judged_properties()
    assert stated == ["one_winner", "cas_exact", "ack_durable", "list_true"]
    assert others == ["untorn", "event_complete", "event_true", "served"]
