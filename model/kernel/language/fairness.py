"""Fairness: which actions a scheduler may not ignore forever.

A *demand* is a set of transition labels. A run meets a weak one if, infinitely often, none of its labels is
enabled or one of them is taken; it violates it if from some point on it could always take one and never does.
A run meets a *strong* one if one of its labels is taken infinitely often, or if none is enabled from some
point on. Only steps that change the state count: a label that would change nothing is not enabled, as in TLA+
(WF_vars, SF_vars). Nothing else makes a run go on: without a demand it may stop anywhere.

Written in `fair=(...)`, or for strong ones in `strong=(...)`, of a property:

    "deliver"                              a demand for each choice of its parameters
    together("enter", "leave")             one demand: any of these labels satisfies it
    together("enter", "leave", by="p")     one demand for each value of `p`: no process starves
    together()                             one demand for all actions: something goes on happening

The items of a bag or a channel are one demand: some message is received. Those of a `Set` are one each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fencepost.model.kernel.language.bags import Place
from fencepost.model.kernel.language.errors import ModellingMistake, names, suggestion

if TYPE_CHECKING:
    from fencepost.model.kernel.language.declare import Property
    from fencepost.model.kernel.language.model import Label


@dataclass(frozen=True)
class Together:
    """Several actions as one demand of fairness: while some of them can happen, one of them must."""

    actions: tuple[str, ...]
    by: str = ""


def together(*actions: str, by: str = "") -> Together:
    """In `fair=`: one demand for all these actions, or with `by` one for each value of that parameter.

    Without names it is a demand for all actions of the machine: while anything can change, something does.
    `together("enter", "wait", "leave", by="p")` is a scheduler that never starves a process `p`.
    """
    return Together(actions, by)


@dataclass(frozen=True)
class Demand:
    """The numbers of the labels of which one must keep happening while one can."""

    text: str
    labels: tuple[int, ...]
    strong: bool = False


def demands(wanted: "Property", labels: Sequence["Label"]) -> tuple[Demand, ...]:
    """The demands of a property, label by label; an error for an unknown name."""
    weak = [demand for entry in wanted.fair for demand in _demands_of(wanted, entry, labels)]
    strong = [replace(d, strong=True) for entry in wanted.strong for d in _demands_of(wanted, entry, labels)]
    return tuple(dict.fromkeys([*weak, *strong]))


def _demands_of(wanted: "Property", entry: str | Together, labels: Sequence["Label"]) -> Iterator[Demand]:
    if isinstance(entry, Together):
        yield from _joined(wanted, entry, labels)
        return
    _check_known(wanted, [entry], labels)
    # A place of a bag or a queue names no message: the next one moves up. Its places are one demand.
    groups: dict[tuple[object, ...], list[Label]] = {}
    for label in labels:
        if label.action == entry:
            key = tuple(None if isinstance(value, Place) else value for _, value in label.parameters)
            groups.setdefault(key, []).append(label)
    for group in groups.values():
        text = str(group[0]) if len(group) == 1 else f"one of {group[0]} .. {group[-1]}"
        yield Demand(text, tuple(label.number for label in group))


def _joined(wanted: "Property", entry: Together, labels: Sequence["Label"]) -> Iterator[Demand]:
    _check_known(wanted, entry.actions, labels)
    groups: dict[object, list[int]] = {}
    actions = entry.actions or tuple(dict.fromkeys(label.action for label in labels))
    for label in labels:
        if label.action not in actions:
            continue
        parameters = dict(label.parameters)
        if entry.by and entry.by not in parameters:
            raise ModellingMistake(
                f"property `{wanted.name}` joins {', '.join(actions)} by '{entry.by}', which is no "
                f"parameter of {label.action}{suggestion(entry.by, parameters)}: "
                f"its parameters are {names(parameters)}"
            )
        if entry.by and isinstance(parameters[entry.by], Place):
            raise ModellingMistake(
                f"property `{wanted.name}` joins {', '.join(actions)} by '{entry.by}', which is an item of a "
                "bag or a channel: fairness for each item needs a Set, or parameters that name the item"
            )
        groups.setdefault(parameters[entry.by] if entry.by else None, []).append(label.number)
    for value, numbers in groups.items():
        choice = f" with {entry.by}={value}" if entry.by else ""
        yield Demand(f"one of {', '.join(actions)}{choice}", tuple(numbers))


def _check_known(wanted: "Property", actions: Sequence[str], labels: Sequence["Label"]) -> None:
    known = list(dict.fromkeys(label.action for label in labels))
    for name in actions:
        if name not in known:
            raise ModellingMistake(
                f"property `{wanted.name}` is fair to '{name}', which is no action"
                f"{suggestion(name, known)}; the actions are {names(known)}"
            )
