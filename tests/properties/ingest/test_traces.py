"""Traces of the real library, grouped by identity and followed in the map: requests and responses only."""

import hashlib

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.ingest import (
    STANDARD,
    Accepted,
    Authority,
    Conflict,
    Identity,
    Point,
    Safeguards,
    Settings,
    collect,
    encode,
    full_audit,
    reconcile_once,
)
from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store.events import Event
from fencepost.impl.store.layers.traced import Traced
from fencepost.impl.store.memory import MemoryStore
from fencepost.properties.ingest import IngestRefinement
from fencepost.properties.refinement import Automaton, Verdict, follow
from fencepost.sim.systems.ingest import SYSTEM
from tests.properties.refinement.reference import by_run

NS = 1_700_000_000_000_000_000
IDENTITIES = [Identity("agent a", "boot/ü", 10 * n, 10 * n + 9) for n in range(5)]
ORPHAN = Identity("agent-b", "boot-1", 0, 9)
SETTINGS = Settings(horizon_s=3600.0)


def body(identity: Identity, value: float) -> bytes:
    return encode(identity, [Point("cpu.load", {}, NS, value)])


def trace(*, versioned: bool, safeguards: Safeguards = STANDARD) -> list[Event]:
    """Five identities, two of them in conflict, one orphan that is collected."""
    env = SeededEnvironment(start_ns=NS)
    events: list[Event] = []
    bucket = MemoryStore(versioned=versioned, env=env)
    stores = [
        Traced(bucket, events.append, run="r", process=name, trace_fields=trace_fields)
        for name in ("ann", "bob", "gc")
    ]
    ann, bob = (
        Authority(store, env, name, SETTINGS, safeguards=safeguards)
        for store, name in zip(stores, ("ann", "bob"), strict=False)
    )
    orphan = body(ORPHAN, 1.0)
    ann.blobs.keep(hashlib.sha256(orphan).hexdigest(), orphan)
    for identity in IDENTITIES:
        answer = ann.accept(identity, body(identity, 1.0))
        assert isinstance(answer, Accepted)
        ann.follow_up(answer.manifest)
        bob.accept(identity, body(identity, 1.0))
    for identity in IDENTITIES[:2]:
        assert isinstance(bob.accept(identity, body(identity, 2.0)), Conflict | Accepted)
    reconcile_once(stores[2], env, SETTINGS, safeguards=safeguards)
    env.sleep(5 * 3600.0)
    full_audit(stores[2], env, SETTINGS, safeguards=safeguards)
    assert collect(stores[2], env, SETTINGS, safeguards=safeguards).deleted
    return events


def verdicts(events: list[Event], *, versioned: bool) -> dict[str, Verdict]:
    runs, left_out = by_run(IngestRefinement.runs, events)
    assert left_out  # listings, cursors, audits
    automaton = Automaton(IngestRefinement(versioned=versioned), slots=4)
    return {identity: follow(automaton, run) for identity, run in runs.items()}


@pytest.mark.parametrize("versioned", [False, True])
def test_every_identity_of_a_trace_is_a_run_of_the_model(versioned: bool) -> None:
    found = verdicts(trace(versioned=versioned), versioned=versioned)
    assert set(found) == {identity.path for identity in (*IDENTITIES, ORPHAN)}
    assert {verdict.verdict for verdict in found.values()} == {"holds"}, found
    assert min(found[identity.path].symbols for identity in IDENTITIES) >= 6


@pytest.mark.parametrize(("safeguard", "error"), [("create-only-manifest", 5), ("gc-quarantine-refs", 2)])
def test_a_trace_of_a_broken_library_is_refused(safeguard: str, error: int) -> None:
    found = verdicts(trace(versioned=False, safeguards=SYSTEM.without(safeguard)), versioned=False)
    refused = [identity for identity, verdict in found.items() if verdict.verdict == "violated"]
    assert len(refused) == error, found
    assert set(refused) <= {identity.path for identity in IDENTITIES}


def test_a_bucket_of_the_other_kind_is_not_judged() -> None:
    found = verdicts(trace(versioned=True), versioned=False)
    assert {verdict.verdict for verdict in found.values()} == {"undecided"}
