"""Each condition of a put and a delete, one request at a time, on keys in every state.

What must hold is what a caller concludes from the answer: `done` means it was applied, a refusal means
that it was not *and that the reason given is true*. So every case looks at the object afterwards.
Codes that differ from S3's without misleading anybody are notes.
"""

from collections.abc import Iterator

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import ABSENT, Matches, Outcome
from fencepost.sim.probe.bench import Bench, expect, offered, refused
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.verdict import Broken


def create_only_put(bench: Bench) -> None:
    _create_on_missing(bench)
    _create_on_existing(bench, body_of("second"), "wrote over an existing object: the condition is ignored")
    _create_on_existing(bench, body_of("first"), "created the same bytes twice: two creators both won")
    _create_over_empty(bench)
    _create_on_deleted(bench)
    for size in large_sizes(bench):
        _create_large(bench, size)


def large_sizes(bench: Bench) -> Iterator[int]:
    """The plan's large sizes, each as a case, as long as there is time; a note names what is left out."""
    if not bench.plan.large_bytes:
        bench.note("bodies above 1 MiB were not tried (--quick leaves them out)")
    for size in bench.plan.large_bytes:
        if bench.out_of_time():
            bench.note(f"bodies of {size:,} bytes were not tried: the time was over")
            return
        bench.case()
        yield size


def _create_large(bench: Bench, size: int) -> None:
    key = bench.key("large")
    what = f"of {size:,} bytes"
    expect(bench.store.put(key, body_of("first", size), when=ABSENT), Outcome.DONE)
    reply = bench.store.put(key, body_of("second", size), when=ABSENT)
    otherwise = f"a create-only put {what} wrote over an existing object: the condition is ignored"
    refused(reply, Outcome.EXISTS, otherwise=otherwise)
    bench.must_stand(key, "first", f"a create-only put {what} that was refused")
    bench.delete(key)


def _match_large(bench: Bench, size: int) -> None:
    key = bench.key("large")
    what = f"of {size:,} bytes"
    etag = bench.put(key, "first")
    reply = bench.store.put(key, body_of("second", size), when=Matches(etag))
    if reply.outcome in (Outcome.CHANGED, Outcome.MISSING):
        raise Broken(f"answered {reply.outcome.value} to an if-match put {what} over an unchanged object")
    expect(reply, Outcome.DONE)
    reply = bench.store.put(key, body_of("third", size), when=Matches(etag))
    otherwise = f"an if-match put {what} wrote over a newer version: the condition is ignored"
    refused(reply, Outcome.CHANGED, otherwise=otherwise)
    bench.must_stand(key, "second", f"an if-match put {what} that was refused")
    bench.delete(key)


def _create_on_missing(bench: Bench) -> None:
    bench.case()
    key = bench.key("missing")
    reply = offered(lambda: bench.store.put(key, body_of("first"), when=ABSENT), "a create-only put")
    if reply.outcome is Outcome.EXISTS:
        raise Broken("refused to create what does not exist: nobody could ever begin")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, "first", "a create-only put that was done")


def _create_on_existing(bench: Bench, body: bytes, otherwise: str) -> None:
    bench.case()
    key = bench.key("existing")
    bench.put(key, "first")
    refused(bench.store.put(key, body, when=ABSENT), Outcome.EXISTS, otherwise=otherwise)
    bench.must_stand(key, "first", "a create-only put that was refused")


def _create_over_empty(bench: Bench) -> None:
    bench.case()
    key = bench.key("empty")
    expect(bench.store.put(key, b"", when=ABSENT), Outcome.DONE)
    reply = bench.store.put(key, body_of("second"), when=ABSENT)
    refused(reply, Outcome.EXISTS, otherwise="wrote over an empty object as if it were missing")
    bench.must_stand(key, "", "a create-only put over an empty object that was refused")


def _create_on_deleted(bench: Bench) -> None:
    bench.case()
    key = bench.key("deleted")
    bench.put(key, "first")
    bench.delete(key)
    reply = bench.store.put(key, body_of("second"), when=ABSENT)
    if reply.outcome is Outcome.EXISTS:
        raise Broken("refused to create what was deleted: a lock that is released could never be taken again")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, "second", "a create-only put on a deleted key that was done")


def if_match_put(bench: Bench) -> None:
    _match_right(bench)
    _match_stale(bench)
    for state in ("missing", "deleted"):
        _match_nothing(bench, state)
    _match_again(bench)
    for size in large_sizes(bench):
        _match_large(bench, size)


def _match_right(bench: Bench) -> None:
    bench.case()
    key = bench.key("right")
    etag = bench.put(key, "first")
    reply = offered(lambda: bench.store.put(key, body_of("other"), when=Matches(etag)), "an if-match put")
    if reply.outcome in (Outcome.CHANGED, Outcome.MISSING):
        raise Broken(f"answered {reply.outcome.value} for an unchanged object: its own ETag never matches")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, "other", "an if-match put that was done")
    reply = bench.store.put(key, body_of("third"), when=Matches(reply.etag))
    if reply.outcome is Outcome.CHANGED:
        raise Broken("the ETag that a put answered does not match the object it made")
    expect(reply, Outcome.DONE)


def _match_stale(bench: Bench) -> None:
    # All bodies of one size: an ETag made of sizes must not pass.
    bench.case()
    key = bench.key("stale")
    etag = bench.put(key, "first")
    bench.put(key, "other")
    reply = bench.store.put(key, body_of("third"), when=Matches(etag))
    refused(reply, Outcome.CHANGED, otherwise="wrote over a newer version: the condition is ignored")
    bench.must_stand(key, "other", "an if-match put with a stale ETag that was refused")


def _match_nothing(bench: Bench, state: str) -> None:
    bench.case()
    key = bench.key(state)
    if state == "deleted":
        etag = bench.put(key, "first")
        bench.delete(key)
    else:
        etag = bench.put(bench.key("model"), "first")
    reply = bench.store.put(key, body_of("other"), when=Matches(etag))
    otherwise = f"if-match created a {state} object: what was deleted comes back"
    refused(reply, Outcome.MISSING, Outcome.CHANGED, otherwise=otherwise)
    if reply.outcome is Outcome.CHANGED:
        bench.note(f"says changed (412) where S3 says missing (404), on a {state} key")
    bench.must_stand(key, None, f"an if-match put on a {state} key that was refused")


def _match_again(bench: Bench) -> None:
    """A, B, A: whether the ETag is a fingerprint of the content or names the write. Both are fine to know."""
    bench.case()
    key = bench.key("again")
    first, _, third = (bench.put(key, token) for token in ("a", "b", "a"))
    if first == third:
        bench.note("the same bytes again restore the ETag: put a nonce into what is swapped")


def if_match_delete(bench: Bench) -> None:
    _delete_right(bench)
    _delete_stale(bench)
    deletes_missing(bench)


def _delete_right(bench: Bench) -> None:
    bench.case()
    key = bench.key("right")
    etag = bench.put(key, "first")
    reply = offered(lambda: bench.store.delete(key, when=Matches(etag)), "an if-match delete")
    if reply.outcome in (Outcome.CHANGED, Outcome.MISSING):
        raise Broken(f"answered {reply.outcome.value} for an unchanged object: its own ETag never matches")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, None, "an if-match delete that was done")


def _delete_stale(bench: Bench) -> None:
    bench.case()
    key = bench.key("stale")
    etag = bench.put(key, "first")
    bench.put(key, "second")
    reply = bench.store.delete(key, when=Matches(etag))
    refused(reply, Outcome.CHANGED, otherwise="deleted a newer version: the condition is ignored")
    bench.must_stand(key, "second", "an if-match delete with a stale ETag that was refused")


def deletes_missing(bench: Bench) -> bool:
    """Whether an if-match delete of a missing key is answered `done`. Nobody loses anything by that."""
    bench.case()
    etag = bench.put(bench.key("model"), "first")
    reply = bench.store.delete(bench.key("missing"), when=Matches(etag))
    expect(reply, Outcome.MISSING, Outcome.CHANGED, Outcome.DONE)
    if reply.outcome is not Outcome.MISSING:
        bench.note(f"an if-match delete of a missing key is answered {reply.outcome.value}, not missing")
    return bool(reply.done)


def versioned_bucket(bench: Bench) -> None:
    """Only the current version counts, and a delete marker counts as nothing there."""
    if not bench.raw.versioned():
        bench.not_applicable("the bucket keeps no versions")
    key = bench.key("marker")
    first = offered(
        lambda: expect(bench.store.put(key, body_of("first"), when=ABSENT), Outcome.DONE), "create-only"
    )
    _marker_is_nothing(bench, key, first)
    _only_current_counts(bench)
    _old_version_stays(bench)


def _marker_is_nothing(bench: Bench, key: str, first: ask.PutReply) -> None:
    bench.delete(key)
    bench.must_stand(key, None, "a delete that left a marker")
    reply = bench.store.put(key, body_of("second"), when=Matches(first.etag))
    refused(reply, Outcome.MISSING, Outcome.CHANGED, otherwise="if-match wrote over a delete marker")
    reply = bench.store.put(key, body_of("third"), when=ABSENT)
    if reply.outcome is Outcome.EXISTS:
        raise Broken("takes a delete marker for an object: what was deleted can never be created again")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, "third", "creating over a delete marker")


def _only_current_counts(bench: Bench) -> None:
    bench.case()
    key = bench.key("current")
    old = bench.put(key, "first")
    new = bench.put(key, "second")
    reply = bench.store.put(key, body_of("third"), when=ABSENT)
    refused(reply, Outcome.EXISTS, otherwise="created over an existing version: the condition is ignored")
    reply = bench.store.put(key, body_of("third"), when=Matches(old))
    refused(reply, Outcome.CHANGED, otherwise="if-match accepted the ETag of an older version")
    expect(bench.store.put(key, body_of("third"), when=Matches(new)), Outcome.DONE)
    bench.must_stand(key, "third", "an if-match put of the current version")


def _old_version_stays(bench: Bench) -> None:
    bench.case()
    key = bench.key("kept")
    first = expect(bench.store.put(key, body_of("first"), when=ask.ANYTHING), Outcome.DONE)
    bench.put(key, "second")
    reply = expect(bench.store.get(key, version=first.version), Outcome.DONE)
    if reply.body != body_of("first"):
        raise Broken("an old version does not hold what was written")
