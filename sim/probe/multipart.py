"""Uploads in parts: what shows when, and the conditions on completing one.

On S3 a conditional completion looks at what stood at the key when the upload was *created*. Stores that
look only at what stands when it is completed answer `done` in those cases; that is a note, for a
caller that has no other safeguard could take an A-B-A for its own A.
"""

from collections.abc import Sequence

from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import PART_BYTES_MIN
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from fencepost.sim.probe.bench import Bench, expect, offered, refused
from fencepost.sim.probe.conditions import large_sizes
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.verdict import Broken

NO_MATCH = (Outcome.CHANGED, Outcome.CONFLICT, Outcome.MISSING)


def multipart(bench: Bench) -> None:
    key = bench.key("plain")
    done = begin(bench, key, "parts")
    bench.must_stand(key, None, "uploading parts that were not completed")
    if any(found.key == key for found in bench.store.list(key).objects):
        raise Broken("an upload that was not completed is listed")
    expect(bench.store.send(done(ANYTHING)), Outcome.DONE)
    bench.must_stand(key, "parts", "completing an upload")
    _completed_twice(bench, done)
    _aborted(bench)


def _completed_twice(bench: Bench, done: "Begun") -> None:
    again = expect(bench.store.send(done(ANYTHING)), Outcome.GONE, Outcome.DONE, Outcome.MISSING)
    if again.done:
        bench.note("completing the same upload twice is answered done both times")


def _aborted(bench: Bench) -> None:
    bench.case()
    key = bench.key("aborted")
    done = begin(bench, key, "parts")
    expect(bench.store.abort_upload(key, done.upload), Outcome.DONE)
    reply = bench.store.send(done(ANYTHING))
    if reply.outcome is Outcome.UNKNOWN:
        # moto answers 500. What matters is that nothing came of it.
        bench.note("completing an upload that was aborted ends in an error of the server")
    else:
        refused(reply, Outcome.GONE, Outcome.MISSING, otherwise="completed an upload that was aborted")
    bench.must_stand(key, None, "aborting an upload")


def create_only_complete(bench: Bench) -> None:
    key = bench.key("missing")
    done = begin(bench, key, "first")
    reply = offered(lambda: bench.store.send(done(ABSENT)), "a create-only completion")
    if reply.outcome is Outcome.EXISTS:
        raise Broken("refused to create what does not exist: nobody could ever begin")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, "first", "a create-only completion that was done")
    _create_on_existing(bench)
    _create_after_put_between(bench)
    _create_after_delete_between(bench)
    for size in large_sizes(bench):
        _complete_large(bench, size, ABSENT, (Outcome.EXISTS, Outcome.CONFLICT))


def _create_on_existing(bench: Bench) -> None:
    bench.case()
    key = bench.key("existing")
    bench.put(key, "first")
    reply = bench.store.send(begin(bench, key, "second")(ABSENT))
    otherwise = "completed over an existing object: the condition is ignored"
    refused(reply, Outcome.EXISTS, Outcome.CONFLICT, otherwise=otherwise)
    bench.must_stand(key, "first", "a create-only completion that was refused")


def _create_after_put_between(bench: Bench) -> None:
    bench.case()
    key = bench.key("between")
    done = begin(bench, key, "second")
    bench.put(key, "first")
    otherwise = "completed over an object that was written while the parts were uploaded"
    refused(bench.store.send(done(ABSENT)), Outcome.EXISTS, Outcome.CONFLICT, otherwise=otherwise)
    bench.must_stand(key, "first", "a create-only completion that was refused")


def _create_after_delete_between(bench: Bench) -> None:
    bench.case()
    key = bench.key("deleted")
    bench.put(key, "first")
    done = begin(bench, key, "second")
    bench.delete(key)
    reply = expect(bench.store.send(done(ABSENT)), Outcome.DONE, Outcome.CONFLICT)
    bench.must_stand(
        key, "second" if reply.done else None, f"a create-only completion answered {reply.outcome}"
    )
    if reply.done:
        bench.note("may create although the key was deleted during the upload, where S3 answers conflict")


def if_match_complete(bench: Bench) -> None:
    key = bench.key("right")
    etag = bench.put(key, "first")
    done = begin(bench, key, "second")
    reply = offered(lambda: bench.store.send(done(Matches(etag))), "an if-match completion")
    if reply.outcome in (Outcome.CHANGED, Outcome.MISSING):
        raise Broken(f"answered {reply.outcome.value} for an unchanged object: its own ETag never matches")
    expect(reply, Outcome.DONE)
    bench.must_stand(key, "second", "an if-match completion that was done")
    _match_stale(bench)
    _match_missing(bench)
    _match_after_put_between(bench)
    for size in large_sizes(bench):
        _complete_large(bench, size, None, NO_MATCH)


def _match_stale(bench: Bench) -> None:
    bench.case()
    key = bench.key("stale")
    etag = bench.put(key, "first")
    done = begin(bench, key, "third")
    bench.put(key, "second")
    otherwise = "completed over a newer version: the condition is ignored"
    refused(bench.store.send(done(Matches(etag))), *NO_MATCH, otherwise=otherwise)
    bench.must_stand(key, "second", "an if-match completion with a stale ETag that was refused")


def _match_missing(bench: Bench) -> None:
    bench.case()
    key = bench.key("missing")
    etag = bench.put(bench.key("model"), "first")
    reply = bench.store.send(begin(bench, key, "second")(Matches(etag)))
    refused(reply, *NO_MATCH, otherwise="an if-match completion created a missing object")
    if reply.outcome is Outcome.CHANGED:
        bench.note("says changed (412) where S3 says missing (404), on a missing key")
    bench.must_stand(key, None, "an if-match completion on a missing key that was refused")


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


class Begun:
    """An upload whose parts are there; called with a condition it is the request that completes it."""

    def __init__(self, key: str, upload: str, etags: Sequence[str]) -> None:
        self.key = key
        self.upload = upload
        self._parts = tuple(enumerate(etags, 1))

    def __call__(self, when: ask.Condition) -> ask.CompleteUpload:
        return ask.CompleteUpload(self.key, self.upload, self._parts, when)


def begin(bench: Bench, key: str, token: str, size: int = 0) -> Begun:
    """Start an upload, in parts of the least size that S3 accepts."""
    started = offered(lambda: expect(bench.store.create_upload(key), Outcome.DONE), "multipart upload")
    body = body_of(token, size)
    pieces = [body[start : start + PART_BYTES_MIN] for start in range(0, len(body), PART_BYTES_MIN)]
    parts = [
        expect(bench.store.upload_part(key, started.upload, number, piece), Outcome.DONE)
        for number, piece in enumerate(pieces, 1)
    ]
    return Begun(key, started.upload, [part.etag for part in parts])
