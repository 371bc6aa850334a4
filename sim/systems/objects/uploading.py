"""Scenarios of multipart uploads: completed twice, read meanwhile, and beside the collector of garbage."""

from functools import partial
from typing import Any

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.maintenance import collect_garbage
from fencepost.impl.objects.surface import act
from fencepost.properties.objects.checks import UNANSWERED, Request
from fencepost.sim.systems.objects.run import BODIES, BUCKET, ETAGS, KEY, PLACE, ScenarioRun

NAME = "ann"
"""Whose bytes are uploaded."""


def _begin(run: ScenarioRun) -> tuple[Buckets, str]:
    """An upload that was begun before the run."""
    run.followed = False  # the model `objects` has no uploads
    run.found(first=False)
    buckets = run.warm()
    with_attributes = {"Metadata": {"version": ETAGS[NAME]}}
    begun = act("CreateMultipartUpload", buckets, Caller(ROOT))(
        {"Bucket": BUCKET, "Key": KEY, **with_attributes}
    )
    return buckets, begun["UploadId"]


def _part(buckets: Buckets, upload: str) -> None:
    p = {"Bucket": BUCKET, "Key": KEY, "UploadId": upload, "PartNumber": 1}
    with act("UploadPart", buckets, Caller(ROOT))(p) as receiving:
        receiving.write(BODIES[NAME])
        receiving.finish(ETAGS[NAME], {})


def _complete(run: ScenarioRun, name: str, upload: str, buckets: Buckets) -> Any:
    parts = {"Parts": [{"PartNumber": 1, "ETag": ETAGS[NAME]}]}
    answer = run.send(buckets, "CompleteMultipartUpload", UploadId=upload, MultipartUpload=parts)
    run.world.note(f"answer to {name}", answer)
    return answer


def _client(run: ScenarioRun, name: str, upload: str) -> None:
    run.requests[name] = Request(name, PLACE, "complete", ETAGS[NAME], UNANSWERED, upload=upload)


def completed(run: ScenarioRun) -> None:
    """Two requests complete one upload."""
    _completions(run, "ann", "bob")
    run.recovery()


def assembled(run: ScenarioRun) -> None:
    """One request completes an upload, beside a reader."""
    _completions(run, "ann")
    run.reader()
    run.recovery()


def _completions(run: ScenarioRun, *names: str) -> None:
    buckets, upload = _begin(run)
    _part(buckets, upload)
    for name in names:
        _client(run, name, upload)
        run.serve(name, partial(_complete, run, name, upload))


def collected(run: ScenarioRun) -> None:
    """An upload gets its part and is completed, while a server starts and collects garbage."""
    _, upload = _begin(run)
    _client(run, "ann", upload)

    def use(server: Buckets) -> Any:
        _part(server, upload)
        return _complete(run, "ann", upload, server)

    def collect(server: Buckets) -> None:
        for _, removed in collect_garbage(server):
            run.world.note("removed", removed)

    run.serve("ann", use)
    run.serve("collector", collect)
    run.recovery()
