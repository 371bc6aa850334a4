"""Each condition of a put, a delete and a completed upload, one request at a time, on keys in every state.

A caller must be able to rely on the answer: `done` means that the request was applied, a refusal that it was
not *and that the reason given is true*. So every case reads the object afterwards. Codes that differ from
S3's without misleading a caller are notes.

S3 compares a conditional completion with the object at the key when the upload was *created*. Stores that
compare it only with the object at its completion answer `done` in those cases; that is a note, for a caller
without another safeguard could take an A-B-A for its own A.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import ABSENT, Matches, Outcome
from fencepost.sim.probe.bench import Bench, expect, offered, refused
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.multipart import begin
from fencepost.sim.probe.verdict import Broken

NO_MATCH = (Outcome.CHANGED, Outcome.CONFLICT, Outcome.MISSING)


@dataclass(frozen=True, slots=True)
class Write:
    """One way to write: what it is called, what it did where it must not, and what refuses it."""

    name: str
    did: str
    prepare: Callable[[Bench, str, str], Callable[[ask.Condition], Any]]
    """For a key and a token, the request by its condition: what comes before it is done here."""
    exists: tuple[Outcome, ...] = (Outcome.EXISTS,)
    stale: tuple[Outcome, ...] = (Outcome.CHANGED,)
    nothing: tuple[Outcome, ...] = (Outcome.MISSING, Outcome.CHANGED)


PUT = Write("put", "wrote over", lambda _, key, token: lambda when: ask.Put(key, body_of(token), when))
DELETE = Write("delete", "deleted", lambda _bench, key, _token: functools.partial(ask.Delete, key))
COMPLETE = Write(
    "completion", "completed over", begin, (Outcome.EXISTS, Outcome.CONFLICT), NO_MATCH, NO_MATCH
)


def create_only_put(bench: Bench) -> None:
    _create_on_missing(bench, PUT)
    _create_on_existing(bench, PUT)
    _create_on_existing(bench, PUT, "first", "created the same bytes twice: two creators both won")
    _create_over_empty(bench)
    _create_on_deleted(bench)
    for size in _large_sizes(bench):
        _create_large(bench, size)


def create_only_complete(bench: Bench) -> None:
    _create_on_missing(bench, COMPLETE)
    _create_on_existing(bench, COMPLETE)
    _create_after_put_between(bench)
    _create_after_delete_between(bench)
    for size in _large_sizes(bench):
        _complete_large(bench, size, ABSENT, COMPLETE.exists)


def if_match_put(bench: Bench) -> None:
    key, reply = _match_unchanged(bench, PUT)
    reply = bench.store.put(key, body_of("third"), when=Matches(reply.etag))
    if reply.outcome is Outcome.CHANGED:
        raise Broken("the ETag that a put answered does not match the object it made")
    expect(reply, Outcome.DONE)
    _match_stale(bench, PUT)
    _match_near(bench, PUT)
    for state in ("missing", "deleted"):
        _match_nothing(bench, PUT, state)
    _match_again(bench)
    for size in _large_sizes(bench):
        _match_large(bench, size)


def if_match_complete(bench: Bench) -> None:
    _match_unchanged(bench, COMPLETE)
    _match_stale(bench, COMPLETE)
    _match_near(bench, COMPLETE)
    _match_nothing(bench, COMPLETE, "missing")
    _match_after_put_between(bench)
    for size in _large_sizes(bench):
        _complete_large(bench, size, None, NO_MATCH)


def if_match_delete(bench: Bench) -> None:
    _match_unchanged(bench, DELETE)
    _match_stale(bench, DELETE)
    _match_near(bench, DELETE)
    deletes_missing(bench)
    for size in _large_sizes(bench):
        _delete_large(bench, size)


def _large_sizes(bench: Bench) -> Iterator[int]:
    """The plan's large sizes, each as a case, as long as there is time; a note names what is left out."""
    if not bench.plan.large_bytes:
        bench.note("bodies above 1 MiB were not tried (--quick leaves them out)")
    for size in bench.plan.large_bytes:
        if bench.out_of_time():
            bench.note(f"bodies of {size:,} bytes were not tried: the time was over")
            return
        bench.case()
        yield size


# Any write.


def _create_on_missing(bench: Bench, write: Write) -> None:
    bench.case()
    key = bench.key("missing")
    request = write.prepare(bench, key, "first")
    reply = offered(lambda: bench.store.send(request(ABSENT)), f"a create-only {write.name}")
    if reply.outcome is Outcome.EXISTS:
        raise Broken("refused to create what does not exist: nobody could ever begin")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, "first", f"a create-only {write.name} that was done")


def _create_on_existing(bench: Bench, write: Write, body: str = "second", otherwise: str = "") -> None:
    bench.case()
    key = bench.key("existing")
    bench.put(key, "first")
    reply = bench.store.send(write.prepare(bench, key, body)(ABSENT))
    otherwise = otherwise or f"{write.did} an existing object: the condition is ignored"
    refused(reply, *write.exists, otherwise=otherwise)
    bench.must_stand(key, "first", f"a create-only {write.name} that was refused")


def _match_unchanged(bench: Bench, write: Write) -> tuple[str, Any]:
    bench.case()
    key = bench.key("right")
    etag = bench.put(key, "first")
    request = write.prepare(bench, key, "other")
    reply = offered(lambda: bench.store.send(request(Matches(etag))), f"an if-match {write.name}")
    if reply.outcome in (Outcome.CHANGED, Outcome.MISSING):
        raise Broken(f"answered {reply.outcome.value} for an unchanged object: its own ETag never matches")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, None if write is DELETE else "other", f"an if-match {write.name} that was done")
    return key, reply


def _match_stale(bench: Bench, write: Write) -> None:
    # All bodies of one size: an ETag made of sizes must not pass.
    bench.case()
    key = bench.key("stale")
    etag = bench.put(key, "first")
    request = write.prepare(bench, key, "third")
    bench.put(key, "other")
    reply = bench.store.send(request(Matches(etag)))
    refused(reply, *write.stale, otherwise=f"{write.did} a newer version: the condition is ignored")
    bench.must_stand(key, "other", f"an if-match {write.name} with a stale ETag that was refused")


def near_misses(etag: str) -> dict[str, str]:
    """Return ETags that differ from this one as little as possible, by the kind of the difference."""
    last = "0" if etag[-1] != "0" else "1"
    first = "0" if etag[0] != "0" else "1"
    middle = len(etag) // 2
    between = "0" if etag[middle] != "0" else "1"
    found = {
        "its last character changed": etag[:-1] + last,
        "its first character changed": first + etag[1:],
        "a character in the middle changed": etag[:middle] + between + etag[middle + 1 :],
        "all behind the sixth character changed": etag[:6] + "0" * len(etag[6:]),
        "its last character missing": etag[:-1],
        "only its first six characters": etag[:6],
        "a character more": etag + "0",
        "a character more in front": "0" + etag,
        "capitals": etag.upper() if etag != etag.upper() else etag.lower(),
        "its characters reversed": etag[::-1],
    }
    return {kind: near for kind, near in found.items() if near and near != etag}


def _match_near(bench: Bench, write: Write) -> None:
    """An ETag that is nearly the object's own must not match."""
    bench.case()
    key = bench.key("near")
    etag = bench.put(key, "first")
    request = write.prepare(bench, key, "other")
    for kind, near in near_misses(etag).items():
        reply = bench.store.send(request(Matches(near)))
        otherwise = f"{write.did} an object by its ETag with {kind}: a part is compared"
        refused(reply, *write.stale, otherwise=otherwise)
    bench.must_stand(key, "first", f"if-match {write.name}s with nearly the right ETag that were refused")


def _match_nothing(bench: Bench, write: Write, state: str) -> None:
    bench.case()
    key = bench.key(state)
    if state == "deleted":
        etag = bench.put(key, "first")
        bench.delete(key)
    else:
        etag = bench.put(bench.key("model"), "first")
    reply = bench.store.send(write.prepare(bench, key, "other")(Matches(etag)))
    otherwise = f"an if-match {write.name} created a {state} object: what was deleted comes back"
    refused(reply, *write.nothing, otherwise=otherwise)
    if reply.outcome is Outcome.CHANGED:
        bench.note(f"says changed (412) where S3 says missing (404), on a {state} key")
    bench.must_stand(key, None, f"an if-match {write.name} on a {state} key that was refused")


# Puts.


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
    never = "refused to create what was deleted: a lock that is released could never be taken again"
    _create_again(bench, key, "second", never, "a create-only put on a deleted key that was done")


def _create_again(bench: Bench, key: str, token: str, never: str, done: str) -> None:
    """Create the object at a deleted key; `never` is the finding if the store refuses."""
    reply = bench.store.put(key, body_of(token), when=ABSENT)
    if reply.outcome is Outcome.EXISTS:
        raise Broken(never)
    expect(reply, Outcome.DONE)
    bench.must_stand(key, token, done)


def _match_again(bench: Bench) -> None:
    """A, B, A: whether the ETag is a fingerprint of the content or names the write. Both are fine to know."""
    bench.case()
    key = bench.key("again")
    first, _, third = (bench.put(key, token) for token in ("a", "b", "a"))
    if first == third:
        bench.note("the same bytes again restore the ETag: put a nonce into what is swapped")


# Completed uploads.


def _create_after_put_between(bench: Bench) -> None:
    bench.case()
    key = bench.key("between")
    done = begin(bench, key, "second")
    bench.put(key, "first")
    otherwise = "completed over an object that was written while the parts were uploaded"
    refused(bench.store.send(done(ABSENT)), *COMPLETE.exists, otherwise=otherwise)
    bench.must_stand(key, "first", "a create-only completion that was refused")


def _create_after_delete_between(bench: Bench) -> None:
    bench.case()
    key = bench.key("deleted")
    bench.put(key, "first")
    done = begin(bench, key, "second")
    bench.delete(key)
    reply = expect(bench.store.send(done(ABSENT)), Outcome.DONE, Outcome.CONFLICT)
    standing = "second" if reply.done else None
    bench.must_stand(key, standing, f"a create-only completion answered {reply.outcome}")
    if reply.done:
        bench.note("may create although the key was deleted during the upload, where S3 answers conflict")


def _match_after_put_between(bench: Bench) -> None:
    bench.case()
    key = bench.key("between")
    bench.put(key, "first")
    done = begin(bench, key, "third")
    etag = bench.put(key, "second")
    reply = expect(bench.store.send(done(Matches(etag))), Outcome.DONE, *NO_MATCH)
    standing = "third" if reply.done else "second"
    bench.must_stand(key, standing, f"an if-match completion answered {reply.outcome}")
    if reply.done:
        bench.note(
            "does not mind a write during the upload, where S3 answers conflict: no help against A-B-A"
        )


def _complete_large(
    bench: Bench, size: int, when: ask.Condition | None, refusals: tuple[Outcome, ...]
) -> None:
    """Complete over a newer version; `when` is None for the ETag of the older one."""
    key = bench.key("large")
    old = bench.put(key, "first")
    bench.put(key, "second")
    done = begin(bench, key, "third", size)
    otherwise = f"completed {size:,} bytes over an object that the condition excludes: it is ignored"
    refused(bench.store.send(done(when or Matches(old))), *refusals, otherwise=otherwise)
    bench.must_stand(key, "second", f"a conditional completion of {size:,} bytes that was refused")
    bench.store.abort_upload(key, done.upload)


# Deletes, and versions.


def _delete_large(bench: Bench, size: int) -> None:
    key = bench.key("large")
    what = f"of an object of {size:,} bytes"
    stale = bench.put(key, "first")
    etag = bench.put(key, "second", size=size)
    reply = bench.store.delete(key, when=Matches(stale))
    otherwise = f"an if-match delete {what} deleted a newer version: the condition is ignored"
    refused(reply, Outcome.CHANGED, otherwise=otherwise)
    bench.must_stand(key, "second", f"an if-match delete {what} that was refused")
    expect(bench.store.delete(key, when=Matches(etag)), Outcome.DONE)


def deletes_missing(bench: Bench) -> bool:
    """Return true if an if-match delete of a missing key is answered `done`, which loses nothing."""
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
    never = "takes a delete marker for an object: what was deleted can never be created again"
    _create_again(bench, key, "third", never, "creating over a delete marker")


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
