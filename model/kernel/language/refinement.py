"""Refinement between two machines: every step of this one is a step of the other, or changes nothing there.

    class Paxos(Machine):
        @refines(Consensus, values=values)
        def consensus(s):
            return {"chosen": s.decided}

The method is the mapping: for each field of the other machine the expression of this one that stands for it.
A field that the mapping leaves out is the field of the same name, as in a TLA+ INSTANCE. The keywords are the
sizes of the other machine, as numbers or as sizes of this one.

The property holds if each start maps to a start, and each transition to a transition or to no change. That is
refinement of safety: a mapped run may also stand still forever, whatever fairness the other machine names.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fencepost.model.kernel.language.columns import Truth, describe
from fencepost.model.kernel.language.declare import Property, declare_property, sentence
from fencepost.model.kernel.language.errors import ModellingMistake, missing_return, names, suggestion
from fencepost.model.kernel.language.fields import AnyExtent, resolve
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import U64, whole_states
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.model import Model

Mapped = Callable[[Any], Mapping[str, Any]]


def refines(other: type[Machine], /, **sizes: AnyExtent) -> Callable[[Mapped], Mapped]:
    """Every start and every step of this machine is one of `other`, as the method maps its fields."""
    given: object = other
    if not (isinstance(given, type) and issubclass(given, Machine)):
        raise ModellingMistake(f"refines takes a machine, not {describe(other)}: write @refines(Other)")

    def decorate(mapping: Mapped) -> Mapped:
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
            return Truth.of(before.frame, _are_steps(model, one, two))

        doc = sentence(mapping) or f"Every step is a step of {other.__name__}, or changes nothing there."
        return declare_property(mapping, Property(mapping.__name__, "step", steps, doc, starts=starts))

    return decorate


@lru_cache(maxsize=16)
def _model(other: type[Machine], sizes: tuple[tuple[str, int], ...]) -> Model:
    return Model(other, dict(sizes))


def _mapped(model: Model, mapping: Mapped, s: Any) -> U64:
    """The packed states of the other machine for these rows."""
    given = s.frame.branching.computed(lambda: mapping(s))
    if not isinstance(given, Mapping):
        raise ModellingMistake(
            f"a refinement returns {describe(given)}{missing_return(given) or ':'} return a dictionary from "
            f"the fields of {model.name} to expressions"
        )
    for name in given:
        if name not in model.access:
            raise ModellingMistake(
                f"{model.name} has no field '{name}'{suggestion(name, model.access)}; its fields are "
                f"{names(model.access)}"
            )
    frame = Frame(model, np.zeros((model.words, s.frame.size), np.uint64))
    for name, access in model.access.items():
        value = given[name] if name in given else getattr(s, name)
        if hasattr(value, "assign"):
            access.read(frame, 0).assign(value)
        else:
            access.write(frame, 0, value)
    return np.stack([np.broadcast_to(word, s.frame.size) for word in frame.finish()])


def _are_steps(model: Model, before: U64, after: U64) -> "np.ndarray[Any, Any]":
    """For each pair whether it is a transition, or no change."""
    found: np.ndarray[Any, Any] = (before == after).all(axis=0)
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
