"""A loss of power is explored in every state whose future differs: each part of such a state is needed.

If this fails, two states are taken for one although the runs after the loss differ, and "holds" is not true.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.world import Budget, MonitorEvent, Violated, World
from tests.sim.filesystem.test_reduced_against_plain import NONE, seen_by

Act = Callable[[World, Path, Any], Any]


def nothing(*_: Any) -> None:
    pass


def write_file(_world: World, root: Path, _store: Any) -> None:
    (root / "b").write_bytes(b"x")


def put(_world: World, _root: Path, store: Any) -> str:
    return str(store.put("k", b"x", when=ANYTHING).outcome)


def create_in_vain(_world: World, _root: Path, store: Any) -> None:
    store.put("there", b"0", when=ABSENT)


def create(body: bytes) -> Act:
    def act(_world: World, _root: Path, store: Any) -> None:
        store.put("k", body, when=ABSENT)

    return act


def note(world: World, *_: Any) -> None:
    world.note("topic", 1)


def post(world: World, *_: Any) -> None:
    world.post("channel", 1)


def receive(world: World, *_: Any) -> Any:
    return world.receive("channel")


def sleep(_world: World, _root: Path, store: Any) -> None:
    store.env.sleep(5)


def read_clock(world: World, _root: Path, store: Any) -> int:
    return int(store.env.now_ns() - world.start_ns)


def in_turn(before: str, event: MonitorEvent) -> Any:
    """Record who came in which order, and refuse one order of three."""
    state = before + event.process
    return Violated("p1 came first") if state == "p1p0after" else state


@dataclass(frozen=True)
class Case:
    """Processes that lose power, and the one that starts after it."""

    place: int
    """Of the part among what `World.endured` returns."""
    processes: tuple[Act, ...]
    after: Act = nothing
    faults: dict[str, int] = field(default_factory=dict)
    monitored: bool = False

    def seen_by(self, kind: type[Plain] | type[ReducedSearch]) -> tuple[set[Any], set[str]]:
        def program(world: World) -> None:
            world.configure(ticks=0)
            root, store = world.filesystem(), world.store()
            store.put("there", b"", when=ABSENT)
            for number, act in enumerate(self.processes):
                world.spawn(act, world, root, store, name=f"p{number}", restart=False)
            world.spawn(self.after, world, root, store, name="after", after_power_loss=True)
            if self.monitored:
                world.monitor("monitor", "", in_turn, keys=["there"])

        budget = Budget(**{**NONE, **self.faults}, power_loss=1, restart=0)
        return seen_by(kind(Setting(program, budget), first_only=False))


CASES = {
    "the files": Case(0, (write_file,)),
    "the objects": Case(1, (put,)),
    "the faults that are left": Case(2, (create(b"0"), create(b"1")), put, {"request_lost": 1}),
    "the clock": Case(3, (sleep,), read_clock),
    "the ends of processes": Case(4, (nothing,)),
    "the notes": Case(6, (note,)),
    "the messages": Case(7, (post,), receive),
    "the state of a monitor": Case(8, (create_in_vain,) * 2, create_in_vain, monitored=True),
}
"""Part 5, the requests in flight, has no case: a state with one is met before the same state without it.

Steps of processes come before those of requests in flight, and the former state allows all that the latter
does.
"""


@pytest.mark.parametrize("name", CASES)
def test_power_is_lost_in_states_that_differ_in_one_part(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    expected = case.seen_by(Plain)
    assert case.seen_by(ReducedSearch) == expected
    sound = World.endured

    def endured(self: World, memories: Any) -> Any:
        found = list(sound(self, memories))
        found[case.place] = None
        return tuple(found)

    monkeypatch.setattr(World, "endured", endured)
    assert case.seen_by(ReducedSearch) != expected
