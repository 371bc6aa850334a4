"""Measure the adversary: steps and schedules per CPU second, and the savings of the reduction.

    python -m bench.explore            # writes out/bench/explore.json

All times are those of the processor: other programs on the machine slow a run down less than a clock says.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

from bench.report import median, write
from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.sim.explore import Plain, ReducedSearch, Setting
from fencepost.sim.explore.tokens import by_rule
from fencepost.sim.world import NO_FAULTS, Budget, Footprints, World, places

SECONDS = 3.0


def ten_requests(world: World) -> None:
    """Two processes of five requests, which fight for one key."""
    store = world.store()
    store.put("shared", b"0", when=ABSENT)
    for name in ("a", "b"):
        world.spawn(_five, store, name, name=name)


def _five(store: Any, name: str) -> None:
    store.put(name, b"1", when=ANYTHING)
    found = store.get("shared")
    store.put("shared", name.encode(), when=Matches(found.info.etag))
    store.get("shared")
    store.put("shared", name.encode() + b"!", when=ANYTHING)


def ten_requests_of_threads(world: World) -> None:
    """One process, two threads of five requests each, a lock around the key that they fight for."""
    store = world.store()
    store.put("shared", b"0", when=ABSENT)
    world.spawn(_threads, store, name="a")


def _threads(store: Any) -> None:
    lock = threading.Lock()

    def five(name: str) -> None:
        store.put(name, b"1", when=ANYTHING)
        with lock:
            store.get("shared")
            store.put("shared", name.encode(), when=ANYTHING)
        store.get(name)
        store.put(name, b"2", when=ANYTHING)

    other = threading.Thread(target=five, args=("a",))
    other.start()
    five("b")
    other.join()


def counter(world: World) -> None:
    """Three processes swap one key until each has counted itself."""
    for name in ("a", "b", "c"):
        world.spawn(_count, world.store(), name, name=name)


def _count(store: Any, name: str) -> None:
    while True:
        found = store.get("counter")
        if not found.done and found.info is None and found.outcome.value == "unknown":
            continue
        names = found.body.decode()
        if name in names:
            return
        when = Matches(found.info.etag) if found.info else ABSENT
        if store.put("counter", (names + name).encode(), when=when).done:
            return


def two_readers(world: World) -> None:
    for name in ("a", "b"):
        world.spawn(_read, world.store(), name=name)


def _read(store: Any) -> None:
    for _ in range(1_000):
        # In turn: requesting the same again and again would be taken for a loop that waits.
        store.get("k")
        store.get("l")


def bare_switch_us() -> float:
    """There and back between two greenlets, and nothing else."""
    hub = getcurrent()

    def echo() -> None:
        while True:
            hub.switch()

    other = greenlet(echo)
    other.switch()
    rounds = 100_000
    start = time.process_time()
    for _ in range(rounds):
        other.switch()
    return (time.process_time() - start) / rounds * 1e6


def step_us() -> float:
    """One step, all in: who may, what may become of it, landing, delivery, switch."""
    clock = time.process_time
    world = World(Footprints(), Budget(pause=0))
    world.start(two_readers)
    steps, enabled = 0, world.enabled()
    start = clock()
    while enabled:
        actor = enabled[steps % len(enabled)]
        world.alternatives(actor)
        world.step(actor, "ok")
        steps += 1
        enabled = world.enabled()
    end = clock()
    world.close()
    return (end - start) / steps * 1e6


def runs_per_cpu_second(choose: Callable[[World, list[int]], tuple[int, str]]) -> float:
    """Whole runs of ten requests by one rule, the world made anew for each."""
    footprints, runs, start = Footprints(), 0, time.process_time()
    with places.held(ten_requests):  # as a search does
        while time.process_time() - start < SECONDS / 3:
            world = World(footprints)
            world.start(ten_requests)
            while enabled := world.enabled():
                world.step(*choose(world, enabled))
            world.close()
            runs += 1
    return runs / (time.process_time() - start)


def searched(search: Any) -> dict[str, Any]:
    """A search to its end, or for a few seconds."""
    start = time.process_time()
    search.explore(lambda _: time.process_time() - start > SECONDS)
    seconds = time.process_time() - start
    runs = getattr(search, "runs", search.schedules)
    return {
        "schedules": search.schedules,
        "runs": runs,
        "exhausted": search.exhausted,
        "cpu_seconds": round(seconds, 3),
        "runs_per_cpu_second": round(runs / seconds),
    }


def repeated(make: Callable[[], Any]) -> dict[str, Any]:
    """Small searches, again and again for a while: their rate without start-up noise.

    The replacements stay in place, as they do from stage to stage of an audit.
    """
    search = make()
    runs = 0
    with places.held(search.setting.program):
        start = time.process_time()
        while time.process_time() - start < SECONDS:
            search = make()
            search.explore()
            runs += getattr(search, "runs", search.schedules)
        seconds = time.process_time() - start
    return {"schedules_each": search.schedules, "runs_per_cpu_second": round(runs / seconds)}


def headline(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows of the page on performance. All run on one core."""
    reduced, plain = found["reduced_10_requests"], found["plain_10_requests"]
    searched_ = found["counter_of_3_crash_and_lost"]
    ended = "to the end" if searched_["exhausted"] else f"stopped after {SECONDS:g} s"
    return [
        ("one step of a world, all in (bar 15 us)", f"{found['step_us']:g} CPU us"),
        (
            f"two processes, 10 requests, without faults: {reduced['schedules_each']} schedules "
            f"(plain enumeration: {plain['schedules_each']:,}; bar 3,000 runs/s)",
            f"{reduced['runs_per_cpu_second']:,} runs per CPU second",
        ),
        (
            f"counter of three with a crash and a lost reply, {ended}: {searched_['schedules']:,} schedules",
            f"{searched_['runs_per_cpu_second']:,} runs per CPU second",
        ),
    ]


def main() -> None:
    ten = Setting(ten_requests, NO_FAULTS)
    threads = Setting(ten_requests_of_threads, NO_FAULTS)
    faults = Setting(counter, Budget(crash=1, reply_lost=1, request_lost=1, pause=0))
    figures: dict[str, Any] = {
        "bare_greenlet_switch_us": round(median([bare_switch_us() for _ in range(5)]), 3),
        "step_us": round(median([step_us() for _ in range(5)]), 2),
        "bar_step_us": 15,
        "single_runs_of_10_requests_per_cpu_second": round(
            runs_per_cpu_second(lambda world, enabled: by_rule(world, enabled, -1))
        ),
        "reduced_10_requests": repeated(lambda: ReducedSearch(ten)),
        "plain_10_requests": repeated(lambda: Plain(ten)),
        "reduced_10_requests_of_threads": repeated(lambda: ReducedSearch(threads, merge=False)),
        "plain_10_requests_of_threads": searched(Plain(threads)),
        "bar_runs_per_second_of_threads": 1500,
        "bar_runs_per_second": 3000,
        "counter_of_3_crash_and_lost": searched(ReducedSearch(faults)),
        "counter_of_3_unmerged": searched(ReducedSearch(faults, merge=False)),
    }
    plain, reduced = figures["plain_10_requests"], figures["reduced_10_requests"]
    figures["plain_to_reduced"] = round(plain["schedules_each"] / reduced["schedules_each"], 1)
    for name, figure in figures.items():
        print(f"{name:40} {figure}")  # noqa: T201 - what a benchmark is for
    print(write("explore", figures))  # noqa: T201 - where it went


if __name__ == "__main__":
    main()
