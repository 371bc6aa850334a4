"""What `fencepost replay` does not see: a test for each line of `what-can-still-be-wrong.md`.

Every trace here is of a run that breaks a promise, and it is accepted; `test_replay_mutations` has the
kinds of changes that are accepted and named. When a test fails because replay finds more, the page needs an
edit.
"""

from dataclasses import replace

from fencepost.impl.store.events import Event
from tests.trust.test_replay_continuity import history, judged
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


def one_object(*steps: str) -> list[Event]:
    """Requests of one process, one after the other: kind, condition, the ETag it names, outcome, ETag."""
    made = []
    for op, step in enumerate(steps):
        kind, condition, named, outcome, etag = (word.strip("-") for word in step.split())
        base = Event("run", 0, 0, "ann", 0, op, "request", kind, "object")
        asked = replace(base, condition=condition, etag=named, hash="h1" if kind == "put" else "")
        made += [asked, replace(base, phase="response", outcome=outcome, etag=etag)]
    return [replace(event, seq=seq) for seq, event in enumerate(made)]


def test_an_object_that_other_writers_change() -> None:
    run = one_object("put absent - done e1", "get - - done e2", "get - - done e1")
    found = judged(run, all_writers=False)
    assert (found.found, found.other_etags, found.judged) == (0, 1, 0)
    assert judged(run).findings[0]["rule"] == "never-written"


def test_the_value_before_the_first_event() -> None:
    run = one_object("get - - done e1", "get - - done e1")
    assert judged(run).found == 0
    assert judged(run, starts_empty=True).findings[0]["rule"] == "never-written"


def test_requests_without_an_etag() -> None:
    run = one_object("put absent - done -", "get - - done e1", "get - - done e1")
    assert (judged(run).found, judged(run).unjudged) == (0, {"carry no ETag": 1})


def test_a_refused_write_that_an_sdk_may_have_repeated() -> None:
    """The create took effect, its answer was lost, and the SDK sent it again."""
    run = one_object("get - - missing -", "put absent - exists -", "get - - done e1")
    assert judged(run).found == 0
    landed = [replace(event, phase="landed" if event.outcome else event.phase) for event in run]
    assert judged(landed).findings[0]["rule"] == "wrong-condition"


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


def test_what_a_listing_returned_and_what_a_copy_read() -> None:
    """The listing may lack what was written before, and the copy may have read an older version."""
    asked = "p 0 list src - done -"
    seen = judged(history("p 0 put src absent done e1", "p 0 put src matches:e1 done e2", asked))
    assert (seen.findings, seen.requests) == ([], 2)
    copied = judged(
        history("p 0 put src absent done e1", "p 0 put src matches:e1 done e2", "p 0 copy dst - done e1")
    )
    assert (copied.findings, copied.judged) == ([], 3)
