"""Random runs as traces: a promise is judged as in the true order of effects, as far as the trace shows it.

The runs are those of the promises' own tests, without a world. If this fails, `replay --promise` takes a good
run for a broken one, or overlooks a broken one whose trace shows all of it.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from fencepost.impl.store.events import Event
from fencepost.properties.promises import Observation, parse
from fencepost.properties.promises.observation import CHANGES, CRASH, DELETE, LOOK, READ, REFUSED, SENT, WRITE
from fencepost.sim.replay.promised import judge_promises
from fencepost.sim.trace import table_of, write_parquet
from tests.properties.promises.programs import State, random_state, successors

TEXTS = {
    "register": ("k", "m"),
    "once=k": ("k",),
    "lock=k": ("k",),
    "log=log/": ("log/1", "log/2"),
    "queue=jobs/": ("jobs/1", "done/1", "dead/1"),
    "references=m": ("m", "d/1"),
    "manifest=m,data=d/": ("m", "d/1"),
}
REQUESTS = {*CHANGES, READ, LOOK, REFUSED, SENT}
NAMES = {READ: "get", LOOK: "head", DELETE: "delete"}


def plain(state: State) -> State:
    """The same program from an empty store, without faults: its trace shows all of it."""
    actors = [
        replace(one, left=tuple((*step[:3], False) for step in one.left if step[0] not in ("crash", "late")))
        for one in state.actors
    ]
    return replace(state, actors=tuple(actors), store=())


def walked(state: State, draw: Random) -> list[Observation]:
    """The observations of one run, in the order of their effects."""
    found = []
    while steps := list(successors(state)):
        _, seen, state = draw.choice(steps)
        if seen is not None and (seen.kind in REQUESTS or seen.kind == CRASH):
            found.append(seen)
    return found


def events_of(seen: list[Observation], draw: Random, reach: int) -> list[Event]:
    """A trace in which each effect lies between its request and its answer, which reach so far at most."""
    placed: list[tuple[float, Event]] = []
    free: dict[str, float] = {}
    following: list[float] = [float("inf")] * len(seen)
    latest: dict[str, int] = {}
    for at, one in enumerate(seen):
        if not one.late:
            if one.process in latest:
                following[latest[one.process]] = at
            latest[one.process] = at
    for at, one in enumerate(seen):
        if one.kind == CRASH or one.late:
            continue
        kind = NAMES.get(one.kind, "delete" if one.asked == DELETE else "put")
        begin = at - draw.uniform(0.1, max(0.1, min(reach, at - free.get(one.process, -1) - 0.05)))
        end = at + draw.uniform(0.1, max(0.1, min(reach, (following[at] - at) / 2)))
        free[one.process] = end
        common: dict[str, Any] = {"key": one.key, "condition": one.condition.replace("anything", "")}
        named = ("r", 0, 0, one.process, one.incarnation, one.number)
        body = "" if one.body is None else f"json={quote(one.body)}"
        own = {"hash": one.digest, "trace_fields": body} if one.asked == WRITE else {}
        placed.append((begin, Event(*named, "request", kind, **common, **own)))
        if one.acknowledged and one.kind != SENT:
            outcome = one.outcome or ("done" if one.exists else "missing")
            got = {"trace_fields": body, "hash": one.etag} if one.kind == READ else {}
            answer = {**common, "outcome": outcome, "etag": one.etag if outcome == "done" else "", **got}
            placed.append((end, Event(*named, "response", kind, **answer)))
    ordered = [event for _, event in sorted(placed, key=lambda item: item[0])]
    return [replace(event, seq=place, t_ns=place + 1) for place, event in enumerate(ordered)]


def is_broken(text: str, seen: list[Observation], *, crash: bool = False) -> bool:
    """Return True if a run breaks a promise; `crash`: each process is lost after its last request."""
    promise = parse(text)
    promise.begin({})
    last = {one.process: one for one in seen}
    for one in seen:
        if promise.observe(one):
            return True
        if crash and last[one.process] is one:
            promise.observe(replace(one, kind=CRASH))
    return promise.finish(whole=False) is not None


def judged(text: str, events: list[Event], folder: Path) -> str:
    path = folder / "trace.parquet"
    write_parquet(path, table_of(events))
    (found,) = judge_promises([path], [text], print)
    return found.verdict


def cases(
    text: str, seeds: range, *, sequential: bool
) -> Iterator[tuple[int, list[Observation], list[Event]]]:
    for seed in seeds:
        draw = Random(f"trace {text} {seed}")
        state = random_state(draw, TEXTS[text])
        state = plain(state) if sequential else replace(state, store=())
        seen = walked(state, draw)
        if events := events_of(seen, draw, 0 if sequential else 4):
            yield seed, seen, events


@pytest.mark.parametrize("text", TEXTS)
def test_a_sequential_trace_is_judged_as_its_run(text: str, tmp_path: Path) -> None:
    """Only the end of a process is not known, which no trace shows."""
    found = set()
    for seed, seen, events in cases(text, range(25), sequential=True):
        sure = {is_broken(text, seen, crash=crash) for crash in (False, True)}
        expected = "undecided" if len(sure) > 1 else "violated" if True in sure else "holds"
        assert judged(text, events, tmp_path) == expected, seed
        found.add(expected)
    assert "holds" in found


@pytest.mark.parametrize("text", TEXTS)
def test_a_run_that_keeps_its_promise_breaks_it_in_no_trace(text: str, tmp_path: Path) -> None:
    for seed, seen, events in cases(text, range(40), sequential=False):
        assert is_broken(text, seen) or judged(text, events, tmp_path) != "violated", seed


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_many_runs_that_keep_their_promise_break_it_in_no_trace(text: str, tmp_path: Path) -> None:
    for seed, seen, events in cases(text, range(1_000, 1_500), sequential=False):
        assert is_broken(text, seen) or judged(text, events, tmp_path) != "violated", seed
