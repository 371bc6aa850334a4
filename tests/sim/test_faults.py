"""Every list of faults derives from the table in `sim.faults`, or is held equal to it here."""

from dataclasses import asdict, fields
from pathlib import Path

import pytest

from fencepost.impl.store.faults import Effect
from fencepost.impl.store.layers.faulty import EFFECTS
from fencepost.model.store.requests import FAULTS as ANSWERS
from fencepost.sim import faults
from fencepost.sim.des.faults import Faults
from fencepost.sim.faults import ALTERNATIVES, DES, HTTP, KINDS, LAYER, PROXY, SERVER, WORLD
from fencepost.sim.proxy.plan import Plan
from fencepost.sim.scenarios.keys import KEYS
from fencepost.sim.world import NO_FAULTS, Budget
from fencepost.sim.world.budget import part_of, spend
from fencepost.testing import FAULTS

OF_WORLDS = {name for name, kind in KINDS.items() if {WORLD, HTTP, DES, PROXY} & {*kind.places}}


def test_a_budget_has_a_number_for_every_kind_and_its_default() -> None:
    assert asdict(Budget()) == {name: KINDS[name].default for name in asdict(Budget())}
    assert sorted(asdict(Budget())) == sorted(faults.names(WORLD))
    assert {found.kind for found in ALTERNATIVES.values()} - {""} == OF_WORLDS - {"restart"}


def test_an_audited_test_has_the_words_of_worlds() -> None:
    """Kinds of other places would be options that no budget takes."""
    assert set(FAULTS) == set(asdict(Budget()))


def test_the_store_layer_has_the_same_words() -> None:
    assert {effect.value for effect in EFFECTS} == set(faults.names(LAYER))


def test_the_object_server_for_tests_has_the_same_words() -> None:
    assert {effect.value for effect in Effect} == set(faults.names(SERVER))


def test_the_proxy_has_the_same_words() -> None:
    assert {field.name for field in fields(Plan)} & set(KINDS) == set(faults.names(PROXY))


def test_the_simulator_and_its_scenarios_have_the_same_words() -> None:
    shares = {field.name for field in fields(Faults)} & set(KINDS)
    assert shares == set(faults.names(DES)) - {"crash", "restart", "skew"}
    assert {key.removeprefix("faults.") for key in KEYS if key.startswith("faults.")} - {"late_by"} == set(
        faults.names(DES)
    )


def test_the_model_has_the_same_words() -> None:
    """It writes them with hyphens, like its other answers."""
    assert {answer.replace("-", "_") for answer in ANSWERS} <= set(KINDS)


def test_the_docs_name_every_kind() -> None:
    root = Path(__file__).parents[2] / "docs"
    for page, kinds in (("explanations/fault-model.md", KINDS), ("guides/audit-your-code.md", OF_WORLDS)):
        text = (root / page).read_text()
        assert not [name for name in kinds if f"`{name}" not in text]


@pytest.mark.parametrize(
    ("budget", "claim"),
    [
        (NO_FAULTS, "no faults"),
        (Budget(), "at most 1 crash, 1 lost reply or request, 1 pause"),
        (Budget(0, 2, 2, pause=0), "at most 2 lost replies or requests"),
        (Budget(0, 1, 0, pause=0), "at most 1 lost reply"),
        (Budget(0, 2, 1, pause=0), "at most 2 lost replies or requests (at most 1 lost request)"),
        (Budget(2, 0, 2, skew=1, pause=0), "at most 2 crashes, 2 lost requests, 1 skewed clock"),
    ],
)
def test_a_claim_names_what_was_allowed(budget: Budget, claim: str) -> None:
    assert budget.sentence() == claim


def test_both_halves_of_a_message_share_a_limit() -> None:
    reply, request = part_of("reply_lost"), part_of("request_lost")
    left = Budget(reply_lost=2, request_lost=1).left()
    after = [spend(left, part) for part in (reply, request)]
    assert [(one[reply], one[request]) for one in after] == [(1, 1), (1, 0)]
    assert spend(after[0], request) == spend(after[1], reply), "the order of the two does not matter"
