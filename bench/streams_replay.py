"""Replay of a production-style trace of 1,000,000 appends of the streams library, local and on Spark.

    python -m bench.streams_replay [--appends 1000000] [--driven 2000] [--engines local,spark] [--keep DIR]

Three nodes on one store in memory serve `--driven` streams, traced as in production (requests and replies,
nothing that only a harness sees): creates, appends, takeovers, deletes, expiries, reaps and recreates, while
replies and requests are lost. The runs are repeated under other names (bench/traces.py) until there are
`--appends` acknowledged appends. All must be accepted. Of the violations that are planted (a segment that is
listed before it is there, live data deleted, a manifest moved without a condition) all must be rejected, and
nothing else. Writes out/bench/streams-replay.json, and leaves the trace in `--keep` for

    fencepost replay DIR/trace.parquet --model streams --runs run [--engine spark]
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import report
from bench.traces import Source, distinct, random_choice, write
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.events import Event
from fencepost.impl.store.layers import Effect, Fault, Faulty, Traced
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import Configuration, Node, Reaper, Settings, StreamError
from fencepost.impl.streams.manifest import parse_key, trace_fields
from fencepost.properties.streams.refinement import StreamsRefinement

NODES = 3
OPEN = 40
"""Streams in use at once."""
LIVES, OWNERS, PLACES = 3, 8, 8
refinement = partial(StreamsRefinement, LIVES, OWNERS, PLACES)
SOURCE = Source(
    lambda: None,
    trace_fields,
    (
        (r"streams/([0-9a-f]{26})[0-9a-f]{6}/", r"streams/\1MARK/"),
        (r"\b([0-9A-HJKMNP-TV-Z]{26})\b", r"\1MARK"),
    ),
)
TEXT = Configuration("text/plain")
SHORT = Configuration("text/plain", ttl_s=60)


class Drive:
    """Nodes that serve streams, and the events of each stream."""

    def __init__(self, seed: int) -> None:
        self.env = SeededEnvironment(seed)
        self.dice = random_choice(seed)
        self.events: dict[str, list[Event]] = {}
        self.appends: dict[str, int] = {}
        store = MemoryStore(env=self.env)
        lost = [
            Fault(effect, kinds={"put", "delete"}, chance=0.004)
            for effect in (Effect.REPLY_LOST, Effect.REQUEST_LOST)
        ]
        settings = Settings(landing_bound_s=0.0, skew_bound_s=0.0, backoff_s=0.001)
        self.nodes = []
        for number in range(NODES):
            faulty = Faulty(store, lost)
            traced = Traced(
                faulty, self._sink, process=f"node-{number}", run="service", trace_fields=trace_fields
            )
            self.nodes.append(Node(traced, self.env, settings))

    def _sink(self, event: Event) -> None:
        self.env.sleep(1e-6)
        place = parse_key(event.key)
        if place is not None:  # a listing shows no change
            run = self.events.setdefault(place.hash, [])
            run.append(
                replace(event, run=place.hash, seq=len(run), op=event.op * NODES + int(event.process[-1]))
            )

    def stream(self, name: str) -> Iterator[None]:
        """One stream through its lives, a step at a time."""
        dice = self.dice
        for life in range(1, dice.randint(1, LIVES) + 1):
            node = dice.choice(self.nodes)
            short = dice.random() < 0.4
            yield from self._act(lambda node=node, short=short: node.create(name, SHORT if short else TEXT))
            takeovers = 0
            for _ in range(dice.randint(1, PLACES - 3)):
                if takeovers < 2 and dice.random() < 0.15:
                    node, takeovers = dice.choice(self.nodes), takeovers + 1
                yield from self._act(partial(self._append, node, name))
            if life == LIVES or dice.random() < 0.3:
                return  # it lives on
            node = dice.choice(self.nodes)
            if short:
                self.env.sleep(200)
            else:
                yield from self._act(lambda node=node: node.delete(name))
            if dice.random() < 0.5:
                reaper = Reaper(dice.choice(self.nodes))
                manifest = reaper.node.load(reaper.node.stream(name))
                if manifest is not None:
                    yield from self._act(lambda r=reaper, m=manifest: r.reap(name, m.incarnation))

    def _append(self, node: Node, name: str) -> None:
        node.append(name, b"x" * 100, content_type="text/plain")
        key = node.stream(name).manifest
        assert key is not None
        place = parse_key(key.key)
        assert place is not None
        self.appends[place.hash] = self.appends.get(place.hash, 0) + 1

    @staticmethod
    def _act(act: Callable[[], Any]) -> Iterator[None]:
        with contextlib.suppress(StreamError):  # a request was lost too often, or the stream expired
            act()
        yield

    def run(self, streams: int) -> list[list[Event]]:
        waiting = (self.stream(f"/{number}") for number in range(streams))
        active = [stream for stream, _ in zip(waiting, range(OPEN), strict=False)]
        while active:
            at = self.dice.randrange(len(active))
            try:
                next(active[at])
            except StopIteration:
                fresh = next(waiting, None)
                if fresh is None:
                    del active[at]
                else:
                    active[at] = fresh
        return [self.events[name] for name in sorted(self.events)]


def unlisted(run: list[Event]) -> list[Event] | None:
    """The upload of a segment that a manifest lists is not there."""
    listed = [event for event in run if " listed=" in event.trace_fields and event.phase == "request"]
    puts = {event.op for event in run if event.kind == "put" and "/segments/" in event.key}
    return [event for event in run if event.op not in puts] if listed and puts else None


def live_deleted(run: list[Event]) -> list[Event] | None:
    """A segment of a live stream is deleted at the end."""
    last = [event for event in run if event.kind == "put" and event.outcome == "done"][-1:]
    if not last or "/segments/" in last[0].key:
        return None
    segment = next((e for e in reversed(run) if "/segments/" in e.key and e.outcome == "done"), None)
    tomb = [event for event in run if event.op == last[0].op and "state=tombstone" in event.trace_fields]
    if segment is None or tomb or segment.kind != "put":
        return None
    base = replace(segment, kind="delete", op=10**6, seq=len(run), condition="anything", trace_fields="")
    asked = replace(base, phase="request", outcome="", process="node-9", t_ns=run[-1].t_ns + 1)
    return [*run, asked, replace(asked, phase="response", outcome="done", seq=len(run) + 1, condition="")]


def unconditional(run: list[Event]) -> list[Event] | None:
    """A manifest is moved without a condition."""
    at = next((at for at, e in enumerate(run) if e.condition == "matches" and e.kind == "put"), None)
    return None if at is None else [*run[:at], replace(run[at], condition="anything"), *run[at + 1 :]]


PLANTS = (unlisted, live_deleted, unconditional)


def planted(base: list[list[Event]], copies: int) -> dict[int, dict[int, list[Event]]]:
    """Three of each kind, in different copies."""
    found: dict[int, dict[int, list[Event]]] = {}
    at = 0
    for number, plant in enumerate(plant for plant in PLANTS for _ in range(3)):
        while (made := plant(base[at])) is None:
            at += 1
        copy = number * copies // (3 * len(PLANTS))
        found.setdefault(copy, {})[at] = [replace(event, seq=seq) for seq, event in enumerate(made)]
        at += 1
    return found


def replayed(path: Path, engine: str) -> dict[str, Any]:
    """`fencepost replay`, in a process of its own."""
    words = ["replay", str(path), "--model", "streams", "--runs", "run", "--engine", engine, "--json", "-"]
    for name, size in (("lives", LIVES), ("owners", OWNERS), ("places", PLACES)):
        words += ["--set", f"{name}={size}"]
    begun, worked = perf_counter(), _worked()
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "fencepost", *words], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1, 3):
        return {"failed": done.stderr.strip().splitlines()[-3:]}
    found = json.loads(done.stdout)
    seconds = perf_counter() - begun
    counts = {name: found[name] for name in ("runs", "events", "accepted", "rejected", "undecided")}
    rate = round(found["events"] / seconds)
    worked = _worked() - worked
    return {
        **counts,
        "seconds": round(seconds, 1),
        "processor_seconds": round(worked),
        "events_per_second": rate,
    }


def _worked() -> float:
    """Processor seconds of the processes that ended, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=1_000_000)
    parser.add_argument("--driven", type=int, default=2000)
    parser.add_argument("--engines", default="local,spark")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    drive = Drive(1)
    base = drive.run(options.driven)
    appends = sum(drive.appends.values())
    copies = -(-options.appends // appends)
    spoiled = planted(base, copies)
    with tempfile.TemporaryDirectory() as folder:
        path = (options.keep or Path(folder)) / "trace.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        _, runs = write(path, copies * sum(map(len, base)), base, spoiled, SOURCE)
        figures: dict[str, Any] = {
            "appends": copies * appends,
            "runs": runs,
            "driven_runs": len(base),
            "driven_appends": appends,
            "distinct_driven_runs": distinct(base, refinement()),
            "planted": 3 * len(PLANTS),
        }
        for engine in options.engines.split(","):
            figures[engine] = replayed(path, engine)
    judged = [figures[engine] for engine in options.engines.split(",")]
    wanted = {"accepted": runs - 3 * len(PLANTS), "rejected": 3 * len(PLANTS), "undecided": 0}
    ok = all(one.get(name) == count for one in judged for name, count in wanted.items())
    return report.tell("streams-replay", figures, ok=ok)


if __name__ == "__main__":
    raise SystemExit(main())
