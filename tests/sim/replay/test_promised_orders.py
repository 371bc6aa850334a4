"""Small random traces: a promise is judged as all orders of effects that the trace allows, tried one by one.

The requests of processes and of their threads overlap, and some have no answer. The oracle permutes them. It
shares the promises with the code under test, and neither its orders nor its observations. If this fails,
`replay --promise` rests a verdict on an impossible order, or leaves an order out that explains the run.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from pathlib import Path
from random import Random

import pytest

from fencepost.impl.store.events import Event
from fencepost.properties.promises import Observation, parse
from fencepost.properties.promises.observation import CRASH, DELETE, LOOK, READ, REFUSED, WRITE
from fencepost.sim.replay.promised import judge_promises
from fencepost.sim.trace import table_of, write_parquet
from tests.generators import Compared, Generator

TEXTS = {
    "register": ("k", "m"),
    "once=k": ("k",),
    "lock=k": ("k",),
    "log=log/": ("log/1", "log/2"),
    "queue=jobs/": ("jobs/1", "done/1", "dead/1"),
}
CONDITIONS = {"create": "absent", "swap": "matches"}
FOREVER = 10**6


@dataclass(frozen=True)
class Request:
    """A request with the places of its beginning and its answer among all events, and what it answered."""

    process: str
    op: int
    kind: str
    key: str
    digest: str
    begin: int
    end: int = FOREVER
    outcome: str = ""
    etag: str = ""
    named: str = ""
    """The etag in its condition; its sender may have it from another process."""

    @property
    def writes(self) -> bool:
        return self.kind in ("put", "create", "swap")

    @property
    def changes(self) -> bool:
        return self.writes or self.kind == "delete"


def recorded(draw: Random, keys: tuple[str, ...]) -> list[Request]:
    """Draw requests that begin, take effect in a store and are answered, some of them at the same time.

    An etag names one write in some traces, and in others a content, as on S3.
    """
    kinds = draw.sample(("put", "put", "create", "swap", "delete", "get", "head"), 3)
    contents = draw.choice(("x", "xy", "xyz"))
    by_content = draw.random() < 0.5
    width = draw.choice((2, 2, 3))
    store = {key: ("x", "x") for key in keys if draw.random() < 0.2}  # from before the trace
    waiting: list[Request] = []
    in_effect: dict[int, tuple[str, str, str]] = {}
    found: list[Request] = []
    left = draw.choice((3, 4, 5))
    place = 0
    while left or waiting:
        if left and len(waiting) < width and draw.random() < 0.6:
            left -= 1
            kind, key = draw.choice(kinds), draw.choice(keys)
            one = Request(draw.choice("abc"), left, kind, key, "", place)
            digest = draw.choice(contents) if one.writes else ""
            named = store.get(key, ("", ""))[1] if kind == "swap" else ""
            waiting.append(replace(one, digest=digest, named=named))
            place += 1
        if not waiting:
            continue
        one = draw.choice(waiting)
        if one.op not in in_effect:
            there = store.get(one.key)
            outcome, digest, etag = "done", one.digest, ""
            if one.kind in ("get", "head"):
                outcome = "done" if there else "missing"
                digest, etag = there or ("", "")
                digest = digest if one.kind == "get" else ""
            elif one.kind == "create" and there:
                outcome = "exists"
            elif one.kind == "swap" and (not there or there[1] != one.named):
                outcome = "changed" if there else "missing"
            elif one.changes and draw.random() < 0.15:
                outcome = ""  # the request was lost
            elif one.kind == "delete":
                store.pop(one.key, None)
            else:
                etag = one.digest if by_content else f"e{one.op}"
                store[one.key] = (one.digest, etag)
            in_effect[one.op] = outcome, digest, etag
            if draw.random() < 0.6:
                continue
        waiting.remove(one)
        outcome, digest, etag = in_effect[one.op]
        if outcome and not (one.changes and draw.random() < 0.2):
            one = replace(one, end=place, outcome=outcome, digest=digest, etag=etag)
            place += 1
        found.append(one)
    return sorted(found, key=lambda one: one.begin)


def events_of(requests: list[Request]) -> list[Event]:
    found = []
    for one in requests:
        kind = "put" if one.writes else one.kind
        condition = CONDITIONS.get(one.kind, "")
        named = (one.process, 0, one.op)
        sent = one.digest if one.writes else ""
        asked = Event("r", 0, 0, *named, "request", kind, one.key, condition=condition, hash=sent)
        found.append(replace(asked, etag=one.named, seq=one.begin, t_ns=one.begin + 1))
        if one.end < FOREVER:
            got = one.digest if one.kind == "get" else ""
            at = {"seq": one.end, "t_ns": one.end + 1}
            answer = replace(asked, phase="response", outcome=one.outcome, etag=one.etag, hash=got, **at)
            found.append(answer)
    return sorted(found, key=lambda event: event.seq)


def after(requests: list[Request]) -> set[tuple[int, int]]:
    """Pairs of requests of which the first took effect before the second in every order.

    A request took effect between its beginning and its answer, and a write before somebody read or named the
    version that no other can have made.
    """
    pairs = {(one.op, other.op) for one in requests for other in requests if one.end < other.begin}
    writes = [one for one in requests if one.writes]
    reads = [one for one in requests if one.kind in ("get", "head") and one.outcome == "done"]
    for write in writes:
        alike = [each for each in writes if each.key == write.key and each.digest == write.digest]
        makers = [each for each in writes if each.key == write.key and each.etag == write.etag]
        is_sole = write.etag and len(makers) == 1 and all(each.outcome for each in alike)
        for one in reads:
            same = one.key == write.key and write.begin < one.end
            by_hash = not write.outcome and one.digest == write.digest and len(alike) == 1
            if same and ((is_sole and one.etag == write.etag) or by_hash):
                pairs.add((write.op, one.op))
        for one in requests:
            if is_sole and one.key == write.key and one.named == write.etag and write.begin < one.begin:
                pairs |= {(write.op, each.op) for each in requests if each.begin >= one.begin}
    return pairs


def orders(requests: list[Request]) -> Iterator[tuple[list[Request], set[int]]]:
    """Every order, and the changes without an answer that took no effect."""
    before = after(requests)
    writes = Counter((one.key, one.digest) for one in requests if one.writes)
    read = {(one.key, one.digest) for one in requests if one.kind == "get" and one.outcome == "done"}
    free = []
    for one in requests:
        content = one.key, one.digest
        is_shown = one.kind != "delete" and content in read and writes[content] == 1
        free += [one.op] if not one.outcome and not is_shown else []
    for order in permutations(requests):
        at = {one.op: place for place, one in enumerate(order)}
        if all(at[one] < at[other] for one, other in before):
            for count in range(len(free) + 1):
                yield from ((list(order), set(lost)) for lost in combinations(free, count))


def is_kept(text: str, order: list[Request], lost: set[int], *, crash: bool) -> bool:
    """Judge one order; `crash`: each process is lost after its last request."""
    promise = parse(text)
    promise.begin({})
    exists: set[str] = set()
    last = {one.process: one for one in sorted(order, key=lambda one: one.begin)}
    for one in order:
        seen = None if one.op in lost else observed(one, exists)
        if seen is not None and promise.observe(seen):
            return False
        if crash and last[one.process] is one:
            promise.observe(Observation(CRASH, one.process, one.process))
    return promise.finish(whole=False) is None


def observed(one: Request, exists: set[str]) -> Observation | None:
    """Return what a promise sees of a request; None of the deletion of an object that is not there."""
    seen = Observation(
        READ if one.kind == "get" else LOOK,
        process=one.process,
        strand=one.process,
        key=one.key,
        outcome=one.outcome,
        digest=one.digest,
        etag=one.etag,
        exists=one.outcome == "done",
        acknowledged=bool(one.outcome),
    )
    if not one.changes:
        return seen
    asked = DELETE if one.kind == "delete" else WRITE
    kind = REFUSED if one.outcome in ("exists", "changed", "missing") else asked
    if kind == DELETE:
        if one.key not in exists:
            return None
        exists.remove(one.key)
    if kind == WRITE:
        exists.add(one.key)
    return replace(seen, kind=kind, asked=asked, condition=CONDITIONS.get(one.kind, ""), exists=True)


def judged(text: str, requests: list[Request], folder: Path) -> str:
    path = folder / "trace.parquet"
    write_parquet(path, table_of(events_of(requests)))
    (found,) = judge_promises([path], [text], print)
    return found.verdict


def compare(text: str, seed: int, folder: Path) -> Compared:
    requests = recorded(Random(f"orders {text} {seed}"), TEXTS[text])
    kept = {
        is_kept(text, order, lost, crash=crash) for crash in (False, True) for order, lost in orders(requests)
    }
    allowed = {
        frozenset({True}): {"holds"},
        frozenset({False}): {"violated"},
        frozenset({True, False}): {"holds", "undecided"},
    }[frozenset(kept)]
    verdict = judged(text, requests, folder)
    return Compared(
        len(kept), [] if verdict in allowed else [f"{text}: {verdict}, not {allowed}: {requests}"]
    )


@pytest.mark.parametrize("text", TEXTS)
def test_a_small_trace_is_judged_as_all_of_its_orders(
    text: str, generator: Generator, tmp_path: Path
) -> None:
    generator.compare("orders of a trace", range(50), lambda seed: compare(text, seed, tmp_path))
