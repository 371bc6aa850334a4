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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fencepost.model.kernel.language.bags import Place
from fencepost.model.kernel.language.columns import Column, Truth, describe
from fencepost.model.kernel.language.declare import ActionDeclared, Property
from fencepost.model.kernel.language.errors import ModellingMistake, names, raise_with_place, suggestion
from fencepost.model.kernel.language.fields import Bool, Received
from fencepost.model.kernel.language.frame import Frame
from fencepost.model.kernel.language.layout import I64, U64, Mask, PackedState, one_row
from fencepost.model.kernel.language.machine import Machine, marked
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.language.refinement import (
    HISTORY,
    Does,
    Either,
    Refines,
    Related,
    Shown,
    assign,
    mapping_of,
)

OBSERVED = "observed"
"""The parameter of a function of the author that is the state of the other machine."""
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
        self.properties = (replace(wanted, kind="invariant", function=self._agree),)
        self.bounds = concrete.bounds
        self._endings = ()
        prefix = f"{wanted.name}."
        self.arrays = {
            **concrete.arrays,
            **{f"{prefix}{name}": of for name, of in self.abstract.arrays.items()},
        }
        slot = self.abstract.layout.slots[REFUSED]
        word, shift = slot.place(0)
        self.flag = concrete.words + word, np.uint64(1 << shift)
        self._shows = {label.number: _Shows(self, label) for label in concrete.labels}

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
        words = self.concrete.words
        frame = self.concrete.apply(states[:words], label)
        if frame is None:
            return None
        paired = _Paired(self, states, frame)
        self._shows[label.number].perform(paired)
        return paired

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
        refused = getattr(abstract, REFUSED)
        judged: list[Truth] = [~refused]
        before = [abstract.frame.word(number) for number in range(self.abstract.words)]
        for name, value in self.mapped(concrete, abstract).items():
            if value is HISTORY:
                continue
            if isinstance(value, Related):
                judged.append(value.holds)
                continue
            assign(abstract.frame, name, value)
        after = abstract.frame.finish()
        for one, two in zip(before, after, strict=True):
            if one is not two:
                judged.append(Truth.of(frame, one == two))
        agreed = judged[0]
        for each in judged[1:]:
            agreed = agreed & each
        return agreed

    def _parts(self, frame: Frame) -> tuple[Machine, Machine]:
        """The rows of both machines; those of the abstract one may be written."""
        words = self.concrete.words
        concrete = frame.part(self.concrete, 0, words, read_only=True)
        abstract = frame.part(self.abstract, words, self.words, read_only=False)
        return rows_of(concrete), rows_of(abstract)

    def mapped(self, concrete: Machine, abstract: Machine) -> dict[str, Any]:
        """The mapping of every field of the other machine."""
        mapping, link = self.wanted.refines.mapping, self.link
        given = mapping_of(mapping(concrete, abstract) if link.reads_other else mapping(concrete), self.other)
        found = {}
        for name in self.other.access:
            if name in given:
                found[name] = given[name]
            elif name in self.concrete.access:
                found[name] = getattr(concrete, name)
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
            return self._shows[label.number].refusal(state)
        return f"after {self.text(label, before)}, {self._difference(after)}"

    def text(self, label: Label, state: PackedState) -> str:
        given = self.parameters(label, state)
        return f"{label.action}({', '.join(f'{name}={value}' for name, value in given.items())})"

    def _difference(self, state: PackedState) -> str:
        """The first field in which the two machines differ, in words."""
        frame = Frame(self, one_row(state), read_only=True)
        concrete, abstract = self._parts(frame)
        values = self.abstract.unpack(state[self.concrete.words :])
        for name, value in self.mapped(concrete, abstract).items():
            if value is HISTORY:
                continue
            if isinstance(value, Related):
                if not np.atleast_1d(value.holds.mask()).all():
                    return f"what the mapping requires of `{name}` of {self.other.name} does not hold"
                continue
            assign(abstract.frame, name, value)
            state_now = tuple(int(word[0]) for word in abstract.frame.finish())
            now = self.abstract.unpack(state_now)[name]
            if now != values[name]:
                return (
                    f"`{name}` of {self.other.name} is {_shown(values[name])}, and the mapping gives "
                    f"{_shown(now)}"
                )
        return "the mapping does not hold"

    # Vacuity.

    def history(self) -> list[str]:
        """The fields of the other machine that the mapping marks as history."""
        frame = Frame(self, self.initial()[:, :1], read_only=True)
        return [name for name, value in self.mapped(*self._parts(frame)).items() if value is HISTORY]

    def names_of(self, label: Label) -> set[str]:
        """The actions of the other machine that a label may perform; all of them, if a function decides."""
        return self._shows[label.number].names()

    def performed(self, states: U64, label: Label) -> set[str]:
        """The actions of the other machine that a label performs in some of these states."""
        words = self.concrete.words
        frame = self.concrete.apply(states[:words], label)
        if frame is None:
            return set()
        return self._shows[label.number].performed(frame, states[words:].take(frame.origin(), axis=1))

    def changed_fields(self, levels: Sequence[U64]) -> set[str]:
        """The fields of the other machine that differ between two states of a search."""
        first = levels[0][self.concrete.words :, :1]
        differ = np.zeros((self.abstract.words, 1), np.uint64)
        for level in levels:
            part = level[self.concrete.words :]
            differ |= np.bitwise_or.reduce(part ^ first, axis=1, keepdims=True)
        return {
            name.split(".")[0]
            for name, slot in self.abstract.layout.slots.items()
            for word, shift in (slot.place(index) for index in range(slot.count))
            if int(differ[word, 0]) >> shift & ((1 << slot.kind.width) - 1)
        }


def rows_of(frame: Frame) -> Machine:
    """The rows of a frame as its machine's functions take them."""
    rows: Machine = object.__new__(frame.model.machine)
    object.__setattr__(rows, "frame", frame)
    return rows


def _flagged(other: Model) -> Model:
    """The other machine with the flag."""
    machine = type(other.machine.__name__, (other.machine,), {REFUSED: Bool()})
    made = Model(machine, other.sizes, without=other.without)
    made.name = other.name
    return made


def _shown(value: object) -> str:
    from fencepost.model.kernel.report.counterexample import format_value

    return format_value(value)


@dataclass
class _Part:
    """The abstract part of some states, while labels are performed on it."""

    states: U64


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
        whole = frame.size == states.shape[1]
        self.abstract = _Part(abstract if whole else abstract.take(self.origin(), axis=1))

    def finish(self) -> list[U64]:
        return [*self.concrete.finish(), *self.abstract.states]

    def origin(self) -> I64:
        if self._origin is None:
            self._origin = self.concrete.origin()
        return self._origin

    def kept_before(self) -> U64:
        return self.before.take(self.origin(), axis=1)

    def mark_origin(self, marks: Mask) -> None:
        self.concrete.mark_origin(marks)


class _Shows:
    """The abstract labels of one concrete label."""

    def __init__(self, product: Product, label: Label) -> None:
        self._product = product
        self._label = label
        self._labels: dict[str, list[Label]] = {}
        for each in product.other.labels:
            self._labels.setdefault(each.action, []).append(each)
        self._parameters = {
            action: tuple(name for name, _ in labels[0].parameters) for action, labels in self._labels.items()
        }
        self._domains = next(
            each.domains
            for each in marked(product.machine, ActionDeclared)
            if each.part == "action" and each.name == label.action
        )
        shown = product.link.shows.get(label.action, ())
        self._shown: tuple[Shown, ...] = self._flat(shown)

    def _flat(self, shown: Any) -> tuple[Shown, ...]:
        parts = shown if isinstance(shown, tuple | list) else (shown,)
        for part in parts:
            if isinstance(part, str):
                self._check_action(part)
            elif not callable(part):
                raise ModellingMistake(
                    f"`{self._product.wanted.name}` names {describe(part)} for {self._label.action}: give "
                    f"the name of an action of {self._product.other.name}, a function, or a tuple of these"
                )
        return tuple(parts)

    def _check_action(self, action: str) -> None:
        if action not in self._labels:
            other = self._product.other
            raise ModellingMistake(
                f"{self._label.action} performs '{action}', which is no action of {other.name}"
                f"{suggestion(action, other.actions)}; its actions are {names(other.actions)}"
            )

    def names(self) -> set[str]:
        """The actions that may be performed."""
        if any(callable(shown) for shown in self._shown):
            return set(self._labels)
        return {shown for shown in self._shown if isinstance(shown, str)}

    def done(self, frame: Frame, part: "_Part") -> Iterator[Either]:
        """The abstract labels of rows of the concrete machine, in order; columns line up with the rows.

        `part` is the abstract part as the labels so far have left it.
        """
        if not self._shown:
            return
        concrete = self._product.concrete
        before = Frame(concrete, frame.kept_before(), self._label, read_only=True)
        given = self._given(before)
        after: Frame | None = None
        for shown in self._shown:
            if isinstance(shown, str):
                yield Either((self._named(shown, given),), or_nothing=False)
                continue
            assert callable(shown), "checked when the labels were read"
            reads = _parameters(shown)
            rows = [rows_of(before)]
            if reads[:2] == ("before", "after"):
                after = after or Frame(concrete, np.stack(frame.finish()), self._label, read_only=True)
                rows.append(rows_of(after))
            wanted = {name: given[name] for name in reads[len(rows) :] if name in given}
            if OBSERVED in reads:
                wanted[OBSERVED] = rows_of(Frame(self._product.abstract, part.states, read_only=True))
            yield from self._returned(self._call(shown, rows, wanted))

    def _named(self, action: str, given: Mapping[str, Any]) -> Does:
        """The abstract action with the parameters of the same names."""
        missing = [name for name in self._parameters[action] if name not in given]
        if missing:
            raise ModellingMistake(
                f"{self._label.action} performs '{action}', and has no parameter {names(missing)} of it: "
                "give a function that returns does(...)"
            )
        return Does(action, {name: given[name] for name in self._parameters[action]})

    def _call(self, shown: Callable[..., Any], rows: list[Machine], given: Mapping[str, object]) -> Any:
        try:
            return shown(*rows, **given)
        except Exception as error:  # noqa: BLE001  # any error of the author's text gets its place
            raise_with_place(error, f"the refinement `{self._product.wanted.name}` of {self._label.action}")

    def _returned(self, returned: Any) -> Iterator[Either]:
        for each in returned if isinstance(returned, tuple | list) else (returned,):
            if not isinstance(each, Does | Either):
                raise ModellingMistake(
                    f"the labels of {self._label.action} are {describe(each)}: return does(...), "
                    "either(...), or a tuple of them"
                )
            choice = each if isinstance(each, Either) else Either((each,), or_nothing=False)
            for one in choice.labels:
                self._check(one)
            yield choice

    def _check(self, one: Does) -> None:
        self._check_action(one.action)
        wanted = self._parameters[one.action]
        if set(one.parameters) != set(wanted):
            raise ModellingMistake(
                f"{self._label.action} performs {one.action} with {names(one.parameters)}: its parameters "
                f"are {names(wanted)}"
            )

    def _given(self, before: Frame) -> dict[str, Any]:
        """The parameters of the concrete label; for a place of a bag, the item there."""
        given: dict[str, Any] = {}
        for name, value in self._label.parameters:
            domain = self._domains[name]
            if isinstance(value, Place) and isinstance(domain, Received):
                before.read_only = False  # the place holds an item in every row
                given[name] = domain.take(rows_of(before), value)
                before.read_only = True
            else:
                given[name] = value
        return given

    def perform(self, paired: _Paired) -> None:
        """Perform the abstract labels on the abstract part."""
        part = paired.abstract
        for choice in self.done(paired.concrete, part):
            part.states = self._perform(choice, part.states)

    def _perform(self, choice: Either, states: U64) -> U64:
        """The abstract states after the first of these labels that is enabled; the flag where none is."""
        abstract = self._product.abstract
        rows = states.shape[1]
        result = states.copy()
        waiting = np.ones(rows, np.bool_)
        applies = np.zeros(rows, np.bool_)
        for one in choice.labels:
            where = _mask(one.when, rows)
            applies |= True if where is None else where
            open_rows = waiting if where is None else waiting & where
            if not open_rows.any():
                continue
            for label, at in self._chosen(one, None if open_rows.all() else open_rows):
                part = states if at is None else states.take(at, axis=1)
                frame = abstract.apply(part, label)
                if frame is None:
                    continue
                after = frame.origin() if at is None else at.take(frame.origin())
                result[:, after] = np.stack(frame.finish())
                waiting[after] = False
        refused = waiting & applies
        if refused.any() and not choice.or_nothing:
            word, bit = self._product.flag
            result[word - self._product.concrete.words, refused] |= bit
        return result

    def _chosen(self, done: Does, where: Mask | None) -> Iterator[tuple[Label, I64 | None]]:
        """The abstract labels with the rows in which each is performed."""
        for label in self._labels[done.action]:
            mask = where
            for name, value in label.parameters:
                found = _equal(done.parameters[name], value)
                if found is False:
                    break
                if found is not True:
                    mask = found if mask is None else mask & found
            else:
                if mask is None:
                    yield label, None
                elif mask.any():
                    yield label, np.flatnonzero(mask)

    def performed(self, frame: Frame, states: U64) -> set[str]:
        """The abstract actions that are performed in some row."""
        found: set[str] = set()
        part = _Part(states)
        for choice in self.done(frame, part):
            states = part.states
            for one in choice.labels:
                where = _mask(one.when, states.shape[1])
                if one.action in found or (where is not None and not where.any()):
                    continue
                for label, at in self._chosen(one, where):
                    some = states if at is None else states.take(at, axis=1)
                    if self._product.abstract.apply(some, label) is not None:
                        found.add(one.action)
                        break
            part.states = self._perform(choice, states)
        return found

    def refusal(self, state: U64) -> str:
        """The abstract label that is not allowed after this state, and the guard that it fails."""
        product = self._product
        text = product.text(self._label, tuple(int(word) for word in state[:, 0]))
        frame = product.concrete.apply(state[: product.concrete.words], self._label)
        assert frame is not None, "the label led to the violation"
        part = _Part(state[product.concrete.words :])
        word, bit = product.flag
        for choice in self.done(frame, part):
            after = self._perform(choice, part.states)
            if after[word - product.concrete.words, 0] & bit:
                reasons = [self._refused(one, part.states) for one in choice.labels if _applies(one)]
                return f"{text} is {', or '.join(reasons)}"
            part.states = after
        raise AssertionError("the flag is set by a label that is refused")

    def _refused(self, one: Does, state: U64) -> str:
        """Why a label is not possible in a single state."""
        other = self._product.other
        label = next((each for each, _ in self._chosen(one, None)), None)
        if label is None:
            given = ", ".join(f"{name}={_first(value)}" for name, value in one.parameters.items())
            return f"{one.action}({given}), which is no label of {other.name}"
        guard = self._product.abstract.failed_guard(state, label)
        return f"{label}, which {other.name} does not allow here: {guard}"


def _applies(one: Does) -> bool:
    """True if the condition holds in a single state."""
    where = _mask(one.when, 1)
    return where is None or bool(where[0])


def _parameters(shown: Callable[..., Any]) -> tuple[str, ...]:
    """The names of all parameters of a function of the author."""
    code = shown.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _mask(when: Truth | bool, rows: int) -> Mask | None:
    """The rows of a condition; None for all."""
    if isinstance(when, bool):
        return None if when else np.zeros(rows, np.bool_)
    mask = when.mask()
    return mask if mask.ndim else _mask(bool(mask), rows)


def _equal(given: Any, value: object) -> Mask | bool:
    """Where a parameter has a value; True or False for a constant."""
    if isinstance(given, Truth):
        mask = given.mask() == bool(value)
    elif isinstance(given, Column):
        mask = (given == value).mask()
    else:
        return bool(given == value)
    return mask if mask.ndim else bool(mask)


def _first(value: Any) -> object:
    if not isinstance(value, Column):
        return value
    return repr(value).rpartition(": ")[2].rstrip(">")
