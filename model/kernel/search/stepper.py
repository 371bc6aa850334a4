"""One state at a time: the same machine, one row, for a person or for Hypothesis.

stepper = Stepper(Model(TwoPhase))
state = stepper.initial()[0]
label = stepper.enabled(state)[0]
state = stepper.step(state, label)
print(state.values["manager"], stepper.broken(state))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fencepost.model.kernel.language.errors import BadSettings, names, suggestion
from fencepost.model.kernel.language.kinds import Judged
from fencepost.model.kernel.language.layout import U64, PackedState, one_row, packed
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.report.counterexample import changed, format_fields


@dataclass(frozen=True)
class State:
    """One state: equal and hashable by its packed words, readable by name."""

    packed: PackedState
    model: Model

    @cached_property
    def values(self) -> Mapping[str, object]:
        """The fields by name; arrays and sequences as tuples, sets as frozensets."""
        return self.model.unpack(self.packed)

    def __hash__(self) -> int:
        return hash(self.packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.packed == other.packed and self.model is other.model

    def __str__(self) -> str:
        return format_fields(self.values)

    def rows(self) -> U64:
        """The state as a batch of one."""
        return one_row(self.packed)


class Stepper:
    """Walks a model by hand."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def initial(self) -> list[State]:
        """The initial states, each once, in the order declared."""
        starts = self.model.initial()
        states = dict.fromkeys(packed(starts, row) for row in range(starts.shape[1]))
        return [State(state, self.model) for state in states]

    def state(self, values: Mapping[str, object]) -> State:
        """The state with these values for all fields."""
        return State(packed(self.model.pack(values), 0), self.model)

    def label(self, text: str) -> Label:
        """A label by its text, such as `prepare(m=1)`."""
        for label in self.model.labels:
            if str(label) == text:
                return label
        known = [str(label) for label in self.model.labels]
        raise BadSettings(
            f"no label is '{text}'{suggestion(text, known)}; the actions are {names(self.model.actions)}"
        )

    def successors(self, state: State) -> list[tuple[Label, State]]:
        """Every enabled label with the state after it, in the order of the labels."""
        rows = state.rows()
        found = []
        for label in self.model.labels:
            frame = self.model.apply(rows, label)
            if frame is not None:
                found.append((label, State(tuple(int(word[0]) for word in frame.finish()), self.model)))
        return found

    def enabled(self, state: State) -> list[Label]:
        """The labels that may happen now."""
        return [label for label, _ in self.successors(state)]

    def step(self, state: State, label: Label) -> State:
        """The state after `label`; an error if it is not enabled."""
        frame = self.model.apply(state.rows(), label)
        if frame is None:
            raise BadSettings(f"{label} is not enabled in {state}")
        return State(tuple(int(word[0]) for word in frame.finish()), self.model)

    def changes(self, before: State, after: State) -> dict[str, tuple[object, object]]:
        """The fields that differ, by name."""
        return changed(self.model, before.packed, after.packed)

    def broken(self, state: State, before: State | None = None) -> list[str]:
        """The invariants that `state` violates, and the step properties that the step to it violates."""
        found = []
        for wanted in self.model.properties:
            if wanted.kind.is_goal:
                continue
            if wanted.kind.judged is Judged.STATES:
                holds = self.model.holds(wanted, state.rows()) != wanted.kind.decided_by
            elif wanted.kind.judged is Judged.STEPS and before is not None:
                holds = self.model.holds_between(wanted, before.rows(), state.rows())
            else:
                continue
            if not holds.all():
                found.append(wanted.name)
        return found

    def may_end(self, state: State) -> bool:
        """True if the machine may end here."""
        return bool(self.model.may_end(state.rows()).all())
