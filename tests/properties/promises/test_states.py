"""Promises of random small programs, over all interleavings: `state` and `orders` are enough for a search.

A search merges two prefixes of runs if the processes, the store and the promise's `state` are equal. It takes
one order of two steps that neither the store nor `orders` ties. If this fails, `state` lacks a part of the
promise's memory, or the promise depends on an order that it does not name: an audit may hold although it is
broken. The interleavings are enumerated here, without the search.
"""

import pickle
from collections.abc import Iterator
from itertools import combinations, product
from random import Random
from typing import Any

import pytest

from fencepost.properties.promises import PROMISES, Observation, Promise, digest_of, parse
from fencepost.properties.promises.observation import CHANGES, CRASH, LIST, LOOK, NOTE, READ, REFUSED
from tests.properties.promises.programs import BODIES, Actor, State, random_state, successors, taken

TEXTS: dict[str, tuple[str, ...]] = {
    "register": ("k", "m"),
    "serializable": ("k", "m"),
    "once=k": ("k",),
    "once=log/": ("log/1", "log/2"),
    "lock=k": ("k",),
    "lock=k,ttl=20": ("k",),
    "lock=k,released=no": ("k",),
    "log=log/": ("log/1", "log/2"),
    "log=log/,reader=b": ("log/1", "log/2"),
    "log=log/,rising=n": ("log/1", "log/2"),
    "queue=jobs/": ("jobs/1", "done/1", "dead/1"),
    "references=m": ("m", "d/1"),
    "references=m,data=d/,grace=20": ("m", "d/1"),
    "manifest=m,data=d/": ("m", "d/1"),
    "manifest=m,data=d/,garbage=no": ("m", "d/1"),
    "manifest=m/": ("m/1", "m/2"),
    "agree=topic": ("k",),
    "kept=topic": ("k",),
    "report=k": ("k",),
    "gone=k": ("k",),
}
"""Promises, each with the keys that it is about."""

Footprint = tuple[set[str], set[str]]


def footprint(promise: Promise, seen: Observation | None) -> Footprint:
    """The parts of the world that a step reads and writes, as the search takes them."""
    if seen is None:
        return set(), {"clock"}
    read, written = {f"process {seen.process}"}, {f"process {seen.process}"}
    if seen.kind in CHANGES:
        written |= {f"object {seen.key}", *(f"list {seen.key[:n]}" for n in range(len(seen.key) + 1))}
    elif seen.kind in (READ, LOOK, REFUSED):
        read.add(f"object {seen.key}")
    elif seen.kind == LIST:
        read.add(f"list {seen.key}")
    elif seen.kind == NOTE:
        written.add("notes")
    if promise.orders(seen):
        written.add("promise")
    if getattr(promise, "uses_time", False) and (seen.asked or seen.kind == READ):
        read.add("clock")
    return read, written


def conflict(one: Footprint, other: Footprint) -> bool:
    return bool(one[1] & (other[0] | other[1]) or one[0] & other[1])


DOOMED = 0
"""Number of what happens where every run breaks the promise."""


class Tree:
    """All interleavings of one program, and what one promise makes of them."""

    def __init__(self, text: str, start: State) -> None:
        promise = parse(text)
        promise.begin({key: (body, digest_of(body)) for key, body in start.store})
        self._numbers: dict[Any, int] = {"every run breaks it": DOOMED}
        """Numbers of what can still happen."""
        self._explored: dict[Any, int] = {}
        """By state and everything in the promise."""
        self._merged: dict[Any, int] = {}
        """By state and what the promise says that it remembers."""
        self.broken = 0
        self.differences: list[str] = []
        self._look(start, pickle.dumps(promise))

    def _look(self, state: State, stored: bytes) -> int:
        """Return the number of what can still happen from here: equal numbers, equal futures."""
        known = self._explored.get((state, stored))
        if known is not None:
            return known
        promise = pickle.loads(stored)
        steps = list(successors(state))
        prints = [footprint(promise, seen) for _, seen, _ in steps]
        after = [observed(stored, seen) for _, seen, _ in steps]
        future: list[Any] = []
        for (who, _, then), promised in zip(steps, after, strict=True):
            self.broken += promised is None
            future.append((who, DOOMED if promised is None else self._look(then, promised)))
        for one, other in combinations(range(len(steps)), 2):
            if not conflict(prints[one], prints[other]):
                found = self._swap(steps, prints, after, one, other)
                self.differences += [f"{difference}: {state}" for difference in found]
        if all(actor.ended for actor in state.actors):
            is_broken = promise.finish(whole=True) is not None
            future.append(("end", DOOMED if is_broken else -1))
            self.broken += is_broken
        doomed = all(what == DOOMED for _, what in future)
        number = DOOMED if doomed else self._numbers.setdefault(tuple(future), len(self._numbers))
        if self._merged.setdefault((state, promise.state()), number) != number:
            self.differences.append(f"two prefixes are merged that end differently: {state}")
        self._explored[state, stored] = number
        return number

    def _swap(self, steps: Any, prints: Any, after: Any, one: int, other: int) -> Iterator[str]:
        """Yield a difference if the two orders of steps that nothing ties leave two states or futures."""
        ends = []
        for first, second in ((one, other), (other, one)):
            seen, then = steps[second][1], steps[first][2]
            if after[first] is None:
                ends.append((None, DOOMED))
                continue
            if conflict(prints[first], footprint(pickle.loads(after[first]), seen)):
                return
            stored = observed(after[first], seen)
            (then,) = [state for who, _, state in successors(then) if who == steps[second][0]]
            state = None if stored is None else pickle.loads(stored).state()
            ends.append((state, DOOMED if stored is None else self._look(then, stored)))
        if ends[0][1] != ends[1][1]:
            yield f"{steps[one][0]} and {steps[other][0]} are not tied"
        elif ends[0][1] != DOOMED and ends[0] != ends[1]:
            yield f"{steps[one][0]} and {steps[other][0]} leave two states"


def observed(stored: bytes, seen: Observation | None) -> bytes | None:
    """The promise after an observation; None if that breaks it."""
    promise = pickle.loads(stored)
    broken = seen is not None and promise.observe(seen) is not None
    return None if broken else pickle.dumps(promise)


def looked(text: str, seeds: range) -> tuple[int, list[str]]:
    """Return how many programs break the promise, and where `state` or `orders` is not enough."""
    broken, found = 0, []
    for seed in seeds:
        start = random_state(Random(f"{text} {seed}"), TEXTS[text])
        tree = Tree(text, start)
        broken += tree.broken > 0
        found += [f"{text}, seed {seed}: {one}" for one in tree.differences[:1]]
    return broken, found


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_promise_remembers_is_in_its_state_and_its_order(text: str) -> None:
    _, found = looked(text, range(25))
    assert not found, found[0]


def forgotten(text: str, seed: int, length: int = 4) -> list[str]:
    """Return two beginnings of runs that differ by nothing but the promise's future, if there are any.

    All processes have crashed since, so the objects and the notes are all that is left of the beginnings.
    """
    draw = Random(f"forgotten {text} {seed}")
    keys = TEXTS[text]
    topics = ("topic",) if draw.random() < 0.5 else ("begin", "commit")
    bodies = draw.sample(BODIES, 2)
    steps = []
    for _ in range(5):
        kind = draw.choice(("put", "put", "create", "delete", "get", "list", "note", "late"))
        key = draw.choice(topics if kind == "note" else keys)
        steps.append((draw.choice("ab"), (kind, key, draw.choice(bodies), draw.random() < 0.3)))
    known: dict[Any, tuple[Any, Any]] = {}
    for path in product(steps, repeat=length):
        promise = parse(text)
        promise.begin({})
        state = State(())
        for number, (name, step) in enumerate(path):
            seen, state, _ = taken(state, Actor(name, (step,), number=number))
            if promise.observe(seen) is not None:
                break
        else:
            broken = [promise.observe(Observation(CRASH, name, name)) for name in "ab"]
            stored = pickle.dumps(promise)
            future = []
            for name, step in [] if any(broken) else steps:
                then = pickle.loads(stored)
                seen, _, _ = taken(state, Actor(name, (step,), life=1, number=length))
                future.append(then.observe(seen) is None and then.finish(whole=True) is None)
            here = (state.store, state.notes, state.flights, promise.state())
            before = known.setdefault(here, (future, path))
            if before[0] != future:
                return [f"{text}, seed {seed}: {before[1]} and {path}"]
    return []


FORGOTTEN = [("log=log/,reader=b", 4, 15), ("references=m,data=d/,grace=20", 1, 6)]
"""Promises with a part of their state, and a seed by which its loss is noticed."""


@pytest.mark.parametrize(
    ("text", "seed"), [*((text, 0) for text in TEXTS), *((text, seed) for text, _, seed in FORGOTTEN)]
)
def test_what_processes_forget_is_in_the_state(text: str, seed: int) -> None:
    assert not forgotten(text, seed)


@pytest.mark.parametrize(("text", "part", "seed"), FORGOTTEN)
def test_a_part_of_a_state_that_no_process_remembers_is_found(
    text: str, part: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of the check."""
    kind = type(parse(text))
    whole = kind.state
    monkeypatch.setattr(kind, "state", lambda self: (*whole(self)[:part], *whole(self)[part + 1 :]))
    assert forgotten(text, seed)


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_what_processes_forget_is_in_the_state_of_many_runs(text: str) -> None:
    assert not [one for seed in range(1, 60) for one in forgotten(text, seed)]


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_what_a_promise_remembers_is_in_its_state_in_many_programs(text: str) -> None:
    broken, found = looked(text, range(1_000, 1_400))
    assert not found, found[0]
    assert broken, "no program breaks it"


def test_every_kind_of_promise_is_tried() -> None:
    assert {text.partition("=")[0] for text in TEXTS} == set(PROMISES)


@pytest.mark.parametrize(
    ("text", "part", "seeds"),
    [
        ("once=k", 1, (13, 14)),
        ("lock=k", 1, (4, 5)),
        ("queue=jobs/", 1, (25, 26)),
        ("log=log/,reader=b", 7, (69, 70)),
    ],
)
def test_a_part_of_a_state_that_is_forgotten_is_found(
    text: str, part: int, seeds: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of the check: what is left of the state does not tell two futures apart."""
    kind = type(parse(text))
    whole = kind.state

    def rest(self: Any) -> Any:
        return tuple(one for at, one in enumerate(whole(self)) if at != part)

    monkeypatch.setattr(kind, "state", rest)
    assert looked(text, range(*seeds))[1]


@pytest.mark.parametrize(("text", "seed"), [("lock=k", 1), ("lock=k,ttl=20", 2)])
def test_an_order_that_is_not_named_is_found(text: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: a promise that ties no steps."""
    monkeypatch.setattr(type(parse(text)), "orders", lambda *_: False)
    assert looked(text, range(seed, seed + 1))[1]
