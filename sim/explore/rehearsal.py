"""Before a search: whether runs repeat themselves, and whether each process has a memory of its own.

A search runs the program again and again and takes a run for a function of its choices. So two schedules, the
plain one and a random one with faults, are run twice and compared. They differ when something outside of the
world decides: a file, the order of a set, a variable that outlives a run.

All processes of a world share the variables of the user's modules, and a crash does not take them away. In
production each process has its own and starts again with new ones. When a run changed such variables, the
plain schedule, and the same with a crash at each of its steps, is run once more with a copy for each process
and life. Whenever a process goes on, the variables get the values that it left in them. A cache of values
that never change makes no difference then; anything else is refused.

Not seen: differences that only other schedules would show; and state that is no Python object (a file, an
iterator written in C), unless a repeated run differs.
"""

import array
import functools
import random
import re
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from fencepost.impl.environment import SeededEnvironment
from fencepost.sim.explore.runs import Choice, Setting, describe, final_state, name_of, run
from fencepost.sim.explore.sampling import any_choice
from fencepost.sim.explore.tokens import HARMLESS, by_rule
from fencepost.sim.world import World
from fencepost.sim.world.places import held, set_binding
from fencepost.sim.world.present import is_users_class
from fencepost.sim.world.process import Diverged, Process
from fencepost.sim.world.reachable import is_class, reachable, slots

CRASHES_MAX = 12
"""Places of the plain schedule where a crash is tried."""

RECORDS = 20
"""Random schedules that are recorded."""

T = TypeVar("T")
Choose = Callable[[World, Sequence[int]], Choice]


def rehearse(setting: Setting, then: Callable[[Setting], T]) -> T:
    """Raise `Diverged` when runs do not repeat, or depend on variables that processes share.

    Returns what `then` returns; afterwards variables are as if nothing had run.
    """
    variables = Variables(setting.program)
    before = variables.copy()
    try:
        plain = _repeat(setting, lambda world, enabled: by_rule(world, enabled, _last(world)))
        draw = SeededEnvironment(setting.seed).stream("rehearsal")
        _repeat(setting, lambda world, enabled: any_choice(draw, world, enabled))
        changed = variables.changed(before)
        if changed:
            _keep_apart(setting, variables, plain, changed)
        variables.put_back(before)
        return then(setting)
    finally:
        variables.put_back(before)


def records(setting: Setting) -> list["_Record"]:
    """Return the plain schedule and a few random ones, for a comparison with another interpreter."""
    draw = SeededEnvironment(setting.seed).stream("records")
    with held(setting.program):
        return [
            _Record(setting, lambda world, enabled: by_rule(world, enabled, _last(world))),
            *(
                _Record(setting, lambda world, enabled: any_choice(draw, world, enabled))
                for _ in range(RECORDS)
            ),
        ]


def _last(world: World) -> int:
    return int(world.trace[-1][0]) if world.trace else -1


class _Record:
    """The steps of a run, as texts that can be compared and shown."""

    def __init__(self, setting: Setting, choose: Choose, kind: type[Process] = Process) -> None:
        self.choices: list[Choice] = []
        self.steps: list[tuple[str, str, str]] = []
        """Steps: process, operation and answer."""
        self.crashable: list[int] = []
        world = setting.world()
        world.run.use_process_type(kind)
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
        if "crash" in world.alternatives(choice[0]):
            self.crashable.append(len(self.choices))
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


def _repeat(setting: Setting, choose: Choose) -> _Record:
    first = _Record(setting, choose)
    difference = _difference(first, lambda: _Record(setting, _again(first.choices)))
    if difference:
        raise Diverged(
            f"{difference} with the same choices. Something outside the world decides: a clock, randomness, "
            "an identifier, the order of a set, a file, or a variable that outlives a run; time, randomness "
            "and identifiers of the world come from store.env"
        )
    return first


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


# Variables that processes share.


class Variables:
    """Variables that the program can change in the user's modules, classes, functions and objects."""

    def __init__(self, program: Any) -> None:
        self._objects = [one for one in reachable(program, is_followed) if content_of(one) is not None]

    def copy(self) -> list[tuple[Any, Any]]:
        """Return the variables as they are: each container with its content."""
        return [(one, content_of(one)) for one in self._objects]

    def changed(self, before: Sequence[tuple[Any, Any]]) -> list[str]:
        """Return the names of the variables that have changed, or texts where they have no names."""
        names = {
            id(value): f"{one['__name__']}.{name}".removeprefix("_fencepost_user_")
            for one, _ in before
            if type(one) is dict and "__name__" in one
            for name, value in one.items()
        }
        return [
            names.get(id(one)) or _named(one, content)
            for one, content in before
            if not same_content(content_of(one), content)
        ]

    def put_back(self, copies: Sequence[tuple[Any, Any]]) -> None:
        for one, content in copies:
            if not same_content(content_of(one), content):
                _restore(one, content)


# By the methods of the container itself: those of a subclass may do something else.
_CONTAINERS: dict[Any, Callable[[Any], Any]] = {
    dict: lambda mapping: dict(dict.items(mapping)),
    OrderedDict: lambda mapping: dict(OrderedDict.items(mapping)),
    list: lambda sequence: list(list.__iter__(sequence)),
    set: lambda elements: set(set.__iter__(elements)),
    deque: lambda sequence: list(deque.__iter__(sequence)),
    bytearray: bytes,
    array.array: list,
    types.CellType: lambda cell: _cell(cell),
    random.Random: lambda drawing: drawing.getstate(),
    functools._lru_cache_wrapper: lambda cached: cached.cache_info().currsize,
}


def _cell(cell: Any) -> Any:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _container(value: Any) -> Any:
    """Return the container that an object is, by itself or by its class."""
    return next((kind for kind in type(value).__mro__ if kind in _CONTAINERS), None)


def is_container(value: Any) -> bool:
    """Return True if an object is a container, by itself or by its class."""
    return _container(value) is not None


def content_of(value: Any) -> Any:
    """Return the content of a container; None for any other object."""
    kind = _container(value)
    if kind is not None:
        return _CONTAINERS[kind](value)
    if is_class(value):
        return {name: one for name, one in vars(value).items() if not name.startswith("__")}
    return slots(value) or None


def is_followed(value: Any) -> bool:
    """Return True if the walk for variables enters it: objects of libraries are their own business."""
    kind = type(value)
    return bool(_container(value) or kind.__module__ in ("builtins", "functools") or is_users_class(kind))


def same_content(one: Any, other: Any) -> bool:
    """By identity: two containers with equal content may part later."""
    if type(one) in (list, dict) and len(one) == len(other):
        pairs = zip(one.items(), other.items(), strict=True) if type(one) is dict else ()
        if type(one) is dict:
            return all(a == b and x is y for (a, x), (b, y) in pairs)
        return all(x is y for x, y in zip(one, other, strict=True))
    return bool(one == other)


def _restore(target: Any, content: Any) -> None:
    kind = _container(target)
    if kind is random.Random:
        target.setstate(content)
    elif kind is functools._lru_cache_wrapper:
        target.cache_clear()
    elif kind in (set, OrderedDict):
        kind.clear(target)
        kind.update(target, content)
    elif kind in (list, deque, bytearray):
        kind.clear(target)
        kind.extend(target, content)
    elif kind is array.array:
        target[:] = array.array(target.typecode, content)
    elif kind is types.CellType:
        if content:
            target.cell_contents = content[0]
    else:
        now = content_of(target)
        for name in now.keys() - content.keys():
            dict.pop(target, name) if kind is dict else delattr(target, name)
        for name, value in content.items():
            if name not in now or now[name] is not value:
                dict.__setitem__(target, name, value) if kind is dict else set_binding(target, name, value)


def _named(target: Any, content: Any) -> str:
    if type(target) is dict and "__name__" in target:
        now = {name for name, value in target.items() if name not in content or content[name] is not value}
        return f"{target['__name__']}.{', '.join(sorted(map(str, now)))}"
    if is_class(target) or type(target) is functools._lru_cache_wrapper:
        return str(target.__qualname__)
    return _short(f"{type(target).__name__} {_text(target)}")


class _Apart(Process):
    """A process with variables of its own."""

    variables: ClassVar[Variables]

    def start(self) -> Any:
        if not hasattr(type(self), "fresh"):
            type(self).fresh = self.variables.copy()  # type: ignore[attr-defined]  # made for one run
        if self.machine is self:
            self.kept = type(self).fresh  # type: ignore[attr-defined]  # made for one run
        return self._inside(super().start)

    def resume(self, answer: Any, last: int) -> Any:
        return self._inside(lambda: super(_Apart, self).resume(answer, last))

    def crash(self) -> bool:
        return bool(self._inside(super().crash))

    def _inside(self, act: Callable[[], Any]) -> Any:
        """Threads have those of their process."""
        owner: Any = self.machine
        outside = self.variables.copy()
        self.variables.put_back(owner.kept)
        try:
            return act()
        finally:
            owner.kept = self.variables.copy()
            self.variables.put_back(outside)


def _keep_apart(setting: Setting, variables: Variables, plain: _Record, changed: Sequence[str]) -> None:
    places = plain.crashable[:: max(1, len(plain.crashable) // CRASHES_MAX)] if setting.budget.crash else []
    before = variables.copy()
    for place in [-1, *places]:
        together = _Record(setting, _crashing(plain.choices[:place] if place >= 0 else plain.choices, place))
        variables.put_back(before)
        apart = functools.partial(
            _Record, setting, _again(together.choices), type("Apart", (_Apart,), {"variables": variables})
        )
        difference = _difference(together, apart)
        variables.put_back(before)
        if difference:
            shared = _short("; ".join(dict.fromkeys(changed)))
            raise Diverged(
                f"{difference} in which each process has variables of its own. Processes changed {shared}: "
                "all processes of an audit share such a variable and a crash does not clear it. Keep it in "
                "an object that the entry point makes, or in the store"
            )


def _crashing(choices: Sequence[Choice], place: int) -> Choose:
    """Follow the choices; then a crash, if there is a place for one; then go on by the common rule."""
    left = iter(choices)

    def choose(world: World, enabled: Sequence[int]) -> Choice:
        given = next(left, None)
        if given is not None and given[0] in enabled:
            return given
        choice = by_rule(world, enabled, _last(world))
        crashes = len(world.trace) == place and "crash" in world.alternatives(choice[0])
        return (choice[0], "crash") if crashes else choice

    return choose
