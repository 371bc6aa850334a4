"""The ingest library beside its oracle and its model; and broken ones, which the machine must catch."""

import unittest

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from fencepost.impl.ingest.safeguards import FIELDS
from fencepost.properties.ingest.stateful import IngestMachine, PlainIngest, VersionedIngest
from fencepost.sim.systems.ingest import SYSTEM
from tests import depth


def case(machine: type[IngestMachine], examples: int) -> type[unittest.TestCase]:
    found: type[unittest.TestCase] = machine.TestCase
    found.settings = hypothesis.settings(max_examples=depth.examples(examples), stateful_step_count=20)
    return found


TestPlain = case(PlainIngest, 15)
TestVersioned = case(VersionedIngest, 15)


# Hypothesis prints a finding as code to paste; here are two.


def test_a_conflict_that_took_hours_keeps_the_refused_data() -> None:
    """Garbage was collected between the blob and the manifest: the record must not refer to nothing."""
    state = VersionedIngest()
    state.accept_in_trouble(batch=1, collector="ann", trouble={0: "reply_lost"})
    state.accept_in_trouble(batch=0, collector="ann", trouble={1: ("hours-later",)})
    state.no_error()
    state.checks_hold()
    state.teardown()


@pytest.mark.parametrize("machine", [PlainIngest, VersionedIngest])
def test_an_acceptance_that_took_hours_keeps_the_data(machine: type[IngestMachine]) -> None:
    state = machine()
    state.accept_in_trouble(batch=0, collector="ann", trouble={0: "crash-after"})
    state.accept_in_trouble(batch=0, collector="bob", trouble={1: ("hours-later",)})
    state.checks_hold()
    state.teardown()


# Broken libraries.

SEEN = {
    "create-only-manifest": PlainIngest,
    "compare-after-412": PlainIngest,
    "effects-after-create": PlainIngest,
    "gc-quarantine-refs": VersionedIngest,
    "gc-stalled-writer-generation": PlainIngest,
    "gc-stalled-writer-version": VersionedIngest,
    "gc-stalled-writer-duplicate": VersionedIngest,
    "gc-stalled-writer": VersionedIngest,
    "gc-age": VersionedIngest,
    "blob-before-manifest": PlainIngest,
    "409-proves-nothing": VersionedIngest,
    "read-back-on-unknown": VersionedIngest,
    "reconcile": PlainIngest,
}
RARE = ("blob-before-manifest", "409-proves-nothing", "read-back-on-unknown", "reconcile")
UNSEEN = {
    "identity-bound-to-agent": "here agents send what is their own",
    "new-upload-on-multipart-409": "here no blob is large",
    "gc-audit-before-trust": "somebody audits too often",
    "cursor-overlap": "somebody audits too often",
    "search-late-places": "somebody audits too often",
    **dict.fromkeys(
        ("repair-before-acknowledge", "mark-late", "mark-what-exists"), "here nothing is notified"
    ),
}


def catches(safeguard: str, examples: int) -> None:
    machine = type("Broken", (SEEN[safeguard],), {"safeguards": SYSTEM.without(safeguard)})
    with pytest.raises((AssertionError, ExceptionGroup)):  # several failures come as a group
        run_state_machine_as_test(
            machine,
            settings=hypothesis.settings(
                max_examples=examples,
                stateful_step_count=25,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[hypothesis.Phase.generate],
                suppress_health_check=list(hypothesis.HealthCheck),
            ),
        )


def test_every_mutant_is_found_or_has_a_reason() -> None:
    assert {*SEEN, *UNSEEN} == set(FIELDS)


@pytest.mark.parametrize("safeguard", sorted(set(SEEN) - set(RARE)))
def test_a_mutant_is_found(safeguard: str) -> None:
    catches(safeguard, 100)


@pytest.mark.slow
@pytest.mark.parametrize("safeguard", RARE)
def test_a_rare_mutant_is_found_in_the_end(safeguard: str) -> None:
    catches(safeguard, 1000)
