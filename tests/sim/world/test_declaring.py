"""What a program may say of a world, and when: the same under control and for real."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.explore import audit
from fencepost.sim.real import Plain, run_rounds


def under_control(program: Callable[[Any], None]) -> None:
    audit(program)


def for_real(program: Callable[[Any], None]) -> None:
    run_rounds(program, MemoryStore(), Plain(rounds=1, seconds=5))


BOTH = pytest.mark.parametrize("in_world", [under_control, for_real])
In = Callable[[Callable[[Any], None]], None]


def idle() -> None:
    pass


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> None:
    pass


async def asynchronous_generator() -> AsyncIterator[int]:
    yield 1


@BOTH
@pytest.mark.parametrize("fn", [generator, coroutine, asynchronous_generator])
def test_what_would_not_run_is_no_process(in_world: In, fn: Any) -> None:
    """Calling it makes an object and runs nothing: the audit would hold, of a program that did nothing."""
    with pytest.raises(Misuse, match=f"{fn.__name__} is async or a generator"):
        in_world(lambda world: world.spawn(fn))


@BOTH
@pytest.mark.parametrize("name", ["twin", "setup", "clock"])
def test_a_name_stands_for_one(in_world: In, name: str) -> None:
    """Counterexamples and tokens name who did a step."""

    def program(world: Any) -> None:
        world.spawn(idle, name="twin")
        world.spawn(idle, name=name)

    with pytest.raises(Misuse, match=f"two processes cannot both be called '{name}'"):
        in_world(program)


@BOTH
def test_a_process_without_a_name_gets_a_free_one(in_world: In) -> None:
    named: list[str] = []

    def program(world: Any) -> None:
        named[:] = [world.spawn(idle), world.spawn(idle, name="idle-2"), world.spawn(idle)]

    in_world(program)
    assert named == ["idle-1", "idle-2", "idle-3"]


@BOTH
def test_two_properties_have_two_names(in_world: In) -> None:
    def program(world: Any) -> None:
        world.always("same", lambda _: True)
        world.finally_("same", lambda _: True)

    with pytest.raises(Misuse, match="two properties cannot both be called 'same'"):
        in_world(program)


@BOTH
@pytest.mark.parametrize(
    "late", [lambda world: world.spawn(idle), lambda world: world.always("late", lambda _: True)]
)
def test_nothing_is_declared_once_processes_run(in_world: In, late: Any) -> None:
    results: list[str] = []

    def act(world: Any) -> str:
        try:
            late(world)
        except Misuse as error:
            return str(error)
        return "declared"

    def program(world: Any) -> None:
        world.spawn(act, world, name="ann")
        world.finally_("refused", lambda view: bool(results.append(view.result("ann")) or True))

    in_world(program)
    assert results
    assert all("by the program, before any process runs" in text for text in results)


def test_a_bucket_that_holds_something_is_not_replaced() -> None:
    """An audit would hold about an empty one."""

    def program(world: Any) -> None:
        world.store().put("k", b"", when=ANYTHING)
        world.configure(ticks=0)

    with pytest.raises(Misuse, match="before anything is stored"):
        under_control(program)
