"""Refinement between two machines: every step of this one is a step of the other, or changes nothing there.

A state mapping alone, as in TLA+:

    class Paxos(Machine):
        @refines(Consensus, values=values)
        def consensus(s):
            return {"chosen": s.decided}

The method returns the mapping: for each field of the other machine the expression of this one that equals it.
A field that the mapping leaves out equals the field of the same name, as in a TLA+ INSTANCE. The keywords are
the sizes of the other machine, as numbers or as sizes of this one. The property holds if each start maps to a
start, and each transition to a transition or to no change. That is refinement of safety: a mapped run may
also stutter forever, whatever fairness the other machine names.

A state mapping cannot express a machine that keeps history which the state of this one does not have. Then
the second argument names, for each action of this machine, the labels of the other one that it performs:

    class Lock(Machine):
        @refines(LockObserved, {"acquire": "granted", "release": "freed"}, clients=clients)
        def observed(s):
            return {"holder": s.holder, "ever": HISTORY}

An action that is left out is invisible: it performs no label. The name of a label takes the action's
parameters of the same names. A function of the states before the action, and of those of the action's
parameters that it names, returns one `does(label, parameter=...)` or several in sequence. A parameter, and
the condition `when`, may be a column. `either(does(...), does(...), NOTHING)` is the first of these that is
enabled. A function of `(before, after)` reads the states after the action as well, and a parameter called
`observed` is the state of the other machine.

In the mapping, `HISTORY` marks a field that the state of this machine does not determine, and
`related(condition)` is a condition in place of an equation. A mapping of `(s, observed)` also reads the state
of the other machine.

Several machines may refine one other machine, each a `part` of it: the actions that it performs. Then a field
that its mapping leaves out belongs to another part, and is HISTORY.

`search.product` explores both machines together: every action performs its labels on the other machine, which
must allow them; and in every state the mapping must hold. This proves the refinement at the explored sizes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from fencepost.model.kernel.language.columns import Truth, describe, to_truth
from fencepost.model.kernel.language.declare import Property, declare_property, sentence
from fencepost.model.kernel.language.errors import ModellingMistake, missing_return, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, Size, resolve
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.kinds import Refinement, Step
from fencepost.model.kernel.language.layout import U64, whole_states
from fencepost.model.kernel.language.machine import Machine, declared
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.language.paths import Marker
from fencepost.model.kernel.language.roles import Role, RoleAccess

Mapped = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True)
class Does:
    """A label of the other machine that an action performs. Parameters and `when` may be columns."""

    action: str
    parameters: Mapping[str, Any]
    when: Truth | bool = True


def does(action: str, /, *, when: Truth | bool = True, **parameters: Any) -> Does:
    """The action of the other machine with these parameters, performed in the states where `when` holds."""
    return Does(action, parameters, when)


HISTORY = Marker("HISTORY")
"""In a state mapping: a field that the state of this machine does not determine."""
NOTHING = Marker("NOTHING")
"""Among the labels of `either`, the last: no label is performed."""


@dataclass(frozen=True)
class Either:
    """Labels of the other machine of which, in each state, the first that is enabled is performed."""

    labels: tuple[Does, ...]
    or_nothing: bool


def either(*labels: Any) -> Either:
    """The first of these labels that is enabled. With `NOTHING` at the end, none needs to be enabled."""
    or_nothing = bool(labels) and labels[-1] is NOTHING
    given = labels[:-1] if or_nothing else labels
    for each in given:
        if not isinstance(each, Does):
            raise ModellingMistake(f"either takes does(...), and NOTHING at the end, not {describe(each)}")
    return Either(given, or_nothing)


@dataclass(frozen=True)
class Related:
    """A condition on a field of the other machine, in place of an equation."""

    holds: Truth


def related(condition: Truth) -> Related:
    """In a state mapping, in place of an expression: a condition on the states of both machines."""
    return Related(to_truth(condition, "&"))


Shown = str | Callable[..., Any] | Sequence[Any]


@dataclass(frozen=True)
class Refines:
    """A declared refinement with labels: the other machine, the labels of each action, the state mapping."""

    machine: type[Machine]
    shows: Mapping[str, Shown]
    mapping: Mapped
    sizes: Mapping[str, AnyExtent]
    at: Mapping[str, int]
    """Sizes of this machine at which the refinement is proven, in place of their defaults."""
    part: tuple[str, ...] = ()
    """The actions of the other machine that this one can perform, if it has a part in it only."""

    def proven_at(self, model: Model) -> dict[str, int]:
        """The sizes of the proof: those of the model, with `at` in place of its defaults."""
        defaults = {name: size.default for name, size in declared(model.machine, Size)}
        for name in self.at:
            if name not in defaults:
                raise ModellingMistake(
                    f"`at` names '{name}', which is no size of {model.name}{suggestion(name, defaults)}"
                )
        return {
            name: self.at.get(name, value) if value == defaults[name] else value
            for name, value in model.sizes.items()
        }

    def other(self, model: Model) -> Model:
        """The other machine at the sizes that belong to those of `model`, without the same switches."""
        sizes = {name: resolve(extent, model.sizes) for name, extent in self.sizes.items()}
        known = {*self.machine.safeguards, *self.machine.assumptions}
        return _model(self.machine, tuple(sizes.items()), frozenset(known & model.without))

    @cached_property
    def reads_other(self) -> bool:
        """True if the mapping also reads the state of the other machine."""
        return self.mapping.__code__.co_argcount > 1


def refines(
    other: type[Machine],
    shows: Mapping[str, Shown] | None = None,
    /,
    *,
    at: Mapping[str, int] = MappingProxyType({}),
    part: Sequence[str] = (),
    **sizes: AnyExtent,
) -> Callable[[Mapped], Mapped]:
    """Every start and every step of this machine is one of `other`, as the method maps its fields."""
    given: object = other
    if not (isinstance(given, type) and issubclass(given, Machine)):
        raise ModellingMistake(f"refines takes a machine, not {describe(other)}: write @refines(Other)")
    if shows is None and at:
        raise ModellingMistake("`at` has the sizes of a refinement with labels: name the labels as well")

    def decorate(mapping: Mapped) -> Mapped:
        doc = sentence(mapping) or f"Every step is a step of {other.__name__}, or changes nothing there."
        if shows is not None:
            link = Refines(other, dict(shows), mapping, dict(sizes), dict(at), tuple(part))
            return declare_property(
                mapping, Property(mapping.__name__, Refinement(), mapping, doc, refines=link)
            )
        return declare_property(mapping, _mapped_alone(other, mapping, sizes, doc))

    return decorate


@lru_cache(maxsize=32)
def _model(
    other: type[Machine], sizes: tuple[tuple[str, int], ...], without: frozenset[str] = frozenset()
) -> Model:
    return Model(other, dict(sizes), without=without)


def mapping_of(given: object, other: Model) -> Mapping[str, Any]:
    """The result of a mapping; an error unless it names fields of the other machine."""
    if not isinstance(given, Mapping):
        raise ModellingMistake(
            f"a refinement returns {describe(given)}{missing_return(given) or ':'} return a dictionary from "
            f"the fields of {other.name} to expressions"
        )
    known = fields_of(other)
    for name in given:
        if name not in known and name not in other.access:
            raise ModellingMistake(
                f"{other.name} has no field '{name}'{suggestion(name, known)}; its fields are {names(known)}"
            )
    return given


def fields_of(other: Model) -> list[str]:
    """The fields that a mapping gives expressions for; those of a role as `role.field`."""
    found = []
    for name, field in other.fields.items():
        found += [f"{name}.{part}" for part in field.fields] if isinstance(field, Role) else [name]
    return found


def read_field(rows: Any, name: str) -> Any:
    """A field of a machine, by its name in a mapping: of a role one expression for each member."""
    role, _, part = name.partition(".")
    return [getattr(member, part) for member in getattr(rows, role)] if part else getattr(rows, name)


def assign(frame: Frame, name: str, value: Any) -> None:
    """Write the value that a mapping gives to a field."""
    role, _, part = name.partition(".")
    access = frame.model.access[role]
    if part:
        assert isinstance(access, RoleAccess), "a name with a dot is a field of a role"
        values = [*value]
        if len(values) != access.extent:
            raise ModellingMistake(
                f"`{name}` is mapped to {len(values)} values: give one for each of {access.extent} members"
            )
        for number, each in enumerate(values):
            access.element.ways[part].write(frame, number, each)
    elif hasattr(value, "assign"):
        access.read(frame, 0).assign(value)
    else:
        access.write(frame, 0, value)


# A state mapping alone: a property of steps.


def _mapped_alone(
    other: type[Machine], mapping: Mapped, sizes: Mapping[str, AnyExtent], doc: str
) -> Property:
    known = _KnownSteps()

    def refined(s: Any) -> Model:
        settled = ((name, resolve(extent, s.frame.model.sizes)) for name, extent in sizes.items())
        return _model(other, tuple(settled))

    def starts(s: Any) -> Truth:
        model = refined(s)
        return Truth.of(
            s.frame, np.isin(whole_states(_mapped(model, mapping, s)), whole_states(model.initial()))
        )

    def steps(before: Any, after: Any) -> Truth:
        model = refined(before)
        one, two = _mapped(model, mapping, before), _mapped(model, mapping, after)
        return Truth.of(before.frame, known.are_steps(model, one, two))

    return Property(mapping.__name__, Step(), steps, doc, starts=starts)


def _mapped(model: Model, mapping: Mapped, s: Any) -> U64:
    """The packed states of the other machine for these rows."""
    given = mapping_of(s.frame.branching.computed(lambda: mapping(s)), model)
    frame = Frame(model, np.zeros((model.words, s.frame.size), np.uint64))
    for name in model.access:
        assign(frame, name, given[name] if name in given else getattr(s, name))
    return np.stack([np.broadcast_to(word, s.frame.size) for word in frame.finish()])


class _KnownSteps:
    """Judges each distinct pair of mapped states once: many transitions map to the same few pairs."""

    def __init__(self) -> None:
        self._known: dict[Model, set[bytes]] = {}

    def are_steps(self, model: Model, before: U64, after: U64) -> "np.ndarray[Any, Any]":
        """For each pair whether it is a transition, or no change."""
        found: np.ndarray[Any, Any] = (before == after).all(axis=0)
        moved = np.flatnonzero(~found)
        if not len(moved):
            return found
        pairs = np.concatenate([before.take(moved, axis=1), after.take(moved, axis=1)])
        whole, first, place = np.unique(whole_states(pairs), return_index=True, return_inverse=True)
        known = self._known.setdefault(model, set())
        texts = [each.tobytes() for each in whole]
        good = np.array([text in known for text in texts], np.bool_)
        new = np.flatnonzero(~good)
        if len(new):
            rows = pairs.take(first.take(new), axis=1)
            good[new] = _are_steps(model, rows[: model.words], rows[model.words :])
            known.update(texts[number] for number in new.tolist() if good[number])
        found[moved] = good.take(place)
        return found


def _are_steps(model: Model, before: U64, after: U64) -> "np.ndarray[Any, Any]":
    """For each pair of different states whether it is a transition."""
    found: np.ndarray[Any, Any] = np.zeros(before.shape[1], np.bool_)
    for label in model.labels:
        open_rows = np.flatnonzero(~found)
        if not len(open_rows):
            break
        frame = model.apply(before.take(open_rows, axis=1), label)
        if frame is not None:
            rows = open_rows.take(frame.origin())
            same = (np.stack(frame.finish()) == after.take(rows, axis=1)).all(axis=0)
            found[rows.compress(same)] = True
    return found
