"""Threads that share what they change: other threads may go on between two lines of their code.

If this fails, an audit says "holds" of code that one thread leaves half-way through while another one runs.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import audit, replay
from fencepost.sim.threads import lines
from fencepost.sim.world import NO_FAULTS, Budget, World

TOTAL = 0


class Kept:
    """An object that threads share."""

    __slots__ = ("both", "items", "lock", "value")

    def __init__(self) -> None:
        self.value = 0
        self.items: list[int] = []
        self.both: dict[str, int] = {}
        self.lock = threading.Lock()


def both(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_attribute(store: Any) -> bool:
    """The other thread writes between the write and the read."""
    kept, seen = Kept(), list[bool]()

    def work(number: int) -> None:
        store.get("k")
        kept.value = number
        seen.append(kept.value == number)

    both(work)
    return all(seen)


def by_global(store: Any) -> bool:
    """A count that is read in one line and written in the next."""
    global TOTAL
    TOTAL = 0

    def work(_: int) -> None:
        global TOTAL
        store.get("k")
        before = TOTAL
        TOTAL = before + 1

    both(work)
    return TOTAL == 2


def by_closure(store: Any) -> bool:
    total = 0

    def work(_: int) -> None:
        nonlocal total
        store.get("k")
        before = total
        total = before + 1

    both(work)
    return total == 2


def by_list(store: Any) -> bool:
    """Both find the list empty."""
    kept = Kept()

    def work(number: int) -> None:
        store.get("k")
        if not kept.items:
            kept.items.append(number)

    both(work)
    return len(kept.items) == 1


def by_loop(store: Any) -> bool:
    """The condition of a loop is a line of its own in every round."""
    kept = Kept()
    kept.items.append(0)

    def work(_: int) -> None:
        store.get("k")
        while kept.items:
            try:
                kept.items.pop()
            except IndexError:
                kept.value = 1

    both(work)
    return kept.value == 0


def locked(store: Any) -> bool:
    kept = Kept()

    def work(_: int) -> None:
        store.get("k")
        with kept.lock:
            before = kept.value
            kept.value = before + 1

    both(work)
    return kept.value == 2


def apart(store: Any) -> bool:
    """The threads share nothing that one of them changes."""

    def work(number: int) -> None:
        kept = Kept()
        store.put("k", b"%d" % number, when=ANYTHING)
        kept.value = number
        assert kept.value == number

    both(work)
    return True


def program_of(work: Callable[[Any], bool]) -> Callable[[World], None]:
    def program(world: World) -> None:
        world.configure(ticks=0)
        world.spawn(work, world.store(), name="ann")
        world.finally_("as in one line", lambda view: view.result("ann") is True)

    return program


@pytest.mark.parametrize(
    "work", [by_attribute, by_global, by_closure, by_list, by_loop], ids=lambda w: w.__name__
)
def test_a_thread_that_is_left_between_two_lines_is_found(work: Callable[[Any], bool]) -> None:
    program, code = program_of(work), work.__code__
    found = audit(program, budget=NO_FAULTS, minimise_seconds=0.3, others=False)
    assert found.verdict == "violated", found
    counterexample = found.counterexamples[0]
    assert any(line.operation.startswith("go on with line") for line in counterexample.lines)
    again = replay(program, counterexample.token)
    assert again.violation is not None
    assert not again.misfit
    assert work.__code__ is code


def test_a_lock_around_the_lines_holds() -> None:
    found = audit(program_of(locked), budget=NO_FAULTS)
    assert found.verdict == "holds", found
    assert "threads share value" in found.bound


def test_threads_that_share_nothing_cost_nothing() -> None:
    found = audit(program_of(apart), budget=NO_FAULTS)
    assert found.verdict == "holds"
    assert found.bound.startswith("every schedule of 1 process with no faults; not tried: crash, ")


def test_a_search_that_ends_early_names_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.sim.explore.finer.SCHEDULES", 1)
    found = audit(program_of(locked), budget=NO_FAULTS)
    assert found.verdict == "holds"
    assert "the code of a thread between two requests or uses of a lock is one step" in found.bound


def counting(rounds: int) -> Callable[[World], None]:
    def work(store: Any) -> bool:
        kept = Kept()

        def count(number: int) -> None:
            store.get("k")
            for _ in range(rounds if number == 1 else 1):
                kept.value += 1

        both(count)
        return True

    return program_of(work)


def test_runs_that_are_cut_between_lines_are_left_out() -> None:
    """They take more steps than the limit, which those without pauses keep."""
    found = audit(counting(1), budget=NO_FAULTS, steps_max=11)
    assert found.verdict == "holds"
    assert "is one step, although threads share value" in found.bound


def test_passes_beyond_the_limit_are_in_the_bound() -> None:
    found = audit(counting(3), budget=NO_FAULTS)
    assert found.verdict == "holds"
    assert "a thread pauses at most 2 times before the same line; threads share value" in found.bound


def test_a_long_first_search_does_not_keep_the_second_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a mistake between two lines is found after all faults, which may be never."""
    monkeypatch.setattr("fencepost.sim.explore.finer.RUNS_BEFORE", 50)

    def write(store: Any) -> None:
        for _ in range(3):
            store.put("k", b"", when=ANYTHING)

    def program(world: World) -> None:
        store = world.store()
        for name in ("bob", "cid", "dan"):
            world.spawn(write, store, name=name, restart=True)
        program_of(by_attribute)(world)

    runs: list[int] = []
    options: dict[str, Any] = {
        "strategy": "exhaustive",
        "schedules": 2_000,
        "minimise_seconds": 0.3,
        "others": False,
    }
    found = audit(program, progress=lambda at: runs.append(at.runs), budget=Budget(), **options)
    assert found.verdict == "violated", found
    assert runs[-1] < 100
    assert any(line.operation.startswith("go on with line") for line in found.counterexamples[0].lines)


def test_code_without_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_compiled", lambda file, names: {})
    found = audit(program_of(by_attribute), budget=NO_FAULTS)
    assert found.verdict == "holds"
    assert "is one step, although threads share" in found.bound


def test_plain_enumeration_names_what_it_leaves_out() -> None:
    def write(store: Any) -> None:
        thread = threading.Thread(target=lambda: store.put("k", b"", when=ANYTHING))
        thread.start()
        thread.join()

    def program(world: World) -> None:
        world.spawn(write, world.store(), name="ann")
        world.spawn(lambda store: store.get("k"), world.store(), name="bob")

    found = audit(program, budget=NO_FAULTS, strategy="plain")
    assert found.verdict == "holds"
    assert "the code of a thread between two requests or uses of a lock is one step" in found.bound


def test_functions_get_their_own_code_back() -> None:
    code = by_attribute.__code__
    assert lines.apply(by_attribute, frozenset({"value"})) > 0
    assert by_attribute.__code__ is not code
    lines.remove()
    assert by_attribute.__code__ is code
