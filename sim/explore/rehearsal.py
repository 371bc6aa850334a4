"""Before a search: whether runs repeat themselves, and whether each process has a memory of its own.

A search runs the program again and again and takes a run for a function of its choices. So two schedules, the
plain one and a random one with faults, are run twice and compared. They differ when something outside of the
world decides: a file, the order of a set, a variable that outlives a run.

Processes of a world do not share the variables of the user's modules, see `sim.world.variables`. The
variables that a process changes are found here, in the plain schedule and a random one. The search starts
over when it finds others.

Not seen: variables that only other schedules change, and change back; and state that is no Python object (a
file, an iterator written in C), unless a repeated run differs.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fencepost.impl.environment import SeededEnvironment
from fencepost.sim.explore.runs import Choice, Setting, describe, final_state, name_of, run
from fencepost.sim.explore.sampling import any_choice
from fencepost.sim.explore.tokens import HARMLESS, by_rule
from fencepost.sim.world import World
from fencepost.sim.world.places import held
from fencepost.sim.world.process import Diverged

RECORDS = 20
"""Random schedules that are recorded."""

T = TypeVar("T")
Choose = Callable[[World, Sequence[int]], Choice]


LEARNING_MAX = 6
"""Rounds in which variables are found that are kept apart: one may hide another."""


def rehearse(setting: Setting, then: Callable[[Setting], T]) -> T:
    """Raise `Diverged` when runs do not repeat, or a check reads variables that processes change.

    Returns what `then` returns; afterwards variables are as if nothing had run.
    """
    setting.variables.watch()
    try:
        _repeat(setting, lambda: _by_rule)
        _repeat(setting, lambda: _at_random(setting, "rehearsal"))
        _check_the_checks(setting)
        setting.variables.restore()
        return then(setting)
    finally:
        setting.variables.restore()


def _prepared(setting: Setting, choose: Callable[[], Choose]) -> "_Record":
    """Return a schedule that changes no variable but those of which each process has its own by now."""
    variables = setting.variables
    for _ in range(LEARNING_MAX):
        found = _Record(setting, choose(), watched=True)
        if not variables.learns():
            break
        variables.restore()
    return found


def _at_random(setting: Setting, name: str) -> Choose:
    return functools.partial(any_choice, SeededEnvironment(setting.seed).stream(name))


def _by_rule(world: World, enabled: Sequence[int]) -> Choice:
    return by_rule(world, enabled, _last(world))


def _check_the_checks(setting: Setting) -> None:
    """Raise if a check reads a variable of which each process has its own: a check has no process."""
    if not setting.variables.active:
        return
    world = setting.world()
    try:
        world.start(setting.program)
        checks = [(one.name, check) for one in world.properties for check in (one.check, one.when)]
        for name, check in [*checks, *((fold.name, fold.step) for fold in world.judge.folds)]:
            place = setting.variables.read_by(check)
            if place:
                raise Diverged(
                    f"the check of {name!r} reads {place}, which processes change: each process of an audit "
                    "has its own, as in production, and the check sees those of the set-up. Call world.note "
                    "in the process, and read view.notes"
                )
    finally:
        world.close()


def records(setting: Setting) -> list["_Record"]:
    """Return the plain schedule and a few random ones, for a comparison with another interpreter."""
    draw = SeededEnvironment(setting.seed).stream("records")
    with held(setting.program):
        setting.variables.watch()
        return [
            _prepared(setting, lambda: _by_rule),
            *(
                _Record(setting, lambda world, enabled: any_choice(draw, world, enabled))
                for _ in range(RECORDS)
            ),
        ]


def _last(world: World) -> int:
    return int(world.trace[-1][0]) if world.trace else -1


class _Record:
    """The steps of a run, as texts that can be compared and shown."""

    def __init__(self, setting: Setting, choose: Choose, *, watched: bool = False) -> None:
        self.choices: list[Choice] = []
        self.steps: list[tuple[str, str, str]] = []
        """Steps: process, operation and answer."""
        world = setting.world(watched=watched)
        world.judge.distrust()
        self._choose = choose
        try:
            run(world, setting.program, self._chosen, setting.steps_max)
            self._look(world)
            self.end = _text((final_state(world), world.violation))
        finally:
            world.close()

    def _chosen(self, world: World, enabled: Sequence[int]) -> Choice:
        self._look(world)
        choice = self._choose(world, enabled)
        self.choices.append(choice)
        return choice

    def _look(self, world: World) -> None:
        """Write down the last step."""
        if world.trace:
            actor, alternative, _, _, _, op, answer, _ = world.trace[-1]
            value = _text(op.value) if op.kind == "note" else ""
            what = " ".join(part for part in (describe(op), value) if part)
            how = "" if alternative in HARMLESS else f"{alternative}: "
            self.steps.append((name_of(world, actor), what, how + _text(answer)))


class _Other(Exception):
    """A repeated run cannot take the step that the first run took."""


def _again(choices: Sequence[Choice]) -> Choose:
    left = iter(choices)

    def choose(world: World, enabled: Sequence[int]) -> Choice:
        actor, alternative = next(left, (-1, ""))
        if actor not in enabled or alternative not in world.alternatives(actor):
            raise _Other
        return actor, alternative

    return choose


def _repeat(setting: Setting, choose: Callable[[], Choose]) -> None:
    """Raise unless a schedule goes the same way twice."""
    first = _prepared(setting, choose)
    difference = _difference(first, lambda: _Record(setting, _again(first.choices)))
    if difference:
        lasting = setting.variables.lasting()
        if lasting:
            raise Diverged(
                f"{difference} with the same choices. A variable outlives a run and cannot be restored: "
                f"{', '.join(lasting)}. Make it when the process runs"
            )
        raise Diverged(
            f"{difference} with the same choices. Something outside the world decides: a clock, randomness, "
            "an identifier, the order of a set, a file, or a variable that outlives a run; time, randomness "
            "and identifiers of the world come from store.env"
        )


def _difference(first: _Record, record: Callable[[], _Record]) -> str:
    """Where another run differs; empty when it does not."""
    try:
        second = record()
    except _Other:
        return "a step of one run is not possible in another"
    for number, (one, other) in enumerate(zip(first.steps, second.steps, strict=False), 1):
        if one[:2] != other[:2]:
            return f"step {number}: {one[0]} issued {one[1]} in one run and {other[1]} in another"
        if one != other:
            got, other_got = _short(one[2]), _short(other[2])
            return f"step {number}: {one[0]} got {got} for {one[1]} in one run and {other_got} in another"
    same = first.end == second.end and len(first.steps) == len(second.steps)
    return "" if same else f"a run ends with {_apart(first.end, second.end)} in another"


def _text(value: Any) -> str:
    """Without addresses, which differ from object to object."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _apart(one: str, other: str) -> str:
    """Two texts from a little before where they differ."""
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(0, at - 20)
    return f"{_short(one[start:])} in one case, and {_short(other[start:])}"
