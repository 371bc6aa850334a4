"""What `fencepost replay` does not see: a test for each line of `what-can-still-be-wrong.md`.

Every trace here is of a run that breaks a promise, and it is accepted; `test_replay_mutations` has the
kinds of changes that are accepted and named. When a test fails because replay finds more, the page needs an
edit.
"""

from dataclasses import replace

from fencepost.impl.store.events import Event
from tests.trust.test_replay_requests import (
    FULL,
    PLAIN,
    changed,
    commits,
    committed,
    offers,
    then,
    verdict,
    where,
    without,
)

ACCEPTED = ("accepted", "")


def test_requests_of_processes_that_were_not_traced() -> None:
    run = offers("publish", FULL, committed)
    plan, _, _ = commits(run)[0]
    key = next(event.key for event in run if f"/{plan}-" in event.key)
    seen = then(run, len(run), "delete", key, "done")
    assert verdict("publish", seen)[0] == "rejected"
    assert verdict("publish", [event for event in seen if event.process != "stranger"]) == ACCEPTED


def test_bytes_that_a_reader_received() -> None:
    """A trace has hashes; that they are those of what was written is not judged."""
    run = offers("publish", FULL, lambda run: bool(where(run, "get", "/manifest/")))
    op, _ = where(run, "get", "/manifest/")[0]
    assert verdict("publish", changed(run, op, hash="0" * 16, etag="other")) == ACCEPTED


def test_trace_fields_that_do_not_say_what_the_body_holds() -> None:
    """The tracer's extractor is trusted: here the sidecar counts no fragment, and none was stored."""
    run = offers("publish", FULL, committed)
    plan, _, _ = commits(run)[0]
    bare = without(run, *{event.op for event in run if f"/{plan}-" in event.key})
    assert verdict("publish", bare)[0] == "rejected"

    def uncounted(event: Event) -> Event:
        words = [word for word in event.trace_fields.split() if not word.startswith("fragments=")]
        return replace(event, trace_fields=" ".join(words))

    assert verdict("publish", [uncounted(event) for event in bare]) == ACCEPTED


def test_listings() -> None:
    run = offers("publish", FULL, lambda run: bool(where(run, "list", "")))
    assert verdict("publish", without(run, where(run, "list", "")[0][0])) == ACCEPTED


def test_conditions_that_were_not_recorded() -> None:
    run = offers("publish", FULL, committed)
    assert verdict("publish", changed(run, commits(run)[0][2], condition="")) == ACCEPTED


def test_a_request_whose_outcome_is_unknown_explains_what_it_may_have_done() -> None:
    """The fragment may have landed, so its plan may go on; whether it did is not recorded."""
    run = offers("publish", PLAIN, committed)
    plan, _, _ = commits(run)[0]
    stored = {event.op for event in run if event.kind == "put" and f"/{plan}-" in event.key}
    reads = {event.op for event in run if event.kind == "get" and f"/{plan}-" in event.key}
    lost = [event for event in run if event.op not in stored or event.phase == "request"]
    assert verdict("publish", without(lost, *reads)) == ACCEPTED


def test_the_order_of_processes_where_only_clocks_order_them() -> None:
    run = offers("publish", PLAIN, committed)
    key = next(event.key for event in run if event.op == commits(run)[0][2])
    assert verdict("publish", then(run, len(run), "get", key, "missing")) == ACCEPTED


def test_what_is_owed_and_never_done() -> None:
    """A replay judges what happened: here a batch is accepted and reaches no index."""
    run = offers("ingest", FULL, lambda run: bool(where(run, "put", "accepted-by-time/")))
    derived = {event.op for event in run if "accepted-by-" in event.key or "raw-blobs-by-" in event.key}
    assert verdict("ingest", without(run, *derived)) == ACCEPTED


def test_what_a_writer_decided_by() -> None:
    """Reads that no rule requires may be left out: here the probe for news before a plan is staged."""
    run = offers("publish", FULL, lambda run: bool(where(run, "get", "/manifest/", "missing")))
    assert verdict("publish", without(run, where(run, "get", "/manifest/", "missing")[0][0])) == ACCEPTED
