"""Vacuity warnings: the parts of a machine that no reachable state ever tests.

A property that holds because nothing ever happens proves nothing. After a complete exploration this finds

    a method without a decorator that nothing uses (after an incomplete one as well)
    a choice of a parameter with which an action never happens, though with others it does
    an action that has no choice of its parameters at these sizes
    a field that is the same in every reachable state, unless the machine declares where it changes
    an `implies` whose condition is true nowhere
    a goal that every run begins with, or that is true everywhere; a `may_end` that allows every state
    a demand of fairness for actions that never happen

Each is a sentence, and none changes a verdict. Labels were counted during the exploration; everything else
reads the states once more and stops when it has seen enough, mostly in the first levels.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

import numpy as np

from fencepost.model.kernel.language.declare import MARK, ActionDeclared, Property
from fencepost.model.kernel.language.errors import MustCall
from fencepost.model.kernel.language.fairness import demands
from fencepost.model.kernel.language.layout import U64, Mask
from fencepost.model.kernel.language.machine import Machine, marked
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.search.explore import Search

_CHUNK = 1 << 15


def vacuity_warnings(search: Search, *, whole: bool = True) -> tuple[str, ...]:
    """The sentences; few after an incomplete exploration. `whole`: no reduction was used."""
    if not search.complete:
        return tuple(unused(search.model))
    found = [
        *unused(search.model),
        *_no_choice(search.model),
        *_never_with(search),
        *_fair_to_nothing(search),
    ]
    found += [*_never_changes(search)] if whole else []
    for wanted in search.model.properties:
        found += [*wanted.kind.demands_nothing(wanted, Reached(search)), *_antecedents(search, wanted)]
    if search.model.has_endings and all(search.model.may_end(chunk).all() for chunk in _states(search)):
        found.append("may_end allows every reachable state: no deadlock could be found")
    return tuple(found)


class Reached:
    """The states of a complete search, for a kind of property that finds out whether it demands anything."""

    def __init__(self, search: Search) -> None:
        self.model = search.model
        self.starts = search.levels[0]
        self._search = search

    def states(self) -> Iterator[U64]:
        """All states, in chunks."""
        return _states(self._search)

    def holds(self, condition: Property, states: U64) -> Mask:
        """The states in which a condition is true, past the test of a reduction: one choice of the parameters
        may name a member; all of them do not."""
        return Model.holds(self.model, condition, states)


def _states(search: Search) -> Iterator[U64]:
    for level in search.levels:
        for start in range(0, level.shape[1], _CHUNK):
            yield level[:, start : start + _CHUNK]


def unused(model: Model) -> Iterator[str]:
    """Methods without a decorator that nothing in the machine uses."""
    bases = [base for base in model.machine.__mro__ if base not in Machine.__mro__]
    methods = {
        name: value
        for base in reversed(bases)
        for name, value in vars(base).items()
        if isinstance(value, MustCall)
    }
    used: set[str] = set()
    for base in bases:
        for value in vars(base).values():
            function = value.function if isinstance(value, MustCall) else value
            used |= set(_names_in(getattr(function, "__code__", None))) - {getattr(function, "__name__", "")}
    for wanted in model.properties:
        if wanted.refines is not None:
            used |= _names_of(wanted.refines.shows.values())
    for name, value in methods.items():
        if getattr(value, MARK, None) is None and name not in used and not name.startswith("_"):
            yield (
                f"{name} has no decorator, and nothing in the machine uses it: "
                "it is no action and no property (@action, @invariant, ...)"
            )


def _names_of(shows: Iterable[Any]) -> set[str]:
    """The names of the functions with which a refinement names labels, and the names in their text."""
    found: set[str] = set()
    for shown in shows:
        if isinstance(shown, tuple | list):
            found |= _names_of(shown)
        elif callable(shown):
            found |= {getattr(shown, "__name__", ""), *_names_in(getattr(shown, "__code__", None))}
    return found


def _names_in(code: CodeType | None) -> Iterator[str]:
    if code is not None:
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from _names_in(constant)


def _no_choice(model: Model) -> Iterator[str]:
    for declared in marked(model.machine, ActionDeclared):
        if declared.part == "action" and declared.name not in model.actions:
            yield f"{declared.name} never happens: it has no choice of its parameters at these sizes"


def _never_with(search: Search) -> Iterator[str]:
    """Choices of a parameter that never happen, where others of the same parameter do."""
    fired: dict[str, dict[str, dict[object, int]]] = {}
    model = search.model
    for label, count in zip(model.labels, model.fired_in_all(search.fired), strict=True):
        for name, value in label.parameters:
            counts = fired.setdefault(label.action, {}).setdefault(name, {})
            counts[value] = counts.get(value, 0) + count
    for action, parameters in fired.items():
        for name, counts in parameters.items():
            never = [str(value) for value, count in counts.items() if not count]
            if never and len(never) < len(counts):
                yield f"{action} never happens with {name}={', '.join(never)}"


def _fair_to_nothing(search: Search) -> Iterator[str]:
    fired = search.model.fired_in_all(search.fired)
    for wanted in search.model.properties:
        for demand in demands(wanted, search.model.labels):
            if not any(fired[label] for label in demand.labels):
                yield f"{wanted.name} is fair to {demand.text}, which never happens: that demands nothing"


def _never_changes(search: Search) -> Iterator[str]:
    still = [name for name in unchanged(search) if search.model.must_change(name)]
    if still:
        yield f"the same in every reachable state, for nothing changes it: {', '.join(still)}"


def left_out(search: Search, *, whole: bool = True) -> dict[str, str]:
    """Actions that never happen and fields that never change, where the machine declares that they need not:
    what they need. Nothing after an incomplete exploration."""
    if not search.complete:
        return {}
    model, machine = search.model, search.model.machine
    fired = {
        label.action
        for label, count in zip(model.labels, model.fired_in_all(search.fired), strict=True)
        if count
    }
    idle = [name for name in model.actions if name not in fired and not model.must_fire(name)]
    still = [name for name in unchanged(search) if not model.must_change(name)] if whole else []
    where = [(name, machine.fires_at[name]) for name in idle]
    where += [(name, machine.changes_at[name]) for name in still]
    return {name: _needed(model, at) for name, at in where}


def _needed(model: Model, where: Mapping[str, int] | str) -> str:
    """The settings that are needed and are not given."""
    if isinstance(where, str):
        return f"--without {where}"
    other = [f"{name}={value}" for name, value in where.items() if model.sizes[name] != value]
    return " ".join(f"--set {one}" for one in other)


def unchanged(search: Search) -> list[str]:
    """Return the fields whose bits are the same in all states."""
    model = search.model
    first = search.levels[0][:, :1]
    differ = np.zeros((model.words, 1), np.uint64)
    for chunk in _states(search):
        differ |= np.bitwise_or.reduce(chunk ^ first, axis=1, keepdims=True)
    changed = {
        _field_of(model, name)
        for name, slot in model.layout.slots.items()
        for word, shift in (slot.place(index) for index in range(slot.count))
        if int(differ[word, 0]) >> shift & ((1 << slot.kind.width) - 1)
    }
    known = dict.fromkeys(_field_of(model, name) for name in model.layout.slots)
    return [name for name in known if name not in changed]


def _field_of(model: Model, run: str) -> str:
    """The field, or the field of a role, that a run of cells belongs to."""
    parts = run.split(".")
    return ".".join(parts[: 2 if parts[0] in model.roles else 1])


def _antecedents(search: Search, wanted: Property) -> Iterator[str]:
    """Every `implies` in a property of states whose condition is true in no reachable state."""
    conditions = wanted.kind.conditions(wanted, search.model.sizes)
    seen: dict[str, bool] = {}
    for chunk in _states(search):
        for condition in conditions:
            search.model.watch(condition, chunk, seen)
        if all(seen.values()):
            return
    for place, was_true in seen.items():
        if not was_true:
            yield f"{wanted.name} has an implication whose condition is true in no reachable state ({place})"
