"""The object server as its directory shows it: its properties, and the proof that ties the model to it.

If these fail, `fencepost replay` judges by a machine that is not the one that `fencepost check` proves.
"""

from dataclasses import replace

import pytest

from bench.refinements import breaks_proof, mutant, observed_mutants, refinement_of, unguarded
from fencepost.model import Model, check
from fencepost.model.kernel.compiled.build import has_compiler
from fencepost.model.objects import Objects
from fencepost.model.objects_observed import ObjectsObserved
from tests.model.counterexamples import verdicts

TWO = {"writers": 2}
WANTED = refinement_of(Objects)
assert WANTED is not None
MODEL = Model(Objects, TWO)
UNSEEN = {"refused never", "refused idle"}
"""With two requests nothing is refused under the lock."""


def test_its_properties_hold() -> None:
    result = check(ObjectsObserved)
    assert (verdicts(result), result.vacuity_warnings, result.distinct) == ({}, (), 191_141)


def test_two_writers_refine_it() -> None:
    found = check(Objects, TWO)["observed"]
    assert found.verdict == "holds"
    assert found.proof is not None
    assert found.proof.distinct == 12_444


@pytest.mark.slow
def test_three_writers_refine_it() -> None:
    result = check(Objects, compiled=has_compiler())
    found = result["observed"]
    assert (found.verdict, result.vacuity_warnings) == ("holds", ())
    assert found.proof is not None
    assert found.proof.distinct == 1_335_423


@pytest.mark.parametrize("safeguard", ["atomic-create", "key-lock", "directory-flush", "index-after-publish"])
def test_the_proof_fails_without_a_safeguard_of_the_calls(safeguard: str) -> None:
    assert breaks_proof(WANTED, Model(Objects, TWO, without=[safeguard]), compiled=False)


@pytest.mark.parametrize(
    "safeguard", ["fsync-before-publish", "attributes-before-publish", "event-after-publish"]
)
def test_the_proof_says_nothing_of_what_the_directory_does_not_show(safeguard: str) -> None:
    """The bytes of a file and the change log: a property of the model breaks, which replay does not judge."""
    assert not breaks_proof(WANTED, Model(Objects, TWO, without=[safeguard]), compiled=False)
    assert set(verdicts(check(Objects, TWO, without=[safeguard]))) & {"untorn", "event_true"}


def test_a_mutant_of_the_observed_machine_is_no_longer_refined() -> None:
    """An action of it that never happens, or that changes nothing."""
    caught = dict(observed_mutants(WANTED, MODEL, compiled=False))
    assert len(caught) == 24
    assert {name for name, reason in caught.items() if not reason} <= UNSEEN


def test_an_observed_machine_that_allows_more_breaks_its_own_properties() -> None:
    """A refinement cannot see a guard that is missing above: the properties of the observed machine do."""
    caught = dict(unguarded(ObjectsObserved))
    assert len(caught) >= 8
    assert {name for name, broken in caught.items() if not broken} == set()
    loose = replace(WANTED.refines, machine=mutant(ObjectsObserved, "created", "unguarded"))
    assert not breaks_proof(replace(WANTED, refines=loose), MODEL, compiled=False)
