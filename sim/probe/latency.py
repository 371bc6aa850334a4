"""Latencies of each kind of request, sent one after another by a single client.

The profile is written for people and, with `--profile FILE`, for the simulator:

    {
      "format": "fencepost-latency/1",
      "url": "s3://bucket?endpoint=...",
      "unit": "ms",
      "in_flight": 1,                             how many requests were under way at once
      "operations": {
        "put": [                                  a request's kind, as in events
          {"bytes": 1024, "count": 100,           the body's size; 0 where there is none
           "p50": 3.1, "p90": 4.0, "p99": 6.2,
           "quantiles": [2.8, ..., 7.0]}          101 numbers: minimum, 1 %, 2 %, ..., maximum
        ]
      }
    }

An empirical distribution draws u from 0 to 1 and interpolates `quantiles` at 100 u. Failed requests are
left out; the p99 of fewer than 100 samples is not much more than their maximum, so `count` is there.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Request
from fencepost.sim.probe.bench import Bench
from fencepost.sim.probe.history import body_of

FORMAT = "fencepost-latency/1"
SMALL = 1_024
LARGE = 1_048_576
LISTED = 50
"""Keys on the page that is listed."""

Samples = dict[tuple[str, int], list[float]]


def measure(bench: Bench) -> dict[str, Any]:
    """The profile of the store, in as many samples as the plan wants and the time allows."""
    samples: Samples = defaultdict(list)
    folder = bench.key("listed")
    bench.quiet().send_all([ask.Put(f"{folder}/{at:03d}", b"x\n", ANYTHING) for at in range(LISTED)])
    for number in range(bench.plan.samples):
        if bench.out_of_time() and number > 0:
            break
        _once(bench, samples, number, SMALL, folder)
        if number % 4 == 0:
            _once(bench, samples, number, LARGE, folder)
    return {
        "format": FORMAT,
        "url": bench.raw.url,
        "unit": "ms",
        "in_flight": 1,
        "operations": _operations(samples),
    }


def _once(bench: Bench, samples: Samples, number: int, size: int, folder: str) -> None:
    """One of each kind. Requests that a store does not offer are left out."""
    key = bench.key("timed")
    body = body_of(f"latency.{number}", size)

    def timed(request: Request[Any], bytes_: int = 0) -> Any:
        bench.scratch.before(request)
        started = bench.env.monotonic_ns()
        reply = bench.raw.send(request)
        elapsed = (bench.env.monotonic_ns() - started) / 1e6
        bench.scratch.after(request, reply)
        if reply.done:
            samples[request.kind, bytes_].append(elapsed)
        return reply

    steps: Sequence[Callable[[Any], Any]] = (
        lambda _: timed(ask.Put(key, body, ABSENT), size),
        lambda put: timed(ask.Put(key, body, Matches(put.etag) if put.etag else ANYTHING), size),
        lambda _: timed(ask.Get(key), size),
        lambda _: timed(ask.Head(key)),
        lambda _: timed(ask.List(f"{folder}/")),
        lambda _: timed(ask.Delete(key, ANYTHING)),
    )
    last: Any = None
    for step in steps:
        try:
            last = step(last)
        except StoreError:
            last = timed(ask.Put(key, body, ANYTHING), size)
    _upload(bench, timed, key, body, size)


def _upload(bench: Bench, timed: Callable[..., Any], key: str, body: bytes, size: int) -> None:
    try:
        started = timed(ask.CreateUpload(key))
        part = timed(ask.UploadPart(key, started.upload, 1, body), size)
        timed(ask.CompleteUpload(key, started.upload, ((1, part.etag),), ABSENT))
    except StoreError:
        bench.note("uploads were not timed: the store refuses them")


def _operations(samples: Samples) -> dict[str, list[dict[str, Any]]]:
    operations: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (kind, size), times in sorted(samples.items()):
        quantiles = [round(float(value), 4) for value in np.percentile(times, range(101))]
        percentiles = {f"p{at}": quantiles[at] for at in (50, 90, 99)}
        entry = {"bytes": size, "count": len(times), **percentiles, "quantiles": quantiles}
        operations[kind].append(entry)
    return dict(operations)


def summary(profile: dict[str, Any]) -> dict[str, dict[str, float]]:
    """`{operation: {p50, p90, p99}}`, the large ones under a name of their own."""
    return {
        kind if entry["bytes"] < LARGE else f"{kind}-1mib": {
            name: entry[name] for name in ("p50", "p90", "p99")
        }
        for kind, entries in profile["operations"].items()
        for entry in entries
    }
