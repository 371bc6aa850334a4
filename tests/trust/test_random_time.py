"""Random small programs with time end as a naive enumeration says.

The enumeration below shares nothing with the world: its state is a few tuples, and time passes wherever the
bound allows it. If this fails, an audit misses an order of sleeps, leases and times of modification, or
invents one.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import NO_FAULTS, World

SECOND = 1_000_000_000
TICK_S, PAUSE_S = 1, 60

Op = tuple[Any, ...]
Code = tuple[Op, ...]


def random_code(draw: Random) -> Code:
    return tuple(random_op(draw) for _ in range(draw.randint(1, 3)))


def random_op(draw: Random) -> Op:
    key, other = draw.choice("ab"), draw.choice("ab")
    limit_s = draw.choice([1, 5, 60])
    return draw.choice(
        [
            ("put", key),
            ("lease", key),
            ("sleep", draw.choice([1, 5])),
            ("older", key, other),
            ("age", key, limit_s),
            ("expired", key, limit_s),
        ]
    )


def live(world: World, code: Code) -> None:
    """The program, on the real store interface."""
    store = world.store()
    for verb, *given in code:
        match verb:
            case "put":
                store.put(given[0], b"", when=ANYTHING)
            case "lease":
                store.put(given[0], b"%d" % store.env.now_ns(), when=ANYTHING)
            case "sleep":
                store.env.sleep(given[0])
            case "older":
                one, other = store.head(given[0]).info, store.head(given[1]).info
                world.note(
                    "saw", one is not None and other is not None and one.modified_ns < other.modified_ns
                )
            case "age":
                info = store.head(given[0]).info
                now_ns = store.env.now_ns()
                world.note("saw", info is not None and now_ns - info.modified_ns >= given[1] * SECOND)
            case "expired":
                body = store.get(given[0]).body
                now_ns = store.env.now_ns()
                world.note("saw", bool(body) and now_ns - int(body) >= given[1] * SECOND)


def searched(codes: list[Code], pauses: int) -> set[Any]:
    """What the processes can see, by the search."""
    seen: set[Any] = set()

    def program(world: World) -> None:
        for number, code in enumerate(codes):
            world.spawn(live, world, code, name=f"p{number}")

    def observe(world: World) -> None:
        notes = world.noted.get("saw", [])
        seen.add(tuple(tuple(saw for who, saw in notes if who == f"p{n}") for n in range(len(codes))))

    search = ReducedSearch(
        Setting(program, replace(NO_FAULTS, pause=pauses)), first_only=False, observe=observe
    )
    search.explore()
    return seen


def small_steps(code: Code) -> list[Op]:
    """The requests and readings of a program, each of which is a step."""
    steps: list[Op] = []
    for verb, *given in code:
        match verb:
            case "lease":
                steps += [("now",), ("store", given[0])]
            case "older":
                steps += [("head", given[0]), ("head", given[1]), ("compare",)]
            case "age" | "expired":
                steps += [("head" if verb == "age" else "get", given[0]), ("now",), ("since", given[1])]
            case _:
                steps.append((verb, *given))
    return steps


State = tuple[Any, ...]
"""Clock, ticks and pauses left, objects (key, modified, body), processes (place, memory, results, until)."""


def enumerated(codes: list[Code], pauses: int, lengths: tuple[float, ...] = (PAUSE_S,)) -> set[Any]:
    """What the processes can see, by trying everything, with pauses of these lengths."""
    programs = [small_steps(code) for code in codes]
    start: State = (0, 1, pauses, (), tuple((0, (), (), 0) for _ in codes))
    seen: set[Any] = set()
    met = {start}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        following = list(successors(programs, state, lengths))
        if all(place == len(code) for code, (place, *_) in zip(programs, state[4], strict=True)):
            seen.add(tuple(results for _, _, results, _ in state[4]))
        for after in following:
            if after not in met:
                met.add(after)
                waiting.append(after)
    return seen


def successors(programs: list[list[Op]], state: State, lengths: tuple[float, ...]) -> Iterator[State]:
    clock, ticks, pauses, objects, processes = state
    if ticks:
        yield (clock + TICK_S, ticks - 1, pauses, objects, processes)
    for length in lengths if pauses else ():
        yield (clock + length, ticks, pauses - 1, objects, processes)
    later = [until for *_, until in processes if until > clock]
    if later:
        yield (min(later), ticks, pauses, objects, processes)
    for at, (place, memory, results, until) in enumerate(processes):
        if place == len(programs[at]) or until > clock:
            continue
        verb, *given = programs[at][place]
        store = dict(objects)
        match verb:
            case "put":
                store[given[0]] = (clock, None)
            case "store":
                store[given[0]] = (clock, memory[-1])
                memory = ()
            case "sleep":
                until = clock + given[0]
            case "head":
                memory = (*memory, store[given[0]][0] if given[0] in store else None)
            case "get":
                memory = (*memory, store[given[0]][1] if given[0] in store else None)
            case "now":
                memory = (*memory, clock)
            case "compare":
                one, other = memory
                results, memory = (*results, one is not None and other is not None and one < other), ()
            case "since":
                began, now = memory
                results, memory = (*results, began is not None and now - began >= given[0]), ()
        changed = (place + 1, memory, results, until)
        yield (
            clock,
            ticks,
            pauses,
            tuple(sorted(store.items())),
            (*processes[:at], changed, *processes[at + 1 :]),
        )


def check(seed: int) -> None:
    draw = Random(seed)
    codes = [random_code(draw) for _ in range(2)]
    pauses = draw.choice([0, 0, 1])
    found, usual = searched(codes, pauses), enumerated(codes, pauses)
    if not pauses:
        assert found == usual, (seed, codes)
        return
    # The search tries more lengths than the usual one: it learns them from the limits.
    possible = enumerated(codes, pauses, (PAUSE_S, *lengths_around(codes)))
    assert usual <= found <= possible, (seed, codes)
    assert turns(found) == turns(possible), (seed, codes)


def lengths_around(codes: list[Code]) -> list[float]:
    """Return a pause of every kind that the limits can tell apart: all other times are whole seconds."""
    limits = {op[2] for code in codes for op in code if op[0] in ("age", "expired")}
    asleep = sum(op[1] for code in codes for op in code if op[0] == "sleep")
    whole = {limit - passed for limit in limits for passed in range(asleep + TICK_S + 2)}
    return sorted({second + 0.5 for limit in whole for second in (limit - 1, limit) if second >= 0} | {0.5})


def turns(seen: set[Any]) -> set[Any]:
    """Return every answer of every comparison by itself: each deadline is met and missed if it can be."""
    return {
        (who, place, saw) for one in seen for who, all_ in enumerate(one) for place, saw in enumerate(all_)
    }


def test_a_pause_between_two_limits_is_one_that_the_search_learns() -> None:
    """It ends after the first limit and before the second one, which the usual pause cannot."""
    codes: list[Code] = [(("lease", "a"),), (("expired", "a", 5), ("expired", "a", 60))]
    between = ((), (True, False))
    assert between in searched(codes, 1)
    assert between not in enumerated(codes, 1)
    assert between in enumerated(codes, 1, (PAUSE_S, *lengths_around(codes)))


def test_a_run_before_time_was_known_to_matter_shows_nothing() -> None:
    """If this fails, an object that was written after five seconds counts as five seconds old at once."""
    codes: list[Code] = [(("sleep", 5), ("lease", "b")), (("age", "b", 5),)]
    assert searched(codes, 0) == enumerated(codes, 0) == {((), (False,))}


@pytest.mark.parametrize("start", [0, 20, 40])
def test_random_programs_with_time_see_what_they_can_see(start: int) -> None:
    for seed in range(start, start + 8):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_programs_with_time_see_what_they_can_see(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed)


def test_the_enumeration_knows_what_time_can_do() -> None:
    """A check of the checker: one tick orders two writes, a sleep or a pause crosses its limit."""
    both = {((), (True,)), ((), (False,))}
    assert enumerated([(("put", "a"), ("put", "b")), (("older", "a", "b"),)], 0) == both
    assert enumerated([(("lease", "a"), ("sleep", 5)), (("expired", "a", 5),)], 0) == both
    assert enumerated([(("lease", "a"),), (("expired", "a", 60),)], 0) == {((), (False,))}
    assert enumerated([(("lease", "a"),), (("expired", "a", 60),)], 1) == both
