"""What has to be said so that runs of real code can be held against a bounded model.

    class LockRefinement(Refinement):
        keys = (Keys("lock", "lock"),)
        roles = (Role("client", ("process",), most=1),)
        hidden = ("look", "try_again", "crash")

        def meaning(self, seen):
            if seen.kind == "delete":
                return self.does("give_back", c=seen.rank("process"), answer=("done", "reply-lost"))
            ...

A map is small because the model need not be told everything. Labels of `hidden` actions may happen at any
time, between any two events: what a process decides by itself, what only reading shows. The less is hidden,
the more a run is held to; what is hidden is never wrong, only untested.

The meaning of a observation is a tuple of *readings*, of which one at least must be possible:

    does(action, **parameters)      one of these labels; parameters that are not given are anything
    SILENT                          nothing that the model would notice
    IMPOSSIBLE                      never
    where(test, *readings)          the same, and then `test` holds, a condition on the model's state
    NO_ROOM                         the model has no room for this: nothing is decided from here on
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fencepost.model import Label, Model, Truth
from fencepost.model.kernel.language.layout import U64
from fencepost.properties.refinement.observation import Keys, Observation, Role
from fencepost.properties.refinement.window import Window

Test = Callable[[Any], Truth]


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing that an event may have been: a label, or none; and what holds after it."""

    label: Label | None = None
    test: Test | None = None
    says: str = ""
    """What the test asks, in words."""

    def __str__(self) -> str:
        told = str(self.label) if self.label is not None else "nothing"
        return f"{told} where {self.says}" if self.says else told


Meaning = tuple[Reading, ...]

SILENT: Meaning = (Reading(),)
IMPOSSIBLE: Meaning = ()
NO_ROOM: Meaning = (Reading(says="outside the model"),)


def where(says: str, test: Test, *meanings: Meaning) -> Meaning:
    """The readings of all `meanings`, each with a condition, or one more, on the state after it."""
    return tuple(_with(reading, says, test) for meaning in meanings for reading in meaning)


def _with(reading: Reading, says: str, test: Test) -> Reading:
    before = reading.test
    if before is None:
        return replace(reading, test=test, says=says)
    return replace(reading, test=lambda s: before(s) & test(s), says=f"{reading.says}, and {says}")


class Refinement:
    """Derive from it: say what is seen, what is hidden, and what an event means."""

    keys: ClassVar[tuple[Keys, ...]] = ()
    roles: tuple[Role, ...] = ()
    trace_fields: ClassVar[tuple[str, ...]] = ()
    """Trace fields that play no role and that `meaning` asks for. All others are left out of observations."""
    kinds: ClassVar[frozenset[str]] = frozenset({"put", "delete", "complete-upload"})
    """The requests that can mean something. All others are not looked at."""
    notes: ClassVar[frozenset[str]] = frozenset()
    """First words of the topics of notes that mean something."""
    owned: ClassVar[str] = ""
    """The value whose first process owns it, see `Observation.own`."""
    hidden: ClassVar[tuple[str, ...]] = ()
    """Actions that no event shows."""
    eager: ClassVar[tuple[str, ...]] = ()
    """Hidden actions that only ever add to what may happen later: in every state of a set they happen at
    once, in this order, after the other hidden ones, which must take nothing away that lets them happen.
    Where this applies, sets are as small as if these actions did not exist.
    """
    left_out: ClassVar[tuple[str, ...]] = ()
    """Actions that never happen: others stand for them."""
    forgets: ClassVar[tuple[str, ...]] = ()
    """Fields that no guard and no test ever reads, only properties: as in the beginning, always."""
    window: Window | None = None
    """How a run that is too long for the model is read all the same; see `window`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        named = (*self.hidden, *self.eager, *self.left_out)
        unknown = [name for name in named if name not in model.actions]
        if unknown:
            raise ValueError(f"{model.name} has no action {unknown[0]}; it has {', '.join(model.actions)}")
        self._forgetting = self._masks()
        self._labels: dict[str, list[Label]] = {}
        for label in model.labels:
            self._labels.setdefault(label.action, []).append(label)

    @property
    def name(self) -> str:
        return self.model.name

    def meaning(self, seen: Observation) -> Meaning:
        """What the event was to the model. Pure, and asked once for each observation."""
        raise AssertionError("a refinement says what a observation means")

    def hides(self, label: Label) -> bool:
        """Whether no event shows this label."""
        return label.action in self.hidden

    def shows(self, label: Label) -> bool:
        """Whether an event shows this label."""
        return not self.hides(label) and label.action not in (*self.eager, *self.left_out)

    def modelled(self) -> "Refinement | None":
        """The map into the model as it is checked, whose transitions can be counted; this one, unless its
        states stand for others.
        """
        return None if self.eager or self.forgets else self

    def renaming(self, seen: Observation) -> Label:
        """The renaming label that a observation is."""
        (reading,) = self.does(seen.what, **dict(seen.ranks), **dict(seen.trace_fields))
        assert reading.label is not None
        return reading.label

    def renamed(self, seen: Observation, label: Label) -> Observation | None:
        """What is under way, after a renaming; None when it can show nothing any more."""
        raise AssertionError("a refinement with a window says how what is under way is renamed")

    def saturated(self, states: U64) -> U64:
        """The states after all that happens at once."""
        for name in self.eager:
            for label in self._labels[name]:
                states = self.hurried(states, label)
        return states

    def hurried(self, states: U64, label: Label) -> U64:
        """The states, those in which a label can happen after it."""
        after = self.model.successors(states, label)
        if len(after.origin):
            states = states.copy()
            states[:, after.origin] = after.states
        return states

    def forgotten(self, states: U64) -> U64:
        """The states with the fields that are forgotten as they were in the beginning."""
        if self._forgetting is None:
            return states
        clear, put = self._forgetting
        return (states & clear) | put

    def _masks(self) -> tuple[U64, U64] | None:
        """Of every word the bits that are kept, and what stands in the others."""
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

    def hidden_labels(self) -> tuple[Label, ...]:
        return tuple(label for label in self.model.labels if self.hides(label))

    def does(self, action: str, **parameters: object) -> Meaning:
        """The labels of an action with these parameters. A tuple, list or set is any of its members."""
        if action not in self._labels:
            raise ValueError(f"{self.name} has no action {action}; it has {', '.join(self._labels)}")
        return tuple(Reading(label) for label in self._fitting(action, parameters))

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
