"""Counterexamples: how the machine gets from a start to a state, as a value that prints and replays.

A counterexample is found without parent pointers. The levels of the exploration are sets of states with the
same distance from the start, so a state of level d has a predecessor in level d - 1. Expand that level again,
chunk by chunk, until one of its successors is the state; then continue with that predecessor. The first
chunk, label and row in order is taken, so one machine always gives the same counterexample, and every
counterexample is shortest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fencepost.model.kernel.language.bags import Items
from fencepost.model.kernel.language.layout import U64, PackedState, packed
from fencepost.model.kernel.language.model import Model, Transition

if TYPE_CHECKING:
    from fencepost.model.kernel.compiled.engine import Compiled
    from fencepost.model.kernel.search.explore import Found, Search

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Step:
    """One step of a counterexample: the action with its parameters, and only the fields that changed.

    A change of an array names the element, `manager[1]`, and one of a role the field, `writer[0].at`.
    """

    number: int
    action: str
    parameters: Mapping[str, object]
    changes: Mapping[str, tuple[object, object]]

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        changes = ", ".join(
            f"{name}: {format_value(old)} -> {format_value(new)}" for name, (old, new) in self.changes.items()
        )
        return f"{self.number}. {self.action}({parameters})  {changes or 'nothing changes'}"


@dataclass(frozen=True)
class TraceStep:
    """One step of a counterexample in JSON: the first has the whole state, the others the changes."""

    step: int
    action: str | None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    changes: Mapping[str, Any] | None = None
    back_to: int | None = None


@dataclass(frozen=True)
class Counterexample:
    """A start and the steps from it; the end is again the state before step `loop`, if that is given."""

    start: Mapping[str, object]
    steps: tuple[Step, ...]
    loop: int | None = None

    def __len__(self) -> int:
        return len(self.steps)

    def lines(self) -> list[str]:
        """The counterexample as text, one line a step."""
        lines = [f"0. start  {format_fields(self.start)}", *(str(step) for step in self.steps)]
        return lines if self.loop is None else [*lines, f"   ... and again from step {self.loop}"]

    def trace(self) -> tuple[TraceStep, ...]:
        """The counterexample as plain values; the first entry is the start, with every field."""
        found = [TraceStep(0, None, state={name: to_json(value) for name, value in self.start.items()})]
        for step in self.steps:
            changes = {name: [to_json(old), to_json(new)] for name, (old, new) in step.changes.items()}
            parameters = {name: to_json(value) for name, value in step.parameters.items()}
            found.append(TraceStep(step.number, step.action, parameters, changes=changes))
        if self.loop is not None:
            found[-1] = replace(found[-1], back_to=self.loop)
        return tuple(found)


def found_at(search: "Search", found: "Found") -> Counterexample:
    """The shortest counterexample that ends where a property was decided."""
    steps, end = chain(search.model, search.levels, found.depth, found.state, search.compiled), found.state
    if found.label is not None and found.after is not None:
        steps, end = [*steps, (found.state, found.label)], found.after
    return counterexample_of(search.model, *search.model.lifted(steps, end))


def chain(
    model: Model,
    levels: Sequence[U64],
    depth: int,
    state: PackedState,
    compiled: "Compiled | None" = None,
) -> list[Transition]:
    """The transitions that lead to `state` of level `depth`."""
    steps: list[Transition] = []
    for level in reversed(levels[:depth]):
        steps.append(_predecessor(model, level, state, compiled))
        state = steps[-1][0]
    return steps[::-1]


def counterexample_of(
    model: Model, steps: Sequence[Transition], end: PackedState, loop: int | None = None
) -> Counterexample:
    """The counterexample of transitions that end in `end`."""
    states = [state for state, _ in steps] + [end]
    readable = [
        Step(
            number,
            label.action,
            model.parameters(label, state),
            changed(model, states[number - 1], states[number]),
        )
        for number, (state, label) in enumerate(steps, start=1)
    ]
    return Counterexample(model.unpack(states[0]), tuple(readable), loop)


def changed(model: Model, before: PackedState, after: PackedState) -> dict[str, tuple[object, object]]:
    """The fields that differ, by name, down to the elements of arrays."""
    old, new = model.unpack(before), model.unpack(after)
    found: dict[str, tuple[object, object]] = {}
    for name in old:
        if old[name] != new[name]:
            found.update(_differences(model, name, name, old[name], new[name]))
    return found


def format_value(value: object) -> str:
    """A value as a counterexample prints it: names bare, sets in braces."""
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(str, value))) + "}"
    if isinstance(value, tuple) and not isinstance(value, Items):
        return "[" + ", ".join(map(format_value, value)) + "]"
    return str(value)


def format_fields(values: Mapping[str, object]) -> str:
    """The fields of a state on one line."""
    return ", ".join(f"{name}: {format_value(value)}" for name, value in values.items())


def to_json(value: object) -> object:
    """A value as JSON can hold it."""
    if isinstance(value, frozenset):
        return [to_json(each) for each in sorted(value, key=_order)]
    if isinstance(value, dict):
        return {name: to_json(part) for name, part in value.items()}
    return [to_json(item) for item in value] if isinstance(value, tuple) else value


def _order(value: object) -> Any:
    """The key that orders the items of a set: numbers by size, all else by its text."""
    return value if isinstance(value, int | str) else str(value)


def _differences(
    model: Model, field: str, name: str, old: Any, new: Any
) -> Iterator[tuple[str, tuple[object, object]]]:
    """The differences within a field: of an array by its elements, of a role by the fields of its members."""
    array = model.arrays.get(field)
    if array is not None and isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                element = f"{name}[{array[index] if array else index}]"
                if field in model.roles:
                    for part in one:
                        if one[part] != other[part]:
                            yield from _differences(
                                model, f"{field}.{part}", f"{element}.{part}", one[part], other[part]
                            )
                else:
                    yield element, (one, other)
    else:
        yield name, (old, new)


def _predecessor(model: Model, level: U64, state: PackedState, compiled: "Compiled | None") -> Transition:
    for start in range(0, level.shape[1], _CHUNK):
        chunk = level[:, start : start + _CHUNK]
        if compiled is not None and (done := compiled.predecessor(chunk, state)) is not None:
            if done:
                return done[0]
            continue
        for label in model.labels:
            frame = model.apply(chunk, label)
            if frame is None:
                continue
            same = np.ones(frame.size, np.bool_)
            for word, wanted in zip(model.representatives(np.stack(frame.finish())), state, strict=True):
                same &= word == np.uint64(wanted)
            rows = np.flatnonzero(same)
            if len(rows):
                return packed(chunk, int(frame.origin()[rows[0]])), label
    raise AssertionError("a state of one level has no predecessor in the level before")
