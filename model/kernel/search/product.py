"""The product of a machine and the one that it refines: both at once, as a model that any engine explores.

A state of the product is a state of the machine, the concrete one, followed by a state of the other, the
abstract one. A label of the product is a label of the concrete machine. It changes the concrete part as it
does there, and then the abstract part performs the labels that the refinement names for it. If one of them is
not enabled, the state is not filtered out: its abstract part stays as it is and gets a flag. A state with the
flag violates the refinement, and so does a state in which the mapping does not hold.

The product has a state for each pair that some run reaches. Where the mapping determines the whole abstract
state, these are as many as the concrete machine has; a field with history multiplies them.

Symmetry is not used here: that members of the concrete machine are interchangeable does not imply that those
of the other one are, nor that the labels are named alike for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fencepost.model.kernel.language.columns import Column, Truth
from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.errors import ModellingMistake, names, suggestion
from fencepost.model.kernel.language.fields import Bool
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.kinds import Invariant
from fencepost.model.kernel.language.layout import I64, U64, Mask, PackedState, one_row
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.language.refinement import (
    HISTORY,
    Does,
    Either,
    Refines,
    Related,
    assign,
    fields_of,
    mapping_of,
    read_field,
)
from fencepost.model.kernel.search.performed import Performed, rows_of, rows_where

REFUSED = "refused_"
"""The flag of the abstract part: its machine did not allow a label."""


class Product(Model):
    """Both machines of a refinement."""

    def __init__(self, wanted: Property, concrete: Model) -> None:
        link: Refines = wanted.refines
        self.wanted = wanted
        self.link = link
        self.concrete = concrete
        self.other = link.other(concrete)
        self.abstract = _flagged(self.other)
        self.machine = concrete.machine
        self.name = concrete.name
        self.sizes = concrete.sizes
        self.without = concrete.without
        self.replacements = concrete.replacements
        self.labels = concrete.labels
        self.actions = concrete.actions
        self.properties = (replace(wanted, kind=Invariant(), function=self._agree),)
        self.bounds = concrete.bounds
        self._endings = ()
        prefix = f"{wanted.name}."
        self.arrays = {
            **concrete.arrays,
            **{f"{prefix}{name}": of for name, of in self.abstract.arrays.items()},
        }
        self.roles = [*concrete.roles, *(f"{prefix}{name}" for name in self.abstract.roles)]
        slot = self.abstract.layout.slots[REFUSED]
        word, shift = slot.place(0)
        self.flag = concrete.words + word, np.uint64(1 << shift)
        declared = {name for base in self.machine.__mro__ for name in vars(base)}
        for action in link.shows:
            if action not in declared:  # one may have no choice of its parameters at these sizes
                raise ModellingMistake(
                    f"`{wanted.name}` has labels for '{action}', which is no action of {self.name}"
                    f"{suggestion(action, self.actions)}; its actions are {names(self.actions)}"
                )
        self._own_fields = fields_of(concrete)
        self.performed = [
            Performed(link, wanted.name, concrete, self.other, label) for label in concrete.labels
        ]

    @property
    def words(self) -> int:
        return self.concrete.words + self.abstract.words

    @property
    def has_endings(self) -> bool:
        return False

    def initial(self) -> U64:
        """Each start of the concrete machine beside the first start of the other that the mapping allows."""
        starts = self.concrete.initial()
        others = self.abstract.initial()
        made = np.concatenate([starts, np.repeat(others[:, :1], starts.shape[1], axis=1)])
        agree = self._holds(made)
        for number in range(1, others.shape[1]):
            if agree.all():
                break
            tried = np.concatenate([starts, np.repeat(others[:, number : number + 1], starts.shape[1], 1)])
            better = ~agree & self._holds(tried)
            made[:, better] = tried[:, better]
            agree |= better
        return made

    def apply(self, states: U64, label: Label) -> Frame | None:
        assert not self.is_refused(states).any(), "a state that violates the refinement is not expanded"
        paired, performed = self._paired(states, label), self.performed[label.number]
        if paired is None:
            return None
        for choice in performed.choices(paired.rows_before, paired.rows_after, paired.rows_observed):
            paired.abstract = _perform(self, performed, choice, paired.abstract)
        return paired

    def _paired(self, states: U64, label: Label) -> "_Paired | None":
        """The rows after the concrete part of a label."""
        frame = self.concrete.apply(states[: self.concrete.words], label)
        return None if frame is None else _Paired(self, states, frame)

    def within_bounds(self, states: U64) -> Mask:
        return self.concrete.within_bounds(states[: self.concrete.words])

    def may_end(self, states: U64) -> Mask:
        return np.ones(states.shape[1], np.bool_)

    def unpack(self, state: Any) -> dict[str, object]:
        packed = tuple(state)
        found = self.concrete.unpack(packed[: self.concrete.words])
        for name, value in self.abstract.unpack(packed[self.concrete.words :]).items():
            if name != REFUSED:
                found[f"{self.wanted.name}.{name}"] = value
        return found

    def parameters(self, label: Label, state: PackedState) -> dict[str, object]:
        return self.concrete.parameters(label, state[: self.concrete.words])

    # Judging states.

    def is_refused(self, states: U64) -> Mask:
        """In which states the other machine has not allowed a label."""
        word, bit = self.flag
        refused: Mask = (states[word] & bit) != 0
        return refused

    def _holds(self, states: U64) -> Mask:
        return self.holds(self.properties[0], states)

    def _rows(self, frame: Frame) -> Any:
        return frame

    def _agree(self, frame: Frame) -> Truth:
        """Where the flag is not set and the mapping holds."""
        concrete, abstract = self._parts(frame)
        written = frame.part(self.abstract, self.concrete.words, self.words, read_only=False)
        before = [written.word(number) for number in range(self.abstract.words)]
        judged: list[Truth] = [~getattr(abstract, REFUSED)]
        for name, value in self.mapped(concrete, abstract).items():
            if isinstance(value, Related):
                judged.append(value.holds)
            elif value is not HISTORY:
                assign(written, name, value)
        for one, two in zip(before, written.finish(), strict=True):
            if one is not two:
                judged.append(Truth.of(frame, one == two))
        agreed = judged[0]
        for each in judged[1:]:
            agreed = agreed & each
        return agreed

    def _parts(self, frame: Frame) -> tuple[Machine, Machine]:
        """The rows of both machines."""
        words = self.concrete.words
        concrete = frame.part(self.concrete, 0, words, read_only=True)
        abstract = frame.part(self.abstract, words, self.words, read_only=True)
        frame.together((concrete, abstract))
        return rows_of(concrete), rows_of(abstract)

    def mapped(self, concrete: Machine, abstract: Machine) -> dict[str, Any]:
        """The mapping of every field of the other machine."""
        mapping, link = self.wanted.refines.mapping, self.link
        rows = (concrete, abstract) if link.reads_other else (concrete,)
        given = mapping_of(concrete.frame.branching.computed(lambda: mapping(*rows)), self.other)
        found = dict(given)
        for name in fields_of(self.other):
            role = name.partition(".")[0]
            if name in given or role in given:
                continue
            if link.part:
                found[name] = HISTORY
            elif name in self._own_fields:
                found[name] = read_field(concrete, name)
            else:
                raise ModellingMistake(
                    f"`{self.wanted.name}` maps no expression to `{name}` of {self.other.name}, and "
                    f"{self.concrete.name} has no field of this name: map it, or mark it as HISTORY"
                )
        return found

    # Explaining a violation.

    def reason(self, before: PackedState | None, label: Label | None, after: PackedState) -> str:
        """The cause of a violation in `after`, which `label` led to."""
        if label is None or before is None:
            return f"no start of {self.other.name}: {self._difference(after)}"
        state = one_row(before)
        if self.is_refused(one_row(after)).any():
            paired = self._paired(state, label)
            assert paired is not None, "the label led to the violation"
            refused = _refusal(self, self.performed[label.number], paired)
            return f"{self.text(label, before)} is {refused}"
        return f"after {self.text(label, before)}, {self._difference(after)}"

    def text(self, label: Label, state: PackedState) -> str:
        given = self.parameters(label, state)
        return f"{label.action}({', '.join(f'{name}={value}' for name, value in given.items())})"

    def _difference(self, state: PackedState) -> str:
        """The first field in which the two machines differ, in words."""
        frame = Frame(self, one_row(state), read_only=True)
        concrete, abstract = self._parts(frame)
        written = frame.part(self.abstract, self.concrete.words, self.words, read_only=False)
        values = self.abstract.unpack(state[self.concrete.words :])
        for name, value in self.mapped(concrete, abstract).items():
            if value is HISTORY:
                continue
            if isinstance(value, Related):
                if not np.atleast_1d(value.holds.mask()).all():
                    return f"what the mapping requires of `{name}` of {self.other.name} does not hold"
                continue
            assign(written, name, value)
            state_now = tuple(int(word[0]) for word in written.finish())
            found, mapped = values, self.abstract.unpack(state_now)
            if found != mapped:
                one, two = _value_of(found, name), _value_of(mapped, name)
                return f"`{name}` of {self.other.name} is {one}, and the mapping gives {two}"
        return "the mapping does not hold"

    # Vacuity.

    def history(self) -> list[str]:
        """The fields of the other machine that the mapping marks as history."""
        frame = Frame(self, self.initial()[:, :1], read_only=True)
        return [name for name, value in self.mapped(*self._parts(frame)).items() if value is HISTORY]

    def performed_in(self, states: U64, label: Label) -> set[str]:
        """The actions of the other machine that a label performs in some of these states."""
        performed = self.performed[label.number]
        paired = None if performed.is_invisible else self._paired(states, label)
        return set() if paired is None else _performed_in_some(self, performed, paired)

    def changed_fields(self, levels: Sequence[U64]) -> set[str]:
        """The fields of the other machine that differ between two states of a search."""
        first = levels[0][self.concrete.words :, :1]
        differ = np.zeros((self.abstract.words, 1), np.uint64)
        for level in levels:
            part = level[self.concrete.words :]
            differ |= np.bitwise_or.reduce(part ^ first, axis=1, keepdims=True)
        return {
            _field_of(name, self.abstract.roles)
            for name, slot in self.abstract.layout.slots.items()
            for word, shift in (slot.place(index) for index in range(slot.count))
            if int(differ[word, 0]) >> shift & ((1 << slot.kind.width) - 1)
        }


def _flagged(other: Model) -> Model:
    """The other machine with the flag."""
    machine = type(other.machine.__name__, (other.machine,), {REFUSED: Bool()})
    made = Model(machine, other.sizes, without=other.without)
    made.name = other.name
    return made


def _value_of(state: Mapping[str, Any], name: str) -> str:
    """The value of a field in a state, as a counterexample prints it; of a role for each member."""
    from fencepost.model.kernel.report.counterexample import format_value

    role, _, part = name.partition(".")
    return format_value(tuple(member[part] for member in state[role]) if part else state[name])


def _field_of(run: str, roles: Sequence[str]) -> str:
    """The field, or the field of a role, that a run of cells belongs to."""
    parts = run.split(".")
    return ".".join(parts[: 2 if parts[0] in roles else 1])


class _Paired(Frame):
    """The rows of one label on the product: those of the concrete part, and the abstract part beside it."""

    def __init__(self, product: Product, states: U64, frame: Frame) -> None:
        self.model = product
        self.before = states
        self.label = frame.label
        self.size = frame.size
        self.concrete = frame
        self._origin: I64 | None = None
        abstract = states[product.concrete.words :]
        self.abstract = abstract if frame.size == states.shape[1] else abstract.take(self.origin(), axis=1)

    def rows_before(self) -> Frame:
        return Frame(self.concrete.model, self.concrete.kept_before(), self.label, read_only=True)

    def rows_after(self) -> Frame:
        return Frame(self.concrete.model, np.stack(self.concrete.finish()), self.label, read_only=True)

    def rows_observed(self) -> Frame:
        assert isinstance(self.model, Product)
        return Frame(self.model.abstract, self.abstract, read_only=True)

    def finish(self) -> list[U64]:
        return [*self.concrete.finish(), *self.abstract]

    def origin(self) -> I64:
        if self._origin is None:
            self._origin = self.concrete.origin()
        return self._origin

    def kept_before(self) -> U64:
        return self.before.take(self.origin(), axis=1)

    def mark_origin(self, marks: Mask) -> None:
        self.concrete.mark_origin(marks)


def _perform(product: Product, performed: Performed, choice: Either, states: U64) -> U64:
    """The abstract states after the first of these labels that is enabled; flagged where none is."""
    rows = states.shape[1]
    result = states.copy()
    waiting = np.ones(rows, np.bool_)
    refused = np.zeros(rows, np.bool_)
    for one in choice.labels:
        where = rows_where(one.when)
        refused |= where
        open_rows = waiting & where
        if not open_rows.any():
            continue
        for label, mask in performed.labels(one):
            at = open_rows if mask is None else open_rows & mask
            whole = bool(at.all())
            places = None if whole else np.flatnonzero(at)
            if places is not None and not len(places):
                continue
            frame = product.abstract.apply(states if places is None else states.take(places, axis=1), label)
            if frame is None:
                continue
            after = frame.origin() if places is None else places.take(frame.origin())
            result[:, after] = np.stack(frame.finish())
            waiting[after] = False
    refused &= waiting
    if not choice.or_nothing and refused.any():
        word, bit = product.flag
        result[word - product.concrete.words, refused] |= bit
    return result


def _performed_in_some(product: Product, performed: Performed, paired: _Paired) -> set[str]:
    """The abstract actions that are performed in some row."""
    found: set[str] = set()
    for choice in performed.choices(paired.rows_before, paired.rows_after, paired.rows_observed):
        states = paired.abstract
        for one in choice.labels:
            where = np.broadcast_to(rows_where(one.when), states.shape[1])
            for label, mask in performed.labels(one) if one.action not in found else ():
                at = np.flatnonzero(where if mask is None else where & mask)
                if len(at) and product.abstract.apply(states.take(at, axis=1), label) is not None:
                    found.add(one.action)
                    break
        paired.abstract = _perform(product, performed, choice, states)
    return found


def _refusal(product: Product, performed: Performed, paired: _Paired) -> str:
    """The abstract label that is not allowed after a single state, and the guard that it fails."""
    word, bit = product.flag
    for choice in performed.choices(paired.rows_before, paired.rows_after, paired.rows_observed):
        state = paired.abstract
        after = _perform(product, performed, choice, state)
        if after[word - product.concrete.words, 0] & bit:
            refused = [one for one in choice.labels if np.all(rows_where(one.when))]
            return ", or ".join(_refused(product, performed, one, state) for one in refused)
        paired.abstract = after
    raise AssertionError("the flag is set by a label that is refused")


def _refused(product: Product, performed: Performed, one: Does, state: U64) -> str:
    """Why a label is not possible in a single state."""
    other = product.other
    possible = (label for label, mask in performed.labels(one) if mask is None or mask.all())
    label = next(possible, None)
    if label is None:
        given = ", ".join(f"{name}={_single(value)}" for name, value in one.parameters.items())
        return f"{one.action}({given}), which is no label of {other.name}"
    guard = product.abstract.failed_guard(state, label)
    return f"{label}, which {other.name} does not allow here: {guard}"


def _single(value: Any) -> object:
    """The only entry of a column, as text."""
    return repr(value).rpartition(": ")[2].rstrip(">") if isinstance(value, Column) else value
