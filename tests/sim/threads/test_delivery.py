"""The reply to a request reaches its thread in a step of its own: another thread may act before it.

If this fails, an audit says "holds" of code that takes the first thread to report for the one whose request
landed first.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import audit, replay
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.operations import Delivery, Sync

Give = Callable[[str, bool], None]


def claim(store: Any, name: str) -> bool:
    return bool(store.put("leader", name.encode(), when=ABSENT).done)


def both(work: Callable[[str], None]) -> None:
    threads = [threading.Thread(target=work, args=(name,), name=name) for name in ("x", "y")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_queue(store: Any) -> bool:
    reports: Any = queue.Queue()
    both(lambda name: reports.put(claim(store, name)))
    return bool(reports.get())


def by_list(store: Any) -> bool:
    reports: list[bool] = []
    both(lambda name: reports.append(claim(store, name)))
    return reports[0]


def by_locked_list(store: Any) -> bool:
    reports: list[bool] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        won = claim(store, name)
        with lock:
            reports.append(won)

    both(work)
    return reports[0]


def by_event(store: Any) -> bool:
    reported, first = threading.Event(), dict[str, bool]()

    def work(name: str) -> None:
        won = claim(store, name)
        if not reported.is_set():
            first["won"] = won
        reported.set()

    both(work)
    return first["won"]


def by_condition(store: Any) -> bool:
    reports: list[bool] = []
    condition = threading.Condition()

    def work(name: str) -> None:
        won = claim(store, name)
        with condition:
            reports.append(won)
            condition.notify()

    for name in ("x", "y"):
        threading.Thread(target=work, args=(name,), name=name).start()
    with condition:
        while not reports:
            condition.wait()
        return reports[0]


def by_future(store: Any) -> bool:
    with ThreadPoolExecutor(2) as pool:
        claims = [pool.submit(claim, store, name) for name in ("x", "y")]
        return next(iter(as_completed(claims))).result()


def by_tasks(store: Any) -> bool:
    reports: list[bool] = []

    async def work(name: str) -> None:
        reports.append(await asyncio.to_thread(claim, store, name))

    async def main() -> None:
        await asyncio.gather(work("x"), work("y"))

    asyncio.run(main())
    return reports[0]


def by_lock_alone(store: Any) -> bool:
    """The first to take the lock is not the first to say so."""
    del store
    lock, reports = threading.Lock(), list[bool]()
    both(lambda _: reports.append(lock.acquire(blocking=False)))
    return reports[0]


def by_items(store: Any) -> bool:
    """The taker of the first item is not the first to hand it on."""
    del store
    items: Any = queue.Queue()
    items.put(True)
    items.put(False)
    reports: list[bool] = []
    both(lambda _: reports.append(items.get()))
    return reports[0]


FIRST = [
    by_queue,
    by_list,
    by_locked_list,
    by_event,
    by_condition,
    by_future,
    by_tasks,
    by_lock_alone,
    by_items,
]


def program_of(work: Callable[[Any], bool]) -> Callable[[World], None]:
    def program(world: World) -> None:
        world.spawn(work, world.store(), name="node")
        world.finally_("the first to report won", lambda view: view.result("node") is True)

    return program


@pytest.mark.parametrize("work", FIRST, ids=lambda work: work.__name__)
def test_the_first_to_report_may_have_lost(work: Callable[[Any], bool]) -> None:
    program = program_of(work)
    found = audit(program, budget=NO_FAULTS, minimise_seconds=0.5, others=False)
    assert found.verdict == "violated", found
    again = replay(program, found.counterexamples[0].token)
    assert again.violation is not None
    assert not again.misfit


@pytest.mark.parametrize("strategy", ["plain", "random", "pct"])
def test_every_search_finds_it(strategy: str) -> None:
    found = audit(program_of(by_list), budget=NO_FAULTS, strategy=strategy, minimise_seconds=0.1)
    assert found.verdict == "violated"


def test_a_file_that_was_made_first_may_be_reported_last() -> None:
    """A system call and what the thread does with its result are two steps as well."""

    def work(folder: Path) -> bool:
        reports: list[bool] = []

        def make(_: str) -> None:
            try:
                (folder / "leader").touch(exist_ok=False)
            except FileExistsError:
                reports.append(False)
            else:
                reports.append(True)

        both(make)
        return reports[0]

    def program(world: World) -> None:
        folder = world.filesystem()
        world.spawn(work, folder, name="node")
        world.finally_("the first to report won", lambda view: view.result("node") is True)

    assert audit(program, budget=NO_FAULTS, minimise_seconds=0.1).verdict == "violated"


def test_the_counterexample_names_the_reply_that_came_late() -> None:
    found = audit(program_of(by_list), budget=NO_FAULTS)
    lines = [(line.process, line.operation, line.outcome) for line in found.counterexamples[0].lines]
    late = [line for line in lines if line[1].startswith("receive the reply: put leader if absent")]
    assert [outcome[:7] for _, _, outcome in late] == ["-> done"]
    responses = [event for event in found.counterexamples[0].events if event.phase == "response"]
    assert [event.outcome for event in responses] == ["exists", "done"]


def test_a_reply_that_comes_at_once_is_no_line() -> None:
    found = audit(program_of(by_queue), budget=NO_FAULTS)
    operations = [line.operation for line in found.counterexamples[0].lines]
    assert not [text for text in operations if text.startswith("go on after")]


def test_a_crash_comes_before_and_after_every_write_of_two_threads() -> None:
    def work(store: Any) -> None:
        both(lambda name: store.put(name, b"", when=ANYTHING))

    def program(world: World) -> None:
        world.configure(ticks=0)
        world.spawn(work, world.store(), name="node", restart=False)
        for keys in ([], ["x"], ["y"], ["x", "y"]):
            world.sometimes(f"written: {keys}", lambda view, keys=keys: [*view.contents("")] == keys)

    crash = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)
    found = audit(program, budget=crash)
    assert found.verdict == "holds", found


def steps_of(work: Callable[[Any], Any]) -> list[Any]:
    """The operations of the first schedule."""
    seen: list[Any] = []

    def program(world: World) -> None:
        world.configure(ticks=0)
        world.spawn(work, world.store(), name="node")
        world.measure(lambda at: (seen.append([step[5] for step in at.trace]), {"runs": 1})[1])

    audit(program, budget=NO_FAULTS, schedules=1)
    return list(seen[0])


def test_a_process_with_one_thread_has_no_such_step() -> None:
    def work(store: Any) -> None:
        store.put("a", b"", when=ANYTHING)
        thread = threading.Thread(target=lambda: store.put("b", b"", when=ANYTHING))
        thread.start()
        thread.join()
        store.put("c", b"", when=ANYTHING)

    assert [step.subject for step in steps_of(work) if step.kind == "put"] == ["a", "b", "c"]
    assert not [step for step in steps_of(work) if type(step) is Delivery]


def test_a_step_that_takes_nothing_goes_on_at_once() -> None:
    deliveries = [step.op for step in steps_of(by_queue) if type(step) is Delivery]
    assert not [op for op in deliveries if type(op) is Sync and op.kind in ("join", "put", "start")]
