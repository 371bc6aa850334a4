"""Event loops of audited code: what completes first, and what a timer overtakes, is tried in every order.

If this fails, an audit of asynchronous code says "holds" of code that relies on the order of its replies.
"""

import asyncio
import contextvars
import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import Setting, audit
from fencepost.sim.world import NO_FAULTS, Budget
from tests.sim.explore.test_reduced_against_plain import compare_settings
from tests.sim.threads.test_threads import QUICK, alone


async def put(store: Any, key: str, body: bytes = b"") -> None:
    await asyncio.to_thread(store.put, key, body, when=ANYTHING)


def lost_update(store: Any) -> int:
    """Both tasks read the count before either writes it."""
    count = 0

    async def add(key: str) -> None:
        nonlocal count
        seen = count
        await put(store, key)
        count = seen + 1

    async def both() -> None:
        await asyncio.gather(add("a"), add("b"))

    asyncio.run(both())
    return count


def locked_update(store: Any) -> int:
    count = 0

    async def add(key: str, lock: asyncio.Lock) -> None:
        nonlocal count
        async with lock:
            seen = count
            await put(store, key)
            count = seen + 1

    async def both() -> None:
        lock = asyncio.Lock()
        await asyncio.gather(add("a", lock), add("b", lock))

    asyncio.run(both())
    return count


def last_reply_wins(store: Any) -> str:
    """Takes for granted that replies come in the order of the requests."""
    done: list[str] = []

    async def fetch(key: str) -> None:
        await put(store, key)
        done.append(key)

    async def both() -> None:
        await asyncio.gather(fetch("a"), fetch("b"))

    asyncio.run(both())
    return done[-1]


def gathered_in_order(store: Any) -> str:
    async def fetch(key: str) -> str:
        await put(store, key)
        return key

    async def both() -> list[str]:
        return await asyncio.gather(fetch("a"), fetch("b"))

    return asyncio.run(both())[-1]


async def _given_up(store: Any) -> None:
    try:
        await asyncio.wait_for(put(store, "key", b"new"), 5)
    except TimeoutError:
        await put(store, "key", b"old")


def timed_out(store: Any) -> bool:
    """Takes a request that it gave up for one that has no effect."""
    asyncio.run(_given_up(store))
    return bool(store.get("key").body in (b"new", b"old"))


def cancelled(store: Any) -> bool:
    """The request of a cancelled task still lands."""

    async def run() -> None:
        task = asyncio.create_task(put(store, "key", b"new"))
        await asyncio.sleep(0)
        task.cancel()
        await put(store, "key", b"old")

    asyncio.run(run())
    return bool(store.get("key").body == b"old")


def awaited(store: Any) -> bool:
    async def run() -> None:
        await asyncio.create_task(put(store, "key", b"new"))
        await put(store, "key", b"old")

    asyncio.run(run())
    return bool(store.get("key").body == b"old")


def queued(store: Any, *, sort: bool = False) -> str:
    """Two producers and a bounded queue; without sorting it relies on the order of their replies."""

    async def run() -> list[str]:
        items: asyncio.Queue[str] = asyncio.Queue(1)

        async def produce(key: str) -> None:
            await put(store, key)
            await items.put(key)

        tasks = [asyncio.create_task(produce(key)) for key in "ab"]
        found = [await items.get() for _ in tasks]
        await asyncio.gather(*tasks)
        return sorted(found) if sort else found

    return "".join(asyncio.run(run()))


def queued_and_sorted(store: Any) -> str:
    return queued(store, sort=True)


@pytest.mark.parametrize(
    ("mistake", "expected"), [(lost_update, 2), (last_reply_wins, "b"), (cancelled, True), (queued, "ab")]
)
def test_a_classic_mistake_of_tasks_is_found(mistake: Any, expected: Any) -> None:
    found = audit(alone(mistake, expected=expected), budget=NO_FAULTS, schedules=400, **QUICK)
    assert found.verdict == "violated"


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [
        (locked_update, 2),
        pytest.param(gathered_in_order, "b", marks=pytest.mark.slow),
        (awaited, True),
        pytest.param(queued_and_sorted, "ab", marks=pytest.mark.slow),
    ],
)
def test_its_fix_holds_in_every_schedule(fixed: Any, expected: Any) -> None:
    assert audit(alone(fixed, expected=expected), budget=NO_FAULTS).verdict == "holds"


@pytest.mark.parametrize("work", [last_reply_wins, pytest.param(timed_out, marks=pytest.mark.slow)])
def test_every_ending_of_tasks_is_seen(work: Callable[[Any], Any]) -> None:
    assert compare_settings(Setting(alone(work), NO_FAULTS))[0]


def test_a_timer_may_overtake_a_reply() -> None:
    """A request that was given up may land after what came in its place."""
    bodies = set()

    def given_up(store: Any) -> Any:
        asyncio.run(_given_up(store))
        return store.get("key").body

    def program(world: Any) -> None:
        alone(given_up)(world)
        world.finally_("seen", lambda view: bodies.add(view.result("ann")))

    audit(program, budget=NO_FAULTS, schedules=25)
    assert bodies == {b"new", b"old"}


def test_each_task_has_its_own_context() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    def work(store: Any) -> list[str]:
        async def one(mine: str) -> str:
            name.set(mine)
            await put(store, mine)
            return await asyncio.to_thread(name.get)

        async def both() -> list[str]:
            return await asyncio.gather(one("a"), one("b"))

        return asyncio.run(both())

    assert (
        audit(alone(work, expected=["a", "b"]), budget=NO_FAULTS, schedules=10, others=False).counterexamples
        == ()
    )


def test_two_processes_have_a_loop_each() -> None:
    def program(world: Any) -> None:
        for name in ("ann", "bob"):
            world.spawn(awaited, world.store(), name=name)

    found = audit(program, budget=NO_FAULTS, schedules=60)
    assert found.counterexamples == ()
    assert found.verdict != "error"


@pytest.mark.parametrize("close", ["a coroutine", "a task", "a task of a task"])
def test_a_crash_within_a_loop_warns_of_nothing(close: str) -> None:
    """The finally blocks of the process still run, and what they begin never ends."""

    kept: list[Any] = []

    async def end() -> None:
        await asyncio.sleep(0)

    async def closing(store: Any) -> None:
        try:
            await put(store, "k")
        finally:
            kept.append(asyncio.create_task(end()))

    def work(store: Any) -> None:
        kept.clear()
        with asyncio.Runner() as runner:
            try:
                runner.run(closing(store) if close == "a task of a task" else put(store, "k"))
            finally:
                if close != "a coroutine":
                    runner.run(end())
                else:
                    runner.get_loop().run_until_complete(end())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = audit(alone(work), budget=Budget(crash=1), **QUICK)
        gc.collect()
    assert found.coverage.faults["crash"]
    assert [str(one.message) for one in caught] == []
