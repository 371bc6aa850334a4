"""Weak fairness: which actions a scheduler may not ignore forever.

A *demand* is a set of transition labels. A run meets it when, infinitely often, none of its labels is
enabled or one of them is taken; what is broken is a run that from some point on could always take
one and never does. Nothing is said about runs that end, and nothing forces an action that no demand
names, except that a run goes on while anything at all is enabled.

Written in `fair=(...)` of a property:

    "deliver"                              a demand for each choice of its parameters
    together("enter", "leave")             one demand: any of these labels will do
    together("enter", "leave", by="p")     one demand for each value of `p`: no process starves
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.model.kernel.language.declare import Property, Together
from fencepost.model.kernel.language.errors import ModellingMistake, names, suggestion

if TYPE_CHECKING:
    from fencepost.model.kernel.language.model import Label


@dataclass(frozen=True)
class Demand:
    """The numbers of the labels of which one must keep happening while one can."""

    text: str
    labels: tuple[int, ...]


def demands(wanted: Property, labels: Sequence["Label"]) -> tuple[Demand, ...]:
    """What the fairness of a property asks for, label by label; refuses names that mean nothing."""
    found: list[Demand] = []
    for entry in wanted.fair:
        if isinstance(entry, Together):
            found += _joined(wanted, entry, labels)
        else:
            _check_known(wanted, [entry], labels)
            found += [Demand(str(label), (label.number,)) for label in labels if label.action == entry]
    return tuple(dict.fromkeys(found))


def _joined(wanted: Property, entry: Together, labels: Sequence["Label"]) -> Iterator[Demand]:
    _check_known(wanted, entry.actions, labels)
    inside = [label for label in labels if label.action in entry.actions]
    groups: dict[object, list[int]] = {}
    for label in inside:
        parameters = dict(label.parameters)
        if entry.by and entry.by not in parameters:
            raise ModellingMistake(
                f"property `{wanted.name}` joins {', '.join(entry.actions)} by '{entry.by}', which is no "
                f"parameter of {label.action}{suggestion(entry.by, parameters)}: "
                f"its parameters are {names(parameters)}"
            )
        groups.setdefault(parameters[entry.by] if entry.by else None, []).append(label.number)
    for value, numbers in groups.items():
        choice = f" with {entry.by}={value}" if entry.by else ""
        yield Demand(f"one of {', '.join(entry.actions)}{choice}", tuple(numbers))


def _check_known(wanted: Property, actions: Sequence[str], labels: Sequence["Label"]) -> None:
    known = list(dict.fromkeys(label.action for label in labels))
    for name in actions:
        if name not in known:
            raise ModellingMistake(
                f"property `{wanted.name}` is fair to '{name}', which is no action"
                f"{suggestion(name, known)}; the actions are {names(known)}"
            )
