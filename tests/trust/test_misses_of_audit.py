"""What `fencepost audit` does not see: a test for each line of `what-can-still-be-wrong.md`.

Every program here is broken. The audit says "holds", because the program breaks outside of the bound that the
verdict names; where the bound can be widened, the same audit then finds it. When a test fails because the
audit finds more, the page needs an edit.
"""

import asyncio
import os
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, Budget, View, World


def verdict(program: Any, budget: Budget = NO_FAULTS) -> str:
    return audit(program, budget=budget, minimise_seconds=0.1).verdict


def test_more_processes_than_were_spawned() -> None:
    def program(world: World, processes: int) -> None:
        store = world.store()

        def take() -> None:
            for seat in ("seat/1", "seat/2"):
                if store.put(seat, b"", when=ABSENT).done:
                    return
            world.note("stands")

        for number in range(processes):
            world.spawn(take, name=f"p{number}")
        world.always("all sit", lambda view: not view.notes("stands"))

    assert verdict(lambda world: program(world, 2)) == "holds"
    assert verdict(lambda world: program(world, 3)) == "violated"


def test_more_faults_than_the_budget_has() -> None:
    def program(world: World) -> None:
        store = world.store()

        def start() -> None:
            attempts = len(store.list("attempt/").objects)
            store.put(f"attempt/{attempts}", b"", when=ANYTHING)
            if attempts >= 2:
                world.note("gave up")
            store.head("work")

        world.spawn(start, name="p")
        world.always("it never gives up", lambda view: not view.notes("gave up"))

    assert verdict(program, replace(NO_FAULTS, crash=1)) == "holds"
    assert verdict(program, replace(NO_FAULTS, crash=2)) == "violated"


def test_other_inputs() -> None:
    def program(world: World, sizes: list[int]) -> None:
        store = world.store()
        size = world.pick("size", sizes)

        def write(name: str) -> None:
            store.put("k" if size > 1 else name, name.encode(), when=ANYTHING)

        for name in ("a", "b"):
            world.spawn(write, name, name=name)
        world.finally_("two objects", lambda view: len(view.keys("")) == 2)
        world.always("small", lambda view: len(view.keys("")) < 3)

    assert verdict(lambda world: program(world, [0, 1])) == "holds"
    assert verdict(lambda world: program(world, [0, 1, 2])) == "violated"


def test_a_deadline_longer_than_the_pause() -> None:
    def program(world: World, pause_s: float = 60) -> None:
        world.configure(pause_s=pause_s)
        store = world.store()

        def hold(name: str) -> None:
            found = store.get("lock")
            now_ns = store.env.now_ns()
            if found.done and now_ns - int(found.body) < 3600 * 10**9:
                return
            store.put("lock", b"%d" % now_ns, when=ANYTHING)
            if found.done:
                world.note("taken over")

        for name in ("a", "b"):
            world.spawn(hold, name, name=name)
        world.always("nobody is robbed", lambda view: not view.notes("taken over"))

    one = replace(NO_FAULTS, pause=1)
    assert verdict(program, one) == "holds"
    assert "a pause lasts 60 s, and no other time" in audit(program, budget=one).bound
    assert verdict(lambda world: program(world, 3601), one) == "violated"


def test_more_moments_than_one_passing_by_themselves() -> None:
    def program(world: World, ticks: int = 1) -> None:
        world.configure(ticks=ticks)
        store = world.store()

        def write() -> None:
            for key in "abc":
                store.put(key, b"", when=ANYTHING)

        def compare() -> None:
            times = [found.modified_ns for found in store.list("").objects]
            world.note("different", len(set(times)))

        world.spawn(write, name="writes")
        world.spawn(compare, name="compares")
        world.always("never three times", lambda view: 3 not in view.notes("different"))

    assert verdict(program) == "holds"
    assert "time moves on by itself once, by 1 s" in audit(program, budget=NO_FAULTS).bound
    assert verdict(lambda world: program(world, ticks=2)) == "violated"


def test_a_change_between_the_seventh_round_and_the_last() -> None:
    """The rounds of a loop are followed until it is held back, and then all at once."""

    def program(world: World, attempt: int) -> None:
        store = world.store()

        def wait() -> None:
            for number in range(1, 11):
                if store.head("ready").done:
                    world.note("attempt", number)
                    return

        world.spawn(wait, name="waits")
        world.spawn(store.put, "ready", b"", when=ANYTHING, name="writes")
        world.always("another attempt", lambda view: attempt not in view.notes("attempt"))

    assert verdict(lambda world: program(world, 7)) == "violated"
    assert verdict(lambda world: program(world, 8)) == "holds"
    result = audit(lambda world: program(world, 8), budget=NO_FAULTS)
    assert "a loop that waits is held back after 5 rounds, until a change or its end" in result.bound
    assert audit(lambda world: program(world, 8), budget=NO_FAULTS, wait_rounds=6).verdict == "violated"


def test_a_loop_with_effects_after_two_faults() -> None:
    """No helper's write arrives, and the one that waits for it writes for ever."""

    def program(world: World, helpers: int) -> None:
        store = world.store()

        def help_out() -> None:
            store.head("b")
            store.put("b", b"", when=ANYTHING)

        def wait() -> None:
            while not store.head("b").done:
                store.put("seen", b"", when=ANYTHING)

        for number in range(helpers):
            world.spawn(help_out, name=f"helper-{number}")
        world.spawn(wait, name="waits")
        world.eventually("b comes", lambda view: view.get("b") is not None)

    def found(helpers: int) -> str:
        budget = NO_FAULTS.but(request_lost=helpers)
        return audit(lambda world: program(world, helpers), budget=budget, schedules=200).verdict

    assert found(1) == "violated"
    assert found(2) == "undecided"


def test_threads_that_share_memory() -> None:
    """Between two requests a process is alone; as threads these two could both read 0."""
    counted: list[int] = []

    def program(world: World) -> None:
        store = world.store()
        shared = {"count": 0}

        def add() -> None:
            store.head("k")
            read = shared["count"]
            shared["count"] = read + 1
            store.put("k", b"", when=ANYTHING)

        for name in ("a", "b"):
            world.spawn(add, name=name)
        world.finally_("nothing is lost", lambda view: not counted.append(shared["count"]))

    assert verdict(program) == "holds"
    assert set(counted) == {2}


def test_threads_that_change_places_within_one_line() -> None:
    """The bound says that a line is one step; two threads could both read 0 in it."""

    def count(store: Any) -> int:
        shared = {"count": 0}

        def add() -> None:
            store.get("k")
            shared["count"] = shared["count"] + 1

        threads = [threading.Thread(target=add) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return shared["count"]

    def program(world: World) -> None:
        world.spawn(count, world.store(), name="ann")
        world.finally_("nothing is lost", lambda view: view.results().get("ann", 2) == 2)

    found = audit(program, budget=NO_FAULTS)
    assert found.verdict == "holds"
    assert "threads share" in found.bound


def test_a_result_that_comes_in_the_middle_of_a_round() -> None:
    """Two tasks that are ready together each wake another; a thread may hand over its result between."""

    async def wake(event: asyncio.Event) -> None:
        event.set()

    async def note(noted: list[str], name: str, waits: Any) -> None:
        await waits
        noted.append(name)

    async def run(store: Any) -> str:
        noted: list[str] = []
        one, other = asyncio.Event(), asyncio.Event()
        waiting = [("a", one.wait()), ("b", other.wait()), ("w", asyncio.to_thread(store.head, "k"))]
        tasks = [asyncio.create_task(note(noted, *each)) for each in waiting]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(wake(event)) for event in (one, other)]
        await asyncio.gather(*tasks)
        return "".join(noted)

    seen: set[Any] = set()

    def program(world: World) -> None:
        world.configure(ticks=0)
        world.spawn(lambda store: asyncio.run(run(store)), world.store(), name="ann")
        world.finally_("noted", lambda view: seen.add(view.result("ann")) is None)

    found = audit(program, budget=NO_FAULTS)
    assert found.verdict == "holds"
    assert seen == {"wab", "abw"}, "and not awb"
    assert "one round of an event loop is one step" in found.bound


def test_a_deadline_between_values_of_a_library_in_c() -> None:
    """Floats are followed, decimals are not."""

    def program(world: World, number: type) -> None:
        store = world.store()
        store.put("lock", b"", when=ANYTHING)

        def take() -> None:
            info = store.head("lock").info
            if info is not None and number(store.env.now_ns()) - number(info.modified_ns) > 3600 * 10**9:
                store.put("lock", b"mine", when=ANYTHING)

        for name in ("a", "b"):
            world.spawn(take, name=name)
        world.always("nobody is robbed", lambda view: view.get("lock") == b"")

    one = replace(NO_FAULTS, pause=1)
    assert verdict(lambda world: program(world, Decimal), one) == "holds"
    assert verdict(lambda world: program(world, float), one) == "violated"


def numbers(world: World) -> None:
    """The number goes back when the second process comes last."""
    store = world.store()
    for value in ("2", "1"):
        world.spawn(store.put, "n", value.encode(), when=ANYTHING, name=f"writes {value}")


def test_a_check_that_keeps_state_outside_of_python(tmp_path: Path) -> None:
    def program(world: World) -> None:
        numbers(world)
        file = tmp_path / "calls"

        def check(view: View) -> bool:
            file.write_text(str(view.get("n")))
            return True

        world.always("it writes a file", check)

    assert verdict(program) == "holds"


def test_a_check_of_variables_that_processes_change() -> None:
    def program(world: World, note: bool) -> None:
        store = world.store()
        holders = [0]

        def hold() -> None:
            holders[0] += 1
            if note:
                world.note("holders", holders[0])
            store.put("k", b"", when=ANYTHING)
            holders[0] -= 1

        for name in ("a", "b"):
            world.spawn(hold, name=name)
        if note:
            world.always("one holder", lambda view: max(view.notes("holders"), default=0) < 2)
        else:
            world.always("one holder", lambda view: view.get("other") is None and holders[0] < 3)

    assert verdict(lambda world: program(world, note=False)) == "holds"
    assert verdict(lambda world: program(world, note=True)) == "violated"


@pytest.mark.parametrize("skew_s", [30, 90])
def test_a_clock_that_is_off_by_another_time(skew_s: float) -> None:
    def program(world: World) -> None:
        world.configure(skew_s=skew_s)
        store = world.store()

        def live() -> None:
            store.put("k", b"", when=ANYTHING)
            world.note("ahead", store.env.now_ns() - world.start_ns > 60 * 10**9)

        for name in ("a", "b"):
            world.spawn(live, name=name)
        world.always("clocks agree within a minute", lambda view: not any(view.notes("ahead")))

    assert verdict(program, replace(NO_FAULTS, skew=1)) == ("holds" if skew_s == 30 else "violated")


def test_what_a_daemon_does_when_all_others_have_ended() -> None:
    """A run ends with the last of the others; one that stays on shows it."""

    def program(world: World, *, stays: bool) -> None:
        store = world.store()

        def sweep() -> None:
            while True:
                if store.get("old").done:
                    store.delete("data", when=ANYTHING)

        def write() -> None:
            store.put("data", b"", when=ANYTHING)
            store.put("old", b"", when=ANYTHING)

        world.spawn(write, name="writer")
        world.spawn(sweep, name="sweeper", daemon=True)
        if stays:
            world.spawn(store.head, "work", name="other")
        world.step_property(
            "the data stays when its writer has ended",
            lambda before, after: (
                "writer" not in before.results()
                or before.get("data") is None
                or after.get("data") is not None
            ),
        )

    assert verdict(lambda world: program(world, stays=False)) == "holds"
    assert verdict(lambda world: program(world, stays=True)) == "violated"


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_the_order_in_which_a_directory_lists_its_names(names: str) -> None:
    """A file system has any order; here it is that of the names."""

    def program(world: World) -> None:
        root = world.filesystem()
        first, second = (root / name for name in names)
        first.write_bytes(b"")

        def take() -> None:
            world.note("taken", next(root.iterdir()).name)

        world.spawn(second.write_bytes, b"", name="writer")
        world.spawn(take, name="taker")
        world.always("the first is taken", lambda view: set(view.notes("taken")) <= {first.name})

    assert verdict(program) == ("holds" if names == "ab" else "violated")


@pytest.mark.parametrize("calls", [1, 2])
def test_half_of_what_one_call_writes(calls: int) -> None:
    """A read beside a write of several pages may see a part of it."""

    def program(world: World) -> None:
        root = world.filesystem()
        (root / "a").write_bytes(b"12")

        def write() -> None:
            fd = os.open(root / "a", os.O_WRONLY)
            for part in (b"34",) if calls == 1 else (b"3", b"4"):
                os.write(fd, part)

        world.spawn(write, name="writer")
        world.spawn(lambda: world.note("read", (root / "a").read_bytes()), name="reader")
        world.always("no mixture is read", lambda view: b"32" not in view.notes("read"))

    assert verdict(program) == ("holds" if calls == 1 else "violated")
