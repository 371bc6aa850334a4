"""Runs that the observed machine of ingest refuses, event by event; each has an accepted neighbour."""

import pytest

from tests.properties.ingest.shown_events import automaton, blob_key, follow, landed, manifest, note

BLOB = landed("put", blob_key(0, 0, named=True))
ACCEPTED = (BLOB, manifest(0, 0, named=True))

REFUSED = {
    "two agents that are answered `duplicate=false`": (
        (*ACCEPTED, note("outcome", 0, "accepted"), note("outcome", 0, "duplicate")),
        (*ACCEPTED, note("outcome", 0, "accepted"), note("outcome", 0, "accepted")),
    ),
    "a blob created over itself in a plain bucket": (
        (BLOB, landed("put", blob_key(0, 1, named=True))),
        (BLOB, BLOB),
    ),
    "a batch that is live twice": (
        (*ACCEPTED, note("live", 0)),
        (*ACCEPTED, note("live", 0), note("live", 0)),
    ),
    "an answer before the manifest": (
        (*ACCEPTED, note("outcome", 0, "duplicate")),
        (BLOB, note("outcome", 0, "duplicate")),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_run_is_refused_and_its_neighbour_is_not(case: str) -> None:
    accepted, refused = REFUSED[case]
    machine = automaton(versioned=False)
    assert follow(machine, list(accepted)) is None
    verdict = follow(machine, list(refused))
    assert verdict is not None
    assert verdict.verdict == "violated"
