"""Count the requests of a walk, by what the rules of its bucket need.

    python -m bench.lifecycle_walks [--objects N] [--uploads N] [--only NAME]

Each case is a bucket of moto in this process. Every tenth object is below `tmp/`, has the tag, is large, or
has an older version. A walk is the worker's own, with as many rounds as it needs, and the ones in which its
actions begin. The requests are those of the server, for 1,000 objects: `state` are those for documents of the
lifecycle and the trials of the store, the others are by operation.
"""

import argparse
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from bench import report
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.opening import open_lifecycle
from fencepost.impl.lifecycle.policy import SECOND_NS, Timing
from fencepost.impl.lifecycle.service import AT_ONCE, Service
from fencepost.impl.lifecycle.worker import Worker
from tests.servers.endpoint import ACCESS_KEY, SECRET_KEY
from tests.servers.moto_here import Here, moto_in_thread

ENV = SystemEnvironment()
TENTH = 10
TIMING = Timing(day_ns=SECOND_NS // 10, scan_every_ns=3600 * SECOND_NS)
"""A rule of one day is due at once; one of 10^6 days never."""
NEVER = 1_000_000
ROUNDS_MAX = 10_000


def rule(days: int = 1, **parts: Any) -> dict[str, Any]:
    return {"Status": "Enabled", "Filter": parts or {"Prefix": ""}, "Expiration": {"Days": days}}


@dataclass(frozen=True)
class Case:
    rules: Sequence[Mapping[str, Any]]
    versioned: bool = False
    uploads: int = 0
    endpoints: int = 1
    workers: int = 1
    times: int = 1
    """Of the number of objects."""
    put: dict[str, Any] = field(default_factory=dict)
    """Of every tenth object, beside its key."""


TAG = {"Tag": {"Key": "t", "Value": "1"}}
ABORT = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": NEVER}}


def cases(uploads: int) -> dict[str, Case]:
    older = {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
    everything = {"Status": "Enabled", "Filter": {"Prefix": ""}}
    return {
        "none matching": Case([rule(Prefix="other/")]),
        "not due": Case([rule(NEVER)]),
        "prefix": Case([rule(Prefix="tmp/")]),
        "tag": Case([rule(**TAG)], put={"Tagging": "t=1"}),
        "tag, not due": Case([rule(NEVER, **TAG)], put={"Tagging": "t=1"}),
        "size": Case([rule(ObjectSizeGreaterThan=10)], put={"Body": b"x" * 20}),
        "versions": Case([{**everything, **older}], versioned=True),
        "uploads": Case([{**everything, **ABORT}], uploads=uploads),
        "two endpoints": Case([rule(NEVER)], endpoints=2, times=6),
        "2 workers": Case([rule(NEVER)], workers=2, times=6),
        "4 workers": Case([rule(NEVER)], workers=4, times=6),
    }


def fill(case: Case, server: Here, url: str, objects: int) -> None:
    bucket = urlsplit(url).netloc
    client = server.client()
    for number in range(objects):
        is_tenth = number % TENTH == 0
        key = f"{'tmp' if is_tenth else 'data'}/{number:07d}"
        client.put_object(**{"Bucket": bucket, "Key": key, "Body": b"x", **(case.put if is_tenth else {})})
        if case.versioned and is_tenth:
            client.put_object(Bucket=bucket, Key=key, Body=b"y")
    for number in range(case.uploads):
        client.create_multipart_upload(Bucket=bucket, Key=f"data/{number * 7 % objects:07d}")


@contextlib.contextmanager
def workers(case: Case, url: str) -> Iterator[list[Service]]:
    endpoint = parse_qs(urlsplit(url).query)["endpoint"][0]
    named = url + f"&endpoint={endpoint}" * (case.endpoints - 1)
    with contextlib.ExitStack() as stack:
        made = []
        for number in range(case.workers):
            opened = stack.enter_context(open_lifecycle(named, ENV))
            if not number:
                opened.policies.put(opened.bucket, [dict(one) for one in case.rules])
            worker = Worker(opened.context, opened.target, opened.log, TIMING)
            if case.workers > 1:
                worker.leases = Leases(opened.context, f"worker-{number}")
            made.append(Service(worker))
        yield made


def walked(services: Sequence[Service]) -> None:
    """Rounds of all, one after the other, until nothing is left to be walked."""
    for _ in range(ROUNDS_MAX):
        done = [service.round() for service in services]
        failed = {name: why for one in done for name, why in one.failed.items()}
        if failed:
            raise RuntimeError(f"a round failed: {failed}")
        if not any(how in AT_ONCE for one in done for how in one.handled.values()):
            return
    raise RuntimeError(f"not walked in {ROUNDS_MAX} rounds")


def kind_of(line: str) -> str:
    """The operation of a request as the server logs it."""
    method, _, target = line.partition(" ")
    parts = urlsplit(target)
    key = unquote(parts.path).strip("/").partition("/")[2]
    query = parse_qs(parts.query, keep_blank_values=True)
    if key.startswith("lifecycle/") or query.get("prefix", [""])[0].startswith("lifecycle/"):
        return "state"
    if key:
        return f"{method} tags" if "tagging" in query else method
    for name, shown in (
        ("uploads", "list uploads"),
        ("versions", "list versions"),
        ("delete", "delete many"),
    ):
        if name in query:
            return shown
    return "list" if "list-type" in query else "bucket"


def measure(case: Case, server: Here, objects: int) -> dict[str, Any]:
    url = server.bucket(versioned=case.versioned)
    count = objects * case.times
    fill(case, server, url, count)
    ENV.sleep(0.2)
    with workers(case, url) as services:
        before = len(server.app.served)
        began = time.process_time()
        walked(services)
        took = time.process_time() - began
        sent = Counter(kind_of(line) for line in server.app.served[before:])
        expired = sum(one.worker.expirer.counters.expired.total() for one in services)
    each = 1000 / count
    by_kind = {kind: round(sent[kind] * each, 1) for kind in sorted(sent)}
    total = sum(sent.values())
    return {
        "objects": count,
        "deleted": expired,
        "requests": total,
        "for_1000": round(total * each, 1),
        "by_kind": by_kind,
        "processor_s": round(took, 1),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.lifecycle_walks", description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--uploads", type=int, default=2000)
    parser.add_argument("--only")
    options = parser.parse_args(arguments)
    chosen: Callable[[str], bool] = lambda name: options.only in (None, name)  # noqa: E731  a filter
    os.environ.update(AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY)
    with moto_in_thread() as server:
        figures = {
            name: measure(case, server, options.objects)
            for name, case in cases(options.uploads).items()
            if chosen(name)
        }
    return report.tell("lifecycle-walks", figures, ok=True)


if __name__ == "__main__":
    sys.exit(main())
