"""Measure following the change log beside walking the buckets, on a directory of `objects`.

    python -m bench.lifecycle [--events N] [--objects N] [--buckets N] [--directory DIR]

Each bucket has five rules with a prefix each, which expire after 1, 1, 7, 7 and 30 days: of 100 buckets that
are 500 actions and three delays. Every tenth event is of a key that a rule matches, and of such keys every
eleventh has an object, due since long; the other objects match no rule. The events are of one day, older than
every delay, so each pass reads them all: one for each delay, and one close behind the clock. The walk is
the worker's own, after the passes: it lists what is left below the prefixes of rules and deletes none.

The times of objects and events are set by the benchmark; deletions are durable, as they ship. A put of a
policy is measured on a bucket that holds all objects at once, and on an empty one.
"""

import argparse
import contextlib
import itertools
import json
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench import report
from bench.linked_files import fill_bucket
from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle import walk
from fencepost.impl.lifecycle.directory import DirectoryTarget
from fencepost.impl.lifecycle.log import ChangeLogReader, Event
from fencepost.impl.lifecycle.policy import What
from fencepost.impl.lifecycle.target import WHOLE, Guard, Needs, Result, Standing
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.objects import change_log
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.surface import act
from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.store.files import FileStore

DAY_S = 86_400
RULES = (("tmp/", 1), ("cache/", 1), ("logs/", 7), ("build/", 7), ("old/", 30))
BEGAN_NS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 10**9
"""Of the events; the walk that sets the actions up is a day before."""
ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'


class Log(ChangeLogReader):
    read = 0

    def begins_ns(self, shard: str) -> int:
        return 0  # no day of it was ever removed

    def events(self, shard: str, after: str, until_ns: int) -> Iterator[Event]:
        for event in super().events(shard, after, until_ns):
            self.read += 1
            yield event


class Target(DirectoryTarget):
    looks = deleted = 0

    def standing(self, bucket: str, key: str, needs: Needs = WHOLE) -> Standing:
        self.looks += 1
        return super().standing(bucket, key, needs)

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        result = super().delete(bucket, key, version_id, what, guard, needs)
        self.deleted += result is Result.DONE
        return result


def key_of(number: int) -> str:
    """Of the event of this number in its bucket."""
    if number % 10:
        return f"data/{number % 1000:03d}/{number}"
    prefix, _ = RULES[number // 10 % len(RULES)]
    return f"{prefix}{number}"


def configuration() -> dict[str, Any]:
    rules = [
        {"ID": prefix, "Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Days": days}}
        for prefix, days in RULES
    ]
    return {"Rules": rules}


def names(buckets: int) -> list[str]:
    return [f"bench-{number:03d}" for number in range(buckets)]


def put_policy(buckets: Buckets, name: str) -> None:
    put = act("PutBucketLifecycleConfiguration", buckets, Caller(ROOT))
    put({"Bucket": name, "LifecycleConfiguration": configuration()})


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_ms(work: Callable[[], Any]) -> float:
    return round(1000 * report.median([timed(work) for _ in range(20)]), 3)


def write_events(root: Path, count: int, events: int) -> None:
    """In files of one process, one for each minute, as its change log writes them."""
    step_ns = DAY_S * 10**9 // events
    minute, lines = "", []
    for place, (number, bucket) in enumerate(itertools.product(range(events // count), names(count))):
        ts_ns = BEGAN_NS + place * step_ns
        new = {"etag": ETAG, "size": 1, "modified_ns": ts_ns, "mark": f"{place:x}",
               "content_type": "binary/octet-stream", "metadata": {}, "extra": {}}  # fmt: skip
        event = {
            "ts_ns": ts_ns,
            "bucket": bucket,
            "key": key_of(number),
            "version": "",
            "old": None,
            "new": new,
        }
        text = json.dumps(event).encode()
        now = f"{datetime.fromtimestamp(ts_ns // 10**9, UTC):%Y-%m-%d/%H-%M}"
        if now != minute:
            _write_file(root, minute, lines)
            minute, lines = now, []
        lines.append(b"%08x %s\n" % (zlib.crc32(text), text))
    _write_file(root, minute, lines)


def _write_file(root: Path, minute: str, lines: list[bytes]) -> None:
    if lines:
        path = root / change_log.FOLDER / f"{minute}.bench"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))


def measure(root: Path, events: int, objects: int, count: int) -> dict[str, Any]:
    clock = SeededEnvironment(0, BEGAN_NS - DAY_S * 10**9)
    with contextlib.closing(Buckets(str(root), clock, disk=Unflushed())) as buckets:
        for name in [*names(count), "empty", "filled"]:
            buckets.create(name)
        fill_bucket(buckets, "filled", (f"data/{number}" for number in range(objects)), BEGAN_NS)
        puts = {name: median_ms(partial(put_policy, buckets, name)) for name in ("empty", "filled")}
        for name in ("empty", "filled"):
            act("DeleteBucketLifecycle", buckets, Caller(ROOT))({"Bucket": name})
        for name in names(count):
            put_policy(buckets, name)
    with contextlib.closing(Buckets(str(root), clock)) as buckets:
        reconcile(buckets)
        log = Log(buckets.log, buckets.index)
        retry = RetryPolicy("lifecycle", RuntimeError)
        target = Target(buckets)
        context = Context(FileStore(root / "state", env=clock), clock, retry=retry)
        worker = Worker(context, target, log)
        walk.Walks(worker).run()  # every action begins
        each = objects // count
        due = [key_of(number) for number in range(0, events // count, 110)]
        for name in names(count):
            fill_bucket(
                buckets, name, due + [f"data/{number}" for number in range(each - len(due))], BEGAN_NS
            )
        buckets.log.flush(buckets.index)
        write_events(root, count, events)
        buckets.index.advance(BEGAN_NS + DAY_S * 10**9)
        clock.sleep(40 * DAY_S)
        passes = {}
        for stream in worker.streams():
            log.read = target.looks = target.deleted = 0
            seconds = timed(partial(worker.sweep, stream))
            passes["near" if stream.delay_ns is None else f"{stream.delay_ns // 10**9 // DAY_S} days"] = {
                "events": log.read,
                "looks": target.looks,
                "deleted": target.deleted,
                "seconds": round(seconds, 2),
                "events_a_second": round(log.read / seconds),
            }
        target.looks = target.deleted = 0
        walked_s = timed(walk.Walks(worker).run)
        looks = target.looks
        left = each * count - sum(one["deleted"] for one in passes.values())
    read = sum(one["events"] for one in passes.values()) / events
    return {
        "events": events,
        "objects": each * count,
        "actions": count * len(RULES),
        "put_ms": {**puts, "objects_of_filled": objects},
        "passes": passes,
        "log_read_times": round(read, 2),
        "walk": {
            "objects": left,
            "looks": looks,
            "seconds": round(walked_s, 2),
            "objects_a_second": round(left / walked_s),
        },
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.lifecycle", description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--objects", type=int, default=60_000)
    parser.add_argument("--buckets", type=int, default=100)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        figures = measure(Path(folder), options.events, options.objects, options.buckets)
    return report.tell("lifecycle", figures, ok=True)


if __name__ == "__main__":
    sys.exit(main())
