"""Random small programs that wait, loop for ever or promise something end as naive enumerations say.

The enumerations below share nothing with the world: a state is a few tuples, and every round of every loop is
followed. If this fails, an audit misses what happens when a wait is given up, a race with a loop that never
ends, or a promise that is never kept; or it invents one.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import networkx as nx
import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import audit
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import NO_FAULTS, Budget, World

KEYS = "ab"
Op = tuple[Any, ...]
Code = tuple[Op, ...]

# Counted waits.


def random_waiter(draw: Random) -> Code:
    """Return code with one counted wait of 1 to 12 rounds, and something before and after it."""
    wait = (
        draw.choice(["wait", "poll", "both"]),
        draw.choice(KEYS),
        draw.choice([True, False]),
        draw.randint(1, 12),
    )
    return (*_changes(draw, 0, 1), wait, *_changes(draw, 1, 2))


def random_changer(draw: Random) -> Code:
    return _changes(draw, 1, 3)


def _changes(draw: Random, least: int, most: int) -> Code:
    return tuple(
        (draw.choice(["put", "create", "delete"]), draw.choice(KEYS))
        for _ in range(draw.randint(least, most))
    )


def live(world: World, code: Code) -> tuple[bool, ...]:
    """Run the code on the real store interface; return what it learnt, without the number of rounds."""
    store = world.store()
    learnt = []
    for verb, key, *how in code:
        match verb:
            case "put":
                store.put(key, b"", when=ANYTHING)
            case "create":
                learnt.append(store.put(key, b"", when=ABSENT).done)
            case "delete":
                store.delete(key, when=ANYTHING)
            case "for-ever":
                while store.head(key).done is not how[0]:
                    pass
            case "until":
                while not store.head(key).done:
                    store.put(how[0], b"", when=ANYTHING)
            case _:
                learnt.append(_waits(store, verb, key, *how))
    return tuple(learnt)


def _waits(store: Any, verb: str, key: str, wanted: bool, rounds: int) -> bool:
    """Wait for a key to come or go; return False when the rounds are over."""
    for _ in range(rounds):
        if verb == "both":
            store.head("c")
        if store.head(key).done is wanted:
            return True
        if verb == "poll":
            store.env.sleep(1)
    return False


def enumerated(codes: tuple[Code, ...]) -> set[Any]:
    """Return every end: the keys that are left, and what each process learnt."""
    ends: set[Any] = set()
    seen: set[Any] = set()
    todo: list[Any] = [(frozenset[str](), tuple(_Place() for _ in codes))]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        keys, places = state
        going = [who for who, place in enumerate(places) if place.line < len(codes[who])]
        if not going:
            ends.add((keys, tuple(place.learnt for place in places)))
        for who in going:
            after, place = step(keys, places[who], codes[who][places[who].line])
            todo.append((after, (*places[:who], place, *places[who + 1 :])))
    return ends


class _Place:
    """Line of the code, round of its loop, half of that round, and what was learnt."""

    def __init__(
        self, line: int = 0, rounds: int = 0, learnt: tuple[bool, ...] = (), half: bool = False
    ) -> None:
        self.line, self.rounds, self.learnt, self.half = line, rounds, learnt, half

    def _key(self) -> Any:
        return (self.line, self.rounds, self.learnt, self.half)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def next(self, *learnt: bool) -> "_Place":
        return _Place(self.line + 1, 0, (*self.learnt, *learnt))


def step(keys: frozenset[str], at: _Place, op: Op) -> tuple[frozenset[str], _Place]:
    """Return the keys and the place after one request. A sleep takes no request, and time decides nothing."""
    verb, key, *how = op
    match verb:
        case "put":
            return keys | {key}, at.next()
        case "create":
            return keys | {key}, at.next(key not in keys)
        case "delete":
            return keys - {key}, at.next()
        case "for-ever":
            return keys, at.next() if (key in keys) is how[0] else at
        case "until":
            if at.half:
                return keys | {how[0]}, _Place(at.line, 0, at.learnt)
            return keys, at.next() if key in keys else _Place(at.line, 0, at.learnt, half=True)
    if verb == "both" and not at.half:
        return keys, _Place(at.line, at.rounds, at.learnt, half=True)
    if (key in keys) is how[0]:
        return keys, at.next(True)
    last = at.rounds + 1 == how[1]
    return keys, at.next(False) if last else _Place(at.line, at.rounds + 1, at.learnt)


def explored(codes: tuple[Code, ...], *, wait_rounds: int = 5) -> set[Any]:
    """Return every end that the reduced search meets."""
    ends: set[Any] = set()

    def program(world: World) -> None:
        for number, code in enumerate(codes):
            world.spawn(live, world, code, name=f"p{number}")

    def look(world: World) -> None:
        keys = frozenset(world.bucket.bodies(""))
        ends.add((keys, tuple(process.result for process in world.processes)))

    search = ReducedSearch(
        Setting(program, NO_FAULTS, wait_rounds=wait_rounds), first_only=False, observe=look
    )
    search.explore()
    assert search.exhausted
    assert not search.cut
    return ends


def waiting_programs(seed: int, count: int) -> Iterator[tuple[Code, ...]]:
    draw = Random(seed)
    for _ in range(count):
        yield random_waiter(draw), draw.choice([random_waiter, random_changer])(draw)


def compare_waits(seed: int, count: int) -> None:
    for codes in waiting_programs(seed, count):
        assert explored(codes) == enumerated(codes), codes


def test_counted_waits_end_as_enumerated() -> None:
    compare_waits(1, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_counted_waits_end_as_enumerated_at_length(seed: int) -> None:
    compare_waits(seed, 200)


def test_the_number_of_free_rounds_changes_no_end() -> None:
    for codes in waiting_programs(2, 10):
        assert explored(codes, wait_rounds=2) == explored(codes, wait_rounds=9) == enumerated(codes), codes


# Promises, and one fault.

Node = tuple[frozenset[str], tuple[Any, ...], int, bool]
"""Keys, places (None: crashed for good), crashes that are left, and True once the promise was kept."""


def random_promise(draw: Random) -> tuple[tuple[Code, ...], tuple[bool, ...], str]:
    """Return the code of the processes, whether each starts again, and the key that is promised."""
    codes = tuple(random_promiser(draw) for _ in range(2))
    return codes, tuple(draw.choice([True, False]) for _ in codes), draw.choice(KEYS)


def random_promiser(draw: Random) -> Code:
    endless = draw.choice(
        [
            ("for-ever", draw.choice(KEYS), draw.choice([True, False])),
            ("until", draw.choice(KEYS), "c"),
            ("wait", draw.choice(KEYS), draw.choice([True, False]), draw.randint(1, 12)),
        ]
    )
    return (*_changes(draw, 0, 1), endless, *_changes(draw, 0, 2))


def successors(
    node: Node, codes: tuple[Code, ...], restart: tuple[bool, ...], key: str
) -> Iterator[tuple[int, Node]]:
    """Yield the next states, each with the process that steps; -1: a crash."""
    keys, places, crashes, kept = node
    for who, place in enumerate(places):
        if place is None or place.line > len(codes[who]):
            continue

        def put(now: Any, of: int = who) -> tuple[Any, ...]:
            return (*places[:of], now, *places[of + 1 :])

        if crashes:
            yield -1, (keys, put(_Place() if restart[who] else None), crashes - 1, kept)
        if place.line == len(codes[who]):  # its end is a step: it may crash before
            yield who, (keys, put(_Place(place.line + 1)), crashes, kept)
            continue
        after, now = step(keys, place, codes[who][place.line])
        now = _Place(now.line, now.rounds, (), now.half)
        yield who, (after, put(now), crashes, kept or key in after)


def breaks_promise(codes: tuple[Code, ...], restart: tuple[bool, ...], key: str, crashes: int) -> bool:
    """Search for an end, or a fair cycle, before which the promise was never kept: strong components."""
    start: Node = (frozenset(), tuple(_Place() for _ in codes), crashes, False)
    graph = nx.MultiDiGraph()
    graph.add_node(start)
    todo = [start]
    while todo:
        node = todo.pop()
        if node[3]:
            continue
        for who, after in successors(node, codes, restart, key):
            if after not in graph:
                graph.add_node(after)
                todo.append(after)
            graph.add_edge(node, after, who=who)
    for part in nx.strongly_connected_components(graph):
        one = next(iter(part))
        if one[3]:
            continue
        live_ones = {
            who for who, place in enumerate(one[1]) if place is not None and place.line <= len(codes[who])
        }
        taking = {data["who"] for _, _, data in graph.subgraph(part).edges(data=True)}
        if live_ones <= taking - {-1}:
            return True
    return False


def promised(codes: tuple[Code, ...], restart: tuple[bool, ...], key: str) -> Any:
    def program(world: World) -> None:
        for number, code in enumerate(codes):
            world.spawn(live, world, code, name=f"p{number}", restart=restart[number])
        world.eventually("the key comes", lambda view: view.get(key) is not None)

    return program


def compare_promises(seed: int, count: int) -> int:
    """Compare the verdicts; return the number of promises that only a crash breaks."""
    draw = Random(seed)
    only_by_crash = 0
    for _ in range(count):
        given = random_promise(draw)
        result = audit(
            promised(*given),
            budget=Budget(crash=1, reply_lost=0, request_lost=0, pause=0),
            minimise_seconds=0.05,
            others=False,
        )
        broken = breaks_promise(*given, 1)
        assert (result.verdict == "violated") == broken, (given, result)
        only_by_crash += broken and not breaks_promise(*given, 0)
    return only_by_crash


def test_promises_are_kept_as_a_search_for_fair_cycles_says() -> None:
    assert compare_promises(3, 12) > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 220))
def test_promises_are_kept_as_a_search_for_fair_cycles_says_at_length(seed: int) -> None:
    compare_promises(seed, 100)
