"""Properties with memory have forms of their own, and a check that keeps state is refused.

If this fails, exhaustive search says "holds" for a property with memory that some schedule violates: checks
are not called while the beginning of a run is repeated, and runs that reach equal states are merged.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.impl.store.errors import Misuse
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, MonitorEvent, View, Violated, World
from tests.commands.running import exit_of

STRATEGIES = ("exhaustive", "plain", "random")


def number(view: View) -> int:
    return int(view.get("n") or 0)


def writers(world: World) -> None:
    """The number goes back only if the second process comes between two steps of the first."""
    store = world.store()

    def up() -> None:
        for value in (b"1", b"2"):
            store.put("n", value, when=ANYTHING)

    def other() -> None:
        store.put("m", b"", when=ANYTHING)
        store.put("n", b"3", when=ANYTHING)

    world.spawn(up, name="up")
    world.spawn(other, name="other")


def never_back(state: int, event: MonitorEvent) -> Any:
    return Violated(f"{event.value!r} after {state}") if int(event.value) < state else int(event.value)


def by_monitor(world: World) -> None:
    writers(world)
    world.monitor("never back", 0, never_back, keys=["n"])


def by_step(world: World) -> None:
    writers(world)
    world.step_property("never back", lambda before, after: number(before) <= number(after))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("program", [by_monitor, by_step])
def test_what_goes_back_is_found_by_every_strategy(program: Callable[[World], None], strategy: str) -> None:
    result = audit(program, budget=NO_FAULTS, strategy=strategy, schedules=2000)
    assert result.verdict == "violated"
    assert result.counterexamples[0].lines[-1].operation.startswith("put n")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("names", ["xy", "yx"])
def test_what_a_check_reads_only_in_some_states_counts_where_it_was_read(names: str, strategy: str) -> None:
    """The check reads `y` where `x` is there, so the orders of the two writes differ for it."""

    def program(world: World) -> None:
        for name in names:
            world.spawn(world.store().put, name, b"", when=ANYTHING, name=name)
        world.always("y comes first", lambda view: view.get("x") is None or view.get("y") is not None)

    assert audit(program, budget=NO_FAULTS, strategy=strategy, schedules=50).verdict == "violated"


def test_a_failed_assertion_and_a_false_answer_give_their_reasons() -> None:
    def fails(_view: View) -> bool:
        raise AssertionError

    def says(_view: View) -> bool:
        raise AssertionError("too many\nassert 1 == 2")

    reasons = []
    for check in (fails, says, lambda view: False, lambda view: "a text"):

        def program(world: World, check: Any = check) -> None:
            world.spawn(world.note, "one", name="p")
            world.always("a", check)

        reasons.append(audit(program, budget=NO_FAULTS).counterexamples[0].reason)
    assert reasons == [
        "an assertion of the check failed",
        "too many",
        "the check returned False",
        "a text",
    ]


def test_equal_states_with_other_memories_are_not_merged() -> None:
    """Both orders leave the same bucket; only the monitor knows which came first."""

    def program(world: World) -> None:
        store = world.store()

        def write(key: str) -> None:
            store.put(key, b"", when=ANYTHING)
            store.put("last", b"", when=ANYTHING)

        for key in ("a", "b"):
            world.spawn(write, key, name=key)

        def order(state: str, event: MonitorEvent) -> Any:
            seen = state + event.key[0]
            return Violated(f"{seen} is the order") if seen == "bal" else seen

        world.monitor("b is not first", "", order)

    for strategy in ("exhaustive", "plain"):
        assert audit(program, budget=NO_FAULTS, strategy=strategy).verdict == "violated"


def test_a_monitor_sees_notes_and_writes_with_their_outcomes_and_nothing_else() -> None:
    seen: list[tuple[str, str, str, Any, str]] = []

    def step(state: int, event: MonitorEvent) -> int:
        outcome = event.outcome.value if event.outcome else ""
        seen.append((event.kind, event.process, event.key, event.value, outcome))
        return state

    def program(world: World) -> None:
        store = world.store()

        def live() -> None:
            store.put("k", b"1", when=ANYTHING)
            store.get("k")
            store.delete("k", when=ANYTHING)
            world.note("topic", 7)

        world.spawn(live, name="p")
        world.monitor("all", 0, step)
        world.judge.folds[0].kept.empty = True  # this test's step does what a step must not do

    world = World()
    world.start(program)
    while enabled := world.enabled():
        world.step(enabled[0], "ok")
    world.close()
    assert seen == [
        ("put", "p", "k", b"1", "done"),
        ("delete", "p", "k", None, "done"),
        ("note", "p", "topic", 7, ""),
    ]


def test_a_crash_after_a_refused_write_is_explored_for_a_monitor_that_saw_it() -> None:
    def program(world: World) -> None:
        store = world.store()
        store.put("k", b"", when=ANYTHING)

        def write() -> None:
            store.delete("none", when=ANYTHING)
            store.head("k")

        def once(state: int, event: MonitorEvent) -> Any:
            assert state < 1, "deleted again"
            return state + 1

        world.spawn(write, name="p")
        world.monitor("once", 0, once)

    assert audit(program).verdict == "violated"


# Checks that keep state.


class Memory:
    def __init__(self) -> None:
        self.last = 0

    def check(self, view: View) -> bool:
        self.last = max(self.last, number(view))
        return number(view) >= self.last

    __call__ = check


_last: list[int] = [0]


def with_a_global(view: View) -> bool:
    _last[0] = max(_last[0], number(view))
    return number(view) >= _last[0]


def with_a_default(view: View, seen: list[int] = []) -> bool:  # noqa: B006 - the mistake
    seen.append(number(view))
    return sorted(seen) == seen


def with_an_attribute(view: View) -> bool:
    last = getattr(with_an_attribute, "last", 0)
    with_an_attribute.last = max(last, number(view))  # type: ignore[attr-defined] # the mistake
    return number(view) >= last


def with_a_cell() -> Callable[[View], bool]:
    last = 0

    def check(view: View) -> bool:
        nonlocal last
        last, before = number(view), last
        return last >= before

    return check


def with_a_counter() -> Callable[[View], bool]:
    calls = itertools.count()
    return lambda view: next(calls) < 10**9 and number(view) >= 0


def through_a_helper(view: View) -> bool:
    return with_a_global(view)


KEEPING: dict[str, tuple[Callable[[], Callable[[View], Any]], str]] = {
    "bound method": (lambda: Memory().check, "Memory.last"),
    "callable object": (Memory, "Memory.last"),
    "global": (lambda: with_a_global, "_last"),
    "default argument": (lambda: with_a_default, "seen"),
    "function attribute": (lambda: with_an_attribute, "with_an_attribute"),
    "cell": (with_a_cell, "last"),
    "iterator": (with_a_counter, "calls"),
    "helper": (lambda: through_a_helper, "_last"),
}


@pytest.mark.parametrize("kind", ["always", "eventually", "sometimes"])
@pytest.mark.parametrize("form", KEEPING)
def test_a_check_that_keeps_state_is_refused(form: str, kind: str) -> None:
    make, variable = KEEPING[form]
    _last[0] = with_an_attribute.last = 0  # type: ignore[attr-defined] # as in a fresh interpreter

    def program(world: World) -> None:
        writers(world)
        getattr(world, kind)("never back", make())

    with pytest.raises(Misuse, match=rf"'never back' keeps state: .*{variable} changed.*world\.monitor\("):
        audit(program, budget=NO_FAULTS)


def test_a_step_of_a_monitor_that_keeps_state_elsewhere_is_refused() -> None:
    seen: list[int] = []

    def step(state: int, event: MonitorEvent) -> int:
        seen.append(int(event.value or 0))
        return state

    def program(world: World) -> None:
        writers(world)
        world.monitor("m", 0, step)

    with pytest.raises(Misuse, match="step of 'm' keeps state: seen changed"):
        audit(program, budget=NO_FAULTS)


def test_checks_that_only_read_what_they_captured_are_not_refused() -> None:
    limits = {"n": [3, {"deep": (1, 2)}]}
    memory = Memory()

    def program(world: World) -> None:
        writers(world)
        world.always("small", lambda view: number(view) <= limits["n"][0] and memory.last == 0)

    assert audit(program, budget=NO_FAULTS).verdict == "holds"


def test_a_step_property_must_hold_where_nothing_changes() -> None:
    def program(world: World) -> None:
        writers(world)
        world.step_property("always up", lambda before, after: number(before) < number(after))

    with pytest.raises(Misuse, match=r"'always up'.* is false for a step that changes nothing"):
        audit(program, budget=NO_FAULTS)


def test_a_monitor_that_forgets_its_state_is_refused() -> None:
    def program(world: World) -> None:
        writers(world)
        world.monitor("m", 0, lambda state, event: None)

    with pytest.raises(Misuse, match="monitor 'm' returned None; return the next state"):
        audit(program, budget=NO_FAULTS)


def test_the_command_refuses_with_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "back.py").write_text(
        "from fencepost.impl.store import ANYTHING\n"
        "def program(world):\n"
        "    seen = [0]\n"
        "    def check(view):\n"
        "        seen.append(len(view.keys('')))\n"
        "    world.spawn(world.store().put, 'k', b'', when=ANYTHING)\n"
        "    world.always('grows', check)\n"
    )
    assert exit_of("audit", f"{tmp_path}/back.py:program") == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    line = shown.err.strip()
    assert "check of 'grows' keeps state: seen changed" in line
    assert "world.monitor('grows', state, step)" in line
    assert "\n" not in line


@pytest.mark.parametrize("kept", [set(), bytearray()], ids=["set", "bytearray"])
def test_a_check_that_keeps_state_in_a_collection_of_another_kind_is_refused(kept: Any) -> None:
    def remembers(_view: View) -> bool:
        kept.add(len(kept)) if isinstance(kept, set) else kept.append(1)
        return True

    def program(world: World) -> None:
        world.spawn(world.note, "one", name="p")
        world.always("remembers", remembers)

    with pytest.raises(Misuse):
        audit(program, budget=NO_FAULTS)
