"""Refinement maps: how the events of real code correspond to the actions of a bounded model.

    class LockRefinement(Refinement):
        keys = (Keys("lock", "lock"),)
        roles = (Role("client", ("process",), most=1),)
        hidden = ("look", "try_again", "crash")

        def actions(self, seen):
            if seen.kind == "delete":
                return self.does("give_back", c=seen.rank("process"), answer=("done", "reply_lost"))
            ...

The class attributes are the rules for reading events (compiled by `rules`): event -> observation. The method
`actions` maps an observation to actions of the model.

A map is small because events need not show everything. Labels of `hidden` actions may happen at any time,
between any two events: decisions within a process, and what only reading shows. The less is hidden, the more
a run is constrained; what is hidden is never rejected, only untested.

At least one of the actions of an observation must be possible:

    does(action, **parameters)      one of these labels; parameters that are not given are free
    STUTTER                         a step that leaves the model's state unchanged
    IMPOSSIBLE                      none
    where(text, condition, *actions)    the same, and then the condition holds in the model's state
    OUT_OF_BOUNDS                   beyond the model's bounds: nothing is decided from here on
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fencepost.model import Label, Model, Property, Truth
from fencepost.model.kernel.compiled.tape import Tapes
from fencepost.model.kernel.language.kinds import Condition as Always
from fencepost.model.kernel.language.layout import U64, Mask
from fencepost.model.kernel.language.model import Successors
from fencepost.properties.refinement.comparing import Compared
from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.properties.refinement.observation import Keys, Observation, Role
from fencepost.properties.refinement.renaming import Window
from fencepost.properties.refinement.request_rules import RequestRules

Condition = Callable[[Any], Truth]


@dataclass(frozen=True, slots=True)
class Action:
    """One step that an event may have been: a label, or none; and what holds after it."""

    label: Label | None = None
    condition: Condition | None = None
    description: str = ""
    """The condition in words."""

    def __str__(self) -> str:
        name = str(self.label) if self.label is not None else "nothing"
        return f"{name} where {self.description}" if self.description else name


Actions = tuple[Action, ...]

STUTTER: Actions = (Action(),)
IMPOSSIBLE: Actions = ()
OUT_OF_BOUNDS: Actions = (Action(description="outside the model"),)


def where(description: str, condition: Condition, *alternatives: Actions) -> Actions:
    """The actions of all `alternatives`, each with one more condition on the state after it."""
    return tuple(_with(action, description, condition) for actions in alternatives for action in actions)


def _with(action: Action, description: str, condition: Condition) -> Action:
    before = action.condition
    if before is None:
        return replace(action, condition=condition, description=description)
    return replace(
        action,
        condition=lambda s: before(s) & condition(s),
        description=f"{action.description}, and {description}",
    )


class Refinement:
    """Base class of refinement maps."""

    keys: ClassVar[tuple[Keys, ...]] = ()
    roles: tuple[Role, ...] = ()
    trace_fields: ClassVar[tuple[str, ...]] = ()
    """Trace fields that play no role and that `actions` reads. Observations leave out all others."""
    compared: ClassVar[tuple[Compared, ...]] = ()
    """Values that rise without end: observations have their comparison with earlier ones."""
    kinds: ClassVar[frozenset[str]] = frozenset({"put", "delete", "complete-upload"})
    """The kinds of requests that the map reads. It ignores all others."""
    notes: ClassVar[frozenset[str]] = frozenset()
    """First words of the topics of the notes that the map reads."""
    owned: ClassVar[str] = ""
    """The value that belongs to the first process that names it, see `Observation.own`."""
    hidden: ClassVar[tuple[str, ...]] = ()
    """Actions that no event shows."""
    eager: ClassVar[tuple[str, ...]] = ()
    """Hidden actions that only ever add to what may happen later: in every state of a set they happen
    immediately, in this order, after the other hidden ones, which must not disable them. So sets are as small
    as if these actions did not exist.
    """
    left_out: ClassVar[tuple[str, ...]] = ()
    """Actions that never happen: others replace them."""
    forgets: ClassVar[tuple[str, ...]] = ()
    """Fields that no guard and no condition reads, only properties: they keep their initial values."""
    runs: ClassVar[str | LinkedRuns] = "run"
    """The grouping of a trace into runs, as for `--runs`: a word, a pattern, or linked runs."""
    request_rules: RequestRules | None = None
    """The rules for single requests, beside the model."""
    window: Window | None = None
    """The declarations by which long runs are renamed into the model; see `renaming`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        named = (*self.hidden, *self.eager, *self.left_out)
        unknown = [name for name in named if name not in model.actions]
        if unknown:
            raise ValueError(f"{model.name} has no action {unknown[0]}; it has {', '.join(model.actions)}")
        self._tapes = Tapes(model)
        self._forgetting = self._masks()
        self._labels: dict[str, list[Label]] = {}
        for label in model.labels:
            self._labels.setdefault(label.action, []).append(label)

    @property
    def name(self) -> str:
        return self.model.name

    def actions(self, seen: Observation) -> Actions:
        """The actions that the event may have been. Pure, and computed once for each observation."""
        raise AssertionError("a refinement implements actions")

    def hides(self, label: Label) -> bool:
        """Return True if no event shows this label."""
        return label.action in self.hidden

    def shows(self, label: Label) -> bool:
        """Return True if an event shows this label."""
        return not self.hides(label) and label.action not in (*self.eager, *self.left_out)

    def covering(self) -> "Refinement | None":
        """The map into the observed machine at the bound at which its transitions are counted: this one,
        unless its states represent others.
        """
        return None if self.eager or self.forgets else self

    def renaming(self, seen: Observation) -> Label:
        """Return the renaming label of an observation."""
        (action,) = self.does(seen.what, **dict(seen.ranks), **dict(seen.trace_fields))
        assert action.label is not None
        return action.label

    def renamed(self, seen: Observation, label: Label) -> Observation | None:
        """A pending request after a renaming; None when its landing would change nothing any more."""
        raise AssertionError("a refinement with a window implements renamed")

    def saturated(self, states: U64) -> U64:
        """The states after the eager actions."""
        for name in self.eager:
            for label in self._labels[name]:
                states = self.after_eager(states, label)
        return states

    def after_eager(self, states: U64, label: Label) -> U64:
        """The states, after the label where it is enabled."""
        after = self.successors(states, label)
        if len(after.origin):
            states = states.copy()
            states[:, after.origin] = self.forgotten(after.states)
        return states

    def forgotten(self, states: U64) -> U64:
        """The states with the initial values of the fields in `forgets`."""
        if self._forgetting is None:
            return states
        clear, put = self._forgetting
        return (states & clear) | put

    def _masks(self) -> tuple[U64, U64] | None:
        """For every word the bits that are kept, and the values of the others."""
        if not self.forgets:
            return None
        layout = self.model.layout
        lost = [0] * layout.words
        for name, slot in layout.slots.items():
            if name.split(".")[0] in self.forgets:
                for index in range(slot.count):
                    word, shift = slot.place(index)
                    lost[word] |= ((1 << slot.kind.width) - 1) << shift
        masks = np.array(lost, np.uint64)[:, np.newaxis]
        return ~masks, self.model.initial()[:, :1] & masks

    def successors(self, states: U64, label: Label) -> Successors:
        """The states after a label, as `Model.successors` has them, but quicker when called often."""
        return self._tapes.successors(states, label)

    def holds(self, condition: Condition, states: U64) -> Mask:
        """Return in which states a condition of an action holds."""
        wanted = Property("condition", Always(), lambda s: condition(s), "")
        return self._tapes.holds(wanted, states, condition)

    def hidden_labels(self) -> tuple[Label, ...]:
        return tuple(label for label in self.model.labels if self.hides(label))

    def does(self, action: str, **parameters: object) -> Actions:
        """The labels of an action with these parameters. A tuple, list or set is any of its members."""
        if action not in self._labels:
            raise ValueError(f"{self.name} has no action {action}; it has {', '.join(self._labels)}")
        return tuple(Action(label) for label in self._fitting(action, parameters))

    def _fitting(self, action: str, wanted: dict[str, object]) -> Iterator[Label]:
        for label in self._labels[action]:
            given = dict(label.parameters)
            unknown = set(wanted) - set(given)
            if unknown:
                raise ValueError(f"{action} has no parameter {unknown.pop()}; it has {', '.join(given)}")
            if all(_fits(value, given[name]) for name, value in wanted.items()):
                yield label


def _fits(wanted: object, value: object) -> bool:
    if isinstance(wanted, Collection) and not isinstance(wanted, str):
        return value in wanted
    return value == wanted
