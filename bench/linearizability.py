"""Measure the judging of histories, and test that violations planted in them are found.

A crowd of processes works on a real store in memory. Each request takes effect at a moment of its own
between call and return; some replies are lost, and then the request may land much later, or never. So
every history is linearizable, until one answer in it is falsified.

    python -m bench.linearizability [--runs N]
"""

import argparse
import heapq
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench import report
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from fencepost.properties.linearizability import Judgement, Operation, check_history, operation

Random = Any
"""A random stream, which only the environment hands out."""

PROCESSES = 16
SECONDS_MAX = 5.0
WAY_MAX = 60
"""The longest way of a request or a reply, in ticks."""
FALSE_SINCE = 4 * WAY_MAX
"""A stale read is planted only of what was surely replaced so many ticks before."""


@dataclass(frozen=True, slots=True)
class Work:
    """The workload of a crowd: numbers of operations and keys, kinds, and the share of lost replies."""

    name: str
    operations: int
    keys: int
    lost: float
    kinds: Sequence[str] = ("get", "get", "head", "put", "create", "swap", "delete")


WORKS = (
    Work("10,000 operations on 300 keys", 10_000, 300, 0.02),
    Work("10,000 operations on 300 keys, a fifth lost", 10_000, 300, 0.2),
    Work("a counter: 2,000 operations on one key", 2_000, 1, 0.1, ("get", "swap", "swap")),
    Work("a lock: 1,000 operations on one key", 1_000, 1, 0.1, ("get", "create", "create", "delete")),
    Work("anything: 1,000 operations on one key", 1_000, 1, 0.1),
)


def execute(work: Work, draw: Random) -> list[Operation]:
    """A linearizable history: requests land on a real store one at a time, each at its own moment."""
    store = MemoryStore()
    known: dict[tuple[int, str], str] = {}
    history: list[Operation] = []
    queue: list[tuple[int, int, Callable[[int], None]]] = []
    count = 0

    def later(when: int, what: Callable[[int], None]) -> None:
        nonlocal count
        count += 1
        heapq.heappush(queue, (when, count, what))

    def call(process: int, now: int) -> None:
        key = f"k{draw.randrange(work.keys)}"
        request = _request(draw.choice(work.kinds), key, f"{process}@{now}", known.get((process, key)))
        land, back = now + draw.randint(1, WAY_MAX), draw.randint(1, WAY_MAX)
        if draw.random() >= work.lost:
            later(land, lambda at: answer(process, key, request, now, at + back))
        else:
            known.pop((process, key), None)
            history.append(_known(operation(f"p{process}", request, None, called=now, returned=None)))
            if draw.random() < 0.6:
                later(now + draw.randint(1, 10 * WAY_MAX), lambda _at: void(store.send(request)))
        if len(history) + PROCESSES < work.operations:
            later(land + back + draw.randint(1, 10), lambda at: call(process, at))

    def answer(process: int, key: str, request: Any, called: int, returned: int) -> None:
        reply = store.send(request)
        made = _known(operation(f"p{process}", request, reply, called=called, returned=returned))
        history.append(made)
        known.pop((process, key), None)
        if made.etag:
            known[process, key] = made.etag

    for process in range(PROCESSES):
        later(draw.randrange(WAY_MAX), lambda at, process=process: call(process, at))
    while queue:
        at, _, what = heapq.heappop(queue)
        what(at)
    return history


def void(_reply: object) -> None:
    """An operation whose reply is lost."""


def _known(made: Operation | None) -> Operation:
    assert made is not None
    return made


def _request(kind: str, key: str, text: str, etag: str | None) -> ask.Request[Any]:
    match kind:
        case "get":
            return ask.Get(key)
        case "head":
            return ask.Head(key)
        case "delete":
            return ask.Delete(key, ANYTHING)
    when = ANYTHING if kind == "put" else Matches(etag) if kind == "swap" and etag else ABSENT
    return ask.Put(key, text.encode(), when)


def plants(history: Sequence[Operation], draw: Random) -> Iterator[tuple[str, list[Operation]]]:
    """The history with one answer falsified, in each way for which it has a place."""
    places = list(range(len(history)))
    draw.shuffle(places)
    for plant in (stale_read, lost_update, second_creator, vanished):
        found = (plant(history, at) for at in places)
        error = next((each for each in found if each is not None), None)
        if error is not None:
            yield plant.__name__.replace("_", " "), error


def stale_read(history: Sequence[Operation], at: int) -> list[Operation] | None:
    """A read returns what was replaced or deleted long before."""
    read = history[at]
    if read.kind != "get" or read.outcome is not Outcome.DONE:
        return None
    before = [each for each in history if _ended_before(each, read)]
    for write in before:
        # All written bytes differ here, so a value that was replaced never returns.
        if write.kind == "put" and any(_ended(other, write) for other in before):
            return _with(history, at, etag=write.etag, value=write.value)
    return None


def _ended_before(each: Operation, read: Operation) -> bool:
    surely = each.key == read.key and each.applied and each.returned is not None
    return surely and (each.returned or 0) < read.called - FALSE_SINCE


def _ended(other: Operation, write: Operation) -> bool:
    return other.named == write.etag or (other.kind == "delete" and other.called > (write.returned or 0))


def lost_update(history: Sequence[Operation], at: int) -> list[Operation] | None:
    """A second if-match on the same ETag is done, too."""
    swap = history[at]
    if not (swap.applied and swap.condition == "matches" and swap.kind == "put"):
        return None
    return [*history, replace(swap, process="thief", value=b"stolen", etag="etag of stolen")]


def second_creator(history: Sequence[Operation], at: int) -> list[Operation] | None:
    """A create is done although the object was read before and after, without a deletion in between."""
    create = history[at]
    if create.outcome is not Outcome.EXISTS or any(_deletes(each, create) for each in history):
        return None
    return _with(history, at, outcome=Outcome.DONE, etag="etag of second")


def _deletes(each: Operation, create: Operation) -> bool:
    return (
        each.key == create.key and each.kind == "delete" and each.outcome in (Outcome.DONE, Outcome.UNKNOWN)
    )


def vanished(history: Sequence[Operation], at: int) -> list[Operation] | None:
    """A read finds nothing although an object was there and was never deleted."""
    read = history[at]
    if (
        read.kind != "get"
        or read.outcome is not Outcome.DONE
        or any(_deletes(each, read) for each in history)
    ):
        return None
    before = any(
        each.key == read.key and each.applied and each.returned is not None and each.returned < read.called
        for each in history
    )
    return _with(history, at, outcome=Outcome.MISSING, etag="", value=None) if before else None


def _with(history: Sequence[Operation], at: int, **false: Any) -> list[Operation]:
    return [*history[:at], replace(history[at], **false), *history[at + 1 :]]


def judge(history: Sequence[Operation]) -> tuple[float, Judgement, int]:
    started = time.perf_counter()
    verdict = check_history(history)
    return time.perf_counter() - started, verdict.judgement, len(verdict.counterexample)


def measure(work: Work, runs: int) -> dict[str, Any]:
    """All runs of one kind of work: the slowest counts."""
    seconds: list[float] = []
    planted: list[dict[str, Any]] = []
    accepted = 0
    for run in range(runs):
        draw = SeededEnvironment(run).stream(work.name)
        history = execute(work, draw)
        took, judgement, _ = judge(history)
        seconds.append(took)
        accepted += judgement is Judgement.LINEARIZABLE
        for name, error in plants(history, draw):
            took, judgement, counterexample = judge(error)
            planted.append(
                {
                    "name": name,
                    "seconds": took,
                    "found": judgement is Judgement.VIOLATED,
                    "counterexample": counterexample,
                }
            )
    return {
        "work": work.name,
        "operations": work.operations,
        "runs": runs,
        "seconds_median": report.median(seconds),
        "seconds_max": max(seconds),
        "explained_seconds_max": max((each["seconds"] for each in planted), default=0.0),
        "accepted": accepted,
        "planted": len(planted),
        "found": sum(each["found"] for each in planted),
        "counterexample_max": max((each["counterexample"] for each in planted), default=0),
        "kinds": sorted({each["name"] for each in planted}),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.linearizability", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="histories of each kind of work")
    chosen = parser.parse_args(arguments)
    rows = [measure(work, chosen.runs) for work in WORKS]
    good = True
    for row in rows:
        ok = (
            row["accepted"] == row["runs"]
            and row["found"] == row["planted"] > 0
            and row["seconds_max"] < SECONDS_MAX
        )
        good &= ok
        sys.stdout.write(
            f"{'ok' if ok else 'MISSED':7} {row['work']}: {row['seconds_median']:.2f} s "
            f"(slowest {row['seconds_max']:.2f}, bar {SECONDS_MAX:g}), "
            f"{row['accepted']} of {row['runs']} accepted, "
            f"{row['found']} of {row['planted']} planted violations found and explained in "
            f"{row['explained_seconds_max']:.2f} s by {row['counterexample_max']} operations at most\n"
        )
    path = report.write("linearizability", {"works": rows, "seconds_allowed": SECONDS_MAX, "ok": good})
    sys.stdout.write(f"written to {path}\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
