"""Uploads in parts: what shows when, and an upload whose parts are there, to be completed."""

from collections.abc import Sequence

from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import PART_BYTES_MIN
from fencepost.impl.store.requests import ANYTHING, Outcome
from fencepost.sim.probe.bench import Bench, expect, offered, refused
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.verdict import Broken


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
        # moto answers 500. It must have had no effect.
        bench.note("completing an upload that was aborted ends in an error of the server")
    else:
        refused(reply, Outcome.GONE, Outcome.MISSING, otherwise="completed an upload that was aborted")
    bench.must_stand(key, None, "aborting an upload")


class Begun:
    """An upload whose parts are there; called with a condition it is the request that completes it."""

    def __init__(self, key: str, upload: str, etags: Sequence[str]) -> None:
        self.key = key
        self.upload = upload
        self.parts = tuple(enumerate(etags, 1))

    def __call__(self, when: ask.Condition) -> ask.CompleteUpload:
        return ask.CompleteUpload(self.key, self.upload, self.parts, when)


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
